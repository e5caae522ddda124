# SPDX-License-Identifier: Apache-2.0
"""A trainer that dies between its commitment and the end of its publication: started again, it
reveals and publishes, or it would be slashed, or neither merged nor paid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.storage.cid import parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import COMMIT, Node, People
from tests.stage.chain.validators import ValidatedJob
from tests.stage.memory.honest_round import TinyJob
from tests.stage.terminal import until


@pytest.fixture
def job(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ValidatedJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield ValidatedJob(people, tiny, tmp_path, stack)


class Asked(EmbeddedStore):
    """It lists what is read from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[bytes] = []

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        self.read.append(digest)
        return super().get_digest(digest, max_bytes)


def test_a_reveal_after_a_restart_reads_nothing_of_the_sponsors(
    job: ValidatedJob, ann: Node
) -> None:
    """Who serves its spec slowly, or no more, would hold the reveal up until its time is over."""
    first = job.trainer(ann)
    job.people.open()
    job.people.chain.mine()
    said = first.commit(job.view(first), ann.node_id)
    assert said is not None and said.startswith("committed:")
    job.people.pass_phase(COMMIT)
    store = Asked(job.folder / "store")
    again = Trainer(job.begin(ann, "trainer"), store)
    said = again.reveal(job.view(again), ann.node_id)
    assert said is not None and said.startswith("revealed:")
    assert store.read == []


def test_what_was_revealed_is_published_after_a_restart(job: ValidatedJob, ann: Node) -> None:
    first = job.trainer(ann)
    job.reveal((first, ann))
    place = (*job.people.place, job.view(first).round.opened_block)
    content = first.network.reveals(*place)[ann.node_id].content
    until(lambda: first.publication.step() is None and not first.publication._wanted, "published")
    payload = job.store.resolve(content)
    job.store._path(parse_cid(payload)).unlink()  # as if the store had never got it
    again = job.trainer(ann)

    def stepped() -> bool:
        again._open(job.view(again), ann.node_id)
        again.publication.step()
        return job.store.has(payload)

    until(stepped, "the payload is in the store again", 30)
