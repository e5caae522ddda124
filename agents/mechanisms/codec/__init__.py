# SPDX-License-Identifier: Apache-2.0
"""Codecs: each file here turns a pseudo-gradient into bytes and back.

A codec uses no chain, no store and no role. On the wire every codec uses the one container of
`agents.mechanisms.codec.parts.container` (safetensors), so one validator reads the payloads of all
of them. A new codec is one new file that decorates its class with `register("<file name>")`.
"""

import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from agents.mechanisms.codec.parts.container import Layout, Payload
from agents.mechanisms.codec.parts.stretch import Stretch
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.registry import MechanismRegistry

__all__ = [
    "Codec",
    "EdgedCodec",
    "Layout",
    "LinearCodec",
    "Payload",
    "Shapes",
    "Stretch",
    "StretchCodec",
    "Support",
    "SupportCodec",
    "get",
    "names",
    "ratio",
    "register",
]

Shapes = Mapping[str, tuple[int, ...]]


class Codec(Protocol):
    """What a codec offers: a class, constructed as `get(name)(**options)` with a spec's options.

    `shapes` maps each model tensor name to its shape. `seed`: 32 public bytes, new in every round.
    `memory` is what a codec keeps from round to round (error feedback); None at first, and always
    for a codec without one. Every function depends on its arguments only, so whoever can recompute
    a gradient can recompute its payload (of `demo`, on another machine, up to the choice between
    equals); `layout`, `wire_size` and `decode` need no memory: any
    stranger can run them.

    Attributes:
        has_memory: whether `remember` returns anything but None.
        memory_rounds: memory starts empty again every so many rounds (0 without a memory).
        lossless: whether `decode` gives back exactly what was encoded.
    """

    @property
    def has_memory(self) -> bool: ...

    @property
    def memory_rounds(self) -> int: ...

    @property
    def lossless(self) -> bool: ...

    def layout(self, shapes: Shapes) -> Layout:
        """Every tensor a payload holds, with wire dtype and shape: what the validator demands."""
        ...

    def wire_size(self, shapes: Shapes) -> int:
        """Exact size in bytes of every valid payload."""
        ...

    def encode(self, gradient: Payload, memory: Payload | None, seed: bytes) -> bytes:
        """The payload of an fp32 pseudo-gradient; ValueError if a tensor is not fp32."""
        ...

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> dict[str, Tensor]:
        """The fp32 pseudo-gradient of a payload, as new CPU tensors; the same bits everywhere.

        ValueError (ContainerError) for bytes that don't have the codec's layout. Finite for every
        payload that passes `agents.rounds.payload`, which callers run on a stranger's bytes.
        """
        ...

    def remember(
        self, gradient: Payload, memory: Payload | None, decoded: Payload
    ) -> dict[str, Tensor] | None:
        """The memory after a round: of what was encoded, what `decoded` did not say."""
        ...


@runtime_checkable
class LinearCodec(Protocol):
    """What a codec offers besides if, up to rounding, it is a linear map of rows of norm 1.

    So noise on the gradient is the same noise in its space, and a verifier that does not know the
    noise can still compare there (`agents.mechanisms.privacy.parts.residual`). Orthonormal rows
    never lengthen a vector: what bounds the gradient bounds its image.
    """

    def linear(self, gradient: Payload, seed: bytes) -> Tensor:
        """The image of an fp32 gradient: float64 [k]."""
        ...

    def measured(self, data: bytes, shapes: Shapes, seed: bytes) -> Tensor:
        """What a checked payload says the image is: float64 [k]."""
        ...

    def rounding_std(self, shapes: Shapes) -> float:
        """Upper bound on the standard deviation of the rounding of one of the k numbers."""
        ...


@runtime_checkable
class SupportCodec(Protocol):
    """What a codec offers besides if it names the numbers it sends.

    So payloads can be compared by what they name, whatever length they were given
    (`agents.verify.overlap`).
    """

    def support(self, data: bytes, shapes: Shapes, seed: bytes) -> Support:
        """The numbers a payload sends, zeros left out; ContainerError as `decode`."""
        ...


@runtime_checkable
class StretchCodec(Protocol):
    """What a codec offers besides if it bounds each tensor of what it says and keeps.

    So what a node sends can be held against what it can have had to send
    (`agents.rounds.stage_bound`).
    """

    @property
    def stretch(self) -> Stretch: ...


@runtime_checkable
class EdgedCodec(Codec, Protocol):
    """What a lossy codec offers besides if it can say how near a payload is to its own.

    So work that was done again on another machine is compared before the codec's choices, which a
    rounding can turn, and not after them (`agents.verify.reexecution.compare_encoded`).
    """

    def least_change(
        self, gradient: Payload, memory: Payload | None, data: bytes, seed: bytes
    ) -> float:
        """A lower bound on the length of a change of gradient and memory together after which
        `encode` gives `data`, up to the rounding of a scale; 0 for what it gives anyway.
        ContainerError as `decode`."""
        ...


def ratio(codec: Codec, shapes: Shapes) -> float:
    """Bytes of the tensors in fp32 over the bytes of a payload; ValueError as the codec's own."""
    return 4 * sum(math.prod(shape) for shape in shapes.values()) / codec.wire_size(shapes)


_registry = MechanismRegistry(__name__, "codec")
register = _registry.register
get = _registry.get
names = _registry.names
