# SPDX-License-Identifier: Apache-2.0
"""Fees and bonds of redundant tasks: every credit has its reason, every account its balance.

Rule: whoever replays the tasks says what must be taken and credited, in the order in which the
contract does it. The events of each transaction must be exactly that.
"""

from __future__ import annotations

from collections import defaultdict

from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.runtime.contracts import Event

_Move = tuple[str, str, int]  # event, account, amount


class Purse:
    """The money of RedundantTasks and TaskAppeals."""

    def __init__(self, record: Record, part: Part) -> None:
        self._record = record
        self._part = part
        self._wanted: dict[tuple[str, bytes], list[_Move]] = defaultdict(list)
        self._subject: dict[tuple[str, bytes], str] = {}
        self._received: dict[str, int] = defaultdict(int)

    def take(self, event: Event, who: str, account: str, amount: int) -> None:
        """An account must pay in, in the transaction of an event; `who`: what it is for."""
        self._move(event, who, "BondTaken", account, amount)

    def credit(self, event: Event, who: str, account: str, amount: int) -> None:
        """An account must be credited, unless it is nothing."""
        if amount:
            self._move(event, who, "BondCredited", account, amount)

    def receive(self, event: Event, amount: int) -> None:
        """The contract of an event got money on another way."""
        self._received[event.address] += amount

    def _move(self, event: Event, who: str, name: str, account: str, amount: int) -> None:
        place = event.address, event.tx_hash
        self._wanted[place].append((name, account, amount))
        self._subject[place] = who

    def check_end(self) -> None:
        """Compare what was moved, and what every account has left."""
        record, part = self._record, self._part
        contracts = {c.address for c in (record.network.tasks, record.network.appeals)}
        found: dict[tuple[str, bytes], list[_Move]] = defaultdict(list)
        credit: dict[tuple[str, str], int] = defaultdict(int)
        held = dict(self._received)
        for event in record.all("BondTaken", "BondCredited", "BondWithdrawn"):
            if event.address not in contracts:
                continue
            account, amount = str(event.args["account"]), event.args["amount"]
            place = event.address, account
            if event.name == "BondWithdrawn":
                what = f"what {account} withdrew"
                part.same("tasks", "BondWithdrawn", what, amount, credit[place])
                credit[place] = 0
                held[event.address] = held.get(event.address, 0) - amount
                continue
            found[event.address, event.tx_hash].append((event.name, account, amount))
            if event.name == "BondCredited":
                credit[place] += amount
            else:
                held[event.address] = held.get(event.address, 0) + amount
        for place_ in self._wanted.keys() | found.keys():
            who = self._subject.get(place_, "bonds")
            wanted = self._wanted.get(place_, [])
            sent = f"what the transaction 0x{place_[1].hex()} moves"
            part.same("tasks", who, sent, found.get(place_, []), wanted)
        for place, amount in credit.items():
            kept = record.tasks.credits.get(place, 0)
            part.same("tasks", "bonds", f"what {place[1]} may withdraw", kept, amount)
        for address, amount in record.tasks.held.items():
            part.same("tasks", "bonds", "all that is held", amount, held.get(address, 0))
