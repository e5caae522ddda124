# SPDX-License-Identifier: Apache-2.0
"""A checkpoint or an update that comes slowly holds up what needs it, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.rounds import data_access, member_access
from agents.rounds.history import merged_updates
from agents.rounds.large_files import LargeFiles, StillComing
from agents.rounds.models import Models
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.runtime.turns import Turns
from agents.storage.cid import digest_of
from agents.storage.errors import NotFound
from agents.storage.ipfs import IpfsStore
from agents.training.state import model_hash
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.memory.honest_round import JOB, ChainFacts, HonestRound
from tests.stage.served import serving

MOST = 1 << 24
LONGEST_S = 1.0
PATIENCE_S = 30.0


class Slow(KuboServer):
    """A daemon to which some files come only when the test says so. `asked`: once for each read."""

    def __init__(self) -> None:
        super().__init__(0, _Waits)
        self.slow: set[bytes] = set()
        self.comes = threading.Event()
        self.asked = 0


class _Waits(KuboHandler):
    server: Slow

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if call in ("cat", "block/get") and digest_of(options["arg"]) in self.server.slow:
            self.server.asked += 1
            self.server.comes.wait(PATIENCE_S)
        super().answer(call, options, body, fault)


@pytest.fixture
def server() -> Iterator[Slow]:
    with serving(Slow()) as server:
        yield server
        server.comes.set()


@pytest.fixture
def store(tiny: HonestRound, server: Slow) -> Iterator[IpfsStore]:
    """Holds a job's files."""
    store = IpfsStore(server.address)
    published = tiny.published
    for cid in (published.spec_cid, published.spec.data, published.checkpoint_cid):
        assert store.put_bytes(tiny.store.get(cid, MOST)) == cid
    yield store
    store.close()


def until_there(files: LargeFiles) -> None:
    for begun in [*files._coming._begun.values()]:
        begun.result(timeout=PATIENCE_S)


def test_a_file_that_comes_slowly_is_waited_for_once_and_taken_when_it_is_there(
    server: Slow, store: IpfsStore
) -> None:
    cid, files = store.put_bytes(b"a checkpoint"), LargeFiles(store, LONGEST_S)
    server.slow.add(digest_of(cid))
    for _ in range(3):
        with pytest.raises(StillComing, match="still coming"):
            files.get(cid, MOST)
    assert server.asked == 1 and not server.comes.is_set()
    server.comes.set()
    until_there(files)
    assert files.get(cid, MOST) == b"a checkpoint" == files.get_digest(digest_of(cid), MOST)
    assert not files._coming and not files._until


def test_files_that_nobody_asks_for_again_make_room(server: Slow, store: IpfsStore) -> None:
    files = LargeFiles(store, 0.01)
    for number in range(20):
        cid = store.put_bytes(b"file %d" % number)
        server.slow.add(digest_of(cid))
        with pytest.raises(StillComing):
            files.get(cid, MOST)
        assert len(files._coming) <= 8


def test_what_is_missing_is_missing(store: IpfsStore) -> None:
    with pytest.raises(NotFound) as caught:
        LargeFiles(store).get_digest(bytes(32), MOST)
    assert not isinstance(caught.value, StillComing)


def test_a_sponsor_that_serves_its_model_slowly_holds_up_no_other_job(
    tiny: HonestRound, facts: ChainFacts, server: Slow, store: IpfsStore, tmp_path: Path
) -> None:
    server.slow.add(digest_of(tiny.published.checkpoint_cid))
    files = LargeFiles(store, LONGEST_S)
    models = Models(facts, store, large=files)
    did: list[str] = []

    def slow_job() -> str:
        did.append(model_hash(models.current(JOB)).hex())
        return "trained"

    log = open_log("aggregator", "info", path=tmp_path / "log")
    turns = Turns(log, Metrics("aggregator"))
    assert turns.step({1: slow_job, 2: lambda: "proposed"}) == "proposed"
    assert not did and not server.comes.is_set()
    server.comes.set()
    until_there(files)
    assert slow_job() == "trained"
    assert did == [tiny.published.model.hex()]


def test_a_checkpoint_that_is_still_coming_is_not_passed_over(
    tiny: HonestRound, facts: ChainFacts, server: Slow, store: IpfsStore
) -> None:
    """Else all updates since an older one would be read, each of which may come slowly too."""
    plan_round = tiny.outcome_of(tiny.plan, tiny.honest())
    checkpoint = store.put_bytes(b"anything, which nobody has seen yet")
    report = plan_round.report.model_copy(update={"checkpoint": checkpoint})
    facts.record(1, replace(plan_round, report=report), store)
    server.slow |= {digest_of(checkpoint), digest_of(plan_round.report.update)}
    models = Models(facts, store, large=LargeFiles(store, LONGEST_S))
    with pytest.raises(StillComing):
        models.at(JOB, plan_round.model)
    assert server.asked == 1, "the update was not asked for"


def test_text_that_comes_slowly_is_waited_for_no_longer(
    tiny: HonestRound, facts: ChainFacts, server: Slow, store: IpfsStore
) -> None:
    shards = tiny.job.data.dataset.shards
    for shard in shards:
        store.put_bytes(tiny.store.get(shard.cid, MOST))
    server.slow |= {digest_of(shard.cid) for shard in shards}
    files = LargeFiles(store, LONGEST_S)
    data = Models(facts, store, large=files).job(JOB).data
    with pytest.raises(StillComing):
        data.val_batches(1)
    assert not server.comes.is_set()
    server.comes.set()
    until_there(files)
    assert data.val_batches(1)


def test_threads_that_want_one_file_share_its_reading(server: Slow, store: IpfsStore) -> None:
    """And one that wants another file need not wait for it."""
    cid, other = store.put_bytes(b"slow"), store.put_bytes(b"at once")
    server.slow.add(digest_of(cid))
    files = LargeFiles(store, PATIENCE_S)
    with ThreadPoolExecutor(3) as pool:
        wanted = [pool.submit(files.get, cid, MOST) for _ in range(2)]
        while not server.asked:
            time.sleep(0.01)
        assert pool.submit(files.get, other, MOST).result(timeout=PATIENCE_S) == b"at once"
        assert not any(one.done() for one in wanted) and server.asked == 1
        server.comes.set()
        assert [one.result(timeout=PATIENCE_S) for one in wanted] == [b"slow"] * 2


def test_updates_of_the_history_are_read_so_too(
    tiny: HonestRound, facts: ChainFacts, server: Slow, store: IpfsStore
) -> None:
    outcome = tiny.outcome_of(tiny.plan, tiny.honest())
    facts.record(1, outcome, store)
    server.slow.add(digest_of(outcome.report.update))
    models = Models(facts, store, large=LargeFiles(store, LONGEST_S))
    with pytest.raises(StillComing):
        merged_updates(models, JOB, outcome.model, 1)
    assert not server.comes.is_set()


@pytest.mark.parametrize("access", [data_access.DataAccess, member_access.MemberAccess])
def test_agents_and_members_read_models_so(
    access: Any, facts: ChainFacts, store: IpfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_keys = SimpleNamespace(identity=None)
    for module in (data_access, member_access):
        for name in ("ReceivedKeys", "Sealing", "DataKeyDuty", "NeededShards", "Identity"):
            monkeypatch.setattr(module, name, lambda *_: no_keys, raising=False)
    context = SimpleNamespace(
        wallet=SimpleNamespace(address="0x" + "11" * 20),
        settings=SimpleNamespace(memory=None),
        metrics=Metrics("verifier"),
    )
    assert isinstance(access(facts, store, context).models.large, LargeFiles)
