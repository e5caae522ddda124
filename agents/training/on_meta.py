# SPDX-License-Identifier: Apache-2.0
"""Networks without numbers, built to learn their shapes.

On torch's device ``"meta"`` there is nothing to fill with initial values. torch would take 800
modules of its compiler to do so: a second of computing in every process that looks at a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class _Unfilled(TorchFunctionMode):
    """Leaves out the functions of `torch.nn.init`, which return the tensor they fill."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextmanager
def shapes_only() -> Iterator[None]:
    """What is built in this block allocates nothing and has no values."""
    with torch.device("meta"), _Unfilled():
        yield
