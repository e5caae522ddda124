# SPDX-License-Identifier: Apache-2.0
"""The public keys that a round's payloads are sealed for are those of its first block."""

from __future__ import annotations

from agents.protocol.network import encryption_keys_after
from agents.protocol.numbers import ZERO_DIGEST
from agents.runtime.contracts import Event

A, B, C = (bytes([n]) * 32 for n in (1, 2, 3))


def registered(node: int, key: bytes, block: int) -> Event:
    args = {"node_id": node, "encryption_key": key}
    return Event("NodeRegistered", args, "", block, b"", b"", 0)


def changed(node: int, key: bytes, block: int) -> Event:
    args = {"node_id": node, "old_key": b"", "new_key": key}
    return Event("EncryptionKeyChanged", args, "", block, b"", b"", 0)


EVENTS = [registered(1, A, 2), registered(2, ZERO_DIGEST, 3), changed(1, B, 7), changed(2, C, 9)]


def test_keys_are_those_of_the_block() -> None:
    assert encryption_keys_after(EVENTS, [1, 2], 6) == {1: A, 2: ZERO_DIGEST}
    assert encryption_keys_after(EVENTS, [1, 2], 7) == {1: B, 2: ZERO_DIGEST}
    assert encryption_keys_after(EVENTS, [2], 9) == {2: C}


def test_who_is_not_registered_yet_has_none() -> None:
    assert encryption_keys_after(EVENTS, [1, 5], 1) == {1: ZERO_DIGEST, 5: ZERO_DIGEST}
