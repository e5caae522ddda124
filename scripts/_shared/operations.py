# SPDX-License-Identifier: Apache-2.0
"""The committee's operations as the chain has them: where each stands, and who stood for it.

    for found in operations(network):
        words = found.words(network)                  # see operation_words
        found.state, found.approved, found.eta, found.until

Rule: an operation is known by its event of being proposed, and everything else is asked of the
Coordinator now. Nothing here signs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.protocol.numbers import OperationState
from agents.protocol.structs import Operation, read
from agents.runtime.errors import Reverted
from agents.runtime.look import LATEST
from agents.runtime.printable import printable
from scripts._shared.operation_words import DELAY_CLASSES, Words, said, spell
from scripts._shared.operator import when

if TYPE_CHECKING:
    from agents.protocol.network import Network
    from agents.runtime.chain import BlockId
    from agents.runtime.contracts import Event

OPEN = (OperationState.PROPOSED, OperationState.QUEUED)


@dataclass(frozen=True)
class Committee:
    """Who decides, and how long what waits. Times in seconds."""

    members: tuple[str, ...]
    threshold: int
    routine_delay: int
    governance_delay: int
    grace_period: int

    @property
    def cancel_quorum(self) -> int:
        """Votes that cancel an operation for good: they leave no quorum without one."""
        return len(self.members) - self.threshold + 1


@dataclass(frozen=True)
class Standing:
    """Where an operation stands.

    Attributes:
        op_id: its id.
        state: of the contract.
        proposer: who proposed it, at `proposed_at`, seconds of the chain.
        approved: the members of today who approved it; their number is what counts.
        lapsed: who approved it and is no member any more.
        cancel_voted: the members of today who voted to cancel it.
        delay: seconds from the quorum to the earliest execution.
        eta, until: when it may be executed, first and last; 0 before the quorum.
        executed_block: the block that executed it, 0 if none did.
    """

    op_id: bytes
    target: str
    data: bytes
    salt: bytes
    state: OperationState
    proposer: str
    proposed_at: int
    approved: tuple[str, ...]
    lapsed: tuple[str, ...]
    cancel_voted: tuple[str, ...]
    delay: int
    eta: int
    until: int
    executed_block: int

    def words(self, network: Network) -> Words:
        """What it does, from what to what: what was there before it was executed, else now."""
        block: BlockId = self.executed_block - 1 if self.executed_block else LATEST
        return said(network, self.target, self.data, block)

    def waits_unqueued(self, committee: Committee) -> bool:
        """Whether a change of members gave it its quorum, and nobody has started its delay."""
        enough = len(self.approved) >= committee.threshold
        return self.state == OperationState.PROPOSED and enough

    def outlook(self, committee: Committee, now: int) -> str:
        """What happens next, and until when, in a sentence."""
        if self.state == OperationState.EXECUTED:
            return f"It was executed in block {self.executed_block}."
        if self.state == OperationState.CANCELLED:
            return "It was cancelled, for good."
        if self.state == OperationState.EXPIRED:
            return f"Nobody executed it in time: it expired at {when(self.until, now)}."
        missing = committee.threshold - len(self.approved)
        if self.waits_unqueued(committee):
            return "A change of members gave it its quorum: a member's `approve` starts its delay."
        if self.state == OperationState.PROPOSED:
            return (
                f"It needs {missing} more approval{'s' if missing > 1 else ''}, and may be "
                f"executed {spell(self.delay)} after the last of them."
            )
        if missing > 0:
            return f"It has lost its quorum: {missing} more approvals start its delay anew."
        if now < self.eta:
            return (
                f"Anyone may execute it from {when(self.eta, now)} until {when(self.until, now)}."
            )
        return f"Anyone may execute it now, until {when(self.until, now)}."


def committee_of(network: Network) -> Committee:
    """Who decides today."""
    chain, contract = network.chain, network.coordinator
    routine, governance = chain.call(contract, "delays")
    return Committee(
        members=tuple(chain.call(contract, "members")),
        threshold=read(int, chain.call(contract, "threshold")),
        routine_delay=routine,
        governance_delay=governance,
        grace_period=read(int, chain.call(contract, "grace_period")),
    )


def operations(network: Network) -> list[Standing]:
    """Every operation that was ever proposed, newest first."""
    chain, contract, first = network.chain, network.coordinator, network.deployment.block
    last = chain.head().number
    committee = committee_of(network)
    ids = [e.args["op_id"] for e in chain.events(contract, "OperationProposed", first, last)][::-1]
    approved, voted = (
        _members_by_operation(chain.events(contract, name, first, last))
        for name in ("OperationApproved", "CancelVoted")
    )
    executed = {
        e.args["op_id"]: e.block for e in chain.events(contract, "OperationExecuted", first, last)
    }
    stored = chain.call_many([(contract, "operation", (op_id,)) for op_id in ids])
    states = chain.call_many([(contract, "state", (op_id,)) for op_id in ids])
    delays: dict[tuple[str, bytes], int] = {}
    found = []
    for op_id, raw, state in zip(ids, stored, states, strict=True):
        one = read(Operation, raw)
        call = one.target, one.data[:4]
        if call not in delays:
            delays[call] = delay_of(network, committee, *call)
        found.append(
            Standing(
                op_id=op_id,
                target=one.target,
                data=one.data,
                salt=one.salt,
                state=OperationState(state),
                proposer=one.proposer,
                proposed_at=one.proposed_at,
                approved=tuple(w for w in approved.get(op_id, ()) if w in committee.members),
                lapsed=tuple(w for w in approved.get(op_id, ()) if w not in committee.members),
                cancel_voted=tuple(w for w in voted.get(op_id, ()) if w in committee.members),
                delay=delays[call],
                eta=one.eta,
                until=one.eta and one.eta + committee.grace_period,
                executed_block=executed.get(op_id, 0),
            )
        )
    return found


def _members_by_operation(events: Iterable[Event]) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for event in events:
        found.setdefault(event.args["op_id"], []).append(event.args["member"])
    return found


def delay_of(network: Network, committee: Committee, target: str, data: bytes) -> int:
    """Seconds that an operation waits after its quorum, by the classes of today."""
    if len(data) < 4 or target == network.coordinator.address:
        return committee.governance_delay
    found = network.chain.call(network.coordinator, "delay_class", target, data[:4])
    routine = DELAY_CLASSES[found] == "routine"
    return committee.routine_delay if routine else committee.governance_delay


def refusal(network: Network, target: str, data: bytes) -> str | None:
    """Why the operation would fail if the timelock sent it now; None if it would succeed."""
    chain, sender = network.chain, network.coordinator.address
    if chain.request("eth_getCode", target, LATEST) in ("0x", None):
        return "there is no contract at its target"
    call = {"from": sender, "to": target, "data": "0x" + data.hex()}
    try:
        chain.request("eth_call", call, LATEST)
    except Reverted as refused:
        return printable(refused.reason)
    return None
