# SPDX-License-Identifier: Apache-2.0
"""Miners that no post reaches work through the store alone, and are paid as all others.

Five miners hold two stages. Two of them open no socket and know nobody's address, so nobody knows
theirs. A third announces an address at which nobody answers. Only the boxes of the store lie
between them, and a stranger throws rubbish into those while the epoch runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.audit.replay import audit_job
from agents.protocol.numbers import Phase
from agents.storage.canonical import loads
from agents.storage.embedded import EmbeddedStore
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENT_ROLES, AGENTS, SHORT_BENCHMARK
from tests.stage.memory.tiny_specs import tiny_model
from tests.stage.network import LocalNetwork

STAGES, SAMPLES = 2, 24
SPEC: dict[str, Any] = {
    "mode": "pipeline",
    "score": "backward_passes",
    "merge": "mean",
    "batches_per_round": SAMPLES,
    "model": {**tiny_model(16, 32, 16, layers=STAGES), "tie_embeddings": False},
    "pipeline": {
        "layers": [1] * STAGES,
        "boundary_options": {"width": 4},
        "local_batch": 2,
        "all_reduce": "butterfly",
        "least_valid": 1.0,
    },
}
# On a busy machine a letter through the store takes seconds.
TIMES = {**SHORT_BENCHMARK, "answer_s": 8.0, "linger_s": 60.0, "gather_s": 30.0}
_RUBBISH = 20  # files that a stranger throws into each box at once
ALONE = ("trainer-1", "trainer-2")
UNREACHED = "trainer-3"
SETTINGS = LocalnetSettings(
    trainers=5,
    verifiers=2,
    aggregators=1,
    agent={**AGENTS, "trainer": TIMES},
    trainer={
        **{name: {"post_listen": False, "post_peers": []} for name in ALONE},
        UNREACHED: {"post_url": "http://127.0.0.1:9"},
    },
)


@pytest.fixture
def pipeline(build: Callable[[LocalnetSettings], LocalNetwork]) -> Iterator[LocalNetwork]:
    local = build(SETTINGS)
    local.start(*local.names(*AGENT_ROLES))
    local.wait_eligible(local.names(*AGENT_ROLES))
    yield local


class Stranger:
    """Throws rubbish into every box that it sees."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store, self.thrown, self._next_at = store, 0, 0.0
        self.boxes: set[str] = set()

    def throw(self) -> None:
        """Some of it, twice a second at most."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + 0.5
        folder = self._store.root / "boxes"
        for name in [box.name for box in folder.iterdir()] if folder.is_dir() else []:
            self.boxes.add(name)
            for _ in range(_RUBBISH):
                self.thrown += 1
                cid = self._store.put_bytes(b"rubbish %d" % self.thrown)
                self._store.leave(bytes.fromhex(name), cid)


def test_miners_that_have_the_store_alone_do_their_share_and_are_paid(
    pipeline: LocalNetwork,
) -> None:
    assert isinstance(pipeline.store, EmbeddedStore)
    stranger = Stranger(pipeline.store)
    job = pipeline.job(**SPEC)

    def meanwhile() -> None:
        if pipeline.phase(job) in (Phase.COMMIT, Phase.AGGREGATE):
            stranger.throw()

    history = pipeline.finish(job, meanwhile)
    pipeline.assert_whole(job)
    assert len(stranger.boxes) > 2, "the stranger found boxes to throw rubbish into"
    (story,) = history.rounds.values()
    assert story.report is not None and story.report.shards is not None
    done = {line.node: line.batches for line in story.report.nodes}
    for name in (*ALONE, UNREACHED):
        assert done[pipeline.node_id(name)] > 0, f"no pass of {name} counts: {done}"
        owed, got = pipeline.claim(name)
        assert owed == got > 0, f"{name} should be paid"
    assert sum(done.values()) > STAGES * SAMPLES * 0.5, f"most samples were lost: {done}"
    record = loads(pipeline.store.get(story.report.shards, 1 << 20))
    for merge in record["stages"]:
        assert merge["accepted"] and not merge["lost"] and not merge["liars"]
        assert len(merge["statements"]) == len(merge["owners"])
    found = audit_job(pipeline.network, pipeline.store, job, deep=True)
    assert [str(difference) for difference in found.differences] == [] and found.holds
