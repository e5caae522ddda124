# SPDX-License-Identifier: Apache-2.0
"""The trainers' stakes are read at once, and the smallest ones count where seats are few."""

from __future__ import annotations

from types import SimpleNamespace as Stub
from typing import Any

from agents.jobs.at_stake import AtStake, read_at_stake
from agents.jobs.deterrence import checking
from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO
from agents.protocol.slashing import DEFAULTS


def test_today_s_trainers_are_one_page_of_the_registry() -> None:
    asked: list[Any] = []

    def call(*of: Any) -> list[int]:
        asked.append(of)
        return [7, 3]

    network: Any = Stub(
        chain=Stub(call=call, head=lambda: Stub(number=9)),
        registry="registry",
        stakes_at=lambda nodes, block: {7: 5, 3: 2} if (nodes, block) == ([7, 3], 9) else {},
        penalties=lambda: DEFAULTS,
    )
    assert read_at_stake(network) == AtStake((2, 5), DEFAULTS)
    assert asked == [("registry", "role_nodes", 1, 0, 128)]


def test_a_trainer_that_left_since_the_list_was_read_does_not_count() -> None:
    network: Any = Stub(
        chain=Stub(call=lambda *_: [7, 3], head=lambda: Stub(number=9)),
        registry="registry",
        stakes_at=lambda *_: {7: 5, 3: 0},
        penalties=lambda: DEFAULTS,
    )
    assert read_at_stake(network) == AtStake((5,), DEFAULTS)


def test_the_smallest_stakes_count_where_there_are_fewer_seats() -> None:
    stakes = tuple(n * 100 * ZOO for n in (1, 2, 3, 4))
    terms = Terms.brief(reward_per_round=50 * ZOO, max_nodes=2)
    cuts = terms.verifier_bps, terms.aggregator_bps
    given = (terms.reward_per_round, *cuts, stakes[:2], DEFAULTS, 1, 3)
    assert terms.verifier_bps, "the cut must count"
    assert AtStake(stakes, DEFAULTS).checking(terms, 1, 3) == checking(*given)
    assert AtStake((), DEFAULTS).checking(terms, 1).exposed == ()
