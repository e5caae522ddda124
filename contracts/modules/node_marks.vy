# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Marks of nodes
@custom:contract-name node_marks
@license AGPL-3.0-only
@notice What is true of a few nodes in a round, one bit for each node. 256 nodes share a storage
        word, so that a round with a hundred nodes reads one word where a mapping would read a
        hundred. What is true of most nodes in every round is in modules/round_marks.

        Example: node 300 has its bit in word 1 (300 // 256), at place 44 (300 % 256).
@dev The importer chooses the numbers of its marks, below 256, and the keys of its rounds.
"""

# By key, and by mark << 248 | index of the word.
_marks: HashMap[bytes32, HashMap[uint256, uint256]]


@deploy
def __init__():
    """
    @notice Nothing is marked at the start.
    """
    pass


@internal
@view
def _word(key: bytes32, mark: uint256, index: uint256) -> uint256:
    """
    @notice The bits of 256 nodes.
    @param key The round.
    @param mark The mark.
    @param index The word: the nodes from 256 * index on, the first in the lowest bit.
    @return uint256 The word.
    """
    return self._marks[key][mark << 248 | index]


@internal
@view
def _has(key: bytes32, mark: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node has a mark.
    @param key The round.
    @param mark The mark.
    @param node_id The node.
    @return bool Whether it has.
    """
    return self._marks[key][mark << 248 | node_id >> 8] & 1 << (node_id & 255) != 0


@internal
def _mark(key: bytes32, mark: uint256, node_id: uint256):
    """
    @notice Gives a node a mark.
    @param key The round.
    @param mark The mark.
    @param node_id The node.
    """
    self._marks[key][mark << 248 | node_id >> 8] |= 1 << (node_id & 255)


@internal
def _unmark(key: bytes32, mark: uint256, node_id: uint256):
    """
    @notice Takes a mark from a node.
    @param key The round.
    @param mark The mark.
    @param node_id The node.
    """
    self._marks[key][mark << 248 | node_id >> 8] &= ~(1 << (node_id & 255))
