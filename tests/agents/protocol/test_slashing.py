# SPDX-License-Identifier: Apache-2.0
"""The slashing rule: rows escalate per offence, strikes add up to a ban, shares are rounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol.numbers import BPS, ZOO, Violation
from agents.protocol.slashing import (
    DEFAULTS,
    NO_ROW,
    STRIKES_TO_BAN,
    Offender,
    Row,
    reporter_share,
    slash_amount,
)


def shares(*violations: Violation) -> list[int]:
    """What each of these offences of one node takes, in 1/10,000."""
    node = Offender()
    return [node.offend(violation, DEFAULTS).bps for violation in violations]


def test_silence__costs_five_percent_more_each_time__without_a_strike() -> None:
    node = Offender()
    taken = [node.offend(Violation.NO_REVEAL, DEFAULTS).bps for _ in range(25)]
    assert taken[:4] == [500, 1_000, 1_500, 2_000]
    assert taken[18:] == [9_500] + [BPS] * 6  # never more than the whole stake
    assert node.strikes == 0


def test_offences__of_another_kind__do_not_escalate_a_row() -> None:
    assert shares(Violation.INVALID, Violation.NO_REVEAL, Violation.COPIED) == [2_000, 500, 5_000]


@pytest.mark.parametrize("kind", [v for v, row in DEFAULTS.items() if row.strike])
def test_third_strike__of_whatever_kind__takes_everything_and_bans(kind: Violation) -> None:
    node = Offender()
    first = [node.offend(Violation.INVALID, DEFAULTS) for _ in range(STRIKES_TO_BAN - 1)]
    assert not any(row.ban for row in first)
    last = node.offend(kind, DEFAULTS)
    assert (last.bps, last.ban) == (BPS, True)
    assert node.strikes == STRIKES_TO_BAN
    assert (node.offences[kind] >= 1, node.offences[Violation.REPEATED]) == (True, 1)


def test_a_row_that_was_never_filled__takes_nothing_but_counts() -> None:
    node = Offender()
    assert node.offend(12, DEFAULTS) == NO_ROW
    assert node.offend(12, {12: Row(100, 50, 0, False, False, 0)}).bps == 150


def test_slash_amount__is_rounded_up_and_spares_what_came_later() -> None:
    assert slash_amount(1, 0, 500) == 1
    assert slash_amount(100 * ZOO, 0, 500) == 5 * ZOO
    assert slash_amount(100 * ZOO, 60 * ZOO, 500) == 2 * ZOO
    assert slash_amount(10, 11, BPS) == 0  # earlier slashes ate into the additions


@given(st.integers(0, 10**27), st.integers(0, 10**27), st.integers(0, BPS))
def test_slash_amount__never_exceeds_what_is_bonded(bonded: int, added: int, bps: int) -> None:
    assert 0 <= slash_amount(bonded, added, bps) <= bonded


def test_reporter_share__is_rounded_down__and_at_most_half() -> None:
    assert reporter_share(3, 5_000) == 1
    assert max(row.reporter_bps for row in DEFAULTS.values()) == BPS // 2


def test_leaving_a_task__is_never_cheaper_than_a_wrong_result() -> None:
    abort, mismatch = DEFAULTS[Violation.ABORT], DEFAULTS[Violation.REDUNDANCY_MISMATCH]
    assert abort.bps >= mismatch.bps and abort.suspension >= mismatch.suspension
