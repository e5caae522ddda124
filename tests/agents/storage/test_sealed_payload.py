# SPDX-License-Identifier: Apache-2.0
"""Payloads for some readers only: who reads what, and what a sender can't do."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents.storage.envelope import ENVELOPE_BYTES, Purpose, is_usable, open_key
from agents.storage.sealed import SealError
from agents.storage.sealed_payload import (
    MAX_RECIPIENTS,
    NotForUs,
    open_payload,
    seal_payload,
    sealed_bound,
)

KEYS = {node: X25519PrivateKey.generate() for node in (3, 7, 300)}
PUBLIC = {node: key.public_key().public_bytes_raw() for node, key in KEYS.items()}
PAYLOAD = bytes(range(256)) * 300
HEAD = 11


def purpose(node: int, key_id: bytes, job: int = 1) -> Purpose:
    return Purpose(31337, "0x" + "11" * 20, job, node, key_id)


def opened(raw: bytes, node: int, job: int = 1, **options: Any) -> bytes:
    return open_payload(
        raw,
        node,
        lambda envelope, made_for: open_key(envelope, KEYS[node], made_for),
        lambda n, key_id: purpose(n, key_id, job),
        **options,
    )


def test_every_recipient_reads_it_and_nobody_else() -> None:
    raw = seal_payload(PAYLOAD, PUBLIC, purpose)
    assert [opened(raw, node) for node in KEYS] == [PAYLOAD] * 3
    assert PAYLOAD[:64] not in raw
    only = seal_payload(PAYLOAD, {7: PUBLIC[7]}, purpose)
    with pytest.raises(NotForUs, match="not sealed for node 3"):
        opened(only, 3)


def test_two_seals_of_one_payload_have_nothing_in_common() -> None:
    one, other = (seal_payload(PAYLOAD, {7: PUBLIC[7]}, purpose) for _ in range(2))
    assert one != other and len(one) == len(other) <= sealed_bound(len(PAYLOAD))


def test_an_envelope_of_another_job_does_not_open() -> None:
    raw = seal_payload(PAYLOAD, PUBLIC, purpose)
    with pytest.raises(NotForUs, match="does not open for node 7"):
        opened(raw, 7, job=2)


def test_a_recipient_without_a_usable_key_is_left_out() -> None:
    raw = seal_payload(PAYLOAD, {**PUBLIC, 8: bytes(32)}, purpose)
    assert opened(raw, 3) == PAYLOAD
    with pytest.raises(ValueError, match="1 to 512 nodes, not 0"):
        seal_payload(PAYLOAD, {8: bytes(32)}, purpose)


def test_recipients_cannot_be_told_different_things() -> None:
    """Another body under the envelopes of one: its key id is another, so nothing opens."""
    one, other = (seal_payload(text, PUBLIC, purpose) for text in (b"yes", b"no!"))
    cut = HEAD + 3 * (8 + ENVELOPE_BYTES)
    with pytest.raises(NotForUs):
        opened(one[:cut] + other[cut:], 3)


@pytest.mark.parametrize("place", [0, 8, 9, 10])
def test_an_altered_head_is_named(place: int) -> None:
    raw = bytearray(seal_payload(PAYLOAD, PUBLIC, purpose))
    raw[place] ^= 0x80
    with pytest.raises((SealError, NotForUs)):
        opened(bytes(raw), 3)


def test_any_altered_byte_of_the_body_is_found() -> None:
    raw = seal_payload(b"short", {3: PUBLIC[3]}, purpose)
    for place in range(HEAD + 8 + ENVELOPE_BYTES, len(raw)):
        bad = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with pytest.raises((SealError, NotForUs)):
            opened(bad, 3)


@pytest.mark.parametrize("size", [0, 5, 11, 60, 200])
def test_a_cut_off_payload_is_refused(size: int) -> None:
    raw = seal_payload(PAYLOAD, {3: PUBLIC[3]}, purpose)
    with pytest.raises(SealError):
        opened(raw[:size], 3)


def test_recipients_ascend_so_that_one_list_has_one_spelling() -> None:
    raw = seal_payload(PAYLOAD, {3: PUBLIC[3], 7: PUBLIC[7]}, purpose)
    entry = 8 + ENVELOPE_BYTES
    first, second = raw[HEAD : HEAD + entry], raw[HEAD + entry : HEAD + 2 * entry]
    for wrong in (second + first, first + first):
        with pytest.raises(SealError, match="ascending"):
            opened(raw[:HEAD] + wrong + raw[HEAD + 2 * entry :], 3)


def test_the_number_of_recipients_is_bounded() -> None:
    many = dict.fromkeys(range(1, MAX_RECIPIENTS + 2), PUBLIC[3])
    with pytest.raises(ValueError, match="not 513"):
        seal_payload(b"", many, purpose)


def test_a_payload_that_leaves_a_reader_out_is_refused_by_everyone() -> None:
    """Or a trainer and one aggregator could keep all verifiers from checking a merge."""
    raw = seal_payload(PAYLOAD, {3: PUBLIC[3], 7: PUBLIC[7]}, purpose)
    for node in KEYS:
        with pytest.raises(SealError, match="not sealed for node 300, which must read it"):
            opened(raw, node, readers=KEYS)


def test_keys_that_cannot_be_encrypted_to_are_known_beforehand() -> None:
    assert all(map(is_usable, PUBLIC.values()))
    assert not is_usable(bytes(32)) and not is_usable(b"short")
