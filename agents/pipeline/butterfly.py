# SPDX-License-Identifier: Apache-2.0
"""Butterfly all-reduce: each shard of a stage's weights is merged by two miners (IOTA, section 5).

Of n miners all P = n(n - 1) / 2 pairs are put in a random order, by a seed that is drawn after the
uploads are committed. The flat weights are cut into P equal segments, the last shorter, and pair s
owns shard s: two miners share exactly one shard. Everybody uploads its weights, downloads its own
n - 1 shards of everybody, merges them, and uploads the results.

Two owners that disagree show that one lies, not which. It is told by recomputing the shard from
the committed uploads, never by counting votes. A shard that one owner alone delivered was checked
by nobody, so it is recomputed as well, and so is every shard of a miner that was found to lie. A
pair that lies in its common shard only, and agrees, is found only if that shard is among those
drawn for recomputation: the primer's secrecy of the order does not hold here, since the order is
public once it is drawn. Where both owners are lost the shard keeps its old weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor

from agents.mechanisms import merge
from agents.pipeline.lots import shuffled

MAX_MINERS = 512
Span = tuple[int, int]
Delivered = Mapping[tuple[int, int], Tensor]
"""Merged shards by (owner, shard): fp32 [length of the shard]."""


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

    def digests(self, delivered: Delivered) -> dict[tuple[int, int], bytes]:
        """The digest of every delivered shard."""
        return {key: self.digest(key[1], values) for key, values in delivered.items()}


# -- merging ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a shard is merged: by any merge rule of the mechanisms."""

    name: str = "weighted_mean"
    options: Mapping[str, Any] | None = None

    def __call__(self, rows: Sequence[Tensor], batches: Sequence[int]) -> Tensor:
        """One fp32 [length] of the contributors' segments.

        Args:
            rows: of each contributor by ascending id, fp32 [length].
            batches: how many each has done, at least 1; only a rule that weighs reads them.

        Raises:
            MergeRefused: too few rows for the rule.
            ValueError: no row, unequal rows, bad batches, or a number that is not finite.
        """
        if len(rows) != len(batches) or any(number < 1 for number in batches):
            raise ValueError("Each contributor has one segment and at least one batch.")
        payloads = [{"shard": row} for row in rows]
        rule: merge.Merge = merge.get(self.name)(**(self.options or {}))
        if isinstance(rule, merge.WeighingMerge):
            return rule.weighed(payloads, batches)["shard"]
        return rule(payloads)["shard"]


def recomputed(
    butterfly: Butterfly, uploads: Mapping[int, Tensor], batches: Mapping[int, int], rule: Rule
) -> Callable[[int], Tensor]:
    """What a shard's merge must be, from the uploads: fp32 [length], by number of the shard.

    Args:
        uploads: the flat weights of every miner of the butterfly, as committed before the draw.
        batches: of every miner.

    Raises:
        ValueError: an upload of another length or dtype or with a number that is not finite (who
            made it is no contributor), or miners that are not the butterfly's.
    """
    if set(uploads) != set(butterfly.miners) or set(batches) != set(butterfly.miners):
        raise ValueError("There must be one upload and one number of batches for every miner.")
    for miner, values in uploads.items():
        if not _is_sound(values, butterfly.length):
            raise ValueError(
                f"The upload of miner {miner} is not {butterfly.length} finite fp32 numbers."
            )
    counts = [batches[miner] for miner in butterfly.miners]

    def of(shard: int) -> Tensor:
        first, last = butterfly.spans[shard]
        return rule([uploads[miner][first:last] for miner in butterfly.miners], counts)

    return of


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


@dataclass(frozen=True)
class Settled:
    """What a merge came to.

    Attributes:
        weights: fp32 [length]; the old weights if the merge was refused.
        accepted: whether enough shards are valid.
        valid: by shard, whether it has a merged value. The others keep their old weights.
        recomputed: shards that were merged again from the uploads, ascending.
        liars: by miner, the shards that it delivered wrong; proved by recomputation.
    """

    weights: Tensor
    accepted: bool
    valid: tuple[bool, ...]
    recomputed: tuple[int, ...]
    liars: dict[int, tuple[int, ...]]


def settle(
    butterfly: Butterfly,
    old: Tensor,
    delivered: Delivered,
    recompute: Callable[[int], Tensor],
    drawn: Collection[int] = (),
    least_valid: Fraction = Fraction(9, 10),
) -> Settled:
    """The merged weights, and who delivered a wrong shard.

    A shard is recomputed if its owners disagree, if one alone delivered it, if it is in `drawn`, or
    if one of its owners delivered any shard wrong. Its value then is the recomputed one.

    Args:
        old: fp32 [length], the weights that the epoch started from.
        delivered: what owners delivered. What is not a number of fp32 [length of its shard] is a
            wrong delivery; nobody else's word is read.
        recompute: as `recomputed` makes it.
        drawn: shards to recompute although their owners agree, by a seed unknown to them.
        least_valid: below this share of valid shards the merge is refused.

    Raises:
        ValueError: `old` of another length or dtype.
    """
    if old.shape != (butterfly.length,) or old.dtype != torch.float32:
        raise ValueError(f"The old weights are not fp32 [{butterfly.length}].")
    told = [
        {owner: delivered[owner, shard] for owner in pair if (owner, shard) in delivered}
        for shard, pair in enumerate(butterfly.pairs)
    ]
    sound = [
        {owner: butterfly.digest(shard, one) for owner, one in said.items() if _is_sound(one, size)}
        for shard, (said, size) in enumerate(zip(told, butterfly.sizes, strict=True))
    ]
    waiting = {
        shard
        for shard, spoken in enumerate(sound)
        if told[shard] and (len(spoken) < 2 or len({*spoken.values()}) > 1 or shard in drawn)
    }
    again: dict[int, Tensor] = {}
    liars: dict[int, list[int]] = {}
    while waiting:
        shard = waiting.pop()
        again[shard] = recompute(shard)
        true = butterfly.digest(shard, again[shard])
        for owner in told[shard]:
            if sound[shard].get(owner) != true:
                if owner not in liars:
                    waiting |= {s for s in butterfly.owned(owner) if told[s] and s not in again}
                liars.setdefault(owner, []).append(shard)
    weights = old.clone()
    for shard, (first, last) in enumerate(butterfly.spans):
        if told[shard]:
            value = again[shard] if shard in again else told[shard][butterfly.pairs[shard][0]]
            weights[first:last] = value
    valid = [bool(said) for said in told]
    accepted = sum(valid) >= least_valid * len(valid)
    return Settled(
        weights=weights if accepted else old.clone(),
        accepted=accepted,
        valid=tuple(valid),
        recomputed=tuple(sorted(again)),
        liars={owner: tuple(sorted(shards)) for owner, shards in sorted(liars.items())},
    )


def _is_sound(values: Tensor, length: int) -> bool:
    right = values.shape == (length,) and values.dtype == torch.float32
    return right and bool(torch.isfinite(values).all())


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
