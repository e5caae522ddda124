# SPDX-License-Identifier: Apache-2.0
"""The store as an audit reads it: every byte against its CID, every failure named.

The store is not trusted, even if it says that it verifies. Its bytes are hashed here, and an
artefact is called by what it is (the payload of node 3), its CID or digest, and where the chain
names it. Nothing is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeVar

from agents.audit.sources.findings import Part
from agents.storage.cid import (
    RAW,
    Buffer,
    cid_of_bytes,
    digest_of,
    parse_cid,
    root_file_size,
)
from agents.storage.content_store import ContentStore
from agents.storage.errors import (
    CorruptContent,
    NoSuchFile,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)
from agents.storage.sink import Hashed, Sink
from agents.storage.spans import Span, Spans, cut

T = TypeVar("T")


@dataclass(frozen=True)
class Failure:
    """An artefact that could not be had. `names`: all that it was called in this part of the audit,
    or what it was called first. `altered`: the store has other bytes for its CID. Where its blocks
    show that no file has the CID, whoever made them lied, and the store did not."""

    names: tuple[str, ...]
    sentence: str
    altered: bool

    def is_excused(self, excused: Sequence[str]) -> bool:
        """Whether each of its names is excused. A node may call any digest its own, the report's
        too: that it was to lose its trace is no word about the report."""
        return not self.altered and all(
            name in excused or any(name.endswith(f"of {who}") for who in excused)
            for name in self.names
        )


class Artefacts:
    """A read-only `ContentStore` over another. Failures wait in it until `failures` takes them."""

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self.location = store.location
        self._names: dict[bytes, str] = {}
        self._here: dict[bytes, list[str]] = {}  # all that it was called since `failures`
        self._failures: dict[bytes, Failure] = {}
        self.read: dict[str, int] = {}  # bytes by CID

    def name(self, artefact: str | bytes, name: str) -> None:
        """Say what a CID, or a digest from the chain, is."""
        digest = artefact if isinstance(artefact, bytes) else _digest(artefact)
        self._names.setdefault(digest, name)
        names = self._here.setdefault(digest, [])
        if name not in names:
            names.append(name)

    def called(self, artefact: str | bytes) -> str:
        """How a CID or digest is shown."""
        digest = artefact if isinstance(artefact, bytes) else _digest(artefact)
        shown = artefact if isinstance(artefact, str) else f"digest {artefact.hex()}"
        return f"{' and '.join(self._called(digest))} ({shown})"

    def failures(self) -> Iterator[Failure]:
        """Every artefact that could not be had since the last call."""
        found = [replace(f, names=self._called(digest)) for digest, f in self._failures.items()]
        self._failures, self._here = {}, {}
        yield from found

    # -- ContentStore --------------------------------------------------------------------------

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content. Raises StoreError; StoreUnavailable when the store is down."""
        try:
            data = self._store.get(cid, max_bytes)
            _check(cid, data, max_bytes)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._fail(cid, self._looked_into(cid, max_bytes, error))
        self.read[cid] = len(data)
        return data

    def resolve(self, digest: bytes) -> str:
        """The CID of a digest, checked to be one of it."""
        try:
            cid = self._store.resolve(digest)
            if _digest(cid) != digest:
                raise CorruptContent(f"the store says that {digest.hex()} is {cid}, which it isn't")
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._fail(digest, error)
        return cid

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names."""
        return self.get(self.resolve(digest), max_bytes)

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`."""
        return Path(dest).write_bytes(self.get(cid, max_bytes))

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink`; verified when this returns. Raises as `get`."""
        if parse_cid(cid).codec == RAW:  # one block
            data = self.get(cid, max_bytes)
            sink.begin()
            sink.write(data)
            return len(data)
        hashed = Hashed(sink, max_bytes)
        try:
            self._store.stream(cid, hashed, max_bytes)
            if hashed.cid() != cid:
                why = f"the {hashed.size} bytes that the store gave have the CID {hashed.cid()}"
                raise CorruptContent(why)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._fail(cid, self._looked_into(cid, max_bytes, error))
        self.read[cid] = hashed.size
        return hashed.size

    def has(self, cid: str) -> bool:
        """Whether the store says so."""
        return self._store.has(cid)

    def put_bytes(self, data: Buffer) -> str:
        """Refused."""
        self._refuse()

    def put_file(self, path: str | Path) -> str:
        """Refused."""
        self._refuse()

    def pin(self, cid: str) -> None:
        """Refused."""
        self._refuse()

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Parts of the content that a digest names: of all of it, or where that can't be had by
        blocks, which the store has checked. So it is with a payload of which a leaf is withheld."""
        try:
            return cut(self.get_digest(digest, max_bytes), spans)
        except StoreUnavailable:
            raise
        except StoreError:
            return self._store.get_spans(digest, spans, max_bytes)

    def leave(self, box: bytes, cid: str) -> None:
        """Refused."""
        self._refuse()

    def left(self, box: bytes, most: int) -> list[str]:
        """Refused: what lies in boxes proves nothing."""
        self._refuse()

    def take_away(self, box: bytes, cid: str) -> None:
        """Refused."""
        self._refuse()

    def close(self) -> None:
        """The store below belongs to whoever opened it."""

    def _called(self, digest: bytes) -> tuple[str, ...]:
        return tuple(self._here.get(digest, ())) or (self._names.get(digest, "artefact"),)

    def _refuse(self) -> NoReturn:
        raise StoreError("an audit only reads the store; nothing may be put into it")

    def _looked_into(self, cid: str, max_bytes: int, error: StoreError) -> StoreError:
        """The error, or NoSuchFile where the blocks of what is corrupt are those that the CID and
        they themselves name, and make no file."""
        if not isinstance(error, CorruptContent) or parse_cid(cid).codec == RAW:
            return error
        try:
            found = self._store.get_spans(_digest(cid), [(0, max_bytes)], max_bytes)
        except NoSuchFile as lie:
            return lie
        except StoreError:
            return error
        if found.blocks and root_file_size(found.blocks[0]) is None:
            return NoSuchFile(f"the block of {cid} is no root of a file", found.blocks)
        return error

    def _fail(self, artefact: str | bytes, error: StoreError) -> NoReturn:
        digest = artefact if isinstance(artefact, bytes) else _digest(artefact)
        how = {
            NotFound: "is missing from the store",
            CorruptContent: "has other bytes than it must",
            NoSuchFile: "is no file, whoever serves it",
        }
        words = how.get(type(error), "can't be read")
        sentence = f"{self.called(artefact)} {words}: {error}"[:600] + "."
        altered = isinstance(error, CorruptContent) and not isinstance(error, NoSuchFile)
        self._failures[digest] = Failure((), sentence, altered)
        raise error


def guarded(part: Part, check: str, subject: str, do: Callable[[], T]) -> T | None:
    """What `do` returns. Refused bytes become a difference, missing ones wait in `failures`."""
    part.counts[check] = part.counts.get(check, 0) + 1
    try:
        return do()
    except StoreUnavailable:
        raise
    except StoreError:
        return None
    except (ValueError, OverflowError) as error:
        part.differ(check, subject, f"it can't be used: {error}")
        return None


def take_failures(
    artefacts: Artefacts, part: Part, check: str, excused: Sequence[str] = ()
) -> None:
    """Differences for the artefacts that could not be had. Those of `excused` are remarks, unless
    their bytes were altered: whoever published them, it was not under this CID."""
    for failure in artefacts.failures():
        if failure.is_excused(excused):
            part.remark(failure.sentence)
        else:
            part.differ(check, failure.names[0], failure.sentence)


def _digest(cid: str) -> bytes:
    return bytes(digest_of(cid))


def _check(cid: str, data: bytes, max_bytes: int) -> None:
    """Raise unless `data` is what `cid` names."""
    if len(data) > max_bytes:
        raise TooLarge(f"{cid} has {len(data)} bytes; at most {max_bytes} are allowed")
    found = cid_of_bytes(data)
    if found != cid:
        raise CorruptContent(f"the {len(data)} bytes that the store gave have the CID {found}")
    # A file's root node kept as plain bytes has the digest of the file but isn't it.
    if parse_cid(cid).codec == RAW and root_file_size(data) is not None:
        raise CorruptContent(f"{cid} is the root node of a file, not a file")
