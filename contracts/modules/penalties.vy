# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title The slashing table
@custom:contract-name penalties
@license AGPL-3.0-only
@notice One row per violation (ZIP-407 section 6), and each node's record: how often it broke which
        rule, which escalates the row, its strikes, and the end of its suspension. Whoever slashes
        reads this one table.
@dev `_set_penalty`, `_record`, `_strike` and `_suspend` are unguarded: the importer guards them. A
     record is one word, because a first slash would create a storage slot for each part of it.
"""

from interfaces import IPenalties

NO_REVEAL: constant(uint256) = 1
INVALID: constant(uint256) = 2
COPIED: constant(uint256) = 3
REPEATED: constant(uint256) = 4
BAD_RESULT: constant(uint256) = 5
FALSE_REPORT: constant(uint256) = 6
REDUNDANCY_MISMATCH: constant(uint256) = 7
ABORT: constant(uint256) = 8
COLLUSION: constant(uint256) = 9
# Rows up to this id may be filled later; an empty row takes nothing but counts the offence.
MAX_VIOLATION: constant(uint256) = 16
MAX_BPS: constant(uint256) = 10_000
# At least half of a slash goes to the treasury, so that slashing oneself never pays.
MAX_REPORTER_BPS: constant(uint256) = 5_000
MAX_SUSPENSION: constant(uint256) = 3_650 * 86_400

# A node's record: the end of its suspension in seconds, its strikes, then its offences. Strikes and
# offences stay at their greatest number once they reach it.
_STRIKES_AT: constant(uint256) = 40
_STRIKES_BITS: constant(uint256) = 8
_OFFENCES_AT: constant(uint256) = 48
_OFFENCES_BITS: constant(uint256) = 12

_table: HashMap[uint256, IPenalties.Penalty]
_records: HashMap[uint256, uint256]


@deploy
def __init__():
    """
    @notice Fills the table with the default rows.
    """
    week: uint256 = 7 * 86_400
    self._set_penalty(NO_REVEAL, self._row(500, 500, 0, False, False, 1_000))
    self._set_penalty(INVALID, self._row(2_000, 0, week, True, False, 5_000))
    self._set_penalty(COPIED, self._row(5_000, 0, 30 * 86_400, True, False, 5_000))
    self._set_penalty(REPEATED, self._row(10_000, 0, 0, False, True, 5_000))
    self._set_penalty(BAD_RESULT, self._row(2_000, 0, week, True, False, 5_000))
    self._set_penalty(FALSE_REPORT, self._row(2_000, 0, week, True, False, 5_000))
    self._set_penalty(ABORT, self._row(2_000, 0, week, True, False, 0))
    self._set_penalty(REDUNDANCY_MISMATCH, self._row(2_000, 0, week, True, False, 5_000))
    self._set_penalty(COLLUSION, self._row(5_000, 0, 30 * 86_400, True, False, 5_000))


@view
@external
def penalty(violation: uint256) -> IPenalties.Penalty:
    """
    @notice The row of a violation.
    @param violation The violation's id.
    @return IPenalties.Penalty The row; all zero when it was never set.
    """
    return self._table[violation]


@view
@external
def offences(node_id: uint256, violation: uint256) -> uint256:
    """
    @notice How often a node was slashed for a violation.
    @param node_id The node.
    @param violation The violation's id.
    @return uint256 The count, at most 4,095; 0 for an id that has no row.
    """
    if violation == 0 or violation > MAX_VIOLATION:
        return 0
    return self._part(node_id, self._offences_at(violation), _OFFENCES_BITS)


@internal
def _set_penalty(violation: uint256, penalty: IPenalties.Penalty):
    """
    @notice Replaces a row; slashes from now on use it, offences so far keep counting.
    @dev Reverts: "penalties: unknown violation", "penalties: bps too large",
         "penalties: escalation too large", "penalties: suspension too long",
         "penalties: reporter share too large", "penalties: abort below mismatch" (whoever sees that
         it will lose a comparison must not gain by leaving the task instead).
    @param violation The violation's id, 1 to 16.
    @param penalty The new row.
    """
    self._check_violation(violation)
    assert penalty.bps <= MAX_BPS, "penalties: bps too large"
    assert penalty.escalation_bps <= MAX_BPS, "penalties: escalation too large"
    assert penalty.suspension <= MAX_SUSPENSION, "penalties: suspension too long"
    assert penalty.reporter_bps <= MAX_REPORTER_BPS, "penalties: reporter share too large"
    log IPenalties.PenaltyChanged(
        violation=violation, old_penalty=self._table[violation], new_penalty=penalty
    )
    self._table[violation] = penalty
    abort: IPenalties.Penalty = self._table[ABORT]
    mismatch: IPenalties.Penalty = self._table[REDUNDANCY_MISMATCH]
    assert (
        abort.bps >= mismatch.bps
        and abort.escalation_bps >= mismatch.escalation_bps
        and abort.suspension >= mismatch.suspension
        and (abort.strike or not mismatch.strike)
        and (abort.ban or not mismatch.ban)
    ), "penalties: abort below mismatch"


@internal
def _record(node_id: uint256, violation: uint256) -> IPenalties.Penalty:
    """
    @notice Counts an offence and returns its row with `bps` escalated by the earlier ones.
    @dev Reverts: "penalties: unknown violation".
    @param node_id The offender.
    @param violation The violation's id.
    @return IPenalties.Penalty The row, with bps = min(10,000, bps + escalation * earlier offences).
    """
    self._check_violation(violation)
    row: IPenalties.Penalty = self._table[violation]
    earlier: uint256 = self._count(node_id, self._offences_at(violation), _OFFENCES_BITS)
    row.bps = min(MAX_BPS, row.bps + row.escalation_bps * earlier)
    return row


@internal
def _strike(node_id: uint256) -> uint256:
    """
    @notice Counts a strike.
    @param node_id The offender.
    @return uint256 Its earlier strikes and this one, at most 256.
    """
    return self._count(node_id, _STRIKES_AT, _STRIKES_BITS) + 1


@internal
def _suspend(node_id: uint256, until: uint256):
    """
    @notice Suspends a node until a time, or leaves the later end that it has.
    @param node_id The offender.
    @param until When the suspension ends, in seconds; below 2**40.
    """
    before: uint256 = self._suspended_until(node_id)
    if until > before:
        self._records[node_id] += until - before


@internal
@view
def _strikes(node_id: uint256) -> uint256:
    """
    @notice How many strikes a node has.
    @param node_id The node.
    @return uint256 The count.
    """
    return self._part(node_id, _STRIKES_AT, _STRIKES_BITS)


@internal
@view
def _suspended_until(node_id: uint256) -> uint256:
    """
    @notice When a node's suspension ends.
    @param node_id The node.
    @return uint256 The time in seconds; 0 when it was never suspended.
    """
    return self._part(node_id, 0, _STRIKES_AT)


@internal
@view
def _part(node_id: uint256, at: uint256, bits: uint256) -> uint256:
    """
    @notice Reads a part of a node's record.
    @param node_id The node.
    @param at The part's lowest bit.
    @param bits Its width.
    @return uint256 Its value.
    """
    return self._records[node_id] >> at & (1 << bits) - 1


@internal
def _count(node_id: uint256, at: uint256, bits: uint256) -> uint256:
    """
    @notice Adds one to a counter of a node's record unless it is full.
    @param node_id The node.
    @param at The counter's lowest bit.
    @param bits Its width.
    @return uint256 Its value before.
    """
    before: uint256 = self._part(node_id, at, bits)
    if before < (1 << bits) - 1:
        self._records[node_id] += 1 << at
    return before


@internal
@pure
def _offences_at(violation: uint256) -> uint256:
    """
    @notice Where a violation's counter lies in a record.
    @param violation The violation's id, 1 to 16.
    @return uint256 Its lowest bit.
    """
    return _OFFENCES_AT + (violation - 1) * _OFFENCES_BITS


@internal
@pure
def _check_violation(violation: uint256):
    """
    @notice Stops an id that can have no row.
    @dev Reverts: "penalties: unknown violation".
    @param violation The violation's id.
    """
    assert violation != 0 and violation <= MAX_VIOLATION, "penalties: unknown violation"


@internal
@pure
def _row(
    bps: uint256,
    escalation_bps: uint256,
    suspension: uint256,
    strike: bool,
    ban: bool,
    reporter_bps: uint256,
) -> IPenalties.Penalty:
    """
    @notice Builds a row.
    @param bps Share of the stake, in 1/10,000.
    @param escalation_bps Added per earlier offence.
    @param suspension Seconds.
    @param strike Whether it counts towards REPEATED.
    @param ban Whether it bans the node.
    @param reporter_bps Share of the slash paid to the reporter.
    @return IPenalties.Penalty The row.
    """
    return IPenalties.Penalty(
        bps=bps,
        escalation_bps=escalation_bps,
        suspension=suspension,
        strike=strike,
        ban=ban,
        reporter_bps=reporter_bps,
    )
