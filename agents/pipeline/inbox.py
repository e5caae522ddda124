# SPDX-License-Identifier: Apache-2.0
"""What a miner received, and when it stepped: all that decides its numbers, in order.

With the epoch's facts and the stage's weights at its start, these entries give every message that
the miner sent, its log and its weights at the end. So the live miner, one that starts again after a
crash, and a verifier do the same thing: they execute the entries (`agents.pipeline.work`).

An entry is its kind (1 byte), a number (uint64, big-endian: the sample, or the place of a STEP
among the steps), the sender (uint64), the lengths of trail, signature and message (uint32 each),
and these three. A FORWARD of the first stage and a BACKWARD of the last one come from nobody: their
sender is 0 and they carry no bytes. The file is a header and the entries; a miner appends to it as
it goes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from eth_utils import keccak

from agents.pipeline.miner_log import MAX_EVENTS, Kind
from agents.training.state import PayloadError

MAX_SIGNATURE = 65
MAX_TRAIL = 2048  # more than 16 stages take
_MAGIC = b"menagerie inbox 2\0"
_HEAD = struct.Struct(">BQQIII")


@dataclass(frozen=True)
class Entry:
    """One thing to execute: see the module. `signature`: of the sender, over what it handed on.
    `trail`: how a FORWARD came to its sender (`agents.pipeline.trail`)."""

    kind: Kind
    sample: int
    sender: int = 0
    signature: bytes = b""
    message: bytes = b""
    trail: bytes = b""

    @cached_property
    def digest(self) -> bytes:
        """keccak256 of the message, 32 bytes; kept, since verifiers look at it more than once."""
        return keccak(self.message)

    @property
    def bare(self) -> bool:
        """Whether it comes from nobody and brings nothing."""
        return not (self.sender or self.trail or self.signature or self.message)

    def received(self) -> Received:
        """The entry without its bytes."""
        return Received(self.kind, self.sample, self.sender, self.signature, self.digest, self.bare)

    def to_bytes(self) -> bytes:
        """The only spelling of this entry."""
        sizes = len(self.trail), len(self.signature), len(self.message)
        head = _HEAD.pack(self.kind, self.sample, self.sender, *sizes)
        return head + self.trail + self.signature + self.message


@dataclass(frozen=True)
class Received:
    """What of an entry is held against logs. Readers keep it of all miners of a round, and the
    bytes of none."""

    kind: Kind
    sample: int
    sender: int
    signature: bytes
    digest: bytes
    bare: bool


@dataclass(frozen=True)
class Inbox:
    """A miner's entries of one epoch, in the order in which they were executed."""

    entries: tuple[Entry, ...]

    def to_bytes(self) -> bytes:
        """The file."""
        return head() + b"".join(entry.to_bytes() for entry in self.entries)

    @classmethod
    def from_bytes(cls, raw: bytes, max_message: int, max_entries: int = MAX_EVENTS) -> Inbox:
        """Read a stranger's file. Whether the entries fit each other shows when they are executed.

        Args:
            max_message: bytes that a message may have.

        Raises:
            PayloadError: not such a file, too many or too long entries, or a cut last one.
        """
        entries, end = _read(raw, max_message, max_entries)
        if end != len(raw):
            raise PayloadError(f"The inbox ends in the middle of entry {len(entries)}.")
        return cls(tuple(entries))

    @classmethod
    def whole_part(cls, raw: bytes, max_message: int) -> tuple[Inbox, int]:
        """The entries of a miner's own file, and how many of its bytes they take.

        After a crash the last entry may be cut: what follows the whole ones was never acted on.
        """
        entries, end = _read(raw, max_message, MAX_EVENTS)
        return cls(tuple(entries)), end


def head() -> bytes:
    """What a file starts with."""
    return _MAGIC


def max_inbox_bytes(entries: Iterable[int]) -> int:
    """The length of a file whose entries have a trail and a message of at most these many bytes."""
    return len(_MAGIC) + sum(_HEAD.size + MAX_SIGNATURE + size for size in entries)


def _read(raw: bytes, max_message: int, max_entries: int) -> tuple[list[Entry], int]:
    if raw[: len(_MAGIC)] != _MAGIC:
        raise PayloadError("This is no inbox of a miner.")
    entries: list[Entry] = []
    place = len(_MAGIC)
    while len(raw) - place >= _HEAD.size:
        if len(entries) == max_entries:
            raise PayloadError(f"The inbox has more than {max_entries} entries.")
        kind, sample, sender, trail, signature, message = _HEAD.unpack_from(raw, place)
        where = f"Entry {len(entries)} of the inbox"
        if kind >= len(Kind):
            raise PayloadError(f"{where} is of kind {kind}, which there is not.")
        if trail > MAX_TRAIL or signature > MAX_SIGNATURE or message > max_message:
            raise PayloadError(
                f"{where} has a trail of {trail}, a signature of {signature} and a message of "
                f"{message} bytes; at most {MAX_TRAIL}, {MAX_SIGNATURE} and {max_message} are "
                "allowed."
            )
        signed = place + _HEAD.size + trail
        told = signed + signature
        end = told + message
        if end > len(raw):
            break
        parts = raw[signed:told], raw[told:end], raw[signed - trail : signed]
        entries.append(Entry(Kind(kind), sample, sender, *parts))
        place = end
    return entries, place
