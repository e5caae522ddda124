# SPDX-License-Identifier: Apache-2.0
"""What passes between two stages, what its sender signs of it, and who is to blame.

Rule for the sender: sign the digest of what you send, one digest for one sample and direction.
Rule for the receiver: accept nothing that its sender has not signed; log the digest of what you
worked with, and commit to the log's root. That root is the receiver's signature. Then every
disagreement has an author who can be named, except that one of the two is silent: whether bytes
never left or never arrived can't be proved.

What is signed is `Passage.typed`, as EIP-712 typed data of `TYPES`. Signatures are checked
elsewhere (`agents.pipeline.letters`): a statement that reaches `blame` is taken as its speaker's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from agents.mechanisms.boundary import Boundary, Shape, Wire, WireError
from agents.mechanisms.boundary.parts.wire import MAX_MAGNITUDE
from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Kind

_NUMBERS = ("job", "epoch", "sample", "kind", "sender", "receiver")
TYPES = {
    "HandOver": [
        *({"name": name, "type": "uint256"} for name in _NUMBERS),
        {"name": "seed", "type": "bytes32"},
        {"name": "digest", "type": "bytes32"},
    ]
}


_LOG2_LEAST = 8  # of the largest number that the last stage may send back: its loss is a mean
_LOG2_MOST = round(math.log2(MAX_MAGNITUDE))


def most_sent(epoch: Epoch, kind: Kind, sender: int) -> float:
    """The largest number of a message of this sender.

    A gradient may grow from stage to stage, by more than an honest one ever does: who receives the
    largest that is permitted can still send on what comes of it. Else whoever sends such a gradient
    would have its receiver do all passes since the last step again, or that one's receiver, who
    would blame the one between.
    """
    stage = epoch.stage_of(sender)
    if kind is Kind.FORWARD or stage is None or not epoch.last:
        return MAX_MAGNITUDE
    behind = epoch.last - stage
    return 2.0 ** (_LOG2_LEAST + (_LOG2_MOST - _LOG2_LEAST) * behind // epoch.last)


def unpacked(boundary: Boundary, kind: Kind, data: bytes, shape: Shape, most: float) -> Tensor:
    """The tensor of a message, fp32 of `shape`. WireError for one that is none, or that holds a
    number above `most`."""
    values = wire_of(boundary, kind).unpack(data, shape)
    if values.numel() and float(values.abs().max()) > most:
        raise WireError(f"The message holds a number above {most:g}, the most of its stage.")
    return values


def wire_of(boundary: Boundary, kind: Kind) -> Wire:
    """The form of what passes: a code after FORWARD, its gradient after BACKWARD."""
    return boundary.codes if kind is Kind.FORWARD else boundary.gradients


@dataclass(frozen=True)
class Passage:
    """One sample on its way from one miner to the next.

    The seed is part of it because a reorg of the chain may change it. The epoch then has other
    seats and routes, and an honest miner begins it again, with other bits.

    Attributes:
        job, epoch, sample: numbers, at least 0.
        seed: of the epoch, 32 bytes.
        kind: FORWARD (an activation) or BACKWARD (its gradient).
        sender, receiver: miners.
    """

    job: int
    epoch: int
    seed: bytes
    sample: int
    kind: Kind
    sender: int
    receiver: int

    @classmethod
    def of(cls, epoch: Epoch, sample: int, kind: Kind, sender: int, receiver: int) -> Passage:
        """A passage of an epoch."""
        return cls(epoch.job, epoch.number, epoch.seed, sample, kind, sender, receiver)

    def typed(self, digest: bytes) -> dict[str, Any]:
        """What the sender signs, of `TYPES`; `digest` is keccak256 of the bytes that pass."""
        numbers = {name: int(getattr(self, name)) for name in _NUMBERS}
        return {**numbers, "seed": self.seed, "digest": digest}


Signed = Callable[[Passage, bytes, bytes], bool]
"""Whether a signature is that of a passage's sender, over a digest of what it handed on."""


@dataclass(frozen=True)
class Statement:
    """ "I sent these bytes" or "I received these bytes"; `digest` is theirs, 32 bytes."""

    passage: Passage
    speaker: int
    digest: bytes

    def __post_init__(self) -> None:
        """ValueError if the speaker is not part of the passage, or for another length."""
        if self.speaker not in (self.passage.sender, self.passage.receiver):
            raise ValueError(f"Miner {self.speaker} neither sends nor receives this sample.")
        if self.passage.sender == self.passage.receiver:
            raise ValueError("A miner hands nothing over to itself.")
        if self.passage.kind not in (Kind.FORWARD, Kind.BACKWARD):
            raise ValueError("Only forward and backward passes are handed over.")
        if len(self.digest) != 32:
            raise ValueError("The digest of a hand-over has 32 bytes.")


@dataclass(frozen=True)
class Fault:
    """A miner that is proved wrong, and by what."""

    miner: int
    why: str


def blame(statements: Iterable[Statement], true_digest: bytes | None = None) -> tuple[Fault, ...]:
    """Who is proved wrong about one passage, by ascending miner; nobody may be.

    Args:
        statements: everything at hand that sender and receiver said of this passage.
        true_digest: what the sender should have sent, from a replay of its stage on what it
            received itself. None if nobody replayed it.

    Returns:
        At most one fault a miner. A sender is at fault for two digests of one passage, or for one
        that is not true. A receiver is, for a digest that the sender did not sign, or two. One that
        used what its sender signed is not, although the bytes were wrong.

    Raises:
        ValueError: statements about different passages, or a digest without 32 bytes.
    """
    said = list(statements)
    if len({one.passage for one in said}) > 1:
        raise ValueError("The statements are about different passages; blame takes one.")
    if true_digest is not None and len(true_digest) != 32:
        raise ValueError("A true digest has 32 bytes.")
    if not said:
        return ()
    way = said[0].passage
    sent = {one.digest for one in said if one.speaker == way.sender}
    received = {one.digest for one in said if one.speaker == way.receiver}
    faults = []
    if len(sent) > 1:
        faults.append(Fault(way.sender, f"signed {len(sent)} digests of one hand-over"))
    elif true_digest is not None and sent - {true_digest}:
        faults.append(Fault(way.sender, "signed another digest than its stage's replay gives"))
    if len(received) > 1:
        faults.append(Fault(way.receiver, f"told {len(received)} digests of one hand-over"))
    elif received - sent:
        faults.append(Fault(way.receiver, "worked with a digest that its sender did not sign"))
    return tuple(sorted(faults, key=lambda fault: fault.miner))
