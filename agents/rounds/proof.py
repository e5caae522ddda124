# SPDX-License-Identifier: Apache-2.0
"""Proof of computation: what a trainer states about its work, beside the payload (ZIP-407).

Only ``gradient_hash``, ``trace_root`` and ``steps`` can be checked by re-execution. The compute
time is a statement. A TEE attestation is carried for whoever can read it; nothing here reads or
trusts it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError

from agents.storage.canonical import dumps, loads
from agents.training.spec import Cid, Identifier, describe
from agents.training.state import PayloadError
from agents.training.trace import MAX_STEPS

MAX_PROOF_BYTES = 64 * 1024

Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
OpaqueHex = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){1,16384}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,400}$")]


# What proofs stated before and nothing read; a proof with them, of an older node, stays readable.
_RETIRED = frozenset({"device", "utilisation", "utilisation_source"})


class ProofOfComputation(BaseModel):
    """Hashes are 64 lower-case hexadecimal digits.

    ``trace`` names the published trace, whose Merkle root is ``trace_root``. ``dataset`` and
    ``examples`` are stated where a node trains on its own data: which it is, as a salted
    commitment, and how many examples it has, which decides what a round costs in privacy.
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
    tee_kind: Identifier | None = None
    tee_attestation: OpaqueHex | None = None

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> ProofOfComputation:
        """Read a proof; PayloadError if it is too long, malformed or out of range."""
        if len(raw) > MAX_PROOF_BYTES:
            raise PayloadError(f"the proof has {len(raw)} bytes, at most {MAX_PROOF_BYTES}")
        try:
            fields = loads(raw)
            if isinstance(fields, dict):
                fields = {name: value for name, value in fields.items() if name not in _RETIRED}
            return cls.model_validate(fields)
        except ValidationError as error:
            raise PayloadError(f"the proof of computation is wrong: {describe(error)}") from error
        except ValueError as error:
            raise PayloadError(f"the proof of computation cannot be read: {error}") from error
