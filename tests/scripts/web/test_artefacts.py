# SPDX-License-Identifier: Apache-2.0
"""Small files of the store for the pages: read once, up to a bound, and never believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from scripts._web.api.artefacts import Artefacts


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def test_evidence_says_its_reason_and_no_more_of_it_than_fits(store: EmbeddedStore) -> None:
    files = Artefacts(store)
    said = store.put_bytes(dumps({"reason": "<b>it is not its shard's</b>", "node": 3}))
    long = store.put_bytes(dumps({"reason": "x" * 10_000}))
    assert files.reason(said) == "<b>it is not its shard's</b>"
    assert files.reason(long) == "x" * 600


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 30_000,
        b'{"reason": 5}',
        b'"reason"',
        b"null",
        b'{"reason": "' + b"x" * 70_000 + b'"}',
    ],
)
def test_a_malformed_file_says_nothing(store: EmbeddedStore, raw: bytes) -> None:
    files, cid = Artefacts(store), store.put_bytes(raw)
    digest = digest_of(cid).hex()
    assert files.reason(cid) == "" and files.report(digest) is None
    assert isinstance(files.spec(digest), str)


def test_a_file_that_comes_later_is_found_then(store: EmbeddedStore, tmp_path: Path) -> None:
    raw = dumps({"reason": "late"})
    cid = EmbeddedStore(tmp_path / "elsewhere").put_bytes(raw)
    files = Artefacts(store)
    assert files.reason(cid) == "" and not files.has(cid) and files.size(cid) is None
    store.put_bytes(raw)
    assert files.reason(cid) == "late" and files.has(cid) and files.size(cid) == len(raw)


def test_a_file_is_read_once(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files, cid = Artefacts(store), store.put_bytes(dumps({"reason": "once"}))
    assert files.reason(cid) == "once"
    monkeypatch.setattr(store, "get_digest", lambda *_: pytest.fail("it was read again"))
    assert files.reason(cid) == "once"


def test_a_spec_is_shown_as_its_sponsor_writes_it(store: EmbeddedStore) -> None:
    cid = store.put_bytes(dumps({"rounds": 4, "model": {"layers": 2}}))
    shown = Artefacts(store).spec(f"0x{digest_of(cid).hex()}")
    assert "rounds: 4" in shown and "  layers: 2" in shown


def test_without_a_store_there_is_nothing() -> None:
    files = Artefacts(None)
    assert files.report("0x" + "11" * 32) is None and files.spec("11" * 32) == ""
    assert not files.has("bafk") and files.size("bafk") is None
