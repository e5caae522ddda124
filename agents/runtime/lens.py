# SPDX-License-Identifier: Apache-2.0
"""Puts many views of one block into one call of the Lens contract, where the network has one.

Rule: an answer through the lens is the view's own, or there is none. There is none where the
contract cut a long answer, where a view failed without saying why (it may have run out of the gas
that was left to it), and where the node refuses the call of the lens. Who asked then asks the view
by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.runtime.contracts import Contract

MOST_CALLS = 32
MOST_DATA = 4_608  # bytes of a question
MOST_ANSWER = 8_192  # bytes of an answer
_PAUSE = 50  # bundles that are asked view by view after a call of the lens has failed

Answer = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of a function without a transaction.

    `view`: it is one by its ABI. `lasting`: it reads nothing but the storage of watched contracts.
    """

    to: str
    data: str
    sender: str | None
    block: str
    view: bool
    lasting: bool

    def params(self, block: object) -> list[Any]:
        """The parameters of `eth_call`."""
        request = {"to": self.to, "data": self.data}
        if self.sender is not None:
            request["from"] = self.sender
        return [request, block]

    @property
    def question(self) -> tuple[str, str]:
        """Contract and selector."""
        return self.to, self.data[:10]


class Lens:
    """The Lens contract of a network, and what is better asked without it."""

    def __init__(self, contract: Contract) -> None:
        self._address = contract.address
        self._read = contract.function("read", 1)
        self._long: set[tuple[str, str]] = set()  # questions whose answers do not fit
        self._pause = 0

    def takes(self, call: Call) -> bool:
        """Whether the contract can ask it: a view that does not look at who asks."""
        return (
            call.view
            and call.sender is None
            and len(call.data) <= 2 + 2 * MOST_DATA
            and call.question not in self._long
        )

    def rests(self) -> bool:
        """Whether the lens is left out for now. Counts down."""
        self._pause = max(0, self._pause - 1)
        return self._pause > 0

    def params(self, calls: Sequence[Call], block: object) -> list[Any]:
        """The parameters of the `eth_call` that asks them all."""
        questions = [(call.to, bytes.fromhex(call.data[2:])) for call in calls]
        data = self._read.encode([questions])
        return [{"to": self._address, "data": "0x" + data.hex()}, block]

    def answers(self, calls: Sequence[Call], answer: Answer) -> dict[Call, Answer]:
        """What the node's answer says of each of them; nothing of those to be asked alone."""
        if answer.get("error") is not None or not answer.get("result"):
            self._pause = _PAUSE
            return {}
        parts = self._read.decode(bytes.fromhex(answer["result"][2:]))
        found: dict[Call, Answer] = {}
        for call, part in zip(calls, parts, strict=False):
            if len(part.data) == MOST_ANSWER:
                self._long.add(call.question)
            elif part.success:
                found[call] = {"result": "0x" + part.data.hex()}
            elif part.data:
                error = {"code": 3, "message": "execution reverted", "data": "0x" + part.data.hex()}
                found[call] = {"error": error}
        return found


class Bundle:
    """The requests that ask several calls, and what their answers say of each call."""

    def __init__(
        self,
        calls: Sequence[Call],
        tag: Callable[[Call], object],
        lens: Lens | None,
        refused: Callable[[Answer], bool],
    ) -> None:
        """`tag`: the block that a call is asked of. `refused`: the node itself refuses."""
        self._refused = refused
        self._lens = None if lens is None or lens.rests() else lens
        self._groups = self._grouped(calls)
        self.requests: list[tuple[str, list[Any]]] = []
        for group in self._groups:
            block = tag(group[0])
            if len(group) == 1:
                params = group[0].params(block)
            else:
                assert self._lens is not None
                params = self._lens.params(group, block)
            self.requests.append(("eth_call", params))

    def _grouped(self, calls: Sequence[Call]) -> list[list[Call]]:
        """Those of one block together, up to `MOST_CALLS`; alone what the lens does not take."""
        groups: list[list[Call]] = []
        open_groups: dict[str, list[Call]] = {}
        for call in calls:
            if self._lens is None or not self._lens.takes(call):
                groups.append([call])
                continue
            group = open_groups.get(call.block)
            if group is None or len(group) == MOST_CALLS:
                group = open_groups[call.block] = []
                groups.append(group)
            group.append(call)
        return groups

    def answers(self, answers: Sequence[Answer]) -> dict[Call, Answer]:
        """The answers by call; none of a call that the node refused or that must be asked alone."""
        found: dict[Call, Answer] = {}
        for group, answer in zip(self._groups, answers, strict=True):
            if len(group) > 1:
                assert self._lens is not None
                found |= self._lens.answers(group, answer)
            elif not self._refused(answer):
                found[group[0]] = answer
        return found
