# SPDX-License-Identifier: Apache-2.0
"""How likely a node is drawn: no lie pays, whatever it earns and whatever is at stake."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.protocol.draw import CERTAIN, lots
from agents.protocol.draw_chance import (
    FINDINGS,
    MARGIN,
    Exposure,
    exposures,
    findings_at_once,
    lasting_loss,
)
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS, NO_ROW, Offender, Row, reporter_share, slash_amount

AMOUNTS = st.integers(1, 2**128 - 1)


@given(pay=AMOUNTS, loss=st.integers(0, 2**128))
def test_a_lie__is_expected_to_lose_the_margin_times_what_it_earns(pay: int, loss: int) -> None:
    chance = Fraction(Exposure(pay, loss).chance, CERTAIN)
    assert chance * loss >= MARGIN * (1 - chance) * pay
    if loss:  # and one lot in CERTAIN less would not be enough
        less = chance - Fraction(1, CERTAIN)
        assert less * loss < MARGIN * (1 - less) * pay


def test_chance__by_hand_and_at_its_ends() -> None:
    assert Fraction(Exposure(4, 5).chance, CERTAIN) == pytest.approx(Fraction(1, 2))
    assert Exposure(0, 0).chance == 0 == Exposure(0, 7).chance
    assert Exposure(1, 0).chance == CERTAIN  # who can lose nothing is always looked at


@pytest.mark.parametrize(
    ("stake", "lost"),
    [(100 * ZOO, 9 * ZOO), (1_000 * ZOO, 90 * ZOO), (0, 0), (1, 0)],
)
def test_lasting_loss__half_of_the_smallest_average_of_the_table(stake: int, lost: int) -> None:
    """20 % and 16 % are 18 % on average, of which a friend gets half back."""
    assert lasting_loss(stake, DEFAULTS) == lost


def test_lasting_loss__of_other_tables() -> None:
    whole = Row(10_000, 0, 0, False, True, 0)
    assert lasting_loss(100, {Violation.INVALID: whole}) == 100 // FINDINGS
    assert lasting_loss(100, {Violation.INVALID: whole}, findings=1) == 100
    assert lasting_loss(100, {}) == lasting_loss(100, {Violation.INVALID: NO_ROW}) == 0


@given(
    stake=st.integers(0, 10**24),
    earlier=st.integers(0, 2),
    rounds=st.integers(1, 128),
    found=st.integers(1, 128 + 2),
)
@example(stake=12, earlier=2, rounds=5, found=7)  # one unit of 1e-18 ZOO less
def test_lasting_loss__is_never_more_than_what_so_many_findings_take(
    stake: int, earlier: int, rounds: int, found: int
) -> None:
    """Also of a node that was found guilty before. It may have lied in each of its rounds, and in
    two tasks. Each finding rounds its slash up and the reporter's part down, each by less
    than one unit of 1e-18 ZOO, and `lasting_loss` does it at other stakes."""
    node, rest, lost = Offender(), stake, 0
    found = min(found, rounds + 2)
    rounding = 2 * found if earlier else 0  # of a first offender it is exact
    for _ in range(earlier):
        node.offend(Violation.INVALID, DEFAULTS)
    for _ in range(found):
        row = node.offend(Violation.INVALID, DEFAULTS)
        amount = slash_amount(rest, 0, row.bps)
        rest, lost = rest - amount, lost + amount - reporter_share(amount, row.reporter_bps)
    assert found * lasting_loss(stake, DEFAULTS, findings_at_once(rounds)) <= lost + rounding


def test_findings_at_once__are_five_at_least() -> None:
    assert [findings_at_once(rounds) for rounds in (0, 1, 3, 4, 40)] == [5, 5, 5, 6, 42]


def test_exposures__split_what_trainers_can_get_at_most() -> None:
    found = exposures(1_000, 500, [3, 5, 8], [1, 0, 4], {3: 7, 5: 8, 8: 9})
    assert found == {3: Exposure(190, 7), 5: Exposure(0, 8), 8: Exposure(760, 9)}
    later = exposures(1_000, 500, [3, 5, 8], [1, 0, 4], {3: 7, 5: 8, 8: 9}, {3: 3, 8: 2})
    assert later == {3: Exposure(570, 7), 5: Exposure(0, 8), 8: Exposure(760, 9)}
    assert exposures(1_000, 500, [3], [0], {3: 7}) == {3: Exposure(0, 7)}
    assert exposures(1_000, 500, [], [], {}) == {}


def test_exposures__what_is_carried_to_trainers_has_no_cut() -> None:
    assert exposures(1_000, 500, [3], [1], {3: 7}, uncut=200) == {3: Exposure(960, 7)}


@pytest.mark.parametrize(("known", "pays"), [(0, True), (8 * 500 * ZOO // 9, False)])
def test_a_lie_beside_the_shares_of_eight_convicts__loses(known: int, pays: bool) -> None:
    """A proposer's cut of a half, and eight of nine nodes convicted in one round: the next one pays
    their shares to trainers whole. Reckoned with a cut of them, eve was drawn too seldom."""
    brought = 8 * 500 * ZOO // 9
    nodes, losses = range(1, 10), dict.fromkeys(range(1, 10), 9 * ZOO)
    found = exposures(1_000 * ZOO + brought, 5_000, nodes, [1] * 9, losses, uncut=known)[1]
    paid = Fraction(500 * ZOO + brought, 9)
    chance = Fraction(found.chance, CERTAIN)
    won = (1 - chance) * paid - chance * found.loss
    print(f"a lie brings {float(won / ZOO):+.2f} ZOO")
    assert (won > 0) == pays


def test_lots__are_each_nodes_own() -> None:
    chances = dict.fromkeys(range(1, 400), CERTAIN // 3)
    drawn = lots(b"seed", chances)
    assert drawn == sorted(drawn) and 90 < len(drawn) < 180
    assert drawn != lots(b"another seed", chances)
    fewer = {node: chance for node, chance in chances.items() if node % 2}
    assert lots(b"seed", fewer) == [node for node in drawn if node % 2]


def test_lots__ends_and_refusals() -> None:
    assert lots(b"seed", {1: 0, 2: CERTAIN}) == [2]
    for chance in (-1, CERTAIN + 1):
        with pytest.raises(ValueError, match="between 0 and CERTAIN"):
            lots(b"seed", {1: chance})


def test_lots__come_as_often_as_the_chance_says() -> None:
    chance = Exposure(4 * ZOO, 15 * ZOO).chance  # one in four
    seeds = [number.to_bytes(32, "big") for number in range(4_000)]
    drawn = sum(bool(lots(seed, {7: chance})) for seed in seeds)
    assert 900 < drawn < 1_100  # 27 is a standard deviation
