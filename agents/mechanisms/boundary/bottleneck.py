# SPDX-License-Identifier: Apache-2.0
"""The boundary `bottleneck`: figure 4 of IOTA's technical primer (arXiv 2507.17766, section 4).

The sender side is the second half of the bottleneck block, in the place of the last feed-forward of
its stage: SiLU, then a projection to `width` channels, to which the stream's first `width` channels
are added. The receiver side is the first half of the post-bottleneck block, in the place of the
first attention of its stage: a linear decoder with ReLU, then attention, to whose first `width`
channels the code is added. A stage of one block has both halves: the figure's bottleneck block.

The operations are those of the authors' own model file; there the decoder is made in the first
forward, here with the stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import Coded


class _Sender(Side):
    def __init__(self, parts: Parts, width: int) -> None:
        super().__init__()
        self.width = width
        self.feed_forward = parts.feed_forward()
        self.projection = nn.Linear(parts.d_model, width, bias=False)

    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        narrow: Tensor = self.projection(functional.silu(self.feed_forward(x)))
        return narrow + x[..., : self.width]


class _Receiver(Side):
    def __init__(self, parts: Parts, width: int) -> None:
        super().__init__()
        self.width = width
        self.decoder = nn.Linear(width, parts.d_model, bias=False)
        self.attention = parts.attention()

    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        mixed: Tensor = self.attention(functional.relu(self.decoder(code)))
        return torch.cat((mixed[..., : self.width] + code, mixed[..., self.width :]), dim=-1)


@register("bottleneck")
@dataclass(frozen=True, kw_only=True)
class Bottleneck(Coded):
    """The boundary `bottleneck`; see `agents.mechanisms.boundary.Boundary` and `Coded`."""

    table: ClassVar[Table] = "none"
    takes_halves: ClassVar[bool] = True

    def sender(self, parts: Parts) -> Side:
        """A feed-forward and d_model * width parameters."""
        return _Sender(parts, self.code_width(parts.d_model))

    def receiver(self, parts: Parts) -> Side:
        """An attention and d_model * width parameters."""
        return _Receiver(parts, self.code_width(parts.d_model))
