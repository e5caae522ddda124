# SPDX-License-Identifier: Apache-2.0
"""Error feedback: anyone finds the memory that a node encoded with, from public data alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import agents.rounds.codec_memory as memory_module
from agents.protocol.numbers import Violation
from agents.rounds.carried import Carried
from agents.rounds.codec_memory import Memories
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.rounds.submissions import fetch
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from agents.training.assignment import next_carry
from agents.training.state import State
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    HonestRound,
    make_honest_round,
    make_work,
)
from tests.stage.memory.honest_run import SECOND, THIRD, HonestRun

SPARSE = {"codec": "sparse", "codec_options": {"memory_rounds": 2}, "merge": "mean"}


CELLS = {**SPARSE, "codec": "cells", "codec_options": {"memory_rounds": 2, "cell": 16}}


@pytest.fixture(scope="module", params=[SPARSE, CELLS], ids=["sparse", "cells"])
def tiny(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> HonestRound:
    """With one seed for all nodes, and with one for each."""
    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("store")), **request.param)


def same(one: State | None, other: State | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(torch.equal(one[name], other[name]) for name in one)


class Run(HonestRun):
    """With each node's memory kept as a trainer keeps it."""

    def __init__(self, tiny: HonestRound) -> None:
        super().__init__(tiny)
        self.kept: dict[int, State | None] = {}
        for node, work in tiny.works.items():
            seed = tiny.plan.codec_seed(tiny.job.codec, node)
            decoded = tiny.job.codec.decode(work.payload, tiny.job.shapes, seed)
            self.kept[node] = tiny.job.codec.remember(work.gradient, None, decoded)

    def finish_without(self, plan: Plan, away: int) -> Plan:
        """The second round becomes final, and one node revealed nothing in it; the third's plan."""
        job, store, there = self.tiny.job, self.tiny.store, [n for n in NODES if n != away]
        works = {node: make_work(job, plan, self.before, node, self.kept[node]) for node in there}
        tiny = replace(self.tiny, plan=plan, before=self.before, works=works)
        seeds = {node: plan.codec_seed(job.codec, node) for node in there}
        sent = [fetch(tiny.reveal(node), job, store, seeds[node]) for node in there]
        self.facts.record(2, tiny.compute(sent), store)
        self.carry, self.cursor = next_carry(plan.manifest, there)
        return self.next(THIRD, 2, 3)


@pytest.fixture
def run(tiny: HonestRound) -> Run:
    return Run(tiny)


def test_there_is_no_memory_before_the_first_round(run: Run) -> None:
    assert run.memories().before(1, run.tiny.plan, 5) is None


def test_a_verifier_finds_the_memory_that_the_trainer_kept(run: Run) -> None:
    plan = run.next(SECOND, 1, 2)
    memories = run.memories()
    for node in NODES:
        found = memories.before(1, plan, node)
        assert found is not None and any(bool(tensor.any()) for tensor in found.values())
        assert same(found, run.kept[node])


@pytest.mark.parametrize("changes", [SPARSE, CELLS], ids=["sparse", "cells"])
def test_a_round_that_a_node_is_away_from_leaves_its_memory_alone(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """It owes what it owed before, and the others owe what the round left."""
    options = {**changes["codec_options"], "memory_rounds": 4}
    store = EmbeddedStore(tmp_path)
    run = Run(make_honest_round(store, **{**changes, "codec_options": options}))
    third = run.finish_without(run.next(SECOND, 1, 2), 5)
    memories = run.memories()
    assert run.kept[5] is not None
    assert same(memories.before(1, third, 5), run.kept[5])
    for node in (3, 8, 9):
        assert not same(memories.before(1, third, node), run.kept[node])


def test_a_round_in_which_a_node_was_invalid_leaves_no_memory(run: Run) -> None:
    run.facts.invalid.add((1, 5))
    plan = run.next(SECOND, 1, 2)
    assert run.memories().before(1, plan, 5) is None
    assert run.memories().before(1, plan, 8) is not None


def test_memory_is_empty_again_after_memory_rounds(run: Run) -> None:
    assert run.memories().before(1, replace(run.next(SECOND, 1, 2), step=2), 5) is None


def test_a_trainers_own_copy_is_used_instead_of_its_work(run: Run) -> None:
    plan = run.next(SECOND, 1, 2)
    own = {name: torch.ones(shape) for name, shape in run.tiny.job.shapes.items()}
    asked = []

    def kept(job_id: int, round_id: int, seed: bytes) -> Carried:
        asked.append((job_id, round_id, seed))
        return Carried(own)

    assert run.memories().before(1, plan, 5, kept) is own
    assert asked == [(1, 1, SEED)]


def test_work_encoded_with_memory_is_reproduced_and_without_it_is_not(run: Run) -> None:
    """Whoever drops what it still owed, or invents it, is found by re-execution."""
    plan = run.next(SECOND, 1, 2)
    memories = run.memories()
    for memory, violation in ((run.kept[5], None), (None, Violation.INVALID)):
        works = {
            node: make_work(
                run.tiny.job, plan, run.before, node, memory if node == 5 else run.kept[node]
            )
            for node in NODES
        }
        tiny = replace(run.tiny, plan=plan, before=run.before, works=works)
        submissions = [
            fetch(tiny.reveal(node), tiny.job, tiny.store, plan.manifest.seed) for node in NODES
        ]
        work = replace(tiny.inputs(submissions), memory=lambda node: memories.before(1, plan, node))
        finding = reexecute(work, 5, DEVICE, tiny.store)
        assert finding.violation == violation, finding.reason


def test_an_artefact_that_is_gone_is_an_error_not_another_memory(run: Run, tmp_path: Path) -> None:
    plan = run.next(SECOND, 1, 2)
    empty = EmbeddedStore(tmp_path / "other")
    models = Models(run.facts, run.tiny.store)
    memories = Memories(run.facts, empty, models, Plans(run.facts, models), DEVICE)
    with pytest.raises(StoreError):
        memories.before(1, plan, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"access": "local", "verify": "screening"},
        {
            "score": "gauntlet",
            "verify": "gauntlet",
            "merge": "norm_clip",
            "optimizer": {"batch_size": 2, "seq_len": 16, "inner": "gradient"},
        },
    ],
    ids=["own data", "free"],
)
def test_a_node_whose_work_nobody_redoes_starts_empty_without_its_copy(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """It can't redo noise itself, nobody else has its data, and a free node's work is its own."""
    run = Run(make_honest_round(EmbeddedStore(tmp_path), **{**SPARSE, **changes}))
    plan = run.next(SECOND, 1, 2)
    assert run.memories().before(1, plan, 5, lambda *place: None) is None
    assert same(run.memories().before(1, plan, 5, lambda *place: Carried(run.kept[5])), run.kept[5])
    assert run.kept[5] is not None


def test_a_round_that_nobody_could_have_trained_leaves_the_memory_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its payload was not looked at in time; that must not stop the audit of the next round."""
    plan = run.next(SECOND, 1, 2)

    def diverges(*arguments: object, **named: object) -> None:
        raise FloatingPointError("the loss is not finite")

    monkeypatch.setattr(memory_module, "run_task", diverges)
    assert run.memories().before(1, plan, 5) is None
