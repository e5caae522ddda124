# SPDX-License-Identifier: Apache-2.0
"""What a miner does next: which entry it executes, and to whom it sends what came of it.

No clock, no I/O: who calls says what happened and what time it is. The rules:

- Work with gradients goes first: it frees memory here, and somebody waits for it.
- A sample is begun only while the passes since the last step and the samples that wait are fewer
  than `local_batch`, and than `in_flight`. Samples that were given up wait, too: `StageWork` counts
  them. When there is no room and nothing is under way, the stage steps, if it has a pass.
- Without a pass there is no step. Then the sample that waits longest makes room for the next one,
  if it was given up.
- A sample is sent to the candidates of the next stage in their order. One that refuses or can't be
  reached is passed by at once, one whose gradient does not come back in time as well. Those that
  could not be reached are tried again while there is time. After the last one the sample is given
  up: the next step drops it, or the next sample, unless its gradient comes before.
- Who let a sample's time pass is asked last for a while, unless a gradient comes from it. Time runs
  while the letter is being carried, too: a post may take it as slowly as it likes.
- A message that could not be worked with costs its sender that sample alone. Its numbers may have
  been chosen by a miner further on, or further back, and the sender have computed honestly with
  them. So its next one is taken. A code costs this miner one forward. A gradient costs it what was
  done since the last step, and the sample goes to the next candidate.
- A miner waits longer the more stages lie behind it, so that the one next to a failure acts first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agents.pipeline.courier import Outcome
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Letter
from agents.pipeline.miner_log import Kind
from agents.pipeline.stage import Passed
from agents.pipeline.trail import trail_from

_NEVER = float("inf")
_SHUNNED = 10  # times the patience, for which a silent miner is asked last


@dataclass(frozen=True)
class Times:
    """Seconds.

    Attributes:
        answer: that a gradient may take, for each stage between here and the end.
        retry: between two tries to reach somebody.
        linger: without any letter, after which a miner takes its epoch to be over.
        gather: from the epoch's start, in which who can't be reached is asked again and not passed
            by: it may be about to start.
    """

    answer: float = 20.0
    retry: float = 1.0
    linger: float = 120.0
    gather: float = 0.0


@dataclass(frozen=True)
class Outgoing:
    """One message to be signed and sent."""

    kind: Kind
    sample: int
    receiver: int
    message: bytes
    trail: bytes = b""


@dataclass
class _Ahead:
    """A sample that was sent on, or is to be. `until`: when something must be done about it."""

    message: bytes
    trail: bytes
    order: deque[int]
    until: float
    end: float  # after which who could not be reached is not tried again
    to: int | None = None
    in_hand: bool = False
    later: deque[tuple[float, int]] = field(default_factory=deque)


@dataclass
class _Back:
    """A gradient that goes back to who sent the sample."""

    message: bytes
    to: int
    not_before: float
    until: float
    in_hand: bool = False


class Schedule:
    """Of one miner in one epoch.

    Attributes:
        passes: since the last step.
        waiting: samples between forward and backward, those that were given up too, in the order
            of their forwards.
    """

    def __init__(
        self, epoch: Epoch, miner: int, local_batch: int, in_flight: int, times: Times
    ) -> None:
        """ValueError if the miner holds no stage, or `local_batch` is below 1."""
        stage = epoch.stage_of(miner)
        if stage is None or local_batch < 1:
            raise ValueError(f"Miner {miner} needs a stage, and a local batch of at least 1.")
        self._epoch, self._stage, self._times = epoch, stage, times
        self._local_batch, self._in_flight = local_batch, in_flight
        self._most = min(local_batch, in_flight)
        self._due = deque(epoch.due(miner) if stage == 0 else [])
        self._begun: set[int] = set()
        self._sender: dict[int, int] = {}
        self._tried: dict[int, set[int]] = {}
        self._live: dict[int, _Ahead | None] = {}  # None at the last stage
        self._back: dict[int, _Back] = {}
        self._forward: Letter | None = None
        self._gradients: deque[Letter] = deque()
        self._silent: dict[int, float] = {}  # miner -> until when it is asked last
        self._gathered = _NEVER  # until when others may still be starting
        self.waiting: dict[int, None] = {}
        self.passes = self._steps = 0

    # -- what came --

    @property
    def wants_forward(self) -> bool:
        """Whether a letter with a code would be executed now."""
        return self._stage > 0 and self._forward is None and self._has_room

    def arrived(self, letter: Letter) -> bool:
        """Take a letter; False if it is of no use: done already, or from one who was not asked."""
        way = letter.passage
        if way.kind is Kind.FORWARD:
            if way.sample in self._begun:
                return False
            self._forward = letter
            return True
        if way.sample not in self.waiting or way.sender not in self._tried.get(way.sample, ()):
            return False
        self._gradients.append(letter)
        return True

    def told(self, sent: Outgoing, outcome: Outcome, now: float) -> None:
        """What became of a message that `outgoing` gave."""
        if sent.kind is Kind.BACKWARD:
            back = self._back.get(sent.sample)
            if back is None:
                return
            back.in_hand, back.not_before = False, now + self._times.retry
            if outcome is not Outcome.LATER or now > back.until:
                del self._back[sent.sample]
            return
        ahead = self._live.get(sent.sample)
        if ahead is None or ahead.to != sent.receiver:
            return
        ahead.in_hand = False
        if outcome is Outcome.TAKEN and sent.receiver in self._tried[sent.sample]:
            ahead.until = now + self._patience
            return
        if outcome is Outcome.LATER and now < self._gathered:
            ahead.order.appendleft(sent.receiver)
            ahead.to, ahead.until = None, now + min(self._times.retry, self._gathered - now)
            return
        if outcome is Outcome.LATER:
            ahead.later.append((now + self._times.retry, sent.receiver))
        ahead.to, ahead.until = None, now

    # -- what to execute --

    def next(self) -> Entry | None:
        """The entry to execute now; None if there is nothing to do but to wait."""
        if self._stage == self._epoch.last and self._live:
            return Entry(Kind.BACKWARD, next(iter(self._live)))
        while self._gradients:
            letter = self._gradients.popleft()
            if letter.passage.sample in self.waiting:
                return _entry(letter)
        if self._full and self.passes and not self._live:
            return self.step()
        if not self._has_room:
            return None
        if self._due:
            return Entry(Kind.FORWARD, self._due[0])
        letter_, self._forward = self._forward, None
        return None if letter_ is None else _entry(letter_)

    def step(self) -> Entry:
        """The next step, whatever waits."""
        return Entry(Kind.STEP, self._steps)

    def executed(self, entry: Entry, passed: Passed, now: float) -> None:
        """An entry was executed, now or before a restart."""
        if entry.kind is Kind.STEP:
            self.passes, self._steps = 0, self._steps + 1
            self.waiting.clear()
            self._live.clear()
            self._tried.clear()
            return
        sample = entry.sample
        if entry.kind is Kind.BACKWARD:
            self._silent.pop(entry.sender, None)
            self.waiting.pop(sample, None)
            self._live.pop(sample, None)
            self._tried.pop(sample, None)
            self.passes += 1
            if passed.message is not None:
                self._hand_back(sample, passed.message, now)
            return
        self._begin(sample)
        self._make_room()
        self._sender[sample] = entry.sender
        self.waiting[sample] = None
        self._live[sample] = None
        if passed.message is not None:
            order = self._order(sample, now)
            end = now + self._patience
            self._live[sample] = _Ahead(passed.message, trail_from(entry), order, now, end)
            self._tried[sample] = set()

    def refused(self, entry: Entry, now: float) -> None:
        """An entry could not be executed. What made room for it is gone."""
        if entry.kind is Kind.FORWARD:
            self._make_room()
        if entry.kind is Kind.FORWARD and self._stage == 0:
            self._begin(entry.sample)
        elif entry.kind is Kind.BACKWARD and self._stage == self._epoch.last:
            self._live.pop(entry.sample, None)
        elif entry.kind is Kind.BACKWARD:
            self._tried[entry.sample].discard(entry.sender)
            ahead = self._live.get(entry.sample)
            if ahead is not None and ahead.to == entry.sender and not ahead.in_hand:
                ahead.to, ahead.until = None, now

    # -- what to send --

    def outgoing(self, now: float) -> list[Outgoing]:
        """What is to be sent now. Each stays in hand until `told`."""
        self._gathered = min(self._gathered, now + self._times.gather)
        found = []
        for sample, back in self._back.items():
            if not back.in_hand and back.not_before <= now:
                back.in_hand = True
                found.append(Outgoing(Kind.BACKWARD, sample, back.to, back.message))
        for sample, ahead in list(self._live.items()):
            if ahead is None or now < ahead.until:
                continue
            if ahead.to is not None:
                self._silent[ahead.to] = now + _SHUNNED * self._patience
            ahead.to = self._choose(ahead, now)
            if ahead.to is not None:
                ahead.in_hand, ahead.until = True, now + self._patience
                self._tried[sample].add(ahead.to)
                found.append(Outgoing(Kind.FORWARD, sample, ahead.to, ahead.message, ahead.trail))
            elif not ahead.later:
                del self._live[sample]
        return found

    @property
    def wake_at(self) -> float:
        """When `outgoing` may have something new, if nothing comes before; else infinity."""
        ahead = [one.until for one in self._live.values() if one is not None]
        back = [one.not_before for one in self._back.values() if not one.in_hand]
        return min([*ahead, *back], default=_NEVER)

    @property
    def done(self) -> bool:
        """Of the first stage: all own samples are back or given up."""
        return self._stage == 0 and not self._due and not self._live

    # -- inside --

    @property
    def _full(self) -> bool:
        return self.passes + len(self.waiting) >= self._most

    @property
    def _has_room(self) -> bool:
        return not self._full or (not self.passes and next(iter(self.waiting)) not in self._live)

    @property
    def _patience(self) -> float:
        return self._times.answer * (self._epoch.last - self._stage)

    def _make_room(self) -> None:
        """Let go of what `StageWork` lets go of for the next sample."""
        if self._full and self.waiting:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            self._live.pop(oldest, None)
            self._tried.pop(oldest, None)

    def _begin(self, sample: int) -> None:
        self._begun.add(sample)
        if sample in self._due:
            self._due.remove(sample)

    def _order(self, sample: int, now: float) -> deque[int]:
        """The candidates of the next stage; who was silent lately comes last."""
        order = self._epoch.candidates(sample, self._stage + 1)
        return deque(sorted(order, key=lambda miner: self._silent.get(miner, now) > now))

    def _choose(self, ahead: _Ahead, now: float) -> int | None:
        """The next candidate; None if all were tried, or one is to be tried again only later."""
        if ahead.order:
            return ahead.order.popleft()
        if now >= ahead.end:
            ahead.later.clear()
        if not ahead.later:
            return None
        not_before, receiver = ahead.later[0]
        if now < not_before:
            ahead.until = not_before
            return None
        ahead.later.popleft()
        return receiver

    def _hand_back(self, sample: int, message: bytes, now: float) -> None:
        # The sender of the sample gives up waiting after this time.
        until = now + self._times.answer * (self._epoch.last - self._stage + 1)
        self._back[sample] = _Back(message, self._sender[sample], now, until)
        while len(self._back) > 2 * self._local_batch + self._in_flight:
            del self._back[next(iter(self._back))]


def _entry(letter: Letter) -> Entry:
    way = letter.passage
    return Entry(way.kind, way.sample, way.sender, letter.signature, letter.message, letter.trail)
