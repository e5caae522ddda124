# SPDX-License-Identifier: Apache-2.0
"""The content store in a folder: a reader never gets a wrong byte.

This holds if a process crashes, if two write at once, and if somebody edits the folder. Layout:
`objects/<last two hex digits>/<digest hex>.raw` or `.dag` (by the CID's codec) holds the whole
content in one file; `tmp/` holds what is being written. Files appear by rename, complete and
synced, and every read recomputes the CID. No content is ever deleted. `boxes/<hex>/<CID>` is an
empty file: the CID lies in that box.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from agents.storage.boxes import box_name
from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    Buffer,
    Cid,
    CidBuilder,
    cid_from_digest,
    cid_of_bytes,
    parse_cid,
    read_pieces,
    root_file_size,
)
from agents.storage.durable import atomic_file, sync_folder
from agents.storage.errors import (
    CorruptContent,
    InvalidCid,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)
from agents.storage.sink import Hashed, Sink
from agents.storage.spans import Span, Spans, cut

_SUFFIX: Final = {RAW: "raw", DAG_PB: "dag"}
_STALE_S: Final = 3600.0  # no writer pauses this long between two writes
_TRIES: Final = 100  # each is lost only to another process that empties the box at that moment


class EmbeddedStore:
    """A `ContentStore` in a local folder, shared safely by any number of processes."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self.location = str(self.root)
        self._objects = self.root / "objects"
        self._temporary = self.root / "tmp"
        self._boxes = self.root / "boxes"
        with self._storage_errors("open"):
            self._temporary.mkdir(parents=True, exist_ok=True)
            self._make_shards()
            self._sweep()

    def put_bytes(self, data: Buffer) -> str:
        """Keep the bytes; content that is already here and intact is not written again."""
        cid = cid_of_bytes(data)
        if not self._intact(cid):
            self._write([memoryview(data).cast("B")])
        return cid

    def put_file(self, path: str | Path) -> str:
        """Keep a file's content as it is read now; also repairs a corrupted copy.

        Raises StoreError when the source cannot be read.
        """
        try:
            source = Path(path).open("rb")  # noqa: SIM115 - closed below; only opening is guarded
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        with source:
            return self._write(_readable(source, path))

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content in memory."""
        parsed = parse_cid(cid)
        with self._open(parsed, max_bytes) as (file, size), self._storage_errors("read"):
            data = file.read(size + 1)
        if cid_of_bytes(data) != cid:
            raise self._corrupt(parsed)
        return data

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Copy the verified content to `dest`; returns its size in bytes."""
        parsed, dest = parse_cid(cid), Path(dest)
        builder = CidBuilder()
        with (
            self._open(parsed, max_bytes) as (file, size),
            self._storage_errors("copy out of"),
            atomic_file(dest.parent) as (out, commit),
        ):
            for piece in read_pieces(file):
                builder.update(piece)
                if builder.size > size:
                    break
                out.write(piece)
            if builder.cid() != cid:
                raise self._corrupt(parsed)
            commit(dest)
        return builder.size

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink` as it is read; returns its size in bytes."""
        parsed = parse_cid(cid)
        with self._open(parsed, max_bytes) as (file, size), self._storage_errors("read"):
            hashed = Hashed(sink, max_bytes)
            hashed.begin()
            for piece in read_pieces(file):
                if hashed.size + len(piece) > size:  # it grows while it is read
                    break
                hashed.write(piece)
            else:
                if hashed.cid() == cid:
                    return hashed.size
        raise self._corrupt(parsed)

    def has(self, cid: str) -> bool:
        """Whether a file for this CID exists; reading verifies it."""
        path = self._path(parse_cid(cid))
        with self._storage_errors("look into"):
            return path.is_file()

    def size(self, cid: str) -> int:
        """The bytes of a stored file (not verified: reading does that)."""
        with self._open(parse_cid(cid), max_bytes=1 << 62) as (_, size):
            return size

    def pin(self, cid: str) -> None:
        """Nothing is ever deleted here, so this only checks that the content is present."""
        if not self.has(cid):
            raise self._not_found(parse_cid(cid))

    def resolve(self, digest: bytes) -> str:
        """The CID a digest names: two look-ups, and at most one chunk is read."""
        dag = cid_from_digest(digest, DAG_PB)
        raw = cid_from_digest(digest, RAW)
        if self.has(dag):
            return dag
        if root_file_size(self.get(raw, PROFILE.chunk_size)) is not None:
            # Someone stored a file's root node as plain bytes: the digest still names the file.
            raise self._not_found(parse_cid(dag))
        return raw

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names."""
        return self.get(self.resolve(digest), max_bytes)

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Reads and verifies all of the file: a disk holds it without the blocks above leaves."""
        return cut(self.get_digest(digest, max_bytes), spans)

    def leave(self, box: bytes, cid: str) -> None:
        """An empty file; its loss with a crash costs a message, so nothing is synced."""
        if not self.has(cid):
            raise self._not_found(parse_cid(cid))
        place = self._boxes / box_name(box) / cid
        with self._storage_errors("leave something in"):
            for tries_left in reversed(range(_TRIES)):
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.touch()
                    return
                except (FileNotFoundError, FileExistsError):
                    # Whoever took the last CID away has just removed the folder.
                    if not tries_left:
                        raise

    def left(self, box: bytes, most: int) -> list[str]:
        """Reads no more names than it gives; what is no CID makes room."""
        found: list[str] = []
        with (
            self._storage_errors("look into"),
            suppress(FileNotFoundError),
            os.scandir(self._boxes / box_name(box)) as entries,
        ):
            for entry in islice(entries, most):
                try:
                    parse_cid(entry.name)
                    found.append(entry.name)
                except InvalidCid:
                    with suppress(OSError):
                        Path(entry).unlink()
        return found

    def take_away(self, box: bytes, cid: str) -> None:
        """Removes the empty file; the last one's folder goes too."""
        parse_cid(cid)
        folder = self._boxes / box_name(box)
        with self._storage_errors("take something out of"):
            (folder / cid).unlink(missing_ok=True)
            with suppress(OSError):  # others lie in it, or it is gone
                folder.rmdir()

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, cid: Cid) -> Path:
        name = cid.digest.hex()
        return self._objects / name[-2:] / f"{name}.{_SUFFIX[cid.codec]}"

    @contextmanager
    def _open(self, cid: Cid, max_bytes: int) -> Iterator[tuple[BinaryIO, int]]:
        """Open an object after checking its kind and size, before a byte of it is read."""
        path = self._path(cid)
        try:
            # O_NONBLOCK: a pipe planted under this name must not hang the reader.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise self._not_found(cid) from error
        except OSError as error:
            raise self._unavailable("read", error) from error
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            raise self._corrupt(cid)
        with os.fdopen(handle, "rb") as file:
            size = status.st_size
            if (size > PROFILE.chunk_size) != (cid.codec == DAG_PB):
                raise self._corrupt(cid)
            if size > max_bytes:
                raise TooLarge(f"{cid} has {size} bytes in {self.location}; limit {max_bytes}")
            yield file, size

    def _intact(self, cid: str) -> bool:
        parsed = parse_cid(cid)
        try:
            with self._open(parsed, max_bytes=1 << 62) as (file, _):
                builder = CidBuilder()
                for piece in read_pieces(file):
                    builder.update(piece)
                return builder.cid() == cid
        except (NotFound, CorruptContent):
            return False

    def _write(self, pieces: Iterable[memoryview]) -> str:
        """Copy to a temporary file, hashing exactly what is written, then rename to its CID."""
        with self._storage_errors("write to"), atomic_file(self._temporary, 0o444) as (out, commit):
            builder = CidBuilder()
            for piece in pieces:
                builder.update(piece)
                out.write(piece)
            cid = builder.cid()
            if not self._intact(cid):
                commit(self._path(parse_cid(cid)))
            return cid

    def _make_shards(self) -> None:
        """Create the folders of `objects`, durably, even if another process is doing the same."""
        self._objects.mkdir(exist_ok=True)
        for number in range(256):
            (self._objects / f"{number:02x}").mkdir(exist_ok=True)
        for folder in (self._objects, self.root, self.root.parent):
            sync_folder(folder)

    def _sweep(self) -> None:
        """Remove what crashed writers left behind."""
        for path in self._temporary.iterdir():
            with suppress(FileNotFoundError):  # its writer, or another sweeper, was faster
                if time.time() - path.stat().st_mtime > _STALE_S:
                    path.unlink()

    @contextmanager
    def _storage_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unavailable(action, error) from error

    def _unavailable(self, action: str, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"cannot {action} the store folder {self.location}: {error}; "
            "check that it exists, is writable by this user and that the disk has space"
        )

    def _not_found(self, cid: Cid) -> NotFound:
        return NotFound(f"{cid} is not in the store {self.location}")

    def _corrupt(self, cid: Cid) -> CorruptContent:
        return CorruptContent(
            f"{self._path(cid)} does not hold the content of {cid}: it was truncated or changed; "
            "delete that file and put the content again from another copy"
        )


def _readable(source: BinaryIO, path: str | Path) -> Iterator[memoryview]:
    """The source's pieces; its own read errors are not taken for the store's."""
    try:
        yield from read_pieces(source)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
