# SPDX-License-Identifier: Apache-2.0
"""What an owner of shards says that it merged, signed, and what many such statements come to.

Rule: an owner states whose changes it merged and the digest of each of its shards, under a seed
that was drawn after all payloads were revealed. Its word is judged for the merge that it states.
If a digest is not what merging those gives, it is a liar. So who is slow, or sees less than others
do, loses nothing.

Whom an owner merged may differ from whom the result has, and its shards count as delivered all the
same. An owner can't know of a payload that is spoilt where it does not look, nor get one that its
miner shows to proposers and not to its mates. Were such shards not counted, one miner could keep
its stage from being merged.

Statements are judged shard by shard, by the pieces of those whom the owner names. Who names a miner
whose piece in the shard is none stated a wrong digest: it saw the piece. Only where nobody can
fetch a piece is the digest not judged.

A pair's shard counts as delivered if one of its owners delivered it. Its value is the recomputed
one in any case, since everybody who judges a result merges the payloads again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from eth_utils import keccak
from torch import Tensor

from agents.pipeline.butterfly import MAX_MINERS, Butterfly, agreement
from agents.pipeline.letters import SIGNATURE_BYTES, Domain, LetterError
from agents.runtime.wallet import Wallet, recover_typed
from agents.storage.nesting import parse_json
from agents.training.state import PayloadError

MAX_STATEMENT = 64 * 1024  # bytes of one, as JSON: 511 digests and 512 numbers of nodes
_NUMBERS = ("job", "epoch", "owner")
_DIGESTS = ("seed", "contributors", "content", "digests")
_TYPES = {
    "Shards": [
        *({"name": name, "type": "uint256"} for name in _NUMBERS),
        *({"name": name, "type": "bytes32"} for name in _DIGESTS),
    ]
}
_FIELDS = {*_NUMBERS, *_DIGESTS, "signature"}


def stage_seed(audit_seed: bytes, stage: int) -> bytes:
    """The seed that orders the pairs of a stage: of the audit seed, which is drawn when the reveals
    are over."""
    return keccak(b"menagerie butterfly" + audit_seed + stage.to_bytes(8, "big"))


@dataclass(frozen=True)
class Statement:
    """An owner's word on its shards.

    Attributes:
        job, epoch, owner: numbers.
        seed: of the stage's butterfly, 32 bytes.
        contributors: nodes whose changes were merged, ascending.
        content: digest of the file with the merged shards, 32 bytes.
        digests: of the owner's shards, ascending by shard.
        signature: of the owner's operator.
    """

    job: int
    epoch: int
    owner: int
    seed: bytes
    contributors: tuple[int, ...]
    content: bytes
    digests: tuple[bytes, ...]
    signature: bytes = b""

    def __post_init__(self) -> None:
        """LetterError for a number that is no uint64, a digest of another length, or too many."""
        numbers = (self.job, self.epoch, self.owner, *self.contributors)
        if any(not 0 <= number < 1 << 64 for number in numbers):
            raise LetterError("Numbers of a statement have 64 bits.")
        if any(len(digest) != 32 for digest in (self.seed, self.content, *self.digests)):
            raise LetterError("A seed and a digest have 32 bytes each.")
        if len(self.digests) >= MAX_MINERS or len(self.contributors) > MAX_MINERS:
            raise LetterError(f"A stage merges at most {MAX_MINERS} miners.")
        if list(self.contributors) != sorted(set(self.contributors)):
            raise LetterError("Contributors are named once each, in ascending order.")

    def by(self, wallet: Wallet, where: Domain) -> Statement:
        """The statement, signed."""
        return replace(self, signature=wallet.sign_typed(where, _TYPES, self._said()))

    def signer(self, where: Domain) -> str | None:
        """The checksummed address that signed; None for a malformed signature."""
        return recover_typed(where, _TYPES, self._said(), self.signature)

    def _said(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in (*_NUMBERS, "seed", "content")},
            "contributors": keccak(b"".join(one.to_bytes(32, "big") for one in self.contributors)),
            "digests": keccak(b"".join(self.digests)),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            "seed": self.seed.hex(),
            "contributors": list(self.contributors),
            "content": self.content.hex(),
            "digests": [digest.hex() for digest in self.digests],
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_json(cls, values: Any) -> Statement:
        """LetterError for anything else than what `to_json` gives."""
        try:
            if set(values) != _FIELDS:
                raise KeyError
            job, epoch, owner = (values[name] for name in _NUMBERS)
            contributors, digests = values["contributors"], values["digests"]
            if type(contributors) is not list or type(digests) is not list:
                raise TypeError
            if any(type(one) is not int for one in (job, epoch, owner, *contributors)):
                raise TypeError
            made = cls(
                job=job,
                epoch=epoch,
                owner=owner,
                seed=bytes.fromhex(values["seed"]),
                contributors=tuple(contributors),
                content=bytes.fromhex(values["content"]),
                digests=tuple(bytes.fromhex(one) for one in digests),
                signature=bytes.fromhex(values["signature"]),
            )
        except LetterError:
            raise
        except (KeyError, TypeError, ValueError):
            raise LetterError("This is no statement about shards.") from None
        if len(made.signature) != SIGNATURE_BYTES or made.to_json() != values:
            raise LetterError("A statement has one spelling, and a signature of 65 bytes.")
        return made

    @classmethod
    def from_bytes(cls, raw: bytes) -> Statement:
        """LetterError for bytes that are no statement, or too many."""
        if len(raw) > MAX_STATEMENT:
            raise LetterError(f"A statement has at most {MAX_STATEMENT} bytes.")
        try:
            return cls.from_json(parse_json(raw))
        except (ValueError, RecursionError) as error:
            raise LetterError(str(error)[:200]) from None


MergeAgain = Callable[[int, int], Tensor | None]
"""The merge of those whom an owner names, in one of its shards: fp32 [length of the shard]. None
where nobody has the piece of one of them; PayloadError where a piece is none, or the rule merges no
so few."""


def flat(change: Mapping[str, Tensor]) -> Tensor:
    """The numbers of a stage's tensors in one fp32 vector, tensors in order of their names."""
    return torch.cat([change[name].detach().cpu().reshape(-1) for name in sorted(change)])


def unflat(values: Tensor, shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """The tensors of a vector that `flat` made."""
    sizes = [torch.Size(shapes[name]).numel() for name in sorted(shapes)]
    parts = values.split(sizes)
    return {n: p.reshape(tuple(shapes[n])) for n, p in zip(sorted(shapes), parts, strict=True)}


def merge_shards(
    butterfly: Butterfly,
    owner: int,
    rows: Sequence[Tensor],
    merge: Callable[[Sequence[Mapping[str, Tensor]]], Mapping[str, Tensor]],
) -> dict[int, Tensor]:
    """What an owner makes of its shards: fp32 [length of the shard], by shard, ascending.

    `rows`: the flat changes of the contributors, ascending by node. `merge`: a rule that merges
    each number for itself. An empty shard has nothing to merge.
    """
    spans = {shard: butterfly.spans[shard] for shard in butterfly.owned(owner)}
    return {s: merge_shard([row[a:b] for row in rows], merge) for s, (a, b) in spans.items()}


def merge_shard(
    pieces: Sequence[Tensor],
    merge: Callable[[Sequence[Mapping[str, Tensor]]], Mapping[str, Tensor]],
) -> Tensor:
    """One shard's merge of the contributors' pieces; see `merge_shards`."""
    if not len(pieces[0]):
        return torch.zeros(0)
    return merge([{"shard": piece} for piece in pieces])["shard"]


@dataclass(frozen=True)
class Settlement:
    """What the owners' statements come to.

    Attributes:
        update: fp32 [length]: the merge, zero in lost shards, and everywhere if it was refused.
        accepted: whether enough shards were delivered.
        lost: shards that nobody delivered, ascending.
        liars: by owner, the shards of which it stated a wrong digest.
        elsewhere: owners whose statement lacks a contributor, or that delivered nothing: it names
            nobody, or somebody who is no miner of the butterfly, or has another number of digests.
        unjudged: by owner that delivered, shards of which nobody can make the digest again.
        matrix: see `butterfly.agreement`; None too between owners that name other miners.
    """

    update: Tensor
    accepted: bool
    lost: tuple[int, ...]
    liars: dict[int, tuple[int, ...]]
    elsewhere: tuple[int, ...]
    unjudged: dict[int, tuple[int, ...]]
    matrix: list[list[bool | None]]


def settle(
    butterfly: Butterfly,
    merged: Tensor,
    contributors: Collection[int],
    statements: Mapping[int, Statement],
    least_valid: Fraction,
    again: MergeAgain,
) -> Settlement:
    """Judge the statements by the merge, done again from the payloads.

    Args:
        merged: fp32 [length], the merge of the contributors.
        again: the merge of an owner that names others than the contributors.
        statements: by owner, each signed by it and under the butterfly's seed.
        least_valid: below this share of delivered shards the merge is refused.

    Raises:
        ValueError: a statement of no owner, or under another seed.
    """
    wanted = tuple(sorted(contributors))
    said: dict[tuple[int, int], bytes] = {}
    elsewhere, delivered = list[int](), set[int]()
    true = [butterfly.digest(s, merged[a:b]) for s, (a, b) in enumerate(butterfly.spans)]
    liars, unjudged = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for owner, one in sorted(statements.items()):
        if owner not in butterfly.miners or one.owner != owner or one.seed != butterfly.seed:
            raise ValueError(f"The statement of {owner} is not of this merge.")
        owned = butterfly.owned(owner)
        named, whole = {*one.contributors}, len(one.digests) == len(owned)
        delivers = whole and bool(named) and named <= {*butterfly.miners}
        if not delivers or not named >= {*wanted}:
            elsewhere.append(owner)
        if not delivers:
            continue
        delivered |= set(owned)
        for shard, digest in zip(owned, one.digests, strict=True):
            right: bytes | None = true[shard]
            if one.contributors != wanted:
                right = _right(butterfly, owner, shard, again)
            if right is None:
                unjudged[owner].append(shard)
                continue
            said[owner, shard] = digest
            if digest != right:
                liars[owner].append(shard)
    for shard, pair in enumerate(butterfly.pairs):
        if len({statements[owner].contributors for owner in pair if owner in statements}) > 1:
            for owner in pair:
                said.pop((owner, shard), None)
    lost = tuple(shard for shard in range(len(butterfly.pairs)) if shard not in delivered)
    accepted = len(delivered) >= least_valid * len(butterfly.pairs)
    update = merged.clone() if accepted else torch.zeros_like(merged)
    for shard in lost:
        first, last = butterfly.spans[shard]
        update[first:last] = 0.0
    return Settlement(
        update=update,
        accepted=accepted,
        lost=lost,
        liars={owner: tuple(shards) for owner, shards in sorted(liars.items())},
        elsewhere=tuple(elsewhere),
        unjudged={owner: tuple(shards) for owner, shards in sorted(unjudged.items())},
        matrix=agreement(butterfly, said),
    )


def _right(butterfly: Butterfly, owner: int, shard: int, again: MergeAgain) -> bytes | None:
    """The digest that an owner had to state; empty where none is right, None where nobody knows."""
    try:
        merged = again(owner, shard)
    except PayloadError:
        return b""
    return None if merged is None else butterfly.digest(shard, merged)
