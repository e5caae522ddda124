# SPDX-License-Identifier: Apache-2.0
"""The parts of a model on which a node's work is looked for, each by itself.

Most of what a small update does to the loss comes from the output layer, and its gradient needs no
pass back through the others. So whoever trains that layer alone shows nearly as much of its data as
a node that trains them all, for half of the work. An update is therefore measured by its parts: of
half of the sequences with what it does to the ends of the model, and of the other half with what it
does between them. Where a part holds no work, no work is shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from agents.training.model import hidden_matrices

Part = tuple[str, ...]  # names of weights


def model_parts(kind: str, model: nn.Module, names: Iterable[str]) -> tuple[Part, ...]:
    """The ends (embeddings, output layer, norms, biases) and the matrices between them.

    Args:
        kind: of the model, a key of ``agents.training.model.MODEL_KINDS``.
        model: a network of that kind.
        names: of the weights that a payload holds. Each is in one part; a part without any is left
            out.
    """
    hidden = set(hidden_matrices(kind, model))
    ordered = sorted(names)
    ends = tuple(name for name in ordered if name not in hidden)
    between = tuple(name for name in ordered if name in hidden)
    return tuple(part for part in (ends, between) if part)
