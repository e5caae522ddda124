# SPDX-License-Identifier: Apache-2.0
"""Where a model comes from: the chain's record of it, as one small JSON file beside the model.

Rule: each field is read from the chain, or from an artefact that the chain names by its digest.
Whoever has the file can ask the chain the same questions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agents.storage.canonical import dumps, loads
from agents.training.spec import Cid, Licence, describe

MAX_PROVENANCE_BYTES = 4 << 20

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
EthAddress = Annotated[str, StringConstraints(pattern=r"^0x[0-9a-fA-F]{40}$")]
Whole = Annotated[int, Field(ge=0)]


class ProvenanceError(ValueError):
    """A provenance file that can't be used; the message says why."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Contributor(_Frozen):
    """A node whose work went into the model.

    `owner`: who owns the node now. `rounds`: those in which its work was merged. `batches`: of
    them, by the rounds' reports.
    """

    node: Whole
    owner: EthAddress
    rounds: Whole
    batches: Whole


class Provenance(_Frozen):
    """What the chain says of a model.

    `round`: the finalized round that made it, 0 for the model that the job began with. `model`: its
    hash. `head`: the ledger's hash over all rounds up to this one, zero before the first.
    `val_loss`: as the round's report states it. `separator`: the token between two documents of the
    data, None where that could not be read.
    """

    version: Literal[1] = 1
    chain_id: Whole
    jobs_contract: EthAddress
    ledger_contract: EthAddress
    job: Whole
    round: Whole
    model: Digest
    head: Digest
    genesis: Digest
    finalized_at: Whole
    spec: Cid
    sponsor: EthAddress
    parameters: Whole
    rounds: Whole
    val_loss: float | None
    separator: Whole | None
    data: Cid
    data_access: str
    data_licence: Licence | None
    contributors: tuple[Contributor, ...]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Provenance:
        """Read a provenance file. Raises ProvenanceError."""
        try:
            return cls.model_validate(loads(raw, MAX_PROVENANCE_BYTES))
        except ValidationError as error:
            raise ProvenanceError(f"it is wrong: {describe(error)[:500]}") from error
        except (ValueError, RecursionError) as error:
            raise ProvenanceError(f"it cannot be read: {error}") from error
