# SPDX-License-Identifier: Apache-2.0
"""One job among its people, see `tests.stage.contracts.rounds`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.copies import own_stage
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import Codes, System, deploy


@pytest.fixture(scope="module")
def made(codes: Codes) -> RoundStage:
    return make_rounds(deploy(codes))


@pytest.fixture
def stage(made: RoundStage, system: System) -> RoundStage:
    return own_stage(made, made.system, system)


@pytest.fixture
def jobs(system: System) -> Any:
    return system.jobs


@pytest.fixture
def rounds(system: System) -> Any:
    return system.rounds


@pytest.fixture
def results(system: System) -> Any:
    return system.results
