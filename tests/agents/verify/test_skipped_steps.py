# SPDX-License-Identifier: Apache-2.0
"""A node that makes a part of its steps and states another class than the verifier's: how many of
twelve it may leave out is what the tolerances allow, and by default that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import Violation
from agents.rounds.submissions import fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import work_order
from agents.training.replay import run_task
from agents.training.state import State, model_hash
from agents.verify.spot_checks import Finding, reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    WEIGHTS,
    HonestRound,
    make_honest_round,
)

NODE, STEPS = 9, 12
BATCHES = STEPS * sum(WEIGHTS) // WEIGHTS[NODES.index(NODE)]
BEFORE = {"cosine_min": 0.99, "rel_l2_max": 0.1}
OTHER_CLASS = {"determinism_class": "torch=0;device=abacus"}


def reached(round_: HonestRound) -> list[State]:
    """theta_0 - theta_i after each of the node's steps."""
    job, before = round_.job, round_.before
    order = work_order(
        round_.plan.manifest, NODE, job.spec, JOB, round_.plan.step, model_hash(before)
    )
    net, found = job.net(DEVICE), []

    def note(*_: Any) -> None:
        found.append({name: before[name] - part for name, part in net.split(net.values).items()})

    run_task(net, order, before, job.data, note)
    return found


def skipping(round_: HonestRound, skipped: int, **claims: Any) -> Finding:
    """What a verifier finds of a node that stops early and makes its update longer by that much."""
    done = reached(round_)[STEPS - skipped - 1]
    update = {name: part * (STEPS / (STEPS - skipped)) for name, part in done.items()}
    payload = round_.job.codec.encode(update, None, b"")
    cheat = fetch(round_.reveal(NODE, payload, **claims), round_.job, round_.store)
    submissions = [cheat if s.reveal.node == NODE else s for s in round_.honest()]
    return reexecute(round_.inputs(submissions), NODE, DEVICE, round_.store)


@pytest.fixture(scope="module", params=["before", "default"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = EmbeddedStore(tmp_path_factory.mktemp(request.param) / "store")
    changes = {"tolerances": BEFORE} if request.param == "before" else {}
    return request.param, make_honest_round(store, batches_per_round=BATCHES, **changes)


def test_steps_that_a_false_class_lets_a_node_skip(played: Any) -> None:
    """At a cosine of 0.99 and a relative L2 of 0.1 some, at the defaults none."""
    which, round_ = played
    assert len(reached(round_)) == STEPS
    passed = [
        skipped
        for skipped in range(1, STEPS)
        if skipping(round_, skipped, **OTHER_CLASS).violation is None
    ]
    assert bool(passed) == (which == "before")
    if which == "default":
        assert "Replay disagrees" in skipping(round_, 1, **OTHER_CLASS).reason


def test_in_the_verifiers_class_no_step_can_be_skipped(played: Any) -> None:
    _, round_ = played
    assert skipping(round_, 1).violation == Violation.INVALID


def test_honest_rounding_of_another_machine_passes(played: Any, tmp_path: Path) -> None:
    """2.4e-3, the most that honest machines differed by in 96 steps of fp32."""
    _, round_ = played
    update = {name: part * (1 + 2.4e-3) for name, part in round_.works[NODE].gradient.items()}
    payload = round_.job.codec.encode(update, None, b"")
    honest = fetch(round_.reveal(NODE, payload, **OTHER_CLASS), round_.job, round_.store)
    submissions = [honest if s.reveal.node == NODE else s for s in round_.honest()]
    found = reexecute(round_.inputs(submissions), NODE, DEVICE, round_.store)
    assert found.violation is None
