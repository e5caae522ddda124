# SPDX-License-Identifier: Apache-2.0
"""A model whose parameters and gradients are views of two flat fp32 vectors.

The optimizer, the gradient norm and the copy to the host then are a handful of operations
whatever the number of tensors. Matrices come first, so weight decay applies to one slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from agents.training.model import build_model
from agents.training.spec import ModelSpec
from agents.training.state import State

_ALIGN = 16  # floats, 64 bytes: each tensor starts on a cache line


class FlatModel:
    """A network of a spec on one device, loaded from and read back as a state.

    Attributes:
        model: the module; its parameters are views of ``values``.
        values: fp32 [n], padding elements are zero.
        grads: fp32 [n].
        decayed: number of leading elements that belong to matrices.
    """

    def __init__(self, spec: ModelSpec, config: bytes | None = None, device: str = "cpu") -> None:
        self.device = device
        self.model: nn.Module = build_model(spec, config, device)
        named = dict(sorted(self.model.named_parameters()))
        order = sorted(named, key=lambda name: (named[name].dim() < 2, name))
        self._spans: dict[str, tuple[int, torch.Size]] = {}
        total = self.decayed = 0
        for name in order:
            self._spans[name] = (total, named[name].shape)
            total += math.ceil(named[name].numel() / _ALIGN) * _ALIGN
            if named[name].dim() >= 2:
                self.decayed = total
        self.values = torch.zeros(total, device=device)
        self.grads = torch.zeros(total, device=device)
        views, grads = self._views(self.values), self._views(self.grads)
        for name, parameter in named.items():
            parameter.data = views[name]
            parameter.grad = grads[name]

    def _views(self, flat: Tensor) -> State:
        return {
            name: flat[start : start + shape.numel()].view(shape)
            for name, (start, shape) in self._spans.items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state in; KeyError or RuntimeError when names or shapes differ."""
        if state.keys() != self._spans.keys():
            raise KeyError("the state's tensor names are not those of the model")
        for name, view in self._views(self.values).items():
            view.copy_(state[name])

    def set_grads(self, gradient: Tensor) -> None:
        """Set ``grads`` from fp32 [parameters], the tensors in order of their names."""
        views = self._views(self.grads)
        parts = gradient.split([views[name].numel() for name in sorted(views)])
        for name, part in zip(sorted(views), parts, strict=True):
            views[name].copy_(part.view_as(views[name]))

    def split(self, flat: Tensor) -> State:
        """CPU views by name into a flat vector of this layout (a copy if it is elsewhere)."""
        return self._views(flat.cpu())
