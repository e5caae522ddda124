# SPDX-License-Identifier: Apache-2.0
"""weighted_mean: by hand, beside an exact mean, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import pytest
from torch import Tensor

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.merge import WeighingMerge
from tests.stage.memory.payloads import cluster, payload, same_bits

RULE = merge_rules.get("weighted_mean")()
assert isinstance(RULE, WeighingMerge)


def flat(update: Mapping[str, Tensor]) -> list[float]:
    """All numbers of an update."""
    return [value for name in sorted(update) for value in update[name].reshape(-1).tolist()]


def test_who_did_twice_the_work_counts_twice_and_the_divisor_is_all_work() -> None:
    rows = [payload(8.0, -1.0), payload(2.0, 0.5)]
    assert RULE.weighed(rows, [1, 2])["a"].tolist() == [4.0, 0.0]
    # IOTA's code began the divisor at 1: three who agree would be moved by 8/9 of what they say.
    assert RULE.weighed([payload(8.0)] * 3, [5, 1, 2])["a"].item() == 8.0
    assert RULE.weighed([payload(8.0), payload(7.0)], [3, 0])["a"].item() == 8.0


def test_it_is_the_exact_mean_rounded() -> None:
    rows, work = cluster(5, 400, 1.0, seed=3), [1, 7, 0, 1000, 3]
    values = [flat(row) for row in rows]
    for place, result in enumerate(flat(RULE.weighed(rows, work))):
        exact = sum(
            number * Fraction(row[place]) for number, row in zip(work, values, strict=True)
        ) / sum(work)
        assert result == pytest.approx(float(exact), rel=1e-7, abs=1e-12)


def test_equal_work_and_stakes_weigh_nothing() -> None:
    rows = cluster(5, 300, 1.0, seed=4)
    alike = [RULE(rows), RULE(rows, [1, 2, 3, 4, 5]), RULE.weighed(rows, [9] * 5)]
    assert all(same_bits(one, other) for one, other in pairwise(alike))
    assert flat(alike[0]) == pytest.approx(flat(merge_rules.get("mean")()(rows)), rel=1e-6)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ([0, 0], "whose work is not zero"),
        ([1], "must be 2 integers"),
        ([2, -1], "must be 2 integers"),
        ([1, 1 << 29], "must be 2 integers"),
    ],
)
def test_bad_work_is_refused(work: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RULE.weighed([payload(1.0), payload(2.0)], work)
