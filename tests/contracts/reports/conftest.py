# SPDX-License-Identifier: Apache-2.0
"""A round in CHALLENGE in which trainer 0 and trainer 1 revealed the same content."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.copies import own_stage
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import Codes, System, Work, deploy


@pytest.fixture(scope="module")
def made(codes: Codes) -> RoundStage:
    stage = make_rounds(deploy(codes))
    for player in stage.trainers:
        # The bond of an appeal.
        stage.system.token.transfer(player.owner, 100 * 10**18, sender=stage.system.holder)
    return stage


@pytest.fixture
def stage(made: RoundStage, system: System) -> RoundStage:
    return own_stage(made, made.system, system)


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
