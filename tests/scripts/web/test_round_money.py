# SPDX-License-Identifier: Apache-2.0
"""A round's money as stops and flows: whatever the chain has done, the picture adds up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.audit.explain import Explained, Explanation, Outcome, Payment
from scripts._web.pages.draw.money import MOST, money_of
from scripts._web.pages.draw.sankey import balanced

UNPAID = "not paid: its work was found invalid; its share is carried to the next round"
CARRIED, RETURNED = "carried to the job's next round", "returned to the job's escrow"
KEPT = ("retained", "held", "set aside")


def outcome(what: str, amount: int, then: str | None) -> Outcome:
    later = Outcome(then, amount, "0xA") if then and what in KEPT else None
    return Outcome(what, amount, "0xA" if what == "credited" else None, then=later)


outcomes = st.builds(
    outcome,
    st.sampled_from(["credited", *KEPT, "not distributed yet", UNPAID]),
    st.integers(1, 10**24),
    st.sampled_from([None, "credited", "forfeited", CARRIED]),
)
payments = st.tuples(
    st.sampled_from(["trainer", "verifier", "aggregator"]), st.lists(outcomes, min_size=1)
)


def explained(given_payments: list[tuple[str, list[Outcome]]], rest: list[Outcome]) -> Explained:
    """A round of which these were due, and whose pool has this left beside what was not paid."""
    nodes, unpaid = [], 0
    for number, (role, parts) in enumerate(given_payments, start=1):
        due = sum(part.amount for part in parts)
        unpaid += sum(part.amount for part in parts if part.what == UNPAID)
        nodes.append(Explanation(1, number, (), (Payment(role, due, (), tuple(parts)),)))
    pool = sum(p.due for n in nodes for p in n.payments) + sum(o.amount for o in rest)
    left = [*rest, *([Outcome(CARRIED, unpaid)] if unpaid else [])]
    return Explained(1, "finalized", pool, tuple(nodes), tuple(left), ())


@given(
    st.lists(payments, max_size=MOST + 6),
    st.lists(
        st.builds(Outcome, st.sampled_from([CARRIED, RETURNED]), st.integers(1, 10**24)), max_size=2
    ),
    st.integers(0, 10**25),
)
def test_every_unit_of_the_pool_is_seen_to_end_somewhere(
    given_payments: list[tuple[str, list[Outcome]]], rest: list[Outcome], reward: int
) -> None:
    found = explained(given_payments, rest)
    stops, flows = money_of(found, reward, str, lambda node: f"/nodes/{node}")
    through = balanced(stops, flows)
    if not found.pool:
        assert stops == [] and flows == []
        return
    assert through["pool"] == found.pool
    assert sum(flow.amount for flow in flows if flow.target == "pool") == found.pool
    into = {stop.key: 0 for stop in stops if stop.column == 3}
    for flow in flows:
        if flow.target in into:
            into[flow.target] += flow.amount
    assert sum(into.values()) == found.pool
    everything = [o for n in found.nodes for p in n.payments for o in p.outcomes]
    for what in ("credited", *KEPT, "not distributed yet"):
        told = sum(o.amount for o in everything if o.what == what)
        assert into.get(f"to {what}", 0) == told
    later = sum(flow.amount for flow in flows if flow.target.startswith("then "))
    assert later == sum(o.amount for o in everything if o.then is not None)
    nowhere = sum(o.amount for o in found.left)
    assert into.get(f"to {CARRIED}", 0) + into.get(f"to {RETURNED}", 0) == nowhere
    assert "to stays in the pool" not in into


def test_many_small_payments_share_a_place_and_lose_no_unit() -> None:
    many = [("trainer", [Outcome("credited", amount, "0xA")]) for amount in range(1, 129)]
    stops, flows = money_of(explained(many, []), 0, str, str)
    (others,) = [stop for stop in stops if stop.key == "others"]
    assert sum(stop.column == 2 for stop in stops) == MOST
    assert balanced(stops, flows)["others"] == sum(range(1, 129 - MOST + 1))
    assert others.name == f"{128 - MOST + 1} smaller payments" and others.href is None


def test_what_counts_for_nobody_has_a_place_and_no_page() -> None:
    found = explained([("nobody", [Outcome("credited", 5, "0xA")])], [])
    (node,) = found.nodes
    drawn = Explained(1, "finalized", 5, (replace(node, node=0),), (), ())
    stops, flows = money_of(drawn, 5, str, lambda node: f"/nodes/{node}")
    (stop,) = [stop for stop in stops if stop.column == 2]
    assert (stop.name, stop.href) == ("work that counts for nobody", None)
    assert balanced(stops, flows)["pool"] == 5


def test_a_round_that_pays_more_than_it_has_is_not_drawn() -> None:
    found = explained([("trainer", [Outcome("credited", 5, "0xA")])], [])
    broken = Explained(1, "finalized", 4, found.nodes, (), ())
    with pytest.raises(ValueError, match="1 more than the pool"):
        money_of(broken, 4, str, str)
