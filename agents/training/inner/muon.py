# SPDX-License-Identifier: Apache-2.0
"""The inner optimizer `muon`: momentum with its singular values made equal, for hidden matrices.

Keller Jordan's Muon (kellerjordan.github.io/posts/muon) with Nesterov momentum, in the form of
Moonlight (arXiv 2502.16982, section 2.2): the update of an m x n matrix is scaled by
0.2 sqrt(max(m, n)), which is the size of an AdamW step, so `lr` and `weight_decay` mean what they
mean for `adamw`. MuLoCo (arXiv 2505.23725) shows it inside DiLoCo. The model says which tensors are
hidden matrices (`agents.training.model.hidden_matrices`); all others take AdamW.

Its state is the momentum of the matrices and both moments of the rest. Matrices of equal shape go
through Newton-Schulz together. Their products are the library's, so as for the model's own, equal
bits are promised within one determinism class.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from agents.mechanisms.options import check_choice, check_float
from agents.training.flat import FlatModule
from agents.training.inner.parts.moments import clip_norm, moments_of, most_by_moments
from agents.training.inner.parts.newton_schulz import LARGEST, orthogonalised
from agents.training.most_moved import Most, over_steps
from agents.training.optimizers import register
from agents.training.spec import Hyperparameters
from agents.training.state import Shapes, State

BATCH = 2**24
"""Numbers that go through Newton-Schulz together at most, where one matrix has no more."""

BOUNDARIES = "boundaries."
"""What the names of a boundary's matrices begin with (`agents.training.slices`)."""

_SCALE = 0.2  # root mean square of an AdamW update, by Moonlight
_COPIES = 5  # the update, what it was, what it becomes, and as much as two of products [m, m]
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@register("muon")
@dataclass(frozen=True, kw_only=True)
class MuonChoice:
    """The inner optimizer ``muon``.

    Options:
        momentum: share of the momentum that a step keeps.
        lr_ratio: rate of the hidden matrices over the spec's ``lr``.
        boundary_ratio: rate of the matrices of a pipeline's boundaries over that of the others.
        newton_schulz: "fp32" or "bf16", in which the products of Newton-Schulz are taken. In bf16
            classes differ further than tolerances allow, so a job whose work is done again lists
            one (`agents.jobs.combinations.machines`).
    """

    momentum: float = 0.95
    lr_ratio: float = 1.0
    boundary_ratio: float = 1.0
    newton_schulz: str = "fp32"

    makes_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or range."""
        check_float("momentum", self.momentum, 0.0, 0.9999)
        check_float("lr_ratio", self.lr_ratio, 1e-3, 1e3)
        check_float("boundary_ratio", self.boundary_ratio, 1e-3, 1e3)
        check_choice("newton_schulz", self.newton_schulz, tuple(_DTYPES))

    def start(self, net: FlatModule, hyper: Hyperparameters, batches: int) -> Muon:
        """Momentum and moments are zero."""
        return Muon(net, hyper, self)

    def numbers(self, shapes: Shapes) -> int:
        """AdamW's moments or the momentum, and what one batch of Newton-Schulz needs."""
        matrices = [math.prod(shape) for shape in shapes.values() if len(shape) == 2]
        together = min(sum(matrices), max(BATCH, *matrices)) if matrices else 0
        return 2 * sum(math.prod(shape) for shape in shapes.values()) + _COPIES * together

    def most_moved(
        self,
        shapes: Shapes,
        hidden: Collection[str],
        hyper: Hyperparameters,
        steps: int,
        earlier: int = 0,
    ) -> dict[str, Most]:
        """Each row and column of a hidden matrix is no longer than its largest singular value,
        whatever its momentum comes from; of the rest each number by itself."""
        rest = {name: shape for name, shape in shapes.items() if name not in hidden}
        found = most_by_moments(rest, hyper, steps, earlier)
        for name in hidden:
            rate = hyper.lr * self.lr_ratio * self.ratio(name)
            part = (
                rate * _SCALE * math.sqrt(max(shapes[name])) * LARGEST[_DTYPES[self.newton_schulz]]
            )
            share, most = _over(1.0 - rate * hyper.weight_decay, part, steps)
            found[name] = Most(share, most, most)
        return found

    def ratio(self, name: str) -> float:
        """Rate of a hidden matrix over that of hidden matrices in general."""
        return self.boundary_ratio if name.startswith(BOUNDARIES) else 1.0


@lru_cache(256)
def _over(shrink: float, part: float, steps: int) -> tuple[float, float]:
    """`over_steps` that are alike; many matrices of a model have one shape."""
    return over_steps(shrink, (part,) * steps)


class Muon:
    """Muon over the hidden matrices of a model, AdamW over the rest of its flat vectors."""

    def __init__(self, net: FlatModule, hyper: Hyperparameters, choice: MuonChoice) -> None:
        self.net, self.hyper, self.choice = net, hyper, choice
        values, grads = net.views(net.values), net.views(net.grads)
        alike: dict[tuple[float, tuple[int, ...]], list[str]] = {}
        for name in net.hidden:
            ratio = choice.ratio(name)
            alike.setdefault((ratio, tuple(sorted(values[name].shape))), []).append(name)
        self._stacks = [
            _Stack([values[name] for name in part], [grads[name] for name in part], ratio)
            for (ratio, shape), names in alike.items()
            for part in _parts(names, max(1, BATCH // max(1, math.prod(shape))))
        ]
        self._rest = [
            moments_of(net.values[first:last], net.grads[first:last], max(0, net.decayed - first))
            for first, last in net.without(net.hidden)
        ]

    def step(self) -> None:
        """Clip the gradient by its global norm and update ``net.values`` in place."""
        clip_norm(self.net.grads, self.hyper.grad_clip)
        for stack in self._stacks:
            stack.step(self.hyper, self.choice)
        for moments in self._rest:
            moments.step(self.hyper)

    @property
    def reached(self) -> Tensor:
        """theta after the steps so far: ``net.values``."""
        return self.net.values

    def update(self, start: Tensor) -> Tensor:
        """theta_0 minus theta, one fp32 subtraction per element."""
        return start - self.net.values

    def buffers(self) -> State:
        """The momentum of each stack of matrices, and both moments of each run of the rest."""
        found = {f"momentum.{i}": stack.momentum for i, stack in enumerate(self._stacks)}
        for i, moments in enumerate(self._rest):
            found[f"first.{i}"], found[f"second.{i}"] = moments.buffers
        return found

    def resume(self, steps: int) -> None:
        """All of it comes from so many steps."""
        for moments in self._rest:
            moments.resume(self.hyper.betas, steps)


def _parts(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[first : first + size] for first in range(0, len(names), size))


class _Stack:
    """Matrices of one shape, tall ones turned, with their momentum, fp32 [k, m, n].

    ``ratio``: their rate over that of hidden matrices in general."""

    def __init__(self, values: Sequence[Tensor], grads: Sequence[Tensor], ratio: float) -> None:
        self._ratio = ratio
        self._values, self._grads = [_wide(v) for v in values], [_wide(g) for g in grads]
        self.momentum = self._grads[0].new_zeros(len(grads), *self._grads[0].shape)

    @torch.no_grad()
    def step(self, hyper: Hyperparameters, choice: MuonChoice) -> None:
        kept, rate = choice.momentum, hyper.lr * choice.lr_ratio * self._ratio
        fresh = torch.stack(self._grads).mul_(1.0 - kept)
        self.momentum.mul_(kept).add_(fresh)
        change = orthogonalised(fresh.add_(self.momentum * kept), _DTYPES[choice.newton_schulz])
        change.mul_(rate * _SCALE * math.sqrt(change.shape[-1]))
        for value, part in zip(self._values, change, strict=True):
            value.mul_(1.0 - rate * hyper.weight_decay).sub_(part)


def _wide(matrix: Tensor) -> Tensor:
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
