# SPDX-License-Identifier: Apache-2.0
"""Owners of shards read pieces of payloads, over a real RPC, and come to the whole's bits.

One stage of 1.3 million numbers (21 leaves) and as many miners as a test wants. The attacks come
first: a payload that is sound where one owner looks, and not where another does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from agents.mechanisms import codec, merge
from agents.mechanisms.codec.parts.container import header
from agents.pipeline.butterfly import Butterfly, traffic, valid_shards
from agents.pipeline.shards import Statement, flat, merge_shards, settle, stage_seed
from agents.protocol.structs import Reveal
from agents.rounds.payload import read_payload
from agents.rounds.pieces import Pieces, fetch_pieces
from agents.rounds.report import UNAVAILABLE
from agents.storage.cid import PROFILE, cid_of_bytes, digest_of
from agents.storage.ipfs import IpfsStore
from agents.training.state import PayloadError
from scripts._net.kubo import KuboServer

SHAPES = {"blocks.0.a": (1000, 1000), "blocks.0.b": (300_000,), "head": (77,)}
LENGTH = 1_300_077
W = 4 * LENGTH
DENSE = codec.get("dense")()
START = len(header(DENSE.layout(SHAPES)))
MEAN = merge.get("mean")()
SEED = stage_seed(b"\x07" * 32, 0)
NINE = Fraction(9, 10)
CHUNK = PROFILE.chunk_size


def numbers(miner: int) -> Tensor:
    return torch.randn(LENGTH, generator=torch.Generator().manual_seed(miner))


def payload(row: Tensor) -> bytes:
    parts = row.split([1_000_000, 300_000, 77])
    named = zip(SHAPES, parts, strict=True)
    return DENSE.encode({name: part.view(SHAPES[name]) for name, part in named})


@dataclass
class Stage:
    """A stage's miners, what they published, and a daemon that has it."""

    kubo: KuboServer
    store: IpfsStore
    butterfly: Butterfly
    raw: dict[int, bytes]

    def publish(self, miner: int, raw: bytes) -> None:
        self.raw[miner] = raw
        self.store.put_bytes(raw)

    def put_number(self, miner: int, place: int, number: float) -> None:
        """Publish a payload with one other number in it."""
        row = numbers(miner)
        row[place] = number
        self.publish(miner, payload(row))

    def pieces(self, owner: int, of: int, plan_codec: Any = DENSE) -> Pieces:
        job: Any = SimpleNamespace(
            codec_at=lambda step: plan_codec, stage_shapes=lambda stage: SHAPES
        )
        plan: Any = SimpleNamespace(step=0, codec_seed=lambda codec, node: b"\1" * 32)
        content = digest_of(cid_of_bytes(self.raw[of]))
        reveal = Reveal(of, "", bytes(32), content, bytes(32), bytes(32))
        spans = [self.butterfly.spans[shard] for shard in self.butterfly.owned(owner)]
        return fetch_pieces(reveal, job, self.store, plan, 0, spans)

    def said(self, owner: int) -> tuple[Statement, int]:
        """What an owner states after it merged whom it could, and what it fetched of others."""
        found = {one: self.pieces(owner, one) for one in self.butterfly.miners}
        rows = {one: piece.row for one, piece in found.items() if piece.row is not None}
        made = merge_shards(self.butterfly, owner, [rows[one] for one in sorted(rows)], MEAN)
        digests = tuple(self.butterfly.digest(s, values) for s, values in made.items())
        said = Statement(1, 1, owner, SEED, tuple(sorted(rows)), b"\1" * 32, digests)
        return said, sum(one.fetched for other, one in found.items() if other != owner)

    def whole(self) -> dict[int, Tensor]:
        """The rows of those whose payload is sound as a whole."""
        good = {}
        for miner, raw in self.raw.items():
            try:
                good[miner] = flat(read_payload(raw, DENSE, SHAPES))
            except PayloadError:
                continue
        return good

    def settle(self, said: dict[int, Statement], least: Fraction = NINE) -> Any:
        good = self.whole()

        def again(others: tuple[int, ...]) -> Tensor | None:
            if not set(others) <= good.keys():
                return None
            return MEAN([{"all": good[one]} for one in others])["all"]

        merged = again(tuple(sorted(good)))
        assert merged is not None
        return settle(self.butterfly, merged, good, said, least, again), merged


@pytest.fixture
def stage_of() -> Iterator[Callable[[int], Stage]]:
    kubo = KuboServer()
    thread = threading.Thread(target=kubo.serve_forever, args=(0.01,))
    thread.start()
    store = IpfsStore(kubo.address, timeout_s=60, attempts=2, backoff_s=0.005)

    def made(count: int) -> Stage:
        miners = range(2, 2 + count)
        stage = Stage(kubo, store, Butterfly.draw(SEED, miners, LENGTH), {})
        for miner in miners:
            stage.publish(miner, payload(numbers(miner)))
        return stage

    yield made
    store.close()
    kubo.shutdown()
    kubo.server_close()
    thread.join()


# -- attacks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), 2.0**64])
def test_a_payload_that_is_spoilt_in_one_shard_freezes_nothing(
    stage_of: Callable[[int], Stage], number: float
) -> None:
    """Two owners see it. The others name its miner, and are no liars; the result is that of whoever
    merges whole payloads."""
    stage = stage_of(4)
    cheat = 3
    shard = next(s for s, pair in enumerate(stage.butterfly.pairs) if cheat not in pair)
    seers = set(stage.butterfly.pairs[shard])
    stage.put_number(cheat, stage.butterfly.spans[shard][0], number)
    said = {owner: stage.said(owner)[0] for owner in stage.butterfly.miners}
    for owner, one in said.items():
        assert (cheat in one.contributors) == (owner not in seers)
    found, merged = stage.settle(said)
    assert found.accepted and not found.lost and not found.liars and not found.elsewhere
    assert set(found.unjudged) == set(said) - seers
    assert torch.equal(found.update, merged)
    assert torch.equal(merged, MEAN([{"a": numbers(m)} for m in (2, 4, 5)])["a"])


def test_a_header_that_is_wrong_is_seen_by_whoever_merges_whole(
    stage_of: Callable[[int], Stage],
) -> None:
    stage = stage_of(3)
    raw = payload(numbers(2))
    stage.publish(2, b"\xff" * 8 + raw[8:])
    said = {owner: stage.said(owner)[0] for owner in stage.butterfly.miners}
    found, merged = stage.settle(said)
    assert found.accepted and not found.liars and found.unjudged == stage.butterfly.miners
    assert torch.equal(found.update, merged) and 2 not in stage.whole()


def test_a_leaf_that_is_withheld_freezes_nothing(stage_of: Callable[[int], Stage]) -> None:
    """The payload is not to be had as a whole; those who don't need the leaf can't know."""
    stage = stage_of(4)
    cheat = 3
    shard = next(s for s, pair in enumerate(stage.butterfly.pairs) if cheat not in pair)
    first, last = stage.butterfly.spans[shard]
    leaf = (START + 2 * (first + last)) // CHUNK
    gone = stage.raw[cheat][leaf * CHUNK : (leaf + 1) * CHUNK]
    del stage.kubo.blocks[digest_of(cid_of_bytes(gone)).hex()]
    seers = [owner for owner in stage.butterfly.miners if stage.pieces(owner, cheat).row is None]
    assert set(seers) == set(stage.butterfly.pairs[shard])
    assert stage.pieces(seers[0], cheat).reason.startswith(UNAVAILABLE)
    said = {owner: stage.said(owner)[0] for owner in stage.butterfly.miners}
    del stage.raw[cheat]  # of what a whole-merger has
    found, merged = stage.settle(said)
    assert found.accepted and not found.liars and not found.elsewhere
    assert torch.equal(found.update, merged)


def test_a_liar_that_names_more_miners_is_judged_by_those(stage_of: Callable[[int], Stage]) -> None:
    """They are sound, and not in the result for want of passes."""
    stage = stage_of(4)
    said = {owner: stage.said(owner)[0] for owner in stage.butterfly.miners}
    rows = stage.whole()
    fewer = (2, 3, 4)

    def again(others: tuple[int, ...]) -> Tensor | None:
        return MEAN([{"a": rows[one]} for one in others])["a"]

    merged = again(fewer)
    assert merged is not None
    honest = settle(stage.butterfly, merged, fewer, said, NINE, again)
    assert not honest.liars and not honest.unjudged and torch.equal(honest.update, merged)
    lie = Statement(1, 1, 5, SEED, (2, 3, 4, 5), b"\1" * 32, (b"\2" * 32,) * 3)
    found = settle(stage.butterfly, merged, fewer, {**said, 5: lie}, NINE, again)
    assert found.liars == {5: stage.butterfly.owned(5)}
    stranger = Statement(1, 1, 5, SEED, (2, 3, 4, 5, 99), b"\1" * 32, lie.digests)
    found = settle(stage.butterfly, merged, fewer, {**said, 5: stranger}, NINE, again)
    assert found.elsewhere == (5,) and not found.liars


@pytest.mark.parametrize("change", [b"", b"\0"])
def test_a_payload_of_another_size_is_no_payload(
    stage_of: Callable[[int], Stage], change: bytes
) -> None:
    stage = stage_of(2)
    stage.publish(2, payload(numbers(2)) + b"\0" if change else payload(numbers(2))[:-4])
    assert stage.pieces(3, 2).row is None and stage.pieces(3, 2).reason


# -- what is moved ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "killed"), [(3, 0), (4, 1), (6, 0), (6, 2)])
def test_bytes_that_an_owner_fetches_are_the_formulas(
    stage_of: Callable[[int], Stage], count: int, killed: int
) -> None:
    """k owners die after their payloads are there: nobody else fetches more, and the shards that
    stay are the formula's, with the bits of a merge of whole payloads."""
    stage = stage_of(count)
    alive = stage.butterfly.miners[killed:]
    said = {}
    for owner in alive:
        stage.kubo.sent = 0
        said[owner], fetched = stage.said(owner)
        parts = traffic(stage.butterfly, owner)
        # Leaves are fetched whole: at both ends of a shard some of one is another's.
        edges = (count - 1) * (2 * (count - 1) * CHUNK + 4096)
        assert parts.download_shards <= fetched <= parts.download_shards + edges
        assert fetched < stage.kubo.sent, "and its own payload's pieces, which it need not"
        share = fetched / ((count - 1) * (W + START))
        print(f"n={count} k={killed}: {fetched} B, {share:.3f} of whole payloads: {2 / count:.3f}")
    found, merged = stage.settle(said, Fraction(0))
    assert len(stage.butterfly.pairs) - len(found.lost) == valid_shards(count, killed)
    for shard, (first, last) in enumerate(stage.butterfly.spans):
        kept = torch.zeros(last - first) if shard in found.lost else merged[first:last]
        assert torch.equal(found.update[first:last], kept)
    assert torch.equal(merged, MEAN([{"a": numbers(m)} for m in stage.butterfly.miners])["a"])
    assert not found.liars and not found.unjudged


def test_what_has_no_place_for_each_number_is_read_whole(stage_of: Callable[[int], Stage]) -> None:
    stage = stage_of(2)
    sparse = codec.get("sparse")(per_chunk=64)
    parts = zip(SHAPES, numbers(2).split([1_000_000, 300_000, 77]), strict=True)
    change = {name: part.view(SHAPES[name]) for name, part in parts}
    raw = sparse.encode(change, None, b"\1" * 32)
    stage.publish(2, raw)
    found = stage.pieces(3, 2, sparse)
    assert found.fetched == len(raw) and found.row is not None
    assert torch.equal(found.row, flat(sparse.decode(raw, SHAPES, b"\1" * 32)))
