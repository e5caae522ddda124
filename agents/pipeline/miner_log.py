# SPDX-License-Identifier: Apache-2.0
"""A miner's log of an epoch: what it passed forward and back and when it stepped, under one root.

An event is 73 bytes: its kind, a number (uint64, big-endian: the sample of a pass, or the place of
a STEP among the steps, from 0), and two 32-byte digests. Of a pass these are the digests of what
came in and of what went out, which is the loss where a forward is the last stage's
(`agents.pipeline.clasp.loss_digest`); of a STEP, the state hashes before and after it: of the
weights, or of weights and optimizer where epochs are audited by segments
(`agents.pipeline.checkpoint`). So the log holds the state hash after every step, and each STEP
starts where the one before it ended.

Order is part of what is executed. A sample goes forward once and back at most once, after it went
forward. No STEP lies between its two passes: torch would raise no error and mix new weights with
old activations. A STEP therefore ends every sample that still waits for its gradient, as one whose
next miner left does; going back with it later is an error. A STEP without a BACKWARD since the
last one is an error.

Leaf i is keccak(keccak(0x00 || 32 bytes of origin digest || count || i || event)), with numbers as
uint64: it binds miner, epoch, stage, first state and the log's length, so neither a log nor an
event of it can be handed on. The tree is that of `agents.storage.merkle`. A log without events,
of a miner that nobody handed a sample, has the root keccak(keccak(0x00 || 32 bytes of origin
digest || 0)).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from eth_utils import keccak

from agents.pipeline.lots import word
from agents.storage.merkle import merkle_root
from agents.training.state import PayloadError

MAX_EVENTS = 1 << 20
EVENT_BYTES = 73
_MAGIC = b"menagerie miner log 1\0"
_HEADER_BYTES = len(_MAGIC) + 3 * 8 + 32 + 8
_UINT64 = 1 << 64


class Kind(IntEnum):
    """What happened."""

    FORWARD = 0
    BACKWARD = 1
    STEP = 2


@dataclass(frozen=True)
class Event:
    """One line of a log: see the module."""

    kind: Kind
    number: int
    digest_in: bytes
    digest_out: bytes

    def to_bytes(self) -> bytes:
        """73 bytes. ValueError for a number that is no uint64, or a digest without 32 bytes."""
        if len(self.digest_in) != 32 or len(self.digest_out) != 32:
            raise ValueError("The digests of an event have 32 bytes each.")
        return bytes([self.kind]) + _uint64(self.number) + self.digest_in + self.digest_out

    @classmethod
    def from_bytes(cls, raw: bytes) -> Event:
        """PayloadError for another length or an unknown kind."""
        if len(raw) != EVENT_BYTES:
            raise PayloadError(f"An event has {EVENT_BYTES} bytes, not {len(raw)}.")
        if raw[0] >= len(Kind):
            raise PayloadError(f"There is no event of kind {raw[0]}.")
        return cls(Kind(raw[0]), int.from_bytes(raw[1:9], "big"), raw[9:41], raw[41:])


@dataclass(frozen=True)
class Origin:
    """Whose log it is. `state`: hash of the state that the epoch starts from."""

    miner: int
    epoch: int
    stage: int
    state: bytes

    def to_bytes(self) -> bytes:
        """56 bytes. ValueError for a number that is no uint64, or a hash without 32 bytes."""
        if len(self.state) != 32:
            raise ValueError("A state hash has 32 bytes.")
        return b"".join(map(_uint64, (self.miner, self.epoch, self.stage))) + self.state


@dataclass(frozen=True)
class Segment:
    """What an audit replays: a piece of one log.

    `index`: of the segment, from 0. `first_step`, `end_step`: steps that were made before it, and
    by its end. `first_event`: place of its first event. `ends`: whether the log ends with it.
    """

    index: int
    first_step: int
    end_step: int
    first_event: int
    events: tuple[Event, ...]
    ends: bool


@dataclass(frozen=True)
class MinerLog:
    """A log whose order has been checked. PayloadError, saying where, if the order is wrong."""

    origin: Origin
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        _check_order(self.origin, self.events)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Places of the STEP events, ascending."""
        return tuple(i for i, event in enumerate(self.events) if event.kind is Kind.STEP)

    @property
    def backward_passes(self) -> int:
        """BACKWARD events that entered a STEP. Later ones changed nothing and can't be audited."""
        last = self.steps[-1] if self.steps else 0
        return sum(event.kind is Kind.BACKWARD for event in self.events[:last])

    @property
    def state(self) -> bytes:
        """The state hash at the end."""
        return self.events[self.steps[-1]].digest_out if self.steps else self.origin.state

    def root(self) -> bytes:
        """The Merkle root that the miner commits to."""
        if not self.events:
            return keccak(keccak(b"\0" + keccak(self.origin.to_bytes()) + _uint64(0)))
        count = len(self.events)
        return merkle_root([leaf(self.origin, count, i, e) for i, e in enumerate(self.events)])

    def to_bytes(self) -> bytes:
        """The only spelling of this log: header, number of events, events."""
        head = _MAGIC + self.origin.to_bytes() + _uint64(len(self.events))
        return head + b"".join(event.to_bytes() for event in self.events)

    @staticmethod
    def state_in(raw: bytes) -> bytes:
        """The state hash that the header of a log says that it starts from, for who does not know
        it otherwise. PayloadError for fewer bytes than a header has."""
        end = len(_MAGIC) + 56
        if len(raw) < end:
            raise PayloadError(f"A log has at least {end} bytes, not {len(raw)}.")
        return raw[end - 32 : end]

    @classmethod
    def from_bytes(cls, raw: bytes, origin: Origin, max_events: int = MAX_EVENTS) -> MinerLog:
        """Read a stranger's log, which must be that of `origin`.

        PayloadError for more than `max_events` events (told from the length, before anything is
        read), another origin, a length that is not exact, an unknown kind, or a wrong order.
        """
        if len(raw) > max_log_bytes(max_events):
            raise PayloadError(
                f"The log has {len(raw)} bytes; {max_events} events take at most "
                f"{max_log_bytes(max_events)}."
            )
        head = _MAGIC + origin.to_bytes()
        if raw[: len(head)] != head:
            raise PayloadError(
                f"The log is not one of miner {origin.miner}, stage {origin.stage}, epoch "
                f"{origin.epoch} from the state that this epoch starts from."
            )
        count = int.from_bytes(raw[len(head) : _HEADER_BYTES], "big")
        if len(raw) != _HEADER_BYTES + count * EVENT_BYTES:
            raise PayloadError(f"The log has {len(raw)} bytes, which do not hold {count} events.")
        places = range(_HEADER_BYTES, len(raw), EVENT_BYTES)
        return cls(origin, tuple(Event.from_bytes(raw[at : at + EVENT_BYTES]) for at in places))

    def segment(self, seed: bytes, length: int) -> Segment:
        """What is audited: the segment of `length` steps that the seed draws, with all that enters
        them.

        The seed (32 bytes) must have been unknown when the root was committed. It draws one of the
        backward passes that entered a step, each alike, and with it the segment that this pass is
        in. Passes are what a miner is paid for, so whoever makes a part of them up is found with
        the chance that this part is of all. If segments were drawn alike, a miner could put what it
        did into many short ones.

        A sample's passes lie on one side of a step, so a segment is whole. The last one may have
        fewer steps, and it has the events after the last STEP too. A log without a STEP is one.

        Raises:
            ValueError: `length` below 1.
        """
        if length < 1:
            raise ValueError(f"A segment has at least one step, not {length}.")
        paid = [
            place
            for place, event in enumerate(self.events[: self.steps[-1] if self.steps else 0])
            if event.kind is Kind.BACKWARD
        ]
        if not paid:
            return self.part(0, length)
        place = paid[word(seed, "segment", self.origin.miner) % len(paid)]
        return self.part(bisect(self.steps, place) // length, length)

    def part(self, index: int, length: int) -> Segment:
        """Segment 0.. of `length` steps each."""
        first = index * length
        end = min(first + length, len(self.steps))
        begin = self.steps[first - 1] + 1 if first else 0
        ends = end == len(self.steps)
        events = self.events[begin : None if ends else self.steps[end - 1] + 1]
        return Segment(index, first, end, begin, events, ends)

    def state_after(self, steps: int) -> bytes:
        """The state hash after so many steps."""
        return self.events[self.steps[steps - 1]].digest_out if steps else self.origin.state


def leaf(origin: Origin, count: int, place: int, event: Event) -> bytes:
    """The 32-byte leaf of the event at `place` of a log of `count` events."""
    body = keccak(origin.to_bytes()) + _uint64(count) + _uint64(place) + event.to_bytes()
    return keccak(keccak(b"\0" + body))


def max_log_bytes(events: int) -> int:
    """The length in bytes of a log of that many events."""
    return _HEADER_BYTES + events * EVENT_BYTES


def _uint64(number: int) -> bytes:
    if not 0 <= number < _UINT64:
        raise ValueError(f"{number} is not a whole number of 64 bits.")
    return number.to_bytes(8, "big")


def _check_order(origin: Origin, events: Iterable[Event]) -> None:
    """PayloadError at the first event that can't follow those before it."""
    state, steps, passed = origin.state, 0, False
    waiting: set[int] = set()
    forward: set[int] = set()
    for place, event in enumerate(events):
        if place == MAX_EVENTS:
            raise PayloadError(f"A log has at most {MAX_EVENTS} events.")
        where = f"Event {place}, {event.kind.name} {event.number},"
        if event.kind is Kind.STEP:
            if event.number != steps:
                raise PayloadError(f"{where} should be step {steps}.")
            if event.digest_in != state:
                raise PayloadError(f"{where} does not start from the state hash before it.")
            if not passed:
                raise PayloadError(f"{where} has no BACKWARD before it since the last step.")
            waiting.clear()
            state, steps, passed = event.digest_out, steps + 1, False
        elif event.kind is Kind.FORWARD:
            if event.number in forward:
                raise PayloadError(f"{where} sends a sample forward for the second time.")
            forward.add(event.number)
            waiting.add(event.number)
        elif event.number in waiting:
            waiting.remove(event.number)
            passed = True
        elif event.number in forward:
            raise PayloadError(f"{where} comes twice, or after a STEP that ended its sample.")
        else:
            raise PayloadError(f"{where} has no FORWARD before it.")
