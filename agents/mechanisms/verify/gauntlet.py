# SPDX-License-Identifier: Apache-2.0
"""The way `gauntlet`: nodes train as they like, validators measure the loss (docs/gauntlet.md).

Nobody can redo a node's work, because nobody knows how it trained. So a node is judged by what its
payload does to the loss, and payloads that are alike are asked whose data they come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.options import MAX_MEMORY_ROUNDS
from agents.mechanisms.verify import Companions, Verification, register

_SEALED = (
    "; of sealed data every validator would need every key, and nodes, which train on what they "
    "like, more than those of their batches"
)


@register("gauntlet")
@dataclass(frozen=True, kw_only=True)
class GauntletVerification(Verification):
    """Verification by measuring; takes no options. The score of the same name has them all."""

    partner = ("score", "gauntlet")
    redone = False
    copies_judged = True
    shows_trace = False
    own_start = True
    extra_batches = True
    input_enforced = True
    equal_shares = True
    validators_score = True
    asks_standing = True
    scored_unmerged = True
    own_memory_rounds = MAX_MEMORY_ROUNDS

    def objections(self, companions: Companions) -> list[str]:
        """What keeps validators from measuring what a payload does, or from comparing payloads."""
        wrong = []
        if companions.access != "public":
            wrong.append(
                f'verify "gauntlet" needs access "public", not "{companions.access}": validators '
                "measure the loss on batches that nobody was assigned, and anyone may repeat that"
                + (_SEALED if companions.access == "encrypted" else "")
            )
        if companions.privacy != "none":
            wrong.append(
                f'verify "gauntlet" goes with privacy "none", not "{companions.privacy}": what a '
                "payload does to the loss on its own batches is published"
            )
        if not companions.names_numbers:
            wrong.append(
                f'codec "{companions.codec}" names every number, so payloads can\'t be compared by '
                'which they name, as verify "gauntlet" does to find copies; use demo or sparse'
            )
        return wrong
