# SPDX-License-Identifier: Apache-2.0
"""NodeRegistry: keys, stake, roles and standing of a node."""

from __future__ import annotations

from agents.protocol.numbers import NOBODY
from scripts._web.index.entry import Entry, Fold, Folds
from scripts._web.index.rows import Rows
from scripts._web.index.tables import ACCOUNTS, FACTS, NODES
from scripts._web.index.words import hexed


def registered(rows: Rows, entry: Entry) -> None:
    """A new node."""
    args = entry.args
    same = ("owner", "operator", "payout", "roles", "stake")
    rows.change(
        NODES,
        args["node_id"],
        **{name: args[name] for name in same},
        encryption_key=hexed(args["encryption_key"]),
        registered_at=entry.time,
    )


def _sets(column: str, argument: str) -> Fold:
    """An event that replaces one column by one of its arguments."""

    def fold(rows: Rows, entry: Entry) -> None:
        value = entry.args[argument]
        value = hexed(value) if isinstance(value, bytes) else value
        rows.change(NODES, entry.args["node_id"], **{column: value})

    return fold


def exit_begun(rows: Rows, entry: Entry) -> None:
    """Its whole stake unbonds."""
    args = entry.args
    rows.change(
        NODES, args["node_id"], stake=0, unbonding=args["amount"], unlock_at=args["unlock_at"]
    )


def withdrawn(rows: Rows, entry: Entry) -> None:
    """Its stake is out, and its operator key is free."""
    rows.change(NODES, entry.args["node_id"], unbonding=0, operator=NOBODY)


def roles_changed(rows: Rows, entry: Entry) -> None:
    """Its owner asked for other roles; a dropped one loses its approval."""
    node = rows.row(NODES, entry.args["node_id"])
    node["roles"] = entry.args["new_roles"]
    node["approved_roles"] &= node["roles"]


def approved(rows: Rows, entry: Entry) -> None:
    """The committee admits it to a role, or revokes that."""
    node = rows.row(NODES, entry.args["node_id"])
    role = entry.args["role"]
    others = node["approved_roles"] & ~role
    node["approved_roles"] = others | role if entry.args["approved"] else others


def slashed(rows: Rows, entry: Entry) -> None:
    """It lost stake, first what is staked and then what unbonds."""
    args = entry.args
    node = rows.row(NODES, args["node_id"])
    from_stake = min(node["stake"], args["amount"])
    node["stake"] -= from_stake
    node["unbonding"] -= args["amount"] - from_stake
    node["slashed"] += args["amount"]
    node.update({name: args[name] for name in ("suspended_until", "strikes", "banned")})
    if args["reporter_share"]:
        rows.row(ACCOUNTS, args["reporter"])["bounties"] += args["reporter_share"]
    if args["treasury_share"]:
        parameters = rows.get(FACTS, "parameters")
        assert parameters is not None, "the registry has logged its parameters when it was made"
        rows.row(ACCOUNTS, parameters["value"]["treasury"])["bounties"] += args["treasury_share"]


def bounty_claimed(rows: Rows, entry: Entry) -> None:
    """An account took its bounties."""
    rows.row(ACCOUNTS, entry.args["account"])["bounties_claimed"] += entry.args["amount"]


FOLDS: Folds = {
    "NodeRegistered": registered,
    "StakeAdded": _sets("stake", "stake"),
    "ExitBegun": exit_begun,
    "StakeWithdrawn": withdrawn,
    "OperatorChanged": _sets("operator", "new_operator"),
    "PayoutChanged": _sets("payout", "new_payout"),
    "EncryptionKeyChanged": _sets("encryption_key", "new_key"),
    "RolesChanged": roles_changed,
    "RoleApproved": approved,
    "ActiveChanged": _sets("active", "active"),
    "NodeSlashed": slashed,
    "StakeLocked": _sets("locks", "locks"),
    "StakeUnlocked": _sets("locks", "locks"),
    "BountyClaimed": bounty_claimed,
}
