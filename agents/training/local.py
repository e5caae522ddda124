# SPDX-License-Identifier: Apache-2.0
"""H local steps, or H gradients, from the exact round state, with a hash after each.

The optimizer (arXiv 1711.05101) is written out over flat vectors: its state starts from zero
in every round, powers of the betas are repeated products, and each line is one elementwise
operation, so a re-execution in the same determinism class gives the same bits.

Where the job wants the gradient and no steps, each batch's gradient is taken at theta_0 and added
to the others in order; the pseudo-gradient is their sum divided by H, in fp32.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.training.flat import FlatModel
from agents.training.model import next_token_loss
from agents.training.spec import Hyperparameters
from agents.training.state import State, model_hash


@dataclass(frozen=True)
class LocalResult:
    """What H steps gave.

    Attributes:
        state: theta_H, fp32 CPU tensors.
        pseudo_gradient: theta_0 - theta_H, one fp32 subtraction per element; or the mean gradient
            over the batches at theta_0, and then theta_i = theta_0 - (the sum of the first i
            gradients) / H.
        hashes: H + 2 digests of 32 bytes: theta_0, theta after each step, pseudo_gradient.
        losses: training loss in nats of each step, before its update.
        seconds: wall time of each step, hashing included.
    """

    state: State
    pseudo_gradient: State
    hashes: tuple[bytes, ...]
    losses: tuple[float, ...]
    seconds: tuple[float, ...]


class AdamW:
    """AdamW over the flat vectors of a model; ``step`` counts from 1."""

    def __init__(self, net: FlatModel, hyper: Hyperparameters) -> None:
        self.net, self.hyper = net, hyper
        self.first = torch.zeros_like(net.values)
        self.second = torch.zeros_like(net.values)
        self.power1 = self.power2 = 1.0

    @torch.no_grad()
    def step(self) -> None:
        """Clip the gradient by its global norm and update ``net.values`` in place."""
        hyper, theta, grad = self.hyper, self.net.values, self.net.grads
        norm = float(torch.linalg.vector_norm(grad, dtype=torch.float64))
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite; lower the learning rate")
        if norm > hyper.grad_clip:
            grad.mul_(hyper.grad_clip / norm)
        beta1, beta2 = hyper.betas
        self.power1 *= beta1
        self.power2 *= beta2
        self.first.mul_(beta1).add_(grad * (1.0 - beta1))
        self.second.mul_(beta2).add_(grad.square() * (1.0 - beta2))
        theta[: self.net.decayed].mul_(1.0 - hyper.lr * hyper.weight_decay)
        denominator = (self.second / (1.0 - self.power2)).sqrt_().add_(hyper.eps)
        theta.sub_((self.first / denominator).mul_(hyper.lr / (1.0 - self.power1)))

    @property
    def reached(self) -> Tensor:
        """theta after the steps so far: ``net.values``."""
        return self.net.values


class MeanGradient:
    """The sum of gradients at one point; ``count`` of them make the mean."""

    def __init__(self, net: FlatModel, count: int) -> None:
        self.net, self.count = net, max(1, count)
        self.sum = torch.zeros_like(net.values)

    @torch.no_grad()
    def step(self) -> None:
        """Add the gradient in ``net.grads``; ``net.values`` stay as they are."""
        if not math.isfinite(float(torch.linalg.vector_norm(self.net.grads, dtype=torch.float64))):
            raise FloatingPointError("the gradient is not finite; the model has diverged")
        self.sum.add_(self.net.grads)

    @property
    def mean(self) -> Tensor:
        """fp32 [n], of the gradients so far over ``count``."""
        return self.sum / self.count

    @property
    def reached(self) -> Tensor:
        """theta_0 minus ``mean``: what the trace hashes after each batch."""
        return self.net.values - self.mean


def pick_device() -> str:
    """``cuda`` when a GPU is present, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_local(
    net: FlatModel,
    state: State,
    batches: Sequence[Tensor],
    hyper: Hyperparameters,
    rng_seed: bytes,
    on_step: Callable[[int, float], None] | None = None,
    compiled: bool = False,
) -> LocalResult:
    """Take one AdamW step, or one gradient, per batch, starting from ``state``.

    Args:
        net: the network, on the device to use; its content is overwritten.
        state: theta_0.
        batches: H tensors of token ids, int64 [batch, seq + 1].
        hyper: the round's optimizer settings.
        rng_seed: 32 bytes; seeds torch for models that draw numbers while training.
        on_step: called as (step 1..H, training loss) after each step.
        compiled: run the step through ``torch.compile`` (part of the determinism class).

    Raises:
        FloatingPointError: the loss or the gradient stopped being finite.
    """
    net.load(state)
    torch.manual_seed(int.from_bytes(rng_seed[:8], "big", signed=True))
    loss_of = torch.compile(next_token_loss) if compiled else next_token_loss
    mixed = torch.autocast(
        torch.device(net.device).type, torch.bfloat16, enabled=hyper.precision == "bf16"
    )
    steps = AdamW(net, hyper) if hyper.inner == "adamw" else MeanGradient(net, len(batches))
    theta0 = {name: tensor.clone() for name, tensor in net.split(net.values).items()}
    hashes, losses, seconds = [model_hash(theta0)], [], []
    for number, batch in enumerate(batches, start=1):
        began = time.perf_counter()
        net.grads.zero_()
        with mixed:
            loss = loss_of(net.model, batch.to(net.device))
        loss.backward()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss of step {number} is {value}; lower the rate")
        steps.step()
        hashes.append(model_hash(net.split(steps.reached)))
        losses.append(value)
        seconds.append(time.perf_counter() - began)
        if on_step is not None:
            on_step(number, value)
    final = {name: tensor.clone() for name, tensor in sorted(net.split(steps.reached).items())}
    if isinstance(steps, MeanGradient):
        gradient = {name: t.clone() for name, t in sorted(net.split(steps.mean).items())}
    else:
        gradient = {name: theta0[name] - final[name] for name in final}
    hashes.append(model_hash(gradient))
    return LocalResult(final, gradient, tuple(hashes), tuple(losses), tuple(seconds))
