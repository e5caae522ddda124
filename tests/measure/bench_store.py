# SPDX-License-Identifier: Apache-2.0
"""How long the IPFS client takes for a file, beside one plain `cat` of the same daemon.

The daemon is the tests' own server in a process of its own. It answers from memory, ten times as
fast as Kubo does from its disk, so that the client's own work shows. One `cat` checks nothing and
does what a person's program does: it writes what comes, and at the end has the disk keep it, as
`curl` and `sync` do; or keeps it in memory. A `cat` that leaves its file to the system, which loses
it with the power, is given beside it. What one run leaves to the disk is done before the next.
On a machine without idle cores the ratio grows: hashing then takes its time beside the reading.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

import requests

from agents.storage.cid import cid_of_bytes
from agents.storage.durable import sync_folder
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboServer
from tests.measure.rows import Row

_SIZES = (1, 16, 91, 256)  # MiB
_LARGE = 91  # from this size on the goal holds; below, the file system's time is the greater part
_REPEATS = 9
_CHUNK = 1 << 20
_GOAL = 1.2  # times one `cat`


def _content(size: int) -> bytes:
    return (bytes(range(251)) * ((size << 20) // 251 + 1))[: size << 20]


def _serve(ready: Connection) -> None:
    server = KuboServer()
    for size in _SIZES:
        content = _content(size)
        server.plant(cid_of_bytes(content), content)
    ready.send(server.address)
    server.serve_forever()


def bench() -> list[Row]:
    """For each size, into a file and into memory: the median ratio of pairs, and both speeds."""
    context = multiprocessing.get_context("spawn")
    ready, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        address = ready.recv()
        with tempfile.TemporaryDirectory() as folder, closing(IpfsStore(address)) as store:
            return [row for size in _SIZES for row in _rows(store, address, size, Path(folder))]
    finally:
        process.kill()
        process.join()


def _rows(store: IpfsStore, address: str, size: int, folder: Path) -> list[Row]:
    cid, limit = cid_of_bytes(_content(size)), size << 20
    url = f"http://127.0.0.1:{address.rpartition('/')[2]}/api/v0/cat?arg={cid}"
    curl = ["sh", "-c", 'curl -sX POST "$0" -o "$1" && sync "$1"', url, str(folder / "curl")]

    def cat(out: BinaryIO) -> None:
        with requests.post(url, stream=True, timeout=60) as answer:
            for chunk in answer.iter_content(_CHUNK):
                out.write(chunk)

    def cat_file(keep: bool) -> None:
        part, whole = folder / "part", folder / "cat"
        with part.open("wb") as out:
            cat(out)
            if keep:
                out.flush()
                os.fsync(out.fileno())
        part.replace(whole)
        if keep:
            sync_folder(folder)

    into_file: dict[str, Callable[[], object]] = {
        "one cat": lambda: cat_file(keep=True),
        "one cat that keeps nothing durably": lambda: cat_file(keep=False),
    }
    if shutil.which("curl"):
        into_file["curl and sync"] = lambda: subprocess.run(curl, check=True)
    return [
        _row(
            f"reading {size} MiB through the IPFS client into a file",
            size,
            lambda: store.get_file(cid, folder / "ours", limit),
            into_file,
        ),
        _row(
            f"reading {size} MiB through the IPFS client into memory",
            size,
            lambda: store.get(cid, limit),
            {"one cat": lambda: cat(io.BytesIO())},
        ),
    ]


def _row(
    figure: str,
    size: int,
    ours: Callable[[], object],
    others: Mapping[str, Callable[[], object]],
) -> Row:
    """The first of the others has the goal, the rest are peers."""
    runs = [ours, *others.values()]
    times = [[_seconds(run) for run in runs] for _ in range(_REPEATS)]
    ratios = [_median([row[0] / row[at] for row in times]) for at in range(len(runs))]
    speeds = [f"{(size << 20) / min(row[at] for row in times) / 1e6:.0f}" for at in range(2)]
    large = size >= _LARGE
    beside = [f"{ratio:.2f} times {name}" for name, ratio in zip(others, ratios[1:], strict=True)]
    return Row(
        figure,
        f"{beside[0]} ({speeds[0]} MB/s, {speeds[1]})",
        f"<= {_GOAL}" if large else "",
        ratios[1] <= _GOAL if large else None,
        ", ".join(beside[1:]),
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _seconds(run: Callable[[], object]) -> float:
    os.sync()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
