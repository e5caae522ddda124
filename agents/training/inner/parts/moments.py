# SPDX-License-Identifier: Apache-2.0
"""AdamW (arXiv 1711.05101) on one run of numbers, and the bound on a gradient's norm.

Powers of the betas are repeated products, and each line is one elementwise operation, so the same
numbers give the same bits. A CPU goes through all lines with some thousand numbers at a time, which
stay in its cache: the same operations on the same numbers, and up to five times as fast. A GPU
takes PyTorch's fused AdamW, which reads and writes each number once; its bits are those of its
determinism class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat

import torch
from torch import Tensor
from torch.optim import AdamW

from agents.training.most_moved import Most, over_steps
from agents.training.spec import Hyperparameters
from agents.training.state import Shapes

CHUNK = 1 << 17  # numbers worked on at once by a CPU
_ROW = 1 << 14  # numbers whose norm a GPU takes in fp32
_EXACT = 1 << 16  # steps of which each is looked at for the largest ratio


@torch.no_grad()
def clip_norm(gradient: Tensor, bound: float) -> None:
    """Scale fp32 [n] in place so that its L2 norm, added up in fp64, is at most ``bound``.

    A CPU copies what it takes in fp64, so it takes one chunk after the other: a copy of the whole
    would be half as much again as weights and gradient together.

    Raises:
        FloatingPointError: the norm is not finite.
    """
    norm = (_norm_in_rows if gradient.is_cuda else _norm_in_chunks)(gradient)
    if not math.isfinite(norm):
        raise FloatingPointError("the gradient is not finite; lower the learning rate")
    if norm > bound:
        gradient.mul_(bound / norm)


def most_by_moments(
    shapes: Shapes, hyper: Hyperparameters, steps: int, earlier: int = 0
) -> dict[str, Most]:
    """How far steps can move tensors, by moments of so many earlier ones or fewer; those of one
    dimension have no decay."""
    plain = _most(hyper.lr, hyper.betas, 0.0, steps, earlier)
    decayed = _most(hyper.lr, hyper.betas, hyper.weight_decay, steps, earlier)
    return {name: decayed if len(shape) >= 2 else plain for name, shape in shapes.items()}


@lru_cache(256)
def _most(lr: float, betas: tuple[float, float], decay: float, steps: int, earlier: int) -> Most:
    ratios = _ratios(betas, steps)
    if earlier:  # each of these steps may be any of so many
        ratios = repeat(_largest_ratio(betas, earlier + steps), steps)
    return Most(*over_steps(1.0 - lr * decay, (lr * one for one in ratios)))


def _ratios(betas: tuple[float, float], steps: int) -> Iterator[float]:
    """Of each of so many steps from zero, the first moment over the root of the second, at most.

    With weights p_i of the first and q_i of the second, sum p_i g_i is at most
    sqrt(sum p_i^2 / q_i) sqrt(sum q_i g_i^2), by Cauchy and Schwarz, and there are gradients g_i
    for which it is. It is infinite where the second forgets at once what the first keeps.
    """
    beta1, beta2 = betas
    power1 = power2 = term = 1.0
    growth = beta1 * beta1 / beta2 if beta2 else math.inf if beta1 else 0.0
    total = 0.0
    for _ in range(steps):
        total += term
        term *= growth
        power1 *= beta1
        power2 *= beta2
        first = (1.0 - beta1) * math.sqrt(total / (1.0 - beta2))
        yield first * math.sqrt(1.0 - power2) / (1.0 - power1)


def _largest_ratio(betas: tuple[float, float], steps: int) -> float:
    """The largest of so many. Those beyond `_EXACT` are taken together: none of these is above what
    endless steps give, but for the first moment's correction, which is that of step `_EXACT`."""
    largest = max(_ratios(betas, min(steps, _EXACT)))
    if steps <= _EXACT or not math.isfinite(largest):
        return largest
    beta1, beta2 = betas
    growth = beta1 * beta1 / beta2 if beta2 else 0.0
    if growth >= 1.0:
        return math.inf
    power1 = 1.0
    for _ in range(_EXACT):
        power1 *= beta1
    endless = (1.0 - beta1) * math.sqrt(1.0 / ((1.0 - growth) * (1.0 - beta2)))
    return max(largest, endless / (1.0 - power1))


def _norm_in_chunks(gradient: Tensor) -> float:
    parts = gradient.split(CHUNK)
    return math.hypot(*(float(torch.linalg.vector_norm(p, dtype=torch.float64)) for p in parts))


def _norm_in_rows(gradient: Tensor) -> float:
    """Rows are short enough for fp32, and their norms are added in fp64. A GPU takes 1 ms for 10^9
    numbers so, and 8 ms where each is taken in fp64."""
    whole = len(gradient) // _ROW * _ROW
    rows = torch.linalg.vector_norm(gradient[:whole].view(-1, _ROW), dim=1)
    rest = torch.linalg.vector_norm(gradient[whole:])
    return float(torch.linalg.vector_norm(torch.cat((rows, rest[None])), dtype=torch.float64))


def _width(values: Tensor) -> int:
    """Numbers to work on at once."""
    return CHUNK if values.device.type == "cpu" else max(1, len(values))


def moments_of(values: Tensor, gradient: Tensor, decayed: int) -> Moments | FusedMoments:
    """The form that is fastest where the numbers are. Arguments are those of `Moments`."""
    return (FusedMoments if values.is_cuda else Moments)(values, gradient, decayed)


class FusedMoments:
    """What `Moments` does, by `torch.optim.AdamW` in its fused form: the same formula, rounded
    otherwise."""

    def __init__(self, values: Tensor, gradient: Tensor, decayed: int) -> None:
        """As `Moments`."""
        self._first, self._second = torch.zeros_like(values), torch.zeros_like(values)
        decayed = min(decayed, len(values))
        rows = (values, gradient, self._first, self._second)
        # Of the numbers with decay and of the others: the four views.
        parts = [[row[:decayed] for row in rows], [row[decayed:] for row in rows]]
        groups = [{"params": [torch.nn.Parameter(part[0])]} for part in parts]
        self._steps = AdamW(groups, fused=True)
        for group, (_, grads, first, second) in zip(self._steps.param_groups, parts, strict=True):
            (run,) = group["params"]
            run.grad = grads
            self._steps.state[run] = {
                "step": torch.zeros((), device=values.device),
                "exp_avg": first,
                "exp_avg_sq": second,
            }

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """The first and the second moment, fp32 [n] each: views."""
        return self._first, self._second

    def resume(self, betas: tuple[float, float], steps: int) -> None:
        """Both moments come from so many steps."""
        for state in self._steps.state.values():
            state["step"].fill_(float(steps))

    @torch.no_grad()
    def step(self, hyper: Hyperparameters) -> None:
        """Update the values in place by their gradient, which was clipped before."""
        for group, decay in zip(self._steps.param_groups, (hyper.weight_decay, 0.0), strict=True):
            group |= {"lr": hyper.lr, "betas": hyper.betas, "eps": hyper.eps, "weight_decay": decay}
        self._steps.step()


class Moments:
    """Both moments of a run of numbers, from zero; ``step`` counts from 1."""

    def __init__(self, values: Tensor, gradient: Tensor, decayed: int) -> None:
        """``values``, ``gradient``: fp32 [n] views; the first ``decayed`` numbers have decay."""
        self._first = torch.zeros_like(values)
        self._second = torch.zeros_like(values)
        self._power1 = self._power2 = 1.0
        count = len(values)
        width = _width(values)
        self._scratch = values.new_empty(min(width, count))
        rows = (values, gradient, self._first, self._second)
        # Per chunk its four views, and how many of its numbers have decay.
        self._chunks = [
            (tuple(row[at : at + width] for row in rows), max(0, min(width, decayed - at)))
            for at in range(0, count, width)
        ]

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """The first and the second moment, fp32 [n] each: views."""
        return self._first, self._second

    def resume(self, betas: tuple[float, float], steps: int) -> None:
        """Both moments come from so many steps: the powers are what repeated products give."""
        self._power1 = self._power2 = 1.0
        for _ in range(steps):
            self._power1 *= betas[0]
            self._power2 *= betas[1]

    @torch.no_grad()
    def step(self, hyper: Hyperparameters) -> None:
        """Update the values in place by their gradient, which was clipped before."""
        beta1, beta2 = hyper.betas
        self._power1 *= beta1
        self._power2 *= beta2
        for (values, gradient, first, second), decayed in self._chunks:
            spare = self._scratch[: len(values)]
            first.mul_(beta1).add_(torch.mul(gradient, 1.0 - beta1, out=spare))
            torch.mul(gradient, gradient, out=spare)
            second.mul_(beta2).add_(spare.mul_(1.0 - beta2))
            values[:decayed].mul_(1.0 - hyper.lr * hyper.weight_decay)
            torch.div(second, 1.0 - self._power2, out=spare).sqrt_().add_(hyper.eps)
            torch.div(first, spare, out=spare)
            values.sub_(spare.mul_(hyper.lr / (1.0 - self._power1)))
