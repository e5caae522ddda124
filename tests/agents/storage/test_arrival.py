# SPDX-License-Identifier: Apache-2.0
"""Content comes to lie as it was sent, whatever was promised of it and however slow hashing is."""

from __future__ import annotations

import io
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agents.storage import CorruptContent, TooLarge
from agents.storage.arrival import PIECE, InFile, InMemory, Meanwhile
from agents.storage.cid import PROFILE, CidBuilder, cid_of_bytes
from agents.storage.ipfs import IpfsStore

LIMIT = 1 << 40
DATA = random.Random(5).randbytes((9 << 20) + 17)
SMALL = b"a few bytes"
PROMISES = {
    "true": len(DATA),
    "none": None,
    "nothing": 0,
    "less": 3 * PIECE + 5,
    "more": 3 * len(DATA),
    "more than there is memory": LIMIT - 1,
    "more than a number": "9" * 4000,
    "below nothing": -5,
    "no number": "١٢",
}


@pytest.fixture(params=PROMISES.values(), ids=list(PROMISES))
def promising(kubo: Any, ipfs: IpfsStore, request: Any, monkeypatch: Any) -> IpfsStore:
    """A store whose daemon promises that of each reply."""
    send = kubo.RequestHandlerClass.send_header

    def promise(self: Any, name: str, value: str) -> None:
        if name != "X-Content-Length":
            send(self, name, value)
        elif request.param is not None:
            send(self, name, str(request.param).encode().decode("latin-1"))

    monkeypatch.setattr(kubo.RequestHandlerClass, "send_header", promise)
    return ipfs


@pytest.mark.parametrize("data", [DATA, SMALL, b""], ids=["large", "small", "empty"])
def test_a_promise_changes_nothing(promising: IpfsStore, data: bytes, tmp_path: Path) -> None:
    cid = promising.put_bytes(data)
    assert promising.get(cid, LIMIT) == data
    assert promising.get(cid, len(data)) == data
    assert promising.get_file(cid, tmp_path / "out", LIMIT) == len(data)
    assert (tmp_path / "out").read_bytes() == data
    if data:
        with pytest.raises(TooLarge):
            promising.get(cid, len(data) - 1)


def test_what_came_again_after_a_break_lies_behind_what_came(kubo: Any, ipfs: IpfsStore) -> None:
    cid = ipfs.put_bytes(DATA)
    for fault in ("cut", "truncate"):
        kubo.faults.extend([fault])
        assert ipfs.get(cid, LIMIT) == DATA
    kubo.faults.extend(["flip"])
    with pytest.raises(CorruptContent):
        ipfs.get(cid, LIMIT)


@pytest.mark.parametrize("promised", [0, len(DATA) // 2, len(DATA), 2 * len(DATA)])
@pytest.mark.parametrize("step", [PIECE, PROFILE.chunk_size - 1])
def test_no_piece_is_moved_or_overwritten_before_it_is_hashed(promised: int, step: int) -> None:
    for_file = io.BytesIO()
    for place in (InMemory(), InFile(for_file)):
        builder, size = CidBuilder(), 0

        def slowly(piece: memoryview, builder: CidBuilder = builder) -> None:
            time.sleep(0.002)
            builder.update(piece)

        place.expect(promised)
        with Meanwhile(slowly) as pieces:
            while size < len(DATA):
                with place.room(size, pieces.wait) as room:
                    assert (size + len(room)) % PROFILE.chunk_size == 0 or promised
                    part = DATA[size : size + min(step, len(room))]
                    room[: len(part)] = part
                    place.keep(room[: len(part)])
                    pieces.take(room[: len(part)])
                    size += len(part)
            pieces.wait()
        assert builder.cid() == cid_of_bytes(DATA)
        kept = place.content() if isinstance(place, InMemory) else for_file.getvalue()
        assert kept == DATA


def test_a_promise_takes_no_memory() -> None:
    place = InMemory()
    before = _resident()
    place.expect(1 << 30)
    with place.room(0, lambda: None) as room:
        room[: len(SMALL)] = SMALL
        place.keep(room[: len(SMALL)])
    assert place.content() == SMALL
    assert _resident() - before < 32 << 20


def test_what_hashing_raises_is_raised_and_the_thread_ends() -> None:
    seen = []

    def fail(piece: memoryview) -> None:
        seen.append(threading.current_thread())
        if len(seen) == 3:
            raise KeyError

    with pytest.raises(KeyError), Meanwhile(fail) as pieces:
        for _ in range(9):
            pieces.take(memoryview(bytearray(PIECE)))
    assert seen[0] is threading.current_thread()  # as long as it is small
    assert seen[-1] is not threading.current_thread() and not seen[-1].is_alive()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
