# SPDX-License-Identifier: Apache-2.0
"""What contracts say is decoded as eth_abi decodes it, whatever bytes somebody serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from eth_abi.abi import decode as decode_any
from eth_abi.abi import encode
from eth_abi.exceptions import DecodingError
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.words import decode

LEAVES = ["uint256", "uint64", "uint8", "bool", "address", "bytes32"]
OTHERS = ["int128", "bytes4", "bytes", "string", "uint256[]"]
KINDS = st.recursive(
    st.sampled_from([*LEAVES, *LEAVES, *OTHERS]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({','.join(parts)})"),
        inner.map(lambda kind: f"{kind}[2]"),
    ),
    max_leaves=4,
)
ROWS = st.lists(KINDS, max_size=4)
# Words that are a value of every type, of some, and of none.
WORDS = st.one_of(st.sampled_from([0, 1, 2, 32, 2**160 - 1, 2**160]), st.integers(0, 2**256 - 1))


def outcome(decoder: Callable[..., Any], kinds: list[str], data: bytes) -> Any:
    """The values, or the error and what it says."""
    try:
        return decoder(kinds, data)
    except DecodingError as error:
        return type(error), str(error)


@given(ROWS, st.lists(WORDS, max_size=12), st.binary(max_size=3))
def test_any_bytes_mean_what_eth_abi_says(kinds: list[str], words: list[int], end: bytes) -> None:
    data = b"".join(word.to_bytes(32, "big") for word in words) + end
    assert outcome(decode, kinds, data) == outcome(decode_any, kinds, data)


VALUES = {
    "uint256": 2**256 - 1,
    "uint8": 255,
    "bool": True,
    "address": "0x" + "ab" * 20,
    "bytes32": b"\x01" * 32,
    "(uint64,(bool,address)[2])": (7, ((True, "0x" + "0c" * 20), (False, "0x" + "00" * 20))),
    "uint256[]": (1, 2),
    "string": "word",
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_read_as_it_was_written(kind: str) -> None:
    assert decode(["bool", kind], encode(["bool", kind], [True, VALUES[kind]])) == (
        True,
        VALUES[kind],
    )


@pytest.mark.parametrize(("kind", "value"), [("uint8", 256), ("bool", 2), ("address", 2**160)])
def test_a_word_that_is_no_value_of_its_type_is_refused(kind: str, value: int) -> None:
    with pytest.raises(DecodingError):
        decode([kind], value.to_bytes(32, "big"))
