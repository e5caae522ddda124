# SPDX-License-Identifier: Apache-2.0
"""A mean of payloads of any size is warned of, and not with the remedies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agents.jobs.job import JobContext
from agents.rounds.payload_bound import bound_of
from agents.training.spec import JobSpec
from agents.training.state import PayloadError
from tests.stage.memory.honest_round import HonestRound
from tests.stage.memory.tiny_specs import SEALED_PAYLOADS

STEPS = {"batch_size": 2, "seq_len": 16}
KEPT = {**STEPS, "inner_state": "kept", "inner_state_rounds": 4}
LOCAL = {"access": "local", "verify": "screening"}
NOISE = {"privacy": "gaussian", "privacy_options": {"noise_multiplier": 4.0}}
NODE = 5


@pytest.mark.parametrize(
    ("changes", "bounded"),
    [
        ({}, True),
        ({"optimizer": {**STEPS, "inner": "muon"}}, True),
        ({"optimizer": KEPT}, True),
        ({"optimizer": {**KEPT, "betas": (0.99, 0.9)}, "batches_per_round": 60_000}, False),
        (LOCAL, True),
        ({**LOCAL, "privacy": "dp_sgd"}, True),
        ({**LOCAL, **NOISE}, True),
        (NOISE, True),
        ({"codec": "semantic"}, True),
        (SEALED_PAYLOADS, True),
        ({"optimizer": {**STEPS, "inner": "gradient"}}, False),
        ({"optimizer": {**STEPS, "betas": (0.9, 0.0)}}, False),
        ({"codec": "sparse"}, False),
        ({"codec": "cells"}, False),
        ({"codec": "polytope"}, False),
        ({"codec": "sparse", **LOCAL, "privacy": "dp_sgd"}, False),
        ({"codec": "polytope", **LOCAL, **NOISE}, False),
    ],
)
def test_a_mean_of_what_has_no_bound_is_told_of(
    tiny: HonestRound, changes: dict[str, Any], bounded: bool
) -> None:
    """And where it is not, a payload of 1e15 is refused."""
    fields = {**tiny.job.spec.model_dump(mode="json"), "merge": "mean", **changes}
    fields.pop("tolerances")
    spec = JobSpec.from_dict(fields)
    found = "and its node is not found" if "access" in changes else "whether its node is found"
    told = JobContext(spec, tiny.store).warnings
    assert any(f"spoils the model for good, {found}" in one for one in told) == (not bounded)
    job = JobContext(JobSpec.from_dict({**fields, **({} if bounded else cure(spec))}), tiny.store)
    assert not any("spoils the model" in warning for warning in job.warnings)
    if bounded and spec.codec == "dense" and not job.sealed:
        huge = {name: torch.full(shape, 1e15) for name, shape in job.shapes.items()}
        with pytest.raises(PayloadError):
            bound_of(job, tiny.plan, NODE, lambda: tiny.before)(huge)


def cure(spec: JobSpec) -> dict[str, str]:
    """What the sentence says to do."""
    return {"codec": "dense"} if spec.privacy == "gaussian" else {"merge": "norm_clip"}
