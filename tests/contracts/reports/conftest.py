# SPDX-License-Identifier: Apache-2.0
"""A round in CHALLENGE in which trainer 0 and trainer 1 revealed the same content."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.rounds import Field, make_field
from tests.stage.contracts.system import System, Work


@pytest.fixture
def field(system: System) -> Field:
    field = make_field(system)
    for player in field.trainers:
        # The bond of an appeal.
        system.token.transfer(player.owner, 100 * 10**18, sender=system.holder)
    return field


@pytest.fixture
def challenge(field: Field) -> Field:
    field.to_commit()
    shared = {p.name: Work.of(p.name, content="shared") for p in field.trainers[:2]}
    works = {p.name: shared.get(p.name, Work.of(p.name)) for p in field.trainers}
    for player in field.trainers:
        field.system.commit(1, 1, player, works[player.name])
    for player in field.trainers:
        field.system.reveal(1, 1, player, works[player.name])
    field.propose(1)
    return field


@pytest.fixture
def reports(system: System) -> Any:
    return system.reports
