# SPDX-License-Identifier: Apache-2.0
"""What a model says comes next: the logits after some tokens, and a choice among them.

Each new token is one forward pass over all that precedes it: no cache and no padding, so nothing
but the tokens and the weights decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from agents.training.rng import derive_key, endless_words

Choose = Callable[[Tensor], int]


class NotFinite(ValueError):
    """A model whose logits are no numbers."""


@torch.no_grad()
def next_logits(model: nn.Module, tokens: Sequence[int], device: str) -> Tensor:
    """The logits [vocab] of what follows at least one token. Raises NotFinite.

    Args:
        model: token ids int64 [1, seq] -> logits [1, seq, vocab], or an object that has them.
    """
    output = model(torch.tensor([list(tokens)], device=device))
    logits: Tensor = (output if isinstance(output, Tensor) else output.logits)[0, -1]
    if not bool(torch.isfinite(logits).all()):
        raise NotFinite(f"a logit after {len(tokens)} tokens is not finite")
    return logits


def likeliest(logits: Tensor) -> int:
    """The token of the greatest logit, of equal ones the lowest."""
    return int((logits == logits.max()).nonzero()[0])


def drawn(key: bytes, temperature: float) -> Choose:
    """Tokens by their probability, each from its own word of the generator that all nodes share."""
    words = endless_words(key)

    def choose(logits: Tensor) -> int:
        values = logits.detach().double().cpu().numpy()
        weights = np.exp((values - values.max()) / temperature)
        point = float(next(words)) / 2**64 * weights.sum()
        return min(int(np.searchsorted(weights.cumsum(), point, "right")), len(weights) - 1)

    return choose


def drawn_by_reader(seed: int, temperature: float) -> Choose:
    """As `drawn`, for a seed of a reader's choice."""
    return drawn(derive_key("reader", seed), temperature)


def written(
    model: nn.Module,
    prompt: Sequence[int],
    window: int,
    device: str,
    choose: Choose = likeliest,
) -> Iterator[int]:
    """Tokens that go on from a prompt of at least one, without end.

    Args:
        model: as of `next_logits`.
        window: tokens that the model reads at most; older ones are forgotten.

    Raises:
        NotFinite: a logit is no number.
    """
    tokens = list(prompt)
    while True:
        tokens.append(choose(next_logits(model, tokens[-window:], device)))
        yield tokens[-1]
