# SPDX-License-Identifier: Apache-2.0
"""The rule: one codec is one file here; it turns a pseudo-gradient into bytes and back.

A codec never sees the chain, the store or a role. On the wire every codec uses the one container of
`agents.compression.container` (safetensors), so one validator reads the payloads of all of them. A
new codec is one new file that decorates its class with `register("<file name>")`.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from agents.compression.container import Layout
from agents.registry import Registry

Shapes = Mapping[str, tuple[int, ...]]


class Codec(Protocol):
    """What a codec offers. `shapes` maps each model tensor name to its shape.

    A codec may keep memory on the trainer's side (error feedback, say): `initial_state` makes it,
    `encode` returns its successor, and the trainer stores it between rounds. It is None for a codec
    without memory. `layout`, `wire_size` and `decode` never use it: any stranger can run them.
    """

    def initial_state(self, shapes: Shapes) -> Any:
        """The trainer's codec state before its first round; None for a codec without memory."""
        ...

    def layout(self, shapes: Shapes) -> Layout:
        """Every tensor a payload holds, with wire dtype and shape: what the validator demands."""
        ...

    def wire_size(self, shapes: Shapes) -> int:
        """Exact size in bytes of every valid payload."""
        ...

    def encode(self, gradient: Mapping[str, Tensor], state: Any) -> tuple[bytes, Any]:
        """(payload, next state) of an fp32 pseudo-gradient; bytes depend on these inputs only.

        ValueError if a tensor is not fp32.
        """
        ...

    def decode(self, data: bytes, shapes: Shapes) -> dict[str, Tensor]:
        """The fp32 pseudo-gradient of a payload, as new CPU tensors.

        ValueError (ContainerError) for bytes that don't have the codec's layout. Values are checked
        for finiteness by `agents.training.payload`, which callers run on a stranger's bytes first.
        """
        ...


_registry = Registry(__name__, "codec")
register = _registry.register
get = _registry.get
names = _registry.names
