# SPDX-License-Identifier: Apache-2.0
"""What a schedule of rates pays for."""

from __future__ import annotations

from agents.training.optimizers import chosen
from agents.training.spec import JobSpec

_LEAST = 1e-8  # the smallest peak of an inner rate that a spec may have


def idle(spec: JobSpec) -> list[str]:
    """A last round in which nothing moves: its work has no trace, and is paid.

    Where the inner rate is 0 an update is zeros and each hash of the trace is the start's, for
    whoever trains and for whoever doesn't. So a node that is drawn is right without training.
    """
    inner, last = spec.optimizer, spec.rounds - 1
    found = []
    steps = chosen(inner.inner, inner.inner_options).makes_steps
    if steps and inner.lr_at(last, spec.rounds) < _LEAST:
        found.append(
            "the updates of honest nodes are zeros, and a node that sends zeros without training "
            "is right and paid"
        )
    elif spec.outer_lr_at(last) < _LEAST:
        found.append("the merged update is multiplied by it, so the round's work changes nothing")
    return [
        f"optimizer.min_lr_ratio {inner.min_lr_ratio:g}: the last of {spec.rounds} rounds has a "
        f"rate of 0. There {why}; set it above 0"
        for why in found
    ]
