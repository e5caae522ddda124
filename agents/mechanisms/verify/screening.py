# SPDX-License-Identifier: Apache-2.0
"""The way `screening`: nobody else has a node's data, so nobody does its work again.

Payloads are checked for form, the merge outvotes outliers, and everyone recomputes merge and scores
from the payloads. A liar that stays within what honest nodes send is not found.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.verify import Companions, Verification, register


@register("screening")
@dataclass(frozen=True, kw_only=True)
class Screening(Verification):
    """Verification by what payloads show of themselves; takes no options."""

    partner = ("access", "local")
    redone = False
    copies_judged = False
    shows_trace = False
    own_start = False
    extra_batches = False
    input_enforced = False
    equal_shares = False
    validators_score = False
    asks_standing = False
    scored_unmerged = False
    own_memory_rounds = None

    def objections(self, companions: Companions) -> list[str]:
        """None: what nobody redoes, nothing can keep from being redone."""
        return []
