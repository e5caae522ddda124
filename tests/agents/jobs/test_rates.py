# SPDX-License-Identifier: Apache-2.0
"""A schedule that ends in a rate of 0 pays its last round for nothing, and the sponsor is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.jobs.combinations.rates import idle
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import demo_spec
from agents.training.state import model_hash
from agents.training.trace import Trace
from tests.stage.memory.honest_round import NODES, make_tiny_job, make_work

DATA = "b" + "a" * 58
ENDED: dict[str, Any] = {"batch_size": 2, "seq_len": 16, "min_lr_ratio": 0.0}
SEED = b"\7" * 32


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_in_the_last_round_work_is_zeros_and_says_so(tmp_path: Path, decay: str) -> None:
    """What an honest node reveals is what one reveals that never trains."""
    tiny = make_tiny_job(EmbeddedStore(tmp_path), optimizer={**ENDED, "decay": decay})
    plan = replace(tiny.plan_of(SEED, NODES, [10] * len(NODES)), step=tiny.job.spec.rounds - 1)
    work = make_work(tiny.job, plan, tiny.before, NODES[0])
    steps = plan.manifest.assignments[0].batches
    zeros = {name: torch.zeros_like(tensor) for name, tensor in tiny.before.items()}
    never_trained = Trace(NODES[0], (model_hash(tiny.before),) * (steps + 1) + (model_hash(zeros),))
    assert work.trace == never_trained.to_bytes()
    assert work.payload == tiny.job.codec.encode(zeros, None, b"")
    assert any("sends zeros without training" in warning for warning in tiny.job.warnings)


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [
        ({}, 0),
        ({"min_lr_ratio": 1e-3}, 0),
        ({"min_lr_ratio": 0.0}, 1),
        ({"min_lr_ratio": 0.0, "decay": "cosine"}, 1),
        ({"min_lr_ratio": 0.0, "warmup_rounds": 10}, 0),  # the decay never begins
        ({"min_lr_ratio": 0.0, "inner": "gradient"}, 0),
        ({"min_lr_ratio": 0.0, "inner": "gradient", "outer_decay": True}, 1),
    ],
)
def test_who_is_told(optimizer: dict[str, Any], told: int) -> None:
    assert len(idle(demo_spec(DATA, optimizer=optimizer))) == told
