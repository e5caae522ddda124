# SPDX-License-Identifier: Apache-2.0
"""What the machines have in common: random histories of calls, each done by a model, which raises
`Refused` where the contract must revert, and on the chain."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import boa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.stage.contracts.system import refuses


class Refused(Exception):
    """The contract must revert with this reason."""


def need(condition: bool, reason: str) -> None:
    """Raises Refused(reason) unless the condition holds."""
    if not condition:
        raise Refused(reason)


class Machine(RuleBasedStateMachine):
    """One history. What it does to the chain is undone after it."""

    model: Any
    refused: ClassVar[Counter[str]]  # calls by the reason they were refused with

    def __init_subclass__(cls) -> None:
        cls.refused = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(boa.env.anchor())
        self.changed = True

    def teardown(self) -> None:
        self.stack.close()

    def step(self, rules: Callable[[Any], Any], call: Callable[[], Any]) -> bool:
        """Does `rules` on a copy of the model and `call` on the chain; whether both succeeded."""
        trial = copy.deepcopy(self.model)
        reasons = {}
        try:
            rules(trial)
        except Refused as refusal:
            reasons[str(refusal)] = True
        if not self.attempt(reasons, call):
            return False
        self.model = trial
        return True

    def attempt(
        self, reasons: Mapping[str, object], call: Callable[[], Any], answer: Any = None
    ) -> bool:
        """Does `call`, which must revert with the first of the reasons that holds. Whether none
        does: it then succeeds, with `answer` if that is given."""
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        if reason is None:
            got = call()
            assert answer is None or got == answer
            self.changed = True
            return True
        self.refused[reason] += 1
        with refuses(reason):
            call()
        return False


def limits(examples: int, steps: int, derandomize: bool = True) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=derandomize,
        suppress_health_check=list(HealthCheck),
    )


def run(machine: type[Machine], examples: int, steps: int) -> None:
    """Tries so many histories of so many steps, the same ones each time."""
    run_state_machine_as_test(machine, settings=limits(examples, steps))
