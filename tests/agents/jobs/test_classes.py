# SPDX-License-Identifier: Apache-2.0
"""A job without a list takes every determinism class; one with a list only those in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.jobs.classes import barred, own_class, unlisted
from agents.jobs.job import JobContext
from agents.training.determinism import determinism_class
from tests.stage.memory.honest_round import DEVICE, HonestRound

ABACUS = "torch=0;device=abacus"


def listing(tiny: HonestRound, *classes: str) -> JobContext:
    """The tiny job with such a list."""
    return JobContext(tiny.job.spec.model_copy(update={"classes": classes}), tiny.store)


def test_only_a_list_makes_a_class_unlisted(tiny: HonestRound) -> None:
    assert unlisted(tiny.job.spec, ABACUS) == ""
    job = listing(tiny, "torch=0;device=slide rule", ABACUS)
    assert unlisted(job.spec, ABACUS) == ""
    assert "states the determinism class 'torch=1'" in unlisted(job.spec, "torch=1")


def test_a_node_is_barred_from_a_job_that_does_not_list_its_class(tiny: HonestRound) -> None:
    own = determinism_class(DEVICE)
    assert barred(tiny.job, DEVICE, False) is None
    assert barred(listing(tiny, own), DEVICE, False) is None
    why = barred(listing(tiny, ABACUS), DEVICE, False)
    assert why == (
        f"it takes work of the determinism classes {ABACUS!r} only, and this node's is {own!r}"
    )


@pytest.mark.parametrize(("split", "stated"), [(False, "compiled=yes"), (True, "compiled=no")])
def test_a_compiled_model_is_another_class_but_stages_are_never_compiled(
    tiny: HonestRound, split: bool, stated: str
) -> None:
    job: Any = SimpleNamespace(slices=object()) if split else tiny.job
    assert own_class(job, DEVICE, True).endswith(stated)
