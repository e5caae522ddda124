# SPDX-License-Identifier: Apache-2.0
"""Validation loss of a state: mean nats per token, summed in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    net.load(state)
    sums, tokens = [], 0
    for batch in batches:
        inputs, targets = batch[:, :-1].to(net.device), batch[:, 1:].to(net.device)
        output = net.model(inputs)
        logits = output if isinstance(output, Tensor) else output.logits
        losses = functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), reduction="none"
        )
        sums.append(float(losses.double().sum()))
        tokens += targets.numel()
    return math.fsum(sums) / tokens
