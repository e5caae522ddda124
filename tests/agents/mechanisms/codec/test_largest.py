# SPDX-License-Identifier: Apache-2.0
"""The k largest of a row: the definition, whatever the numbers are like."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.largest import largest


def by_definition(row: np.ndarray, count: int) -> list[int]:
    order = sorted(range(row.size), key=lambda place: (-row[place], place))
    return sorted(order[:count])


KINDS = {
    "normal": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "few values": lambda rng, shape: rng.integers(0, 3, shape),
    "mostly zero": lambda rng, shape: np.abs(rng.normal(size=shape)) * (rng.random(shape) < 0.01),
    "all zero": lambda rng, shape: np.zeros(shape),
    "one crowded group": lambda rng, shape: np.where(
        np.arange(shape[1]) % 128 == 5, 9 + rng.random(shape), rng.random(shape)
    ),
    "heavy tails": lambda rng, shape: np.exp(5 * rng.normal(size=shape)),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), size=st.sampled_from([1, 7, 64, 100, 1024, 4096]), data=st.data()
)
def test_is_the_definition(kind, seed, size, data):
    count = data.draw(st.integers(1, min(size, 200)))
    rows = KINDS[kind](np.random.default_rng(seed), (4, size)).astype(np.float32)
    found = largest(torch.from_numpy(rows), count)
    assert found.dtype == np.int64
    assert found.tolist() == [by_definition(row, count) for row in rows]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("count", [8, 4096])
def test_what_is_not_finite_is_refused(bad, count):
    rows = torch.ones(3, 4096)
    rows[1, 77] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        largest(rows, count)
