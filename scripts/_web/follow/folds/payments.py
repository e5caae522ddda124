# SPDX-License-Identifier: Apache-2.0
"""RewardPool's payments: one row for each movement, and the sums that follow from them.

Rule: what an account can claim is what was credited to it less what it has claimed, as the
contract's `pending` says.
"""

from __future__ import annotations

from agents.protocol.numbers import UNCLAIMED
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Rows
from scripts._web.index.tables import ACCOUNTS, JOBS, NODES, PAYMENTS, ROUNDS, SEATS


def _move(
    rows: Rows,
    entry: Entry,
    kind: str,
    amount: int,
    *,
    place: int = 0,
    node: int | None = None,
    account: str | None = None,
    credited: bool = False,
) -> None:
    """Write one movement. `credited`: `account` can claim it."""
    rows.add(
        PAYMENTS,
        {
            "block": entry.block,
            "log_index": entry.event.log_index,
            "place": place,
            "time": entry.time,
            "tx": entry.tx,
            "kind": kind,
            "credited": credited,
            "job_id": entry.args.get("job_id"),
            "round_id": entry.args.get("round_id"),
            "node_id": node,
            "account": account,
            "amount": amount,
        },
    )
    if credited and account is not None:
        rows.row(ACCOUNTS, account)["credited"] += amount


def _due(rows: Rows, entry: Entry, node: int, amount: int) -> None:
    """The round's pool has given this to a node, or keeps it for it."""
    rows.row(JOBS, entry.args["job_id"])["paid"] += amount
    rows.row(ROUNDS, *entry.place)["paid"] += amount
    if rows.get(SEATS, *entry.place, node) is not None:
        rows.row(SEATS, *entry.place, node)["paid"] += amount


def cut(rows: Rows, entry: Entry) -> None:
    """A proposer or a verifier is credited its cut."""
    args = entry.args
    amount, node = args["amount"], args["node_id"]
    _move(rows, entry, "cut", amount, node=node, account=args["payout"], credited=True)
    rows.row(NODES, node)["earned"] += amount
    rows.row(JOBS, args["job_id"])["paid"] += amount
    rows.row(ROUNDS, *entry.place)["paid"] += amount


def distributed(rows: Rows, entry: Entry) -> None:
    """Trainers are credited their shares, and the treasury what counts for nobody."""
    args = entry.args
    for place, (node, account, amount) in enumerate(
        zip(args["nodes"], args["payouts"], args["amounts"], strict=True)
    ):
        if amount and node == UNCLAIMED:
            shown = {"place": place, "account": account, "credited": True}
            _move(rows, entry, "unclaimed", amount, **shown)
            _due(rows, entry, node, amount)
        elif amount:
            shown = {"place": place, "node": node, "account": account, "credited": True}
            _move(rows, entry, "share", amount, **shown)
            rows.row(NODES, node)["earned"] += amount
            _due(rows, entry, node, amount)


def held(rows: Rows, entry: Entry) -> None:
    """A node's pay waits until its locks are gone."""
    args = entry.args
    _move(rows, entry, "held", args["amount"], node=args["node_id"])
    rows.row(NODES, args["node_id"])["held"] += args["amount"]
    _due(rows, entry, args["node_id"], args["amount"])


def released(rows: Rows, entry: Entry) -> None:
    """What was held is credited."""
    args = entry.args
    amount, node = args["amount"], args["node_id"]
    _move(rows, entry, "released", amount, node=node, account=args["payout"], credited=True)
    row = rows.row(NODES, node)
    row["held"] = 0
    row["earned"] += amount


def retained(rows: Rows, entry: Entry) -> None:
    """The pool keeps a part of a trainer's pay while it works for the job."""
    args = entry.args
    _move(rows, entry, "retained", args["amount"], node=args["node_id"])
    rows.row(NODES, args["node_id"])["retained"] += args["amount"]
    _due(rows, entry, args["node_id"], args["amount"])


def retained_released(rows: Rows, entry: Entry) -> None:
    """What was retained is credited."""
    args = entry.args
    amount, node = args["amount"], args["node_id"]
    shown = {"node": node, "account": args["payout"], "credited": True}
    _move(rows, entry, "retained released", amount, **shown)
    row = rows.row(NODES, node)
    row["retained"] -= amount
    row["earned"] += amount


def retained_forfeited(rows: Rows, entry: Entry) -> None:
    """What was retained of a guilty node goes to the treasury."""
    args = entry.args
    amount, node = args["amount"], args["node_id"]
    shown = {"node": node, "account": args["treasury"], "credited": True}
    _move(rows, entry, "forfeited", amount, **shown)
    rows.row(NODES, node)["retained"] -= amount


def set_aside(rows: Rows, entry: Entry) -> None:
    """The share of a node that was found invalid waits for the end of the report on it."""
    args = entry.args
    _move(rows, entry, "set aside", args["amount"], node=args["node_id"])
    _due(rows, entry, args["node_id"], args["amount"])


def share_settled(rows: Rows, entry: Entry) -> None:
    """It is credited, or carried to the trainers of the job's next round."""
    args = entry.args
    amount, node = args["amount"], args["node_id"]
    if args["guilty"]:
        _move(rows, entry, "carried on", amount, node=node)
        return
    payee = rows.row(NODES, node)
    shown = {"node": node, "account": payee["payout"], "credited": True}
    _move(rows, entry, "share settled", amount, **shown)
    payee["earned"] += amount


def carried_forfeited(rows: Rows, entry: Entry) -> None:
    """What an ended job had carried goes to the treasury."""
    account = entry.args["treasury"]
    _move(rows, entry, "carried forfeited", entry.args["amount"], account=account, credited=True)


def claimed(rows: Rows, entry: Entry) -> None:
    """An account took its rewards."""
    account, amount = entry.args["account"], entry.args["amount"]
    _move(rows, entry, "claimed", amount, account=account)
    rows.row(ACCOUNTS, account)["claimed"] += amount


FOLDS: Folds = {
    "CutCredited": cut,
    "RewardsDistributed": distributed,
    "PayHeld": held,
    "PayReleased": released,
    "PayRetained": retained,
    "RetainedReleased": retained_released,
    "RetainedForfeited": retained_forfeited,
    "ShareSetAside": set_aside,
    "ShareSettled": share_settled,
    "CarriedForfeited": carried_forfeited,
    "RewardClaimed": claimed,
}
