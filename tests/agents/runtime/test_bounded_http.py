# SPDX-License-Identifier: Apache-2.0
"""A stranger that is asked takes no more of one's time than it is given, whatever it plays with:
its name, its handshake or its reply."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agents.runtime import lookup
from agents.runtime.bounded_http import ask

_LONG_S = 30.0  # what a stranger plays for, if it is let
_honest = socket.getaddrinfo


class Names:
    """A resolver that waits for the servers of every name; `ended`: how many gave up."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun, self.ended = 0, 0

    def getaddrinfo(self, host: str, *rest: Any, flags: int = 0, **more: Any) -> Any:
        """As the system's, but of a name."""
        if flags & socket.AI_NUMERICHOST:
            return _honest(host, *rest, flags=flags, **more)
        self.begun += 1
        self.free.wait(_LONG_S)
        self.ended += 1
        raise socket.gaierror("nothing came")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.free.set()


def test_nobody_waits_for_a_name_whose_servers_are_mute(names: Names) -> None:
    with pytest.raises(OSError, match="did not come within"):
        ask("GET", "http://mute.example/", None, 0.2, 100)
    assert (names.begun, names.ended) == (1, 0)


def test_mute_names_take_a_bounded_number_of_threads(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_slots", threading.BoundedSemaphore(1))
    for _ in range(3):
        with pytest.raises(OSError):
            ask("GET", "http://mute.example/", None, 0.1, 100)
    assert names.begun == 1


def test_a_name_is_looked_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            taken, _ = server.accept()
            with taken:
                taken.recv(1000)
                taken.sendall(b"HTTP/1.0 200 OK\r\n\r\nhere")

        thread = threading.Thread(target=answer)
        thread.start()
        assert ask("GET", f"http://localhost:{port}/", None, 10.0, 100) == (200, b"here")
        thread.join()


def test_a_name_without_an_address_says_so(names: Names) -> None:
    names.free.set()
    with pytest.raises(socket.gaierror, match="nothing came"):
        ask("GET", "http://mute.example/", None, 10.0, 100)


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [("https", b"\x16\x03\x03\x40\x00"), ("http", b"HTTP/1.0 200 OK\r\n\r\n")],
    ids=["handshake", "reply"],
)
def test_what_trickles_in_is_hung_up_on(scheme: str, begin: bytes) -> None:
    """Each byte comes in time, and the last one never."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone, played_out = threading.Event(), threading.Event()

        def trickle() -> None:
            taken, _ = server.accept()
            with taken, suppress(OSError):
                taken.sendall(begin)
                for _ in range(int(_LONG_S / 0.05)):
                    if gone.wait(0.05):
                        return
                    taken.sendall(b"\0")
                played_out.set()

        thread = threading.Thread(target=trickle)
        thread.start()
        with suppress(OSError):
            ask("GET", f"{scheme}://127.0.0.1:{server.getsockname()[1]}/", None, 0.5, 10_000)
        assert not played_out.is_set()
        gone.set()
        thread.join()
