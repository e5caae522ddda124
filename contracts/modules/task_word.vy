# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Task word
@custom:contract-name task_word
@license AGPL-3.0-only
@notice Everything a step of a redundant task must read and write, in one storage slot.

        bits      width  field
        0-3       4      status
        4-35      32     time, seconds: of the request while DRAWING, else the stage's deadline
        36-71     36     block that the latest draw is pinned to
        72-95     24     seats in the pool when that draw was requested
        96-115    20     run_s, seconds that an executor has
        116-119   4      0
        120-254   5x27   lanes: node id (24) and, above it, the lane's state (3)
"""

# Lanes: the executors a task may see in all.
LANES: constant(uint256) = 5

# States of a lane.
RUNNING: constant(uint256) = 1
COMMITTED: constant(uint256) = 2
REVEALED: constant(uint256) = 3
ABORTED: constant(uint256) = 4
AGREED: constant(uint256) = 5
OPENED: constant(uint256) = 6

# The result of an executor that could not get the task's inputs.
UNAVAILABLE: constant(bytes32) = keccak256("menagerie.RedundantTasks.unavailable.v1")

_TIME: constant(uint256) = 4
_BLOCK: constant(uint256) = 36
_SIZE: constant(uint256) = 72
_RUN_S: constant(uint256) = 96
_LANES: constant(uint256) = 120
_LANE_BITS: constant(uint256) = 27
_STATE: constant(uint256) = 24
_STATUS_AND_TIME: constant(uint256) = 2**36 - 1
_REQUEST: constant(uint256) = 2**96 - 1


@deploy
def __init__():
    """
    @notice Nothing to set: the module keeps no state.
    """
    pass


@internal
@pure
def _status(word: uint256) -> uint256:
    """
    @notice The status.
    """
    return word & 15


@internal
@pure
def _time(word: uint256) -> uint256:
    """
    @notice When the draw was requested, or the deadline of the stage.
    """
    return word >> _TIME & (2**32 - 1)


@internal
@pure
def _block(word: uint256) -> uint256:
    """
    @notice The block that the latest draw is pinned to.
    """
    return word >> _BLOCK & (2**36 - 1)


@internal
@pure
def _size(word: uint256) -> uint256:
    """
    @notice The seats in the pool when the latest draw was requested.
    """
    return word >> _SIZE & (2**24 - 1)


@internal
@pure
def _run_s(word: uint256) -> uint256:
    """
    @notice Seconds that an executor has.
    """
    return word >> _RUN_S & (2**20 - 1)


@internal
@pure
def _node(word: uint256, lane: uint256) -> uint256:
    """
    @notice The node in a lane, 0 while the lane is empty.
    """
    return word >> (_LANES + _LANE_BITS * lane) & (2**24 - 1)


@internal
@pure
def _state(word: uint256, lane: uint256) -> uint256:
    """
    @notice The state of a lane, 0 while it is empty.
    """
    return word >> (_LANES + _LANE_BITS * lane + _STATE) & 7


@internal
@pure
def _count(word: uint256, state: uint256) -> uint256:
    """
    @notice How many lanes are in a state; with 0, how many are empty.
    """
    found: uint256 = 0
    states: uint256 = word >> (_LANES + _STATE)
    for _: uint256 in range(LANES):
        if states & 7 == state:
            found = unsafe_add(found, 1)
        states >>= _LANE_BITS
    return found


@internal
@pure
def _enter(word: uint256, status: uint256, time: uint256) -> uint256:
    """
    @notice The word in another status.
    """
    return word & ~_STATUS_AND_TIME | time << _TIME | status


@internal
@pure
def _request(
    word: uint256, status: uint256, time: uint256, target: uint256, size: uint256
) -> uint256:
    """
    @notice The word with a new draw.
    @dev The caller bounds its arguments: times < 2**32, blocks < 2**36, sizes < 2**24.
    """
    return word & ~_REQUEST | size << _SIZE | target << _BLOCK | time << _TIME | status


@internal
@pure
def _with_run_s(word: uint256, run_s: uint256) -> uint256:
    """
    @notice A new task's word with its seconds, which were 0; less than 2**20.
    """
    return word | run_s << _RUN_S


@internal
@pure
def _with_node(word: uint256, lane: uint256, node_id: uint256) -> uint256:
    """
    @notice The word with a node RUNNING in a lane that was empty.
    """
    return word | (RUNNING << _STATE | node_id) << (_LANES + _LANE_BITS * lane)


@internal
@pure
def _with_state(word: uint256, lane: uint256, state: uint256) -> uint256:
    """
    @notice The word with a lane in another state.
    """
    place: uint256 = _LANES + _LANE_BITS * lane + _STATE
    return word & ~(7 << place) | state << place
