# SPDX-License-Identifier: Apache-2.0
"""A small creature for each node, so that a reader knows it again without reading its number.

It is drawn from the hash of the node's number, so a node looks the same on every page. It is
decoration: a screen reader skips it, and the node's name stands beside it.
"""

from __future__ import annotations

from hashlib import blake2b

from markupsafe import Markup

from scripts._web.pages.draw.svg import picture, tag

_SIDE = 10
HUES = 7
_FREE = [(x, y) for y in range(1, 9) for x in range(1, 4)]  # of the left half
_BODY = {(4, y) for y in range(1, 9)} | {(3, 2), (3, 4), (2, 3), (3, 5)}  # it hangs together
_EYE = (3, 3)


def creature(node_id: int) -> Markup:
    """Return a symmetric creature with two eyes, of another colour than its neighbours."""
    seed = blake2b(f"node {node_id}".encode(), digest_size=8).digest()
    bits = int.from_bytes(seed[:6], "big")
    cells = {cell for place, cell in enumerate(_FREE) if bits >> place & 1} | _BODY
    cells -= {_EYE}
    cells |= {(3 - (bits >> 30 & 1), 0), (3 - (bits >> 31 & 1), 9)}  # ears and feet
    path = "".join(f"M{x} {y}h1v1h-1z" for x, y in sorted(_mirrored(cells)))
    body = tag("path", d=path, class_="creature-body")
    return picture(_SIDE, _SIDE, "", body, class_=f"creature hue-{node_id % HUES}", hidden=True)


def _mirrored(cells: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return cells | {(_SIDE - 1 - x, y) for x, y in cells}
