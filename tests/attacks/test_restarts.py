# SPDX-License-Identifier: Apache-2.0
"""A trainer that dies between its reveal and the end of its publication: started again, it
publishes what it revealed, or it would be neither merged nor paid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.storage.cid import parse_cid
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import Node, People
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
