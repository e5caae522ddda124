# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Round clock
@custom:contract-name round_clock
@license AGPL-3.0-only
@notice Everything a commit or a reveal must read and write about its round, in one storage slot.

        bits      width  field
        0-7       8      phase
        8-47      40     deadline of the phase, seconds (0 in a final phase)
        48-87     40     opened_at, seconds
        88-95     8      eligible trainers
        96-103    8      committed
        104-111   8      revealed
        112-119   8      invalid
        120-135   16     open reports
        136-143   8      attempt (results proposed)
        144       1      round seed captured
        145       1      audit seed captured
        146       1      fallback: the duty window is over
        147       1      settled
        148-169   22     reveal window, seconds
        170-191   22     aggregate window
        192-213   22     challenge window
        214-235   22     dispute window
@dev Pure functions on the packed word. Counters can't overflow: at most 128 trainers, two reports
     for each, and one attempt for each of at most 176 proposers (an attempt follows an upheld
     challenge, which bars its proposer).
"""

ELIGIBLE: constant(uint256) = 88
COMMITTED: constant(uint256) = 96
REVEALED: constant(uint256) = 104
INVALID: constant(uint256) = 112
OPEN_REPORTS: constant(uint256) = 120
ATTEMPT: constant(uint256) = 136

SEED_CAPTURED: constant(uint256) = 1 << 144
AUDIT_CAPTURED: constant(uint256) = 1 << 145
FALLBACK: constant(uint256) = 1 << 146
SETTLED: constant(uint256) = 1 << 147

REVEAL_S: constant(uint256) = 148
AGGREGATE_S: constant(uint256) = 170
CHALLENGE_S: constant(uint256) = 192
DISPUTE_S: constant(uint256) = 214

_DEADLINE: constant(uint256) = 8
_OPENED_AT: constant(uint256) = 48
_TIME_MASK: constant(uint256) = (1 << 40) - 1
_WINDOW_MASK: constant(uint256) = (1 << 22) - 1
_PHASE_AND_DEADLINE: constant(uint256) = (1 << 48) - 1


@deploy
def __init__():
    """
    @notice Nothing to set: the module keeps no state.
    """
    pass


@internal
@pure
def _new(
    eligible: uint256,
    opened_at: uint256,
    reveal_s: uint256,
    aggregate_s: uint256,
    challenge_s: uint256,
    dispute_s: uint256,
) -> uint256:
    """
    @notice A clock with no phase yet.
    @dev The caller bounds its arguments: eligible < 2**8, times < 2**40, windows < 2**22.
    """
    return (
        opened_at << _OPENED_AT
        | eligible << ELIGIBLE
        | reveal_s << REVEAL_S
        | aggregate_s << AGGREGATE_S
        | challenge_s << CHALLENGE_S
        | dispute_s << DISPUTE_S
    )


@internal
@pure
def _phase(clock: uint256) -> uint256:
    """
    @notice The phase.
    """
    return clock & 255


@internal
@pure
def _deadline(clock: uint256) -> uint256:
    """
    @notice The deadline of the phase.
    """
    return clock >> _DEADLINE & _TIME_MASK


@internal
@pure
def _opened_at(clock: uint256) -> uint256:
    """
    @notice When the round opened.
    """
    return clock >> _OPENED_AT & _TIME_MASK


@internal
@pure
def _count(clock: uint256, field: uint256) -> uint256:
    """
    @notice An 8-bit counter, named by its offset.
    """
    return clock >> field & 255


@internal
@pure
def _open_reports(clock: uint256) -> uint256:
    """
    @notice The 16-bit counter of open reports.
    """
    return clock >> OPEN_REPORTS & 65_535


@internal
@pure
def _window(clock: uint256, field: uint256) -> uint256:
    """
    @notice The length of a window, named by its offset.
    """
    return clock >> field & _WINDOW_MASK


@internal
@pure
def _enter(clock: uint256, phase: uint256, deadline: uint256) -> uint256:
    """
    @notice The clock in another phase.
    """
    return clock & ~_PHASE_AND_DEADLINE | deadline << _DEADLINE | phase
