# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Seeds pinned to a future block
@custom:contract-name randomness
@license AGPL-3.0-only
@notice A request names a block that does not exist yet; once it is mined anyone may capture the
        seed it gives. Nobody knows a draw before it is due; nobody can redraw a captured one.

        Trust, without a source (`blockhash`): whoever proposes the target block decides what its
        hash covers, the order of transactions for one, and so draws among as many seeds as it can
        hash in its time. It may withhold its block as well, at the cost of the block's reward.
        Nobody else has any influence. A hash lives for 256 blocks; when nobody captured it by then
        the next capture re-arms the request to a new future block. A redraw therefore takes the
        silence of everybody for 256 blocks.

        Trust, with a source (`IRandomSource`, fixed at deployment): the source decides the
        values. It must answer with the empty word until the value is public, must never change an
        answer, and must not be one party's secret. A source that reverts stops the captures.
@dev The importer chooses the keys and must never use one twice; a second request reverts.
"""

from interfaces import IRandomness
from interfaces import IRandomSource


# How long `blockhash` remembers a block, and how long a source may stay silent before a re-arm.
LIFETIME: constant(uint256) = 256

_SOURCE: immutable(address)

_targets: HashMap[bytes32, uint256]
_seeds: HashMap[bytes32, bytes32]


@deploy
def __init__(source: address):
    """
    @notice Fixes where the randomness comes from.
    @param source A contract with `random_at(uint256) -> bytes32`, or zero for `blockhash`.
    """
    _SOURCE = source


@internal
def _request(key: bytes32) -> uint256:
    """
    @notice Pins the seed of `key` to the next block.
    @dev Reverts: "randomness: already requested".
    @param key A key that was never requested before.
    @return uint256 The target block.
    """
    assert self._targets[key] == 0, "randomness: already requested"
    target: uint256 = block.number + 1
    self._targets[key] = target
    log IRandomness.SeedRequested(key=key, target_block=target)
    return target


@internal
def _capture(key: bytes32) -> bytes32:
    """
    @notice Stores the seed of `key` once its block is mined; re-arms the request when the
            value is gone.
    @dev Reverts: "randomness: not requested", "randomness: too early". A caller that reverts on an
         empty answer undoes the re-arm, so at least one external function must let it stand.
    @param key A requested key.
    @return bytes32 The seed, or the empty word when the request was re-armed by this call.
    """
    seed: bytes32 = self._seeds[key]
    if seed != empty(bytes32):
        return seed
    target: uint256 = self._targets[key]
    assert target != 0, "randomness: not requested"
    assert block.number > target, "randomness: too early"
    seed = self._peek(key)
    if seed != empty(bytes32):
        self._seeds[key] = seed
        log IRandomness.SeedCaptured(key=key, target_block=target, seed=seed)
        return seed
    # Only a source can be silent this early: its value may still come, and must not be redrawn.
    assert block.number - target > LIFETIME, "randomness: too early"
    self._targets[key] = block.number + 1
    log IRandomness.SeedRearmed(key=key, old_target=target, new_target=block.number + 1)
    return empty(bytes32)


@internal
@view
def _peek(key: bytes32) -> bytes32:
    """
    @notice The captured seed, or the seed that a capture would store now, or the empty word.
    @param key Any key.
    @return bytes32 The seed or the empty word.
    """
    seed: bytes32 = self._seeds[key]
    if seed != empty(bytes32):
        return seed
    target: uint256 = self._targets[key]
    if target == 0:
        return empty(bytes32)
    return self._derive(key, target)


@internal
@view
def _derive(key: bytes32, target: uint256) -> bytes32:
    """
    @notice The seed of `key` when pinned to block `target`, or the empty word while it is unknown
            or once its block hash is gone. For importers that keep the target themselves: they
            re-arm by `_is_lost` and never redraw what was captured.
    @param key Any key.
    @param target The block.
    @return bytes32 The seed or the empty word.
    """
    if block.number <= target:
        return empty(bytes32)
    value: bytes32 = empty(bytes32)
    if _SOURCE != empty(address):
        value = staticcall IRandomSource(_SOURCE).random_at(target)
    elif block.number - target <= LIFETIME:
        value = blockhash(target)
    if value == empty(bytes32):
        return empty(bytes32)
    return keccak256(abi_encode(value, key, chain.id, self))


@internal
@view
def _is_lost(target: uint256) -> bool:
    """
    @notice Whether a request pinned to block `target` has waited for so long that it is re-armed.
    @param target The block.
    @return bool True from the 257th block after it.
    """
    return block.number > target + LIFETIME


@internal
@view
def _seed(key: bytes32) -> bytes32:
    """
    @notice The captured seed of `key`.
    @param key Any key.
    @return bytes32 The seed, or the empty word when it was not captured.
    """
    return self._seeds[key]


@internal
@view
def _target(key: bytes32) -> uint256:
    """
    @notice The block that the seed of `key` is pinned to.
    @param key Any key.
    @return uint256 The block number, or 0 when `key` was never requested.
    """
    return self._targets[key]
