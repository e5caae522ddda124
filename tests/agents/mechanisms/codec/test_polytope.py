# SPDX-License-Identifier: Apache-2.0
"""The polytope codec: bytes by hand, the unbiased scale, one encoding per content."""

import numpy as np
import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.bits import wrap
from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.vector import flatten

SEED = bytes(range(32))
FIVE = {"a": torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])}
SHAPES = {"a": (5,)}


def codec(**options):
    return codecs.get("polytope")(**options)


def body(scale: float, *codes: int) -> bytes:
    return wrap(np.array([scale], "<f4").tobytes() + bytes(codes))


def test_five_numbers_by_hand():
    # Rotated (test_rotation): [1 7 0 -2], [1]. Largest: place 1 of cell 0, place 0 of cell 1.
    # Scale 55 / (7 + 1) = 6.875; codes of three bits: 1, 0.
    data = codec(cell=4).encode(FIVE, None, SEED)
    assert data == body(6.875, 0b000001)
    # Rotated back [0 6.875 0 0 6.875]: H4/2 of its last four [6.875 0 0 6.875] is
    # [6.875 0 0 6.875]; signs [0 6.875 0 0 | 6.875] -> H4/2 of the first four
    # [3.4375 -3.4375 3.4375 -3.4375]; signs turn the fourth.
    got = codec(cell=4).decode(data, SHAPES, SEED)["a"]
    assert got.tolist() == [3.4375, -3.4375, 3.4375, 3.4375, 6.875]


def test_component_along_the_gradient_is_exact():
    sent = {"a": torch.randn(5000, generator=torch.Generator().manual_seed(1))}
    for gain in (1.0, 0.5):
        made = codec(gain=gain)
        got = made.decode(made.encode(sent, None, SEED), {"a": (5000,)}, SEED)
        x, y = flatten(sent, ""), flatten(got, "")
        assert (x @ y) / (x @ x) == pytest.approx(gain, rel=1e-6)


def test_mean_over_seeds_is_the_gradient():
    sent = {"a": torch.randn(1030, generator=torch.Generator().manual_seed(2))}
    seeds = [number.to_bytes(32, "big") for number in range(600)]
    made, shapes = codec(), {"a": (1030,)}
    found = [made.decode(made.encode(sent, None, s), shapes, s)["a"].double() for s in seeds]
    mean = torch.stack(found).mean(0)
    one = float((found[0] - sent["a"]).norm() / sent["a"].norm())
    left = float((mean - sent["a"]).norm() / sent["a"].norm())
    assert one > 1.2
    assert left < 1.1 * one / 600**0.5


def test_cosine_is_that_of_sixteen_gaussian_numbers():
    # E[max of 16 |N(0,1)|]^2 / 16 = 0.27, so the cosine is 0.52.
    sent = {"a": torch.randn(200_000, generator=torch.Generator().manual_seed(3))}
    got = codec().decode(codec().encode(sent, None, SEED), {"a": (200_000,)}, SEED)
    x, y = flatten(sent, ""), flatten(got, "")
    assert x @ y / np.sqrt((x @ x) * (y @ y)) == pytest.approx(0.5196, abs=0.003)


def test_zeros_have_one_encoding():
    data = codec().encode({"a": torch.zeros(5)}, None, SEED)
    assert data == body(0.0, 0)
    assert codec().decode(data, SHAPES, SEED)["a"].tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [({}, body(0.0, 1), "scale is 0"), ({"cell": 4}, body(1.0, 0b001000), "number 5 of only 5")],
    ids=["index without a scale", "index past the end"],
)
def test_other_spellings_are_refused(options, data, message):
    with pytest.raises(ContainerError, match=message):
        codec(**options).decode(data, SHAPES, SEED)


def test_the_largest_scale_that_is_accepted_is_finite():
    largest = codec(cell=2).decode(body(2.0**40, 0), SHAPES, SEED)["a"]
    assert float(largest.abs().max()) < 2.0**64
