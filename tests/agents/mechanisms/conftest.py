# SPDX-License-Identifier: Apache-2.0
"""What the tests of several mechanisms share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def two_threads() -> Iterator[None]:
    """What is computed in it is computed by two threads."""
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(1)
