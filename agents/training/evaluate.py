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


def joined(batches: Iterable[Tensor], most: int) -> list[Tensor]:
    """The same sequences in fewer batches: neighbours become one of at most ``most`` sequences.

    A small network takes hardly longer for many sequences than for one.
    """
    found: list[list[Tensor]] = []
    for batch in batches:
        last = found[-1] if found else []
        fits = sum(map(len, last)) + len(batch) <= most
        if last and fits and batch.shape[1:] == last[0].shape[1:]:
            last.append(batch)
        else:
            found.append([batch])
    return [torch.cat(parts) for parts in found]


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
