# SPDX-License-Identifier: Apache-2.0
"""`optimizer.inner_state: kept`: anyone finds what a node's inner optimizer starts a round with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import Violation
from agents.rounds.carried import Carried
from agents.rounds.plan import Plan
from agents.rounds.submissions import fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import next_carry
from agents.training.norms import distance, norm
from agents.training.state import State, model_hash
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    HonestRound,
    HonestWork,
    make_honest_round,
    make_work,
)
from tests.stage.memory.honest_run import THIRD, HonestRun

OPTIMIZER = {"batch_size": 2, "seq_len": 16, "inner_state": "kept", "inner_state_rounds": 2}
MUON = {**OPTIMIZER, "inner": "muon"}


class Run(HonestRun):
    """With each node's work, whose state it keeps as a trainer does."""

    def __init__(self, tiny: HonestRound) -> None:
        super().__init__(tiny)
        self.works = dict(tiny.works)

    def work(
        self, plan: Plan, node: int, inner: State | None, memory: State | None = None
    ) -> HonestWork:
        return make_work(self.tiny.job, plan, self.before, node, memory, inner=inner)

    def finish(self, plan: Plan, works: dict[int, HonestWork]) -> Plan:
        """The second round becomes final; the third's plan."""
        tiny = replace(self.tiny, plan=plan, before=self.before, works=works)
        outcome = tiny.compute(tiny.honest())
        self.facts.record(2, outcome, tiny.store)
        self.carry, self.cursor = next_carry(plan.manifest, NODES)
        return self.next(THIRD, 2, 3)

    def found(self, plan: Plan, works: dict[int, HonestWork], node: int) -> Any:
        """What a verifier finds who does the node's work again."""
        tiny = replace(self.tiny, plan=plan, before=self.before, works=works)
        seed = plan.codec_seed(tiny.job.codec, node)
        submissions = [fetch(tiny.reveal(one), tiny.job, tiny.store, seed) for one in works]
        memories = self.memories()
        inputs = replace(
            tiny.inputs(submissions), inner=lambda one: memories.carried(1, plan, one).inner
        )
        return reexecute(inputs, node, DEVICE, tiny.store)


@pytest.fixture(scope="module", params=["adamw", "muon"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    store = EmbeddedStore(tmp_path_factory.mktemp("store"))
    return make_honest_round(store, optimizer={**OPTIMIZER, "inner": request.param})


@pytest.fixture
def run(tiny: HonestRound) -> Run:
    return Run(tiny)


def digest(state: State | None) -> bytes | None:
    return None if state is None else model_hash(state)


def test_a_first_round_starts_from_zero(run: Run) -> None:
    assert run.memories().carried(1, run.tiny.plan, 5) == Carried()


def test_a_verifier_finds_the_state_that_the_trainer_kept(run: Run) -> None:
    plan, memories = run.next(), run.memories()
    for node in NODES:
        assert digest(memories.carried(1, plan, node).inner) == digest(run.works[node].inner)
    assert len({digest(run.works[node].inner) for node in NODES}) == len(NODES)


def test_it_is_zero_again_after_so_many_rounds(run: Run) -> None:
    assert run.memories().carried(1, replace(run.next(), step=2), 5).inner is None


def test_a_round_whose_work_was_invalid_leaves_nothing(run: Run) -> None:
    run.facts.invalid.add((1, 5))
    plan = run.next()
    assert run.memories().carried(1, plan, 5).inner is None
    assert run.memories().carried(1, plan, 8).inner is not None


def test_who_looks_after_an_appeal_agrees_with_who_looked_before(run: Run) -> None:
    """What counted as the round opened counts in it for ever. In a round that opens after the
    appeal the node has what it had gathered, also for a verifier that looked in between."""
    run.facts.invalid.add((1, 5))
    second, early = run.next(), run.memories()
    assert early.carried(1, second, 5).inner is None
    run.facts.invalid.remove((1, 5))
    third = run.next(THIRD, 1, 3)
    for memories in (early, run.memories()):
        assert memories.carried(1, second, 5).inner is None
        assert digest(memories.carried(1, third, 5).inner) == digest(run.works[5].inner)


def test_a_trainers_own_copy_saves_it_the_work(run: Run) -> None:
    plan, own = run.next(), Carried(inner=run.works[5].inner)
    assert run.memories().carried(1, plan, 5, lambda *place: own).inner is own.inner


def test_moved_weights_lead_to_another_state_which_is_not_kept(run: Run) -> None:
    plan, memories = run.next(), run.memories()
    moved, own = memories.carried(1, plan, 5, moved_by=b"draw" * 8).inner, run.works[5].inner
    assert moved is not None and own is not None
    assert 0 < distance(moved, own) < 0.01 * norm(own)
    assert digest(memories.carried(1, plan, 5).inner) == digest(own)


def test_work_from_the_kept_state_is_reproduced(run: Run) -> None:
    plan = run.next()
    works = {node: run.work(plan, node, run.works[node].inner) for node in NODES}
    for node in NODES:
        found = run.found(plan, works, node)
        assert found.violation is None, found.reason


@pytest.mark.parametrize("lie", ["zero", "another's", "of a round that it skipped", "scaled"])
def test_work_from_any_other_state_is_invalid(run: Run, lie: str) -> None:
    """A node can't choose what its momentum is: it has no state but what its own rounds gave."""
    plan = run.next()
    mine = run.works[5].inner
    assert mine is not None
    other = {
        "zero": None,
        "another's": run.works[8].inner,
        "of a round that it skipped": run.work(run.tiny.plan, 5, mine).inner,
        "scaled": {name: t if name == "steps" else 3 * t for name, t in mine.items()},
    }[lie]
    works = {node: run.work(plan, node, run.works[node].inner) for node in NODES}
    works[5] = run.work(plan, 5, other)
    assert run.found(plan, works, 5).violation == Violation.INVALID
    assert run.found(plan, works, 8).violation is None


def test_codec_and_optimizer_advance_together(tmp_path: Path) -> None:
    """With a lossy codec the memory is that of updates from the kept state."""
    store = EmbeddedStore(tmp_path)
    options = {"memory_rounds": 4}
    tiny = make_honest_round(
        store, optimizer=MUON, codec="sparse", codec_options=options, merge="mean"
    )
    run, job = Run(tiny), tiny.job
    plan, seed = run.next(), SEED
    owed = {}
    for node, work in run.works.items():
        decoded = job.codec.decode(work.payload, job.shapes, seed)
        owed[node] = job.codec.remember(work.gradient, None, decoded)
        found = run.memories().carried(1, plan, node)
        assert digest(found.owed) == digest(owed[node]) and found.owed is not None
        assert digest(found.inner) == digest(work.inner)
    second = {node: run.work(plan, node, run.works[node].inner, owed[node]) for node in NODES}
    third = run.finish(plan, second)
    later = run.memories().carried(1, third, 5)
    decoded = job.codec.decode(second[5].payload, job.shapes, plan.codec_seed(job.codec, 5))
    assert later.inner is None  # two rounds are over
    assert digest(later.owed) == digest(job.codec.remember(second[5].gradient, owed[5], decoded))
