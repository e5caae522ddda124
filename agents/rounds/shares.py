# SPDX-License-Identifier: Apache-2.0
"""The butterfly of a round: what the stages' owners stated, what that comes to, and its record.

Rule: a stage's owners are its miners that revealed, which the chain says, so the order of their
pairs follows from chain and audit seed alone. Statements reach a proposer through miners' posts.
The proposer publishes them in a record whose CID is in the round's report. Everybody else reads
them there, checks each signature, merges again, and must get the record's very bytes. Which
statements came in time is the proposer's word, and so is of which of them nobody can fetch what
they are judged by (`agents.rounds.named`); all else is recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from torch import Tensor

from agents.jobs.job import JobContext
from agents.pipeline.butterfly import MAX_MINERS, Butterfly
from agents.pipeline.epoch import Epoch
from agents.pipeline.letters import Domain, LetterError
from agents.pipeline.shards import MergeAgain, Statement, flat, settle, stage_seed, unflat
from agents.rounds.named import Named, read_named
from agents.rounds.plan import Plan
from agents.rounds.report import ReportError
from agents.rounds.submissions import Submission
from agents.storage.canonical import dumps, loads
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError
from agents.training.state import Shapes, State

_LINE_BYTES = 1024  # of an owner in a record, without its digests
# Of two owners: two digests, two marks of the matrix, a lost shard, two lies or unjudged shards.
_PAIR_BYTES = 160


class RecordMissing(StoreError):
    """A record of shards, or what it rests on, can't be had."""


@dataclass(frozen=True)
class Shares:
    """What there is to judge a round's shards by.

    Attributes:
        audit_seed: of the round, 32 bytes.
        revealed: nodes that revealed.
        statements: by owner, as `sound` takes them.
        named: what is known of payloads that owners name and the result has not.
    """

    audit_seed: bytes
    revealed: frozenset[int]
    statements: Mapping[int, Statement] = field(default_factory=dict)
    named: Named = field(default_factory=Named)

    def owners(self, epoch: Epoch, stage: int) -> tuple[int, ...]:
        """Who owns shards of a stage, ascending; nobody where one miner alone revealed, or more
        than a butterfly has."""
        here = tuple(node for node in epoch.stages[stage] if node in self.revealed)
        return here if 2 <= len(here) <= MAX_MINERS else ()

    def butterfly(self, epoch: Epoch, stage: int, length: int) -> Butterfly | None:
        """The order of a stage's pairs; None where it has no owners. `length`: of its numbers."""
        owners = self.owners(epoch, stage)
        seed = stage_seed(self.audit_seed, stage)
        return Butterfly.draw(seed, owners, length) if owners else None

    def sound(
        self,
        epoch: Epoch,
        said: Iterable[Statement],
        operators: Mapping[int, str],
        where: Domain,
    ) -> Shares:
        """The same with these statements, of each owner the first that is of this round and that
        its operator signed.

        It names owners of its stage alone, with a digest for each shard that its owner has. A
        record has room for that. Else one owner could make the record of an honest proposer longer
        than anybody reads, by the names of hundreds of strangers.
        """
        found: dict[int, Statement] = {}
        for one in said:
            stage = epoch.stage_of(one.owner)
            owners = () if stage is None else self.owners(epoch, stage)
            if stage is None or one.owner in found or one.owner not in owners:
                continue
            if not {*one.contributors} <= {*owners} or len(one.digests) != len(owners) - 1:
                continue
            ours = epoch.job, epoch.number, stage_seed(self.audit_seed, stage)
            if (one.job, one.epoch, one.seed) != ours:
                continue
            operator = operators.get(one.owner)
            if operator is not None and one.signer(where) == operator:
                found[one.owner] = one
        return replace(self, statements=dict(sorted(found.items())))

    def look(
        self,
        job: JobContext,
        store: ContentStore,
        plan: Plan,
        submissions: Sequence[Submission],
        unread: Collection[tuple[int, int]] | None,
        within_s: float = 0.0,
    ) -> Shares:
        """The same with what owners name and the result has not; see `read_named`."""
        assert plan.epoch is not None
        found = []
        for stage in range(plan.epoch.last + 1):
            length = sum(map(math.prod, job.stage_shapes(stage).values()))
            butterfly = self.butterfly(plan.epoch, stage, length)
            if butterfly is not None:
                said = {o: self.statements[o] for o in butterfly.miners if o in self.statements}
                found.append((stage, butterfly, said))
        named = read_named(job, store, plan, submissions, found, unread, within_s)
        return replace(self, named=named)


@dataclass(frozen=True)
class Shared:
    """A stage after its butterfly. `update`: what is left of its merge. `refused`: why nothing is,
    or empty. `line`: of the record. `lies`: by owner, evidence of what it stated wrong."""

    update: State
    refused: str
    line: dict[str, Any]
    lies: dict[int, dict[str, Any]]


def share(
    shares: Shares,
    epoch: Epoch,
    stage: int,
    merged: Mapping[str, Tensor],
    contributors: Collection[int],
    shapes: Shapes,
    least_valid: Fraction,
    again: MergeAgain,
) -> Shared | None:
    """Judge a stage's statements by its merge; None where it has no owners. `again`: as of
    `settle`."""
    values = flat(merged)
    butterfly = shares.butterfly(epoch, stage, len(values))
    if butterfly is None:
        return None
    said = {
        owner: shares.statements[owner] for owner in butterfly.miners & shares.statements.keys()
    }
    found = settle(butterfly, values, contributors, said, least_valid, again)
    pairs = len(butterfly.pairs)
    refused = ""
    if not found.accepted:
        refused = (
            f"{pairs - len(found.lost)} of {pairs} shards were delivered, and "
            f"{float(least_valid):g} of them are needed"
        )
    line = {
        "stage": stage,
        "owners": list(butterfly.miners),
        "contributors": sorted(contributors),
        "statements": [said[owner].to_json() for owner in sorted(said)],
        "agreement": found.matrix,
        "elsewhere": list(found.elsewhere),
        "unjudged": [[owner, list(shards)] for owner, shards in found.unjudged.items()],
        "lost": list(found.lost),
        "liars": [[owner, list(shards)] for owner, shards in found.liars.items()],
        "accepted": found.accepted,
    }
    lies = {
        owner: {"shards": list(shards), "statement": said[owner].to_json()}
        for owner, shards in found.liars.items()
    }
    return Shared(dict(unflat(found.update, shapes)), refused, line, lies)


def pack_record(job: int, number: int, lines: Sequence[Mapping[str, Any]]) -> bytes:
    """The record of a round, canonical JSON."""
    return dumps({"version": 1, "job": job, "round": number, "stages": list(lines)})


@dataclass(frozen=True)
class Recorded:
    """What is taken over from a record: `said`, the statements, unchecked; and `unread`, by owner
    and shard, of which digests the proposer could not fetch what they are judged by."""

    said: tuple[Statement, ...] = ()
    unread: frozenset[tuple[int, int]] = frozenset()


def read_record(raw: bytes) -> Recorded:
    """What a stranger's record says. ReportError if it can't be read.

    Nothing else in it is taken over: who reads it makes the record again and compares the bytes.
    """
    try:
        lines = loads(raw)["stages"]
        said = tuple(Statement.from_json(one) for line in lines for one in line["statements"])
        pairs = [(owner, s) for line in lines for owner, many in line["unjudged"] for s in many]
        if any(type(number) is not int for pair in pairs for number in pair):
            raise TypeError("an owner or a shard is no number")
        return Recorded(said, frozenset(pairs))
    except (LetterError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"the record of shards can't be read: {error}"[:300]) from error


def max_record_bytes(epoch: Epoch) -> int:
    """Bytes that the record of an epoch has at most."""
    sizes = [len(miners) for miners in epoch.stages]
    return _LINE_BYTES * (1 + sum(sizes)) + _PAIR_BYTES * sum(n * n for n in sizes)
