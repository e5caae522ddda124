# SPDX-License-Identifier: Apache-2.0
"""`Bounds.broken_by` names what of a job's terms the network would refuse today."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.protocol.structs import Bounds, Terms

BOUNDS = Bounds(least_bond=10, most_bond=1_000, least_reward=5, least_retained=2)
TERMS = Terms(bytes(32), bytes(32), bytes(32), 1, 5, 0, 0, 1, 60, 60, 60, 60, 60, 60, 10, 2)


@pytest.mark.parametrize("changes", [{}, {"challenge_bond": 1_000}, {"reward_per_round": 10**30}])
def test_terms_within__nothing_is_broken(changes: dict[str, int]) -> None:
    assert BOUNDS.broken_by(replace(TERMS, **changes)) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"challenge_bond": 9}, "bond of 9"),
        ({"challenge_bond": 2**128 - 1}, "10 to 1000"),
        ({"reward_per_round": 0}, "pays 0"),
        ({"retain_rounds": 1}, "retains 1 rounds' pay, the network asks for 2"),
    ],
)
def test_terms_outside__are_named(changes: dict[str, int], named: str) -> None:
    assert named in str(BOUNDS.broken_by(replace(TERMS, **changes)))
