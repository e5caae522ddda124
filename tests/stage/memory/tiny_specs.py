# SPDX-License-Identifier: Apache-2.0
"""Fields of the specs of small jobs: models that train in milliseconds, and other kinds of job."""

from __future__ import annotations

from typing import Any

# Of codec `demo`: a job that validators score is refused where less is sent of a chunk.
EIGHTH: dict[str, Any] = {"chunk": 16, "per_chunk": 32}
GAUNTLET: dict[str, Any] = {
    "codec": "demo",
    "codec_options": EIGHTH,
    "merge": "demo_sign",
    "score": "gauntlet",
    "verify": "gauntlet",
}
SEALED_PAYLOADS: dict[str, Any] = {
    "merge": "mean",
    "score": "batches",
    "privacy": "aggregate",
    "privacy_options": {"clip": 1.0, "noise_multiplier": 4.0, "max_epsilon": 8.0},
}


def tiny_model(d_model: int, d_ff: int, length: int, layers: int = 1) -> dict[str, int]:
    """A model of two heads that reads `length` tokens."""
    return {
        "d_model": d_model,
        "n_layers": layers,
        "n_heads": 2,
        "n_kv_heads": 1,
        "d_ff": d_ff,
        "max_seq_len": length,
    }


def signed_steps(batch: int, length: int, rate: float, **more: Any) -> dict[str, Any]:
    """An optimizer of plain gradients, whose outer steps of `rate` are signs."""
    return {"batch_size": batch, "seq_len": length, "inner": "gradient", "outer_lr": rate, **more}
