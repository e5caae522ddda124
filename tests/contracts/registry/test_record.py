# SPDX-License-Identifier: Apache-2.0
"""A node's record of penalties is one word: every change touches its own part of it only."""

from __future__ import annotations

from collections import Counter
from typing import Any

import boa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.protocol.numbers import Violation

NODE, OTHER = 7, 8
LAST = 16
MOST_OFFENCES, MOST_STRIKES = 4_095, 255

HARNESS = """
# pragma version ~=0.4.3
from contracts.modules import penalties

initializes: penalties
exports: penalties.offences

@deploy
def __init__():
    penalties.__init__()

@external
def offend(node_id: uint256, violation: uint256, times: uint256):
    for i: uint256 in range(times, bound=5_000):
        penalties._record(node_id, violation)

@external
def strike(node_id: uint256, times: uint256) -> uint256:
    strikes: uint256 = 0
    for i: uint256 in range(times, bound=5_000):
        strikes = penalties._strike(node_id)
    return strikes

@external
def suspend(node_id: uint256, until: uint256):
    penalties._suspend(node_id, until)

@external
@view
def strikes(node_id: uint256) -> uint256:
    return penalties._strikes(node_id)

@external
@view
def suspended_until(node_id: uint256) -> uint256:
    return penalties._suspended_until(node_id)
"""

OFFENCES = st.tuples(st.just("offend"), st.integers(1, LAST))
STRIKES = st.tuples(st.just("strike"), st.just(1))
SUSPENSIONS = st.tuples(st.just("suspend"), st.integers(0, 2**40 - 1))


@pytest.fixture(scope="module")
def records() -> Any:
    return boa.loads(HARNESS)


def parts(records: Any, node: int) -> tuple[list[int], int, int]:
    """A node's offences by violation, its strikes and the end of its suspension."""
    counts = [records.offences(node, violation) for violation in range(1, LAST + 1)]
    return counts, records.strikes(node), records.suspended_until(node)


@settings(max_examples=40, deadline=None)
@given(changes=st.lists(st.one_of(OFFENCES, STRIKES, SUSPENSIONS), max_size=12))
def test_a_change__touches_its_own_part_of_one_nodes_record(
    records: Any, changes: list[tuple[str, int]]
) -> None:
    counts: Counter[int] = Counter()
    strikes = until = 0
    with boa.env.anchor():
        for name, value in changes:
            if name == "offend":
                records.offend(NODE, value, 1)
                counts[value] += 1
            elif name == "strike":
                strikes += 1
                assert records.strike(NODE, 1) == strikes
            else:
                records.suspend(NODE, value)
                until = max(until, value)
        assert parts(records, NODE) == ([counts[v] for v in range(1, LAST + 1)], strikes, until)
        assert parts(records, OTHER) == ([0] * LAST, 0, 0)


def test_a_full_counter__stays_full_and_spills_into_no_other(records: Any) -> None:
    with boa.env.anchor():
        records.offend(NODE, Violation.NO_REVEAL, MOST_OFFENCES + 3)
        assert records.strike(NODE, MOST_STRIKES + 3) == MOST_STRIKES + 1
        counts, strikes, until = parts(records, NODE)
        assert counts == [MOST_OFFENCES] + [0] * (LAST - 1)
        assert (strikes, until) == (MOST_STRIKES, 0)


@pytest.mark.parametrize("violation", [0, LAST + 1, 2**256 - 1])
def test_offences__of_a_violation_without_a_row__are_none(records: Any, violation: int) -> None:
    with boa.env.anchor():
        records.offend(NODE, LAST, 1)
        assert records.offences(NODE, violation) == 0
