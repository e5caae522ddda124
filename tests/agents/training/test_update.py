# SPDX-License-Identifier: Apache-2.0
"""An update's file: bit-exact, no longer than it must be, one encoding only, and no stranger's."""

from __future__ import annotations

import struct
from math import comb, log2

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.gaps import pack_gaps, unpack_gaps
from agents.training.state import PayloadError, State, file_bound, load_state, save_state
from agents.training.update import MARK, pack_update, read_update
from tests.stage.memory.payloads import same_bits

_RNG = np.random.default_rng(0)


def shapes_of(state: State) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def of(*values: float) -> State:
    return {"w": torch.tensor(values, dtype=torch.float32)}


# Numbers in which zeros of both signs, few magnitudes and any bits occur.
_NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 3.0]),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)
_TENSORS = st.one_of(
    st.lists(_NUMBERS, min_size=1, max_size=70),
    st.tuples(
        st.sampled_from([0.25, 1e-30]), st.lists(st.sampled_from([-1, 0, 1]), min_size=1)
    ).map(lambda pair: [pair[0] * sign for sign in pair[1]]),
    st.tuples(st.integers(1, 900), st.integers(0, 10_000), _NUMBERS).map(
        lambda t: [t[2] if i == t[1] % t[0] else 0.0 for i in range(t[0])]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "über", "z.0"]), _TENSORS, max_size=4))
def test_any_update_comes_back_to_the_bit(numbers: dict[str, list[float]]) -> None:
    update = {name: torch.tensor(values, dtype=torch.float32) for name, values in numbers.items()}
    raw = pack_update(update)
    again = read_update(raw, shapes_of(update))
    assert same_bits(again, update)
    assert pack_update(again) == raw
    assert len(raw) <= file_bound(shapes_of(update))


@settings(max_examples=200, deadline=None)
@given(_TENSORS, st.data())
def test_another_file_is_refused_or_another_update(
    numbers: list[float], data: st.DataObject
) -> None:
    """One bit flipped, one byte more or fewer: never the same update under a second digest."""
    update = of(*numbers)
    raw = bytearray(pack_update(update))
    how = data.draw(st.sampled_from(["flip", "cut", "add"]))
    if how == "flip":
        bit = data.draw(st.integers(0, 8 * len(raw) - 1))
        raw[bit // 8] ^= 1 << bit % 8
    elif how == "cut":
        del raw[-1]
    else:
        raw += b"\0"
    try:
        other = read_update(bytes(raw), shapes_of(update))
    except PayloadError:
        return
    assert how == "flip"
    assert not same_bits(other, update)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([(1,), (3, 5), (200,)]))
def test_garbage_is_refused(junk: bytes, shape: tuple[int, ...]) -> None:
    """Arbitrary bytes raise PayloadError or are the file of an update; nothing else happens."""
    for raw in (junk, MARK + junk):
        try:
            update = read_update(raw, {"w": shape})
        except PayloadError:
            continue
        assert pack_update(update) == raw


# -- sizes ----------------------------------------------------------------------------------------


def test_signs_take_one_bit_each() -> None:
    """{-s, +s}: mark 8, kind 1, table 2 + 4, a bit a number."""
    signs = _RNG.integers(0, 2, 4096) * 2.0 - 1
    assert len(pack_update(of(*(signs * 0.125)))) == 8 + 1 + 2 + 4 + 4096 // 8


def test_rare_zeros_are_listed_by_place() -> None:
    """One zero of 4096: its gap's 12 or 13 bits at most in place of a bitmap's 512 bytes."""
    signs = _RNG.integers(0, 2, 4096) * 2.0 - 1
    signs[1000] = 0
    raw = pack_update(of(*signs))
    # Head 17 bytes; remainders and unary codes a byte or two each; 4095 signs.
    assert len(raw) <= 8 + 1 + 17 + 4 + 2 + 4 + 512
    assert same_bits(read_update(raw, {"w": (4096,)}), of(*signs))


def test_no_numbers_at_all_take_a_few_bytes() -> None:
    """What a round in which nothing was merged publishes."""
    assert len(pack_update({"w": torch.zeros(10_000)})) == 8 + 1 + 17


def test_sparse_numbers_cost_their_values_and_nearly_the_entropy_of_their_places() -> None:
    """Places of a share p take 1/n log2 C(n, pn) bits a number; the coding is within 3 % of it."""
    length = 1 << 16
    for share in (0.01, 0.12, 0.3, 0.9):
        count = round(share * length)
        values = np.zeros(length, np.float32)
        places = _RNG.choice(length, count, replace=False)
        values[places] = _RNG.standard_normal(count).astype(np.float32)
        raw = pack_update({"w": torch.from_numpy(values)})
        least = log2(comb(length, count)) / 8
        assert least <= len(raw) - 4 * count - 9 <= 1.03 * least + 17


def test_few_magnitudes_are_numbered() -> None:
    """3 magnitudes: 2 bits and a sign for each number, and a table of 14 bytes."""
    values = _RNG.choice([0.5, 0.75, 4.0], 800) * (_RNG.integers(0, 2, 800) * 2 - 1)
    assert len(pack_update(of(*values))) == 8 + 1 + 2 + 12 + 200 + 100


def test_more_magnitudes_than_a_table_holds() -> None:
    """65,537 magnitudes, most of them late: no table, and exact all the same."""
    values = np.concatenate([np.full(200_000, 0.5), np.arange(1, 65_537)]).astype(np.float32)
    update = {"w": torch.from_numpy(values)}
    raw = pack_update(update)
    assert same_bits(load_state(raw, shapes_of(update)), update)  # a plain safetensors file


def test_a_dense_update_is_the_safetensors_file_that_it_was() -> None:
    update = {name: torch.from_numpy(_RNG.standard_normal((9, 7)).astype("f4")) for name in "cab"}
    raw = pack_update(update)
    assert raw == save_state(update)
    assert same_bits(read_update(raw, shapes_of(update)), update)


def test_each_tensor_is_coded_on_its_own() -> None:
    """Where one gains, the file is packed, and the others cost four bytes a number and one."""
    dense = torch.from_numpy(_RNG.standard_normal(100).astype("f4"))
    raw = pack_update({"d": dense, "z": torch.zeros(1000)})
    assert len(raw) == 8 + (1 + 400) + (1 + 17)


def test_the_sign_of_zero_is_kept() -> None:
    """-0.0 subtracted from -0.0 is +0.0, while +0.0 leaves it: so both are different updates."""
    minus, plus = of(-0.0, 1.0), of(0.0, 1.0)
    assert pack_update(minus) != pack_update(plus)
    assert same_bits(read_update(pack_update(minus), {"w": (2,)}), minus)


# -- refusals ---------------------------------------------------------------------------------


def test_updates_of_other_dtypes_and_tensors_are_refused() -> None:
    shapes = {"w": (16,)}
    plain = save_state({"w": torch.zeros(16)})
    for raw, words in (
        (bytes(file_bound(shapes) + 1), "at most"),
        (plain, "the one encoding"),  # sixteen zeros have a shorter one
        (MARK, "a record ends where 1 bytes"),
        (MARK + b"\x08", "kind 8"),
        (MARK + b"\x00" + bytes(64), "the one encoding"),
        (MARK + b"\x00" + b"\xff" * 64, "NaN or infinity"),
        (MARK + b"\x04\x02\x00" + bytes(12) + b"\xff" * 6, "is number 3 of a table of 3"),
        (MARK + b"\x02" + bytes(16), "ends within its head"),
        (MARK + b"\x02" + struct.pack("<QBQ", 17, 0, 1) + b"\1", "more than there can be"),
        (MARK + b"\x02" + struct.pack("<QBQ", 1, 17, 1) + b"\1", "more than there can be"),
        (MARK + b"\x02" + struct.pack("<QBQ", 1, 0, 1 << 40), "more than there can be"),
        (MARK + b"\x02" + struct.pack("<QBQ", 2, 0, 1) + b"\1", "has 1 unary codes"),
        (MARK + b"\x02" + struct.pack("<QBQ", 1, 4, 1) + b"\x0f\x02", "names place 31"),
    ):
        with pytest.raises(PayloadError, match=f"(?i){words}"):
            read_update(raw, shapes)
    for other in ({"w": (4, 5)}, {"v": (16,), "w": (16,)}, {"w": (1600,)}):
        with pytest.raises(PayloadError):
            read_update(pack_update({"w": torch.ones(16)}), other)
    with pytest.raises(PayloadError, match="names differ"):
        read_update(
            pack_update({"v": torch.from_numpy(np.arange(1.0, 10.0, dtype="f4"))}), {"w": (9,)}
        )
    with pytest.raises(PayloadError, match="NaN or infinity"):
        pack_update(of(float("inf")))
    with pytest.raises(PayloadError, match="float64"):
        pack_update({"w": torch.zeros(2, dtype=torch.float64)})


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 5000), max_size=80), st.binary(max_size=3))
def test_places_come_back(places: set[int], rest: bytes) -> None:
    wanted = np.array(sorted(places), np.int64)
    raw = pack_gaps(wanted)
    found, size = unpack_gaps(memoryview(raw + rest), 5001)
    assert found.tolist() == wanted.tolist()
    assert size == len(raw)
    if places:
        with pytest.raises(ContainerError):
            unpack_gaps(memoryview(raw), max(places))


def test_places_by_hand() -> None:
    """Places 0, 1, 7 have the gaps 0, 0, 5. k = 0 takes 3 + 5 bits: 11 000001, one byte."""
    assert pack_gaps(np.array([0, 1, 7])) == struct.pack("<QBQ", 3, 0, 1) + bytes([0b10000011])
    # Gaps 40 and 0: k = 0 takes 42 bits, 6 bytes; k = 3 takes 6 and 7 bits, a byte each.
    assert pack_gaps(np.array([40, 41])) == struct.pack("<QBQ", 2, 3, 1) + bytes([0, 0b1100000])
