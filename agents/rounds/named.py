# SPDX-License-Identifier: Apache-2.0
"""What owners of shards merged that is in no result: pieces of payloads that are spoilt elsewhere.

Rule: an owner that names a miner which the result has not is judged by that miner's piece in each
of its shards, read as the owner had to read it (`agents.rounds.pieces`). A piece that is none (its
file has another size, or a number is not finite) was seen by the owner: whoever names it stated a
wrong digest. A piece that can't be fetched says nothing, so the digest is not judged. Which pieces
those are is the proposer's word, for others may fetch them later; it looks for them for a limited
time, in an order by lot. All else that it read it publishes again, so everybody can judge by it.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from agents.jobs.job import JobContext
from agents.pipeline.butterfly import Butterfly
from agents.pipeline.shards import Statement
from agents.protocol.structs import Reveal
from agents.rounds.pieces import Pieces, fetch_pieces
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound
from agents.training.state import PayloadError

Place = tuple[int, int]
"""An owner, or a miner that it names, and a shard."""


@dataclass(frozen=True)
class Named:
    """What is known of payloads that owners name and the result has not.

    Attributes:
        pieces: by miner and shard, fp32 [length of the shard].
        faulty: owners and shards where the owner names a piece that is none.
        unread: by owner and shard of which no digest is judged, such miners that the owner names.
        blocks: that pieces were read from.
        files: digests of payloads that were read whole.
    """

    pieces: Mapping[Place, Tensor] = field(default_factory=dict)
    faulty: frozenset[Place] = frozenset()
    unread: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    blocks: tuple[bytes, ...] = ()
    files: tuple[bytes, ...] = ()

    def pieces_of(
        self,
        butterfly: Butterfly,
        owner: int,
        shard: int,
        named: Iterable[int],
        rows: Mapping[int, Tensor],
    ) -> list[Tensor] | None:
        """The pieces of all whom an owner names, in one of its shards; None where one of them
        can't be fetched. `rows`: of those in the result. PayloadError for a piece that is none."""
        if (owner, shard) in self.faulty:
            raise PayloadError(f"Owner {owner} names a piece of shard {shard} that is none.")
        if (owner, shard) in self.unread:
            return None
        first, last = butterfly.spans[shard]
        return [rows[n][first:last] if n in rows else self.pieces[n, shard] for n in named]

    def key(self) -> bytes:
        """Of what is judged, and how: the rest follows from the payloads' digests."""
        return repr((sorted(self.pieces), sorted(self.faulty), sorted(self.unread))).encode()


def read_named(
    job: JobContext,
    store: ContentStore,
    plan: Plan,
    submissions: Sequence[Submission],
    stages: Iterable[tuple[int, Butterfly, Mapping[int, Statement]]],
    unread: Collection[Place] | None,
    within_s: float,
) -> Named:
    """Read the pieces that statements are judged by. Raises StoreUnavailable.

    Args:
        stages: number of each, its butterfly, and its owners' statements.
        unread: owners and shards that a record says are not judged: StoreError if a piece of
            another can't be fetched. None for the proposer, who finds out.
        within_s: seconds for which a proposer begins to look for further pieces.
    """
    reveals = {s.reveal.node: s.reveal for s in submissions if s.gradient is None}
    found = _Look(job, store, plan, None if unread is not None else time.monotonic() + within_s)
    for stage, butterfly, said in stages:
        others: dict[Place, tuple[int, ...]] = {}
        for owner, one in said.items():
            named = tuple(miner for miner in one.contributors if miner in reveals)
            owned = butterfly.owned(owner)
            sound = {*one.contributors} <= {*butterfly.miners} and len(one.digests) == len(owned)
            if named and sound:
                others |= {(owner, shard): named for shard in owned}
        hidden = {} if unread is None else {p: n for p, n in others.items() if p in unread}
        wanted = {place: named for place, named in others.items() if place not in hidden}
        needed = defaultdict[int, set[int]](set)
        for (_, shard), named in wanted.items():
            for miner in named:
                needed[miner].add(shard)
        for miner, shards in needed.items():
            found.read(stage, butterfly, reveals[miner], sorted(shards))
        for (owner, shard), named in wanted.items():
            missing = [found.missing[m, shard] for m in named if (m, shard) in found.missing]
            if any((miner, shard) in found.none for miner in named):
                found.faulty.add((owner, shard))
            elif missing and unread is not None:
                raise NotFound(f"shard {shard} of owner {owner} can't be judged: {missing[0]}")
            elif missing:
                hidden[owner, shard] = named
        found.unread |= hidden
    return Named(
        found.pieces,
        frozenset(found.faulty),
        dict(sorted(found.unread.items())),
        tuple(found.blocks),
        tuple(found.files),
    )


class _Look:
    """What was read so far. `until`: when no further piece is looked for; None for never."""

    def __init__(
        self, job: JobContext, store: ContentStore, plan: Plan, until: float | None
    ) -> None:
        self._job, self._store, self._plan, self._until = job, store, plan, until
        self.pieces: dict[Place, Tensor] = {}
        self.none, self.faulty = set[Place](), set[Place]()
        self.missing: dict[Place, str] = {}
        self.unread: dict[Place, tuple[int, ...]] = {}
        self.blocks: dict[bytes, None] = {}
        self.files: dict[bytes, None] = {}

    def read(self, stage: int, butterfly: Butterfly, reveal: Reveal, shards: Sequence[int]) -> None:
        """All at once, and if there is a fault among them one by one."""
        if not self._is_late() and not self._fetch(stage, butterfly, reveal, shards).reason:
            return
        for shard in random.sample(shards, len(shards)):
            place = reveal.node, shard
            if self._is_late():
                self.missing[place] = "there was no time left to fetch a piece"
                continue
            found = self._fetch(stage, butterfly, reveal, [shard])
            # A fault counts if what shows it can be published again.
            if found.unavailable or (found.too_large and not found.blocks):
                self.missing[place] = found.reason
            elif found.reason:
                self.none.add(place)
                self._rests_on(reveal, found)

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _fetch(
        self, stage: int, butterfly: Butterfly, reveal: Reveal, shards: Sequence[int]
    ) -> Pieces:
        spans = [butterfly.spans[shard] for shard in shards]
        found = fetch_pieces(reveal, self._job, self._store, self._plan, stage, spans)
        if found.row is not None:
            for shard, (first, last) in zip(shards, spans, strict=True):
                self.pieces[reveal.node, shard] = found.row[first:last]
            self._rests_on(reveal, found)
        return found

    def _rests_on(self, reveal: Reveal, found: Pieces) -> None:
        self.blocks |= dict.fromkeys(found.blocks)
        if not found.blocks:
            self.files[reveal.content] = None
