# SPDX-License-Identifier: Apache-2.0
"""The finished tasks, shared by all tests of this folder. Nothing writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts._net.processes import Supervisor
from tests.stage.chain.finished_tasks import FinishedTasks, make_finished_tasks


@pytest.fixture(scope="session")
def tasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedTasks]:
    directory = tmp_path_factory.mktemp("tasked")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_tasks(directory, supervisor)
