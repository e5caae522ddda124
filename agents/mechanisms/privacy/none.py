# SPDX-License-Identifier: Apache-2.0
"""The mechanism `none`: nothing is clipped, noised, charged or promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from agents.mechanisms.privacy import register
from agents.mechanisms.privacy.parts.accountant import Charge
from agents.mechanisms.privacy.parts.noise import Generator


@register("none")
@dataclass(frozen=True, kw_only=True)
class NoPrivacy:
    """No protection; takes no options."""

    unit = "none"
    place = "none"
    max_epsilon = 0.0
    delta = 0.0

    def charge(self, rounds: int = 1, **facts: Any) -> Charge | None:
        """None: there is no budget."""
        return None

    def release(
        self, update: Mapping[str, Tensor], rng: Generator | None = None
    ) -> dict[str, Tensor]:
        """The update as it is."""
        return dict(update)
