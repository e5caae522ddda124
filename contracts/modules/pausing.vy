# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Pause bits
@custom:contract-name pausing
@license AGPL-3.0-only
@notice One bit per pausable function. Exits, claims and settlement have no bit: money can
        always leave.
@dev `_set_paused` is unguarded: the importer exports `set_paused` and restricts it to its owner.
"""

from interfaces import IPausing

_paused: uint256


@deploy
def __init__():
    """
    @notice Nothing is paused at the start.
    """
    pass


@view
@external
def paused() -> uint256:
    """
    @notice The pause bits that are set.
    @return uint256 The bits; each importer documents its own.
    """
    return self._paused


@internal
def _set_paused(bits: uint256, known: uint256):
    """
    @notice Replaces the pause bits.
    @dev Reverts: "pausing: unknown bit".
    @param bits The new bits.
    @param known Every bit the importer knows.
    """
    assert bits & ~known == 0, "pausing: unknown bit"
    log IPausing.PauseChanged(old_bits=self._paused, new_bits=bits)
    self._paused = bits


@internal
@view
def _is_paused(bit: uint256) -> bool:
    """
    @notice Whether a function is paused.
    @param bit The function's bit.
    @return bool True while it is paused.
    """
    return self._paused & bit != 0


@internal
@view
def _check_not_paused(bit: uint256):
    """
    @notice Stops a paused function.
    @dev Reverts: "pausing: paused".
    @param bit The function's bit.
    """
    assert self._paused & bit == 0, "pausing: paused"
