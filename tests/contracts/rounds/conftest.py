# SPDX-License-Identifier: Apache-2.0
"""One job among its people, see `round_world`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.rounds import Field, make_field
from tests.stage.contracts.system import System


@pytest.fixture
def field(system: System) -> Field:
    return make_field(system)


@pytest.fixture
def jobs(system: System) -> Any:
    return system.jobs


@pytest.fixture
def rounds(system: System) -> Any:
    return system.rounds


@pytest.fixture
def results(system: System) -> Any:
    return system.results


@pytest.fixture
def owner(system: System) -> str:
    """The Coordinator, which owns the contracts."""
    return str(system.coordinator.address)
