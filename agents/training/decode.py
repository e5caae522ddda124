# SPDX-License-Identifier: Apache-2.0
"""What a model says comes next: the logits after some tokens, and a choice among them.

Each new token is one forward pass over all that precedes it: no cache and no padding, so nothing
but the tokens and the weights decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn


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


def written(
    model: nn.Module,
    prompt: Sequence[int],
    window: int,
    device: str,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[int]:
    """Tokens that go on from a prompt of at least one, without end.

    Args:
        model: as of `next_logits`.
        window: tokens that the model reads at most; older ones are forgotten.
        temperature: 0 takes the likeliest token (of equal ones the lowest), else it is drawn.
        seed: of the draws, which are the same for the same seed on the CPU.

    Raises:
        NotFinite: a logit is no number.
    """
    tokens = list(prompt)
    draws = torch.Generator().manual_seed(seed)
    while True:
        logits = next_logits(model, tokens[-window:], device)
        if temperature > 0:
            chances = torch.softmax(logits.double().cpu() / temperature, dim=-1)
            tokens.append(int(torch.multinomial(chances, 1, generator=draws)))
        else:
            tokens.append(int((logits == logits.max()).nonzero()[0]))
        yield tokens[-1]
