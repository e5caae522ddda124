# SPDX-License-Identifier: Apache-2.0
"""Payloads spelled bit by bit, and every byte of a payload altered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from agents.rounds.payload import read_payload
from agents.training.state import PayloadError

SEED = bytes(32)


def packed(*numbers: str) -> bytes:
    """Bits as written, the lowest first, filled up with zeros to whole bytes."""
    text = "".join(numbers)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at : at + 8][::-1], 2) for at in range(0, len(text), 8))


def low_first(number: int, width: int) -> str:
    return format(number, f"0{width}b")[::-1]


def bf16(*values: float) -> bytes:
    return (np.array(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()


def assert_altered_bytes_are_noticed(
    made: Any, good: bytes, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Whatever byte of a good payload is altered, it is refused or decodes to something else."""
    said = made.decode(good, shapes, SEED)
    for at in range(len(good)):
        for change in (1, 2, 8, 0x40, 0x80, 0xFF):
            bad = bytearray(good)
            bad[at] ^= change
            try:
                got = read_payload(bytes(bad), made, shapes, SEED)
            except PayloadError:
                continue
            assert at >= 8, f"a changed length at byte {at} should be refused"
            assert all(torch.isfinite(tensor).all() for tensor in got.values())
            same = all(got[name].numpy().tobytes() == said[name].numpy().tobytes() for name in said)
            assert not same, f"byte {at} altered by {change} should not decode to the same"
