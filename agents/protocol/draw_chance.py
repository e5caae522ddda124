# SPDX-License-Identifier: Apache-2.0
"""How likely a trainer's work must be done again so that no lie pays: from what it is paid for the
round and what it loses when it is found.

A lie earns the node's pay a of the round unless the node is drawn, and takes a loss l when it is.
Drawn with chance p, it brings (1 - p) a - p l on average. Computing costs a liar nothing, so this
has to be negative whatever computing costs, and it has to be so in each round by itself: whoever is
found may come back under another name. So

    p = g a / (g a + l),    that is    p l = g (1 - p) a:

a lie is expected to lose g = `MARGIN` times what it is expected to earn. Nothing in p depends on
how many nodes there are, on the price of computing or on what a new identity costs.

a is exact. The proposed result has the round's contributions, and the seed that draws comes later;
so a lie that scores better than honest work is drawn more often.

Where work is paid in several rounds and was done in one (`backward_passes` with a gamma), a lie is
found in its own round alone. There a is the larger of two: the node's pay for this round, and what
its work of this round brings in all of them, were their pots and shares those of this one.

l is what nobody gets back:

- Of a slash, the part that goes to the treasury. Whoever finds a node first gets up to the
  reporter's share, and that may be a friend.
- One stake answers for several findings at a time: the node may sit in several jobs, or run tasks.
  The second finding takes a share of what the first one left, the third strike takes all. What
  counts is the smallest average over 1 to as many as there may be (`findings_at_once`).
- To this comes the pay that a job has retained. It answers for that job alone, where one round is
  open at a time, and a finding takes all of it for the treasury.

Amounts are in 1e-18 ZOO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agents.protocol.draw import CERTAIN
from agents.protocol.numbers import BPS, Violation
from agents.protocol.slashing import Offender, Row, reporter_share, slash_amount

MARGIN = Fraction(5, 4)
"""How many times its expected gain a lie is expected to lose."""

FINDINGS = 5
"""For how many findings at a time one stake is counted on at least."""

_TASKS = 2  # that a node runs at a time


@dataclass(frozen=True)
class Exposure:
    """What a node stands to win and to lose in a round, in 1e-18 ZOO.

    `pay`: the most that it can be paid. `loss`: what is gone for good if its work is found wrong.
    """

    pay: int
    loss: int

    @property
    def chance(self) -> int:
        """Of being drawn, as a part of `CERTAIN`, rounded up. Nobody is drawn for no pay."""
        if not self.pay:
            return 0
        gain = MARGIN.numerator * self.pay
        return -(-CERTAIN * gain // (gain + MARGIN.denominator * self.loss))


def findings_at_once(rounds: int) -> int:
    """For how many findings at a time the stake of a node is counted on that has its work in so
    many rounds at once."""
    return max(FINDINGS, rounds + _TASKS)


def lasting_loss(stake: int, table: Mapping[int, Row], findings: int = FINDINGS) -> int:
    """What a finding of INVALID takes from a stake for good, the least average over 1 to `findings`
    of them, rounded down. `table`: rows by violation."""
    node, rest, lost, least = Offender(), stake, 0, stake
    for count in range(1, findings + 1):
        row = node.offend(Violation.INVALID, table)
        amount = slash_amount(rest, 0, row.bps)
        rest -= amount
        lost += amount - reporter_share(amount, row.reporter_bps)
        least = min(least, lost // count)
    return least


def exposures(
    reward: int,
    aggregator_bps: int,
    nodes: Sequence[int],
    contributions: Sequence[int],
    losses: Mapping[int, int],
    worth: Mapping[int, int] | None = None,
    uncut: int = 0,
) -> dict[int, Exposure]:
    """Exposure of each node of a round's result.

    Args:
        reward: the pool of the round, in 1e-18 ZOO.
        aggregator_bps: the proposer's cut. The verifiers' cut counts as the trainers': if nobody
            attests, it is theirs.
        nodes: of the result.
        contributions: of each; the pay is split by them.
        losses: by node, in 1e-18 ZOO.
        worth: by node, contributions for its work of this round in all rounds in which that is
            paid. They count where they are more than its contribution.
        uncut: the part of the reward that no cut is taken of: shares of earlier rounds whose nodes
            were found guilty.
    """
    total = sum(contributions)
    if not total:
        return {node: Exposure(0, losses[node]) for node in nodes}
    trainers = reward - (reward - uncut) * aggregator_bps // BPS
    in_all = worth or {}
    return {
        node: Exposure(trainers * max(contribution, in_all.get(node, 0)) // total, losses[node])
        for node, contribution in zip(nodes, contributions, strict=True)
    }
