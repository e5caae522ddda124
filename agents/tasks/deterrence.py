# SPDX-License-Identifier: Apache-2.0
"""Whether a network's numbers deter a cheat, strategy by strategy.

What a node loses is a share of its stake, but one stake answers for all of a node's open lanes: a
second penalty is a share of what the first one left, and the third strike takes all. The verdict
rests on `least_penalty`, the smallest average over any number of them.

Strategies, with the formulas of `agents.tasks.economics`:

- fake: its nodes return the same fake in every task.
- leave: they fake where both of the first two nodes are the attacker's, and leave the task else.
- pair: they fake there, and work honestly else. No comparison can find that, so it is deterred only
  by verifiers who run a share of the agreed tasks again, and then at any share of nodes. Agreed
  tasks are paid at once and close their lanes, so one stake answers for fakes that nobody has
  looked at yet: `pairs_covered` says for how many it still does, `pairs_waiting` how many there may
  be before a draw passes over the nodes. Whoever appeals first gets up to the reporter's share of
  the penalty, and that may be the cheat itself: it is not counted.

Beside them stands what an honest node earns if nobody ever appeals. An appeal makes an outvoted
honest node whole as long as two thirds of the verifiers' stake are honest, so a loss here says how
much rests on that. Nothing here counts lost earnings of a suspended node, what honest nodes pay to
compute, or gas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, floor

from agents.protocol.numbers import BPS, COVER
from agents.protocol.slashing import STRIKES_TO_BAN
from agents.tasks.economics import (
    Draw,
    abort_expectation,
    abort_penalty_needed,
    drawn,
    expectation,
    greatest_share,
    honest_expectation,
    limit,
    pair_advantage,
    penalty_needed,
    rate_needed,
)

SHARES = tuple(Fraction(percent, 100) for percent in (1, *range(5, 95, 5)))


def least_penalty(stake: int, bps: int, lanes: int, strikes: int = STRIKES_TO_BAN) -> Fraction:
    """The smallest average penalty when 1 to `lanes` lanes of one node are lost together.

    `stake` in wei, `bps` of what is left at each loss; the loss number `strikes` takes the rest.
    ValueError for a share outside 0..10,000 bps or no lanes.
    """
    if not 0 <= bps <= BPS or lanes < 1 or stake < 0:
        raise ValueError("A penalty is 0 to 10,000 bps of a stake that answers for some lanes.")
    rest, averages = Fraction(stake), []
    for lane in range(1, lanes + 1):
        rest -= rest if lane >= strikes else rest * bps / BPS
        averages.append((stake - rest) / lane)
    return min(averages)


def loss_expected(stake: int, bps: int, rate: float, tasks: int) -> float:
    """What a node is expected to lose, wei, with `tasks` fakes of which a share `rate` is found.

    Each costs `bps` of what is left, the third strike all. No more than the stake, however many.
    """
    left = 1 - bps / BPS
    found = [
        comb(tasks, k) * rate**k * (1 - rate) ** (tasks - k)
        for k in range(min(STRIKES_TO_BAN, tasks + 1))
    ]
    return stake * (1 - sum(chance * left**k for k, chance in enumerate(found)))


@dataclass(frozen=True)
class Parameters:
    """A network's numbers; amounts in wei.

    Attributes:
        stake: what a node has at risk at least.
        fee: of a task; the winners share it.
        compute: what running the task costs one node. At most half the fee.
        mismatch_bps, abort_bps, collusion_bps: rows of the slashing table.
        audit_rate: share of agreed tasks that at least one verifier runs again, and appeals.
        reporter_bps: share of a COLLUSION slash that the one who appealed may get.
        nodes: in the pool; None for an endless one.
        open_lanes: lanes that one stake answers for at most.
    """

    stake: int
    fee: int
    compute: int
    mismatch_bps: int
    abort_bps: int
    collusion_bps: int
    audit_rate: Fraction
    reporter_bps: int = 0
    nodes: int | None = None
    open_lanes: int = 1

    def __post_init__(self) -> None:
        """ValueError for numbers that no network can have."""
        if self.fee <= 0 or not 0 < 2 * self.compute <= self.fee:
            raise ValueError("A computation must cost more than nothing and at most half the fee.")
        if not 0 <= self.audit_rate <= 1:
            raise ValueError(f"The audit rate is a share from 0 to 1, not {self.audit_rate}.")
        if self.nodes is not None and self.nodes < 3:
            raise ValueError("A comparison of three needs at least three nodes in the pool.")

    @property
    def mismatch(self) -> Fraction:
        """What a node loses with an outvoted result."""
        return least_penalty(self.stake, self.mismatch_bps, self.open_lanes)

    @property
    def abort(self) -> Fraction:
        """What it loses by leaving a task."""
        return least_penalty(self.stake, self.abort_bps, self.open_lanes)

    @property
    def collusion(self) -> Fraction:
        """What it loses for good with a fake that had won, the only one under appeal."""
        kept = Fraction(BPS - self.reporter_bps, BPS)
        return least_penalty(self.stake, self.collusion_bps, 1) * kept

    @property
    def pairs_covered(self) -> int:
        """How many faked pairs may wait for an audit and still cost more than they save.

        The expected loss per fake falls with their number, so this is the last one before it is
        less than a computation. 0 if not even a single one is deterred.
        """

        def covered(pairs: int) -> bool:
            loss = loss_expected(self.stake, self.collusion_bps, float(self.audit_rate), pairs)
            return loss * (BPS - self.reporter_bps) / BPS > pairs * self.compute

        low, high = 0, 1
        while covered(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if covered(middle) else (low, middle)
        return low

    @property
    def pairs_waiting(self) -> int:
        """How many tasks of the same two nodes may wait for an audit.

        A draw takes a node while its stake is COVER times its pay at risk, for as many lanes as it
        may have open.
        """
        return 2 * self.stake // (COVER * self.fee) + self.open_lanes

    def draw(self, share: Fraction) -> Draw:
        """The chances at an attacker's share of the nodes, whole nodes rounded down."""
        if self.nodes is None:
            return limit(share)
        dishonest = floor(share * self.nodes)
        return drawn(dishonest, self.nodes - dishonest)


@dataclass(frozen=True)
class Strategy:
    """A strategy at one share: expected profit per task, wei, and the penalty it is measured by.

    `needed`: the penalty at which the profit is zero; None if no penalty is enough.
    """

    profit: Fraction
    has: Fraction
    needed: Fraction | None

    @property
    def deterred(self) -> bool:
        """Whether it loses money, or can't be tried."""
        return self.profit < 0 or self.needed == 0

    @property
    def margin(self) -> Fraction | None:
        """How many times the needed penalty the network takes; None where either has no size."""
        return self.has / self.needed if self.needed else None


@dataclass(frozen=True)
class Row:
    """What today's numbers do at one attacker share.

    `pair`: expected gain over honest work per task, wei. `honest`: what an honest node expects per
    task it is drawn for without appeals, wei; None if there is no honest node.
    """

    share: Fraction
    dishonest: int | None
    fake: Strategy
    leave: Strategy
    pair: Fraction
    honest: Fraction | None

    @property
    def deterred(self) -> bool:
        """Whether the strategies that a comparison can meet lose money."""
        return self.fake.deterred and self.leave.deterred


@dataclass(frozen=True)
class Deterrence:
    """Rows by share, and what holds at any share.

    Attributes:
        fake_share: share of an endless pool up to which always faking loses money.
        leave_share: the same for leaving all other tasks.
        honest_share: share up to which honest nodes earn even if nobody ever appeals.
        pair_advantage: what a faked pair of its own brings the attacker over honest work, wei.
        rate_needed: the audit rate at which that advantage is gone; None if none is enough.
    """

    parameters: Parameters
    rows: tuple[Row, ...]
    fake_share: float
    leave_share: float
    honest_share: float
    pair_advantage: Fraction
    rate_needed: Fraction | None

    @property
    def pair_deterred(self) -> bool:
        """Whether audits make honest work the better choice in an own pair, too."""
        return self.pair_advantage < 0

    @property
    def deterred_up_to(self) -> Fraction | None:
        """The greatest share in the rows at and below which all rows are deterred, if any."""
        greatest = None
        for row in self.rows:
            if not row.deterred:
                break
            greatest = row.share
        return greatest

    def sentences(self) -> list[str]:
        """The verdict in words."""
        return [self._compared(), self._pairs(), self._honest()]

    def _compared(self) -> str:
        pool = self.parameters.nodes
        where = "an endless pool" if pool is None else f"a pool of {pool} nodes"
        share = min(self.fake_share, self.leave_share)
        first = (
            f"Fakes and walking away lose money up to an attacker share of {share:.1%} "
            "of an endless pool"
        )
        if pool is None:
            return f"{first}."
        if self.deterred_up_to is None:
            return f"{first}; in {where} not even at {float(self.rows[0].share):.0%}."
        return f"{first}; in {where}, of the shares listed, up to {float(self.deterred_up_to):.0%}."

    def _pairs(self) -> str:
        needed = self.rate_needed
        never = needed is None or needed == 1
        more = "no audit rate is" if never else f"more than {float(needed or 0):.2%} is"
        head = (
            f"Faking only where both nodes are the attacker's is "
            f"{'deterred' if self.pair_deterred else 'not deterred'} at an audit rate of "
            f"{float(self.parameters.audit_rate):.2%}, whatever the share: {more} enough"
        )
        if not self.pair_deterred:
            return f"{head}."
        return (
            f"{head}, as long as no more than {self.parameters.pairs_covered:,} faked pairs of the "
            "same two nodes wait for their audit; a draw lets "
            f"{self.parameters.pairs_waiting:,} wait."
        )

    def _honest(self) -> str:
        return (
            "Even if nobody ever appealed, an honest node would earn up to an attacker share of "
            f"{self.honest_share:.1%}; beyond it, honest nodes rest on appeals."
        )


def deterrence(parameters: Parameters, shares: Sequence[Fraction] = SHARES) -> Deterrence:
    """Whether these numbers deter, per share of the pool in `shares` (ascending, 0 to 1)."""
    fee, compute = parameters.fee, parameters.compute
    mismatch, abort = parameters.mismatch, parameters.abort
    advantage = pair_advantage(compute, parameters.collusion, parameters.audit_rate)

    def row(share: Fraction) -> Row:
        draw = parameters.draw(share)
        alone = not (draw.none or draw.one or draw.two)
        return Row(
            share=share,
            dishonest=None if parameters.nodes is None else floor(share * parameters.nodes),
            fake=Strategy(expectation(draw, fee, mismatch), mismatch, penalty_needed(draw, fee)),
            leave=Strategy(
                abort_expectation(draw, fee, abort), abort, abort_penalty_needed(draw, fee)
            ),
            pair=draw.pair * advantage,
            honest=None if alone else honest_expectation(draw, fee, mismatch),
        )

    return Deterrence(
        parameters=parameters,
        rows=tuple(map(row, shares)),
        fake_share=greatest_share(lambda draw: expectation(draw, fee, mismatch) < 0),
        leave_share=greatest_share(lambda draw: abort_expectation(draw, fee, abort) < 0),
        honest_share=greatest_share(lambda draw: honest_expectation(draw, fee, mismatch) > 0),
        pair_advantage=advantage,
        rate_needed=rate_needed(compute, parameters.collusion),
    )
