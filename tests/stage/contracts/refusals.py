# SPDX-License-Identifier: Apache-2.0
"""Tables of what contracts refuse: a row has the reason, what happens before, and the calls that
all revert with that reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import boa
import pytest

from tests.stage.contracts.registry import address_of
from tests.stage.contracts.system import Contracts, System, refuses

# Something that is done on a stage, such as `TaskStage`.
Act = Callable[[Any], Any]
CONTRACTS = {field.name for field in fields(Contracts)}


def address(system: System, who: str) -> str:
    """Of a contract by its name in `System`, of the deployer, or of a person by its name."""
    if who in CONTRACTS:
        return str(getattr(system, who).address)
    return str(boa.env.eoa) if who == "deployer" else address_of(who)


def first(*acts: Act | str) -> Act:
    """One after the other; methods of the stage by their names."""

    def do(stage: Any) -> None:
        for act in acts:
            getattr(stage, act)() if isinstance(act, str) else act(stage)

    return do


def node(name: str) -> Act:
    """The id of the node of this name, as an argument of `by`."""
    return lambda stage: stage.system.players[name].node_id


def by(who: str | Act, call: str, *arguments: Any) -> Act:
    """The call "contract.function". A sender or an argument that is a function is given the
    stage."""
    contract, function = call.split(".")

    def send(stage: Any) -> None:
        sender = address(stage.system, who) if isinstance(who, str) else who(stage)
        values = [value(stage) if callable(value) else value for value in arguments]
        getattr(getattr(stage.system, contract), function)(*values, sender=sender)

    send.__name__ = f"{function} by {who if isinstance(who, str) else who.__name__}"
    return send


def by_each(people: Iterable[str | Act], call: str, *arguments: Any) -> list[Act]:
    """The same call by everybody of these."""
    return [by(who, call, *arguments) for who in people]


@dataclass(frozen=True)
class Refusal:
    """A row of a table."""

    reason: str
    calls: tuple[Act, ...]
    after: tuple[Act | str, ...]

    def check(self, stage: Any) -> None:
        """Everything before succeeds; then each call reverts with the reason."""
        first(*self.after)(stage)
        for call in self.calls:
            with refuses(self.reason):
                call(stage)


def refused(reason: str, *calls: Act, after: Act | str | None = None) -> Any:
    """A row: `after` is what happens before, or the name of the stage's method that does it."""
    before = () if after is None else (after,)
    return pytest.param(Refusal(reason, calls, before), id=f"{calls[0].__name__}: {reason}")
