# SPDX-License-Identifier: Apache-2.0
"""A validator's published account of one round: what it measured, and the ratings that follow.

Rule: canonical JSON, every field bounded, integers only. The digest of the record stands beside the
score vector on chain. Each record names the one before it, so that anyone can follow a validator's
ratings from its first round to its last and replay every step (`agents.gauntlet.replay`).

What a record cannot prove is a loss it states: that needs the model, the payload and the batches,
all of which are public.

A record says by which rules it was made: VERSION is raised with every change of the draw, of the
ratings or of the scores. No function here judges what was made by older rules (`OlderRecord`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from agents.rounds.report import UNAVAILABLE
from agents.storage.canonical import dumps, loads
from agents.training.spec import describe

VERSION: Final = 5
MAX_NODES = 128  # of a snapshot, as on chain
MAX_RATED = 512
MAX_RECORD_BYTES = 512 * 1024
MAX_LOSS = 2 * 10**15  # nano-nats: two million nats per token
MAX_UNSEEN = 1_000
MAX_REASON = 160

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
NodeId = Annotated[int, Field(ge=1, lt=2**63)]
NanoNats = Annotated[int, Field(ge=-MAX_LOSS, le=MAX_LOSS)]


class RecordError(ValueError):
    """A record that can't be used; the message says why."""


class OlderRecord(RecordError):
    """A record made by the rules of an older version, which is not replayed by the present ones."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False)


class NodeScore(_Frozen):
    """One node of the snapshot in one validator's round.

    Attributes:
        failure: why fast evaluation failed, empty if it passed. Who failed gets no score.
        usable: whether there is a payload whose loss can be measured.
        sync: SyncScore in thousandths of an update; None without a proven sample.
        evaluated: whether the node took part in the round's match.
        assigned: LossScore on batches the node was assigned, in 1e-9 nats per token.
        random: LossScore on batches that nobody was assigned.
        expected: by how much other evaluated updates did better on this node's assigned batches
            than on the random ones (their median). All three are None for a node that was not
            evaluated, and for one that was but had nothing usable: it ranks last.
        shown: the work that its update shows on its assigned batches, -1,000,000..1,000,000;
            measured with the three.
        extra: the same of its extra batches; 0 where it may have none.
        score: its place in the vector, out of 65,535.
    """

    node: NodeId
    failure: Annotated[str, Field(max_length=MAX_REASON)]
    usable: bool
    sync: Annotated[int, Field(ge=0, le=10**12)] | None
    evaluated: bool
    assigned: NanoNats | None
    random: NanoNats | None
    expected: NanoNats | None
    shown: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None
    extra: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None
    score: Annotated[int, Field(ge=0, le=65_535)]

    @model_validator(mode="after")
    def _consistent(self) -> NodeScore:
        together = self.assigned, self.random, self.expected, self.shown, self.extra
        if len({part is None for part in together}) > 1:
            raise ValueError(
                "assigned, random, expected, shown and extra are measured together or not at all"
            )
        if self.assigned is not None and not (self.evaluated and self.usable):
            raise ValueError("a loss is stated of a node that was not evaluated")
        if not self.failure and not self.usable:
            raise ValueError("a node without a usable payload needs a failure")
        if self.usable and self.failure.startswith(UNAVAILABLE):
            raise ValueError("a payload that could not be had is called usable")
        return self


class NodeRating(_Frozen):
    """A node's standing with this validator after the round, in 1e-6.

    `skill` and `sigma` are OpenSkill's, `mu` is the proof of computation's moving average, `value`
    that of the LossScore over the median one, `extra` that of what the node's extra batches show
    beyond half of what its assigned ones do.
    `unseen`: rounds of this validator since it last evaluated the node. Of one that it never
    evaluated it begins with ten, and grows by the rounds in which there was a payload to measure.
    """

    node: NodeId
    skill: Annotated[int, Field(ge=-500_000_000, le=500_000_000)]
    sigma: Annotated[int, Field(ge=1, le=500_000_000)]
    mu: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    value: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    extra: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    unseen: Annotated[int, Field(ge=0, le=MAX_UNSEEN)]


class ScoreRecord(_Frozen):
    """One round of one validator.

    Attributes:
        position: number of records before this one in the chain.
        previous: digest of the record before; None starts from fresh ratings.
        audit_seed: the round's; it drew who was evaluated on which batches.
        scores: one line per node of the snapshot, in its order.
        ratings: everyone who is rated, ascending by node.
    """

    version: Literal[5] = VERSION
    job: Annotated[int, Field(ge=1)]
    round: Annotated[int, Field(ge=1)]
    verifier: NodeId
    position: Annotated[int, Field(ge=0, lt=2**53)]
    previous: Digest | None
    audit_seed: Digest
    model: Digest
    scores: Annotated[list[NodeScore], Field(min_length=1, max_length=MAX_NODES)]
    ratings: Annotated[list[NodeRating], Field(max_length=MAX_RATED)]

    @model_validator(mode="after")
    def _ordered(self) -> ScoreRecord:
        for what, nodes in (
            ("scores", [line.node for line in self.scores]),
            ("ratings", [line.node for line in self.ratings]),
        ):
            if len(set(nodes)) != len(nodes):
                raise ValueError(f"{what} name a node twice")
        if [line.node for line in self.ratings] != sorted(line.node for line in self.ratings):
            raise ValueError("ratings are not ascending by node")
        if (self.previous is None) != (self.position == 0):
            raise ValueError("only the first record of a chain has none before it")
        return self

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> ScoreRecord:
        """Read canonical JSON. Raises RecordError saying which field is wrong, or OlderRecord."""
        try:
            fields: Any = loads(raw, MAX_RECORD_BYTES)
            _refuse_older(fields)
            record = cls.model_validate(fields)
        except OlderRecord:
            raise
        except ValidationError as error:
            raise RecordError(f"the record is malformed: {describe(error)[:500]}") from error
        except (ValueError, RecursionError) as error:
            raise RecordError(f"the record is not canonical JSON: {error}") from error
        if record.to_bytes() != raw:
            raise RecordError("the record is malformed: a value has another type than its field")
        return record

    def vector(self) -> list[int]:
        """The score vector, in the order of the snapshot."""
        return [line.score for line in self.scores]


def _refuse_older(fields: Any) -> None:
    """Raises OlderRecord. Nothing else of such a record is read."""
    version = fields.get("version") if isinstance(fields, dict) else None
    if type(version) is int and 0 < version < VERSION:
        raise OlderRecord(f"the record is of version {version}, scored by an older rule")
