# SPDX-License-Identifier: Apache-2.0
"""H local steps, or H gradients, from the exact round state, with hashes between them.

A state is hashed in a thread while the next batch goes through the model. On a CPU the model does
not move before that hash is there: no copy is made, and the bytes hashed are the same. From a GPU
the state is copied beside the next batch, and the model does not move before the copy is there; the
hash may take as long as all steps up to the next one (`trace_every`). What is done with a batch's
gradient is the inner optimizer's (`agents.training.inner`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.training.flat import FlatModel
from agents.training.inner_state import put, taken
from agents.training.model import next_token_loss
from agents.training.optimizers import chosen
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
        hashes: 32 bytes each: the state that was given, with the velocity of the outer step where
            it has one; theta after each ``trace_every``-th step and after the last;
            pseudo_gradient.
        losses: training loss in nats of each step, before its update.
        seconds: wall time of each step, the wait for the hash before it included.
        inner: what the inner optimizer has gathered (`agents.training.inner_state`); None where the
            next round starts from zero anyway.
    """

    state: State
    pseudo_gradient: State
    hashes: tuple[bytes, ...]
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    inner: State | None = None


def pick_device() -> str:
    """``cuda`` when a GPU is present, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_of(setting: str) -> str:
    """The torch device that a setting means: ``auto`` is the GPU when there is one."""
    return pick_device() if setting == "auto" else setting


def device_name(device: str) -> str:
    """What computes behind a torch device, in words for people."""
    wanted = torch.device(device)
    if wanted.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return torch.cuda.get_device_name(wanted) if (wanted.index or 0) < there else "not here"
    return f"CPU, {torch.get_num_threads()} threads"


def train_local(
    net: FlatModel,
    state: State,
    batches: Sequence[Tensor],
    hyper: Hyperparameters,
    rng_seed: bytes,
    on_step: Callable[[int, float], None] | None = None,
    compiled: bool = False,
    inner: State | None = None,
) -> LocalResult:
    """Take one step of the inner optimizer, or one gradient, per batch, starting from ``state``.

    Args:
        net: the network, on the device to use; its content is overwritten.
        state: theta_0.
        batches: H tensors of token ids, int64 [batch, seq + 1].
        hyper: the round's optimizer settings.
        rng_seed: 32 bytes; seeds torch for models that draw numbers while training.
        on_step: called as (step 1..H, training loss) after each step.
        compiled: run the step through ``torch.compile`` (part of the determinism class).
        inner: what the inner optimizer starts from; None: from zero.

    Raises:
        FloatingPointError: the loss or the gradient stopped being finite.
        SpecError: there is no such inner optimizer, or it refuses its options.
        PayloadError: ``inner`` is no state of it.
    """
    net.load(state)
    torch.manual_seed(int.from_bytes(rng_seed[:8], "big", signed=True))
    loss_of = torch.compile(next_token_loss) if compiled else next_token_loss
    mixed = torch.autocast(
        torch.device(net.device).type, torch.bfloat16, enabled=hyper.precision == "bf16"
    )
    steps = chosen(hyper.inner, hyper.inner_options).start(net, hyper, len(batches))
    before = 0 if inner is None else put(steps, inner)
    theta0 = net.values.clone()
    losses, seconds = [], []
    with _Hashes(net) as hashes:
        hashes.begin(state)
        for number, batch in enumerate(batches, start=1):
            began = time.perf_counter()
            net.grads.zero_()
            with mixed:
                loss = loss_of(net.model, batch.to(net.device))
            loss.backward()
            value = float(loss.detach())
            if not math.isfinite(value):
                raise FloatingPointError(f"the loss of step {number} is {value}; lower the rate")
            hashes.let_move()
            steps.step()
            if number % hyper.trace_every == 0 or number == len(batches):
                hashes.begin_flat(steps.reached)
            losses.append(value)
            seconds.append(time.perf_counter() - began)
            if on_step is not None:
                on_step(number, value)
        final, gradient = _read(net, steps.reached), _read(net, steps.update(theta0))
        hashes.wait()
        digests = (*hashes.found, model_hash(gradient))
    gathered = taken(steps, before + len(batches)) if hyper.keeps_state else None
    return LocalResult(final, gradient, digests, tuple(losses), tuple(seconds), gathered)


class _Hashes:
    """Hashes states of a network in a thread, one after the other.

    Attributes:
        found: the digests so far.
    """

    def __init__(self, net: FlatModel) -> None:
        self.found: list[bytes] = []
        self._net = net
        self._pool = ThreadPoolExecutor(1, "state-hash")
        self._open: Future[bytes] | None = None
        self._copying = _Copying(net.values) if net.values.is_cuda else None

    def __enter__(self) -> _Hashes:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Start with a state in the host's memory, which nothing may write to before `wait`."""
        self.wait()
        self._open = self._pool.submit(model_hash, state)

    def begin_flat(self, flat: Tensor) -> None:
        """Start with fp32 [n] in the network's layout, which nothing may write to before
        `let_move`."""
        self.wait()
        if self._copying is None:
            self._open = self._pool.submit(model_hash, self._net.views(flat))
        else:
            self._copying.begin(flat)
            self._open = self._pool.submit(self._of_copy, self._copying)

    def _of_copy(self, copying: _Copying) -> bytes:
        return model_hash(self._net.views(copying.finished()))

    def let_move(self) -> None:
        """Until the network may be written to."""
        if self._copying is None:
            self.wait()
        else:
            self._copying.hold_writes()

    def wait(self) -> None:
        """Until the hash that was begun is among those found."""
        if self._open is not None:
            self.found.append(self._open.result())
            self._open = None


class _Copying:
    """Copies one vector of a GPU to the host after the other, beside what the GPU computes.

    Pinned memory and a stream of its own let the copy engine do it: half a gigabyte takes 10 ms of
    it on an H200, where a plain copy into fresh memory held the GPU for 340 ms.
    """

    def __init__(self, like: Tensor) -> None:
        self._host = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        self._stream = torch.cuda.Stream(like.device)
        self._done = torch.cuda.Event()

    def begin(self, flat: Tensor) -> None:
        """Copy what all work so far makes of ``flat``, fp32 [n]."""
        self._stream.wait_stream(torch.cuda.current_stream(flat.device))
        with torch.cuda.stream(self._stream):
            self._host.copy_(flat, non_blocking=True)
            self._done.record()
        flat.record_stream(self._stream)

    def hold_writes(self) -> None:
        """Let no work that is given to the GPU from now on begin before the copy is made."""
        torch.cuda.current_stream(self._stream.device).wait_event(self._done)

    def finished(self) -> Tensor:
        """The copy in the host's memory, valid until the next `begin`; waits for it."""
        self._done.synchronize()
        return self._host


def _read(net: FlatModel, flat: Tensor) -> State:
    return {name: tensor.clone() for name, tensor in sorted(net.split(flat).items())}
