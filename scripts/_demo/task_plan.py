# SPDX-License-Identifier: Apache-2.0
"""What the sponsor of the demo wants: models trained in steps that strangers run, and measured.

From one checkpoint, models with different learning rates are trained side by side. Every new
checkpoint is a task's result; it is evaluated, it goes on from prompts, and the next steps start
from it. So later tasks depend on each result, and a wrong one would do harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.storage.content_store import ContentStore
from agents.tasks.compute.make import evaluate_spec, generate_spec, publish, put_prompts, train_spec
from agents.tasks.compute.result import TaskResult
from agents.tasks.compute.spec import TaskSpec
from agents.training.data import pack
from agents.training.model import init_state, template
from agents.training.spec import ModelSpec
from agents.training.state import PayloadError, load_state, save_state

KINDS = 3
RATES = (4e-3, 1e-3)
PROMPTS = ("import ", "def __init__(self", "    return ", "class ")
_HELD_OUT = 8  # one document of so many


@dataclass(frozen=True)
class Size:
    """How much one task is: steps, or sequences, of the model's greatest length."""

    model: ModelSpec = field(default_factory=ModelSpec)
    first_steps: int = 40  # before the first task, on the sponsor's own machine
    steps: int = 40
    batch: int = 8
    sequences: int = 64
    new_tokens: int = 24


@dataclass(frozen=True)
class Order:
    """One task to create. `line`: of which model; `number`: after how many steps tasks."""

    line: int
    number: int
    spec: TaskSpec

    @property
    def title(self) -> str:
        """For people."""
        return f"model {self.line + 1}, {self.spec.kind} {self.number}"


class Wishes:
    """Which task to create next, given what came out of those before."""

    def __init__(
        self,
        store: ContentStore,
        documents: Sequence[bytes],
        tasks: int,
        size: Size,
        compute: Callable[[bytes], TaskResult],
    ) -> None:
        """Publish the texts and the first checkpoint.

        Args:
            tasks: how many, all kinds together.
            compute: runs a task on this machine, by its spec's digest.

        Raises ValueError unless the tasks can be shared out evenly.
        """
        lines = len(RATES)
        if tasks < 1 or tasks % (KINDS * lines):
            raise ValueError(f"the number of tasks must be a multiple of {KINDS * lines}")
        self.tasks = tasks
        self._store, self._size = store, size
        self._numbers = tasks // (KINDS * lines)
        held_out = documents[::_HELD_OUT]
        self._text = pack((d for i, d in enumerate(documents) if i % _HELD_OUT), store)
        self._held_out = pack(held_out, store)
        self._prompts = put_prompts(store, PROMPTS)
        genesis = store.put_bytes(save_state(init_state(size.model)))
        first = self._train(genesis, RATES[0], 0, size.first_steps)
        trained = compute(publish(first, store))
        if trained.refusal is not None:
            raise ValueError(trained.detail)
        self.checkpoint = store.put_bytes(trained.payload)
        self._due = deque(self._step(line, 1, self.checkpoint) for line in range(lines))

    def next(self) -> Order | None:
        """The next task to create; None while others must end first."""
        return self._due.popleft() if self._due else None

    def settle(self, order: Order, result: bytes | None) -> bool:
        """Note what came out, a payload, and say whether it is of use; else it is ordered again."""
        spec = order.spec
        if result is None or result.startswith(b'{"refused"'):
            self._due.appendleft(order)
            return False
        if spec.kind == "train_steps":
            try:
                load_state(result, template(spec.model))
            except PayloadError:
                self._due.appendleft(order)
                return False
            self._follow(order, self._store.put_bytes(result))
        return True

    def _follow(self, order: Order, checkpoint: str) -> None:
        """What a new checkpoint is wanted for."""
        size, line, number = self._size, order.line, order.number
        measured = evaluate_spec(
            checkpoint, size.model, self._held_out, sequences=size.sequences, batch_size=size.batch
        )
        written = generate_spec(
            checkpoint, size.model, self._prompts, max_new_tokens=size.new_tokens
        )
        if number < self._numbers:
            self._due.appendleft(self._step(line, number + 1, checkpoint))
        self._due += [Order(line, number, measured), Order(line, number, written)]

    def _step(self, line: int, number: int, checkpoint: str) -> Order:
        first = self._size.first_steps + (number - 1) * self._size.steps
        spec = self._train(checkpoint, RATES[line], first, self._size.steps)
        return Order(line, number, spec)

    def _train(self, checkpoint: str, rate: float, first: int, steps: int) -> TaskSpec:
        size = self._size
        return train_spec(
            checkpoint,
            size.model,
            self._text,
            first=first,
            steps=steps,
            lr=rate,
            batch_size=size.batch,
        )
