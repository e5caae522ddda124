# SPDX-License-Identifier: Apache-2.0
"""Merkle trees whose leaves have an order, and proofs that a leaf is at its place.

Leaves are 32-byte hashes, made by the caller in a way that no inner node passes for one. An inner
node is keccak(0x01 || left || right); an odd node at the end of a level moves up unchanged. A proof
holds for one place in a tree of one size.
"""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils import keccak


def _parent(left: bytes, right: bytes) -> bytes:
    return keccak(b"\1" + left + right)


def _level_up(level: Sequence[bytes]) -> list[bytes]:
    parents = [_parent(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
    return parents + list(level[-1:]) if len(level) % 2 else parents


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Root over at least one leaf; ValueError for none."""
    if not leaves:
        raise ValueError("a Merkle tree needs at least one leaf")
    level = list(leaves)
    while len(level) > 1:
        level = _level_up(level)
    return level[0]


def merkle_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Siblings of leaf ``index`` from the bottom up; levels where it moves up alone add none."""
    return merkle_proofs(leaves, [index])[0]


def merkle_proofs(leaves: Sequence[bytes], indices: Sequence[int]) -> list[list[bytes]]:
    """The proofs of several leaves, in their order, from one walk up the tree."""
    places = list(indices)
    for index in places:
        if not 0 <= index < len(leaves):
            raise ValueError(f"leaf {index} is not among the {len(leaves)} leaves")
    proofs: list[list[bytes]] = [[] for _ in places]
    level = list(leaves)
    while len(level) > 1:
        for proof, index in zip(proofs, places, strict=True):
            if index ^ 1 < len(level):
                proof.append(level[index ^ 1])
        level, places = _level_up(level), [index // 2 for index in places]
    return proofs


def verify_proof(
    root: bytes, count: int, index: int, leaf_hash: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether ``leaf_hash`` is leaf ``index`` of the tree with ``count`` leaves under ``root``."""
    if not 0 <= index < count or any(len(sibling) != 32 for sibling in proof):
        return False
    current, rest = leaf_hash, list(proof)
    while count > 1:
        if index ^ 1 < count:
            if not rest:
                return False
            sibling = rest.pop(0)
            pair = (sibling, current) if index % 2 else (current, sibling)
            current = _parent(*pair)
        index, count = index // 2, (count + 1) // 2
    return not rest and current == root
