# SPDX-License-Identifier: Apache-2.0
"""The rates of a job's rounds, by hand, and to the bit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.training.rate_schedule import Decay, scheduled
from agents.training.spec import Hyperparameters, JobSpec, SpecError

DATA = "b" + "a" * 58
BITS = [
    "0x1.3a92a30553262p-9",
    "0x1.89374bc6a7efap-9",
    "0x1.676c0e3718bd8p-9",
    "0x1.08d68ff369722p-10",
    "0x1.3a92a30553262p-12",
]
"""Rates of the rounds 3, 4, 11, 27 and 39 of 40: peak 3e-3, four rounds of warm-up, end 0.1."""


def test_linear_by_hand() -> None:
    """Warm-up 1/2, then 1 to 0.25 in three equal steps, then constant."""
    rates = [scheduled(0.5, number, 5, 1, "linear", 0.25) for number in range(7)]
    assert rates == [0.25, 0.5, 0.375, 0.25, 0.125, 0.125, 0.125]


def test_cosine_by_hand() -> None:
    """Warm-up 1/2, then a half cosine of six steps from 1 to 0.2.

    cos^2 of 0, 15, 30, 45, 60, 75 and 90 degrees is 1, (2 + sqrt 3) / 4, 3/4, 1/2, 1/4,
    (2 - sqrt 3) / 4 and 0.
    """
    root = math.sqrt(3)
    falls = [1.0, (2 + root) / 4, 0.75, 0.5, 0.25, (2 - root) / 4, 0.0, 0.0]
    wanted = [0.5, *(0.2 + 0.8 * fall for fall in falls)]
    rates = [scheduled(1.0, number, 8, 1, "cosine", 0.2) for number in range(9)]
    assert rates == pytest.approx(wanted, rel=1e-15)


def test_cosine_has_the_same_bits_everywhere() -> None:
    """As computed once; a machine whose cosine comes from its C library may differ in the last."""
    rates = [scheduled(3e-3, number, 40, 4, "cosine", 0.1).hex() for number in (3, 4, 11, 27, 39)]
    assert rates == BITS


@given(st.sampled_from(["linear", "cosine"]), st.integers(1, 60), st.integers(0, 20))
def test_rates_rise_to_the_peak_and_fall_to_the_end(decay: Decay, rounds: int, warmup: int) -> None:
    rates = [
        scheduled(0.1, number, rounds, warmup, decay, 0.1) for number in range(warmup + rounds + 3)
    ]
    before, after = rates[: warmup + 1], rates[warmup:]
    assert before == sorted(before) and after == sorted(after, reverse=True)
    assert max(rates) <= 0.1 and min(after) >= 0.01 * (1 - 1e-12)
    if rounds - 1 > warmup:
        assert rates[warmup] == 0.1
        assert rates[rounds - 1 :] == pytest.approx([0.01] * (warmup + 4), rel=1e-12)


def test_a_spec_names_its_decay_and_both_rates_follow_it() -> None:
    fields = {"lr": 1e-2, "outer_lr": 2.0, "outer_decay": True, "decay": "cosine"}
    spec = JobSpec.from_dict({"data": DATA, "optimizer": fields, "rounds": 5})
    assert JobSpec.from_bytes(spec.to_bytes()) == spec
    assert Hyperparameters.of(spec, 2).lr == scheduled(1e-2, 2, 5, 0, "cosine", 0.1)
    assert spec.outer_lr_at(2) == scheduled(2.0, 2, 5, 0, "cosine", 0.1)


def test_linear_is_left_out_of_the_canonical_bytes() -> None:
    """So that specs from before there was a choice keep theirs."""
    spec = JobSpec.from_dict({"data": DATA, "optimizer": {"decay": "linear"}})
    assert b'decay":"' not in spec.to_bytes()
    assert spec.to_bytes() == JobSpec.from_dict({"data": DATA}).to_bytes()


def test_an_unknown_decay_is_refused() -> None:
    with pytest.raises(SpecError, match=r"optimizer\.decay: .*'linear' or 'cosine'"):
        JobSpec.from_dict({"data": DATA, "optimizer": {"decay": "exponential"}})
