# SPDX-License-Identifier: Apache-2.0
"""A round in CHALLENGE in which trainer 0 and trainer 1 revealed the same content."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import System, Work


@pytest.fixture
def stage(system: System) -> RoundStage:
    stage = make_rounds(system)
    for player in stage.trainers:
        # The bond of an appeal.
        system.token.transfer(player.owner, 100 * 10**18, sender=system.holder)
    return stage


@pytest.fixture
def challenge(stage: RoundStage) -> RoundStage:
    to_challenge(stage)
    return stage


def to_challenge(stage: RoundStage) -> None:
    stage.to_commit()
    shared = {p.name: Work.of(p.name, content="shared") for p in stage.trainers[:2]}
    works = {p.name: shared.get(p.name, Work.of(p.name)) for p in stage.trainers}
    for player in stage.trainers:
        stage.system.commit(1, 1, player, works[player.name])
    for player in stage.trainers:
        stage.system.reveal(1, 1, player, works[player.name])
    stage.propose(1)


@pytest.fixture
def reports(system: System) -> Any:
    return system.reports
