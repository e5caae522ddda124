# SPDX-License-Identifier: Apache-2.0
"""What the agents of a network here store through when they share no folder: IPFS, or stubs of it.

A daemon serves all agents, as it would on a machine of theirs. Where none runs, every agent gets a
stub of its own, a process that holds what its agent has put or asked for, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import requests

from agents.runtime.urls import hide
from agents.storage.content_store import open_store
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from agents.storage.ipfs import IpfsStore
from scripts._net.ports import free_port
from scripts._net.processes import ProcessError, Supervisor

FOLDER, ANY = "folder", "ipfs"
_USUAL = "/ip4/127.0.0.1/tcp/5001"
_LOOK_S = 2.0
_START_S = 60.0
_REPLY_S = 20.0
_MOST = 1 << 30  # bytes of one content that is copied


class Ipfs(Protocol):
    """The stores of a network's agents."""

    said: str
    """What it is, in words."""
    stays: str | None
    """The address at which all content stays after the run; None if it ends with it."""

    def address(self, name: str) -> str:
        """The API that a seat, or another reader or writer, stores through."""

    def start(self, supervisor: Supervisor, others: Sequence[str] = ()) -> None:
        """Start what is not there, also for `others` than the seats. Raises ProcessError."""

    def exchanged(self) -> int | None:
        """Bytes that went from one node to another, None where that can't be told."""

    def copy_to(self, folder: Path) -> None:
        """Copy what ends with the run into a folder store."""


class Daemon:
    """One daemon that somebody runs, for all."""

    def __init__(self, url: str) -> None:
        self.stays: str | None = url
        self.said = f"the daemon at {hide(url)}"

    def address(self, name: str) -> str:
        """The daemon's API, whoever asks."""
        return str(self.stays)

    def start(self, supervisor: Supervisor, others: Sequence[str] = ()) -> None:
        """It runs already."""

    def exchanged(self) -> int | None:
        """Unknown: it also serves others."""
        return None

    def copy_to(self, folder: Path) -> None:
        """Nothing: the daemon has pinned it."""


class Stubs:
    """A stub of a node for each name, at a port of its own; each knows all others."""

    stays: str | None = None
    said = "a stub of the IPFS API, one for each node; no daemon was here"

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}

    def address(self, name: str) -> str:
        """The API of a name's own stub. The first call for a name, before `start`, makes it."""
        if name not in self._ports:
            self._ports[name] = free_port()
        return f"http://127.0.0.1:{self._ports[name]}"

    def start(self, supervisor: Supervisor, others: Sequence[str] = ()) -> None:
        """Start all stubs side by side, and wait until each answers. Raises ProcessError."""
        for name in others:
            self.address(name)
        for name, port in self._ports.items():
            peers = [str(other) for other in self._ports.values() if other != port]
            module = ["-m", "scripts._net.ipfs_node", str(port), *peers]
            supervisor.start(_process(name), [sys.executable, *module])
        for name in self._ports:
            supervisor.wait_ready(_process(name), partial(self._answers, name), _START_S)

    def exchanged(self) -> int | None:
        """Bytes that stubs have taken from others."""
        return sum(self._asked(name, "stats/bw")["TotalIn"] for name in self._ports)

    def copy_to(self, folder: Path) -> None:
        """Copy what each node has pinned, read through the client. Raises StoreError."""
        copies = EmbeddedStore(folder)
        for name in self._ports:
            store = open_store(self.address(name))
            for cid in self._asked(name, "pin/ls")["Keys"]:
                if not copies.has(cid):
                    copies.put_bytes(store.get(cid, _MOST))
            store.close()

    def _answers(self, name: str) -> bool:
        try:
            return bool(self._asked(name, "version"))
        except requests.RequestException:
            return False

    def _asked(self, name: str, call: str) -> dict[str, Any]:
        reply = requests.post(f"{self.address(name)}/api/v0/{call}", timeout=_REPLY_S)
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found


def find_ipfs(asked: str, usual: str = "") -> Ipfs | None:
    """The stores that a setting names: `folder` (None), `ipfs`, or the address of a daemon's API.

    For `ipfs` it is the daemon at `usual`, else the one at the usual address, if it answers; stubs
    otherwise. Raises ProcessError where an address was given and no daemon answers there.
    """
    if asked == FOLDER:
        return None
    given = usual if asked == ANY else asked
    try:
        _reach(given)
    except StoreError as error:
        if given:
            raise ProcessError(
                f"no IPFS daemon for the agents' stores: {error}. --store ipfs, without IPFS_API "
                "in the environment, runs stubs where there is none"
            ) from None
        return Stubs()
    return Daemon(given or _USUAL)


def _reach(url: str) -> None:
    """Ask the daemon at `url`, else the one at the usual address, which is asked once only."""
    opened = (
        open_store(url, timeout_s=_LOOK_S)
        if url
        else IpfsStore(_USUAL, timeout_s=_LOOK_S, attempts=1)
    )
    if not isinstance(opened, IpfsStore):
        raise StoreError(f"{url} is a folder, not the address of an IPFS daemon's API")
    opened.version()
    opened.close()


def _process(name: str) -> str:
    return f"ipfs-{name}"
