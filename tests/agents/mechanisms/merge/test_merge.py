# SPDX-License-Identifier: Apache-2.0
"""Median and mean: hand values, an independent reference, and the same bits in any order."""

import itertools
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge.parts.sorting_network import CHUNK, Selector, plan
from tests.stage.memory.payloads import payload, same_bits

RULES = ["median", "mean"]


def random_payloads(
    count: int, seed: int = 0, elements: int = 700
) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {
            "w": torch.randn(7, elements // 7, generator=generator),
            "b": torch.randn(3, generator=generator).round(),
            "s": torch.randn((), generator=generator),
        }
        for _ in range(count)
    ]


def test_median_by_hand():
    merge = merge_rules.get("median")()
    assert merge([payload(5.0, -1.0)])["a"].tolist() == [5.0, -1.0]
    assert merge([payload(1.0), payload(4.0)])["a"].tolist() == [2.5]
    assert merge([payload(9.0), payload(-3.0), payload(2.0)])["a"].tolist() == [2.0]
    assert merge([payload(9.0), payload(-3.0), payload(2.0), payload(3.0)])["a"].tolist() == [2.5]
    assert merge([payload(1.0)] * 3 + [payload(1e18)] * 2)["a"].tolist() == [1.0]


def test_mean_by_hand():
    merge = merge_rules.get("mean")()
    assert merge([payload(5.0, -1.0)])["a"].tolist() == [5.0, -1.0]
    assert merge([payload(1.0), payload(4.0), payload(-2.0)])["a"].tolist() == [1.0]
    # fp32 addition would lose the ones: 2^24 + 1 has no fp32.
    big = [payload(2.0**24), payload(1.0), payload(1.0), payload(-(2.0**24))]
    assert merge(big)["a"].tolist() == [0.5]


def test_median_of_two_is_rounded_as_stated():
    a, b = np.float32(0.1), np.float32(0.30000004)
    got = merge_rules.get("median")()([payload(float(b)), payload(float(a))])["a"][0]
    assert got.item() == float((a + b) * np.float32(0.5))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33])
def test_mean_and_median_equal_an_exact_reference(count):
    payloads = random_payloads(count, seed=count)
    median = merge_rules.get("median")()(payloads)
    mean = merge_rules.get("mean")()(payloads)
    for name in payloads[0]:
        rows = np.stack([entry[name].numpy() for entry in payloads])
        ordered = np.sort(rows, axis=0)
        low, high = ordered[(count - 1) // 2], ordered[count // 2]
        expected = low if count % 2 else (low + high) * np.float32(0.5)
        assert np.array_equal(median[name].numpy(), expected)
        assert median[name].shape == payloads[0][name].shape
        exact = np.array(
            [math.fsum(column) / count for column in rows.reshape(count, -1).astype(np.float64).T]
        )
        assert np.array_equal(mean[name].numpy().reshape(-1), exact.astype(np.float32))


@pytest.mark.parametrize("rule", RULES)
def test_chunk_borders_and_inputs_untouched(rule):
    payloads = [{"a": torch.randn(2 * CHUNK + 5)} for _ in range(4)]
    before = [entry["a"].clone() for entry in payloads]
    got = merge_rules.get(rule)()(payloads)["a"]
    stack = torch.stack(before)
    ordered = stack.sort(0).values
    if rule == "median":
        assert torch.equal(got, (ordered[1] + ordered[2]) * 0.5)
    else:
        assert torch.allclose(got, stack.mean(0), atol=1e-6)
    assert all(torch.equal(entry["a"], old) for entry, old in zip(payloads, before, strict=True))


VALUES = st.floats(
    width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60
)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=80, deadline=None)
@given(
    columns=st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=9),
    seed=st.randoms(),
)
def test_order_of_payloads_changes_no_bit(rule, columns, seed):
    merge = merge_rules.get(rule)()
    payloads = [payload(*column) for column in columns]
    shuffled = list(payloads)
    seed.shuffle(shuffled)
    got = merge(payloads)
    assert same_bits(got, merge(shuffled))
    for index, value in enumerate(got["a"].tolist()):
        column = [row[index] for row in columns]
        assert min(column) <= value <= max(column)
        if rule == "median" and len(column) % 2:
            assert value == statistics.median(column)


def test_mean_is_the_same_even_where_float64_rounds():
    values = [2.0**54, 1.0, -(2.0**54), 1.0]
    merge = merge_rules.get("mean")()
    means = {
        merge([payload(value) for value in order])["a"].item()
        for order in itertools.permutations(values)
    }
    assert len(means) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("rule", RULES)
def test_cuda_gives_the_same_bits(rule):
    payloads = random_payloads(6)
    moved = [{name: tensor.cuda() for name, tensor in entry.items()} for entry in payloads]
    got = {name: tensor.cpu() for name, tensor in merge_rules.get(rule)()(moved).items()}
    assert same_bits(got, merge_rules.get(rule)()(payloads))


@pytest.mark.parametrize("count", range(1, 11))
def test_network_sorts_every_zero_one_input(count):
    # 0-1 principle (Knuth, TAOCP 3, 5.3.4): a network that sorts all 0-1 inputs sorts everything.
    inputs = torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)))
    rows = list(inputs.t().contiguous())
    ordered = Selector(count, range(count), rows[0], 1 << count)(rows)
    assert torch.equal(torch.stack(ordered), inputs.sort(1).values.t())
    for rank in range(count):
        (alone,) = Selector(count, [rank], rows[0], 1 << count)(rows)
        assert torch.equal(alone, inputs.sort(1).values[:, rank])


def test_pruning_drops_work_and_ranks_are_checked():
    assert len(plan(32, (15, 16))) < len(plan(32, tuple(range(32)))) == 191
    with pytest.raises(ValueError, match=r"must lie in 0\.\.3"):
        plan(4, (4,))
