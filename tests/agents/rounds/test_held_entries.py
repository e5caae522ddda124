# SPDX-License-Identifier: Apache-2.0
"""Who judges a round never holds a miner's entries: a few messages at a time, of any number.

One miner holds each stage and messages are large, so entries are as long as a log of this round
allows. Memory is what Python has allocated; tensors are not in it.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agents.audit.sources.artefacts import Artefacts
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, max_message_bytes
from agents.storage.embedded import EmbeddedStore
from agents.verify.miners import check_miner
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import OTHER_CLASS, PIPELINE, MinedRound, make_mined_round
from tests.stage.memory.tiny_specs import tiny_model

NODE = 5  # of the middle stage, whose entries have two messages a sample
SAMPLES = 32
HELD = 8 << 20  # a few messages, and a few pieces of a file
LARGE = 3  # times as long as that are the entries of the middle stage


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    """Messages of half a MiB."""
    return make_mined_round(
        EmbeddedStore(tmp_path_factory.mktemp("heavy")),
        miners=(2, 3, 5),
        model={**tiny_model(256, 16, 256, layers=3), "tie_embeddings": False},
        optimizer={"batch_size": 2, "seq_len": 256, "lr": 1e-2},
        pipeline={**PIPELINE, "boundary": "none", "boundary_options": {}},
        batches_per_round=SAMPLES,
    )


@pytest.fixture(scope="module")
def judged(heavy: MinedRound) -> RoundInputs:
    """The miner states another class, so its neighbours' entries are read as well."""
    miners = [heavy.submit(node) for node in heavy.works if node != NODE]
    return heavy.inputs([*miners, heavy.submit(NODE, determinism=OTHER_CLASS)])


@contextmanager
def bounded() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < HELD, f"{peak} bytes were held"


def test_the_entries_are_long(heavy: MinedRound) -> None:
    assert heavy.plan.epoch is not None and heavy.plan.epoch.stage_of(NODE) == 1
    size = len(heavy.shown(NODE).inbox)
    assert size > 2 * SAMPLES * (max_message_bytes(heavy.job) - 100) > LARGE * HELD


@pytest.mark.parametrize("audited", [False, True])
def test_fetching_a_miner(heavy: MinedRound, audited: bool) -> None:
    reveal = heavy.submit(NODE).reveal
    store = Artefacts(heavy.store) if audited else heavy.store
    made = MinedRound(**{**vars(heavy), "store": store})
    with bounded():
        assert made.fetch(reveal).reason == ""


@pytest.mark.parametrize("same_class", [True, False])
def test_judging_a_miner(heavy: MinedRound, judged: RoundInputs, same_class: bool) -> None:
    one = heavy.submit(NODE) if same_class else judged.submissions[-1]
    assert isinstance(one, Mined)
    with bounded():
        verdict = check_miner(judged, one, DEVICE, heavy.store)
    assert verdict.right, verdict.reason
