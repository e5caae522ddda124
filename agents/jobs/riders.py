# SPDX-License-Identifier: Apache-2.0
"""Jobs in which a rider is paid: a node that trains nothing and sends what the past suggests.

Rule: a trainer leaves such a job, unless its operator accepts it. No term of the job deters a rider
there (docs/scoring.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.jobs.combinations.figures import RIDERS_EARN
from agents.runtime.config import TrainerSettings

if TYPE_CHECKING:  # who only asks what jobs pay does not load torch
    from agents.training.spec import JobSpec


def riders_paid(spec: JobSpec, settings: TrainerSettings) -> str | None:
    """Why a trainer with these settings leaves a job: it pays for the form of a payload alone.

    None where work is done again, so that a rider is found; where validators measure what a payload
    does to the loss; and where the operator accepts riders.
    """
    from agents.mechanisms import verify

    verification = verify.get(spec.verify)
    if verification.redone or verification.validators_score or settings.accept_riders:
        return None
    return (
        f"nobody does its work again, so who trains nothing earns {RIDERS_EARN}; set "
        "trainer.accept_riders: true to train in it all the same"
    )
