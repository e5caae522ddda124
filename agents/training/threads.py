# SPDX-License-Identifier: Apache-2.0
"""How many threads torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """One CPU thread. A second one gains little where tensors are small. Where other processes keep
    the cores busy, each waits for the other at every operation, and burns a core while it waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
