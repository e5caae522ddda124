# SPDX-License-Identifier: Apache-2.0
"""Processes in network namespaces of their own, between which every packet is late.

Each process has one device (`tun0`, 10.77.0.<its number>), and all packets of all devices come to
one loop here. A packet leaves at the rate of its sender's line, takes the delay, and comes in at
the rate of its receiver's line; both lines have room for any number of packets and lose none. So
TCP and everything above it is the kernel's and the project's own. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections import defaultdict
from itertools import count

from tests.measure.pipeline_links import Link

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_INTERFACE, _TUN, _NO_HEADER = 0x400454CA, 0x0001, 0x1000
_NETWORK = "10.77.0"
_MTU = 1500


def address(number: int) -> str:
    """The address of a process, 1 to 254."""
    return f"{_NETWORK}.{number}"


def enter(number: int) -> int:
    """Take the calling process into a namespace of its own; the device's file.

    OSError without the right, or without tun devices."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "a network namespace needs root")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH14x", b"tun0", _TUN | _NO_HEADER))
    for line in (
        "link set lo up",
        f"addr add {address(number)}/24 dev tun0",
        f"link set tun0 mtu {_MTU} up",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    return device


def hand_over(device: int, to: socket.socket) -> None:
    """Give a device to the process at the other end of a socket."""
    socket.send_fds(to, [b"."], [device])


def taken(where: socket.socket) -> int:
    """The device that is handed over there."""
    _, (device,), *_ = socket.recv_fds(where, 1, 1)
    return int(device)


class Links(threading.Thread):
    """Carries packets until `stop`. Attributes: `packets`, `bytes` that were carried."""

    def __init__(self, devices: dict[int, int], link: Link) -> None:
        """`devices`: by number of the process."""
        super().__init__(daemon=True)
        self._devices, self._link = devices, link
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._order = count()
        self._up: dict[int, float] = defaultdict(float)  # until when a line is taken
        self._down: dict[int, float] = defaultdict(float)
        self._over = threading.Event()
        self.packets = self.bytes = 0

    def stop(self) -> None:
        """Carry nothing more."""
        self._over.set()
        self.join()

    def run(self) -> None:
        poll = select.epoll()
        senders = {device: number for number, device in self._devices.items()}
        for device in senders:
            os.set_blocking(device, False)
            poll.register(device, select.EPOLLIN)
        while not self._over.is_set():
            wait = self._waiting[0][0] - time.monotonic() if self._waiting else 0.2
            for device, _ in poll.poll(min(0.2, max(0.0, wait))):
                self._read(senders[device], device)
            self._deliver()
        poll.close()

    def _read(self, sender: int, device: int) -> None:
        for _ in range(64):  # so that what is due does not wait for a sender that never pauses
            try:
                packet = os.read(device, _MTU)
            except BlockingIOError:
                return
            receiver = packet[19]
            if packet[0] >> 4 != 4 or receiver not in self._devices:
                continue
            now, takes = time.monotonic(), len(packet) / self._link.bytes_per_s
            self._up[sender] = max(now, self._up[sender]) + takes
            there = self._up[sender] + self._link.delay
            self._down[receiver] = max(there, self._down[receiver] + takes)
            due = self._down[receiver], next(self._order), receiver, packet
            heapq.heappush(self._waiting, due)

    def _deliver(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            *_, receiver, packet = heapq.heappop(self._waiting)
            os.write(self._devices[receiver], packet)
            self.packets += 1
            self.bytes += len(packet)
