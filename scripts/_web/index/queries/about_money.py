# SPDX-License-Identifier: Apache-2.0
"""Payments, and what accounts can claim."""

from __future__ import annotations

from scripts._web.index.models import Account, Page, Payment
from scripts._web.index.queries.base import Row, behind, cursor_of, newest_first, within
from scripts._web.index.reading import Reading
from scripts._web.index.tables import ACCOUNTS, NODES, PAYMENTS

CHAIN_ORDER = (PAYMENTS.c.block, PAYMENTS.c.log_index, PAYMENTS.c.place)


def payment(row: Row) -> Payment:
    """A movement of money."""
    return Payment(**row)


def payments(
    look: Reading,
    *,
    job_id: int | None = None,
    round_id: int | None = None,
    node_id: int | None = None,
    account: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[Payment]:
    """Payments, newest first. Raises BadCursor."""
    wanted = {"job_id": job_id, "round_id": round_id, "node_id": node_id, "account": account}
    query = within(PAYMENTS, **wanted).where(*behind(cursor, *CHAIN_ORDER))
    rows = look.all(query.order_by(*newest_first(*CHAIN_ORDER)).limit(limit + 1))
    following = cursor_of(rows[limit - 1], *CHAIN_ORDER) if len(rows) > limit else None
    items = [payment(row) for row in rows[:limit]]
    return Page[Payment](at=look.at, items=items, next=following)


def account(look: Reading, address: str) -> Account:
    """What an account has earned and can claim, and the nodes that are its own or pay it."""
    row = look.one(within(ACCOUNTS, account=address))
    zeros = dict.fromkeys(("credited", "claimed", "bounties", "bounties_claimed"), 0)
    sums: dict[str, int] = zeros if row is None else {name: row[name] for name in zeros}
    owned = look.all(within(NODES, owner=address).order_by(NODES.c.node_id))
    paying = look.all(within(NODES, payout=address).order_by(NODES.c.node_id))
    return Account(
        at=look.at,
        account=address,
        credited=sums["credited"],
        claimed=sums["claimed"],
        pending=sums["credited"] - sums["claimed"],
        bounties=sums["bounties"],
        bounty_pending=sums["bounties"] - sums["bounties_claimed"],
        owns=[node["node_id"] for node in owned],
        paid_by=[node["node_id"] for node in paying],
    )
