# SPDX-License-Identifier: Apache-2.0
"""The dense codec is lossless, has one encoding per gradient, and is plain safetensors."""

import math

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.container import ContainerError, pack, size, unpack

SHAPES = {"b.weight": (3, 4), "a": (5,), "scalar": (), "ünï": (2, 1, 2)}


def gradient(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def test_round_trip_is_bit_exact_and_sized_exactly():
    codec = codecs.get("dense")()
    sent = gradient()
    sent["a"] = torch.tensor([0.0, -0.0, 1e-45, 3.4e38, -1.5])
    data = codec.encode(sent)
    assert len(data) == codec.wire_size(SHAPES)
    got = codec.decode(data, SHAPES)
    assert got.keys() == sent.keys()
    for name, tensor in sent.items():
        assert got[name].shape == tensor.shape
        assert torch.equal(got[name].view(torch.int32), tensor.view(torch.int32))


def test_bytes_do_not_depend_on_insertion_order_or_strides():
    codec = codecs.get("dense")()
    sent = gradient()
    turned = {name: sent[name] for name in reversed(sent)}
    turned["b.weight"] = sent["b.weight"].t().contiguous().t()
    assert codec.encode(turned) == codec.encode(sent)


def test_safetensors_library_reads_and_writes_the_same_bytes():
    sent = gradient()
    data = codecs.get("dense")().encode(sent)
    read = safetensors.torch.load(data)
    assert all(torch.equal(read[name], sent[name]) for name in SHAPES)
    assert safetensors.torch.save(sent) == data


def test_decoded_tensors_are_writable_copies():
    codec = codecs.get("dense")()
    data = codec.encode(gradient())
    codec.decode(data, SHAPES)["a"].fill_(9.0)
    assert not torch.equal(codec.decode(data, SHAPES)["a"], torch.full((5,), 9.0))


def test_wrong_dtype_is_refused():
    with pytest.raises(ValueError, match=r"'a' is torch\.float64; the dense codec needs float32"):
        codecs.get("dense")().encode({"a": torch.zeros(2, dtype=torch.float64)})


def test_decode_refuses_another_template():
    codec = codecs.get("dense")()
    with pytest.raises(ContainerError, match="unknown tensor"):
        codec.decode(codec.encode(gradient()), {"a": (5,)})


@pytest.mark.parametrize(
    ("dtype", "parts", "message"),
    [
        ("U8", {"a": b"12"}, "has 2 bytes"),
        ("U8", {"b": b"123"}, "names of the layout"),
        ("F8", {"a": b"123"}, "Wire dtype 'F8'"),
    ],
)
def test_pack_refuses_mismatches(dtype, parts, message):
    with pytest.raises(ValueError, match=message):
        pack({"a": (dtype, (3,))}, parts)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()),
        st.tuples(st.sampled_from(["U8", "U16", "F32"]), st.lists(st.integers(0, 4), max_size=3)),
        max_size=5,
    )
)
def test_container_round_trips_any_layout(fields):
    layout = {name: (dtype, tuple(shape)) for name, (dtype, shape) in fields.items()}
    widths = {"U8": 1, "U16": 2, "F32": 4}
    sizes = {name: widths[dtype] * math.prod(shape) for name, (dtype, shape) in layout.items()}
    parts = {name: bytes(i % 251 for i in range(count)) for name, count in sizes.items()}
    data = pack(layout, parts)
    assert len(data) == size(layout)
    assert {name: bytes(part) for name, part in unpack(data, layout).items()} == parts


def test_registering_outside_the_own_file_is_refused():
    with pytest.raises(ValueError, match=r"move it to the file other\.py"):
        codecs.register("other")(gradient)
