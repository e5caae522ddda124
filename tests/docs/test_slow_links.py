# SPDX-License-Identifier: Apache-2.0
"""What the links between network namespaces do, on which the pipeline's shares of time rest."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.measure.pipeline_links import Link
from tests.measure.slow_links import Links, address, enter, hand_over, taken

_PORT, _BYTES = 7000, 300_000
_LINK = Link(bytes_per_s=1e6, delay=0.05)

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(),
    reason="network namespaces need root and /dev/net/tun",
)


def _answers(way: socket.socket) -> None:
    """Answer the first byte of each connection, then take the rest."""
    hand_over(enter(2), way)
    with socket.create_server((address(2), _PORT)) as server:
        way.send(b"!")
        for _ in range(2):
            (taker, _), left = server.accept(), 1 + _BYTES
            with taker:
                left -= len(taker.recv(1))
                taker.sendall(b"!")
                while left:
                    left -= len(taker.recv(65536))
                taker.sendall(b"!")


def _asks(way: socket.socket, talk: Connection) -> None:
    """Seconds of one byte there and back on an open connection, and of many bytes and an answer."""
    hand_over(enter(1), way)
    talk.recv()
    for _ in range(2):
        with socket.create_connection((address(2), _PORT)) as line:
            moments = [time.monotonic()]
            for message in (b"?", bytes(_BYTES)):
                line.sendall(message)
                assert line.recv(1) == b"!"
                moments.append(time.monotonic())
            talk.send((moments[1] - moments[0], moments[2] - moments[1]))


@needs_namespaces
def test_a_byte_takes_the_delay_each_way_and_many_bytes_take_the_rate() -> None:
    context = multiprocessing.get_context("fork")
    talk, there = context.Pipe()
    (ours, theirs), (our, their) = socket.socketpair(), socket.socketpair()
    children = [
        context.Process(target=_answers, args=(theirs,), daemon=True),
        context.Process(target=_asks, args=(their, there), daemon=True),
    ]
    for child in children:
        child.start()
    links = Links({2: taken(ours), 1: taken(our)}, _LINK)
    links.start()
    try:
        assert ours.recv(1) == b"!"
        talk.send(True)
        # Each time is a least one: what else the machine does can only add to it.
        for _ in range(2):
            byte, many = talk.recv()
            assert byte >= 2 * _LINK.delay
            assert many >= 2 * _LINK.delay + _BYTES / _LINK.bytes_per_s
        assert links.bytes > 2 * _BYTES
    finally:
        links.stop()
        for child in children:
            child.join(5)
            child.kill()
