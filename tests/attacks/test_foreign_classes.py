# SPDX-License-Identifier: Apache-2.0
"""A node leaves out steps and states a determinism class that no verifier runs, so that only the
tolerances of the spec speak. In bf16 they are wide, so such a job has to list the classes it takes,
and does not pay another one. A class that it lists and that no verifier runs is paid for less work.
No chain is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import UNCLAIMED, Violation
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder, work_order
from agents.training.determinism import determinism_class
from agents.training.replay import run_task
from agents.training.spec import SpecError
from agents.training.state import State, model_hash
from agents.verify.spot_checks import Finding, malformed, reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    WEIGHTS,
    HonestRound,
    make_honest_round,
)

LIAR, STEPS = 9, 12
SKIPPED = STEPS // 4
BATCHES = STEPS * sum(WEIGHTS) // WEIGHTS[NODES.index(LIAR)]
FOREIGN = "torch=0;device=abacus"


@dataclass(frozen=True)
class Lie:
    """A round in which the liar made three quarters of its steps, and went on along the last one
    for the others."""

    round: HonestRound
    update: State

    def submitted(self, stated: str) -> Submission:
        """What the liar reveals, naming the class `stated`."""
        job = self.round.job
        payload = job.codec.encode(self.update, None, b"")
        reveal = self.round.reveal(LIAR, payload, determinism_class=stated)
        return fetch(reveal, job, self.round.store)

    def everybody(self, stated: str) -> list[Submission]:
        honest = [s for s in self.round.honest() if s.reveal.node != LIAR]
        return [*honest, self.submitted(stated)]

    def finding(self, node: int, stated: str) -> Finding:
        """What a verifier of this machine's class finds."""
        inputs = self.round.inputs(self.everybody(stated))
        for found in malformed(inputs):
            if found.node == node:
                return found
        return reexecute(inputs, node, DEVICE, self.round.store)


def order_of(round_: HonestRound) -> WorkOrder:
    job, step = round_.job, round_.plan.step
    return work_order(round_.plan.manifest, LIAR, job.spec, JOB, step, model_hash(round_.before))


def lie(store: EmbeddedStore, **changes: Any) -> Lie:
    """`changes`: fields of a spec in bf16."""
    round_ = make_honest_round(store, batches_per_round=BATCHES, precision="bf16", **changes)
    net, states = round_.job.net(DEVICE), []

    def note(*_: Any) -> None:
        states.append(net.split(net.values.clone()))

    run_task(net, order_of(round_), round_.before, round_.job.data, note)
    earlier, reached = states[STEPS - SKIPPED - 2 : STEPS - SKIPPED]
    before = round_.before
    return Lie(
        round_,
        {
            name: before[name] - reached[name] + SKIPPED * (earlier[name] - reached[name])
            for name in before
        },
    )


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Lie:
    """In a job that also lists a class which no verifier runs."""
    store = EmbeddedStore(tmp_path_factory.mktemp("unwatched") / "store")
    return lie(store, classes=[FOREIGN, determinism_class(DEVICE)])


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Lie:
    """In a job that lists the verifiers' class."""
    store = EmbeddedStore(tmp_path_factory.mktemp("listed") / "store")
    return lie(store, classes=[determinism_class(DEVICE)])


def test_without_a_list__the_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="may skip 4 of 12 steps or more, 22 of 96, and be paid"):
        lie(EmbeddedStore(tmp_path / "store"))


def test_where_nobody_runs_a_listed_class__a_quarter_of_the_steps_is_skipped_and_paid(
    unwatched: Lie,
) -> None:
    assert unwatched.finding(LIAR, FOREIGN).violation is None
    assert LIAR in unwatched.round.compute(unwatched.everybody(FOREIGN)).nodes
    assert unwatched.finding(LIAR, determinism_class(DEVICE)).violation == Violation.INVALID


def test_with_a_list__the_foreign_class_is_unpaid_and_invalid(listed: Lie) -> None:
    found = listed.finding(LIAR, FOREIGN)
    assert found.violation == Violation.INVALID
    assert "which the job does not list" in found.reason
    paid = listed.round.compute(listed.everybody(FOREIGN)).nodes
    # Its part is the treasury's, as that of every node whose payload is left out.
    assert paid == (UNCLAIMED, *sorted({*NODES} - {LIAR}))


def test_with_a_list__a_listed_class_is_compared_to_the_bit(listed: Lie) -> None:
    found = listed.finding(LIAR, determinism_class(DEVICE))
    assert found.violation == Violation.INVALID and "other bits" in found.reason


def test_with_a_list__the_honest_are_paid_alike(unwatched: Lie, listed: Lie) -> None:
    own = determinism_class(DEVICE)
    for node in sorted({*NODES} - {LIAR}):
        assert unwatched.finding(node, FOREIGN).violation is None
        assert listed.finding(node, FOREIGN).violation is None
        assert listed.finding(node, own).violation is None
    before, now = (one.round.compute(one.round.honest()) for one in (unwatched, listed))
    assert (now.nodes, now.contributions) == (before.nodes, before.contributions)
    assert now.model == before.model
