# SPDX-License-Identifier: Apache-2.0
"""The way `reexecution`: a node's work has one right answer, and verifiers do it again.

Each round the draw seed draws some nodes; others are chosen by public signs. A verifier trains on
their batches from the round's model and compares (`agents.verify.spot_checks`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.options import MAX_MEMORY_ROUNDS
from agents.mechanisms.verify import Companions, Verification, register


@register("reexecution")
@dataclass(frozen=True, kw_only=True)
class Reexecution(Verification):
    """Verification by doing drawn work again; takes no options."""

    partner = None
    redone = True
    copies_judged = False
    shows_trace = True
    own_start = False
    extra_batches = False
    input_enforced = False
    equal_shares = False
    validators_score = False
    asks_standing = False
    scored_unmerged = False
    own_memory_rounds = None

    def objections(self, companions: Companions) -> list[str]:
        """What others could not redo: a codec's memory, or the update under the noise.

        A memory is found again from the payloads of earlier rounds, which sealed ones don't allow:
        later verifiers have no key to them. Noise that nobody else knows can be checked in the
        space of a linear codec only.
        """
        codec, privacy = companions.codec, companions.privacy
        if companions.memory_rounds > MAX_MEMORY_ROUNDS:
            return [
                f'codec "{codec}" keeps its memory for {companions.memory_rounds} rounds, all of '
                f"which a re-execution would have to do again; set codec_options.memory_rounds to "
                f"{MAX_MEMORY_ROUNDS} at most"
            ]
        if companions.privacy_place == "aggregate" and companions.has_memory:
            return [
                f'codec "{codec}" with these options keeps a memory between rounds, which nobody '
                f'can find again from the sealed payloads of privacy "{privacy}"; use a codec '
                "without memory"
            ]
        if companions.privacy_unit == "none" or companions.privacy_place != "node":
            return []
        if companions.has_memory or not companions.linear:
            return [
                f'codec "{codec}" with these options cannot be checked under the noise of '
                f'privacy "{privacy}"; use dense, or semantic without error_feedback, or '
                'access "local" with verify "screening"'
            ]
        return []
