# SPDX-License-Identifier: Apache-2.0
"""Who may send a sample on: only the miner to whom it was handed from stage to stage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from eth_utils import keccak

from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import MAX_TRAIL, Entry
from agents.pipeline.letters import passage_signer, sign_passage
from agents.pipeline.miner_log import Kind
from agents.pipeline.trail import broken, trail_bytes, trail_from
from agents.training.spec import MAX_STAGES
from tests.stage.memory.pipeline_epoch import EPOCH, OPERATORS, WALLETS, WHERE

FORWARD, BACKWARD = Kind.FORWARD, Kind.BACKWARD


def signed(passage: Passage, digest: bytes, signature: bytes) -> bool:
    return passage_signer(WHERE, passage, digest, signature) == OPERATORS[passage.sender]


def way(*miners: int, sample: int = 40, by: Callable[[int], int] = lambda miner: miner) -> bytes:
    """The trail of a sample that these miners hand on, as the last one shows it; `by`: who signs
    in a miner's name."""
    trail = b""
    for sender, receiver in pairwise(miners):
        message = f"from {sender}".encode()
        passage = Passage.of(EPOCH, sample, FORWARD, sender, receiver)
        signature = sign_passage(WALLETS[by(sender)], WHERE, passage, message)
        trail = trail_from(Entry(FORWARD, sample, sender, signature, message, trail))
    return trail


def found(sender: int, receiver: int, trail: bytes, sample: int = 40) -> str:
    return broken(EPOCH, Passage.of(EPOCH, sample, FORWARD, sender, receiver), trail, signed)


BEGINS = EPOCH.candidates(40, 0)[0]
OTHER = EPOCH.candidates(40, 0)[1]


def test_a_trail_names_every_hand_over_from_the_miner_that_begins_the_sample() -> None:
    assert trail_from(Entry(FORWARD, 40)) == b""
    assert found(BEGINS, 21, b"") == ""
    assert found(21, 31, way(BEGINS, 21)) == ""
    assert found(31, 41, way(BEGINS, 21, 31)) == ""
    miner, digest = way(BEGINS, 21)[:8], way(BEGINS, 21)[8:40]
    assert int.from_bytes(miner, "big") == BEGINS
    assert digest == keccak(f"from {BEGINS}".encode())


@pytest.mark.parametrize(
    ("trail", "why"),
    [
        (b"", "another length"),
        (way(BEGINS, 21, 31), "another length"),
        (way(BEGINS, 22), f"Miner {BEGINS} did not hand sample 40 to miner 21"),
        (way(BEGINS, 21, sample=41), f"Miner {BEGINS} did not hand sample 40 to miner 21"),
        (way(BEGINS, 21, by=lambda _: 21), f"Miner {BEGINS} did not hand sample 40 to miner 21"),
        (way(OTHER, 21), f"Miner {OTHER} can't have handed sample 40 to stage 1"),
        (way(31, 21), "Miner 31 can't have handed sample 40 to stage 1"),
        (way(77, 21, by=lambda _: 21), "Miner 77 can't have handed sample 40 to stage 1"),
    ],
)
def test_a_miner_that_was_not_sent_the_sample_has_no_trail(trail: bytes, why: str) -> None:
    assert why in found(21, 31, trail)


def test_a_gap_in_the_middle_is_seen() -> None:
    """21 had the sample, and 32 claims that 22 gave it to it."""
    honest, forged = way(BEGINS, 21), way(22, 32, by=lambda _: 32)
    assert "did not hand sample 40 to miner 22" in found(32, 41, honest + forged)


def test_a_gradient_has_no_trail() -> None:
    back = Passage.of(EPOCH, 40, BACKWARD, 31, 21)
    assert broken(EPOCH, back, b"", signed) == ""
    assert "another length" in broken(EPOCH, back, way(BEGINS, 21), signed)
    assert trail_bytes(3, BACKWARD) == trail_bytes(0, FORWARD) == trail_bytes(1, FORWARD) == 0


def test_an_entry_has_room_for_the_longest_trail() -> None:
    assert 0 < trail_bytes(MAX_STAGES - 1, FORWARD) <= MAX_TRAIL
