# SPDX-License-Identifier: Apache-2.0
"""Coordinator, and what it may change of the network: operations, and the facts that now hold."""

from __future__ import annotations

from scripts._web.index.entry import Entry, Fold, Folds
from scripts._web.index.rows import Row, Rows
from scripts._web.index.tables import FACTS, OPERATIONS
from scripts._web.index.words import hexed, plain


def _operation(rows: Rows, entry: Entry) -> Row:
    return rows.row(OPERATIONS, hexed(entry.args["op_id"]))


def proposed(rows: Rows, entry: Entry) -> None:
    """A member proposes a call."""
    args = entry.args
    operation = _operation(rows, entry)
    operation.update(target=args["target"], proposer=args["proposer"])
    operation.update(data=hexed(args["data"]), salt=hexed(args["salt"]))
    operation.update(proposed_at=entry.time, proposed_block=entry.block)
    operation["proposed_index"] = entry.event.log_index


def approved(rows: Rows, entry: Entry) -> None:
    """A member approves it."""
    operation = _operation(rows, entry)
    operation["approved"] = [*operation["approved"], entry.args["member"]]


def queued(rows: Rows, entry: Entry) -> None:
    """Its delay runs."""
    _operation(rows, entry)["eta"] = entry.args["eta"]


def executed(rows: Rows, entry: Entry) -> None:
    """The call was made."""
    done = {"executed_at": entry.time, "executed_block": entry.block, "executed_tx": entry.tx}
    _operation(rows, entry).update(done)


def voted_against(rows: Rows, entry: Entry) -> None:
    """A member wants it cancelled."""
    operation = _operation(rows, entry)
    operation["against"] = [*operation["against"], entry.args["member"]]


def cancelled(rows: Rows, entry: Entry) -> None:
    """It will never be executed."""
    _operation(rows, entry)["cancelled"] = True


# -- facts -------------------------------------------------------------------------------------


def _holds(name: str, argument: str) -> Fold:
    """An event whose argument is what holds from now on."""

    def fold(rows: Rows, entry: Entry) -> None:
        rows.change(FACTS, name, value=plain(entry.args[argument]))

    return fold


def members(rows: Rows, entry: Entry) -> None:
    """The committee is another."""
    args = entry.args
    value = {"members": list(args["new_members"]), "threshold": args["new_threshold"]}
    rows.change(FACTS, "committee", value=value)


def delays(rows: Rows, entry: Entry) -> None:
    """Operations wait as long."""
    args = entry.args
    value = {"routine": args["new_routine"], "governance": args["new_governance"]}
    rows.change(FACTS, "delays", value=value)


def penalty(rows: Rows, entry: Entry) -> None:
    """A row of the slashing table."""
    row = plain(entry.args["new_penalty"])
    rows.change(FACTS, f"penalty {entry.args['violation']}", value=row)


def paused(rows: Rows, entry: Entry) -> None:
    """Some functions of a contract are paused, or none."""
    bits = {"contract": entry.contract, "bits": entry.args["new_bits"]}
    rows.change(FACTS, f"paused {entry.contract}", value=bits)


def slasher(rows: Rows, entry: Entry) -> None:
    """A contract may slash, or may not any more."""
    value = {"address": entry.args["slasher"], "allowed": entry.args["allowed"]}
    rows.change(FACTS, f"slasher {entry.args['slasher']}", value=value)


FOLDS: Folds = {
    "OperationProposed": proposed,
    "OperationApproved": approved,
    "OperationQueued": queued,
    "OperationExecuted": executed,
    "CancelVoted": voted_against,
    "OperationCancelled": cancelled,
    "MembersChanged": members,
    "DelaysChanged": delays,
    "ParametersChanged": _holds("parameters", "new_parameters"),
    "BoundsChanged": _holds("bounds", "new_bounds"),
    "PenaltyChanged": penalty,
    "PauseChanged": paused,
    "SlasherChanged": slasher,
}
