# SPDX-License-Identifier: Apache-2.0
"""The codec demo: bytes by hand, exact decoding, error feedback, one spelling."""

import hashlib
import math

import numpy as np
import pytest
import scipy.fft
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.bits import pack_bits, wrap
from agents.mechanisms.codec.parts.chunks import cut
from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.dct import basis, bits_for, entry, integers
from agents.mechanisms.codec.parts.places import place_code
from agents.mechanisms.codec.parts.vector import words
from tests.agents.mechanisms.codec.by_hand import (
    SEED,
    assert_altered_bytes_are_noticed,
    bf16,
    low_first,
    packed,
)
from tests.agents.mechanisms.codec.conftest import gradient
from tests.stage.memory.payloads import same_bits

SHAPES = {"w": (130, 200), "b": (100,), "s": (), "c": (8, 3, 3, 3), "v": (67, 64), "none": (0, 4)}


def codec(**options):
    return codecs.get("demo")(**options)


def test_a_block_of_four_by_four_by_hand():
    # 12 cosines of (1, 2), -6 of (3, 0), 3.5 of (0, 0).
    coefficients = torch.zeros(4, 4)
    coefficients[1, 2], coefficients[3, 0], coefficients[0, 0] = 12.0, -6.0, 3.5
    block = basis(4).t() @ coefficients @ basis(4)
    made = codec(chunk=4, per_chunk=3, value_bits=3)
    data = made.encode({"a": block}, None, SEED)
    # The step is 12 / 4 = 3 (of those tried, the one of least error): levels 4, 2 and 1.
    # Places 0, 6, 12 of 16: low 2 bits each, steps 0, 1, 3 in unary: 1, 01, 001.
    assert data == wrap(
        bf16(3)
        + packed("1", "01", "001")
        + packed(*(low_first(place % 4, 2) for place in (0, 6, 12)))
        + packed(low_first(0, 3), low_first(3, 3), low_first(1 + 4, 3))
    )
    got = made.decode(data, {"a": (4, 4)}, SEED)["a"]
    for y in range(4):
        for x in range(4):
            wanted = 3 / 4 + 12 * entry(4, 1, y) * entry(4, 2, x) - 6 * entry(4, 3, y) / 2
            assert float(got[y, x]) == pytest.approx(wanted, abs=2e-5)
    support = made.support(data, {"a": (4, 4)}, SEED)
    assert support.places.tolist() == [0, 6, 12]
    assert support.negative.tolist() == [False, False, True]


@pytest.mark.parametrize("value_bits", [4, 8, 16])
def test_sends_the_largest_of_scipys_coefficients_within_half_a_step(value_bits):
    sent = torch.randn(128, 192, generator=torch.Generator().manual_seed(5))
    made = codec(per_chunk=32, value_bits=value_bits)
    out = made.decode(made.encode({"a": sent}, None, SEED), {"a": (128, 192)}, SEED)["a"]

    def transformed(matrix: torch.Tensor) -> np.ndarray:
        blocks = matrix.double().numpy().reshape(2, 64, 3, 64).transpose(0, 2, 1, 3)
        return scipy.fft.dctn(blocks, axes=(2, 3), norm="ortho").reshape(6, 4096)

    wanted, got = transformed(sent), transformed(out)
    for row, decoded in zip(wanted, got, strict=True):
        largest = np.sort(np.argsort(-np.abs(row))[:32])
        assert np.sort(np.argsort(-np.abs(decoded))[:32]).tolist() == largest.tolist()
        step = np.abs(row).max() / 2 ** (value_bits - 1)
        # BF16 rounds the step by up to 2^-9, the integer cosines an entry by 2^-18 or less.
        error = step / 2 + np.abs(row).max() * 2.0**-8
        if value_bits == 4:  # a shorter step may be better there
            error = np.abs(row).max() / 4
        assert np.abs(decoded - row)[largest].max() <= error
        assert np.abs(np.delete(decoded, largest)).max() < 1e-3


OPTIONS = [
    {},
    {"per_chunk": 8, "value_bits": 4},
    {"per_chunk": 4096, "value_bits": 16},
    {"chunk": 16, "per_chunk": 3, "value_bits": 1},
    {"chunk": 128, "per_chunk": 200},
    {"chunk": 4, "per_chunk": 16, "value_bits": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_size_support_and_decoding_agree(options):
    made = codec(**options)
    sent = gradient(SHAPES)
    data = made.encode(sent, None, SEED)
    assert len(data) == made.wire_size(SHAPES)
    got = made.decode(data, SHAPES, SEED)
    assert {name: tuple(tensor.shape) for name, tensor in got.items()} == SHAPES
    support = made.support(data, SHAPES, SEED)
    assert support.size == support.negative.size > 0
    assert support.places[-1] < sum(math.prod(shape) for shape in SHAPES.values())
    negated = made.encode({name: -tensor for name, tensor in sent.items()}, None, SEED)
    mirrored = made.support(negated, SHAPES, SEED)
    assert np.array_equal(mirrored.places, support.places)
    assert np.array_equal(mirrored.negative, ~support.negative)
    # Length says nothing in a support.
    longer = made.encode({name: tensor * 1024 for name, tensor in sent.items()}, None, SEED)
    assert np.array_equal(made.support(longer, SHAPES, SEED).places, support.places)


@pytest.mark.parametrize("options", OPTIONS)
def test_decoding_is_exact_arithmetic(options, monkeypatch):
    """Threads, piece sizes, row sums or products: the same bits, and those of whole numbers."""
    made = codec(**options)
    data = made.encode(gradient(SHAPES), None, SEED)
    wanted = made.decode(data, SHAPES, SEED)
    torch.set_num_threads(2)
    assert same_bits(made.decode(data, SHAPES, SEED), wanted)
    torch.set_num_threads(1)
    for few in (0.0, 2.0):
        monkeypatch.setattr("agents.mechanisms.codec.parts.transform._FEW", few)
        for piece in (900, 9000):
            monkeypatch.setattr("agents.mechanisms.codec.parts.chunks.PIECE", piece)
            assert same_bits(made.decode(data, SHAPES, SEED), wanted)


def test_decoding_equals_python_integers():
    made = codec(chunk=8, per_chunk=20)
    data = made.encode({"a": torch.randn(8, 8)}, None, SEED)
    ((_, scales, places, levels),) = made._read(data, {"a": (8, 8)})
    bits = bits_for(8, 8, 20, 128 << 8)
    matrix = [[int(value) for value in row] for row in integers(8, bits).tolist()]
    got = made.decode(data, {"a": (8, 8)}, SEED)["a"]
    for y in range(8):
        for x in range(8):
            whole = sum(
                int(level) * matrix[place // 8][y] * matrix[place % 8][x]
                for place, level in zip(places[0].tolist(), levels[0].tolist(), strict=True)
            )
            numerator, denominator = float(scales[0]).as_integer_ratio()
            exact = whole * numerator / (denominator << 2 * bits)
            assert float(got[y, x]) == float(np.float32(exact))


def drawn(made, shapes) -> bytes:
    """A payload of public random words, so that it has the same bytes on every machine."""
    parts = []
    for number, group in enumerate(cut(shapes, made.chunk, made.chunk)):
        code = place_code(group.size, min(made.per_chunk, group.size))
        order = words(SEED, f"places {number}", group.count * group.size)
        places = np.sort(np.argsort(order.reshape(group.count, -1), axis=1)[:, : code.sent], axis=1)
        codes = words(SEED, f"codes {number}", places.size) % np.uint64(2**made.value_bits)
        codes = codes.reshape(places.shape).astype(np.int64)
        codes[:, 0] = 2 ** (made.value_bits - 1) - 1
        scales = (0x3F80 + words(SEED, f"scales {number}", group.count) % np.uint64(999)).astype(
            "<u2"
        )
        packed_codes = pack_bits(codes.reshape(-1), made.value_bits)
        parts += [scales.tobytes(), code.pack(places), packed_codes]
    return wrap(b"".join(parts))


PINNED = {8: "09420c1f6edd2c3d", 16: "f312defd2f75273c", 1: "0ee7b0f6e6920356"}


@pytest.mark.parametrize("value_bits", PINNED)
def test_decoded_bits_never_change(value_bits):
    """What one payload decodes to on any machine: the digest is part of the protocol."""
    shapes = {"a": (96, 70), "b": (64, 64), "c": (33,)}
    made = codec(value_bits=value_bits)
    out = made.decode(drawn(made, shapes), shapes, SEED)
    digest = hashlib.sha256(b"".join(out[name].numpy().tobytes() for name in sorted(out)))
    assert digest.hexdigest()[:16] == PINNED[value_bits]


@pytest.mark.parametrize("value_bits", [2, 8])
def test_whatever_byte_is_altered_is_refused_or_says_something_else(value_bits):
    made, shapes = codec(chunk=8, per_chunk=5, value_bits=value_bits), {"a": (12, 16), "b": (5,)}
    assert_altered_bytes_are_noticed(made, drawn(made, shapes), shapes)


def test_momentum_by_hand():
    made = codec(chunk=4, per_chunk=1, decay=0.5)
    first = {"a": torch.tensor([[4.0, 0.0], [0.0, 0.0]])}
    decoded = made.decode(made.encode(first, None, SEED), {"a": (2, 2)}, SEED)
    # All four coefficients are 2; the first is sent: 1 everywhere.
    assert torch.allclose(decoded["a"], torch.ones(2, 2), atol=1e-5)
    memory = made.remember(first, None, decoded)
    assert torch.allclose(memory["a"], torch.tensor([[1.5, -0.5], [-0.5, -0.5]]), atol=1e-5)
    assert codec(decay=0).has_memory is False
    assert codec(decay=0).remember(first, None, decoded) is None


def test_what_was_sent_and_what_is_kept_are_what_was_given():
    """Decay 1 and integers that fp32 adds without rounding: exactly."""
    made = codec(chunk=8, per_chunk=4, decay=1.0)
    shapes = {"a": (24, 16)}
    rng = np.random.default_rng(3)
    given, sent, memory = torch.zeros(24, 16).double(), torch.zeros(24, 16).double(), None
    for number in range(5):
        update = {"a": torch.from_numpy(rng.integers(-9, 9, (24, 16)).astype(np.float32))}
        decoded = made.decode(made.encode(update, memory, SEED), shapes, SEED)
        # On a grid of 2^-12 every sum below has at most 24 bits.
        decoded = {"a": (decoded["a"] * 4096).round() / 4096}
        memory = made.remember(update, memory, decoded)
        given += update["a"].double()
        sent += decoded["a"].double()
        assert torch.equal(sent + memory["a"].double(), given), number
    # And it is worth something: most of what was given has been said.
    assert float((given - sent).norm()) < float(given.norm())


def test_an_empty_chunk_says_nothing():
    made = codec(chunk=4, per_chunk=2)
    sent = torch.zeros(8, 4)
    sent[0, 0] = 3.0
    data = made.encode({"a": sent}, None, SEED)
    got = made.decode(data, {"a": (8, 4)}, SEED)["a"]
    assert got[4:].abs().max() == 0 and got[:4].abs().min() > 0
    assert made.support(data, {"a": (8, 4)}, SEED).places.max() < 16
    nothing = made.encode({"a": torch.zeros(8, 4)}, None, SEED)
    assert made.decode(nothing, {"a": (8, 4)}, SEED)["a"].abs().max() == 0
    assert made.support(nothing, {"a": (8, 4)}, SEED).size == 0
    assert nothing == made.encode({"a": -torch.zeros(8, 4)}, None, SEED)


RUN = {"a": (8,)}
THREE = "10000011"


def body(scale: float, places: str, codes: str) -> bytes:
    """Three of eight places, 2 bits a value: one bit a place."""
    return wrap(bf16(scale) + packed(places) + packed(codes))


BAD = {
    "another number of places": [(1, "11110000", "100000"), (1, "11000000", "100000")],
    "negative, not finite, tiny or far too large": [
        (-1, THREE, "100000"),
        (-0.0, "11100000", "000000"),
        (float("inf"), THREE, "100000"),
        (float("nan"), THREE, "100000"),
        (2.0**40, THREE, "100000"),
        (2.0**-127, THREE, "100000"),
    ],
    "largest magnitude is not": [(1, THREE, "000000"), (1, THREE, "010101")],
    "not the first": [(0, THREE, "000000"), (0, "11100000", "100000"), (0, "11100000", "010000")],
    "spare bits": [(1, THREE, "1000001")],
}


@pytest.mark.parametrize(("message", "fields"), [(m, f) for m, found in BAD.items() for f in found])
def test_other_spellings_are_refused(message, fields):
    made = codec(chunk=8, per_chunk=3, value_bits=2)
    made.decode(body(1, THREE, "001101"), RUN, SEED)
    for reader in (made.decode, made.support):
        with pytest.raises(ContainerError, match=message):
            reader(body(*fields), RUN, SEED)


@pytest.mark.parametrize("value_bits", [1, 8, 16])
def test_the_largest_that_is_accepted_is_finite(value_bits):
    made, shapes = codec(chunk=128, per_chunk=16384, value_bits=value_bits), {"a": (128, 128)}
    # All places are sent, so none is spelt; every code is the largest magnitude, positive.
    loudest = np.full(16384, 2 ** (value_bits - 1) - 1)
    scale = bf16(2.0**40 * (1 - 2.0**-9))
    out = made.decode(wrap(scale + pack_bits(loudest, value_bits)), shapes, SEED)["a"]
    assert torch.isfinite(out).all() and out.abs().max() < 2.0**64
