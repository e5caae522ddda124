# SPDX-License-Identifier: Apache-2.0
"""The two modules of a boundary, and what they may be built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Parts:
    """What the model gives to a boundary.

    Attributes:
        d_model: channels of the residual stream.
        attention, feed_forward: each makes a new half of a block: a module that maps
            [batch, seq, d_model] to what it adds to the residual stream.
    """

    d_model: int
    attention: Callable[[], nn.Module]
    feed_forward: Callable[[], nn.Module]


class Side(nn.Module):
    """One side of a boundary; all its parameters exist once it is made.

    The sender's `forward(x, base)` turns the stream at the end of a stage into the code, the
    receiver's `forward(code, base)` turns the code into the stream at the start of the next.
    Stream: fp32 [batch, seq, d_model]; code: fp32 [batch, seq, width]; `base`: what the stage's
    own table of tokens holds for the sample, like the stream, None where the boundary wants none.

    Attributes:
        stds: standard deviations of the first draws, by parameter name; the others are drawn as
            the model's own parameters are.
    """

    def __init__(self, stds: dict[str, float] | None = None) -> None:
        super().__init__()
        self.stds = stds or {}


def given(base: Tensor | None) -> Tensor:
    """The base of a boundary that wants one; ValueError without."""
    if base is None:
        raise ValueError("This boundary needs the stage's own table of tokens, and got none.")
    return base
