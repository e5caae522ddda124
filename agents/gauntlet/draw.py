# SPDX-License-Identifier: Apache-2.0
"""Who is evaluated in a round: a few, drawn by its audit seed, newcomers first.

Rule: a weighted draw without replacement. All nodes that were evaluated before weigh alike,
whenever that was. The current Templar validators weigh a node by the rounds since it was last
evaluated; then it knows when it is nearly safe, and may rest. A node that never was evaluated
weighs more with every round for which it waits and sends work, because it has no rating, hence no
pay. Each node has as many tickets as it weighs, and the nodes with the greatest tickets are chosen;
so whether a node is a candidate changes nothing about another node's tickets, and a validator that
misses a payload draws nearly what the others do.

Newcomers have one seat in NEWCOMERS at most, and one at least, while others are there to fill the
rest. Else who rests on its ratings would have a crowd of nodes join that never work: all seats
would be theirs for as long as some of them were never evaluated, and nobody would be seen to rest.

All validators draw from the audit seed alone. It is known only after every payload is fixed, so the
drawn can't know. With secrets of their own validators measured other nodes on other batches than
their peers, and who denied that it had a payload pushed its score to the least of the others'. From
one seed honest validators find the same, so that nobody with less than half of the weight moves a
median. What is given up: three of them no longer average over three samples of batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

NEW = 10  # rounds for which a node that was never rated counts as unseen
NEWCOMERS = 4  # one in so many seats is theirs
RATED = 3  # tickets of a node that was evaluated before; a newcomer has 1 + NEW and more
_DOMAIN = b"menagerie.gauntlet.round.v1"


def round_seed(audit_seed: bytes) -> bytes:
    """sha256(domain || audit seed), 32 bytes: all draws of a round's validators start here."""
    return hashlib.sha256(_DOMAIN + audit_seed).digest()


def draw(
    seed: bytes,
    purpose: str,
    tickets: Mapping[int, int],
    candidates: Iterable[int],
    count: int,
    newcomers: Collection[int] = (),
) -> list[int]:
    """At most `count` distinct candidates, ascending. `tickets`: 1 + NEW where a node has no entry.
    `newcomers`: those of them whose seats are bounded.

    Ticket t of a node is sha256(seed || purpose || node || t), the numbers in 8 bytes. The chance
    to have the greatest of all is a node's part of all tickets.
    """

    def greatest(node: int) -> bytes:
        start = seed + purpose.encode() + node.to_bytes(8, "big")
        own = range(tickets.get(node, 1 + NEW))
        return max(hashlib.sha256(start + t.to_bytes(8, "big")).digest() for t in own)

    order = sorted(set(candidates), key=greatest, reverse=True)
    seated = [node for node in order if node in newcomers][: max(1, count // NEWCOMERS)]
    order.sort(key=lambda node: node in newcomers and node not in seated)  # keeps the order else
    return sorted(order[:count])
