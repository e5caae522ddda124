# SPDX-License-Identifier: Apache-2.0
"""The Gram matrix: equal to rational arithmetic, the same however it is computed, and close."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.merge.multi_krum import select
from agents.mechanisms.merge.parts import gram as module
from agents.mechanisms.merge.parts.gram import WIDTH, gram, gram_of_scaled, middle
from tests.agents.mechanisms.conftest import two_threads
from tests.stage.memory.payloads import (
    cluster,
    exact_products,
    krum_choice,
    matrix,
    payload,
    squared_distances,
)


def as_fractions(found):
    scale = Fraction(2) ** found.exponent
    return [[value * scale for value in row] for row in found.products]


SMALL = st.integers(-(2**17), 2**17)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(SMALL, min_size=4, max_size=4), min_size=1, max_size=5),
    power=st.integers(-60, 30),
)
def test_nothing_is_lost_of_values_the_step_can_hold(rows, power):
    payloads = [payload(*(float(value) * 2.0**power for value in row)) for row in rows]
    assert as_fractions(gram(payloads)) == exact_products(payloads)


def test_blocks_at_the_limit_stay_exact(monkeypatch):
    # Every product is 2^38 and the block sum 2^52: one more bit anywhere would round.
    values = torch.full((3 * WIDTH + 1,), 2.0**19 - 1)
    payloads = [{"a": values}, {"a": -values}, {"a": torch.flip(values, [0])}]
    total = (2**19 - 1) ** 2 * (3 * WIDTH + 1)
    monkeypatch.setattr(module, "_steps", lambda largest: [0] * len(largest))
    monkeypatch.setattr(module, "_BLOCKS", 2)
    found = as_fractions(gram(payloads))
    assert found == [[total, -total, total], [-total, total, -total], [total, -total, total]]


@pytest.mark.parametrize("apart", [1.0, 1e-5])
def test_powers_of_two_in_the_factor_are_those_in_a_copy(apart):
    """`apart`: of payloads that are read once, and of some so close that they are read again."""
    powers = [-60, 3, 0, 90]
    common = torch.randn(3000, generator=torch.Generator().manual_seed(5)).clamp(-0.7, 0.7)
    copies = []
    for index in range(len(powers)):
        own = torch.randn(3000, generator=torch.Generator().manual_seed(index)).clamp(-0.2, 0.2)
        copies.append(payload(*(common + apart * own).tolist()))
        copies[-1]["a"][0] = 0.95
    scaled = [{"a": one["a"] * 2.0**power} for one, power in zip(copies, powers, strict=True)]
    assert gram_of_scaled(scaled, powers) == gram(copies)
    assert (gram(copies).exponent < -37) == (apart < 1)


def test_rounded_rows_are_multiplied_without_error():
    payloads = cluster(5, 40, seed=3)
    steps = module._steps(module._largest(payloads))
    rounded = [
        {name: torch.round(t * 2.0**-step) * 2.0**step for name, t in entry.items()}
        for entry, step in zip(payloads, steps, strict=True)
    ]
    assert as_fractions(gram(payloads)) == exact_products(rounded)


@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_threads_and_the_split_into_tensors_change_nothing(spread):
    payloads = cluster(9, 3 * WIDTH + 11, spread)
    alone = gram(payloads)
    with two_threads():
        assert gram(payloads) == alone
    joined = [torch.cat([entry["b"], entry["w"]]) for entry in payloads]
    assert gram([{"x": row} for row in joined]) == alone
    assert gram([{str(i): p for i, p in enumerate(row.split(5000))} for row in joined]) == alone


def test_the_order_of_columns_changes_nothing():
    payloads = cluster(4, 5000, 1e-3)
    order = torch.randperm(4993, generator=torch.Generator().manual_seed(1))
    mixed = [{"b": entry["b"], "w": entry["w"][order]} for entry in payloads]
    assert gram(mixed) == gram(payloads)


def test_another_blas_order_gives_the_same_integers(monkeypatch):
    payloads = cluster(6, 2000)
    expected = gram(payloads)

    def backwards(integers):
        parts = [part @ part.t() for part in integers.split(97, dim=1)]
        total = torch.zeros_like(parts[0])
        for part in reversed(parts):
            total = total + part
        return total

    monkeypatch.setattr(module, "_product", backwards)
    assert gram(payloads) == expected


@pytest.mark.parametrize("count", [16, 32])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("outlier", [False, True])
def test_close_payloads_and_far_outliers_are_told_apart(count, spread, outlier):
    payloads = cluster(count, 30_000, spread, seed=count)
    if outlier:
        payloads[3] = {name: 1000 * tensor for name, tensor in payloads[3].items()}
    found = gram(payloads)
    distances = squared_distances(matrix(payloads))
    own = np.array([[math.ldexp(v, found.exponent) for v in row] for row in found.distances()])
    assert np.allclose(own, distances, rtol=2e-5, atol=0)
    bad = int(0.3 * count)
    assert select(found, bad) == krum_choice(distances, bad)


def test_fp32_products_would_choose_wrongly():
    # Why the exact ones are worth their time: the same payloads, the usual way.
    payloads = cluster(32, 30_000, 1e-3, seed=32)
    rows = matrix(payloads)
    narrow = rows.astype(np.float32)
    products = narrow @ narrow.T
    own = np.diag(products)
    wrong = krum_choice(own[:, None] + own[None, :] - 2 * products, 9)
    assert wrong != krum_choice(squared_distances(rows), 9) == select(gram(payloads), 9)


def test_duplicates_have_distance_zero_and_zeros_are_fine():
    one, other = cluster(2, 900)
    found = gram([one, one, other, one])
    assert [found.distances()[0][index] for index in (1, 3)] == [0, 0]
    assert found.distances()[0][2] > 0
    empty = gram([payload(0.0, 0.0), payload(0.0, -0.0), payload(1.0, 0.0)])
    assert empty.distances()[0][1] == 0
    assert as_fractions(empty)[2][2] == 1
    assert gram([{"a": torch.zeros(0)}] * 3).products == ((0, 0, 0),) * 3


def test_scaling_by_a_power_of_two_only_moves_the_exponent():
    payloads = cluster(5, 3000, 1e-3)
    moved = [{name: tensor * 2.0**-20 for name, tensor in entry.items()} for entry in payloads]
    scale = Fraction(2) ** 40
    smaller = as_fractions(gram(moved))
    assert [[value * scale for value in row] for row in smaller] == as_fractions(gram(payloads))


def test_products_of_extreme_magnitudes_stay_exact():
    payloads = [payload(2.0**63, 1.0), payload(2.0**-100, 0.0), payload(0.0, 2.0**-149)]
    found = as_fractions(gram(payloads))
    assert found[0][0] == Fraction(2) ** 126
    assert found[2][2] == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="Payload 1 holds a value that is not finite"):
        gram([payload(1.0), payload(value), payload(2.0)])


def test_the_middle_is_never_an_outlier():
    payloads = [payload(value) for value in (0.0, 1000.0, 1.0, -4000.0, 2.0)]
    index, spread = middle(gram(payloads).distances())
    assert index == 2 and spread > 0
    assert middle(((0,),)) == (0, 0)
    assert middle(((0, 0), (0, 0))) == (0, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_cuda_gives_the_same_integers(spread):
    payloads = cluster(9, 2 * WIDTH + 11, spread)
    moved = [{name: tensor.cuda() for name, tensor in entry.items()} for entry in payloads]
    assert gram(moved) == gram(payloads)
