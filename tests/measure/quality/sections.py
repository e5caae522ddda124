# SPDX-License-Identifier: Apache-2.0
"""All sections of `docs/quality.json`: the study, the job's rounds, and the model sizes."""

from __future__ import annotations

from tests.measure.quality import job, sizes
from tests.measure.quality.record import Records


def sections() -> list[Records]:
    """As they are on disk now."""
    return [
        Records(),
        Records(section=job.SECTION, settings=job.settings()),
        Records(section=sizes.SECTION, settings=sizes.settings()),
    ]
