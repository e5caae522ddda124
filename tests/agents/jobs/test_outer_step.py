# SPDX-License-Identifier: Apache-2.0
"""The outer step of a split model's rounds: anybody gets the velocity from what is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.jobs.model_files import Index, WrongModel, hash_of, read_model, stage_of
from agents.jobs.outer_step import VELOCITY, stepped
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import SpecError, demo_spec
from agents.training.state import State, load_state, model_hash, save_state
from tests.stage.memory.honest_round import DEVICE, JOB, ChainFacts
from tests.stage.memory.mined_round import PIPELINE, MinedRound, make_mined_round

RATE, MOMENTUM = 0.7, 0.9
STAGES = range(3)
LOST = 1  # the stage of which nobody is there in the second round


def with_outer(folder: Path, **outer: float) -> MinedRound:
    pipeline: dict[str, Any] = {**PIPELINE, "outer": outer}
    return make_mined_round(EmbeddedStore(folder), pipeline=pipeline)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> MinedRound:
    return with_outer(tmp_path_factory.mktemp("fast"), rate=RATE, momentum=MOMENTUM)


def rounds(mined: MinedRound, count: int, lost_in: Sequence[int] = ()) -> list[Outcome]:
    """Rounds of the same payloads; in those of `lost_in` one stage is not merged."""
    outcomes, state = list[Outcome](), mined.before
    assert mined.plan.epoch is not None
    for number in range(1, count + 1):
        plan = replace(mined.plan, step=number - 1)
        found = mined.honest()
        if number in lost_in:
            found = mined.honest(without=mined.plan.epoch.stages[LOST])
        outcomes.append(compute(mined.job, JOB, number, plan, state, found, DEVICE))
        state = outcomes[-1].state
    return outcomes


def known(mined: MinedRound, outcomes: Sequence[Outcome]) -> Any:
    facts = ChainFacts(mined.published)
    for number, outcome in enumerate(outcomes, 1):
        facts.record(number, outcome, mined.store)
    return facts


def same(one: State, other: State) -> bool:
    return model_hash(one) == model_hash(other)


def test_without_momentum_at_rate_one_all_bits_are_those_of_no_outer_step(
    mined: MinedRound, tmp_path: Path
) -> None:
    plain = with_outer(tmp_path, rate=1.0, momentum=0.0)
    ours, theirs = rounds(plain, 2), rounds(mined, 2)
    assert plain.published.model == mined.published.model
    for one, other in zip(ours, theirs, strict=True):
        assert same(one.state, other.state) and one.update == other.update
        assert one.report == other.report


def test_three_rounds_are_those_of_torch(fast: MinedRound) -> None:
    outcomes = rounds(fast, 3)
    for name in fast.job.shapes:
        weight = torch.nn.Parameter(fast.before[name].clone())
        sgd = torch.optim.SGD([weight], lr=RATE, momentum=MOMENTUM, nesterov=True)
        for outcome in outcomes:
            weight.grad = outcome.merged[name].clone()
            sgd.step()
            moved = outcome.merged[name] != 0
            torch.testing.assert_close(
                outcome.state[name][moved], weight.detach()[moved], rtol=1e-5, atol=1e-7
            )
    speed = [outcome.state[VELOCITY + "embedding.weight"] for outcome in outcomes]
    assert speed[0].norm() < speed[1].norm() < speed[2].norm()


def test_whoever_comes_later_gets_weights_and_velocity_by_updates_and_by_a_checkpoint(
    fast: MinedRound,
) -> None:
    outcomes = rounds(fast, 4, lost_in=(2,))
    assert [outcome.checkpoint is not None for outcome in outcomes] == [False, False, True, True]
    for count, outcome in enumerate(outcomes, 1):
        found = Models(known(fast, outcomes[:count]), fast.store).at(JOB, outcome.model)
        assert hash_of(fast.job, found) == outcome.model and same(found, outcome.state)
        for stage in STAGES:
            part = Models(known(fast, outcomes[:count]), fast.store).at(JOB, outcome.model, stage)
            assert part.keys() == fast.job.kept_shapes(stage).keys()
            assert same(stage_of(fast.job, part, stage), stage_of(fast.job, outcome.state, stage))


def test_a_stage_that_is_not_merged_keeps_weights_and_velocity(fast: MinedRound) -> None:
    first, second = rounds(fast, 2, lost_in=(2,))
    # A sample needs all stages, so nobody's passes count and no stage is merged.
    assert same(first.state, second.state) and first.model == second.model
    assert any(first.state[VELOCITY + name].any() for name in fast.job.shapes)
    alone = fast.job.stage_shapes(LOST)
    update = {n: torch.zeros_like(t) if n in alone else t for n, t in first.merged.items()}
    third = stepped(fast.job.spec, first.state, update, RATE)
    for name in fast.job.shapes:
        for kept in (name, VELOCITY + name):
            assert torch.equal(third[kept], first.state[kept]) == (name in alone)


def test_a_checkpoint_with_another_velocity_is_refused(fast: MinedRound) -> None:
    last = rounds(fast, 3)[-1]
    assert last.checkpoint is not None
    for part in (*last.parts, last.checkpoint):
        fast.store.put_bytes(part)
    index = Index.from_bytes(last.checkpoint, len(STAGES))
    shapes = fast.job.kept_shapes(2)
    state = load_state(fast.store.get(index.stages[2].file, 1 << 24), shapes)
    name = next(name for name in sorted(shapes) if name.startswith(VELOCITY))
    lie = {**state, name: state[name] + 1}
    lines = [
        *index.stages[:2],
        index.stages[2].model_copy(update={"file": fast.store.put_bytes(save_state(lie))}),
    ]
    wrong = index.model_copy(update={"stages": tuple(lines)}).to_bytes()
    digest = digest_of(fast.store.put_bytes(wrong))
    with pytest.raises(WrongModel, match="stage 2 of the model"):
        read_model(fast.job, fast.store, digest, last.model)
    honest = read_model(fast.job, fast.store, digest_of(cid_of_bytes(last.checkpoint)), last.model)
    assert same(honest, last.state)


def test_a_miner_trains_and_is_replayed_on_weights_alone(fast: MinedRound) -> None:
    assert all(mined.gradient is not None for mined in fast.honest())
    assert all(
        work.change.keys().isdisjoint(k for k in fast.before if k.startswith(VELOCITY))
        for work in fast.works.values()
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outer": {"rate": 0.7, "momentum": 1.0}}, "pipeline.outer.momentum: must be between"),
        ({"outer": {"rate": 0.0}}, "pipeline.outer.rate: must be between"),
        ({"outer": {"beta": 0.5}}, "pipeline.outer.beta: is not a known key"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, Any], why: str) -> None:
    block = {"layers": [1, 1], **changes}
    with pytest.raises(SpecError, match=why):
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block)


def test_two_outer_rates_are_refused() -> None:
    block = {"layers": [1, 1], "outer": {"rate": 0.7}}
    changes: dict[str, Any] = {
        "mode": "pipeline",
        "pipeline": block,
        "optimizer": {"outer_lr": 0.5},
    }
    with pytest.raises(SpecError, match="takes the place of optimizer"):
        demo_spec("b" + "a" * 58, **changes)


def test_the_outer_rate_falls_where_the_job_says_so() -> None:
    block = {"layers": [1, 1], "outer": {"rate": 0.5, "momentum": 0.9}}
    optimizer = {"outer_decay": True, "min_lr_ratio": 0.2}
    spec = demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block, optimizer=optimizer, rounds=5)
    assert [spec.outer_lr_at(step) for step in (0, 4)] == [0.5, pytest.approx(0.1)]
    assert spec.outer_momentum == 0.9
