# SPDX-License-Identifier: Apache-2.0
"""H local steps of DP-SGD (Abadi et al. 2016, arXiv 1607.00133, algorithm 1) inside the node.

Each step takes every example of the node with probability q = lot_size / examples, by secret
draws; clips each example's own gradient to C in the L2 norm; adds to their sum Gaussian noise of
standard deviation noise_multiplier * C, by secret draws; divides by the expected lot size, never
by the actual one; and hands that to the inner optimizer. An example is one sequence. Adding or
removing one changes the sum by at most C, so a round costs H steps of the Gaussian mechanism with
Poisson sampling at rate q. Everything after the noise is post-processing.

No hash of a step is made: nobody else has the data, so nobody could check one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms.privacy import Privacy
from agents.mechanisms.privacy.dp_sgd import DpSgd
from agents.mechanisms.privacy.parts.clipping import SAFETY
from agents.mechanisms.privacy.parts.noise import Generator, SecretGenerator, noised
from agents.training.assignment import WorkOrder
from agents.training.data import DataSource
from agents.training.flat import FlatModel
from agents.training.local_data import LocalData
from agents.training.model import Decoder, RMSNorm
from agents.training.on_meta import shapes_only
from agents.training.optimizers import chosen
from agents.training.state import PayloadError, State, model_hash

CHUNK = 64  # examples whose gradients are in memory at once
_COLUMNS = 8192  # of the gradients widened to float64 at once

PerExample = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class PrivateResult:
    """What H private steps gave, and what they cost.

    Attributes:
        state: theta_H, fp32 CPU tensors; differentially private.
        pseudo_gradient: theta_0 - theta_H, one fp32 subtraction per element; differentially
            private.
        losses: mean loss in nats of each step's lot, NaN for an empty one. These are NOT private:
            they are for the node's own eyes.
        seconds: wall time of each step.
        steps: H.
        sampling_rate: q of each step.
        noise_multiplier: noise deviation / C of each step.
    """

    state: State
    pseudo_gradient: State
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    steps: int
    sampling_rate: float
    noise_multiplier: float


def poisson_sample(examples: int, rate: float, rng: Generator) -> NDArray[np.int64]:
    """Each of 0..examples-1 independently with probability ``rate``, ascending, int64.

    A secret 64-bit word below floor(rate * 2^64) takes its example, so that the true rate is never
    above ``rate``.

    Raises:
        ValueError: the rate is not in (0, 1].
    """
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"the sampling rate must be above 0 and at most 1, got {rate}")
    if rate == 1.0:
        return np.arange(examples, dtype=np.int64)
    return np.flatnonzero(rng.words(examples) < np.uint64(int(rate * 2**64))).astype(np.int64)


class _Watched(nn.Module):
    """A decoder that calls its output layer as a module, where Opacus can see it.

    ``Decoder`` applies the output weights by a function call, which Opacus, watching modules,
    would leave out of the gradient. Parameters are shared, not copied.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.embedding, self.blocks, self.norm = decoder.embedding, decoder.blocks, decoder.norm
        if decoder.head is not None:
            self.head = decoder.head
            return
        weight = decoder.embedding.weight
        with shapes_only():
            self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.head.weight = weight

    def forward(self, tokens: Tensor) -> Tensor:
        """What ``Decoder.forward`` gives."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _norm_gradient(
    layer: RMSNorm, activations: list[Tensor], backprops: Tensor
) -> dict[nn.Parameter, Tensor]:
    """Per-example gradient of the scales of ``RMSNorm``, [examples, dim]."""
    wide = activations[0].float()
    unit = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return {layer.weight: (unit * backprops).flatten(1, -2).sum(1)}


@contextmanager
def example_gradients(model: nn.Module) -> Iterator[PerExample]:
    """Makes a function: int64 [n, seq + 1] -> (losses [n], gradients [n, parameters]), fp32.

    Gradient i is that of the mean loss of sequence i alone, parameters in order of their names,
    found by Opacus for all sequences in one backward pass. ``model`` is as before afterwards.

    Raises:
        RuntimeError: the extra ``privacy`` is not installed.
        PayloadError: Opacus cannot tell the examples apart in one of the model's layers.
    """
    try:
        from opacus.grad_sample import GradSampleModule
    except ImportError as error:
        raise RuntimeError(
            "privacy: dp_sgd needs Opacus; install the extra 'privacy' (pip install "
            "'menagerie[privacy]')"
        ) from error
    GradSampleModule.GRAD_SAMPLERS[RMSNorm] = _norm_gradient
    named = sorted(model.named_parameters())
    inner = _Watched(model) if isinstance(model, Decoder) else model
    before, was_training = [parameter.grad for _, parameter in named], model.training
    try:
        hooked = GradSampleModule(inner, loss_reduction="sum")
    except NotImplementedError as error:
        raise PayloadError(f"this model has a layer that Opacus cannot handle: {error}") from error

    def of(batch: Tensor) -> tuple[Tensor, Tensor]:
        output = hooked(batch[:, :-1])
        logits = output if isinstance(output, Tensor) else output.logits
        losses = functional.cross_entropy(
            logits.float().transpose(1, 2), batch[:, 1:], reduction="none"
        ).mean(1)
        losses.sum().backward()
        found: list[Tensor] = [p.grad_sample for _, p in named]  # type: ignore[attr-defined]
        unseen = [name for (name, _), part in zip(named, found, strict=True) if part is None]
        if unseen:
            raise PayloadError(f"Opacus sees no module use the parameters {unseen[:4]}")
        gradients = torch.cat([tensor.flatten(1) for tensor in found], dim=1)
        hooked.zero_grad(set_to_none=True)
        return losses.detach(), gradients

    hooked.zero_grad(set_to_none=True)
    inner.train()  # Opacus watches no module in eval mode
    try:
        with warnings.catch_warnings():  # torch: token ids need no gradient, which is so
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            yield of
    finally:
        hooked.to_standard_module()
        model.train(was_training)
        for (_, parameter), gradient in zip(named, before, strict=True):
            parameter.grad = gradient


def clipped_sum(gradients: Tensor, bound: float) -> Tensor:
    """Sum over examples of each row scaled down to an L2 norm <= ``bound``.

    Args:
        gradients: fp32 [n, parameters], one example a row. A row with NaN or infinity counts as
            zero: what one example does to the others must stay bounded, whatever it is.
        bound: C.

    Returns:
        float64 [parameters]; norms are float64 too, because fp32 ones read low.
    """
    columns = gradients.split(_COLUMNS, dim=1)
    norms = torch.stack([part.double().square_().sum(1) for part in columns]).sum(0).sqrt_()
    finite = torch.isfinite(norms)
    scale = torch.where(finite, (bound * SAFETY / norms).clamp(max=1.0), 0.0)
    kept = [part.masked_fill(~finite[:, None], 0.0) for part in columns]
    return torch.cat([scale @ part.double() for part in kept])


def run_private_task(
    net: FlatModel,
    task: WorkOrder,
    state: State,
    data: LocalData | DataSource,
    mechanism: Privacy,
    on_step: Callable[[int, float], None] | None = None,
    rng: Generator | None = None,
) -> PrivateResult:
    """Take ``task.steps`` steps of DP-SGD from ``state``, always in fp32.

    The caller records ``mechanism.charge(steps=task.steps, batch=data.batch_size,
    examples=data.examples)`` before anything leaves the machine. With ``sampling: assigned`` the
    lots are the task's public batches, which earn no amplification (q = 1).

    Args:
        net: the job's network on the device to use.
        task: where to start, how many steps, which inner hyperparameters.
        state: must be the state whose hash is ``task.model_id``.
        data: the node's own folder; the job's public data only for ``sampling: assigned``.
        mechanism: ``privacy: dp_sgd`` with the job's options.
        on_step: called as (step, mean loss of the lot) after each step; that loss is not private.
        rng: secret words; None for the operating system's, as production must.

    Raises:
        PayloadError: the state is not the one the task starts from, or Opacus lacks a layer.
        ValueError: another mechanism, or public data with secret sampling.
        RuntimeError: the extra ``privacy`` is not installed.
        FloatingPointError: training diverged.
    """
    if model_hash(state) != task.model_id:
        raise PayloadError("the state is not the model that the task starts from")
    if not isinstance(mechanism, DpSgd):
        raise ValueError(f"private steps are for dp_sgd, got {type(mechanism).__name__}")
    source: Generator = SecretGenerator() if rng is None else rng
    rate, expected = 1.0, float(data.batch_size)
    if mechanism.sampling == "poisson":
        if not isinstance(data, LocalData):
            raise ValueError(
                "dp_sgd with sampling: poisson draws from a node's own examples; use access: local "
                "or sampling: assigned"
            )
        rate = mechanism.probability(data.batch_size, data.examples)
        expected = rate * data.examples
    net.load(state)
    theta0 = {name: tensor.clone() for name, tensor in net.split(net.values).items()}
    hyper = task.hyperparameters
    inner = chosen(hyper.inner, hyper.inner_options)
    optimizer, losses, seconds = inner.start(net, hyper, task.steps), [], []
    with example_gradients(net.model) as per_example:
        for number, index in enumerate(task.batches(), start=1):
            began = time.perf_counter()
            if isinstance(data, LocalData) and mechanism.sampling == "poisson":
                lot = data.sequences(poisson_sample(data.examples, rate, source))
            else:
                lot = data.batch(index)
            total, loss = _lot_sum(net, lot, per_example, mechanism.clip)
            noisy = noised(total.cpu().numpy(), mechanism.sigma, source)
            net.set_grads(torch.from_numpy(noisy) / expected)
            optimizer.step()
            losses.append(loss)
            seconds.append(time.perf_counter() - began)
            if on_step is not None:
                on_step(number, loss)
    if not bool(torch.isfinite(net.values).all()):
        raise FloatingPointError("the private steps diverged; lower the learning rate")
    final = {name: tensor.clone() for name, tensor in sorted(net.split(net.values).items())}
    gradient = {name: theta0[name] - final[name] for name in final}
    return PrivateResult(
        final, gradient, tuple(losses), tuple(seconds), task.steps, rate, mechanism.noise_multiplier
    )


def _lot_sum(
    net: FlatModel, lot: Tensor, per_example: PerExample, bound: float
) -> tuple[Tensor, float]:
    """The lot's clipped sum, float64 [parameters] by name, and its mean loss."""
    count = sum(parameter.numel() for parameter in net.model.parameters())
    total = torch.zeros(count, dtype=torch.float64, device=net.device)
    losses = []
    for part in lot.split(CHUNK) if len(lot) else ():
        loss, gradients = per_example(part.to(net.device))
        total += clipped_sum(gradients, bound)
        losses.append(loss.double().cpu())
    return total, float(torch.cat(losses).mean()) if losses else math.nan
