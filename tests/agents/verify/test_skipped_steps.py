# SPDX-License-Identifier: Apache-2.0
"""A node that makes a part of its steps and states another class than the verifier's: how many of
twelve it may leave out is what the tolerances allow, and by default that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agents.protocol.numbers import Violation
from agents.rounds.submissions import fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import work_order
from agents.training.determinism import determinism_class
from agents.training.norms import dot, norm
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
OTHER = "torch=0;device=abacus"
OTHER_CLASS = {"determinism_class": OTHER}


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
    # So wide tolerances are refused without a list, and a listed class is compared by them.
    wide = {"tolerances": BEFORE, "classes": [OTHER, determinism_class(DEVICE)]}
    changes = wide if request.param == "before" else {}
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


LOSSY: dict[str, dict[str, Any]] = {
    "sparse": {"codec": "sparse", "merge": "mean"},
    "demo": {
        "codec": "demo",
        "merge": "mean",
        "codec_options": {"chunk": 8, "per_chunk": 12, "decay": 0.0, "memory_rounds": 4},
    },
    "polytope": {"codec": "polytope"},
    "semantic": {"codec": "semantic", "codec_options": {"ratio": 8, "clip": 4.0}},
}


@pytest.fixture(scope="module", params=sorted(LOSSY))
def lossy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    store = EmbeddedStore(tmp_path_factory.mktemp(request.param) / "store")
    return make_honest_round(store, batches_per_round=BATCHES, **LOSSY[request.param])


def said(round_: HonestRound, update: State) -> Finding:
    """What a verifier of another class finds of a node that sends this update."""
    job = round_.job
    payload = job.codec.encode(update, None, round_.plan.codec_seed(job.codec, NODE))
    sent = fetch(round_.reveal(NODE, payload, **OTHER_CLASS), job, round_.store)
    assert sent.gradient is not None, sent.reason
    submissions = [sent if s.reveal.node == NODE else s for s in round_.honest()]
    return reexecute(round_.inputs(submissions), NODE, DEVICE, round_.store)


def rounded(update: State, share: float, number: int) -> State:
    """The update as a machine with other roundings has it: so far away, somewhere."""
    source = torch.Generator().manual_seed(number)
    drawn = {name: torch.randn(part.shape, generator=source) for name, part in update.items()}
    far = share * norm(update) / norm(drawn)
    return {name: part + far * drawn[name] for name, part in update.items()}


def test_codes_that_flip_by_rounding_are_nobodys_fault(lossy: HonestRound) -> None:
    """4.9e-5 of a settled round and 2.4e-3 of an unsettled one, in eight directions each."""
    update = lossy.works[NODE].gradient
    for share in (4.9e-5, 2.4e-3):
        for number in range(8):
            found = said(lossy, rounded(update, share, number))
            assert found.violation is None, found.reason


def test_no_step_can_be_skipped_behind_a_lossy_codec(lossy: HonestRound) -> None:
    """Whatever length the cheat gives what it has, and whichever share of its steps it leaves out;
    before, up to a tenth of what was sent could differ."""
    steps = reached(lossy)
    whole = steps[-1]
    for skipped in range(1, STEPS):
        done = steps[STEPS - skipped - 1]
        best = dot(done, whole) / dot(done, done)  # no cheat knows it
        for longer in (1.0, STEPS / (STEPS - skipped), best):
            found = said(lossy, {name: part * longer for name, part in done.items()})
            assert found.violation == Violation.INVALID, f"{skipped} skipped, times {longer}"


def test_a_cheat_gains_next_to_nothing_within_the_tolerance(lossy: HonestRound) -> None:
    """An honest update made longer, so that it counts for more, as far as it passes: below 3 %,
    where a lossy codec's tolerance allowed 10 %."""
    update = lossy.works[NODE].gradient
    passed = [
        percent
        for percent in (1, 3, 5, 10)
        if said(lossy, {n: p * (1 + percent / 100) for n, p in update.items()}).violation is None
    ]
    print(f"\n{lossy.job.spec.codec}: longer by {passed} % passes")
    assert all(percent < 3 for percent in passed)
