# SPDX-License-Identifier: Apache-2.0
"""Who a validator evaluates in a round: a few, drawn by its own randomness, the long unseen first.

Rule: a weighted draw without replacement, the weight of a node being one more than the rounds since
it was last evaluated (the current Templar validators' rule; their bins by rating are left out,
because a match of equals tells less about a newcomer). The seed joins a secret that the validator
promised a round ago with the round's audit seed, so the drawn can't know and the validator can't
choose. The draw is a function of seed and state: the published secret lets anyone repeat it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

NEW = 10  # rounds for which a node that was never rated counts as unseen


def round_seed(secret: bytes, audit_seed: bytes) -> bytes:
    """sha256(secret || audit seed), 32 bytes: all of a validator's draws in a round start here."""
    return hashlib.sha256(secret + audit_seed).digest()


def draw(
    seed: bytes, purpose: str, unseen: Mapping[int, int], candidates: Iterable[int], count: int
) -> list[int]:
    """At most `count` distinct candidates, ascending.

    The i-th choice takes sha256(seed || purpose || i) modulo the sum of the weights left; weights
    lie side by side in ascending order of node. The bias of the modulus is below 2^-200.
    """
    pool = sorted(set(candidates))
    chosen = []
    for index in range(min(count, len(pool))):
        word = hashlib.sha256(seed + purpose.encode() + index.to_bytes(8, "big")).digest()
        weights = [1 + unseen.get(node, NEW) for node in pool]
        left = int.from_bytes(word, "big") % sum(weights)
        for place, weight in enumerate(weights):
            if left < weight:
                chosen.append(pool.pop(place))
                break
            left -= weight
    return sorted(chosen)
