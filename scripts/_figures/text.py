# SPDX-License-Identifier: Apache-2.0
"""The text that small byte models are trained on, its windows, and the rate over a run."""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path

import torch
from torch import Tensor

BATCH, SEQ = 4, 128
CORPUS_BYTES = 8_000_000
_WINDOWS = 256
_HELD_OUT = 20  # the last of so many parts


def corpus() -> bytes:
    """The first 8,000,000 bytes of the standard library's .py files in order of their paths.

    The quality study trains its anchors on the same bytes (CPython 3.11.7), and keeps their sha256.
    """
    root = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(root.rglob("*.py")):
        if "site-packages" not in path.parts:
            text += path.read_bytes()
            if len(text) >= CORPUS_BYTES:
                break
    return bytes(text[:CORPUS_BYTES])


class Text:
    """Bytes of the standard library: int64 windows of SEQ + 1, drawn by seed and step."""

    def __init__(self) -> None:
        data = torch.frombuffer(bytearray(corpus()), dtype=torch.uint8).long()
        split = len(data) - len(data) // _HELD_OUT
        self.train, held_out = data[:split], data[split:]
        self.held_out = _windows(held_out, _WINDOWS, torch.Generator().manual_seed(0)).split(32)

    def batch(self, seed: int, step: int, count: int = BATCH) -> Tensor:
        """int64 [count, SEQ + 1]."""
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        return _windows(self.train, count, draw)


def _windows(data: Tensor, count: int, draw: torch.Generator) -> Tensor:
    starts = torch.randint(len(data) - SEQ, (count,), generator=draw)
    return data[starts[:, None] + torch.arange(SEQ + 1)]


def schedule(step: int, steps: int, low: float = 0.1) -> float:
    """Factor on the rate at step 0..: linear over the first tenth, then a cosine to `low`."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    progress = (step - warm) / max(1, steps - warm)
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress))
