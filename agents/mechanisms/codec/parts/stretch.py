# SPDX-License-Identifier: Apache-2.0
"""How long what a codec says, and what it keeps, can be beside what it was given."""

from __future__ import annotations

from typing import NamedTuple

_BF16 = 1.0 + 2.0**-7  # what rounding a magnitude to BF16 adds to it at most


class Stretch(NamedTuple):
    """Of each tensor: the L2 norm over that of gradient and memory together, at most, of what is
    decoded and of what is remembered."""

    said: float
    kept: float


def of_means(gain: float, decay: float) -> Stretch:
    """Of a codec that writes the mean of some magnitudes, times `gain`, in the place of each.

    With gain 1 that is an orthogonal projection P: its length is at most that of x, and so is that
    of x - P x. With another gain x - gain P x is at most |1 - gain| times as long where P leads.
    """
    return Stretch(gain * _BF16, decay * max(1.0, abs(1.0 - gain)) * _BF16)


def of_steps(sent: float, decay: float) -> Stretch:
    """Of a codec that rounds numbers to steps. `sent`: the length of the error in those that are
    sent, over that of all numbers."""
    return Stretch((1.0 + sent) * _BF16, decay * (1.0 + sent) * _BF16)
