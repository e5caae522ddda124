# SPDX-License-Identifier: Apache-2.0
"""Boundaries: each file here says what crosses between two stages of a pipeline.

A boundary is two modules, the sender side at the end of a stage and the receiver side at the start
of the next, and two forms of bytes: of the code between them, and of the code's gradient on its way
back. It knows the model by plain numbers and by factories of half blocks (`Parts`). A new boundary
is one new file that decorates its class with `register("<file name>")`.

Two controls stand among them: `none`, which loses nothing, and `cut`, where nothing crosses. The
share of what depth is worth that a boundary keeps is (loss of cut - its loss) / (loss of cut - loss
of none); how far it is above `none` says little without `cut`.
"""

from __future__ import annotations

from typing import Literal, Protocol

from agents.mechanisms.boundary.parts.crossing import cross
from agents.mechanisms.boundary.parts.sides import Parts, Side
from agents.mechanisms.boundary.parts.tokens import id_bytes, pack_tokens, unpack_tokens
from agents.mechanisms.boundary.parts.wire import Shape, Wire, WireError
from agents.mechanisms.registry import MechanismRegistry

__all__ = [
    "Boundary",
    "Parts",
    "Shape",
    "Side",
    "Table",
    "Wire",
    "WireError",
    "bytes_per_token",
    "cross",
    "get",
    "message_bytes",
    "names",
    "pack_tokens",
    "register",
    "unpack_tokens",
    "wire_ratio",
]

Table = Literal["none", "own", "fixed"]


class Boundary(Protocol):
    """What a boundary offers: a class, constructed as `get(name)(**options)`.

    Attributes:
        table: whether a stage has a table of tokens whose rows are the `base` of its sides:
            "none"; "own", one that it trains and that starts as the model's embedding does (the
            first stage takes its embedding); "fixed", the embedding's first bits, never trained.
        takes_halves: whether the receiver side takes the place of the attention of its stage's
            first block, and the sender side that of the feed-forward of its stage's last block.
        codes, gradients: the forms of bytes of codes, and of their gradients.
    """

    @property
    def table(self) -> Table: ...

    @property
    def takes_halves(self) -> bool: ...

    @property
    def codes(self) -> Wire: ...

    @property
    def gradients(self) -> Wire: ...

    def code_width(self, d_model: int) -> int:
        """Channels of the code; ValueError if the model is too narrow for the options."""
        ...

    def sender(self, parts: Parts) -> Side:
        """The side at the end of a stage, with parameters of no particular value."""
        ...

    def receiver(self, parts: Parts) -> Side:
        """The side at the start of the next stage."""
        ...


def wire_ratio(
    boundary: Boundary, d_model: int, vocab_size: int, batch: int, seq: int, ids: bool = True
) -> float:
    """How many times shorter a sample's message is than its fp32 stream of 4 * d_model a token.

    Each direction is counted for itself, and the longer one is the boundary's: forth a code, its
    header and the token ids, back the code's gradient and its header.

    Args:
        boundary: whose messages are counted.
        d_model, vocab_size: of the model.
        batch, seq: of the sample.
        ids: count the token ids too, as if a code took them along. Our miners read them from the
            job's data instead. No gradient would have any.
    """
    tokens = batch * seq
    forth, back = _sizes(boundary, d_model, tokens)
    return 4 * d_model * tokens / max(forth + ids * id_bytes(vocab_size) * tokens, back)


def message_bytes(boundary: Boundary, d_model: int, tokens: int) -> int:
    """Bytes of the message of so many tokens, header included; token ids not. It is that of a code
    or of its gradient, whichever is longer."""
    return max(_sizes(boundary, d_model, tokens))


def _sizes(boundary: Boundary, d_model: int, tokens: int) -> tuple[int, int]:
    """Bytes of the messages of a code, which goes forth, and of its gradient, which goes back."""
    shape = 1, tokens, boundary.code_width(d_model)
    return boundary.codes.size(shape), boundary.gradients.size(shape)


def bytes_per_token(boundary: Boundary, d_model: int) -> float:
    """Bytes of a token's code or gradient, whichever is longer, without header and id."""
    width = boundary.code_width(d_model)
    return max(wire.bytes_per_token(width) for wire in (boundary.codes, boundary.gradients))


_registry = MechanismRegistry(__name__, "boundary")
register = _registry.register
get = _registry.get
names = _registry.names
