# SPDX-License-Identifier: Apache-2.0
"""The jobs that all tests of this folder share. Nothing here writes to their chains or stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import Scene, make_scene
from tests.stage.chain.finished_scored_job import Panel, make_panel


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The machine is shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("audited")
    with Supervisor(directory / "logs") as supervisor:
        yield make_scene(directory, supervisor)


@pytest.fixture(scope="session")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Panel]:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("scored")
    with Supervisor(directory / "logs") as supervisor:
        yield make_panel(directory, supervisor)
