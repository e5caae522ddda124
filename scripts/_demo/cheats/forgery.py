# SPDX-License-Identifier: Apache-2.0
"""Artefacts that agree with each other and are false."""

from __future__ import annotations

import json

from agents.rounds.proof import ProofOfComputation
from agents.rounds.work import Work
from agents.storage.cid import cid_of_bytes
from agents.training.trace import Trace


def forged(honest: Work, node: int, payload: bytes, gradient_hash: bytes) -> Work:
    """The honest work's trace and proof, made to end in another payload.

    A commitment to the starting parameters, where the job has that in place of the trace's root,
    stays as it is.
    """
    hashes = [bytes.fromhex(text) for text in json.loads(honest.trace)["hashes"]]
    trace = Trace(node, (*hashes[:-1], gradient_hash))
    traced = honest.trace_root == Trace(node, tuple(hashes)).root()
    proof = ProofOfComputation.from_bytes(honest.proof).model_copy(
        update={
            "gradient_hash": gradient_hash.hex(),
            "trace_root": trace.root().hex(),
            "trace": cid_of_bytes(trace.to_bytes()),
        }
    )
    root = trace.root() if traced else honest.trace_root
    return Work(payload, trace.to_bytes(), proof.to_bytes(), root)
