# SPDX-License-Identifier: Apache-2.0
"""An adopted job with three verifiers of equal stake, see `tests.stage.contracts.scores`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.copies import own_stage
from tests.stage.contracts.scores import ScoreStage, make_scores
from tests.stage.contracts.system import Codes, System, deploy


@pytest.fixture(scope="module")
def made(codes: Codes) -> ScoreStage:
    return make_scores(deploy(codes))


@pytest.fixture
def stage(made: ScoreStage, system: System) -> ScoreStage:
    return own_stage(made, made.system, system)


@pytest.fixture
def scores(system: System) -> Any:
    return system.scores
