# SPDX-License-Identifier: Apache-2.0
"""A stage's miner merges the shards that it owns, from what it can have in time.

Three stages of three miners, each with a post of its own; the chain's answers are fixed values.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.jobs.job import SpecError
from agents.pipeline.post import Post
from agents.pipeline.shards import MAX_STATEMENT
from agents.pipeline.statements import fetch
from agents.rounds import sharing as sharing_file
from agents.rounds.sharing import Sharing
from agents.storage.cid import Buffer
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import demo_spec
from tests.stage.memory.mined_round import (
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    make_mined_round,
)
from tests.stage.memory.pipeline_epoch import quiet_log
from tests.stage.memory.sharing_miners import (
    NINE,
    OPERATORS,
    WINDOW_S,
    Distant,
    Miners,
    epoch_of,
    far_from,
)


def test_a_miner_waits_for_the_seed_and_for_payloads(miners: Miners) -> None:
    node = NINE[0]
    miners.facts.drawn = False
    assert (
        miners.share(node) is None and fetch(miners.posts[node].url, epoch_of(miners.mined)) == []
    )
    miners.facts.drawn = True
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    away = miners.mined.submit(mate, missing="payload")
    miners.facts.revealed = {**miners.facts.revealed, mate: away.reveal}
    assert (
        miners.share(node) is None and fetch(miners.posts[node].url, epoch_of(miners.mined)) == []
    )
    miners.view.now = WINDOW_S // 2
    assert miners.share(node)


def test_a_miner_fetches_no_payload_of_another_stage(miners: Miners) -> None:
    node = NINE[0]
    reader, asked, put = miners.reader(), dict[bytes, int](), list[int]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            raw = super().get_digest(digest, max_bytes)
            asked[digest] = len(raw)
            return raw

        def put_bytes(self, data: Buffer) -> str:
            put.append(len(bytes(data)))
            return super().put_bytes(data)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    store = Watched(miners.mined.store.root)
    place = context, miners.facts, store, reader.models, reader.plans
    assert Sharing(*place, lambda *_: miners.posts[node]).step(miners.view, node)
    mates = miners.mates(miners.stage_of(node))
    contents = {reveal.content: one for one, reveal in miners.facts.revealed.items()}
    assert {contents[digest] for digest in asked if digest in contents} == set(mates)
    # W for each miner of the stage, and 2W/n for the shards that it owns.
    payload = len(miners.mined.shown(node).payload)
    assert sum(size for digest, size in asked.items() if digest in contents) == 3 * payload
    butterfly = miners.butterfly(miners.stage_of(node))
    shards, statement = put
    assert shards == 4 * sum(butterfly.sizes[shard] for shard in butterfly.owned(node))
    assert statement <= MAX_STATEMENT


def test_what_was_fetched_is_kept_while_a_payload_is_waited_for(miners: Miners) -> None:
    node = NINE[0]
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    away = miners.mined.submit(mate, missing="payload").reveal
    miners.facts.revealed = {**miners.facts.revealed, mate: away}
    reader, asked = miners.reader(), list[bytes]()

    class Watched(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            asked.append(digest)
            return super().get_digest(digest, max_bytes)

    context: Any = SimpleNamespace(wallet=WALLETS[node], log=quiet_log())
    place = context, miners.facts, Watched(miners.mined.store.root), reader.models, reader.plans
    sharing = Sharing(*place, lambda *_: miners.posts[node])
    assert sharing.step(miners.view, node) is None
    asked.clear()
    assert sharing.step(miners.view, node) is None
    assert set(asked) == {away.content}
    miners.view.now = WINDOW_S // 2
    assert sharing.step(miners.view, node)


def beside_a_slow_mate(miners: Miners, node: int) -> tuple[int, Distant, Sharing]:
    """A mate of the node's stage whose payload takes until `brought`, the store, and the node's
    own part."""
    mate = next(m for m in miners.mates(miners.stage_of(node)) if m != node)
    store, sharing = far_from(miners, node)
    store.slow = frozenset({miners.facts.revealed[mate].content})
    store.brought = threading.Event()
    return mate, store, sharing


def test_miners_that_publish_nothing_do_not_make_the_owners_of_shards_late(miners: Miners) -> None:
    """Attack: the searches for six of nine, one after the other, were over when the proposer waited
    no more. So no honest owner delivered anything, and every stage kept its weights."""
    node = NINE[0]
    store, sharing = far_from(miners, node)
    mute = [m for stage in range(3) for m in miners.mates(stage)[1:] if m != node]
    told = [miners.facts.revealed[one] for one in mute]
    store.mute = frozenset(r.content for r in told) | frozenset(r.proof for r in told)
    began = time.monotonic()
    assert sharing.step(miners.view, node) is None
    assert time.monotonic() - began < 5.0
    miners.view.now = WINDOW_S // 2
    assert sharing.step(miners.view, node)


def test_a_mate_that_serves_its_payload_slowly_does_not_make_an_owner_late(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for beside the loop, longer than one that serves nothing, and then left out."""
    monkeypatch.setattr(sharing_file, "_WAIT_S", 0.3)
    node = NINE[0]
    mate, store, sharing = beside_a_slow_mate(miners, node)
    try:
        for now in (0, 30):
            miners.view.now = now
            began = time.monotonic()
            assert sharing.step(miners.view, node) is None
            assert time.monotonic() - began < 20.0
        miners.view.now = 45
        assert sharing.step(miners.view, node)
        (said,) = fetch(miners.posts[node].url, epoch_of(miners.mined))
        assert mate not in said.contributors and node in said.contributors
    finally:
        store.brought.set()


def test_what_comes_slowly_is_merged_once_it_is_there(
    miners: Miners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing_file, "_WAIT_S", 0.3)
    node = NINE[0]
    mate, store, sharing = beside_a_slow_mate(miners, node)
    assert sharing.step(miners.view, node) is None
    store.brought.set()
    end, did = time.monotonic() + 30.0, None
    while did is None and time.monotonic() < end:
        did = sharing.step(miners.view, node)
    (said,) = fetch(miners.posts[node].url, epoch_of(miners.mined))
    assert did and mate in said.contributors


def test_a_miner_without_a_post_leaves_its_statement_at_others(miners: Miners) -> None:
    closed = NINE[3]
    own = Post("127.0.0.1", 0, quiet_log(), WHERE, miners.posts[closed].book, listen=False)
    own.statements.expect(epoch_of(miners.mined), OPERATORS)
    miners.posts[closed].stop()
    miners.posts[closed] = own
    for node in NINE:
        miners.share(node)
    assert {one.owner for one in miners.said()} == set(NINE)


def test_jobs_without_a_butterfly_keep_their_bytes(mined: MinedRound) -> None:
    raw = mined.job.spec.to_bytes()
    assert b"all_reduce" not in raw and b"least_valid" not in raw
    assert b"shards" not in mined.compute(mined.honest()).report.to_bytes()


def test_a_rule_that_looks_at_whole_updates_is_refused(tmp_path: Path) -> None:
    pipeline = {**PIPELINE, "all_reduce": "butterfly"}
    with pytest.raises(SpecError, match="merges shards"):
        make_mined_round(EmbeddedStore(tmp_path), pipeline=pipeline, merge="multi_krum")


@pytest.mark.parametrize("odd", [{"all_reduce": "ring"}, {"least_valid": 0.5}])
def test_options_that_make_no_sense_are_refused(odd: dict[str, Any]) -> None:
    block = {"layers": [1, 1], **odd}
    with pytest.raises(SpecError, match="all_reduce"):
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block)
