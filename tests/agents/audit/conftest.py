# SPDX-License-Identifier: Apache-2.0
"""The jobs that all tests of this folder share. Nothing here writes to their chains or stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import FinishedJob, make_finished_job
from tests.stage.chain.finished_scored_job import FinishedScoredJob, make_finished_scored_job
from tests.stage.chain.finished_tasks import FinishedTasks, make_finished_tasks


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedJob]:
    directory = tmp_path_factory.mktemp("audited")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_job(directory, supervisor)


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedScoredJob]:
    directory = tmp_path_factory.mktemp("scored")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_scored_job(directory, supervisor)


@pytest.fixture(scope="session")
def tasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedTasks]:
    directory = tmp_path_factory.mktemp("tasked")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_tasks(directory, supervisor)
