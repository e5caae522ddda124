# SPDX-License-Identifier: Apache-2.0
"""A stage is made once a module; each test gets its own copy of what Python remembers of it.

Boa's pytest plugin undoes on the chain what a test did. Which players joined and which rounds were
opened is kept in Python, so it is copied: a test that adds a player adds it to its own copy. The
contracts stand on the chain and players never change, so neither is copied."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from tests.stage.contracts.system import System

Stage = TypeVar("Stage")


def own_system(made: System) -> System:
    """A copy of a deployed system for one test."""
    kept = [*vars(made).values(), *made.players.values()]
    return deepcopy(made, {id(thing): thing for thing in kept if not isinstance(thing, dict)})


def own_stage(made: Stage, system_of_made: System, system: System) -> Stage:
    """A copy of a stage for one test, which stands on the test's own copy of the system."""
    kept = {id(player): player for player in system_of_made.players.values()}
    return deepcopy(made, {**kept, id(system_of_made): system})
