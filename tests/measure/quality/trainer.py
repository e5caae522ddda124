# SPDX-License-Identifier: Apache-2.0
"""The trainer of the quality study: does what a job would do, without chain and store.

Payloads go through the codec's own encode, decode and remember, are merged by the project's own
rules and applied by `apply_outer` or `Outer`; inner steps are the project's. One thing differs from
a job's: the inner rate follows the anchors' cosine within a round too. An optimizer's state lives
on from round to round where the method says so, as in the anchors, and in a job whose spec says
`inner_state: kept`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merge_rules
from agents.training.assignment import node_seed
from agents.training.model import next_token_loss
from agents.training.optimizers import chosen
from agents.training.outer import Outer
from agents.training.spec import Hyperparameters
from agents.training.state import State, apply_outer
from scripts._demo.cheats.poisoner import ATTACKS
from scripts._figures.text import schedule
from tests.measure.quality.task import PEERS, Task

QUARTERS = (0.25, 0.5, 0.75, 1.0)
NESTEROV = 0.9


@dataclass(frozen=True)
class Method:
    """How a run trains.

    Attributes:
        kind: `central`, all batches in one optimizer; `diloco`, dense updates and Nesterov momentum
            outside; `local`, inner steps and a codec; `gradient`, the codec gets the mean
            gradient at the shared model.
        lr: peak inner rate; unused by `gradient`.
        low: the rates' end over their peak.
        every: steps (or batches) between exchanges.
        outer_lr: factor on the merged update.
        outer_decays: whether that factor follows the schedule too.
        keep: whether a peer's optimizer state lives on in the next round.
        codec, merge: name and options.
        inner: the inner optimizer, name and options; unused by `gradient`.
        momentum: of the outer step (`agents.training.outer`); 0 has no velocity.
        free: beta of a schedule-free outer step; 0 for none (see `ScheduleFree`).
        poisoners: so many of the eight peers poison, the first ones.
        poison: what they send, by the names of the demo's poisoner; or `nothing`.
        absent_every: each peer misses one round in so many, in turn; 0 for never.
        forgets: whether a peer that was absent comes back with an empty memory.
        clip: bound on the norm of a batch's gradient, inside.
        follows: whether Muon's momentum starts a round from the last merged update: from it alone
            if not `keep`, else half from it (see `Trainer._follow`).
    """

    kind: Literal["central", "diloco", "local", "gradient"]
    lr: float = 3e-3
    low: float = 0.1
    every: int = 10
    outer_lr: float = 1.0
    outer_decays: bool = False
    keep: bool = True
    codec: tuple[str, Mapping[str, Any]] = ("dense", {})
    merge: tuple[str, Mapping[str, Any]] = ("mean", {})
    inner: tuple[str, Mapping[str, Any]] = ("adamw", {})
    momentum: float = 0.0
    free: float = 0.0
    poisoners: int = 0
    poison: str = "sign_flip"
    absent_every: int = 0
    forgets: bool = False
    clip: float = 1.0
    follows: bool = False


class ScheduleFree:
    """Schedule-free SGD outside (Defazio et al., "The Road Less Scheduled", 2024, algorithm 1).

    z moves by the merged changes, x is the mean of all z so far, and peers start at
    y = (1 - beta) z + beta x. What is judged is x.

    Attributes:
        mean: x.
    """

    def __init__(self, state: State, beta: float) -> None:
        self.mean, self._fast, self._beta, self._steps = dict(state), dict(state), beta, 0

    def step(self, merged: State, rate: float) -> State:
        """Where peers start next."""
        self._steps += 1
        self._fast = apply_outer(self._fast, merged, rate)
        self.mean = {
            name: x.lerp(self._fast[name], 1 / self._steps) for name, x in self.mean.items()
        }
        return {name: z.lerp(self.mean[name], self._beta) for name, z in self._fast.items()}


@dataclass
class Run:
    """Losses at quarters of the way in nats a byte, bytes one peer uploaded, CPU seconds."""

    val: dict[str, float] = field(default_factory=dict)
    uploaded: int = 0
    exchanges: int = 0
    codec_s: float = 0.0
    cpu_s: float = 0.0


class Trainer:
    """One run of one method."""

    def __init__(
        self, task: Task, method: Method, steps: int, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """`say` is told the loss at every quarter."""
        self.task, self.method, self.steps, self.say = task, method, steps, say
        self.net = task.net
        self.optimizers = [self._optimizer() for _ in range(PEERS)]
        self.merged: State | None = None  # by the last exchange
        self.run = Run()

    def go(self) -> Run:
        """Train; the figures. FloatingPointError if the method diverges."""
        began = time.process_time()
        if self.method.kind == "central":
            self._central()
        else:
            self._rounds()
        self.run.cpu_s = time.process_time() - began
        return self.run

    def _optimizer(self) -> Any:
        hyper = Hyperparameters(self.method.lr, (0.9, 0.95), 1e-8, 0.1, self.method.clip, "fp32")
        return chosen(*self.method.inner).start(self.net, hyper, self.method.every)

    def _gradient(self, batch: Tensor) -> None:
        self.net.grads.zero_()
        next_token_loss(self.net.model, batch.to(self.net.device)).backward()

    def _step(self, optimizer: Any, step: int) -> None:
        rate = self.method.lr * schedule(step, self.steps, self.method.low)
        optimizer.hyper = replace(optimizer.hyper, lr=rate)
        optimizer.step()

    def _read(self, flat: Tensor) -> State:
        return {name: tensor.clone() for name, tensor in sorted(self.net.split(flat).items())}

    def _exchanged(self, done: int, size: int, state: State) -> None:
        self.run.uploaded += size
        self.run.exchanges += 1
        for part in QUARTERS:
            if str(part) not in self.run.val and done >= part * self.steps:
                self.run.val[str(part)] = loss = round(self.task.loss(state), 4)
                self.say(f"{done} of {self.steps} steps: {loss}")

    def _central(self) -> None:
        state = self.task.genesis
        for step in range(self.steps):
            self.net.load(state)
            self._gradient(torch.cat([self.task.batch(step, peer) for peer in range(PEERS)]))
            self._step(self.optimizers[0], step)
            state = self._read(self.net.values)
            self._exchanged(step + 1, 4 * self.task.parameters, state)

    def _rounds(self) -> None:
        method = self.method
        codec = codecs.get(method.codec[0])(**method.codec[1])
        merge = merge_rules.get(method.merge[0])(**method.merge[1])
        state = dict(self.task.genesis)
        velocity = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        momentum = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        free = ScheduleFree(state, method.free) if method.free else None
        memories: list[State | None] = [None] * PEERS
        for first in range(0, self.steps, method.every):
            last = min(first + method.every, self.steps)
            seed = hashlib.sha256(f"quality {first}".encode()).digest()
            payloads, sizes = [], []
            number = first // method.every
            for peer in range(PEERS):
                if peer < method.poisoners and method.poison == "nothing":
                    continue
                if method.absent_every and (number + peer) % method.absent_every == 0:
                    if method.forgets:
                        memories[peer] = None
                    continue
                update = self._update(state, peer, first, last)
                if peer < method.poisoners:
                    update = ATTACKS[method.poison](update)
                began = time.process_time()
                own = node_seed(seed, peer) if getattr(codec, "own_seed", False) else seed
                data = codec.encode(update, memories[peer], own)
                payloads.append(codec.decode(data, self.task.shapes, own))
                memories[peer] = codec.remember(update, memories[peer], payloads[-1])
                sizes.append(len(data))
                self.run.codec_s += time.process_time() - began
            merged = merge(payloads)
            self.merged = dict(merged)
            if method.kind == "diloco":
                for name, tensor in momentum.items():
                    tensor.mul_(NESTEROV).add_(merged[name])
                    merged[name] = merged[name] + NESTEROV * tensor
            rate = method.outer_lr
            if method.outer_decays:
                rate *= schedule(last - 1, self.steps, method.low)
            if free is not None:
                state = free.step(merged, rate)
            elif method.momentum:
                outer = Outer(rate, method.momentum)
                for name in state:
                    state[name], velocity[name] = outer.step(
                        state[name], merged[name], velocity[name]
                    )
            else:
                state = apply_outer(state, merged, rate)
            self._exchanged(last, max(sizes), state if free is None else free.mean)

    def _update(self, state: State, peer: int, first: int, last: int) -> State:
        self.net.load(state)
        if self.method.kind == "gradient":
            total = torch.zeros_like(self.net.grads)
            for step in range(first, last):
                self._gradient(self.task.batch(step, peer))
                total += self.net.grads
            return self._read(total / (last - first))
        if not self.method.keep:
            self.optimizers[peer] = self._optimizer()
        for step in range(first, last):
            self._gradient(self.task.batch(step, peer))
            if step == first and self.method.follows and self.merged is not None:
                self._follow(self.optimizers[peer], state, self.merged)
            self._step(self.optimizers[peer], step)
        final = self._read(self.net.values)
        return {name: state[name] - final[name] for name in final}

    def _follow(self, optimizer: Any, state: State, merged: State) -> None:
        """Put the last merged update into Muon's momentum, between a round's first gradient and its
        first step.

        Each matrix of it is brought to the length of that gradient's. Where the peer keeps its own
        momentum, it is brought to that one's length, and the mean of both is taken. AdamW's moments
        of the other tensors are left as they are.
        """
        gradient = self.net.grads.clone()
        own = _momenta(optimizer)
        model = own if self.method.keep else self._laid_out(self.net.split(gradient))
        for name, led in self._laid_out(merged).items():
            led.mul_(_lengths(model[name]) / _lengths(led).clamp(min=1e-30))
            own[name].copy_((own[name] + led) / 2 if self.method.keep else led)
        self.net.load(state)
        self.net.grads.copy_(gradient)

    def _laid_out(self, gradient: State) -> State:
        """A gradient, clipped, as Muon's momentum lies: what one step from zero makes of it, over
        the share that a step adds. The network has moved by that step afterwards."""
        probe = self._optimizer()
        for name, view in self.net.views(self.net.grads).items():
            view.copy_(gradient[name])
        probe.step()
        return {
            name: momentum / (1.0 - probe.choice.momentum)
            for name, momentum in _momenta(probe).items()
        }


def _momenta(optimizer: Any) -> State:
    buffers: State = optimizer.buffers()
    return {name: buffer for name, buffer in buffers.items() if name.startswith("momentum.")}


def _lengths(matrices: Tensor) -> Tensor:
    """[k, 1, 1] of [k, m, n]."""
    return torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
