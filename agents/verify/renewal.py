# SPDX-License-Identifier: Apache-2.0
"""The operation that a ruling stands in: what expired is proposed again.

Rule: a ruling's first operation has the ruling's own salt. Where an operation expired (it was
queued, and nobody executed it in the grace period), the ruling's next one has the salt that its id
gives. So all members derive the same one from the chain alone. A ruling is carried out once all the
same: what expired can't be executed any more, and agents sign no later operation before. One that
was executed or cancelled is the last one. A ruling has four operations at most.

What members decided by hand about the same call counts too, since that is what they are told to do
where agents don't propose again. `ape run committee propose` numbers its salts, so agents find it.
Where members executed or cancelled the call, a second operation would undo what they did later,
such as withdraw a role. One by hand that is open holds up nothing: one member can leave it so.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from agents.protocol.by_hand import salt_by_hand
from agents.protocol.network import Network
from agents.protocol.numbers import OperationState
from agents.protocol.structs import read
from agents.runtime.contracts import Deployment
from agents.verify.rulings import Ruling, salt_of

MOST = 4  # operations of one ruling: one that can't be executed is not proposed for ever
_SETTLED = (OperationState.EXECUTED, OperationState.CANCELLED)


@dataclass(frozen=True)
class Standing:
    """Where a ruling stands.

    Attributes:
        ruling: with the salt of the operation that carries it out now.
        op_id, state: of that operation.
        expired: ids of the ruling's operations before it, the oldest first.
        by_hand: one of them expired, and members have executed or cancelled the call themselves.
    """

    ruling: Ruling
    op_id: bytes
    state: OperationState
    expired: tuple[bytes, ...]
    by_hand: bool

    @property
    def why_left(self) -> str | None:
        """Why agents leave the ruling alone though an operation of it expired; None if not so."""
        if self.state in _SETTLED:
            return None
        if self.by_hand:
            return "its operation expired, and members executed or cancelled the same by hand"
        if self.state == OperationState.EXPIRED:
            return f"it was proposed {MOST} times and expired each time"
        return None


def salt_after(op_id: bytes) -> bytes:
    """The salt of a ruling's next operation. `op_id`: of the one that expired."""
    return salt_of("again", op_id)


def standing(network: Network, ruling: Ruling) -> Standing:
    """The operation that a ruling stands in, and what came before."""
    first, expired = ruling, list[bytes]()
    op_id, state = _asked(network, ruling)
    while state == OperationState.EXPIRED and len(expired) + 1 < MOST:
        expired.append(op_id)
        ruling = replace(ruling, salt=salt_after(op_id))
        op_id, state = _asked(network, ruling)
    renewed = bool(expired) and state not in _SETTLED
    by_hand = renewed and _is_settled_by_hand(network, first)
    return Standing(ruling, op_id, state, tuple(expired), by_hand)


def _is_settled_by_hand(network: Network, ruling: Ruling) -> bool:
    for number in count():
        _, state = _asked(network, replace(ruling, salt=salt_by_hand(number)))
        if state != OperationState.EXPIRED:
            return state in _SETTLED
    raise AssertionError("unreachable")


def _asked(network: Network, ruling: Ruling) -> tuple[bytes, OperationState]:
    chain, contract = network.chain, network.coordinator
    args = ruling.target, ruling.data, ruling.salt
    op_id = read(bytes, chain.call(contract, "operation_id", *args))
    return op_id, OperationState(read(int, chain.call(contract, "state", op_id)))


def command(deployment: Deployment, ruling: Ruling) -> str:
    """What a member types to propose a ruling by hand.

    Raises ValueError for a call of which the deployment file has no contract or function.
    """
    for contract in deployment.contracts.values():
        function = contract.function_of(ruling.data[:4])
        if contract.address == ruling.target and function is not None:
            args = [_typed(value) for value in function.arguments(ruling.data).values()]
            words = [contract.name, str(function.abi["name"]), *args]
            return f"ape run committee propose call {shlex.join(words)}"
    raise ValueError(f"no call of a known contract: 0x{ruling.data.hex()}")


def _typed(value: Any) -> str:
    """A value as `ape run committee propose call` reads it."""
    return "0x" + value.hex() if isinstance(value, bytes) else json.dumps(value)
