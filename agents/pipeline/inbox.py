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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from eth_utils import keccak

from agents.pipeline.miner_log import MAX_EVENTS, Kind
from agents.storage.cid import Buffer
from agents.training.state import PayloadError

MAX_SIGNATURE = 65
MAX_TRAIL = 2048  # more than 16 stages take
_MAGIC = b"menagerie inbox 2\0"
_HEAD = struct.Struct(">BQQIII")
_NONE = "This is no inbox of a miner."


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

    @property
    def size(self) -> int:
        """Its bytes in a file."""
        return _HEAD.size + len(self.trail) + len(self.signature) + len(self.message)

    def received(self) -> Received:
        """The entry without its bytes."""
        return Received(self.kind, self.sample, self.sender, self.signature, self.digest, self.bare)

    @classmethod
    def from_bytes(cls, raw: Buffer) -> Entry:
        """Of bytes that are an entry, by `EntryReader` or `to_bytes`."""
        kind, sample, sender, trail, signature, message = _HEAD.unpack_from(raw)
        signed = _HEAD.size + trail
        told = signed + signature
        parts = raw[signed:told], raw[told : told + message], raw[signed - trail : signed]
        return cls(Kind(kind), sample, sender, *map(bytes, parts))

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


class EntryReader:
    """Reads a file of entries that comes in pieces: a sink (`agents.storage.sink`), so it raises
    nothing about bytes that may be anybody's. It holds an entry and a piece at a time.

    Whether the entries fit each other shows when they are executed.

    Attributes:
        count: entries that were read.
        end: bytes that they and the file's head take.
    """

    def __init__(
        self,
        begin: Callable[[], Callable[[Entry], object]],
        max_message: int,
        max_entries: int = MAX_EVENTS,
    ) -> None:
        """
        Args:
            begin: called where a file begins, or begins anew; gives what takes its entries.
            max_message: bytes that a message may have.
        """
        self._begin, self._limits = begin, (MAX_TRAIL, MAX_SIGNATURE, max_message)
        self._max_entries = max_entries
        self.begin()

    def begin(self) -> None:
        """Forget what came: the file's first byte comes next."""
        self._take = self._begin()
        self._rest, self._wrong = bytearray(), ""
        self.count = self.end = 0

    def write(self, data: Buffer, /) -> None:
        """Take the next bytes. Raises what the taker of entries raises."""
        if self._wrong:
            return
        self._rest += data
        done = 0
        while length := self._next(done):
            if self.end:
                self._take(Entry.from_bytes(self._rest[done : done + length]))
                self.count += 1
            done, self.end = done + length, self.end + length
        del self._rest[:done]

    def check(self, whole: bool = True) -> None:
        """Call it when all came, and is verified.

        Raises:
            PayloadError: no such file, too many or too long entries, or a cut last one if it must
                be `whole`.
        """
        if self._wrong:
            raise PayloadError(self._wrong)
        if not self.end:
            raise PayloadError(_NONE)
        if whole and self._rest:
            raise PayloadError(f"The inbox ends in the middle of entry {self.count}.")

    def _next(self, at: int) -> int:
        """Bytes of the head of the file, or of the entry, that begins there; 0 while it has not
        all come, or is wrong."""
        if not self.end:
            if not _MAGIC.startswith(self._rest[: len(_MAGIC)]):
                self._wrong = _NONE
            return len(_MAGIC) if self._rest.startswith(_MAGIC) else 0
        left = len(self._rest) - at
        if left < _HEAD.size:
            return 0
        kind, _, _, *sizes = _HEAD.unpack_from(self._rest, at)
        where = f"Entry {self.count} of the inbox"
        if self.count == self._max_entries:
            self._wrong = f"The inbox has more than {self._max_entries} entries."
        elif kind >= len(Kind):
            self._wrong = f"{where} is of kind {kind}, which there is not."
        elif any(size > most for size, most in zip(sizes, self._limits, strict=True)):
            trail, signature, message = sizes
            self._wrong = (
                f"{where} has a trail of {trail}, a signature of {signature} and a message of "
                f"{message} bytes; at most {self._limits[0]}, {self._limits[1]} and "
                f"{self._limits[2]} are allowed."
            )
        length = int(_HEAD.size + sum(sizes))
        return 0 if self._wrong or length > left else length


@dataclass(frozen=True)
class Inbox:
    """A miner's entries of one epoch, in the order in which they were executed, all in memory."""

    entries: tuple[Entry, ...]

    def to_bytes(self) -> bytes:
        """The file."""
        return head() + b"".join(entry.to_bytes() for entry in self.entries)

    @classmethod
    def from_bytes(cls, raw: bytes, max_message: int, max_entries: int = MAX_EVENTS) -> Inbox:
        """Read a file. Raises PayloadError as `EntryReader.check`."""
        found: list[Entry] = []
        reader = EntryReader(lambda: found.append, max_message, max_entries)
        reader.write(raw)
        reader.check()
        return cls(tuple(found))


def head() -> bytes:
    """What a file starts with."""
    return _MAGIC


def max_inbox_bytes(entries: Iterable[int]) -> int:
    """The length of a file whose entries have a trail and a message of at most these many bytes."""
    return len(_MAGIC) + sum(_HEAD.size + MAX_SIGNATURE + size for size in entries)
