# SPDX-License-Identifier: Apache-2.0
"""The mode `data_parallel`: every node trains the whole model on batches of its own.

Once a round the nodes' updates are merged into one, and all start the next round from the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.mode import Mode, register


@register("data_parallel")
@dataclass(frozen=True, kw_only=True)
class DataParallel(Mode):
    """Split by data; takes no options."""

    splits_model = False
