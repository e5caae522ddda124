# SPDX-License-Identifier: Apache-2.0
"""Random words and orders from a public seed, the same for everybody who knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from eth_utils import keccak

T = TypeVar("T")


def word(seed: bytes, purpose: str, *numbers: int) -> int:
    """keccak256(seed || purpose in UTF-8 || each number as int256), as an unsigned integer.

    ValueError unless the seed has 32 bytes. Other purposes give independent words. A word modulo m
    is biased by less than m / 2^256.
    """
    if len(seed) != 32:
        raise ValueError(f"A seed has 32 bytes, not {len(seed)}.")
    tail = b"".join(number.to_bytes(32, "big", signed=True) for number in numbers)
    return int.from_bytes(keccak(seed + purpose.encode() + tail), "big")


def shuffled(seed: bytes, purpose: str, items: Iterable[T]) -> list[T]:
    """The items in a random order: Fisher-Yates, from the last place down.

    The order of `items` counts: sort them first where it must not.
    """
    order = list(items)
    for place in range(len(order) - 1, 0, -1):
        other = word(seed, purpose, place) % (place + 1)
        order[place], order[other] = order[other], order[place]
    return order
