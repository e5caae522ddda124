# SPDX-License-Identifier: Apache-2.0
"""The committee's operations in words, as its page shows them.

The words are those of `ape run committee`. Operations are read from the chain, newest first; an
operation whose bytes say nothing known is marked, and shown all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from agents.protocol.network import Network
from agents.protocol.numbers import OperationState
from scripts._shared.operation_words import Change
from scripts._shared.operations import OPEN, Committee, committee_of, operations

_MOST = 50
_TONES = {
    OperationState.QUEUED: "wait",
    OperationState.PROPOSED: "wait",
    OperationState.EXECUTED: "good",
}


@dataclass(frozen=True)
class Shown:
    """An operation. `pending`: it is not decided yet. `queued`: enough members approved."""

    op_id: str
    title: str
    known: bool
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    state: str
    tone: str
    pending: bool
    queued: bool
    approved: tuple[str, ...]
    proposer: str
    proposed_at: int
    outlook: str
    target: str


def committee_page(network: Network, now: int) -> tuple[Committee, list[Shown]]:
    """Return the committee and its newest operations. Raises AgentError: the chain is silent."""
    committee = committee_of(network)
    shown = []
    for each in islice(operations(network), _MOST):
        told = each.words(network)
        shown.append(
            Shown(
                op_id=f"0x{each.op_id.hex()}",
                title=told.title,
                known=told.known,
                changes=told.changes,
                notes=told.notes,
                state=each.state.name.lower(),
                tone=_TONES.get(each.state, "plain"),
                pending=each.state in OPEN,
                queued=each.state == OperationState.QUEUED,
                approved=each.approved,
                proposer=each.proposer,
                proposed_at=each.proposed_at,
                outlook=each.outlook(committee, now),
                target=each.target,
            )
        )
    return committee, shown
