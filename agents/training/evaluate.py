# SPDX-License-Identifier: Apache-2.0
"""Validation loss of a state: mean nats per token, summed in float64."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from agents.training.flat import FlatModel
from agents.training.state import State


@torch.no_grad()
def validation_loss(net: FlatModel, state: State, batches: Sequence[Tensor]) -> float:
    """Mean cross-entropy over every token of the batches, always in fp32 forward passes.

    Args:
        net: the network; its content is overwritten.
        state: the state to judge.
        batches: int64 [batch, seq + 1] each, from ``DataSource.val_batches``.

    Raises:
        ValueError: no batches.
    """
    if not batches:
        raise ValueError("validation needs at least one batch")
    losses = token_losses(net, state, batches)
    return math.fsum(float(part.sum()) for part in losses) / sum(part.numel() for part in losses)


@torch.no_grad()
def token_losses(net: FlatModel, state: State, batches: Iterable[Tensor]) -> list[Tensor]:
    """Cross-entropy of every token: float64 [batch, seq] for each batch, on the net's device.

    Arguments as `validation_loss`, but there may be no batches.
    """
    net.load(state)
    found = []
    for batch in batches:
        inputs, targets = batch[:, :-1].to(net.device), batch[:, 1:].to(net.device)
        output = net.model(inputs)
        logits = output if isinstance(output, Tensor) else output.logits
        losses = functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), reduction="none"
        )
        found.append(losses.double().view(targets.shape))
    return found
