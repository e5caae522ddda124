# SPDX-License-Identifier: Apache-2.0
"""Whether what a miner of another determinism class handed on is what its work gives.

Rule: within one class a message has one digest, and the log's is compared. Across classes codes and
gradients differ in their last bits, and so does every digest. So the messages themselves are
compared: those that the miner's neighbours show as received, under the digests that its log has.
What nobody shows has led to nothing.

A message is rounded to few bits, and a number at an edge may come out on either side. So each of
its numbers may be anything between what numbers near the own ones are rounded to: these are larger
and smaller by the job's tolerance, as a share of the message's root mean square and of themselves.
Other powers or scales may follow from a largest number that is hardly another, so numbers that are
larger and smaller by next to nothing count too. What is beyond all that must be within the
tolerance, as a share of the message's length. So a miner may spoil the few numbers that lie at an
edge, each by one step of the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from agents.mechanisms.boundary import Wire, WireError
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Event, Kind
from agents.pipeline.stage import Passed
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, stream_inbox
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.scratch import Scratch
from agents.training.norms import distance, norm
from agents.training.spec import update_limit

_HARDLY = 1 / 50  # of the tolerance, which is a hundred times what honest miners differ by

Pass = tuple[Kind, int]
"""A kind of pass and its sample."""


class Messages(Mapping[Pass, bytes]):
    """Messages on disk, each read when it is asked for. Their room is free when nobody holds this
    any more. Raises StoreUnavailable where the disk refuses."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._places: dict[Pass, tuple[int, int]] = {}

    def __getitem__(self, what: Pass) -> bytes:
        return self._scratch.read(*self._places[what])

    def __iter__(self) -> Iterator[Pass]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, what: Pass, message: bytes) -> None:
        """Keep a message of a pass; nothing if there is one."""
        if what not in self._places:
            self._places[what] = self._scratch.append(message), len(message)

    def shorten(self, count: int) -> None:
        """Drop all but those that were added first."""
        for what in [*self._places][count:]:
            del self._places[what]
        self._scratch.cut(sum(length for _, length in self._places.values()))


def messages(inputs: RoundInputs, mined: Mined, store: ContentStore) -> Messages:
    """What a miner handed on, by its neighbours' entries: messages with the digest that it logged.

    A neighbour that shows another digest is `agents.verify.denials.contradicted`'s case. Entries
    that were there when the round was read, and are not any more, must not shield anybody: if the
    inputs are patient they are worth waiting for, else the others' count. Neighbours' entries are
    looked at as they come; what is kept of all of them is at most one message of each pass.

    Raises:
        StoreUnavailable: the store itself is down.
        StoreError: such entries, and the inputs are patient.
    """
    epoch, node = inputs.plan.epoch, mined.reveal.node
    assert epoch is not None and mined.log is not None
    logged: dict[Pass, bytes] = {
        (event.kind, event.number): event.digest_out
        for event in mined.log.events
        if event.kind is not Kind.STEP
    }
    found = Messages()

    def begin(known: int) -> Callable[[Entry], None]:
        found.shorten(known)
        return take

    def take(entry: Entry) -> None:
        what = entry.kind, entry.sample
        if entry.sender == node and logged.get(what) == entry.digest:
            found.add(what, entry.message)

    for one in inputs.submissions:
        if not isinstance(one, Mined) or all(entry.sender != node for entry in one.received):
            continue
        known = len(found)
        try:
            stream_inbox(one, inputs.job, epoch, store, partial(begin, known))
        except StoreUnavailable:
            raise
        except StoreError:
            if inputs.patient:
                raise
            found.shorten(known)
    return found


@dataclass(frozen=True)
class Fault:
    """`reason`: a sentence. `share`: how far beyond what is right, as a share of its length."""

    reason: str
    share: float


@dataclass(frozen=True)
class HandedOn:
    """Compares a miner's messages with those that its work done again gives.

    Attributes:
        shown: the miner's messages, by pass.
        codes, gradients: the forms of bytes of both.
        limit: how far apart honest updates of the job may be, as a share of their length.
    """

    shown: Mapping[Pass, bytes]
    codes: Wire
    gradients: Wire
    limit: float

    def wrong(self, event: Event, passed: Passed) -> Fault | None:
        """Why the miner's message is not that of a pass that was just executed again; None if it
        may be, or nobody shows one."""
        message = self.shown.get((event.kind, event.number))
        if message is None or passed.values is None or message == passed.message:
            return None
        wire = self.codes if event.kind is Kind.FORWARD else self.gradients
        what = f"What it handed on of sample {event.number}, {event.kind.name.lower()},"
        own = passed.values.float().cpu()
        batch, seq, width = own.shape
        try:
            told = wire.unpack(message, (batch, seq, width))
        except WireError as error:
            return Fault(f"{what} is no message: {error}", math.inf)
        beyond, length = self._beyond(wire, own, told), norm({"": own})
        if beyond <= self.limit * length:
            return None
        share = beyond / length if length else math.inf
        reason = (
            f"{what} is {share:.1e} of its length beyond what rounding makes of replay; at most "
            f"{self.limit:g} is allowed."
        )
        return Fault(reason, share)

    def _beyond(self, wire: Wire, own: Tensor, told: Tensor) -> float:
        """How far a message is from anything that numbers near the own ones may be rounded to."""
        step = self.limit * norm({"": own}) / math.sqrt(max(1, own.numel()))
        shares = self.limit, -self.limit, _HARDLY * self.limit, -_HARDLY * self.limit
        near = own, own + step, own - step, *(own * (1 + share) for share in shares)
        rounded = torch.stack([wire.rounded(numbers) for numbers in near])
        return distance({"": told.clamp(rounded.amin(0), rounded.amax(0))}, {"": told})


def handed_on(inputs: RoundInputs, mined: Mined, store: ContentStore) -> HandedOn:
    """For a miner that was fetched and found good. Raises as `messages`."""
    spec, slices = inputs.job.spec, inputs.job.slices
    assert slices is not None
    wires = slices.boundary.codes, slices.boundary.gradients
    return HandedOn(messages(inputs, mined, store), *wires, update_limit(spec))
