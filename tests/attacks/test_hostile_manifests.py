# SPDX-License-Identifier: Apache-2.0
"""Mallory's job has a data manifest of a few bytes that claims more than any machine holds: a real
trainer that follows it does not freeze, grow or commit, and says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agents.jobs.publish import Terms, publish_job
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.view import observe
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from agents.trainer import Trainer
from agents.training.data import Dataset, Shard
from agents.training.documents import DataError
from agents.training.spec import SpecError
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import Node, People
from tests.stage.memory.honest_round import TinyJob

TEXT = [b"line %d of a small corpus, cubed %d\n" % (i, i**3) for i in range(600)]
REAL = bytes(range(256)) * 1024  # 256 KiB
CLAIMS = 2**28
MANIFESTS = {
    "one shard of 2**28 tokens": (
        [Shard(cid=cid_of_bytes(b""), tokens=CLAIMS)],
        "not in the store",
    ),
    "a hundred of them": (
        [Shard(cid=cid_of_bytes(b"%d" % n), tokens=CLAIMS) for n in range(100)],
        "not in the store",
    ),
    "a real one that claims more": (
        [Shard(cid=cid_of_bytes(REAL), tokens=CLAIMS)],
        "has 262144 bytes, the manifest says 268435456",
    ),
    "a real one 70,000 times": (
        [Shard(cid=cid_of_bytes(REAL), tokens=len(REAL))] * 70_000,
        "shard 1 is shard 0 again",
    ),
}


@pytest.fixture
def agents(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningAgents]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield RunningAgents(people, tmp_path, stack)


@pytest.mark.parametrize(("shards", "why"), MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_trainer_goes_on(
    agents: RunningAgents, ann: Node, tiny: TinyJob, tmp_path: Path, shards: list[Shard], why: str
) -> None:
    people, store = agents.people, EmbeddedStore(tmp_path / "store")
    store.put_bytes(REAL)
    fields = tiny.published.spec.model_dump(mode="json")
    good = publish_job(store, TEXT, {k: fields[k] for k in ("model", "optimizer")})
    manifest = Dataset.model_construct(version=1, dtype="uint8", shards=tuple(shards)).to_bytes()
    spec = good.spec.model_copy(update={"data": store.put_bytes(manifest)})
    bad = replace(good, spec=spec, spec_cid=store.put_bytes(spec.to_bytes()))
    people.job = people.create_job(people.sponsor, Terms().encode(bad), 0)
    people.chain.send(people.sponsor, people.token, "approve", people.pool.address, 2**255)
    people.give(people.sponsor, Terms().reward_per_round)
    people.fund(people.sponsor, people.job, Terms().reward_per_round)
    people.open()
    people.chain.mine()
    context = agents.begin(ann, "trainer", device="cpu", job_id=people.job)
    trainer = Trainer(context, store)
    before, began = _peak(), time.process_time()
    with pytest.raises((SpecError, DataError, StoreError), match=why) as said:
        trainer.commit(observe(trainer.network, people.job, context.chain.head()), ann.node_id)
    assert time.process_time() - began < 20
    assert _peak() - before < 512 << 20
    assert len(str(said.value)) < 400  # a sentence, not the manifest
    view = observe(trainer.network, people.job, context.chain.head())
    assert trainer._commitment(view, ann.node_id) == ZERO_DIGEST


def _peak() -> int:
    """The most memory that this process has ever held, in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])
