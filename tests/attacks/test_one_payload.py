# SPDX-License-Identifier: Apache-2.0
"""One payload under `merge: mean`: what it does to the loss, refused and not refused.

A job of four nodes trains for twelve rounds. In the sixth one of them sends another payload, or in
each from there on. Its numbers go where the loss on the validation text rises. Run with `-s` to see
the losses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.protocol.numbers import Violation
from agents.rounds.payload_bound import bound_of, no_bound
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign
from agents.training.model import next_token_loss
from agents.training.most_moved import MARGIN, Most
from agents.training.optimizers import chosen
from agents.training.spec import Hyperparameters
from agents.training.state import State
from agents.verify.spot_checks import Finding, malformed
from tests.stage.memory.honest_round import DEVICE, NODES, TinyJob, make_tiny_job, make_work
from tests.stage.memory.tiny_specs import tiny_model

ROUNDS, WHEN, CHEAT = 12, 5, 8
JOB: dict[str, Any] = {
    "model": tiny_model(32, 64, 32, 2),
    "batches_per_round": 24,
    "rounds": ROUNDS,
    "eval_batches": 8,
    "merge": "mean",
}
STEPS = {"batch_size": 8, "seq_len": 32, "lr": 4e-3}
UNDONE = {"access": "local", "verify": "screening", "score": "batches"}
Chosen = Callable[["Poisoned", State, int], State]


@dataclass(frozen=True)
class Poisoned:
    """A job, and who reads its payloads with the bound, or without it as before 2026-11-30."""

    tiny: TinyJob
    bounded: bool = True

    def run(
        self, choose: Chosen | None, when: Collection[int] = (WHEN,), rounds: int = ROUNDS
    ) -> tuple[list[float], list[Finding]]:
        """The validation loss before the first and after each round, and what the bytes of payloads
        alone show. `choose`: the cheat's payload in the rounds of `when`; None: all are honest. It
        ends early once nobody can train."""
        job, state = self.tiny.job, self.tiny.before
        losses: list[float] = []
        found: list[Finding] = []
        for step in range(rounds):
            manifest = assign(bytes([step]) * 32, NODES, [10] * 4, job.spec, cursor=24 * step)
            plan = Plan(manifest, step, (), manifest.cursor)
            here = Poisoned(replace(self.tiny, before=state), self.bounded)
            try:
                chosen_now = choose if step in when else None
                sent = [here.sent(plan, node, chosen_now) for node in NODES]
            except FloatingPointError:
                break
            outcome = here.tiny.outcome_of(plan, sent)
            found += malformed(here.tiny.inputs_of(plan, sent))
            losses += [outcome.report.val_loss_before] * (not losses) + [outcome.report.val_loss]
            state = outcome.state
        return losses, found

    def sent(self, plan: Plan, node: int, choose: Chosen | None) -> Submission:
        job, before = self.tiny.job, self.tiny.before
        work = make_work(job, plan, before, node)
        if choose is not None and node == CHEAT:
            payload = job.codec.encode(choose(self, work.gradient, plan.step), None, b"")
            work = replace(work, payload=payload)
        work.publish(self.tiny.store)
        allowed = bound_of(job, plan, node, lambda: before) if self.bounded else no_bound
        return fetch(work.reveal(), job, self.tiny.store, allowed=allowed)

    def uphill(self) -> State:
        """The direction in which each number makes the loss rise, as an update that is subtracted:
        minus the signs of the gradient on the validation text."""
        job, net = self.tiny.job, self.tiny.job.net(DEVICE)
        net.load(self.tiny.before)
        net.grads.zero_()
        for batch in job.data.val_batches(job.spec.eval_batches):
            next_token_loss(net.model, batch).backward()
        return {name: -part.sign() for name, part in net.split(net.grads).items()}

    def most(self, step: int) -> Mapping[str, Most]:
        job = self.tiny.job
        hyper = Hyperparameters.of(job.spec, step)
        inner = chosen(hyper.inner, hyper.inner_options)
        return inner.most_moved(job.shapes, job.hidden, hyper, 24 // len(NODES))


def huge(job: Poisoned, honest: State, step: int) -> State:
    return {name: 1e6 * part for name, part in job.uphill().items()}


def one_number(job: Poisoned, honest: State, step: int) -> State:
    """All else is honest, so the payload is no longer than usual ones in all but one number."""
    sent = {name: part.clone() for name, part in honest.items()}
    sent["norm.weight"][0] = 1e15
    return sent


def as_far_as_it_may(job: Poisoned, honest: State, step: int) -> State:
    """Of AdamW: each number by all that is allowed."""
    most = job.most(step)
    return {n: 0.999 * MARGIN * most[n].number * part for n, part in job.uphill().items()}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyJob:
    torch.set_num_threads(1)
    store = EmbeddedStore(tmp_path_factory.mktemp("poisoned") / "store")
    return make_tiny_job(store, optimizer=STEPS, **JOB)


@pytest.fixture(scope="module")
def clean(tiny: TinyJob) -> list[float]:
    losses, found = Poisoned(tiny).run(None)
    assert not found
    return told("nobody poisons", losses)


def told(what: str, losses: list[float]) -> list[float]:
    print(f"\n{what}: {' '.join(f'{loss:.3f}' for loss in losses)}")
    return losses


@pytest.mark.parametrize("choose", [huge, one_number])
def test_without_a_bound_one_payload_spoils_the_model_for_good(
    tiny: TinyJob, clean: list[float], choose: Chosen
) -> None:
    """As it was. A conviction takes pay and stake, and brings no model back."""
    losses, _ = Poisoned(tiny, bounded=False).run(choose)
    told(f"{choose.__name__}, merged", losses)
    assert len(losses) < len(clean) or min(losses[WHEN + 1 :]) > clean[0]


@pytest.mark.parametrize("choose", [huge, one_number])
def test_with_it_the_model_is_as_without_its_node_and_the_node_is_found(
    tiny: TinyJob, clean: list[float], choose: Chosen
) -> None:
    losses, found = Poisoned(tiny).run(choose)
    told(f"{choose.__name__}, refused", losses)
    assert losses[-1] == pytest.approx(clean[-1], abs=0.01)
    assert [(one.node, one.violation) for one in found] == [(CHEAT, Violation.INVALID)]


def test_where_nobody_does_work_again_the_bytes_alone_are_the_finding(tmp_path: Path) -> None:
    undone = make_tiny_job(EmbeddedStore(tmp_path / "store"), optimizer=STEPS, **JOB, **UNDONE)
    _, found = Poisoned(undone).run(huge, when=(0,), rounds=1)
    assert [(one.node, one.violation) for one in found] == [(CHEAT, Violation.INVALID)]


@pytest.mark.parametrize("when", [(WHEN,), range(WHEN, ROUNDS)], ids=["once", "each round"])
def test_within_the_bound_a_payload_costs_rounds(
    tiny: TinyJob, clean: list[float], when: Collection[int]
) -> None:
    """Not prevented. Sent once it costs three rounds of twelve, and training goes on from there."""
    losses, found = Poisoned(tiny).run(as_far_as_it_may, when)
    told(f"as far as it may, {len(when)} times", losses)
    assert not found
    assert losses[WHEN] < losses[WHEN + 1] < clean[WHEN - 2]
    if len(when) == 1:
        assert losses[-1] < clean[-4]
