# SPDX-License-Identifier: Apache-2.0
"""How much a verifier deposits for an announcement, and out of what."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS
from agents.protocol.structs import Node
from agents.verify.deposits import Purse, bounty_of

STAKE = 100 * ZOO
NODE = Node(
    *("0x1", "0x2", "0x3"), *(1, 0), *(STAKE, 0), *(0, 0), *(False, True), *(0, 0), *(1, 0), b""
)
CONTRACT = SimpleNamespace(address="0x9")


class Chain:
    """A wallet, its credit and allowance at ViolationReports, and two trainers and more."""

    def __init__(self, wallet: int, credit: int) -> None:
        self.wallet, self.credit, self.allowance = wallet, credit, 0
        self.results_credit = 0
        self.sent: list[tuple[Any, ...]] = []

    def call(self, contract: Any, function: str, *args: Any) -> int:
        return {
            "balanceOf": self.wallet,
            "bond_credit": self.credit if contract is CONTRACT else self.results_credit,
            "allowance": self.allowance,
        }[function]

    def call_many(self, calls: list[Any]) -> list[int]:
        return [0] * len(calls)

    def send(self, contract: Any, function: str, *args: Any) -> None:
        self.sent.append((function, *args))
        if function == "withdraw_bond":
            self.wallet, self.credit = self.wallet + self.credit, 0
        else:
            self.allowance = args[1]

    def purse(self) -> Purse:
        stakes = {1: STAKE, 2: 5 * STAKE, **dict.fromkeys(range(3, 9), STAKE), 9: 400 * STAKE}
        network = SimpleNamespace(
            results=SimpleNamespace(address="0x8"),
            reports=CONTRACT,
            registry=CONTRACT,
            token=CONTRACT,
            penalties=lambda: DEFAULTS,
            node=lambda node: replace(NODE, stake=stakes[node]),
        )
        context = SimpleNamespace(chain=self, sender=self, wallet=SimpleNamespace(address="0x7"))
        return Purse(cast(Any, network), cast(Any, context))


def test_bounty__is_the_dearest_violations_share_of_all_that_is_bonded() -> None:
    copied = STAKE // 2 // 2  # half is taken, half of that is the finder's
    assert bounty_of(NODE, DEFAULTS, {}) == copied
    assert bounty_of(replace(NODE, stake=0, unbonding=STAKE), DEFAULTS, {}) == copied


def test_bounty__of_a_third_strike__is_half_of_the_stake() -> None:
    assert bounty_of(replace(NODE, strikes=2), DEFAULTS, {}) == STAKE // 2


def test_bounty__grows_with_earlier_offences_where_the_row_does() -> None:
    rows = dict(DEFAULTS) | {Violation.INVALID: replace(DEFAULTS[Violation.INVALID], bps=6_000)}
    rows[Violation.INVALID] = replace(rows[Violation.INVALID], escalation_bps=1_000)
    assert bounty_of(NODE, rows, {Violation.INVALID: 2}) == STAKE * 8 // 10 // 2


@pytest.mark.parametrize("trainers", [[1, 2], [2, 1]])
def test_deposit__is_that_of_the_trainer_in_the_middle(trainers: list[int]) -> None:
    """So that it does not show who was found."""
    chain = Chain(wallet=10_000 * ZOO, credit=0)
    assert chain.purse().deposit(trainers, 1, 0) == 125 * ZOO
    assert chain.sent == [("approve", "0x9", 125 * ZOO)]
    assert chain.purse().deposit([], 1, 0) == 0


def test_deposit__is_not_raised_by_few_rich_nodes() -> None:
    """Attack 11: eve has 40,000 ZOO at stake in one node, which nobody can touch, and another one
    has itself found by a verifier that is alone in its class. By the largest bounty, that lost its
    whole wallet: 8,890 of 9,000 ZOO."""
    chain = Chain(wallet=9_000 * ZOO, credit=0)
    assert chain.purse().deposit(range(1, 10), 1, 110 * ZOO) == 25 * ZOO
    assert chain.purse().deposit([1, 3, 4, 2, 9], 1, 110 * ZOO) == 25 * ZOO


def test_deposit__is_paid_of_the_credit_first() -> None:
    chain = Chain(wallet=10_000 * ZOO, credit=300 * ZOO)
    assert chain.purse().deposit([1, 2], 2, 0) == 125 * ZOO
    assert chain.sent == []
    assert chain.purse().deposit([1, 2], 3, 0) == 125 * ZOO
    assert chain.sent == [("approve", "0x9", 75 * ZOO)]


@pytest.mark.parametrize(("findings", "deposit"), [(1, 100 * ZOO), (3, 100 * ZOO // 3)])
def test_deposit__is_less_where_there_is_less(findings: int, deposit: int) -> None:
    chain = Chain(wallet=60 * ZOO, credit=40 * ZOO)
    assert chain.purse().deposit([1, 2], findings, 0) == deposit


def test_deposit__is_nothing_where_there_is_nothing() -> None:
    chain = Chain(wallet=0, credit=0)
    assert chain.purse().deposit([1, 2], 1, 0) == 0
    assert chain.sent == []


@pytest.mark.parametrize(("wallet", "deposit"), [(200, 90), (110, 0), (50, 0), (1_000, 125)])
def test_deposit__leaves_what_a_challenge_takes(wallet: int, deposit: int) -> None:
    """Else dear trainers have all verifiers deposit all they have, and nobody can challenge."""
    chain = Chain(wallet=wallet * ZOO, credit=0)
    assert chain.purse().deposit([1, 2], 1, 110 * ZOO) == deposit * ZOO


def test_deposit__may_take_all_of_the_credit() -> None:
    chain = Chain(wallet=50 * ZOO, credit=30 * ZOO)
    assert chain.purse().deposit([1, 2], 1, 110 * ZOO) == 30 * ZOO
    assert chain.sent == []


def test_collect__takes_out_what_is_as_much_as_a_bond() -> None:
    chain = Chain(wallet=0, credit=100 * ZOO)
    assert chain.purse().collect(101 * ZOO) is None and chain.sent == []
    assert chain.purse().collect(100 * ZOO) == "withdrawn: 100 ZOO of bonds and deposits"
    assert chain.sent == [("withdraw_bond",)] and chain.wallet == 100 * ZOO
    assert chain.purse().collect(0) is None, "nothing is left"


def test_collect__looks_at_results_too() -> None:
    chain = Chain(wallet=0, credit=0)
    chain.results_credit = 110 * ZOO
    assert chain.purse().collect(100 * ZOO) == "withdrawn: 110 ZOO of bonds and deposits"
