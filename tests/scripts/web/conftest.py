# SPDX-License-Identifier: Apache-2.0
"""The finished job and its page, shared by all tests of this folder. Nothing writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import FinishedJob, make_finished_job
from tests.stage.web import Served, served


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedJob]:
    directory = tmp_path_factory.mktemp("finished")
    with Supervisor(directory / "logs") as supervisor:
        yield make_finished_job(directory, supervisor)


@pytest.fixture(scope="session")
def page(finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The finished job's page, whose index has caught up."""
    database = f"sqlite:///{tmp_path_factory.mktemp('page') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store) as page:
        yield page
