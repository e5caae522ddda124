# SPDX-License-Identifier: Apache-2.0
"""A provider in front of a real node: it takes its time, fails now and then, and counts.

Rule: nothing that it passes on is changed. Each client has a path of its own (`url_of`), so that
its requests can be told from the others'. HTTP and WebSocket share a port, as at a provider.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

FAULTS = ("503", "dropped", "half")
_LIMIT = 2**26  # bytes of one message


@dataclass
class Count:
    """What one client has asked: HTTP requests, the JSON-RPC calls in them, and the faults met."""

    requests: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __sub__(self, before: Count) -> Count:
        return Count(
            self.requests - before.requests, self.calls - before.calls, self.faults - before.faults
        )

    def copy(self) -> Count:
        return Count(self.requests, self.calls.copy(), self.faults.copy())


class Proxy:
    """Serves from a thread of its own until `close`.

    `latency_s`: least and most time that an answer takes. `fault_rate`: share of the requests that
    get one of `faults` instead of an answer. `websocket`: whether there is one. All can be changed
    while it serves.
    """

    def __init__(
        self,
        upstream: str,
        latency_s: tuple[float, float] = (0.0, 0.0),
        fault_rate: float = 0.0,
        faults: Sequence[str] = FAULTS,
        websocket: bool = True,
        seed: int = 1,
    ) -> None:
        parts = urlsplit(upstream)
        self._to = parts.hostname, parts.port
        self.latency_s = latency_s
        self.fault_rate = fault_rate
        self.faults = tuple(faults)
        self.websocket = websocket
        self._draw = random.Random(seed)
        self._counts: dict[str, Count] = defaultdict(Count)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._started.wait()

    def url_of(self, client: str) -> str:
        """The address under which a client is counted."""
        return f"http://127.0.0.1:{self._port}/{client}"

    def count(self, client: str) -> Count:
        """What a client has asked so far."""
        return self._counts[client].copy()

    def close(self) -> None:
        """Stop serving; what is under way is dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LIMIT)
        )
        self._port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                client = head.split(b" ", 2)[1].decode().strip("/")
                if b"upgrade: websocket" in head.lower():
                    if self.websocket:
                        await self._tunnel(head, reader, writer)
                    return
                body = await reader.readexactly(_length(head))
                fault = self._note(client, body)
                await asyncio.sleep(self._draw.uniform(*self.latency_s))
                if not await self._answer(fault, body, writer):
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def _note(self, client: str, body: bytes) -> str:
        """Count a request; the fault it meets, "" for none."""
        sent = json.loads(body)
        count = self._counts[client]
        count.requests += 1
        count.calls.update(one["method"] for one in (sent if isinstance(sent, list) else [sent]))
        if self._draw.random() >= self.fault_rate:
            return ""
        fault = self._draw.choice(self.faults)
        count.faults[fault] += 1
        return fault

    async def _answer(self, fault: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        if fault == "503":
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return True
        if fault == "dropped":
            return False
        found = await self._ask(body)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
        answer = head + str(len(found)).encode() + b"\r\n\r\n" + found
        writer.write(answer[: len(answer) // 2] if fault == "half" else answer)
        await writer.drain()
        return not fault

    async def _ask(self, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._to, limit=_LIMIT)
        try:
            writer.write(
                f"POST / HTTP/1.1\r\nhost: {self._to[0]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            return await reader.readexactly(_length(head))
        finally:
            writer.close()

    async def _tunnel(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass a WebSocket's bytes on, each after the latency."""
        rest = head.split(b"\r\n", 1)[1]
        there, back = await asyncio.open_connection(*self._to, limit=_LIMIT)
        back.write(b"GET / HTTP/1.1\r\n" + rest)
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            back.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65_536):
            await asyncio.sleep(self.latency_s[0])
            writer.write(chunk)
            await writer.drain()
        writer.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
