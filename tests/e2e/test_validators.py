# SPDX-License-Identifier: Apache-2.0
"""Validators of a job scored by Gauntlet, as processes: what they commit, reveal and publish.

Two of three die in the first round, one before its commitment and one between commitment and
reveal. Nothing is lost: every vector of every round is revealed, every record follows from the one
before it, the consensus is the median of the vectors, and it is what pays.
"""

from __future__ import annotations

from typing import Any

from agents.audit.replay import audit_job
from agents.gauntlet.record import MAX_RECORD_BYTES, ScoreRecord
from agents.gauntlet.replay import replay
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.median import stake_median
from agents.protocol.numbers import ScorePhase
from agents.protocol.scores import Consensus
from agents.rounds.models import Models
from agents.storage.content_store import open_store
from tests.stage.memory.tiny_specs import GAUNTLET, signed_steps
from tests.stage.network import TERMS, LocalNetwork

ROUNDS = 3
FREE_JOB: dict[str, Any] = {
    **GAUNTLET,
    "audit_sample": 0,
    "score_options": {"evaluated": 3, "eval_batches": 2},
    "optimizer": signed_steps(4, 16, 2e-3, outer_decay=True),
}


def test_every_vector_is_revealed_replays_and_pays(local: LocalNetwork) -> None:
    local.arm(
        {"validator-before-commit": ("verifier-1",), "validator-before-reveal": ("verifier-2",)}
    )
    job = local.job(rounds=ROUNDS, **FREE_JOB)
    local.finish(job)
    assert sorted(local.crashed) == ["verifier-1", "verifier-2"]
    history = local.assert_whole(job)

    network, consensus = local.network, Consensus(local.network)
    options = Models(network, local.store).job(job).score
    assert isinstance(options, Gauntlet)
    verifiers = {local.node_id(name) for name in local.names("verifier")}
    before: dict[int, ScoreRecord | None] = dict.fromkeys(verifiers)
    earned = 0
    for number in range(1, ROUNDS + 1):
        scoring = consensus.scoring(job, number)
        assert scoring.phase == ScorePhase.CLOSED
        assert (scoring.committed, scoring.revealed) == (3, 3)
        round_ = local.round(job, number)
        snapshot = network.snapshot(job, number, round_)
        vectors = consensus.vectors(job, number, round_.opened_block, snapshot)
        assert vectors.keys() == verifiers
        for verifier, vector in vectors.items():
            record = ScoreRecord.from_bytes(local.store.get_digest(vector.record, MAX_RECORD_BYTES))
            assert (record.job, record.round, record.verifier) == (job, number, verifier)
            assert record.vector() == list(vector.scores.values())
            assert replay(record, before[verifier], options) == []
            assert [line.failure for line in record.scores] == [""] * len(snapshot.nodes)
            assert {line.sync for line in record.scores} == {0}
            before[verifier] = record
        # From one seed, on one machine, all find the same.
        assert len({tuple(vector.scores.values()) for vector in vectors.values()}) == 1

        median = stake_median(
            [list(vectors[v].scores.values()) for v in snapshot.verifiers],
            list(snapshot.verifiers.values()),
            sum(snapshot.verifiers.values()),
        )
        paid = {n: c for n, c in zip(snapshot.nodes, median, strict=True) if c}
        assert scoring.total == sum(paid.values())
        assert scoring.scored == bool(paid)
        if paid:
            assert consensus.shares(job, number) == paid
            earned += 1
    assert earned, "no round was scored"
    trainers = sum(history.nodes[local.node_id(n)].earned for n in local.names("trainer"))
    share = 10_000 - TERMS.verifier_bps - TERMS.aggregator_bps
    # What a verifier's cut is short of goes to the trainers.
    assert trainers >= ROUNDS * (TERMS.reward_per_round * share // 10_000 - 3)
    found = audit_job(network, open_store(str(local.net.store)), job, deep=True)
    assert [str(difference) for difference in found.differences] == []
    assert sum(part.counts["losses"] for part in found.rounds) > 0
