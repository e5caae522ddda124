# SPDX-License-Identifier: Apache-2.0
"""A job of whole models whose outer step has momentum: its velocity is a part of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agents.jobs.model_files import read_model
from agents.jobs.outer_step import weights_of
from agents.rounds.models import Models
from agents.rounds.submissions import fetch
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.outer import VELOCITY
from agents.training.spec import JobSpec, SpecError
from agents.training.state import load_state, model_hash
from agents.verify.spot_checks import reexecute
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    HonestRound,
    make_honest_round,
    make_work,
)
from tests.stage.memory.honest_run import SECOND, HonestRun

RATE, MOMENTUM = 0.5, 0.5  # halves are exact in fp32, so the values by hand are too


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    store = EmbeddedStore(tmp_path_factory.mktemp("store"))
    return make_honest_round(store, outer={"rate": RATE, "momentum": MOMENTUM}, checkpoint_every=1)


def test_a_job_starts_without_velocity(tiny: HonestRound) -> None:
    assert set(tiny.before) == {p + n for n in tiny.job.shapes for p in ("", VELOCITY)}
    assert not any(bool(t.any()) for n, t in tiny.before.items() if n.startswith(VELOCITY))
    assert model_hash(tiny.before) == tiny.published.model


def test_two_rounds_give_what_nesterov_gives_by_hand(tiny: HonestRound) -> None:
    run = HonestRun(tiny)
    first, plan = run.first, run.next()
    works = {node: make_work(tiny.job, plan, first.state, node) for node in NODES}
    later = replace(tiny, plan=plan, before=first.state, works=works)
    submissions = [fetch(later.reveal(node), tiny.job, tiny.store, SECOND) for node in NODES]
    second = later.compute(submissions)
    for name in tiny.job.shapes:
        old, g1, g2 = tiny.before[name], first.merged[name], second.merged[name]
        v1 = g1
        one = old - RATE * (g1 + MOMENTUM * v1)
        moved = g1 != 0
        assert torch.equal(first.state[name], torch.where(moved, one, old))
        assert torch.equal(first.state[VELOCITY + name], torch.where(moved, v1, 0 * v1))
        v2 = MOMENTUM * first.state[VELOCITY + name] + g2
        two = first.state[name] - RATE * (g2 + MOMENTUM * v2)
        assert torch.equal(second.state[name], torch.where(g2 != 0, two, first.state[name]))
    # The trainers of the second round are done again from weights and velocity as they stand.
    for node in NODES:
        assert reexecute(later.inputs(submissions), node, DEVICE, tiny.store).violation is None
    # Anyone has the state from the checkpoint, or by the updates from the job's beginning.
    assert first.checkpoint is not None
    read = load_state(first.checkpoint, tiny.job.kept_shapes())
    assert model_hash(read) == first.model
    models = Models(run.facts, tiny.store)
    assert model_hash(models.at(1, first.model)) == first.model


def test_a_checkpoint_without_velocity_is_refused(tiny: HonestRound) -> None:
    from agents.training.state import PayloadError, save_state

    raw = save_state(weights_of(tiny.before, tiny.job.shapes))
    digest = digest_of(tiny.store.put_bytes(raw))
    with pytest.raises(PayloadError, match="velocity"):
        read_model(tiny.job, tiny.store, digest, tiny.published.model)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"optimizer": {"outer_lr": 2.0}}, r"outer\.rate takes the place of optimizer\.outer_lr"),
        ({"outer": {"rate": 11.0}}, r"outer\.rate: must be between"),
        ({"outer": {"momentum": 1.0}}, r"outer\.momentum: must be between"),
    ],
)
def test_what_an_outer_step_can_not_be_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        JobSpec.from_dict({"data": "b" + "a" * 58, "outer": {}, **changes})


def test_without_an_outer_step_the_canonical_bytes_do_not_name_one() -> None:
    assert b'"outer":' not in JobSpec.from_dict({"data": "b" + "a" * 58}).to_bytes()
