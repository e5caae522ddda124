# SPDX-License-Identifier: Apache-2.0
"""A crash-safe key-value journal for secrets and artefact paths.

Rule: when `put` returns, the value is on disk and any later open reads back exactly it, or fails
with an error. When `put` raises, the file holds what it held before. A line is

    {"sum":"<32 hex>","rec":[<sequence>,"<key>",<value>]}

where sum is the first 16 bytes of sha256(sum of the line before || rec bytes). The chain of sums
makes an altered, missing or reordered line visible. The one damage that is repaired silently is a
last line without its newline: it is cut off, which needs no space. That write never returned, so
nobody relied on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from agents.runtime.errors import JournalError, JournalFull
from agents.storage.durable import PRIVATE_MODE, sync_folder, write_atomic

_HEAD = b'{"sum":"'
_MIDDLE = b'","rec":'
_TAIL = b"}"
_SUM_HEX = 32
_BODY_AT = len(_HEAD) + _SUM_HEX + len(_MIDDLE)
_START = b"0" * _SUM_HEX
# Rewriting is worth it only when most lines are dead and there are enough to notice.
_COMPACT_LINES = 64


def _link(previous: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous + body).hexdigest()[:_SUM_HEX].encode()


def _encode(previous: bytes, sequence: int, key: str, value: Any) -> tuple[bytes, bytes]:
    """Return (line with newline, its sum)."""
    try:
        body = json.dumps([sequence, key, value], separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise JournalError(f"The value of {key!r} is not plain JSON: {error}.") from None
    mark = _link(previous, body)
    return _HEAD + mark + _MIDDLE + body + _TAIL + b"\n", mark


def _decode(previous: bytes, line: bytes) -> tuple[bytes, list[Any]] | None:
    """Return (sum, [sequence, key, value]) of a line without newline, or None if it is damaged."""
    body = line[_BODY_AT : -len(_TAIL)]
    mark = line[len(_HEAD) : len(_HEAD) + _SUM_HEX]
    if line != _HEAD + mark + _MIDDLE + body + _TAIL or mark != _link(previous, body):
        return None
    record = json.loads(body)
    return mark, record


class Journal:
    """Durable map of str to JSON values, one file, one process at a time, mode 0600.

    Raises JournalError when another process holds the journal, when a line is damaged, or when the
    file can't be opened; JournalFull when the disk refuses a write. The map and the file then keep
    their previous value, and the same journal takes the next `put` once there is room.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._guard = threading.Lock()
        self._values: dict[str, Any] = {}
        self._sum = _START
        self._sequence = 0
        self.torn = False  # whether opening dropped an unfinished last line
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = self._take_lock()
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._load()
            self._file: BinaryIO = self._open_for_append()
        except OSError as error:
            self._lock.close()
            raise self._unusable(error) from error
        except BaseException:
            self._lock.close()
            raise
        self._end = self._file.tell()

    # -- reading -------------------------------------------------------------------------------

    def get(self, key: str, default: Any = None) -> Any:
        """Return the last value put under `key` (a copy), or `default`."""
        with self._guard:
            if key not in self._values:
                return default
            return json.loads(json.dumps(self._values[key]))

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that start with `prefix`, sorted."""
        with self._guard:
            return sorted(key for key in self._values if key.startswith(prefix))

    def __contains__(self, key: str) -> bool:
        with self._guard:
            return key in self._values

    # -- writing -------------------------------------------------------------------------------

    def put(self, key: str, value: Any) -> None:
        """Store `value` under `key`; on disk when this returns. `None` deletes the key."""
        with self._guard:
            line, mark = _encode(self._sum, self._sequence, key, value)
            self._append(line)
            self._sum, self._sequence = mark, self._sequence + 1
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        """Forget `key`, durably."""
        self.put(key, None)

    def adopt(self, former: Path) -> bool:
        """Take over the entries of a journal under a former name, then remove that file.

        Returns whether there was one. Where both have a key, this journal's value stays. Both files
        are locked meanwhile, and every entry is on disk here before the other file goes: a crash at
        any line loses nothing, and the next start goes on. Raises JournalError if another process
        (an agent of an older version) holds the former journal, or if it is damaged.
        """
        if not former.exists():
            return False
        with Journal(former) as old:
            for key in old.keys(prefix=""):
                if key not in self:
                    self.put(key, old.get(key))
            self.torn |= old.torn
            former.unlink()
            sync_folder(former.parent)
        return True

    def close(self) -> None:
        """Close the file and let another process open the journal."""
        with self._guard:
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------

    def _append(self, line: bytes) -> None:
        try:
            self._cut_back()  # what an earlier refused write may have left
            rest = memoryview(line)
            while rest:
                # A file that is not buffered may take a part and say so only in the number.
                rest = rest[self._file.write(rest) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line followed by a good one would look like corruption at the next start.
            with suppress(OSError):
                self._cut_back()
            raise JournalFull(
                f"The journal {self.path} could not be written: {error}. Free disk space or fix "
                "the permissions; the agent does not commit before the write succeeds."
            ) from error
        self._end += len(line)

    def _cut_back(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _unusable(self, error: OSError) -> JournalError:
        return JournalError(
            f"The journal {self.path} can't be opened: {error}. Name a folder as data_dir that "
            "this user may write to, on a disk that works."
        )

    def _take_lock(self) -> BinaryIO:
        lock_path = self.path.with_name(self.path.name + ".lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
        lock = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = lock.read(32).decode(errors="replace").strip() or "unknown"
            lock.close()
            raise JournalError(
                f"The journal {self.path} is in use by process {holder}. Stop that agent, or give "
                "this one its own data_dir: two agents with one key would slash themselves."
            ) from None
        with suppress(OSError):  # who holds it is only for the message; a full disk may refuse
            lock.truncate(0)
            os.write(descriptor, str(os.getpid()).encode())
        return lock

    def _load(self) -> None:
        raw = self.path.read_bytes() if self.path.exists() else b""
        *lines, rest = raw.split(b"\n")
        for number, line in enumerate(lines, start=1):
            record = _decode(self._sum, line)
            if record is None:
                raise JournalError(
                    f"Line {number} of the journal {self.path} is damaged: its checksum does not "
                    "match. Restore the file from a backup. If there is none, move it away to "
                    "start empty: a round committed but not yet revealed is then lost."
                )
            self._accept(*record)
        self.torn = bool(rest)
        if rest:
            with self.path.open("r+b") as file:
                file.truncate(len(raw) - len(rest))
                os.fsync(file.fileno())
        if len(lines) > _COMPACT_LINES and len(lines) > 2 * len(self._values):
            self._compact()
        if self.path.exists():
            self.path.chmod(PRIVATE_MODE)

    def _accept(self, mark: bytes, record: list[Any]) -> None:
        sequence, key, value = record
        self._sum, self._sequence = mark, sequence + 1
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def _compact(self) -> None:
        """Write the file anew without its dead lines; leave it as it is if the disk has no room."""
        content, mark = bytearray(), _START
        for number, (key, value) in enumerate(self._values.items()):
            line, mark = _encode(mark, number, key, value)
            content += line
        with suppress(OSError):
            write_atomic(self.path, bytes(content), PRIVATE_MODE)
            self._sum, self._sequence = mark, len(self._values)

    def _open_for_append(self) -> BinaryIO:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
        stream = os.fdopen(descriptor, "r+b", buffering=0)
        stream.seek(0, os.SEEK_END)
        sync_folder(self.path.parent)
        return stream
