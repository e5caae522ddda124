# SPDX-License-Identifier: Apache-2.0
"""How fast CIDs are computed: from memory, and streamed from a file (`python bench_cid.py`)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from agents.storage.cid import cid_of_bytes, cid_of_file

_SIZE = 256 << 20
_REPEATS = 5


def _best(run: Callable[[], object]) -> float:
    """Best of several runs, in GB/s (1e9 bytes): the first pays for cold caches."""
    best = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return _SIZE / best / 1e9


def bench() -> dict[str, float]:
    """Return {row name: GB/s}."""
    content = bytes(range(251)) * (_SIZE // 251 + 1)
    content = content[:_SIZE]
    rows = {"CID of bytes": _best(lambda: cid_of_bytes(content))}
    with tempfile.TemporaryFile() as file:
        file.write(content)

        def stream() -> None:
            file.seek(0)
            cid_of_file(file)

        rows["CID of file, streamed"] = _best(stream)
    return rows


if __name__ == "__main__":
    for name, speed in bench().items():
        print(f"{name:<24} {speed:6.2f} GB/s")
