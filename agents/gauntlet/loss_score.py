# SPDX-License-Identifier: Apache-2.0
"""LossScore: how much a small step along an update lowers the loss.

LossScore(D) = L(theta, D) - L(theta - beta * update, D) with beta = c * alpha (the paper's equation
2), in nats. A validator publishes its scores in whole nano-nats and rates with the published
numbers, so that whoever replays its record computes with what it computed with.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

NANO = 1_000_000_000
# Nats per token: a mean loss over tokens in fp32 is rounded otherwise by another machine, by a few
# millionths of it; a LossScore is the difference of two.
LOSS_TOLERANCE = 1e-4
# A loss of a million nats is ruin, whatever its digits; it also fits every integer a record holds.
_MOST = 1_000_000.0


def loss_score(before: float, after: float) -> float:
    """By how many nats the loss fell, at most 1e6 either way.

    -inf if `after` is not a number or infinite: the step ruined the model, which is worse than any
    number. 0 if `before` is: no step from a ruined model is worth anything, so all nodes tie.
    """
    if not math.isfinite(before):
        return 0.0
    if not math.isfinite(after):
        return -math.inf
    return max(-_MOST, min(_MOST, before - after))


def fell(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how many nats losses fell, at most 1e6 either way. What is no finite number stays so.

    Without the bound an update that a record has no number for would stop its validator.
    """
    fallen = before - after
    return np.where(np.isfinite(fallen), np.clip(fallen, -_MOST, _MOST), fallen)


def step(step_share: float, rate: float) -> float:
    """beta = c * alpha: the factor on an update whose effect on the loss is measured.

    `rate`: alpha, the round's outer learning rate.
    """
    return step_share * rate


def to_nano(score: float) -> int | None:
    """A LossScore in whole nano-nats; None, as for a missing payload, if it isn't finite."""
    return round(score * NANO) if math.isfinite(score) else None


def from_nano(nano: int | None) -> float | None:
    """The LossScore that `to_nano` published."""
    return None if nano is None else nano / NANO
