# SPDX-License-Identifier: Apache-2.0
"""What a violation costs: the slashing table and its rule (contracts/modules/penalties.vy and
NodeRegistry.slash).

The rule, by example: a node with 1,000 ZOO does not reveal for the third time. The row NO_REVEAL
takes 500 bps and 500 more for each earlier offence of the same kind: 1,500 bps, 150 ZOO, rounded up
to a whole unit. A row with `strike` also counts a strike; the third strike applies the row
REPEATED instead: the whole stake, and a ban.

Rule: `DEFAULTS` is what a new network starts with, and its owner may replace any row. Where there
is a chain, read the rows with `Network.penalty` or from its PenaltyChanged events. Amounts are in
1e-18 ZOO, times in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agents.protocol.numbers import BPS, Violation

STRIKES_TO_BAN = 3
_WEEK = 7 * 86_400
_MONTH = 30 * 86_400


@dataclass(frozen=True)
class Row:
    """A row of the slashing table (the contracts' struct Penalty).

    Attributes:
        bps: share of the stake, in 1/10,000, rounded up.
        escalation_bps: added for each earlier offence of the same kind.
        suspension: seconds.
        strike: whether it counts towards REPEATED.
        ban: whether it bans the node.
        reporter_bps: share of the slash that is paid to the reporter.
    """

    bps: int
    escalation_bps: int
    suspension: int
    strike: bool
    ban: bool
    reporter_bps: int

    def escalated(self, earlier: int) -> Row:
        """The row after that many earlier offences: at most the whole stake is taken."""
        return replace(self, bps=min(BPS, self.bps + self.escalation_bps * earlier))


NO_ROW = Row(0, 0, 0, False, False, 0)
"""A row that was never filled: it takes nothing, but the offence is counted."""

DEFAULTS: Mapping[int, Row] = {
    Violation.NO_REVEAL: Row(500, 500, 0, False, False, 1_000),
    Violation.INVALID: Row(2_000, 0, _WEEK, True, False, 5_000),
    Violation.COPIED: Row(5_000, 0, _MONTH, True, False, 5_000),
    Violation.REPEATED: Row(10_000, 0, 0, False, True, 5_000),
    Violation.BAD_RESULT: Row(2_000, 0, _WEEK, True, False, 5_000),
    Violation.FALSE_REPORT: Row(2_000, 0, _WEEK, True, False, 5_000),
    Violation.REDUNDANCY_MISMATCH: Row(2_000, 0, _WEEK, True, False, 5_000),
    Violation.ABORT: Row(2_000, 0, _WEEK, True, False, 0),
    Violation.COLLUSION: Row(5_000, 0, _MONTH, True, False, 5_000),
}
"""The table as contracts/modules/penalties.vy fills it."""


@dataclass
class Offender:
    """A node's strikes, and its offences by violation. Both only ever grow."""

    strikes: int = 0
    offences: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def offend(self, violation: int, table: Mapping[int, Row]) -> Row:
        """Count one more offence; the row that applies to it, with `bps` escalated."""
        row = self._count(violation, table)
        if row.strike:
            self.strikes += 1
            if self.strikes >= STRIKES_TO_BAN:
                row = self._count(Violation.REPEATED, table)
        return row

    def _count(self, violation: int, table: Mapping[int, Row]) -> Row:
        row = table.get(violation, NO_ROW).escalated(self.offences[violation])
        self.offences[violation] += 1
        return row


def slash_amount(bonded: int, added_since: int, bps: int) -> int:
    """NodeRegistry._take: a share of what was bonded at the offence, rounded up.

    `bonded`: stake and unbonding part now. `added_since`: stake that was added after the offence.
    """
    base = bonded - min(bonded, added_since)
    return (base * bps + BPS - 1) // BPS


def reporter_share(amount: int, reporter_bps: int) -> int:
    """NodeRegistry.slash: the reporter's part of a slash; the treasury gets the rest."""
    return amount * reporter_bps // BPS
