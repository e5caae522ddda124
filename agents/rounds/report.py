# SPDX-License-Identifier: Apache-2.0
"""The report of a round: what the aggregator claims, in a form that anyone can recompute.

Rule: canonical JSON, every field bounded, every number but the losses and the gains measured with
them an exact function of published data. The ledger holds its digest, so the history of a model can
be read from reports alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agents.pipeline.pace import FLOOR, FULL
from agents.storage.canonical import dumps, loads
from agents.training.spec import Cid, describe, is_none

MAX_REPORT_BYTES = 1 << 20
MAX_GAIN_PPM = 100_000_000
UNAVAILABLE = "unavailable: "  # how the reason of a payload that the store lacks begins

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Range = tuple[int, int]  # batches first..last-1
Weight = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=FLOOR, le=FULL)]]


class ReportError(ValueError):
    """A report that can't be used; the message says why."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False)


class NodeLine(_Frozen):
    """One revealed node. `reason` is empty for a payload that was merged.

    `accepted`: the payload can be used, so it is scored. `merged`: it went into the update, which
    is the same thing except where the job merges only those that earlier scores chose.
    `gain_ppm`: see `agents.mechanisms.score.Evidence`; 0 where the job's score does not ask for it.
    """

    node: int = Field(ge=1)
    content: Digest
    accepted: bool
    merged: bool
    reason: str = Field(max_length=300)
    batches: int = Field(ge=0)
    quality_ppm: int = Field(ge=0, le=1_000_000)
    gain_ppm: int = Field(ge=-MAX_GAIN_PPM, le=MAX_GAIN_PPM)
    contribution: int = Field(ge=0)
    # Bytes of free memory that the node's proof declares, in jobs that seat by it.
    memory: int | None = Field(default=None, ge=0, lt=2**63, exclude_if=is_none)


class RoundReport(_Frozen):
    """Everything a round did to the model, and who contributed what."""

    version: Literal[1] = 1
    job: int = Field(ge=1)
    round: int = Field(ge=1)
    step: int = Field(ge=0)  # finalized rounds before this one
    prev_model: Digest
    model: Digest
    update: Cid
    checkpoint: Cid | None
    codec: str
    merge: str
    score: str
    carry_in: list[Range]  # batch ranges missed earlier and covered by this round's manifest first
    cursor_in: int = Field(ge=0)  # first batch never assigned before this round
    nodes: list[NodeLine]
    val_loss_before: float
    val_loss: float
    # The record of a butterfly (`agents.rounds.shares`), in jobs that have one.
    shards: Cid | None = Field(default=None, exclude_if=is_none)
    # By node, ascending: what the next round draws paths by (`agents.pipeline.pace`), in jobs that
    # measure it.
    weights: list[Weight] | None = Field(default=None, exclude_if=is_none)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> RoundReport:
        """Read canonical JSON. Raises ReportError saying which field is wrong."""
        try:
            fields: Any = loads(raw)
            report = cls.model_validate(fields)
        except ValidationError as error:
            raise ReportError(f"the report is malformed: {describe(error)[:500]}") from error
        except (ValueError, RecursionError) as error:
            raise ReportError(f"the report is not canonical JSON: {error}") from error
        # Reading turns "1" or true into 1; a report has one spelling, so that its digest names it.
        if report.to_bytes() != raw:
            raise ReportError("the report is malformed: a value has another type than its field")
        return report

    def missing(self) -> set[int]:
        """Nodes left out because their payload could not be had."""
        return {
            line.node
            for line in self.nodes
            if not line.accepted and line.reason.startswith(UNAVAILABLE)
        }

    def gains(self) -> dict[int, int]:
        """Published gain of each accepted node, in ppm."""
        return {line.node: line.gain_ppm for line in self.nodes if line.accepted}

    def accepted(self) -> set[int]:
        """Nodes whose payload was good."""
        return {line.node for line in self.nodes if line.accepted}

    def delivered(self, invalid: Collection[int]) -> dict[int, int]:
        """Batches, or passes that count, of each good payload of a node that is not `invalid`."""
        return {
            line.node: line.batches
            for line in self.nodes
            if line.accepted and line.node not in invalid
        }

    def declared(self) -> dict[int, int]:
        """Bytes of free memory, by node that declared some."""
        return {line.node: line.memory for line in self.nodes if line.memory is not None}

    def merged(self) -> set[int]:
        """Nodes whose payload went into the update."""
        return {line.node for line in self.nodes if line.merged}
