# SPDX-License-Identifier: Apache-2.0
"""One line of the table that `make bench` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A figure, what it is, what it should be, and a peer's. `met` is None without a goal."""

    figure: str
    measured: str
    goal: str = ""
    met: bool | None = None
    peer: str = ""


def gas_row(figure: str, gas: int, goal: int | None = None, peer: str = "") -> Row:
    """A gas figure; `goal` is an upper bound."""
    if goal is None:
        return Row(figure, f"{gas:,} gas", peer=peer)
    return Row(figure, f"{gas:,} gas", f"<= {goal:,}", gas <= goal, peer)
