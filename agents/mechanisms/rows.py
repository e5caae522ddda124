# SPDX-License-Identifier: Apache-2.0
"""Many payloads are read side by side in chunks of bounded size, never stacked whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

Payload = Mapping[str, Tensor]


def check(payloads: Sequence[Payload]) -> list[str]:
    """The common tensor names, sorted.

    ValueError unless there is at least one payload and all hold the same names, with fp32 tensors
    of the same shapes on the same device.
    """
    if not payloads:
        raise ValueError("There is no payload to read; give at least one.")
    first = payloads[0]
    for index, payload in enumerate(payloads):
        if payload.keys() != first.keys():
            raise ValueError(f"Payload {index} holds other tensor names than payload 0.")
        for name, tensor in payload.items():
            if tensor.dtype != torch.float32:
                raise ValueError(
                    f"Tensor {name!r} of payload {index} is {tensor.dtype}, not float32."
                )
            if tensor.shape != first[name].shape or tensor.device != first[name].device:
                raise ValueError(
                    f"Tensor {name!r} of payload {index} differs in shape or device from payload 0."
                )
    return sorted(first)


def chunks(payloads: Sequence[Payload], width: int) -> Iterator[tuple[str, int, list[Tensor]]]:
    """Yield (tensor name, offset, one 1-d fp32 view per payload), each at most `width` elements.

    Names ascend, offsets ascend within a name; every coordinate comes exactly once.
    """
    for name in check(payloads):
        flat = [payload[name].reshape(-1) for payload in payloads]
        for offset in range(0, flat[0].numel(), width):
            yield name, offset, [row[offset : offset + width] for row in flat]


def refuse_non_finite(update: Mapping[str, Tensor]) -> None:
    """ValueError if a value of `update` is NaN or infinite."""
    for name, tensor in update.items():
        if tensor.numel() and not all(torch.isfinite(edge) for edge in torch.aminmax(tensor)):
            raise ValueError(
                f"Tensor {name!r} of some payload holds a value that is not finite or too large; "
                "such payloads can't be merged."
            )


def empty_like(payload: Payload) -> dict[str, Tensor]:
    """Uninitialised contiguous tensors of the payload's names and shapes."""
    return {
        name: torch.empty_like(tensor, memory_format=torch.contiguous_format)
        for name, tensor in payload.items()
    }
