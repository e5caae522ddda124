# SPDX-License-Identifier: Apache-2.0
"""Of those who propose a noised result for one round, the one that stands is published alone."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import ZERO_DIGEST, Phase
from agents.rounds.held_back import HeldBack
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboHandler, KuboServer, _file_part

FIRST = (b"noised update", b"checkpoint", b"report of it")
SECOND = (b"other noise", b"report of that")


def view_of(round_id: int, report: bytes | None = None, **more: Any) -> Any:
    """A view of job 3, and of the report of the result that stands there."""
    result = ZERO_DIGEST if report is None else b"\1" * 32
    round_ = SimpleNamespace(result_hash=result, settled=False, report=report, **more)
    return SimpleNamespace(job_id=3, round_id=round_id, round=round_, phase=Phase.CHALLENGE)


def proposal(job: int, round_id: int, round_: Any) -> Any:
    return SimpleNamespace(report=digest_of(cid_of_bytes(round_.report)))


NETWORK: Any = SimpleNamespace(proposal=proposal)


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


def held(store: Any, folder: Path) -> HeldBack:
    return HeldBack(NETWORK, store, folder)


def there(store: EmbeddedStore, *files: bytes) -> list[bytes]:
    """Which of these files the store has."""
    return [file for file in files if store.has(cid_of_bytes(file))]


def test_nothing_is_published_before_a_result_stands(store: EmbeddedStore, tmp_path: Path) -> None:
    mine = held(store, tmp_path)
    mine.keep(view_of(7), FIRST)
    assert mine.step(view_of(7)) is None
    assert there(store, *FIRST) == []
    assert "stands" in (mine.step(view_of(7, FIRST[-1])) or "")
    assert there(store, *FIRST) == [*FIRST]
    assert mine.step(view_of(7, FIRST[-1])) is None


def test_whose_result_does_not_stand_publishes_nothing(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    """Nor the first of two results of its own, of which the second stands."""
    mine = held(store, tmp_path)
    mine.keep(view_of(7), FIRST)
    assert mine.step(view_of(7, b"a stranger's report")) is None
    mine.keep(view_of(7), SECOND)
    assert mine.step(view_of(7, SECOND[-1])) is not None
    assert there(store, *FIRST, *SECOND) == [*SECOND]


def test_a_restart_publishes_what_stands(store: EmbeddedStore, tmp_path: Path) -> None:
    held(store, tmp_path).keep(view_of(7), FIRST)
    assert held(store, tmp_path).step(view_of(7, FIRST[-1])) is not None
    assert there(store, *FIRST) == [*FIRST]


def test_a_store_that_is_down_is_tried_again(store: EmbeddedStore, tmp_path: Path) -> None:
    class Down(EmbeddedStore):
        def put_file(self, path: str | Path) -> str:
            raise StoreUnavailable("down")

    held(store, tmp_path).keep(view_of(7), FIRST)
    mine = held(Down(store.root), tmp_path)
    with pytest.raises(StoreUnavailable):
        mine.step(view_of(7, FIRST[-1]))
    mine._store = store
    assert "stands" in (mine.step(view_of(7, FIRST[-1])) or "")


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        (["", "error:pin: context deadline exceeded"], NotFound),  # it collects garbage meanwhile
        (["late:pin: context deadline exceeded"], NotFound),
        (["damage"], CorruptContent),
    ],
)
def test_a_daemon_that_fails_once_loses_no_result(
    tmp_path: Path, faults: list[str], error: type[StoreError]
) -> None:
    """Else the proposer of a right result loses the challenge that nobody can have its report."""
    server = KuboServer(handler=_Damaging)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    store = IpfsStore(server.address, attempts=2, backoff_s=0.005)
    try:
        mine = held(store, tmp_path)
        mine.keep(view_of(7), FIRST)
        server.faults.extend(faults)
        with pytest.raises(error):
            mine.step(view_of(7, FIRST[-1]))
        assert "stands" in (mine.step(view_of(7, FIRST[-1])) or "")
        assert server.pins == {cid_of_bytes(file) for file in FIRST}
    finally:
        store.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Damaging(KuboHandler):
    """Loses the last byte of what it is to add, where the fault says so."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if fault == "damage":
            added = self.server.add(_file_part(body)[:-1], options | {"pin": "false"})
            self.send_json({"Name": "", "Hash": added})
        else:
            super().answer(call, options, body, fault)


def test_a_file_that_is_gone_is_said_once(store: EmbeddedStore, tmp_path: Path) -> None:
    mine = held(store, tmp_path)
    mine.keep(view_of(7), FIRST)
    (place,) = tmp_path.glob("held-*")
    shutil.rmtree(place)
    assert "can't be published" in (mine.step(view_of(7, FIRST[-1])) or "")
    assert mine.step(view_of(7, FIRST[-1])) is None


@pytest.mark.parametrize("how", ["later", "settled", "void"])
def test_files_go_when_the_round_is_over(store: EmbeddedStore, tmp_path: Path, how: str) -> None:
    mine = held(store, tmp_path)
    mine.keep(view_of(7), FIRST)
    view = view_of(8 if how == "later" else 7)
    view.round.settled = how == "settled"
    view.phase = Phase.VOID if how == "void" else Phase.AGGREGATE
    assert mine.step(SimpleNamespace(**{**vars(view), "job_id": 4})) is None
    assert len([*tmp_path.glob("held-*")]) == 1, "another job's round says nothing of it"
    assert mine.step(view) is None
    assert [*tmp_path.glob("held-*")] == []
