# SPDX-License-Identifier: Apache-2.0
"""Proof of computation: what a trainer states about its work, beside the payload (ZIP-407).

Only ``gradient_hash``, ``trace_root``, ``steps`` and ``losses`` can be checked by re-execution. The
compute time is a statement. A TEE attestation is carried for whoever can read it; nothing here
reads or trusts it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
)

from agents.pipeline.clasp import MAX_LOSS
from agents.storage.canonical import dumps, loads
from agents.training.spec import MAX_SAMPLES, Cid, Identifier, Line, describe, is_empty, is_none
from agents.training.state import PayloadError
from agents.training.trace import MAX_STEPS

MAX_PROOF_BYTES = 64 * 1024  # without losses
_LOSS_BYTES = 40  # "[sample,loss]," with the longest numbers
_STATE_BYTES = 62  # a CID in quotes, and a comma

Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
OpaqueHex = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){1,16384}$")]


def _ascending(losses: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    samples = [sample for sample, _ in losses]
    if any(one >= other for one, other in pairwise(samples)):
        raise ValueError("losses are stated once for each sample, ascending by sample")
    return losses


Losses = Annotated[
    tuple[
        tuple[
            Annotated[int, Strict(), Field(ge=0, lt=2**63)],
            Annotated[int, Strict(), Field(ge=0, le=MAX_LOSS)],
        ],
        ...,
    ],
    Field(max_length=MAX_SAMPLES),
    AfterValidator(_ascending),
]


# What proofs stated before and nothing read; a proof with them, of an older node, stays readable.
_RETIRED = frozenset({"device", "utilisation", "utilisation_source"})


def max_proof_bytes(losses: int, states: int = 0) -> int:
    """The length of a proof that states so many losses and names so many states."""
    return MAX_PROOF_BYTES + losses * _LOSS_BYTES + states * _STATE_BYTES


class ProofOfComputation(BaseModel):
    """Hashes are 64 lower-case hexadecimal digits.

    ``trace`` names the published trace, whose Merkle root is ``trace_root``. ``dataset`` is stated
    where a node trains on its own data: which it is, as a salted commitment. ``examples`` is how
    many examples it has, stated where they are the unit of privacy and decide what a round costs.
    ``inbox`` names the entries that a miner of a split model executed; ``trace`` is then its log.
    ``busy_ms`` is how long it was busy with them, where paths are drawn by that.
    ``losses`` are stated by a miner of the last stage: (sample, loss in 1e-6 nats a token) of each
    sample that its log has forward, ascending. ``memory`` is the free memory, in bytes, that a
    miner declares where seats depend on it. Where epochs are audited by segments, ``states`` name
    the miner's state after each but the last one, ``weights`` what it ended with, and ``optimizer``
    is the hash of its optimizer then. Whoever states none of them leaves the field out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1
    node: Annotated[int, Strict(), Field(ge=1, lt=2**256)]
    task: Hex32
    gradient_hash: Hex32
    trace_root: Hex32
    trace: Cid
    steps: Annotated[int, Strict(), Field(ge=0, le=MAX_STEPS)]
    compute_time_ms: Annotated[int, Strict(), Field(ge=0, lt=2**53)]
    determinism_class: Line
    dataset: Hex32 | None = None
    examples: Annotated[int, Strict(), Field(ge=1, lt=2**53)] | None = None
    busy_ms: Annotated[int, Strict(), Field(ge=1, lt=2**53)] | None = Field(
        default=None, exclude_if=is_none
    )
    inbox: Cid | None = Field(default=None, exclude_if=is_none)
    losses: Losses = Field(default=(), exclude_if=is_empty)
    memory: Annotated[int, Strict(), Field(ge=0, lt=2**63)] | None = Field(
        default=None, exclude_if=is_none
    )
    states: Annotated[tuple[Cid, ...], Field(max_length=MAX_SAMPLES)] = Field(
        default=(), exclude_if=is_empty
    )
    weights: Cid | None = Field(default=None, exclude_if=is_none)
    optimizer: Hex32 | None = Field(default=None, exclude_if=is_none)
    tee_kind: Identifier | None = None
    tee_attestation: OpaqueHex | None = None

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes, losses: int = 0, states: int = 0) -> ProofOfComputation:
        """Read a proof; PayloadError if it is too long, malformed or out of range.

        `losses`, `states`: how many it may state or name beside what has room in any proof.
        """
        longest = max_proof_bytes(losses, states)
        if len(raw) > longest:
            raise PayloadError(f"the proof has {len(raw)} bytes, at most {longest}")
        try:
            fields = loads(raw)
            if isinstance(fields, dict):
                fields = {name: value for name, value in fields.items() if name not in _RETIRED}
            return cls.model_validate(fields)
        except ValidationError as error:
            raise PayloadError(f"the proof of computation is wrong: {describe(error)}") from error
        except ValueError as error:
            raise PayloadError(f"the proof of computation cannot be read: {error}") from error
