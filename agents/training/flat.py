# SPDX-License-Identifier: Apache-2.0
"""A module whose parameters and gradients are views of two flat fp32 vectors.

The optimizer, the gradient norm and the copy to the host then are a handful of operations
whatever the number of tensors. Matrices come first, so weight decay applies to one slice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from agents.training.model import build_model, hidden_matrices
from agents.training.outer import VELOCITY
from agents.training.slices import Chain, Slices
from agents.training.spec import ModelSpec
from agents.training.state import State

_ALIGN = 16  # floats, 64 bytes: each tensor starts on a cache line


class FlatModule:
    """A module on one device, loaded from and read back as a state.

    Attributes:
        model: the module; its parameters are views of ``values``.
        values: fp32 [n], padding elements are zero.
        grads: fp32 [n].
        decayed: number of leading elements that belong to matrices.
        hidden: names of the matrices between embeddings and output head, sorted.
    """

    def __init__(
        self,
        model: nn.Module,
        device: str = "cpu",
        hidden: Collection[str] = (),
        named: Mapping[str, nn.Parameter] | None = None,
    ) -> None:
        """Take a module over.

        Args:
            model: fp32, already on ``device``; its parameters are moved into ``values``.
            device: where it is.
            hidden: see the class.
            named: its parameters by the names that they have in a state, if not by its own names.
        """
        self.device = device
        self.model = model
        self.hidden = tuple(hidden)
        named = dict(sorted((named or dict(self.model.named_parameters())).items()))
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
        views, grads = self.views(self.values), self.views(self.grads)
        for name, parameter in named.items():
            parameter.data = views[name]
            parameter.grad = grads[name]

    def views(self, flat: Tensor) -> State:
        """Views by name into a flat vector of this layout, on its device."""
        return {
            name: flat[start : start + shape.numel()].view(shape)
            for name, (start, shape) in self._spans.items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state's weights in; KeyError or RuntimeError when names or shapes differ.

        The velocity of an outer step may stand beside them: it is no part of the network."""
        beside = {VELOCITY + name for name in self._spans}
        if state.keys() - beside != self._spans.keys():
            raise KeyError("the state's tensor names are not those of the model")
        for name, view in self.views(self.values).items():
            view.copy_(state[name])

    def without(self, names: Collection[str]) -> list[tuple[int, int]]:
        """The runs (first, end) of a flat vector of this layout that hold none of these tensors."""
        runs: list[tuple[int, int]] = []
        ends = [*[start for start, _ in self._spans.values()][1:], len(self.values)]
        for (name, (first, _)), last in zip(self._spans.items(), ends, strict=True):
            if name in names:
                continue
            if runs and runs[-1][1] == first:
                first = runs.pop()[0]
            runs.append((first, last))
        return runs

    def set_grads(self, gradient: Tensor) -> None:
        """Set ``grads`` from fp32 [parameters], the tensors in order of their names."""
        views = self.views(self.grads)
        parts = gradient.split([views[name].numel() for name in sorted(views)])
        for name, part in zip(sorted(views), parts, strict=True):
            views[name].copy_(part.view_as(views[name]))

    def split(self, flat: Tensor) -> State:
        """CPU views by name into a flat vector of this layout (a copy if it is elsewhere)."""
        return self.views(flat.cpu())


class FlatModel(FlatModule):
    """The whole network of a spec: the decoder, or all stages that it is cut into."""

    def __init__(
        self,
        spec: ModelSpec,
        config: bytes | None = None,
        device: str = "cpu",
        slices: Slices | None = None,
    ) -> None:
        """``slices``: where the spec's model is cut. A state then is that of all stages together,
        and codes are rounded between the stages as the boundary rounds them."""
        if slices is None:
            model = build_model(spec, config, device)
            super().__init__(model, device, hidden_matrices(spec.kind, model))
            return
        chain = Chain(slices, device)
        hidden = [name for stage in chain.stages for name in hidden_matrices(spec.kind, stage)]
        super().__init__(chain, device, sorted(hidden), chain.named())
