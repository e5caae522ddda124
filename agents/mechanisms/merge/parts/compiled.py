# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels that give the same bits as the eager code; no caller waits for compilation.

The coordinate rules are elementwise: fused by torch.compile they read memory once instead of once
per operation. Compilation takes seconds to tens of seconds, so it is done in
the background, once per process and shape of rule, and only where payloads are so large that it
pays; until then, without a C++ compiler, or after a failed compilation (one warning), callers run
their eager code. The bits are the same because no operation may be reordered: minimum and maximum
don't round, additions stay in their order, and contraction to
fused multiply-adds is switched off besides.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from agents.mechanisms import built
from agents.mechanisms.merge.parts.sorting_network import plan
from agents.mechanisms.rows import Payload

# Elements read per merge from which a background compilation is started, and the shortest tensor
# worth a call of the kernel.
PAYS = 1 << 27
SMALLEST = 1 << 15
MOST = 32
"""Payloads of a merge that is compiled. At 32 a kernel takes a third of the eager code's time, at
48 as long or longer, at 128 twice as long (`docs/merging.md`)."""
# What a kernel is given at once: its intermediate rows then stay in the cache.
_PIECE = 1 << 17
_OPTIONS: dict[str, Any] = {
    "compile_threads": 1,
    "cpp.enable_floating_point_contract_flag": "off",
}
Kernel = Callable[..., Tensor]


class Recipe(Protocol):
    """An elementwise function of 1-d fp32 rows; hashable, equal recipes compile to one kernel."""

    def sample(self, width: int) -> tuple[Any, ...]:
        """Arguments of `run` for rows of `width` elements."""
        ...

    def run(self, *arguments: Any) -> Tensor:
        """The fp32 result, one element per coordinate, traceable by torch.compile."""
        ...


def _sorted_rows(rows: Sequence[Tensor], comparators: Sequence[Any]) -> list[Tensor]:
    wires = list(rows)
    for low, high, keep_min, keep_max in comparators:
        first, second = wires[low], wires[high]
        if keep_min:
            wires[low] = torch.minimum(first, second)
        if keep_max:
            wires[high] = torch.maximum(first, second)
    return wires


def _positive_zero(values: Tensor) -> Tensor:
    # Adding 0.0 is removed by the compiler as if it changed nothing.
    return torch.where(values == 0, 0.0, values)


@dataclass(frozen=True)
class MiddleOf:
    """The median of `count` rows, as in median.py."""

    count: int

    def sample(self, width: int) -> tuple[Any, ...]:
        """Rows of zeros."""
        return ([torch.zeros(width) for _ in range(self.count)],)

    def run(self, rows: list[Tensor]) -> Tensor:
        """fp32 [width]."""
        low, high = (self.count - 1) // 2, self.count // 2
        wires = _sorted_rows(rows, _plan(self.count, low, high + 1))
        if low == high:
            return _positive_zero(wires[low])
        return _positive_zero((wires[low] + wires[high]) * 0.5)


@dataclass(frozen=True)
class MeanOfRanks:
    """The mean of the ranks `first` .. `last` - 1 of `count` rows, as in trimmed_mean.py."""

    count: int
    first: int
    last: int

    def sample(self, width: int) -> tuple[Any, ...]:
        """Rows of zeros, and the divisor."""
        divisor = torch.tensor(float(self.last - self.first), dtype=torch.float64)
        return ([torch.zeros(width) for _ in range(self.count)], divisor)

    def run(self, rows: list[Tensor], divisor: Tensor) -> Tensor:
        """fp32 [width]."""
        wires = _sorted_rows(rows, _plan(self.count, self.first, self.last))
        total = wires[self.first].double()
        for wire in wires[self.first + 1 : self.last]:
            total = total + wire.double()
        return _positive_zero((total / divisor).float())


def _plan(count: int, first: int, last: int) -> Sequence[Any]:
    # The undecorated function: the tracer can't follow lru_cache.
    return plan.__wrapped__(count, tuple(range(first, last)))


_lock = threading.Lock()
_kernels: dict[Recipe, Kernel | None] = {}


def available() -> bool:
    """Whether this machine has a C++ compiler for torch.compile."""
    return built.compiler() is not None


def run(
    payloads: Sequence[Payload],
    recipe: Recipe,
    update: Mapping[str, Tensor],
    *extras: Tensor,
) -> set[str]:
    """Write `recipe` of the larger tensors into `update`; the names done. The rest is the caller's.

    `extras` are what `recipe.run` takes after the rows. Memory beyond: about n rows of 512 KiB.
    """
    kernel = _kernel(payloads, recipe)
    done: set[str] = set()
    if kernel is None:
        return done
    for name, tensor in update.items():
        if tensor.numel() < SMALLEST:
            continue
        pieces = -(-tensor.numel() // _PIECE)
        columns = zip(
            *(entry[name].reshape(-1).tensor_split(pieces) for entry in payloads), strict=True
        )
        try:
            # Compiling again, for whatever reason, would keep the caller waiting.
            with torch.compiler.set_stance("fail_on_recompile"):
                for part, rows in zip(tensor.view(-1).tensor_split(pieces), columns, strict=True):
                    part.copy_(kernel(list(rows), *extras))
        except RuntimeError as error:
            _give_up(recipe, error)
            return done
        done.add(name)
    return done


def warm(recipe: Recipe) -> bool:
    """Compile `recipe` now and wait for it; whether there is a kernel. For benchmarks and tests."""
    try:
        made: Kernel = torch.compile(recipe.run, dynamic=True, fullgraph=True, options=_OPTIONS)
        for width in (SMALLEST, SMALLEST + 17):
            made(*recipe.sample(width))
    except Exception as error:
        _give_up(recipe, error)
        return False
    with _lock:
        _kernels[recipe] = made
    return True


def _kernel(payloads: Sequence[Payload], recipe: Recipe) -> Kernel | None:
    """The kernel if it is ready. The first large merge on a CPU starts its compilation."""
    tensors = list(payloads[0].values())
    if built.switched_off() or any(tensor.device.type != "cpu" for tensor in tensors):
        return None
    with _lock:
        if recipe in _kernels:
            return _kernels[recipe]
        size = len(payloads) * sum(tensor.numel() for tensor in tensors)
        if size < PAYS or len(payloads) > MOST or not available():
            return None
        _kernels[recipe] = None
    threading.Thread(target=warm, args=(recipe,), name="merge-compiler", daemon=True).start()
    return None


def _give_up(recipe: Recipe, error: Exception) -> None:
    with _lock:
        _kernels[recipe] = None
    warnings.warn(
        f"torch.compile failed for {recipe}, so merging goes on uncompiled, with the same "
        f"result: {str(error)[:300]}",
        RuntimeWarning,
        stacklevel=3,
    )
