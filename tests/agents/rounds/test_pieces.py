# SPDX-License-Identifier: Apache-2.0
"""Owners of shards read pieces of payloads, over a real RPC, and come to the whole's bits.

One stage of 1.3 million numbers (21 leaves) and as many miners as a test wants. The attacks come
first: a payload that is sound where one owner looks, and not where another does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from agents.audit.sources.artefacts import Artefacts
from agents.jobs.model_files import changed, hash_of, pack_change
from agents.mechanisms import codec, merge
from agents.mechanisms.codec.parts.container import header
from agents.pipeline.butterfly import Butterfly, traffic, valid_shards
from agents.pipeline.shards import (
    Settlement,
    Statement,
    flat,
    merge_shard,
    merge_shards,
    settle,
    stage_seed,
    unflat,
)
from agents.protocol.structs import Reveal
from agents.rounds.named import Named, read_named
from agents.rounds.payload import read_payload
from agents.rounds.pieces import Pieces, fetch_pieces
from agents.rounds.report import UNAVAILABLE
from agents.storage.cid import PROFILE, cid_of_bytes, digest_of
from agents.storage.errors import NotFound
from agents.storage.ipfs import IpfsStore
from agents.training.state import PayloadError, apply_outer
from agents.training.update import pack_update
from scripts._net.kubo import KuboServer

SHAPES = {"blocks.0.a": (1000, 1000), "blocks.0.b": (300_000,), "head": (77,)}
LENGTH = 1_300_077
W = 4 * LENGTH
DENSE = codec.get("dense")()
START = len(header(DENSE.layout(SHAPES)))
MEAN = merge.get("mean")()
SEED = stage_seed(b"\x07" * 32, 0)
LIE = b"\2" * 32
PLAN: Any = SimpleNamespace(step=0, codec_seed=lambda codec, node: b"\1" * 32)
NINE = Fraction(9, 10)
CHUNK = PROFILE.chunk_size
SMALL = 4096  # a root block, an index, headers of files and of parts of a request


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
    withheld: set[int] = field(default_factory=set)  # whose payload is not to be had as a whole
    stated: dict[int, bytes] = field(default_factory=dict)  # digests of no payload, by who says so

    @property
    def job(self) -> Any:
        return SimpleNamespace(codec_at=lambda step: DENSE, stage_shapes=lambda stage: SHAPES)

    def publish(self, miner: int, raw: bytes) -> None:
        self.raw[miner] = raw
        self.store.put_bytes(raw)

    def put_number(self, miner: int, place: int, number: float) -> None:
        """Publish a payload with one other number in it."""
        row = numbers(miner)
        row[place] = number
        self.publish(miner, payload(row))

    def reveal(self, miner: int) -> Reveal:
        content = self.stated.get(miner, digest_of(cid_of_bytes(self.raw[miner])))
        return Reveal(miner, bytes(32), content, bytes(32), bytes(32))

    def pieces(self, owner: int, of: int, plan_codec: Any = DENSE) -> Pieces:
        job: Any = SimpleNamespace(
            codec_at=lambda step: plan_codec, stage_shapes=lambda stage: SHAPES
        )
        spans = [self.butterfly.spans[shard] for shard in self.butterfly.owned(owner)]
        return fetch_pieces(self.reveal(of), job, self.store, PLAN, 0, spans)

    def said(self, owner: int) -> tuple[Statement, bytes]:
        """What an owner states after it merged whom it could, and the file of its shards."""
        found = {one: self.pieces(owner, one) for one in self.butterfly.miners}
        return self.stated_of(owner, found)

    def stated_of(self, owner: int, found: dict[int, Pieces]) -> tuple[Statement, bytes]:
        """The same from what it fetched."""
        rows = {one: piece.row for one, piece in found.items() if piece.row is not None}
        made = merge_shards(self.butterfly, owner, [rows[one] for one in sorted(rows)], MEAN)
        digests = tuple(self.butterfly.digest(s, values) for s, values in made.items())
        content = b"".join(made[shard].numpy().astype("<f4").tobytes() for shard in sorted(made))
        said = Statement(
            1, 1, owner, SEED, tuple(sorted(rows)), digest_of(cid_of_bytes(content)), digests
        )
        return said, content

    def whole(self) -> dict[int, Tensor]:
        """The rows of those whose payload is sound as a whole."""
        good = {}
        for miner, raw in self.raw.items():
            if miner in self.withheld:
                continue
            try:
                good[miner] = flat(read_payload(raw, DENSE, SHAPES))
            except PayloadError:
                continue
        return good

    def named(
        self, said: dict[int, Statement], unread: Collection[tuple[int, int]] | None = None
    ) -> Named:
        """What a proposer knows of payloads that are not in the merge; `unread`: a verifier."""
        good = self.whole()
        shown: Any = [
            SimpleNamespace(reveal=self.reveal(miner), gradient=good.get(miner))
            for miner in sorted(self.raw)
        ]
        stages = [(0, self.butterfly, said)]
        return read_named(self.job, self.store, PLAN, shown, stages, unread, within_s=60.0)

    def settle(
        self, said: dict[int, Statement], least: Fraction = NINE, named: Named | None = None
    ) -> tuple[Settlement, Tensor]:
        good = self.whole()
        known = self.named(said) if named is None else named

        def again(owner: int, shard: int) -> Tensor | None:
            others = said[owner].contributors
            pieces = known.pieces_of(self.butterfly, owner, shard, others, good)
            return None if pieces is None else merge_shard(pieces, MEAN)

        merged = MEAN([{"all": good[one]} for one in sorted(good)])["all"]
        return settle(self.butterfly, merged, good, said, least, again), merged

    def lie(self, said: Statement, *shards: int) -> Statement:
        """The statement with other digests of these shards."""
        owned = self.butterfly.owned(said.owner)
        told = zip(owned, said.digests, strict=True)
        return replace(said, digests=tuple(LIE if s in shards else one for s, one in told))

    def spoil(self, cheat: int, number: float = float("nan")) -> int:
        """Spoil a payload in a shard that the cheat does not own. Returns the shard."""
        pairs = self.butterfly.pairs
        shard = next(s for s, pair in enumerate(pairs) if cheat not in pair)
        self.put_number(cheat, self.butterfly.spans[shard][0], number)
        return shard

    def withhold(self, cheat: int) -> int:
        """Take down a leaf within a shard that the cheat does not own. Returns the shard."""
        pairs = self.butterfly.pairs
        shard = next(s for s, pair in enumerate(pairs) if cheat not in pair)
        leaf = (START + 2 * sum(self.butterfly.spans[shard])) // CHUNK
        gone = self.raw[cheat][leaf * CHUNK : (leaf + 1) * CHUNK]
        del self.kubo.blocks[digest_of(cid_of_bytes(gone)).hex()]
        self.withheld.add(cheat)
        return shard

    def all_say(self) -> dict[int, Statement]:
        return {owner: self.said(owner)[0] for owner in self.butterfly.miners}


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
    seers = set(stage.butterfly.pairs[stage.spoil(cheat, number)])
    said = stage.all_say()
    for owner, one in said.items():
        assert (cheat in one.contributors) == (owner not in seers)
    found, merged = stage.settle(said)
    assert found.accepted and not found.lost and not found.liars and not found.elsewhere
    assert not found.unjudged, "the others are judged by the pieces that they had to read"
    assert torch.equal(found.update, merged)
    assert torch.equal(merged, MEAN([{"a": numbers(m)} for m in (2, 4, 5)])["a"])


def test_a_header_that_is_wrong_is_seen_by_whoever_merges_whole(
    stage_of: Callable[[int], Stage],
) -> None:
    stage = stage_of(3)
    raw = payload(numbers(2))
    stage.publish(2, b"\xff" * 8 + raw[8:])
    said = stage.all_say()
    found, merged = stage.settle(said)
    assert found.accepted and not found.liars and not found.unjudged
    assert torch.equal(found.update, merged) and 2 not in stage.whole()
    lies = {**said, 3: stage.lie(said[3], stage.butterfly.owned(3)[0])}
    assert stage.settle(lies)[0].liars == {3: stage.butterfly.owned(3)[:1]}


def test_a_leaf_that_is_withheld_freezes_nothing(stage_of: Callable[[int], Stage]) -> None:
    """The payload is not to be had as a whole; those who don't need the leaf can't know."""
    stage = stage_of(4)
    cheat = 3
    shard = stage.withhold(cheat)
    seers = [owner for owner in stage.butterfly.miners if stage.pieces(owner, cheat).row is None]
    assert set(seers) == set(stage.butterfly.pairs[shard])
    assert stage.pieces(seers[0], cheat).reason.startswith(UNAVAILABLE)
    found, merged = stage.settle(stage.all_say())
    assert found.accepted and not found.liars and not found.elsewhere and not found.unjudged
    assert torch.equal(found.update, merged)


def test_a_friend_that_spoils_its_own_payload_hides_no_lie(
    stage_of: Callable[[int], Stage],
) -> None:
    """Where the owner looked, the friend's piece is sound and is merged again. Where it is not, the
    owner saw that, so no digest of a merge with it is right."""
    stage = stage_of(4)
    friend = 3
    spoilt = stage.spoil(friend)
    said = stage.all_say()
    liar = next(one for one in (2, 4, 5) if one not in stage.butterfly.pairs[spoilt])
    shard = next(s for s in stage.butterfly.owned(liar) if friend not in stage.butterfly.pairs[s])
    found, merged = stage.settle({**said, liar: stage.lie(said[liar], shard)})
    assert found.liars == {liar: (shard,)} and not found.unjudged
    assert not any(row.count(False) for row in found.matrix), "its partner names others"
    assert torch.equal(found.update, merged)
    seer = stage.butterfly.pairs[spoilt][0]
    names = replace(said[seer], contributors=stage.butterfly.miners)
    found, _ = stage.settle({**said, seer: names})
    assert spoilt in found.liars[seer] and not found.unjudged


def lies_behind_a_leaf(stage: Stage, friend: int) -> tuple[int, int, dict[int, Statement]]:
    """The shard of a leaf that the friend withholds, an owner of it that names the friend and lies
    about all of its shards, and what all state."""
    hidden = stage.withhold(friend)
    said = stage.all_say()
    liar = stage.butterfly.pairs[hidden][0]
    names = replace(said[liar], contributors=stage.butterfly.miners)
    return hidden, liar, {**said, liar: stage.lie(names, *stage.butterfly.owned(liar))}


def test_a_friend_that_withholds_a_leaf_hides_a_lie_in_that_leaf_alone(
    stage_of: Callable[[int], Stage],
) -> None:
    """Who says that it had the leaf may have had it from its friend: nobody can tell."""
    stage = stage_of(4)
    hidden, liar, lies = lies_behind_a_leaf(stage, 3)
    found, merged = stage.settle(lies)
    assert found.unjudged == {liar: (hidden,)}
    assert found.liars == {liar: tuple(s for s in stage.butterfly.owned(liar) if s != hidden)}
    assert torch.equal(found.update, merged), "and moves nothing by it"


def test_a_verifier_judges_by_what_the_proposer_published_again(
    stage_of: Callable[[int], Stage],
) -> None:
    """The friend takes all of its payload down after the proposal."""
    stage = stage_of(4)
    friend = 3
    hidden, liar, lies = lies_behind_a_leaf(stage, friend)
    proposed = stage.named(lies)
    places = {(owner, s) for owner, many in stage.settle(lies)[0].unjudged.items() for s in many}
    assert places == proposed.unread.keys() == {(liar, hidden)}
    raw, kept = stage.raw[friend], dict(stage.kubo.blocks)
    for at in range(0, len(raw), CHUNK):
        stage.kubo.blocks.pop(digest_of(cid_of_bytes(raw[at : at + CHUNK])).hex(), None)
    with pytest.raises(NotFound, match="can't be judged"):
        stage.named(lies, places)
    for block in proposed.blocks:
        stage.store.put_bytes(block)
    again = stage.named(lies, places)
    assert again.key() == proposed.key()
    assert stage.settle(lies, named=again)[0].liars == stage.settle(lies, named=proposed)[0].liars
    # What comes late is no reason to judge otherwise than the record.
    stage.kubo.blocks |= kept
    stage.publish(friend, raw)
    assert stage.named(lies, places).key() == proposed.key()


def test_an_auditor_judges_as_the_record_does(stage_of: Callable[[int], Stage]) -> None:
    """Also where a payload can't be had as a whole: that is what it notes, and nothing else."""
    stage = stage_of(4)
    *_, lies = lies_behind_a_leaf(stage, 3)
    proposed = stage.named(lies)
    artefacts: Any = Artefacts(stage.store)
    found = replace(stage, store=artefacts).named(lies, proposed.unread.keys())
    assert found.key() == proposed.key() and found.unread
    assert stage.settle(lies, named=found)[0].liars == stage.settle(lies)[0].liars
    assert all(not failure.altered for failure in artefacts.failures())


def test_a_file_that_no_blocks_make_is_seen_by_whoever_names_it(
    stage_of: Callable[[int], Stage],
) -> None:
    """Its root promises a leaf of another length. No honest owner of that shard names it."""
    stage = stage_of(3)
    raw = stage.raw[2]
    root = stage.kubo.blocks[digest_of(cid_of_bytes(raw)).hex()]
    first, other = raw[:CHUNK], b"short"
    false = root.replace(digest_of(cid_of_bytes(first)), digest_of(cid_of_bytes(other)))
    for block in (other, false):
        stage.kubo.blocks[digest_of(cid_of_bytes(block)).hex()] = block
    stage.stated[2] = digest_of(cid_of_bytes(false))
    stage.withheld.add(2)
    owner = next(one for one in (3, 4) if 0 in stage.butterfly.owned(one))
    assert stage.pieces(owner, 2).reason.startswith("bad payload")
    names = replace(stage.said(owner)[0], contributors=stage.butterfly.miners)
    named = stage.named({owner: names})
    assert (owner, 0) in named.faulty and not named.unread and false in named.blocks


def test_a_liar_that_names_more_miners_is_judged_by_those(stage_of: Callable[[int], Stage]) -> None:
    """They are sound, and not in the result for want of passes."""
    stage = stage_of(4)
    said = stage.all_say()
    rows = stage.whole()
    fewer = (2, 3, 4)

    def again(owner: int, shard: int) -> Tensor | None:
        first, last = stage.butterfly.spans[shard]
        return merge_shard([rows[one][first:last] for one in (*fewer, 5)], MEAN)

    merged = MEAN([{"a": rows[one]} for one in fewer])["a"]
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


def leaves_of(stage: Stage, owner: int) -> int:
    """Bytes of the leaves of one payload that hold some of an owner's shards."""
    spans = [stage.butterfly.spans[shard] for shard in stage.butterfly.owned(owner)]
    touched = {
        leaf
        for first, last in spans
        for leaf in range((START + 4 * first) // CHUNK, (START + 4 * last - 1) // CHUNK + 1)
    }
    return sum(min(CHUNK, START + W - leaf * CHUNK) for leaf in touched)


def published(stage: Stage, update: Tensor) -> Callable[[], None]:
    """Publish the stage's update as a proposer does. Returns how a miner reads and checks it."""
    job: Any = SimpleNamespace(
        slices=SimpleNamespace(last=0),
        spec=SimpleNamespace(outer_momentum=0.0),
        stage_shapes=lambda stage: SHAPES,
        kept_shapes=lambda stage: SHAPES,
    )
    change = unflat(update, SHAPES)
    before = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    after = apply_outer(before, change, 1.0)
    files = pack_change(job, change, after)
    for content in (*files.parts, files.main):
        stage.store.put_bytes(content)

    def read() -> None:
        index = cid_of_bytes(files.main)
        there = changed(job, stage.store, index, before, 1.0, hash_of(job, after), 0)
        assert torch.equal(flat(there), flat(after))

    return read


@pytest.mark.parametrize(("count", "killed"), [(3, 0), (4, 1), (6, 0), (6, 2)])
def test_bytes_that_a_miner_moves_are_the_formulas(
    stage_of: Callable[[int], Stage], count: int, killed: int
) -> None:
    """All that goes through the daemon: payload up, pieces down, merged shards up, update down.

    k owners die after their payloads are there: nobody else moves more, and the shards that stay
    are the formula's, with the bits of a merge of whole payloads.
    """
    stage = stage_of(count)
    miners, kubo = stage.butterfly.miners, stage.kubo
    alive, said = miners[killed:], dict[int, Statement]()
    parts = {miner: traffic(stage.butterfly, miner) for miner in miners}
    leaves = {miner: (count - 1) * leaves_of(stage, miner) for miner in miners}
    moved, own = Counter[int](), Counter[int]()

    def count_in(moves: Counter[int], miner: int, up: int, down: int, files: int = 1) -> None:
        """Note what a miner moved since the last call. It is this, and little more for a file."""
        assert up <= kubo.received <= up + files * SMALL
        assert down <= kubo.sent <= down + files * SMALL
        moves[miner] += kubo.received + kubo.sent
        kubo.received = kubo.sent = 0

    kubo.received = kubo.sent = 0
    for miner in miners:
        stage.publish(miner, stage.raw[miner])
        count_in(moved, miner, parts[miner].upload, 0)

    for owner in alive:
        found = {one: stage.pieces(owner, one) for one in miners if one != owner}
        fetched = sum(one.fetched for one in found.values())
        assert fetched == kubo.sent
        count_in(moved, owner, 0, leaves[owner], count - 1)
        # Its own payload lies on its disk. Here it is read as others' are, and counted apart.
        found[owner] = stage.pieces(owner, owner)
        count_in(own, owner, 0, leaves_of(stage, owner))
        said[owner], content = stage.stated_of(owner, found)
        stage.store.put_bytes(content)
        count_in(moved, owner, parts[owner].upload_shards, 0)
        share = fetched / ((count - 1) * (W + START))
        print(f"n={count} k={killed}: {fetched} B, {share:.3f} of whole payloads: {2 / count:.3f}")

    settled, merged = stage.settle(said, Fraction(0))
    assert len(stage.butterfly.pairs) - len(settled.lost) == valid_shards(count, killed)
    for shard, (first, last) in enumerate(stage.butterfly.spans):
        kept = torch.zeros(last - first) if shard in settled.lost else merged[first:last]
        assert torch.equal(settled.update[first:last], kept)
    assert torch.equal(merged, MEAN([{"a": numbers(m)} for m in miners])["a"])
    assert not settled.liars and not settled.unjudged

    read = published(stage, settled.update)
    # An update lists which numbers are zero where that is shorter, as in a lost shard.
    listed = len(pack_update(unflat(settled.update, SHAPES)))
    lost = 4 * sum(stage.butterfly.sizes[shard] for shard in settled.lost)
    assert W - lost <= listed <= W + SMALL and (lost > 0 or listed >= W)
    kubo.received = kubo.sent = 0
    for miner in alive:
        read()
        count_in(moved, miner, 0, listed)

    for miner in miners[:killed]:
        assert W <= moved[miner] <= W + SMALL, "its payload and nothing else"
    for miner in alive:
        # Leaves are fetched whole: at both ends of a shard some of one is another's.
        ends = leaves[miner] - parts[miner].download_shards
        assert 0 <= ends <= (count - 1) * 2 * (count - 1) * CHUNK
        least = parts[miner].total + ends - max(0, W - listed)
        assert least <= moved[miner] <= least + (count + 3) * SMALL
        print(
            f"n={count} k={killed}: {moved[miner] / W:.3f}W of {parts[miner].total / W:.3f}W, of "
            f"it {ends / W:.3f}W of others' shards; its own copy {own[miner] / W:.3f}W"
        )


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
