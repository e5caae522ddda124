# SPDX-License-Identifier: Apache-2.0
"""Publishing beside the loop: nothing waits for a store that is down, and nothing is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import ones

from agents.pipeline.checkpoint import States
from agents.rounds.publication import STATES, Publication
from agents.runtime.commitments import Commitments
from agents.runtime.journal import Journal
from agents.runtime.logs import open_log
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore, open_store
from agents.storage.errors import StoreUnavailable
from agents.storage.several import open_stores
from scripts._net.ports import free_port

NAME = "submission-1-2-00"
FILES = {"payload": b"a payload", "trace": b"a trace"}
PATIENCE_S = 30


class Stage:
    """One node's commitments and log; `woken` is set when publishing wakes its loop."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.woken = threading.Event()
        self.log = folder / "log"
        self.context: Any = SimpleNamespace(
            log=open_log("trainer", "info", path=self.log),
            feed=SimpleNamespace(wake=self.woken.set),
        )
        self.commitments = Commitments(journal, folder, "trainer")

    def publication(self, store: ContentStore) -> Publication:
        return Publication(self.context, store, self.commitments, tuple(FILES))

    def step_until(self, publication: Publication, found: Callable[[], bool]) -> None:
        for _ in range(PATIENCE_S):
            publication.step()
            if found():
                return
            self.woken.wait(1)
            self.woken.clear()
        raise AssertionError(self.log.read_text())


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    with Journal(tmp_path / "journal") as opened:
        yield opened


@pytest.fixture
def stage(tmp_path: Path, journal: Journal) -> Stage:
    made = Stage(tmp_path, journal)
    made.commitments.keep(NAME, {}, FILES)
    return made


def test_all_artefacts_are_published_once(stage: Stage, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    publication = stage.publication(store)
    publication.want(NAME)
    stage.step_until(publication, lambda: "published" in stage.log.read_text())
    assert all(store.has(cid_of_bytes(content)) for content in FILES.values())
    publication.want(NAME)
    publication.step()
    assert stage.log.read_text().count("published") == 1


def test_a_miners_states_are_published_with_the_rest_and_forgotten_with_it(
    stage: Stage, tmp_path: Path
) -> None:
    store, states = (
        open_store(str(tmp_path / "store")),
        States(stage.commitments.path(NAME, STATES)),
    )
    states.put(2, {"w": ones(3)})
    named = [*states.named(1), states.end({"w": ones(4)})]
    publication = stage.publication(store)
    publication.want(NAME)
    stage.step_until(publication, lambda: "published" in stage.log.read_text())
    assert all(store.has(cid) for cid in named)
    stage.commitments.forget("submission-1-2-")
    assert states.paths() == []


def test_a_store_that_is_down_is_tried_again(stage: Stage, tmp_path: Path) -> None:
    """A step returns at once all the same; the content goes out when the store is there."""
    folder = tmp_path / "store"
    publication = stage.publication(open_store(str(folder)))
    away = folder.rename(tmp_path / "unmounted")
    publication.want(NAME)
    stage.step_until(publication, lambda: "cannot_publish_yet" in stage.log.read_text())
    away.rename(folder)
    stage.step_until(publication, lambda: '"published"' in stage.log.read_text())
    assert open_store(str(folder)).has(cid_of_bytes(FILES["payload"]))


def test_a_submission_whose_files_are_gone_is_given_up(stage: Stage, tmp_path: Path) -> None:
    publication = stage.publication(open_store(str(tmp_path / "store")))
    publication.want("submission-1-1-00")
    stage.step_until(publication, lambda: '"published"' in stage.log.read_text())


@pytest.mark.parametrize("artefact", ["payload", "proof"])
@pytest.mark.parametrize("there", [b"another node's", None])
def test_what_is_not_what_was_committed_to_is_not_published(
    stage: Stage, tmp_path: Path, artefact: str, there: bytes | None
) -> None:
    """It is said once, and goes out when the file is put back."""
    name, files = "submission-1-3-00", {"payload": b"a payload", "proof": b"a proof"}
    digests = {what: digest_of(cid_of_bytes(raw)).hex() for what, raw in files.items()}
    fields = {"content": digests["payload"], "proof": digests["proof"]}
    stage.commitments.keep(name, fields, files)
    path = stage.commitments.path(name, artefact)
    path.unlink() if there is None else path.write_bytes(there)
    store = open_store(str(tmp_path / "store"))
    publication = Publication(stage.context, store, stage.commitments, tuple(files))
    publication.want(name)
    stage.step_until(publication, lambda: "artefact_lost" in stage.log.read_text())
    assert there is None or not store.has(cid_of_bytes(there))
    path.write_bytes(files[artefact])
    stage.step_until(publication, lambda: '"published"' in stage.log.read_text())
    assert all(store.has(cid_of_bytes(content)) for content in files.values())
    assert stage.log.read_text().count("artefact_lost") == 1


def test_before_a_commitment_a_store_must_take_content(stage: Stage, tmp_path: Path) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable):
        stage.publication(open_store(down)).check()
    stage.publication(open_stores([down, str(tmp_path / "store")])).check()


def test_a_folder_that_can_write_no_more_is_said_before_a_commitment(
    stage: Stage, tmp_path: Path
) -> None:
    """Also where it took content before, which it need not write again."""
    publication = stage.publication(open_store(str(tmp_path / "store")))
    publication.check()
    parts = tmp_path / "store" / "tmp"
    parts.rmdir()
    parts.touch()  # as a full disk: nothing new can be written
    with pytest.raises(StoreUnavailable, match="cannot write"):
        publication.check()
