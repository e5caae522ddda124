# SPDX-License-Identifier: Apache-2.0
"""Butterfly all-reduce: each shard of a stage's weights is merged by two miners (IOTA, section 5).

Of n miners all P = n(n - 1) / 2 pairs are put in a random order, by a seed that is drawn after the
uploads are committed. The flat weights are cut into P equal segments, the last shorter, and pair s
owns shard s: two miners share exactly one shard. Everybody uploads its weights, downloads its own
n - 1 shards of everybody, merges them, and uploads the results.

Two owners that disagree show that one lies, not which. It is told by merging the payloads again,
never by counting votes. Everybody who judges a result does that for every shard
(`agents.pipeline.shards`), so a pair that lies in its common shard and agrees is found as well: the
primer's secrecy of the order, which does not hold once the order is drawn, is not needed. Where
both owners are lost the shard keeps its old weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise

from torch import Tensor

from agents.pipeline.lots import shuffled

MAX_MINERS = 512
Span = tuple[int, int]


@dataclass(frozen=True)
class Butterfly:
    """Who merges what. `pairs`: owners of each shard, the lower id first. `length`: of weights."""

    seed: bytes
    miners: tuple[int, ...]
    pairs: tuple[Span, ...]
    length: int

    @classmethod
    def draw(cls, seed: bytes, miners: Collection[int], length: int) -> Butterfly:
        """The order of pairs that the seed gives to this set of miners.

        Args:
            seed: 32 bytes, unknown until every upload was committed.
            miners: contributors of the stage, in any order.
            length: numbers in the flat weights, at least 1.

        Raises:
            ValueError: fewer than 2 miners (one miner's upload is the merge), more than 512, one
                twice, or no weights.
        """
        order = sorted(miners)
        if not 2 <= len(order) <= MAX_MINERS or len(set(order)) != len(order):
            raise ValueError(
                f"A butterfly has 2 to {MAX_MINERS} miners, each once, not {len(order)}."
            )
        if length < 1:
            raise ValueError("There are no weights to merge.")
        pairs = shuffled(seed, "butterfly", combinations(order, 2))
        return cls(seed, tuple(order), tuple(pairs), length)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """First and last + 1 of each shard. Of fewer than P(P - 1) numbers several may be empty."""
        size = -(-self.length // len(self.pairs))
        edges = [min(self.length, size * shard) for shard in range(len(self.pairs) + 1)]
        return tuple(pairwise(edges))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Numbers in each shard."""
        return tuple(last - first for first, last in self.spans)

    @cached_property
    def _owned(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {miner: [] for miner in self.miners}
        for shard, pair in enumerate(self.pairs):
            for owner in pair:
                found[owner].append(shard)
        return {miner: tuple(shards) for miner, shards in found.items()}

    def owned(self, miner: int) -> tuple[int, ...]:
        """The n - 1 shards that a miner merges, ascending; KeyError for a stranger."""
        return self._owned[miner]

    def digest(self, shard: int, values: Tensor) -> bytes:
        """sha256(seed || shard as uint64 || little-endian fp32): what an owner says it merged."""
        head = self.seed + shard.to_bytes(8, "big")
        return hashlib.sha256(head + values.detach().cpu().numpy().astype("<f4").tobytes()).digest()


# -- agreement -------------------------------------------------------------------------------------


def agreement(
    butterfly: Butterfly, digests: Mapping[tuple[int, int], bytes]
) -> list[list[bool | None]]:
    """The agreement matrix (IOTA, figure 7a), n by n in the order of `miners`.

    Whether two miners' digests of their common shard are equal; None on the diagonal and where one
    of them is missing. A row full of False is a reason to look, not a proof.
    """
    place = {miner: index for index, miner in enumerate(butterfly.miners)}
    matrix: list[list[bool | None]] = [[None] * len(place) for _ in place]
    for shard, (one, other) in enumerate(butterfly.pairs):
        mine, theirs = digests.get((one, shard)), digests.get((other, shard))
        if mine is not None and theirs is not None:
            row, column = place[one], place[other]
            matrix[row][column] = matrix[column][row] = mine == theirs
    return matrix


# -- formulae --------------------------------------------------------------------------------------


def valid_shards(miners: int, lost: int) -> int:
    """P - k(k - 1) / 2: shards with an owner left when k of n miners are lost (IOTA, 5.2)."""
    return math.comb(miners, 2) - math.comb(lost, 2)


def valid_fraction(miners: int, lost: int) -> Fraction:
    """1 - k(k - 1) / (n(n - 1)): the same as a share of all shards."""
    return Fraction(valid_shards(miners, lost), math.comb(miners, 2))


@dataclass(frozen=True)
class Traffic:
    """Bytes that one miner moves in a merge, headers aside."""

    upload: int
    download_shards: int
    upload_shards: int
    download_merged: int

    @property
    def total(self) -> int:
        return self.upload + self.download_shards + self.upload_shards + self.download_merged


def traffic(butterfly: Butterfly, miner: int, item: int = 4) -> Traffic:
    """What a miner has to move, at `item` bytes a number, from the real spans.

    It uploads W. It downloads its shards of the n - 1 others, since it has its own. It uploads its
    merged shards. It downloads the round's update of its stage, which is one file. With equal
    shards that is

        W + (n - 1) 2W/n + 2W/n + W = 4W.

    The primer's 4W + 2W/n (`primer_traffic`) counts a miner's own copy of its shards, too. Leaves
    of files are fetched whole, so at both ends of a shard some bytes of another one come with it.
    """
    own = sum(
        last - first for first, last in map(butterfly.spans.__getitem__, butterfly.owned(miner))
    )
    others = len(butterfly.miners) - 1
    return Traffic(
        upload=item * butterfly.length,
        download_shards=item * others * own,
        upload_shards=item * own,
        download_merged=item * butterfly.length,
    )


def primer_traffic(weights: int, miners: int) -> Fraction:
    """4W + 2W/n bytes (IOTA, 5.3): upload W, download n 2W/n, upload 2W/n, download W."""
    return 4 * weights + Fraction(2 * weights, miners)
