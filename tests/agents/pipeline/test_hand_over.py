# SPDX-License-Identifier: Apache-2.0
"""A disagreement about a hand-over names its author, and only where it is proved."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from eth_abi import encode
from eth_account.messages import encode_typed_data
from eth_utils import keccak

from agents.mechanisms.boundary.parts.wire import MAX_MAGNITUDE
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import TYPES, Passage, Statement, blame, most_sent
from agents.pipeline.miner_log import Kind

SEED = b"\7" * 32
WAY = Passage(job=1, epoch=2, seed=SEED, sample=3, kind=Kind.FORWARD, sender=4, receiver=5)
A, B, C = (keccak(letter) for letter in (b"a", b"b", b"c"))


def said(sent: tuple[bytes, ...], received: tuple[bytes, ...]) -> list[Statement]:
    return [
        *(Statement(WAY, WAY.sender, digest) for digest in sent),
        *(Statement(WAY, WAY.receiver, digest) for digest in received),
    ]


@pytest.mark.parametrize(
    ("sent", "received", "true", "guilty"),
    [
        ((A,), (A,), None, []),
        ((A,), (A,), A, []),
        ((A,), (A,), B, [4]),  # the receiver used what it was given
        ((A,), (B,), None, [5]),
        ((A,), (B,), A, [5]),
        ((A,), (B,), B, [4, 5]),  # right bytes by chance excuse nobody
        ((A, B), (B,), None, [4]),  # one digest to the record, another to the receiver
        ((A, B), (A,), A, [4]),
        ((A, B), (C,), None, [4, 5]),
        ((A,), (A, B), None, [5]),
        ((), (A,), None, [5]),
        ((A,), (), None, []),  # it may never have arrived
        ((), (), A, []),
    ],
)
def test_who_is_proved_wrong(sent, received, true, guilty) -> None:
    statements = said(sent, received)
    assert [fault.miner for fault in blame(statements, true)] == guilty
    assert [fault.miner for fault in blame(statements[::-1], true)] == guilty


def test_what_is_signed_by_hand() -> None:
    name = "uint256 job,uint256 epoch,uint256 sample,uint256 kind,uint256 sender,uint256 receiver"
    types = ["bytes32"] + ["uint256"] * 6 + ["bytes32"] * 2
    head = keccak(f"HandOver({name},bytes32 seed,bytes32 digest)".encode())
    values = [head, 1, 2, 3, 0, 4, 5, SEED, A]
    signed = encode_typed_data({"name": "any"}, TYPES, WAY.typed(A))
    assert signed.body == keccak(encode(types, values))


def test_statements_of_two_passages_are_not_mixed() -> None:
    other = Statement(replace(WAY, sample=9), 4, B)
    with pytest.raises(ValueError, match="different passages"):
        blame([Statement(WAY, 4, A), other])


@pytest.mark.parametrize(
    ("way", "speaker", "digest"),
    [
        (WAY, 6, A),
        (WAY, 4, b"short"),
        (replace(WAY, receiver=4), 4, A),
        (replace(WAY, kind=Kind.STEP), 4, A),
    ],
)
def test_a_statement_that_means_nothing_is_refused(way, speaker, digest) -> None:
    with pytest.raises(ValueError):
        Statement(way, speaker, digest)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 6, 9])
def test_a_gradient_may_grow_on_its_way_back_and_none_is_above_the_wire_s_most(stages: int) -> None:
    """By 2^4 and more a stage where there are nine. Codes are bounded by the wire alone."""
    epoch = Epoch(1, 2, SEED, tuple((stage + 1,) for stage in range(stages)), range(4))
    last_to_first = range(stages, 0, -1)
    most = [most_sent(epoch, Kind.BACKWARD, miner) for miner in last_to_first]
    assert most[0] == (2.0**8 if stages > 1 else MAX_MAGNITUDE)
    assert most[-1] == MAX_MAGNITUDE
    assert all(b >= 16 * a for a, b in pairwise(most))
    assert {most_sent(epoch, Kind.FORWARD, miner) for miner in last_to_first} == {MAX_MAGNITUDE}
