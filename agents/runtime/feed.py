# SPDX-License-Identifier: Apache-2.0
"""New heads of the chain: what wakes an agent.

The feed says that the chain has a new block; the agent then reads what it needs. Heads come by
WebSocket when there is one, else by polling. Only the newest head waits to be taken. A reorg is
recognised by hashes (a head that is not a child of the one before), because not every node
announces the blocks it removes. No error ends it: what it could not read, it reads at its next try.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from agents.runtime.chain import ChainClient, Head, head_from_json
from agents.runtime.errors import AgentError, RpcDown
from agents.runtime.logs import Log, scrub
from agents.runtime.urls import hide

_RETRY_MAX_S = 30.0
_EXPECTED = (OSError, WebSocketException, AgentError, ValueError, KeyError)  # of a socket
_BLOCK_TIMES = 8  # of which the middle one counts
_BLOCK_MAX_S = 15.0
_EARLY = 0.9  # of a block's time after the last one, and the next is asked for
_LATE_POLL_S = 2.0


def websocket_url(rpc_url: str) -> str:
    """Return the WebSocket URL at the same place as an HTTP one (http -> ws, https -> wss)."""
    parts = urlsplit(rpc_url)
    return urlunsplit(parts._replace(scheme={"https": "wss"}.get(parts.scheme, "ws")))


class HeadFeed:
    """Follows the chain in a thread of its own.

    `ws_url` None derives it from the HTTP url; "" means polling only: from shortly before a block
    is due, a fifth of its time apart, but never more often than every `poll_s`. With a WebSocket,
    a poll after `silence_s`, or after the time of two blocks, covers a silent connection.
    """

    def __init__(
        self,
        chain: ChainClient,
        log: Log,
        ws_url: str | None = None,
        poll_s: float = 0.5,
        silence_s: float = 5.0,
    ) -> None:
        self._chain = chain
        self._log = log
        self._ws_url = websocket_url(chain.url) if ws_url is None else ws_url
        self._place = hide(self._ws_url)
        self._poll_s = poll_s
        self._silence_s = silence_s
        self._wake = threading.Condition()
        self._latest: Head | None = None
        self._taken = True
        self._stop = threading.Event()
        self._accepting = threading.Lock()
        self._block_times: deque[float] = deque(maxlen=_BLOCK_TIMES)
        self._arrived = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="head-feed", daemon=True)
        self._followed: Connection | None = None
        self._failed: set[str] = set()  # kinds of errors that nobody expects, each said once
        self.connected = False

    def start(self) -> HeadFeed:
        """Start following; returns itself."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop following and wait for the thread."""
        self._stop.set()
        self.wake()
        if (followed := self._followed) is not None:
            with suppress(OSError):  # ends its wait for an announcement
                followed.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5.0)

    @property
    def running(self) -> bool:
        """Whether new heads come by themselves."""
        return self._thread.is_alive()

    @property
    def latest(self) -> Head | None:
        """The newest head seen, taken or not."""
        return self._latest

    @property
    def block_s(self) -> float:
        """Seconds between two blocks, as they have come of late; 0 before the second."""
        times = sorted(self._block_times)
        return min(times[len(times) // 2], _BLOCK_MAX_S) if times else 0.0

    def offer(self, head: Head) -> None:
        """Take a head that somebody else has read from the node. Raises RpcDown."""
        self._accept(head)

    def after(self, known: bytes, timeout_s: float) -> Head | None:
        """Return the newest head, taken or not, once it is not `known`; None after `timeout_s`, or
        when `wake` is called."""
        with self._wake:
            if self._latest is None or self._latest.hash == known:
                self._wake.wait(timeout_s)
            newer = self._latest is not None and self._latest.hash != known
            return self._latest if newer else None

    def wake(self) -> None:
        """End a `wait` early without a new head."""
        with self._wake:
            self._wake.notify_all()

    def wait(self, timeout_s: float) -> Head | None:
        """Return the newest head not yet taken, waiting up to `timeout_s`; None if none came.

        Heads that came between two calls are merged: the newest, with `reorged` set if any was.
        """
        with self._wake:
            if self._taken:
                self._wake.wait(timeout_s)
            if self._taken:
                return None
            self._taken = True
            return self._latest

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        pause, next_try = 0.5, 0.0
        while not self._stop.is_set():
            if self._ws_url and time.monotonic() >= next_try:
                try:
                    self._follow()
                    pause = 0.5
                except Exception as error:
                    if self._stop.is_set():
                        return
                    if not isinstance(error, _EXPECTED):
                        self._say(error)
                    elif self.connected or pause == 0.5:
                        why = scrub(str(error)) or "closed"
                        self._log.info("feed_polling", url=self._place, why=why)
                    pause = 0.5 if self.connected else min(2 * pause, _RETRY_MAX_S)
                self.connected, self._followed = False, None
                next_try = time.monotonic() + pause
            self._poll()
            self._stop.wait(self._pause())

    def _pause(self) -> float:
        """Seconds until the next poll."""
        block_s = self.block_s
        due = self._arrived + _EARLY * block_s - time.monotonic()
        return max(due, self._poll_s, min(block_s / 5, _LATE_POLL_S))

    def _poll(self) -> None:
        try:
            self._accept(self._chain.head())
        except RpcDown:
            pass  # the chain client has logged the outage; the next poll tries again
        except AgentError as error:
            self._log.warning("feed_poll_refused", why=str(error))
        except Exception as error:  # without this thread, the agent would never see a head again
            self._say(error)

    def _say(self, error: Exception) -> None:
        kind = type(error).__name__
        if kind not in self._failed:
            self._failed.add(kind)
            where = traceback.format_exc(limit=-6)
            self._log.error("feed_failed", why=f"{kind}: {scrub(str(error))}", traceback=where)

    def _follow(self) -> None:
        """Take heads from the WebSocket until it breaks (raises) or the feed stops."""
        with connect(self._ws_url, open_timeout=5, max_size=2**20) as followed:
            request = {"method": "eth_subscribe", "params": ["newHeads"], "id": 1, "jsonrpc": "2.0"}
            followed.send(json.dumps(request))
            answer = json.loads(followed.recv(timeout=5))
            if "error" in answer:
                raise ValueError(f"subscription refused: {answer['error']}")
            self.connected, self._followed = True, followed
            self._log.debug("feed_subscribed", url=self._place)
            self._accept(self._chain.head())
            heard = time.monotonic()
            while not self._stop.is_set():
                try:
                    message = json.loads(followed.recv(timeout=0.5))
                except TimeoutError:
                    if time.monotonic() - heard > max(self._silence_s, 2 * self.block_s):
                        self._accept(self._chain.head())
                        heard = time.monotonic()
                    continue
                heard = time.monotonic()
                if message.get("method") == "eth_subscription":
                    self._accept(head_from_json(message["params"]["result"]))

    def _accept(self, head: Head) -> None:
        with self._accepting:
            last, reorged = self._latest, False
            if last is not None:
                if head.hash == last.hash:
                    return
                if head.number == last.number + 1:
                    reorged = head.parent != last.hash
                else:
                    # Blocks were skipped or came back: is the last one seen still in the chain?
                    reorged = self._chain.newest_hash(last.number) != last.hash
                    if head.number <= last.number and not reorged:
                        return  # an announcement overtaken by a poll
                self._time(head.number - last.number)
            if reorged:
                self._log.warning("reorg", block=head.number)
            with self._wake:
                if not self._taken and self._latest is not None:
                    reorged = reorged or self._latest.reorged
                self._latest = replace(head, reorged=reorged)
                self._taken = False
                self._wake.notify_all()

    def _time(self, blocks: int) -> None:
        """Note how long the newest blocks took to come."""
        now = time.monotonic()
        if blocks > 0:
            self._block_times.append((now - self._arrived) / blocks)
        self._arrived = now
