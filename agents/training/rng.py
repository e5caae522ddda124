# SPDX-License-Identifier: Apache-2.0
"""Random numbers that have the same bits on every machine.

Only the raw 64-bit words of numpy's Philox4x64-10 are used: numpy guarantees the stream of a bit
generator, not that of the distributions on top of it, and torch's own normal draws differ by
instruction set. What is derived from the words is integer arithmetic and one rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

_BELL_MEAN = 2 * 65535
# Variance of the sum of four uniform integers in [0, 65535]: 4 * (65536^2 - 1) / 12.
_BELL_SD = float(np.sqrt((65536.0**2 - 1.0) / 3.0))


def derive_key(*parts: bytes | str | int) -> bytes:
    """32 bytes that depend on every part and on where each part ends (sha2-256)."""
    digest = hashlib.sha256(b"menagerie/rng/v1")
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()


def raw_words(key: bytes, count: int) -> NDArray[np.uint64]:
    """The first ``count`` uint64 words of Philox keyed by the first 16 bytes of ``key``."""
    generator = _philox(key)
    return generator.random_raw(count) if count else np.empty(0, np.uint64)


def endless_words(key: bytes) -> Iterator[int]:
    """The words of `raw_words` one by one, without end."""
    generator = _philox(key)
    while True:
        yield int(generator.random_raw())


def _philox(key: bytes) -> Philox:
    if len(key) < 16:
        raise ValueError(f"a Philox key needs 16 bytes, got {len(key)}; use derive_key")
    return Philox(key=int.from_bytes(key[:16], "little"))


def bell(key: bytes, size: int, std: float) -> NDArray[np.float32]:
    """``size`` fp32 draws of mean 0 and standard deviation ``std``, bounded by 3.47 ``std``.

    Each draw is the centred sum of the four 16-bit parts of a word (Irwin-Hall of order 4),
    multiplied once in fp64 and rounded once to fp32, so it needs no ``exp`` or ``log``.
    """
    words = raw_words(key, size)
    total = np.zeros(size, np.int64)
    for shift in (0, 16, 32, 48):
        total += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    return ((total - _BELL_MEAN).astype(np.float64) * (std / _BELL_SD)).astype(np.float32)
