# SPDX-License-Identifier: Apache-2.0
"""Copies of files that are sent: one for all readers of a file, and no more than fit."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from scripts._web.api import store as route
from scripts._web.api.copies import Busy, Copies


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def test_a_hundred_slow_readers_of_a_file_are_sent_one_copy(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cid = store.put_bytes(b"x" * 1_000)
    copies, made = Copies(store), 0
    copy = store.get_file

    def counted(*given: object) -> int:
        nonlocal made
        made += 1
        return copy(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "get_file", counted)
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(copies.lend(cid))) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == 1 and len(paths) == 100 and len(set(paths)) == 1
    assert copies.held == 1_000 and paths[0].read_bytes() == b"x" * 1_000
    copies.close()
    assert not paths[0].exists()


def test_what_is_sent_stays_and_the_rest_makes_room(store: EmbeddedStore) -> None:
    one, two, three = (store.put_bytes(bytes([n]) * 400) for n in range(3))
    copies = Copies(store, most=1_000)
    first, second = copies.lend(one), copies.lend(two)
    with pytest.raises(Busy):
        copies.lend(three)
    assert copies.held == 800 and first.exists() and second.exists()
    copies.give_back(one)
    third = copies.lend(three)
    assert not first.exists() and second.exists() and third.read_bytes() == b"\2" * 400
    copies.give_back(two)
    assert copies.lend(one).read_bytes() == b"\0" * 400 and not second.exists()


def test_what_the_store_lacks_or_is_too_large_takes_no_room(store: EmbeddedStore) -> None:
    copies = Copies(store, most=1_000)
    for _ in range(3):
        with pytest.raises(NotFound):
            copies.lend(cid_of_bytes(b"nobody has put this there"))
        with pytest.raises(Busy):
            copies.lend(store.put_bytes(b"y" * 1_001))
    assert copies.held == 0 and copies._copies == {}


@pytest.mark.parametrize(
    ("asked", "status"),
    [(None, 200), ("bytes=3-9", 206), ("bytes=9999-", 416), ("bytes=9-3", 400), ("pages=1", 400)],
)
def test_a_copy_is_given_back_whatever_was_asked_for(
    store: EmbeddedStore, asked: str | None, status: int
) -> None:
    cid = store.put_bytes(b"x" * 1_000)
    app = FastAPI()
    app.state.copies = copies = Copies(store)
    app.include_router(route.router)
    headers = {} if asked is None else {"range": asked}

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return (await client.get(f"/api/store/{cid}", headers=headers)).status_code

    assert asyncio.run(ask()) == status
    assert [copy.users for copy in copies._copies.values()] == [0]
