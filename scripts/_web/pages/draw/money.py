# SPDX-License-Identifier: Apache-2.0
"""A round's money as stops and flows: reward to pool, to nodes by role, to where it went.

The amounts are those of `agents.audit.explain`. What nobody was due, and what a node was due and
did not get, ends in the same places: the job's escrow, its next round, or the pool itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agents.audit.explain import Explained, Outcome
from agents.protocol.numbers import UNCLAIMED
from scripts._web.pages.draw.sankey import Flow, Stop

MOST = 16  # payments that have a place of their own; smaller ones share one
_TONES = {"trainer": "trainer", "verifier": "verifier", "aggregator": "aggregator"}
_FATES = {
    "credited": ("credited", "good"),
    "retained": ("retained", "wait"),
    "held": ("held: accused", "wait"),
    "set aside": ("set aside for a verdict", "wait"),
    "forfeited": ("forfeited to the treasury", "bad"),
    "not distributed yet": ("not distributed yet", "wait"),
    "carried to the job's next round": ("to a next round", "plain"),
    "returned to the job's escrow": ("back to the escrow", "plain"),
}
_POOL = ("stays in the pool", "plain")
_UNPAID = "not paid"


def money_of(
    found: Explained, reward: int, label: Callable[[int], str], href: Callable[[int], str]
) -> tuple[list[Stop], list[Flow]]:
    """Return the stops and flows of a round.

    Args:
        found: the round.
        reward: what the job's terms promise for a round; the rest of the pool was carried.
        label: how a node is named.
        href: the page that explains a node's pay in this round.

    Raises:
        ValueError: nodes were due more than the pool held.
    """
    if not found.pool:
        return [], []
    stops = {"pool": Stop("pool", "the round's pool", 1, "pool")}
    flows: Counter[tuple[str, str]] = Counter()
    fresh = min(reward, found.pool)
    stops["reward"] = Stop("reward", "reward", 0, "plain")
    flows["reward", "pool"] = fresh
    if carried := found.pool - fresh:
        stops["carried in"] = Stop("carried in", "carried in", 0, "plain")
        flows["carried in", "pool"] = carried
    payments = sorted(
        ((node.node, payment) for node in found.nodes for payment in node.payments),
        key=lambda item: -item[1].due,
    )
    left = _Left(list(found.left))
    later: Counter[tuple[str, str]] = Counter()
    ends: dict[str, tuple[str, str]] = {}

    def flow_on(source: str, outcome: Outcome) -> None:
        pieces = [(outcome.what, outcome.amount)]
        if outcome.what.startswith(_UNPAID):
            pieces = left.take(outcome.amount)
        for what, amount in pieces:
            ends[what] = _FATES.get(what, _POOL)
            flows[source, f"to {what}"] += amount
            if outcome.then is not None:
                ends[outcome.last.what] = _FATES.get(outcome.last.what, _POOL)
                later[f"to {what}", f"then {outcome.last.what}"] += amount

    for place, (node, payment) in enumerate(payments):
        key = f"{payment.role} {node}"
        if place >= MOST - 1 and len(payments) > MOST:
            key = "others"
            stops[key] = Stop(key, f"{len(payments) - MOST + 1} smaller payments", 2, "plain")
        else:
            tone = _TONES.get(payment.role, "plain")
            stops[key] = (
                Stop(key, "work that counts for nobody", 2, tone)
                if node == UNCLAIMED
                else Stop(key, f"{label(node)}, {payment.role}", 2, tone, href(node))
            )
        flows["pool", key] += payment.due
        for outcome in payment.outcomes:
            flow_on(key, outcome)
    rest = found.pool - sum(payment.due for _, payment in payments)
    if rest < 0:
        raise ValueError(f"nodes were due {-rest} more than the pool held")
    if rest:
        stops["nobody"] = Stop("nobody", "due to nobody", 2, "plain")
        flows["pool", "nobody"] = rest
        for what, amount in left.take(rest):
            ends[what] = _FATES.get(what, _POOL)
            flows["nobody", f"to {what}"] += amount
    for source, target in (*flows, *later):
        for key in (source, target):
            kind, _, what = key.partition(" ")
            if kind in ("to", "then") and what in ends and key not in stops:
                name, tone = ends[what]
                column, before = (3, "") if kind == "to" else (4, "later ")
                stops[key] = Stop(key, f"{before}{name}", column, tone, keeps=True)
    order = sorted(stops.values(), key=lambda s: (s.column, _rank(s)))
    return order, [Flow(a, b, amount) for (a, b), amount in (flows + later).items() if amount]


def _rank(stop: Stop) -> int:
    """Trainers, then who checked and merged, then the rest; good ends before the others."""
    tones = ("trainer", "verifier", "aggregator", "good", "wait", "bad", "plain")
    return tones.index(stop.tone) if stop.tone in tones else len(tones)


class _Left:
    """What no node was due or got, by where it went, handed out in order."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self._open = [(outcome.what, outcome.amount) for outcome in outcomes]

    def take(self, amount: int) -> list[tuple[str, int]]:
        """Return where so much of it went; what no event accounts for stays in the pool."""
        found = []
        while amount and self._open:
            what, there = self._open.pop(0)
            piece = min(amount, there)
            found.append((what, piece))
            amount -= piece
            if there > piece:
                self._open.insert(0, (what, there - piece))
        return [*found, (_POOL[0], amount)] if amount else found
