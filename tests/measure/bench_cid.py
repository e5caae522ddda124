# SPDX-License-Identifier: Apache-2.0
"""How fast CIDs are computed: from memory, and streamed from a file, beside plain sha256.

Prints figures and asserts nothing about time. Plain sha256 is the ceiling: on a busy machine all
rows fall together, and the ratio to it stays.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable

from agents.storage.cid import cid_of_bytes, cid_of_file

_SIZE = 256 << 20
_REPEATS = 5


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def bench() -> dict[str, float]:
    """Return {row name: GB/s, 1e9 bytes per second}: best of several alternating runs."""
    content = (bytes(range(251)) * (_SIZE // 251 + 1))[:_SIZE]
    with tempfile.TemporaryFile() as file:
        file.write(content)

        def stream() -> None:
            file.seek(0)
            cid_of_file(file)

        runs: dict[str, Callable[[], object]] = {
            "plain sha256": lambda: hashlib.sha256(content),
            "CID of bytes": lambda: cid_of_bytes(content),
            "CID of file, streamed": stream,
        }
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(_REPEATS):
            for name, run in runs.items():
                best[name] = min(best[name], _seconds(run))
    return {name: _SIZE / seconds / 1e9 for name, seconds in best.items()}


def main() -> None:
    """Command line: print one line per figure."""
    for name, speed in bench().items():
        print(f"  {name:<24} {speed:6.2f} GB/s")


if __name__ == "__main__":
    main()
