# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Round clock
@custom:contract-name round_clock
@license AGPL-3.0-only
@notice The clock of a round: everything a commit, a reveal or an attestation must read and write
        about its round, in one storage slot. A round has two clocks, one after the other.
        TrainingRounds keeps the first until the reveals are over, TrainingResults keeps the second
        from there on. Both have the same layout; each leaves the other's fields 0.

        bits      width  field                                          whose
        0-7       8      phase                                          both
        8-47      40     deadline of the phase, seconds (0 for none)    both
        48-87     40     opened_at, seconds                             TrainingRounds
        48-87     40     settle_by, seconds                             TrainingResults
        88-95     8      eligible trainers                              TrainingRounds
        96-103    8      committed                                      TrainingRounds
        104-111   8      revealed                                       TrainingRounds
        112-119   8      invalid                                        TrainingResults
        120-135   16     open reports                                   TrainingResults
        136-143   8      attempt (results proposed)                     TrainingResults
        144       1      round seed captured                            TrainingRounds
        145       1      this result was challenged                     TrainingResults
        146       1      fallback: the duty window is over              TrainingResults
        147       1      settled                                        TrainingResults
        148-169   22     reveal window, seconds                         TrainingRounds
        148-169   22     challenge window left when it was challenged   TrainingResults
        170-191   22     aggregate window                               TrainingResults
        192-213   22     challenge window                               TrainingResults
        214-235   22     dispute window                                 TrainingResults
        236-243   8      seats to be drawn; 0 when they are taken       TrainingRounds
        236-243   8      place of the aggregator on duty                TrainingResults
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
CHALLENGED: constant(uint256) = 1 << 145
FALLBACK: constant(uint256) = 1 << 146
SETTLED: constant(uint256) = 1 << 147

REVEAL_S: constant(uint256) = 148
LEFT_S: constant(uint256) = 148
AGGREGATE_S: constant(uint256) = 170
CHALLENGE_S: constant(uint256) = 192
DISPUTE_S: constant(uint256) = 214

OPENED_AT: constant(uint256) = 48
SETTLE_BY: constant(uint256) = 48
SEATS: constant(uint256) = 236
DUTY: constant(uint256) = 236

_DEADLINE: constant(uint256) = 8
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
    return clock >> OPENED_AT & _TIME_MASK


@internal
@pure
def _settle_by(clock: uint256) -> uint256:
    """
    @notice By when the result must be settled.
    """
    return clock >> SETTLE_BY & _TIME_MASK


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
