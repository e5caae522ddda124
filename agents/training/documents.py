# SPDX-License-Identifier: Apache-2.0
"""Where training text comes from: the user's files, or Python's own source.

Files are read piece by piece, so none has to fit in memory, except a parquet row group. What the
user gives is treated as text. Nothing is executed and no archive is unpacked.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agents.storage.nesting import parse_json

MAX_LINE_BYTES = 64 * 1024 * 1024
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__"}


class DataError(ValueError):
    """Training data that cannot be read or does not fit together; says which file and where."""


def read_documents(paths: Iterable[Path], field: str = "text") -> Iterator[bytes]:
    """The documents of .txt, .jsonl and .parquet files, in the given order, as UTF-8.

    Args:
        paths: files; a .txt file is one document, the others one per line or row.
        field: key or column that holds the text.

    Raises:
        DataError: unknown ending, unreadable file, malformed line, or a missing field.
    """
    readers = {".txt": _read_text, ".jsonl": _read_jsonl, ".parquet": _read_parquet}
    for path in paths:
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise DataError(f"{path}: the ending must be one of {', '.join(readers)}")
        try:
            yield from reader(path, field)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_text(path: Path, field: str) -> Iterator[bytes]:
    raw = path.read_bytes()
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 at byte {error.start}; convert it first") from error
    yield raw


def _read_jsonl(path: Path, field: str) -> Iterator[bytes]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield _field(_parse(line, path, number), field, f"{path}: line {number}")


def _parse(line: bytes, path: Path, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise DataError(f"{path}: line {number} is not JSON: {error}") from error


def _field(row: Any, field: str, where: str) -> bytes:
    value = row.get(field) if isinstance(row, dict) else None
    if not isinstance(value, str):
        raise DataError(f"{where} has no text under {field!r}; name the key that holds it")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where} holds a lone surrogate under {field!r}") from error


def _read_parquet(path: Path, field: str) -> Iterator[bytes]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(
            f"{path}: parquet needs pyarrow; install the extra 'parquet' ({error})"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            row = 0
            for batch in file.iter_batches(batch_size=256, columns=[field]):
                for record in batch.to_pylist():
                    row += 1
                    yield _field(record, field, f"{path}: row {row}")
    except (ValueError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is not a parquet file: {error}") from error


def stdlib_corpus(max_bytes: int = 4 * 1024 * 1024, root: Path | None = None) -> Iterator[bytes]:
    """Source files of the running Python's standard library, about ``max_bytes`` in all.

    Files come in order of path, equal contents once, tests and installed packages left out. The
    last one is cut at a line end so that the total never exceeds ``max_bytes``.

    Args:
        max_bytes: upper bound on the total length.
        root: library folder; the running Python's when None.

    Raises:
        DataError: the folder holds no source (some distributions ship it apart).
    """
    folder = root or Path(sysconfig.get_paths()["stdlib"])
    found = [
        path for path in folder.rglob("*.py") if not _SKIPPED & set(path.relative_to(folder).parts)
    ]
    seen: set[bytes] = set()
    left = max_bytes
    for path in sorted(found, key=lambda item: item.relative_to(folder).as_posix()):
        raw = path.read_bytes()
        digest = hashlib.sha256(raw).digest()
        if digest in seen or not raw.strip():
            continue
        seen.add(digest)
        if len(raw) >= left:
            yield raw[: raw.rfind(b"\n", 0, left) + 1] or raw[:left]
            return
        left -= len(raw)
        yield raw
    if not seen:
        raise DataError(f"{folder} holds no Python source; pass data files instead")
