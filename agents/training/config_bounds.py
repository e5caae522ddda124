# SPDX-License-Identifier: Apache-2.0
"""Bounds what a stranger's model config makes a machine build, before the model can be counted.

Rule: a whole number above ``MOST`` is a width, a length, or the number of a token; its key says so.
Any other number may be of things that are made one by one, such as labels, which any config of
transformers has: 300 million of them take 100 GB and two hours, and no parameter. And a network
that is built in ``at_most`` has no more modules and parameters than that says.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

MOST: Final = 1024
"""Of the things of one kind: layers, heads, labels."""
_MOST_OF: Final = {"num_experts": 1 << 16}  # rows of one tensor, with which modules are counted
_WIDE: Final = frozenset(
    [
        *("size", "sizes", "dim", "dims", "width", "ff", "dff", "inner", "rank", "model"),
        *("length", "len", "position", "positions", "ctx", "window", "chunksize", "distance"),
        *("vocab", "token", "tokens", "id", "ids", "index", "embd", "embedding", "embeddings"),
        *("base", "centroids", "offset", "rate", "scale", "seed", "theta", "topk"),
    ]
)
"""Words of such keys: of each number above `MOST` that a causal model of transformers 5.17 has by
default."""


def excess(key: str, value: Any) -> str:
    """What is wrong with a number under a key, or in a list under it; empty if nothing is."""
    if key == "attention_types" and _expanded(value) > MOST:
        return f"must make at most {MOST} layers"
    if not isinstance(value, int) or value <= _MOST_OF.get(key, MOST):
        return ""
    if _WIDE.intersection(re.split("[^a-z]+", key.lower())):
        return ""
    return f"must be at most {_MOST_OF.get(key, MOST)}: it is not known for a width or a length"


def _expanded(value: Any) -> int:
    """How many layers gpt_neo makes of [[kinds, times], ...], as far as that is what it is."""
    pairs = [one for one in value if isinstance(one, list)] if isinstance(value, list) else []
    return sum(
        len(pair[0]) * pair[1]
        for pair in pairs
        if len(pair) > 1 and isinstance(pair[0], list | str | dict) and isinstance(pair[1], int)
    )


@contextmanager
def at_most(parts: int) -> Iterator[None]:
    """ValueError once this thread has put more modules and parameters than that into networks."""
    left, thread = parts, threading.get_ident()

    def count(module: nn.Module, name: str, part: object) -> None:
        nonlocal left
        if threading.get_ident() == thread:
            left -= 1
            if left < 0:
                raise ValueError(f"the network has more than {parts} modules and parameters")

    hooks = (
        register_module_module_registration_hook(count),
        register_module_parameter_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
