# SPDX-License-Identifier: Apache-2.0
"""A trainer whose IPFS daemon stops answering: what it committed to it reveals in time, and
publishes later; while no store takes content it does not commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.protocol.numbers import ZERO_DIGEST
from agents.storage.cid import PROFILE, digest_of
from agents.storage.errors import StoreUnavailable
from agents.storage.ipfs import IpfsStore
from agents.storage.several import open_stores
from agents.trainer import Trainer
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import AGGREGATE, COMMIT, Node, People
from tests.stage.chain.validators import ValidatedJob
from tests.stage.memory.honest_round import TinyJob
from tests.stage.served import serving
from tests.stage.terminal import until

AS_OURS = {
    "chunker": f"size-{PROFILE.chunk_size}",
    "max-file-links": str(PROFILE.max_links),
    "raw-leaves": "true",
    "cid-version": "1",
}


class Daemon(KuboServer):
    """A daemon that takes every call and answers none while `answers` is not set."""

    def __init__(self) -> None:
        super().__init__(handler=_Waits)
        self.answers = threading.Event()
        self.answers.set()


class _Waits(KuboHandler):
    server: Daemon

    def do_POST(self) -> None:
        self.server.answers.wait()
        super().do_POST()


@pytest.fixture
def job(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ValidatedJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr("agents.storage.ipfs_daemon._GRACE_S", 1.0)
    with ExitStack() as stack:
        yield ValidatedJob(people, tiny, tmp_path, stack)


@pytest.fixture
def daemon(job: ValidatedJob) -> Iterator[Daemon]:
    """It has what the job consists of."""
    daemon = Daemon()
    for path in job.store._objects.rglob("*.*"):
        daemon.add(path.read_bytes(), AS_OURS)
    with serving(daemon):
        yield daemon
        daemon.answers.set()


@pytest.fixture
def trainer(job: ValidatedJob, daemon: Daemon, ann: Node) -> Iterator[Trainer]:
    """Ann's, whose one store is the daemon."""
    store = IpfsStore(daemon.address, timeout_s=1.0, attempts=1)
    yield Trainer(job.begin(ann, "trainer"), store)
    store.close()


def test_a_reveal_does_not_wait_for_a_daemon_that_does_not_answer(
    job: ValidatedJob, daemon: Daemon, trainer: Trainer, ann: Node
) -> None:
    people = job.people
    people.open()
    people.chain.mine()
    said = trainer.commit(job.view(trainer), ann.node_id)
    assert said is not None and said.startswith("committed:")
    daemon.answers.clear()
    people.pass_phase(COMMIT)
    said = trainer.reveal(job.view(trainer), ann.node_id)
    assert said is not None and said.startswith("revealed:")
    assert people.phase == AGGREGATE
    place = (*people.place, job.view(trainer).round.opened_block)
    payload = trainer.network.reveals(*place)[ann.node_id].content
    log = job.folder / f"{ann.name}.log"

    def stepped(words: str) -> bool:
        trainer.publication.step()
        return words in log.read_text()

    until(lambda: stepped("cannot_publish_yet"), "the daemon was asked in vain", 30)
    assert payload not in map(digest_of, daemon.files)
    daemon.answers.set()
    until(lambda: stepped('"published"'), "the work is published", 30)
    assert payload in map(digest_of, daemon.files)


def test_nobody_commits_while_no_store_takes_content(
    job: ValidatedJob, daemon: Daemon, trainer: Trainer, ann: Node, tmp_path: Path
) -> None:
    job.people.open()
    job.people.chain.mine()
    _read_all(job, trainer, ann)
    daemon.answers.clear()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            trainer.commit(job.view(trainer), ann.node_id)
        assert trainer._commitment(job.view(trainer), ann.node_id) == ZERO_DIGEST
    # The second of its stores is enough.
    both = open_stores([daemon.address, str(tmp_path / "second")], timeout_s=1.0)
    again = Trainer(job.begin(ann, "trainer"), both)
    daemon.answers.set()
    _read_all(job, again, ann)
    daemon.answers.clear()
    said = again.commit(job.view(again), ann.node_id)
    assert said is not None and said.startswith("committed:")
    both.close()


def _read_all(job: ValidatedJob, trainer: Trainer, node: Node) -> None:
    """Have it work once, so that it reads nothing more when the daemon is silent."""
    view = job.view(trainer)
    plan = trainer.plans.of(view)
    assert plan is not None and trainer.produce(view, plan, node.node_id)
