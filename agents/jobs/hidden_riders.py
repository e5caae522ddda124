# SPDX-License-Identifier: Apache-2.0
"""Jobs in which noise hides a rider: a node that trains nothing, and is drawn, and is found right.

Rule: as `agents.jobs.riders`. Work that is done again counts only where doing it again can tell.
Under noise that only its node knows a verifier sees whether a payload may be the update with noise
on it, and noise alone may be, unless it is much shorter than the update. The draw is made for a lie
that is found when it is drawn (`agents.protocol.draw_chance`), so there a rider loses nothing
however often it is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agents.runtime.config import TrainerSettings

if TYPE_CHECKING:  # who only asks what jobs pay does not load torch
    from agents.jobs.job import JobContext

_GUESSED = 0.5  # of an update's length, by who goes on in the direction of past merges
_FOUND = 0.99  # of drawn riders; with the margin of the draw 0.8 to 1 of them would do


def riders_hidden(job: JobContext, settings: TrainerSettings) -> str | None:
    """Why a trainer with these settings leaves a job whose work is done again under noise: what a
    verifier that draws a rider can see of it.

    None where there is no such noise, where it is so short that a rider is found, and where the
    operator accepts riders.
    """
    from agents.mechanisms.privacy.gaussian import Gaussian
    from agents.mechanisms.privacy.parts.residual import power

    privacy = job.privacy
    if not (job.verification.redone and isinstance(privacy, Gaussian)) or settings.accept_riders:
        return None
    count = sum(math.prod(shape) for shape in job.shapes.values())
    rows = getattr(job.codec, "rows", None)
    kept = count if rows is None else rows(count)  # a projection shortens the update, not the noise
    left = (1 - _GUESSED) * privacy.clip * math.sqrt(kept / count)
    found = power(left, privacy.sigma, kept)["noise_only"]
    if found >= _FOUND:
        return None
    return (
        f"its noise hides whether a node trained: of riders that are drawn {found:.1%} are found "
        "when their work is done again, so who trains nothing is paid and loses nothing; set "
        "trainer.accept_riders: true to train in it all the same"
    )
