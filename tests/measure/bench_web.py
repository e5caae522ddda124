# SPDX-License-Identifier: Apache-2.0
"""How fast the page's index reads a chain, and how fast the page answers.

The chain is a real anvil. Its 100,000 events are made by nodes whose operators are contracts that
call NodeRegistry many times in one transaction. Readers are as many connections, each of which asks
for the next page as soon as it has the last one, or a second after it, while blocks are mined. All
of it shares this machine's cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from eth_utils import keccak

from scripts._net.anvil import start_anvil
from scripts._net.compiled import ROOT
from scripts._net.ports import free_port
from scripts._net.processes import Supervisor, terminate_as_exit
from tests.measure.rows import Row
from tests.stage.chain.finished_job import make_finished_job
from tests.stage.chain.people import People, found
from tests.stage.postgres import postgres, programs
from tests.stage.web import make_site

EVENTS, BLOCKS = 100_000, 5_000
EVENTS_GOAL, P95_GOAL_MS = 2_000, 50
READERS, SECONDS = 100, 8
_NODES, _CALLS = 10, 400  # calls in one transaction: below the gas that one may take
_PAGES = ("/", "/jobs/1", "/jobs/1/rounds/2", "/nodes/1", "/api/home", "/api/jobs/1/rounds/2")
_MINED = 250  # blocks at a time
_ARGUMENTS = 68  # bytes of a call of two arguments


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    """The figures of both databases, and of the page."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        terminate_as_exit(),
        Supervisor(Path(name) / "logs", ROOT) as supervisor,
    ):
        folder = Path(name)
        say(f"{EVENTS:,} events on a chain")
        url, deployment = _busy_chain(folder, supervisor)
        say("indexing them")
        yield from _indexing("SQLite", url, deployment, f"sqlite:///{folder / 'index.db'}")
        if programs() is not None:
            with postgres() as server:
                yield from _indexing("PostgreSQL", url, deployment, server.database())
        supervisor.stop_all()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        terminate_as_exit(),
        Supervisor(Path(name) / "logs", ROOT) as supervisor,
    ):
        say(f"{READERS} readers of a finished job's pages")
        yield from _reading(Path(name), supervisor)


# -- indexing ----------------------------------------------------------------------------------


def _busy_chain(folder: Path, supervisor: Supervisor) -> tuple[str, Path]:
    anvil = start_anvil(supervisor, folder)
    path = folder / "deployment.json"
    people = found(anvil.url, (), write_to=path)
    chain, registry = people.chain, people.registry
    nodes = [people.enlist(f"busy {number}") for number in range(_NODES)]
    for node in nodes:
        chain.rpc("anvil_setCode", node.operator.address, _repeater(registry.address))
    made = turn = 0
    while made < EVENTS:
        node = nodes[turn % _NODES]
        calls = [_call(people, node.node_id, turn * _CALLS + number) for number in range(_CALLS)]
        receipt = chain.transact(people.faucet, node.operator.address, b"".join(calls))
        assert int(receipt["status"], 16) == 1, "the calls should be made"
        made += len(receipt["logs"])
        turn += 1
    for _ in range(BLOCKS // _MINED):
        chain.mine(_MINED)
    return anvil.url, path


def _call(people: People, node_id: int, number: int) -> bytes:
    if number % 2:
        return people.registry.function("set_active", 2).encode([node_id, number % 4 == 1])
    key = keccak(text=f"key {number}")
    return people.registry.function("set_encryption_key", 2).encode([node_id, key])


def _repeater(target: str) -> str:
    """Code that makes each call of `_ARGUMENTS` bytes in its input, and reverts if one does."""
    loop = "5b 36 81 10 15 60 35 57"  # until all of the input is done
    call = f"60 44 81 5f 37 5f 5f 60 44 5f 5f 73 {target[2:]} 5a f1 15 60 37 57"
    following = "60 44 01 60 01 56"
    end = "5b 00 5b 5f 5f fd"
    return "0x" + f"5f {loop} {call} {following} {end}".replace(" ", "").lower()


def _indexing(kind: str, url: str, deployment: Path, database: str) -> Iterator[Row]:
    site, indexer = make_site(url, deployment, database)
    began = time.perf_counter()
    indexer.catch_up()
    lasted = time.perf_counter() - began
    standing = indexer.standing
    rate = standing.events / lasted
    lost = standing.events - _logs(site)
    speed = f"{rate:,.0f} events/s, {standing.block / lasted:,.0f} blocks/s"
    yield Row(
        f"index in {kind}: {standing.events:,} events of {standing.block:,} blocks",
        f"{lasted:.1f} s, {speed}, {lost} lost",
        f">= {EVENTS_GOAL:,} events/s, 0 lost",
        rate >= EVENTS_GOAL and not lost,
    )
    site.engine.dispose()


def _logs(site: object) -> int:
    """How many events the chain has, counted from its own answer."""
    from scripts._web.api.site import Site
    from scripts._web.follow.source import Source

    assert isinstance(site, Site)
    source = Source(site.chain, site.deployment)
    head = site.chain.newest_head()
    first, count = site.deployment.block, 0
    while first <= head.number:
        last = min(head.number, first + 499)
        count += len(source.read(first, site.chain.head(last)).entries)
        first = last + 1
    return count


# -- reading -----------------------------------------------------------------------------------


def _reading(folder: Path, supervisor: Supervisor) -> Iterator[Row]:
    finished = make_finished_job(folder, supervisor)
    port = free_port()
    where = ["--network", finished.url, "--deployment", str(finished.deployment)]
    what = ["--store", str(finished.store.root), "--database", f"sqlite:///{folder / 'index.db'}"]
    command = [sys.executable, "-m", "scripts.web", *where, *what, "--port", str(port)]
    page = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    mining = threading.Event()
    miner = threading.Thread(target=_mine, args=(finished.people, mining))
    try:
        url = f"http://127.0.0.1:{port}"
        asyncio.run(_await(url, finished.network.chain.newest_head().number))
        miner.start()
        for pause, goal in ((1.0, P95_GOAL_MS), (0.0, None)):
            yield _latency(url, pause, goal)
    finally:
        mining.set()
        if miner.ident is not None:
            miner.join()
        page.send_signal(signal.SIGTERM)
        page.wait(30)


def _mine(people: People, end: threading.Event) -> None:
    while not end.wait(1.0):
        people.chain.mine()


def _latency(url: str, pause: float, goal: int | None) -> Row:
    times, failed = asyncio.run(_read_all(url, pause))
    ranked = sorted(times)
    p50 = statistics.median(ranked) * 1_000
    p95 = ranked[int(len(ranked) * 0.95)] * 1_000
    how = "a page a second each" if pause else "without a pause"
    return Row(
        f"{READERS} readers, {how}, a block a second",
        f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, {len(ranked) / SECONDS:,.0f} pages/s, {failed} lost",
        "" if goal is None else f"p95 <= {goal} ms, 0 lost",
        None if goal is None else p95 <= goal and not failed,
    )


async def _read_all(url: str, pause: float) -> tuple[list[float], int]:
    end = time.perf_counter() + SECONDS
    found = await asyncio.gather(*(_read(url, n, pause, end) for n in range(READERS)))
    return [each for times, _ in found for each in times], sum(failed for _, failed in found)


async def _read(url: str, number: int, pause: float, end: float) -> tuple[list[float], int]:
    """One reader on one connection: how long each page took, and how many it did not get."""
    times: list[float] = []
    failed = 0
    host, port = urlsplit(url).hostname, urlsplit(url).port
    reader, writer = await asyncio.open_connection(host, port)
    await asyncio.sleep(pause * number / READERS)
    while time.perf_counter() < end:
        path = _PAGES[(number + len(times)) % len(_PAGES)]
        began = time.perf_counter()
        try:
            status, _ = await _get(reader, writer, path)
            failed += status != 200
        except (OSError, EOFError):
            failed += 1
            reader, writer = await asyncio.open_connection(host, port)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(pause)
    writer.close()
    return times, failed


async def _get(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
) -> tuple[int, bytes]:
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/html\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    return int(lines[0].split(b" ")[1]), await reader.readexactly(length)


async def _await(url: str, block: int) -> None:
    """Wait until the index has that block."""
    port = urlsplit(url).port
    for _ in range(600):
        with contextlib.suppress(OSError, EOFError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            status, body = await _get(reader, writer, "/api/status")
            writer.close()
            if status == 200 and json.loads(body)["block"] >= block:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the page at {url} did not start (load {os.getloadavg()[0]:.1f})")
