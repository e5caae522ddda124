# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Marks of nodes in eight rounds at once
@custom:contract-name round_marks
@license AGPL-3.0-only
@notice Two marks of a node in a round of a job, kept so that a new round reads what became of a
        node in the eight rounds before in two words at most. A word holds 16 nodes in eight rounds,
        in a lane of 32 bits a round: the low half for the first mark, the high half for the second.
        The word of one round is used again by the next seven.

        Example: node 300 in round 12 has its bits in the word of round 8 (12 // 8) and of node 288
        (300 // 16), in lane 4 (12 % 8), at the places 12 (300 % 16) and 28 of it.
@dev Node ids are below 2**64, or they would name words of other rounds; `_has` denies all others.
     The importer must know that a node it marks exists.
"""

LOW: constant(uint256) = 0
HIGH: constant(uint256) = 16
# The lowest bit of each lane, and the low halves of all.
_ONES: constant(uint256) = max_value(uint256) // (2**32 - 1)
LOW_HALVES: constant(uint256) = 65_535 * _ONES

# By job, and by round // 8 << 64 | node // 16.
_words: HashMap[uint256, HashMap[uint256, uint256]]


@deploy
def __init__():
    """
    @notice Nothing is marked at the start.
    """
    pass


@internal
@view
def _has(job_id: uint256, round_id: uint256, mark: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node has a mark.
    @param job_id The job.
    @param round_id The round.
    @param mark LOW or HIGH.
    @param node_id The node.
    @return bool Whether it has.
    """
    word: uint256 = self._words[job_id][round_id >> 3 << 64 | node_id >> 4]
    return node_id >> 64 == 0 and word >> self._bit(round_id, mark, node_id) & 1 != 0


@internal
def _mark(job_id: uint256, round_id: uint256, mark: uint256, node_id: uint256):
    """
    @notice Gives a node a mark.
    @param job_id The job.
    @param round_id The round.
    @param mark LOW or HIGH.
    @param node_id The node.
    """
    self._words[job_id][round_id >> 3 << 64 | node_id >> 4] |= (
        1 << self._bit(round_id, mark, node_id)
    )


@internal
def _unmark(job_id: uint256, round_id: uint256, mark: uint256, node_id: uint256):
    """
    @notice Takes a mark from a node.
    @param job_id The job.
    @param round_id The round.
    @param mark LOW or HIGH.
    @param node_id The node.
    """
    self._words[job_id][round_id >> 3 << 64 | node_id >> 4] &= (
        ~(1 << self._bit(round_id, mark, node_id))
    )


@internal
def _mark_all(job_id: uint256, round_id: uint256, index: uint256, bits: uint256):
    """
    @notice Gives the LOW mark to every node whose bit is set.
    @param job_id The job.
    @param round_id The round.
    @param index The nodes from 16 * index on, the first in the lowest bit.
    @param bits Their bits.
    """
    self._words[job_id][round_id >> 3 << 64 | index] |= bits << ((round_id & 7) << 5)


@internal
@view
def _lane(job_id: uint256, round_id: uint256, mark: uint256, index: uint256) -> uint256:
    """
    @notice A mark of 16 nodes in one round.
    @param job_id The job.
    @param round_id The round.
    @param mark LOW or HIGH.
    @param index The nodes from 16 * index on, the first in the lowest bit.
    @return uint256 Their bits.
    """
    word: uint256 = self._words[job_id][round_id >> 3 << 64 | index]
    return word >> ((round_id & 7) << 5 | mark) & 65_535


@internal
@view
def _history(job_id: uint256, round_id: uint256, index: uint256) -> uint256:
    """
    @notice Both marks of 16 nodes in the eight rounds before a round, as far as there were so many.
    @param job_id The job.
    @param round_id The round after them.
    @param index The nodes from 16 * index on.
    @return uint256 A word of eight lanes; a round has the lane of its number modulo 8.
    """
    part: uint256 = round_id >> 3
    first: uint256 = (round_id & 7) << 5
    word: uint256 = 0
    if first != 0:
        word = self._words[job_id][part << 64 | index] & (1 << first) - 1
    if part != 0:
        word |= self._words[job_id][part - 1 << 64 | index] >> first << first
    return word


@internal
@pure
def _count(word: uint256, node_id: uint256) -> uint256:
    """
    @notice In how many lanes of a word a node has the LOW mark.
    @param word The word.
    @param node_id The node.
    @return uint256 The count, 8 at most.
    """
    # The product adds up all lanes in the highest one.
    return unsafe_mul(word >> (node_id & 15) & _ONES, _ONES) >> 224


@internal
@pure
def _bit(round_id: uint256, mark: uint256, node_id: uint256) -> uint256:
    return (round_id & 7) << 5 | mark | node_id & 15
