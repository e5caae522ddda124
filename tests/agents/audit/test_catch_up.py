# SPDX-License-Identifier: Apache-2.0
"""Models from a real chain and signed updates: no checkpoint is due in the rounds replayed.

Of the job in scored.py five rounds are final, and a checkpoint comes every fifty.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agents.rounds.access import DataAccess
from agents.rounds.models import CaughtUp, Models
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.runtime.wallet import Wallet
from agents.storage.errors import CorruptContent, NotFound
from agents.training.state import model_hash
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.finished_scored_job import FREE_JOB, ROUNDS, FinishedScoredJob
from tests.stage.chain.lying_sources import LyingStore


def on_chain(scored: FinishedJob) -> bytes:
    """The job's model as the chain records it."""
    return bytes(scored.network.job(JOB).model)


def test_a_late_joiner_replays_every_update(scored: FinishedScoredJob) -> None:
    """From genesis, through rounds whose outer rate changed, to the chain's hash."""
    assert FREE_JOB["checkpoint_every"] > ROUNDS
    told: list[CaughtUp] = []
    state = Models(scored.network, scored.store, tell=told.append).current(JOB)
    assert model_hash(state) == on_chain(scored) == scored.outcomes[JOB, ROUNDS].model
    assert told == [CaughtUp(JOB, on_chain(scored), 0, ROUNDS, ())]


def test_signed_updates_take_little_more_than_a_bit_a_parameter(scored: FinishedScoredJob) -> None:
    """Tensors of a few numbers have 7 bytes each on top, in this tiny model most of it."""
    for number in range(1, ROUNDS + 1):
        outcome = scored.outcomes[JOB, number]
        count = sum(tensor.numel() for tensor in outcome.merged.values())
        assert outcome.report.checkpoint is None
        assert len(outcome.update) <= 8 + len(outcome.merged) * 8 + 1.25 * count / 8


def test_a_restarted_node_goes_on_from_where_it_was(scored: FinishedScoredJob) -> None:
    """Its process is new, its store is not; it ends at the same bits as one that never stopped."""
    steady = Models(scored.network, scored.store)
    for number in range(1, ROUNDS + 1):
        state = steady.at(JOB, scored.outcomes[JOB, number].model)
    restarted = Models(scored.network, scored.store).current(JOB)
    assert all(torch.equal(state[name], restarted[name]) for name in state)


@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_a_lost_update_is_named(scored: FinishedScoredJob, number: int) -> None:
    update = scored.outcomes[JOB, number].report.update
    store: Any = LyingStore(scored.store, update, None)
    with pytest.raises(NotFound, match=update):
        Models(scored.network, store).current(JOB)


def test_an_update_of_another_round_is_named(scored: FinishedScoredJob) -> None:
    """A store that verifies nothing gives well-formed signs; they lead to no model of the chain."""
    report = scored.outcomes[JOB, 3].report
    store: Any = LyingStore(scored.store, report.update, scored.outcomes[JOB, 2].update)
    with pytest.raises(CorruptContent, match=f"update {report.update} of round 3"):
        Models(scored.network, store).current(JOB)


def test_a_lost_checkpoint_is_made_up_for(finished: FinishedJob) -> None:
    """In finished.py's job one is due every second round; without any it is genesis and updates."""
    last = finished.outcomes[JOB, 5].report.checkpoint
    assert last is not None
    told: list[CaughtUp] = []
    store: Any = LyingStore(finished.store, last, None)
    assert model_hash(Models(finished.network, store, tell=told.append).current(JOB)) == on_chain(
        finished
    )
    assert store.asked
    assert [(found.start, found.replayed) for found in told] == [(2, 2)]


def test_an_agent_that_is_desynchronised_says_so_and_resyncs(
    scored: FinishedScoredJob, tmp_path: Path
) -> None:
    """As agents hold their models: one number of the kept copy is off by one unit in its last
    place; the model of the next use is the chain's, with a line in the log and a count."""
    metrics = Metrics("trainer")
    context: Any = SimpleNamespace(
        wallet=Wallet(scored.people.nodes["ann"].operator),
        log=open_log("trainer", "info", path=tmp_path / "log"),
        metrics=metrics,
        journal=None,
    )
    models = DataAccess(scored.network, scored.store, context).models
    kept = models.current(JOB)
    next(iter(kept.values())).view(torch.int32).view(-1)[0] ^= 1
    assert model_hash(models.current(JOB)) == on_chain(scored)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["caught_up", "resynced"]
    assert lines[1]["damaged"] == [on_chain(scored).hex()]
    assert lines[1]["rounds_replayed"] == ROUNDS
    assert metrics.registry.get_sample_value("menagerie_resyncs_total") == 1
