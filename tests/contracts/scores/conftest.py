# SPDX-License-Identifier: Apache-2.0
"""An adopted job with three verifiers of equal stake, see `scores_world`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.scores import Panel, make_panel
from tests.stage.contracts.system import System


@pytest.fixture
def panel(system: System) -> Panel:
    return make_panel(system)


@pytest.fixture
def scores(system: System) -> Any:
    return system.scores


@pytest.fixture
def owner(system: System) -> str:
    """The Coordinator, which owns the contracts."""
    return str(system.coordinator.address)
