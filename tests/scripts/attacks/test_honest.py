# SPDX-License-Identifier: Apache-2.0
"""What honest work pays: a round's parts, and what computing takes of them."""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks.honest import honest_work, redone
from scripts._attacks.market import Market, Numbers
from tests.scripts.attacks.test_training import DRAWN


def test_pay__is_the_rounds_parts(market: Market) -> None:
    pay = [float(work.pay) / ZOO for work in honest_work(market)]
    assert pay == pytest.approx([850 / 9, 100 / 3, 50 / 3])


def test_cost__is_of_the_work_that_each_does(market: Market) -> None:
    """A verifier is expected to do the work of `DRAWN` of nine trainers again."""
    trainer, verifier, aggregator = honest_work(market)
    assert trainer.compute * 2 == trainer.pay == 2 * trainer.profit
    assert float(redone(market)) == pytest.approx(9 * DRAWN, abs=1e-6)
    assert verifier.compute == redone(market) * trainer.compute
    assert verifier.name == "verifier: a round, 8.6 trainers' work again"
    assert aggregator.compute == 0


@pytest.mark.parametrize(("compute", "earns"), [(0.03, True), (0.05, False), (0.5, False)])
def test_verifier__earns_while_computing_is_cheap(compute: float, earns: bool) -> None:
    """33.3 ZOO against 8.6 times a trainer's cost: up to 4 % of a trainer's pay."""
    trainer, verifier, _ = honest_work(Market(Numbers(compute=compute)))
    assert trainer.profit > 0
    assert (verifier.profit > 0) == earns
