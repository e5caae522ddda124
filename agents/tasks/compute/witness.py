# SPDX-License-Identifier: Apache-2.0
"""A hash of the logits: it shows that a forward pass was run, and nobody can guess it.

A loss or a few tokens have so few possible values that whoever sees the tag of one on chain could
try them all, and show the result without having run anything. So the payloads of `evaluate` and
`generate` carry a hash of the logits after the last position of every sequence in every forward
pass: thousands of bits that only running the passes gives, and that cost next to nothing to hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Witness:
    """Hash of the logits seen so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def see(self, logits: Tensor) -> None:
        """Take in the logits of one pass, [batch, seq, vocab]."""
        last = logits[:, -1].detach().to("cpu", torch.float32).contiguous()
        self._hash.update(last.numpy().tobytes())

    def hexdigest(self) -> str:
        """SHA-256, hex."""
        return self._hash.hexdigest()


@contextmanager
def witnessed(model: nn.Module) -> Iterator[Witness]:
    """Watch every forward pass of `model` inside the block."""
    witness = Witness()

    def see(module: nn.Module, inputs: Any, output: Tensor) -> None:
        witness.see(output)

    handle = model.register_forward_hook(see)
    try:
        yield witness
    finally:
        handle.remove()
