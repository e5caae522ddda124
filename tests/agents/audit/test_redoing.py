# SPDX-License-Identifier: Apache-2.0
"""What only the node's own determinism class can tell is a remark elsewhere: a conviction, and
that work is right to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.audit.sources.findings import Part
from agents.audit.work.redoing import redo_training
from agents.jobs.job import JobContext
from agents.rounds.submissions import fetch
from agents.training.determinism import determinism_class
from tests.stage.memory.honest_round import DEVICE, HonestRound, scaled

ABACUS, OWN = "torch=0;device=abacus", "this machine's"


@pytest.mark.parametrize(
    ("classes", "factor", "guilty", "holds", "remarks"),
    [
        ((), 1.001, True, True, 1),
        ((ABACUS,), 1.001, True, True, 1),
        ((ABACUS,), 1.001, False, True, 1),
        ((ABACUS,), 1.0, True, False, 0),
        ((ABACUS,), 1.5, True, True, 0),
        ((ABACUS,), 1.5, False, False, 0),
        ((OWN,), 1.001, True, True, 0),
        ((OWN,), 1.001, False, False, 0),
    ],
)
def test_what_a_machine_of_another_class_says_of_a_conviction(
    tiny: HonestRound,
    classes: tuple[str, ...],
    factor: float,
    guilty: bool,
    holds: bool,
    remarks: int,
) -> None:
    """A node of the listed class reveals its work, longer by `factor`."""
    classes = tuple(determinism_class(DEVICE) if one == OWN else one for one in classes)
    spec = tiny.job.spec.model_copy(update={"classes": classes})
    job = JobContext(spec, tiny.store)
    payload = tiny.job.codec.encode(scaled(tiny.works[5].gradient, factor), None, b"")
    stated = classes[0] if classes else ABACUS
    revealed = fetch(tiny.reveal(5, payload, determinism_class=stated), job, tiny.store)
    inputs = replace(tiny.inputs([revealed]), job=job)
    part, store = Part(1), tiny.store
    artefacts: Any = store
    convicted = frozenset({5} if guilty else ())
    redo_training(part, inputs, convicted, DEVICE, artefacts, lambda _: None)
    assert (part.holds, len(part.remarks)) == (holds, remarks)
