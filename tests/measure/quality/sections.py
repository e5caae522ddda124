# SPDX-License-Identifier: Apache-2.0
"""All sections of `docs/quality.json`: the study, the job, poisoners, model sizes, variants."""

from __future__ import annotations

from tests.measure.quality import job, poison, sizes, variants
from tests.measure.quality.record import Records


def sections() -> list[Records]:
    """As they are on disk now."""
    return [
        *(Records(), job.opened(), poison.opened(), sizes.opened()),
        *map(variants.opened, variants.SECTIONS),
    ]
