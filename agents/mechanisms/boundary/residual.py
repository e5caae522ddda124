# SPDX-License-Identifier: Apache-2.0
"""The boundary `residual`: an encoder and a decoder beside an identity path of low rank.

After ResBM (arXiv 2604.11947), in our reading: the code is the stream's first `width` channels plus
a learned linear image of all of them; the receiver puts the code back on those channels and adds a
learned linear image of the code.

With `anchor` each stage has its own table of tokens, which starts as the model's embedding does.
The sender takes its own table's rows off the stream and the receiver adds its own, so the code
carries only what the blocks made of a token. The decoder then starts at a tenth, so that the first
streams are near the tables' rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import Coded
from agents.mechanisms.options import check_bool

_ANCHORED_DECODER = 0.1


class _Sender(Side):
    def __init__(self, d_model: int, width: int) -> None:
        super().__init__({"encoder.weight": d_model**-0.5})
        self.width = width
        self.encoder = nn.Linear(d_model, width, bias=False)

    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        left = x if base is None else x - base
        learned: Tensor = self.encoder(left)
        return left[..., : self.width] + learned


class _Receiver(Side):
    def __init__(self, d_model: int, width: int, start: float) -> None:
        super().__init__({"decoder.weight": start * width**-0.5})
        self.spare = d_model - width
        self.decoder = nn.Linear(width, d_model, bias=False)

    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        x: Tensor = functional.pad(code, (0, self.spare)) + self.decoder(code)
        return x if base is None else base + x


@register("residual")
@dataclass(frozen=True, kw_only=True)
class Residual(Coded):
    """The boundary `residual`; see `agents.mechanisms.boundary.Boundary` and `Coded`.

    Attributes:
        anchor: each stage adds its own table of tokens, and the code carries the difference.
    """

    anchor: bool = True

    takes_halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("anchor", self.anchor)

    @property
    def table(self) -> Table:
        return "own" if self.anchor else "none"

    def sender(self, parts: Parts) -> Side:
        """d_model * width parameters."""
        return _Sender(parts.d_model, self.code_width(parts.d_model))

    def receiver(self, parts: Parts) -> Side:
        """d_model * width parameters."""
        start = _ANCHORED_DECODER if self.anchor else 1.0
        return _Receiver(parts.d_model, self.code_width(parts.d_model), start)
