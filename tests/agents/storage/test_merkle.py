# SPDX-License-Identifier: Apache-2.0
"""Merkle proofs hold exactly for the right leaf, place and count."""

from __future__ import annotations

from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.storage.merkle import merkle_proof, merkle_root, verify_proof

digests = st.binary(min_size=32, max_size=32)
HASHES = tuple(keccak(bytes([i])) for i in range(5))


def test_root_and_proof_by_hand() -> None:
    a, b, c = HASHES[:3]
    assert merkle_root([a]) == a
    assert merkle_root([a, b, c]) == keccak(b"\1" + keccak(b"\1" + a + b) + c)
    left = keccak(b"\1" + keccak(b"\1" + a + b) + keccak(b"\1" + c + HASHES[3]))
    assert merkle_root(HASHES) == keccak(b"\1" + left + HASHES[4])
    assert merkle_proof(HASHES, 4) == [left]


@given(st.lists(digests, min_size=1, max_size=40), st.data())
def test_proofs(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    root, proof = merkle_root(leaves), merkle_proof(leaves, index)
    assert verify_proof(root, len(leaves), index, leaves[index], proof)
    other = data.draw(digests)
    assert verify_proof(root, len(leaves), index, other, proof) == (other == leaves[index])
    assert not verify_proof(root, len(leaves), index, leaves[index], [*proof, other])
    assert not verify_proof(root, len(leaves), len(leaves), leaves[index], proof)
    if proof:
        assert not verify_proof(root, len(leaves), index, leaves[index], proof[:-1])
        wrong = [keccak(proof[0]), *proof[1:]]
        assert not verify_proof(root, len(leaves), index, leaves[index], wrong)


@given(st.lists(digests, min_size=2, max_size=20, unique=True), st.data())
def test_root_depends_on_order(leaves: list[bytes], data: st.DataObject) -> None:
    assert merkle_root(leaves) != merkle_root(leaves[::-1])
    assert merkle_root(leaves) != merkle_root([*leaves, leaves[-1]])
