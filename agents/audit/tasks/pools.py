# SPDX-License-Identifier: Apache-2.0
"""The pools of executors, replayed: who had which seat, and whom a draw took.

Rule: modules/executors of the contracts, from the events. A draw looks at the seats that its seed
names, as they were before its request, and passes over the creator's own nodes, owners who have a
lane, nodes with their hands full, and nodes whose stake does not cover their pay at risk.

`compact` drops empty seats at a pool's end and logs nothing. So where seats at the end have been
empty for long, a pool's size is only known to lie between the last seat that cannot have been
dropped and the newest size that an event shows; a draw may be of any of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.protocol import formulas
from agents.protocol.numbers import COVER, MAX_OPEN
from agents.runtime.contracts import Event
from agents.tasks.contract import Seat as Kept
from agents.tasks.contract import TaskTerms

_TRIES = 64  # seats that a draw looks at
_APPEAL_WEIGHT = 10
_COOLDOWN = 260  # blocks that a draw can mean a seat's holder after it left
_APPEALED = 0


@dataclass
class _Seat:
    node: int
    owner: str
    joined: int
    left: int = 0


@dataclass
class _Member:
    seated: bool = False
    class_id: int = 0
    seat: int = 0
    open: int = 0
    left: int = 0
    paid: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class Pools:
    """All pools. `classes`: the names of the determinism classes."""

    def __init__(
        self, record: Record, registry: StakeBook, part: Part, terms: TaskTerms, horizon: int
    ) -> None:
        self.classes: list[bytes] = []
        self._record = record
        self._registry = registry
        self._part = part
        self._terms = terms
        self._horizon = horizon
        self._seats: dict[int, list[_Seat]] = defaultdict(list)
        self._members: dict[int, _Member] = defaultdict(_Member)

    # -- events --------------------------------------------------------------------------------

    def add_class(self, event: Event) -> None:
        """Follow ClassAdded."""
        who = f"class {len(self.classes)}"
        self._part.same("tasks", who, "its number", event.args["class_id"], len(self.classes))
        self.classes.append(bytes(event.args["name"]))

    def join(self, event: Event) -> None:
        """Follow ExecutorJoined, and ExecutorMoved's new seat."""
        node, class_id, place = (event.args[name] for name in ("node_id", "class_id", "seat"))
        who = f"node {node}"
        account = self._registry.nodes.get(node)
        seats, member = self._seats[class_id], self._members[node]
        known = account is not None and class_id < len(self.classes)
        if not self._part.hold("tasks", known, who, f"{event.name} is of no such node or class."):
            return
        assert account is not None
        if event.name == "ExecutorJoined":
            self._part.hold("tasks", not member.seated, who, "it took a seat and had one.")
            stake = self._registry.at_risk(node, event, self._record.time(event), _EVER)
            enough = stake >= self._terms.task_stake
            self._part.hold("tasks", enough, who, f"it took a seat with {stake} at stake.")
        free = place == len(seats)
        if place < len(seats):
            left = seats[place].left
            free = left != 0 and event.block > left + _COOLDOWN
        sentence = f"{event.name} gives it seat {place}, which was not free."
        if not self._part.hold("tasks", free, who, sentence):
            return
        seats[place : place + 1] = [_Seat(node, account.owner, event.block)]
        member.seated, member.class_id, member.seat, member.left = True, class_id, place, 0

    def leave(self, event: Event) -> None:
        """Follow ExecutorLeft."""
        node, class_id, place = (event.args[name] for name in ("node_id", "class_id", "seat"))
        member = self._members[node]
        has = (member.seated, member.class_id, member.seat)
        who = f"node {node}"
        if self._part.same("tasks", who, "the seat it left", (True, class_id, place), has):
            self._seats[class_id][place].left = event.block
        member.seated, member.class_id, member.seat = False, 0, 0
        member.left = event.block

    def move(self, event: Event) -> None:
        """Follow ExecutorMoved: a pool was shortened."""
        node, class_id = event.args["node_id"], event.args["class_id"]
        member = self._members[node]
        if member.seated and member.class_id == class_id:
            self._seats[class_id][member.seat].left = event.block
        self.join(event)

    # -- lanes and pay -------------------------------------------------------------------------

    def occupy(self, node: int) -> None:
        """A lane is opened."""
        self._members[node].open += 1

    def release(self, node: int) -> None:
        """A lane is closed."""
        self._members[node].open -= 1

    def pay(self, nodes: Sequence[int], amount: int, time: int) -> None:
        """Each was paid so much, which is at risk for a while."""
        for node in nodes:
            self._members[node].paid[time // self._terms.appeal_s] += amount

    def appealed(self, nodes: Sequence[int], amount: int) -> None:
        """So much of each one's pay is appealed, or no more if negative."""
        for node in nodes:
            self._members[node].paid[_APPEALED] += amount

    def _at_risk(self, node: int, time: int) -> int:
        paid, window = self._members[node].paid, time // self._terms.appeal_s
        return paid[window] + paid[window - 1] + paid[_APPEALED] * _APPEAL_WEIGHT

    # -- draws ---------------------------------------------------------------------------------

    def sizes(self, class_id: int, block: int) -> range:
        """What a pool's size may be at a block: one number, but for what `compact` dropped."""
        return range(self._least(class_id, block), len(self._seats[class_id]) + 1)

    def _least(self, class_id: int, block: int) -> int:
        seats = self._seats[class_id]
        least = len(seats)
        while least and seats[least - 1].left and block > seats[least - 1].left + _COOLDOWN:
            least -= 1
        return least

    def picked(
        self,
        class_id: int,
        size: int,
        request: tuple[int, int],
        seed: bytes,
        creator: str,
        wanted: int,
        taken: Sequence[int],
        at: Event,
    ) -> list[int]:
        """Whom a seed draws. `request`: block and time of it. `taken`: nodes with a lane."""
        if not size:
            return []
        requested, since = request
        owners = [self._registry.nodes[n].owner for n in taken if n in self._registry.nodes]
        now, found = self._record.time(at), list[int]()
        seats = self._seats[class_id]
        for attempt in range(_TRIES):
            place = formulas.task_seat(seed, attempt, size)
            if place >= len(seats):
                continue
            seat = seats[place]
            if seat.joined >= requested or (seat.left and seat.left < requested):
                continue
            if seat.owner == creator or seat.owner in owners:
                continue
            enough = max(self._terms.task_stake, COVER * self._at_risk(seat.node, now))
            until = since + 2 * self._horizon
            stake = self._registry.at_risk(seat.node, at, since - 1, until)
            if self._members[seat.node].open >= MAX_OPEN or stake < enough:
                continue
            found.append(seat.node)
            if len(found) == wanted:
                break
            owners.append(seat.owner)
        return found

    # -- the end -------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Compare with what the contract keeps."""
        part, state = self._part, self._record.tasks
        part.same("tasks", "classes", "their names", state.classes, self.classes)
        for number, size in enumerate(state.sizes):
            wanted = self.sizes(number, self._record.head.number)
            what = f"its pool has {size} seats, it should be {wanted.start} to {wanted.stop - 1}."
            part.hold("tasks", size in wanted, f"class {number}", what)
            for place, seat in enumerate(self._seats[number][:size]):
                kept = state.seats.get((number, place))
                held = (seat.node, seat.owner, seat.joined, seat.left)
                part.same("tasks", f"node {seat.node}", f"seat {place}", kept, held)
        for node, kept_ in state.executors.items():
            member = self._members[node]
            at_risk = self._at_risk(node, self._record.head.timestamp)
            found = (member.seated, member.class_id, member.seat, member.open, member.left)
            part.same("tasks", f"node {node}", "its place", kept_, Kept(*found, at_risk))


_EVER = 2**256 - 1
