# SPDX-License-Identifier: Apache-2.0
"""The boundary `residual`: an encoder and a decoder beside an identity path of low rank.

After ResBM (arXiv 2604.11947), in our reading: the code is the stream's first `width` channels plus
a learned linear image of all of them; the receiver puts the code back on those channels and adds a
learned linear image of the code.

With `anchor` each stage has its own table of tokens, which starts as the model's embedding does.
The sender takes its own table's rows off the stream and the receiver adds its own, so the code
carries only what the blocks made of a token. Both learned maps then start at zero: the code starts
as the first `width` channels of that difference, unmixed, and what the maps learn comes on top.

With `context` the rows of both tables also depend on the tokens before (`parts.context`), which
both stages know. So the code need not carry what follows from the last few tokens alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms.boundary import Parts, Side, Table, register
from agents.mechanisms.boundary.parts.coded import Coded
from agents.mechanisms.boundary.parts.context import MAX_CONTEXT, Context
from agents.mechanisms.options import check_bool, check_int


class _Sided(Side):
    """One side, with the std of its learned map, and the context of its table."""

    def __init__(self, d_model: int, learned: str, std: float, context: int) -> None:
        stds = {f"{learned}.weight": std}
        super().__init__(stds | {"context.weight": 0.0} if context else stds)
        self.context = Context(d_model, context) if context else nn.Identity()

    def rows(self, base: Tensor | None) -> Tensor | float:
        """What the code does not carry; 0 without an anchor."""
        if base is None:
            return 0.0
        rows: Tensor = self.context(base)
        return rows


class _Sender(_Sided):
    def __init__(self, d_model: int, width: int, std: float, context: int) -> None:
        super().__init__(d_model, "encoder", std, context)
        self.width = width
        self.encoder = nn.Linear(d_model, width, bias=False)

    def forward(self, x: Tensor, base: Tensor | None) -> Tensor:
        left = x - self.rows(base)
        learned: Tensor = self.encoder(left)
        return left[..., : self.width] + learned


class _Receiver(_Sided):
    def __init__(self, d_model: int, width: int, std: float, context: int) -> None:
        super().__init__(d_model, "decoder", std, context)
        self.spare = d_model - width
        self.decoder = nn.Linear(width, d_model, bias=False)

    def forward(self, code: Tensor, base: Tensor | None) -> Tensor:
        x: Tensor = functional.pad(code, (0, self.spare)) + self.decoder(code)
        return self.rows(base) + x


@register("residual")
@dataclass(frozen=True, kw_only=True)
class Residual(Coded):
    """The boundary `residual`; see `agents.mechanisms.boundary.Boundary` and `Coded`.

    Attributes:
        anchor: each stage adds its own table of tokens, and the code carries the difference.
        context: tokens before a token that add to its row of both tables, 0 to 64; it needs
            `anchor`.
    """

    anchor: bool = True
    context: int = 0

    takes_halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("anchor", self.anchor)
        check_int("context", self.context, 0, MAX_CONTEXT)
        if self.context and not self.anchor:
            raise ValueError("context needs anchor: true, since it is of the stages' own tables.")

    @property
    def table(self) -> Table:
        return "own" if self.anchor else "none"

    def sender(self, parts: Parts) -> Side:
        """d_model * (width + context) parameters."""
        std = 0.0 if self.anchor else parts.d_model**-0.5
        return _Sender(parts.d_model, self.code_width(parts.d_model), std, self.context)

    def receiver(self, parts: Parts) -> Side:
        """d_model * (width + context) parameters."""
        std = 0.0 if self.anchor else self.width**-0.5
        return _Receiver(parts.d_model, self.code_width(parts.d_model), std, self.context)
