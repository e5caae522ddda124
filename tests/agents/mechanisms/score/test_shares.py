# SPDX-License-Identifier: Apache-2.0
"""Quality is leave-one-out sign agreement in exact integers, counted alike everywhere."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import score as score_rules
from agents.mechanisms.score.shares import CHUNK, contributions, quality_ppm
from tests.stage.memory.payloads import payload

MILLION = 1_000_000


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def reference(columns: list[list[float]]) -> list[int]:
    """The rule in plain Python: columns[i] is node i's payload."""
    result = []
    for i, own in enumerate(columns):
        agree = disagree = 0
        for k, value in enumerate(own):
            others = sign(sum(sign(columns[j][k]) for j in range(len(columns)) if j != i))
            agree += sign(value) * others == 1
            disagree += sign(value) * others == -1
        counted = agree + disagree
        result.append(max(0, agree - disagree) * MILLION // counted if counted else 0)
    return result if len(columns) > 1 else [MILLION]


def test_shares_by_hand():
    # Node 2 differs in one of four coordinates; leave-one-out its others always agree: 3 to 1.
    got = quality_ppm([payload(1, 1, -1, -1), payload(2, 1, -3, -1), payload(1, 1, -1, 1)])
    # Nodes 0 and 1 see a tie (0) in the last coordinate, which counts for neither side.
    assert got == [MILLION, MILLION, 500_000]


def test_single_two_and_opposed():
    assert quality_ppm([payload(0.5, -1)]) == [MILLION]
    assert quality_ppm([payload(1, 2), payload(3, 4)]) == [MILLION, MILLION]
    assert quality_ppm([payload(1, 1, 1), payload(1, 1, -1)]) == [333_333, 333_333]
    assert quality_ppm([payload(1, 2), payload(-3, -4)]) == [0, 0]


def test_zeros_and_opponents_get_nothing():
    honest = [payload(1, -2, 3, -4)] * 3
    assert quality_ppm([*honest, payload(0, 0, 0, 0)])[3] == 0
    assert quality_ppm([*honest, payload(-1, 2, -3, 4)]) == [MILLION] * 3 + [0]


def test_noise_gets_almost_nothing_among_correlated_nodes():
    generator = torch.Generator().manual_seed(7)
    common = torch.randn(200_000, generator=generator)
    nodes = [{"a": common + torch.randn(200_000, generator=generator)} for _ in range(7)]
    noise = {"a": torch.randn(200_000, generator=generator)}
    scores = quality_ppm([*nodes, noise])
    assert min(scores[:7]) > 400_000
    # Four standard deviations of (agree - disagree) / n at n = 200,000.
    assert scores[7] < 4 * MILLION / 200_000**0.5


VALUES = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1e-45, 1.0, 3.0])


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=7)
    )
)
def test_equals_the_reference(columns):
    assert quality_ppm([payload(*column) for column in columns]) == reference(columns)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(VALUES, min_size=5, max_size=5), min_size=1, max_size=6),
    st.lists(st.sampled_from([2.0**-10, 0.5, 3.0, 2.0**40]), min_size=6, max_size=6),
)
def test_scaling_changes_nothing(columns, factors):
    # Factors below 1 would take the smallest number to zero; it is left out here.
    columns = [[0.0 if value == 1e-45 else value for value in column] for column in columns]
    scaled = [
        [value * factor for value in column]
        for column, factor in zip(columns, factors, strict=False)
    ]
    assert quality_ppm([payload(*c) for c in columns]) == quality_ppm([payload(*c) for c in scaled])


def test_order_of_nodes_only_permutes_the_scores():
    nodes = [{"a": torch.randn(500)} for _ in range(5)]
    assert quality_ppm(nodes[::-1]) == quality_ppm(nodes)[::-1]


def test_chunks_and_several_tensors_add_up():
    columns = [torch.randn(2 * CHUNK + 3) for _ in range(3)]
    whole = quality_ppm([{"a": column} for column in columns])
    split = quality_ppm([{"x": column[:17].reshape(17, 1), "y": column[17:]} for column in columns])
    assert whole == split
    signs = torch.stack(columns).sign()
    other = (signs[1] + signs[2]).sign()
    agree, disagree = int((other * signs[0] > 0).sum()), int((other * signs[0] < 0).sum())
    assert whole[0] == max(0, agree - disagree) * MILLION // (agree + disagree)


def test_score_multiplies_batches():
    score = score_rules.get("shares")()
    got = score([payload(1, 1), payload(1, 1), payload(1, -1)], [4, 0, 3])
    assert got.quality_ppm == (MILLION, MILLION, 0)
    assert got.contributions == (4 * MILLION, 0, 0)
    assert contributions([2, 5], [10, 0]) == [20, 0]


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="2 batch counts do not match 1 qualities"):
        contributions([1, 2], [5])
    with pytest.raises(ValueError, match="must not be negative"):
        contributions([-1], [5])
    with pytest.raises(ValueError, match="no payload"):
        quality_ppm([])
    with pytest.raises(ValueError, match="too many to score"):
        quality_ppm([payload(1.0)] * 40_000)
