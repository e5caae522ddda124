# SPDX-License-Identifier: Apache-2.0
"""Five executors, three verifiers and a creator, see `tests.stage.contracts.tasks`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.copies import own_stage
from tests.stage.contracts.system import Codes, System, deploy
from tests.stage.contracts.tasks import TaskStage, make_tasks


@pytest.fixture(scope="module")
def made(codes: Codes) -> TaskStage:
    return make_tasks(deploy(codes))


@pytest.fixture
def stage(made: TaskStage, system: System) -> TaskStage:
    return own_stage(made, made.system, system)


@pytest.fixture
def tasks(system: System) -> Any:
    return system.tasks


@pytest.fixture
def appeals(system: System) -> Any:
    return system.appeals
