# SPDX-License-Identifier: Apache-2.0
"""How long the IPFS client takes for a large file, beside one plain `cat` of the same daemon.

The daemon is the tests' own server in a process of its own, so the two share no processor time. A
plain `cat` writes what comes into a file, as durably, and checks nothing. It prints figures only.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import requests

from agents.storage.cid import cid_of_bytes
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboServer
from tests.measure.rows import Row

_SIZE = 256 << 20
_REPEATS = 5
_CHUNK = 1 << 20
_GOAL = 1.2  # times one `cat`


def _content() -> bytes:
    return (bytes(range(251)) * (_SIZE // 251 + 1))[:_SIZE]


def _serve(ready: Connection) -> None:
    server, content = KuboServer(), _content()
    server.plant(cid_of_bytes(content), content)
    ready.send(server.address)
    server.serve_forever()


def bench() -> list[Row]:
    """The median ratio of pairs of reads, and the speed of both."""
    context = multiprocessing.get_context("spawn")
    ready, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        address = ready.recv()
        cid = cid_of_bytes(_content())
        with tempfile.TemporaryDirectory() as folder, closing(IpfsStore(address)) as store:
            pairs = [_pair(store, address, cid, Path(folder)) for _ in range(_REPEATS)]
    finally:
        process.kill()
        process.join()
    ratios = sorted(ours / plain for ours, plain in pairs)
    ours, plain = (min(times) for times in zip(*pairs, strict=True))
    ratio = ratios[len(ratios) // 2]
    return [
        Row(
            f"reading {_SIZE >> 20} MiB through the IPFS client",
            f"{ratio:.2f} times one cat ({_SIZE / ours / 1e6:.0f} MB/s, {_SIZE / plain / 1e6:.0f})",
            f"<= {_GOAL}",
            ratio <= _GOAL,
        )
    ]


def _pair(store: IpfsStore, address: str, cid: str, folder: Path) -> tuple[float, float]:
    port = address.rpartition("/")[2]
    url = f"http://127.0.0.1:{port}/api/v0/cat?arg={cid}"

    def cat() -> None:
        with (
            requests.post(url, stream=True, timeout=60) as answer,
            (folder / "cat").open("wb") as f,
        ):
            for chunk in answer.iter_content(_CHUNK):
                f.write(chunk)
            os.fsync(f.fileno())

    return _seconds(lambda: store.get_file(cid, folder / "ours", _SIZE)), _seconds(cat)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
