# SPDX-License-Identifier: Apache-2.0
"""What honest work pays: a round's parts, and what computing takes of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from agents.jobs.publish import Terms
from agents.jobs.verifying_pay import MOST_CUTS
from agents.protocol.numbers import ZOO
from scripts._attacks.honest import breaks_even, duty, fairly_paid, honest_work
from scripts._attacks.market import Market, Numbers
from tests.scripts.attacks.test_training import DRAWN

RETAINING = Numbers(terms=Terms(retain_rounds=8))


def test_pay__is_the_rounds_parts(market: Market) -> None:
    pay = [float(work.pay) / ZOO for work in honest_work(market)]
    assert pay == pytest.approx([850 / 9, 100 / 3, 50 / 3])


def test_cost__is_of_the_work_that_each_does(market: Market) -> None:
    """A verifier is expected to do the work of `DRAWN` of nine trainers again: nothing of their pay
    is retained, in any round."""
    trainer, verifier, aggregator = honest_work(market)
    assert trainer.compute * 2 == trainer.pay == 2 * trainer.profit
    assert float(duty(market.numbers).redone) == pytest.approx(9 * DRAWN, abs=1e-6)
    assert verifier.compute == duty(market.numbers).redone * trainer.compute
    assert verifier.name == "verifier: a round of 50, 8.6 trainers' work again"
    assert aggregator.compute == 0


def test_verifier__has_no_row_where_nothing_is_done_again() -> None:
    rows = honest_work(Market(Numbers(spec={"verify": "gauntlet", "score": "gauntlet"})))
    assert [row.name for row in rows] == ["trainer: a round", "aggregator: a round"]


@pytest.mark.parametrize(("compute", "earns"), [(0.03, True), (0.05, False), (0.5, False)])
def test_verifier__earns_while_computing_is_cheap(compute: float, earns: bool) -> None:
    """33.3 ZOO against 8.6 times a trainer's cost: up to 4 % of a trainer's pay."""
    trainer, verifier, _ = honest_work(Market(Numbers(compute=compute)))
    assert trainer.profit > 0
    assert (verifier.profit > 0) == earns
    assert (compute < breaks_even(Numbers())) == earns


@pytest.mark.parametrize("compute", [0.08, 0.5])
def test_fairly_paid__everybody_earns_on_the_contracts(compute: float) -> None:
    """The contracts pay what the formula says: a quarter more than it costs, or the usual cut."""
    numbers = fairly_paid(replace(RETAINING, compute=compute))
    rows = honest_work(Market(numbers))
    assert all(row.profit > 0 for row in rows)
    assert rows[1].pay >= Fraction(5, 4) * rows[1].compute * Fraction(999, 1_000)
    assert breaks_even(numbers) >= Fraction(str(compute))


def test_fairly_paid__is_never_less_than_usual_nor_more_than_permitted() -> None:
    cheap, dear = (fairly_paid(replace(Numbers(), compute=c)) for c in (0.0, 1.0))
    assert cheap.terms.verifier_bps == Terms().verifier_bps
    assert dear.terms.verifier_bps == MOST_CUTS - Terms().aggregator_bps
