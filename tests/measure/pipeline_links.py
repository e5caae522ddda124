# SPDX-License-Identifier: Apache-2.0
"""An epoch of a pipeline in modelled time: the real `Schedule` of every miner, modelled links.

What is real: the routes of an `Epoch`, each miner's `Schedule` (what it executes, to whom it sends,
when it steps, whom it passes by), the order of `Miner`'s loop, and the lengths of letters and of
entries. What is modelled: a pass takes the seconds that are given for it, and a link is a rate and
a delay. A miner sends its letters one after the other at the rate of its line, and receives as many
at once as its line carries, one after the other as well. As the courier does, it opens a connection
for each letter (one way there, one back, before the first byte) and sends the next letter to the
same receiver when the last one was answered. Nobody fails, and nobody's clock differs. Miners
may be slower than others, and the epoch may be cut at a deadline, as the COMMIT phase cuts it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from agents.pipeline.courier import Outcome
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage
from agents.pipeline.inbox import Entry, max_inbox_bytes
from agents.pipeline.letters import HEAD_BYTES, Letter
from agents.pipeline.miner_log import Kind, max_log_bytes
from agents.pipeline.schedule import Outgoing, Schedule, Times
from agents.pipeline.stage import Passed

_NEVER = float("inf")


@dataclass(frozen=True)
class Link:
    """A miner's line. `bytes_per_s`: each way. `delay`: seconds from one miner to another."""

    bytes_per_s: float
    delay: float


FREE = Link(_NEVER, 0.0)


@dataclass(frozen=True)
class Costs:
    """Seconds that a pass of one sample takes at each stage, and a step; one of each a stage."""

    forward: Sequence[float]
    backward: Sequence[float]
    step: Sequence[float]

    def of(self, stage: int, kind: Kind) -> float:
        """Seconds of one entry."""
        own = {Kind.FORWARD: self.forward, Kind.BACKWARD: self.backward, Kind.STEP: self.step}
        return own[kind][stage]

    def faster(self, times: float) -> Costs:
        """The same on a machine that is so many times as fast."""
        divided = ([one / times for one in own] for own in (self.forward, self.backward, self.step))
        return Costs(*divided)


@dataclass
class Ran:
    """One miner's epoch.

    Attributes:
        computed: seconds in passes and steps.
        passes: backward passes that entered a step.
        sent: bytes of letters, heads included.
        received: lengths of trail and message of entries; 0 for one that comes from nobody.
        forwards, entered: samples that went forward, and whose backward pass entered a step.
    """

    stage: int
    computed: float = 0.0
    passes: int = 0
    sent: int = 0
    received: list[int] = field(default_factory=list)
    forwards: set[int] = field(default_factory=set)
    entered: set[int] = field(default_factory=set)

    @property
    def inbox(self) -> int:
        """Bytes of the file of entries."""
        return max_inbox_bytes(self.received)

    @property
    def log(self) -> int:
        """Bytes of the log; an entry is an event."""
        return max_log_bytes(len(self.received))


@dataclass(frozen=True)
class Result:
    """`seconds`: until the last miner knows that the epoch is over, and has made its last step."""

    seconds: float
    miners: dict[int, Ran]

    @property
    def share(self) -> float:
        """Of all miners' time, the part in which they compute."""
        return sum(one.computed for one in self.miners.values()) / (len(self.miners) * self.seconds)

    @property
    def ideal(self) -> float:
        """The share if the miner with the most work never waited, and the epoch ended with it."""
        computed = [one.computed for one in self.miners.values()]
        return sum(computed) / (len(computed) * max(computed))


class Simulation:
    """One epoch; `run` it once."""

    def __init__(
        self,
        epoch: Epoch,
        costs: Costs,
        link: Link,
        message: int,
        local_batch: int,
        times: Times | None = None,
        slower: Mapping[int, float] | None = None,
        deadline: float = _NEVER,
    ) -> None:
        """`message`: bytes of a code and of its gradient. `slower`: how many times longer than
        `costs` a miner takes. `deadline`: seconds, after which a miner ends what it executes, makes
        its last step and ends."""
        self.epoch, self.costs, self.link = epoch, costs, link
        self.slower, self.deadline = slower or {}, deadline
        self.message, self.times = message, times or Times()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = count()
        self.miners = {
            miner: _Miner(self, miner, local_batch) for stage in epoch.stages for miner in stage
        }

    def at(self, when: float, what: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), what))

    def run(self) -> Result:
        """The epoch to its end. RuntimeError if a miner never ends it."""
        for miner in self.miners.values():
            self.at(0.0, miner.look)
            if self.deadline < _NEVER:
                self.at(self.deadline, miner.look)
        while self._events:
            now, _, what = heapq.heappop(self._events)
            what(now)
        if any(miner.ended is None for miner in self.miners.values()):
            raise RuntimeError("The epoch did not end.")
        end = max(miner.ended or 0.0 for miner in self.miners.values())
        return Result(end, {number: miner.ran for number, miner in self.miners.items()})


class _Miner:
    """`Miner` without a process: the same order of hearing, executing and sending."""

    def __init__(self, world: Simulation, number: int, local_batch: int) -> None:
        stage = world.epoch.stage_of(number)
        assert stage is not None
        self._world, self._number, self._stage = world, number, stage
        self._schedule = Schedule(world.epoch, number, local_batch, local_batch, world.times)
        self._came: dict[Kind, deque[Letter]] = {Kind.FORWARD: deque(), Kind.BACKWARD: deque()}
        self._carried: deque[tuple[Outgoing, Outcome]] = deque()
        self._bags: dict[int, deque[Outgoing]] = defaultdict(deque)
        self._under_way: set[int] = set()
        self._up = self.down = 0.0  # until when the line is taken
        self._done: set[int] = set()
        self._passed: set[int] = set()  # backward since the last step
        self._busy = False
        self._wake = _NEVER
        self.ended: float | None = None
        self.ran = Ran(stage)

    # -- the loop --

    def look(self, now: float) -> None:
        """One turn of the loop, if it is not executing."""
        if self._busy or self.ended is not None:
            return
        over = self._schedule.done or self._done.issuperset(self._world.epoch.stages[0])
        if now >= self._world.deadline:
            self._end(now)
            return
        self._hear(now)
        entry = self._schedule.next()
        if over and (entry is None or entry.kind is Kind.FORWARD):
            self._end(now)
        elif entry is not None:
            self._execute(entry, now)
        else:
            self._send(now)
            wake = max(now, self._schedule.wake_at)
            if wake < self._wake:
                self._wake = wake
                self._world.at(wake, self._woken)

    def _woken(self, now: float) -> None:
        self._wake = _NEVER
        self.look(now)

    def _hear(self, now: float) -> None:
        while self._carried:
            self._schedule.told(*self._carried.popleft(), now)
        while self._came[Kind.BACKWARD]:
            self._schedule.arrived(self._came[Kind.BACKWARD].popleft())
        while self._schedule.wants_forward and self._came[Kind.FORWARD]:
            self._schedule.arrived(self._came[Kind.FORWARD].popleft())

    def _execute(self, entry: Entry, now: float) -> None:
        self._busy = True
        seconds = self._seconds(entry.kind)
        self.ran.computed += seconds
        self._world.at(now + seconds, partial(self._executed, entry))

    def _executed(self, entry: Entry, now: float) -> None:
        self._busy = False
        came = self._world.message + len(entry.trail) if entry.sender else 0
        self.ran.received.append(came)
        self._count(entry)
        ends = self._world.epoch.last if entry.kind is Kind.FORWARD else 0
        leaves = entry.kind is not Kind.STEP and self._stage != ends
        self._schedule.executed(entry, Passed(message=b"" if leaves else None), now)
        self._send(now)
        self.look(now)

    def _end(self, now: float) -> None:
        if self._schedule.passes:
            step = self._schedule.step()
            self.ran.computed += self._seconds(Kind.STEP)
            self.ran.received.append(0)
            self._count(step)
            now += self._seconds(step.kind)
        self.ended = now
        if self._stage == 0:
            later = now + 3 * self._world.link.delay
            for other in self._world.miners.values():
                self._world.at(later, partial(other.hear_done, self._number))

    def _seconds(self, kind: Kind) -> float:
        slower = self._world.slower.get(self._number, 1.0)
        return slower * self._world.costs.of(self._stage, kind)

    def _count(self, entry: Entry) -> None:
        """An entry was executed; the schedule does not know of it yet."""
        if entry.kind is Kind.FORWARD:
            self.ran.forwards.add(entry.sample)
        elif entry.kind is Kind.BACKWARD:
            self._passed.add(entry.sample)
        else:
            self.ran.passes += self._schedule.passes
            self.ran.entered |= self._passed
            self._passed.clear()

    def hear_done(self, who: int, now: float) -> None:
        """A miner of the first stage says that it is done."""
        self._done.add(who)
        self.look(now)

    # -- letters --

    def _send(self, now: float) -> None:
        for out in self._schedule.outgoing(now):
            self._bags[out.receiver].append(out)
            self._post(out.receiver, now)

    def _post(self, receiver: int, now: float) -> None:
        """The next letter to a receiver, unless one is under way."""
        if receiver in self._under_way or not self._bags[receiver]:
            return
        out = self._bags[receiver].popleft()
        self._under_way.add(receiver)
        link = self._world.link
        size = HEAD_BYTES + len(out.trail) + len(out.message) + self._world.message
        self.ran.sent += size
        self._up = max(now + 2 * link.delay, self._up) + size / link.bytes_per_s
        other = self._world.miners[receiver]
        first = self._up - size / link.bytes_per_s + link.delay
        other.down = max(first, other.down) + size / link.bytes_per_s
        self._world.at(other.down, partial(self._delivered, out, other))

    def _delivered(self, out: Outgoing, other: _Miner, now: float) -> None:
        taken = other.ended is None
        if taken:
            epoch = self._world.epoch
            way = Passage.of(epoch, out.sample, out.kind, self._number, out.receiver)
            other._came[out.kind].append(Letter(way, b"", b"", out.trail))
            other.look(now)
        outcome = Outcome.TAKEN if taken else Outcome.REFUSED
        self._world.at(now + self._world.link.delay, partial(self._told, out, outcome))

    def _told(self, out: Outgoing, outcome: Outcome, now: float) -> None:
        self._under_way.discard(out.receiver)
        self._carried.append((out, outcome))
        self._post(out.receiver, now)
        self.look(now)
