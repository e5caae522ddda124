# SPDX-License-Identifier: Apache-2.0
"""What pays verifiers for running right tasks again: their creators' own audits.

A verifier runs a sample of the agreed tasks again and earns by it only where it finds a fake. So a
creator has some of its tasks run again by an appeal, whether it doubts them or not. Verifiers
share the bond of an appeal against a right result, and they run the task for it. The share of tasks
is the least at which what a verifier is paid for votes is worth `WORTH` times all its computing, of
votes and of its sample. docs/redundancy.md derives it.
"""

from __future__ import annotations

from fractions import Fraction

WORTH = Fraction(5, 4)
"""How many times its cost a verifier's pay is at the least share: the same as in a round."""

MOST_COMPUTE = Fraction(1, 2)
"""What running a task costs, as a part of what an executor is paid for it, at most."""


def least_share(bond: int, fee: int, verifiers: int, rate: Fraction) -> Fraction | None:
    """The share of its tasks that a creator audits; None where not even all of them would pay.

    Args:
        bond: of an appeal.
        fee: of a task, half of it for each of two executors.
        verifiers: who can run the task again, and are asked all.
        rate: share of outcomes that each runs again in private.
    """
    worth = WORTH * MOST_COMPUTE * fee / 2
    left = Fraction(bond, max(1, verifiers)) - worth
    if left <= 0:
        return None
    share = worth * rate / left
    return share if share <= 1 else None
