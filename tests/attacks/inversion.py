# SPDX-License-Identifier: Apache-2.0
"""Gradient inversion: what a stranger reads of a private text from one published update.

The attacker knows the model, the state that the update started from and how long the text is; it
holds no data. Two attacks, one exact and one that withstands errors:

`recover_sequence` (after DAGER: Petrov et al. 2024, "Exact gradient inversion for large language
models"). The gradient of a linear layer's weight is the sum over positions of (output gradient) x
(layer input), so its row space holds every position's input to that layer. A decoder is causal:
the input of the first block's `down` projection at position t depends on tokens 0..t only. So
tokens are found one after the other: of all tokens that could follow the prefix found so far, the
one whose input lies nearest to the row space. The last token is no input; of all tokens that it
could be, the one that gives the most similar gradient wins. Token order is found exactly while the
text has no more tokens than the layer has outputs.

`recover_tokens`: which tokens occur. At the start the rows of the tied embedding's gradient are
alike for all tokens that do not occur (what the softmax wrongly gives each), so the rows that
differ most from the median row are of those that do. It needs no exact numbers: the signs that
AdamW's first step leaves are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from agents.training.flat import FlatModel
from agents.training.model import next_token_loss
from agents.training.private import example_gradients
from agents.training.spec import ModelSpec
from agents.training.state import State

_LAYER = "blocks.0.down.weight"
_NEAR = 1e-3
_WORDS = "embedding.weight"


def gradient_of(spec: ModelSpec, state: State, batch: Tensor) -> State:
    """The gradient that private texts, int64 [texts, tokens], give at `state`."""
    net = FlatModel(spec)
    net.load(state)
    next_token_loss(net.model, batch).backward()
    return {name: tensor.clone() for name, tensor in net.split(net.grads).items()}


@torch.no_grad()
def recover_sequence(
    spec: ModelSpec, state: State, update: Mapping[str, Tensor], length: int
) -> list[int]:
    """The text as its `length` >= 2 tokens, the most likely one at each place."""
    net = FlatModel(spec)
    net.load(state)
    space = _row_space(update[_LAYER].double(), length - 1)
    inputs: list[Tensor] = []
    hook = net.model.get_submodule(_LAYER.removesuffix(".weight")).register_forward_pre_hook(
        lambda _, given: inputs.append(given[0][:, -1].double())
    )
    found: list[int] = []
    every = torch.arange(spec.vocab_size)
    for _ in range(length - 1):
        prefix = torch.tensor(found, dtype=torch.int64).expand(spec.vocab_size, -1)
        net.model(torch.cat((prefix, every[:, None]), 1))
        unit = functional.normalize(inputs.pop())
        found.append(_next((unit - unit @ space.T @ space).norm(dim=1), found))
    hook.remove()
    return [*found, _last(net, update, found)]


def _next(distance: Tensor, found: Sequence[int]) -> int:
    """The nearest token; one that only repeats a single token gets in when no other is near.

    Attention over equal tokens gives what one of them gives: that input fits always, and says
    nothing.
    """
    if len(set(found)) == 1:
        others = distance.clone()
        others[found[0]] = torch.inf
        if float(others.min()) < _NEAR:
            return int(others.argmin())
    return int(distance.argmin())


def _row_space(matrix: Tensor, rank: int) -> Tensor:
    """Orthonormal rows [<= rank, columns] that span the strongest directions of the rows."""
    return torch.linalg.svd(matrix, full_matrices=False).Vh[:rank]


@torch.enable_grad()
def _last(net: FlatModel, update: Mapping[str, Tensor], found: Sequence[int]) -> int:
    vocabulary = net.model.get_parameter(_WORDS).shape[0]
    every = torch.arange(vocabulary)[:, None]
    texts = torch.cat((torch.tensor(found).expand(vocabulary, -1), every), 1)
    flat = torch.cat([update[name].flatten() for name in sorted(update)])
    scores = []
    with example_gradients(net.model) as per_example:
        for part in texts.split(64):
            scores.append(functional.cosine_similarity(per_example(part)[1], flat[None]))
    return int(torch.cat(scores).argmax())


def recover_tokens(update: Mapping[str, Tensor], count: int) -> set[int]:
    """The `count` tokens whose rows differ most from the median row."""
    rows = update[_WORDS].double()
    distance = (rows - rows.median(dim=0).values).norm(dim=1)
    return set(distance.argsort(descending=True)[:count].tolist())


def f1(found: set[int], truth: set[int]) -> float:
    """Harmonic mean of precision and recall of a set of tokens."""
    return 2.0 * len(found & truth) / (len(found) + len(truth))


def in_place(found: Sequence[int], truth: Sequence[int]) -> float:
    """Share of positions whose token was found."""
    return float(np.mean([a == b for a, b in zip(found, truth, strict=True)]))


class Guess:
    """What somebody guesses who sees no update at all: the most frequent tokens of public text."""

    def __init__(self, public: bytes) -> None:
        self._order = [token for token, _ in Counter(public).most_common()]

    def f1(self, truth: Sequence[int]) -> float:
        """F1 of the most frequent tokens, as many as occur in the text."""
        return f1(set(self._order[: len(set(truth))]), set(truth))

    def in_place(self, truth: Sequence[int]) -> float:
        """Share of positions that the single most frequent token hits."""
        return in_place([self._order[0]] * len(truth), truth)
