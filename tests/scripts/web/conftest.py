# SPDX-License-Identifier: Apache-2.0
"""The networks and pages that all tests of this folder share. Nothing writes to their chains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from scripts._net.processes import Supervisor
from tests.stage.chain.busy_network import BusyNetwork, make_busy_network
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.postgres import Server, postgres
from tests.stage.web import Served, served

Fresh = Callable[[], str]


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyNetwork]:
    directory = tmp_path_factory.mktemp("busy")
    with Supervisor(directory / "logs") as supervisor:
        yield make_busy_network(directory, supervisor)


@pytest.fixture(scope="session")
def page(finished: FinishedJob, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The finished job's page, whose index has caught up."""
    database = f"sqlite:///{tmp_path_factory.mktemp('page') / 'index.db'}"
    given = finished.url, finished.deployment, database
    with served(*given, store=finished.store) as page:
        yield page


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Fresh:
    """Makes empty databases of a kind; their URLs."""
    if request.param == "sqlite":
        numbers = count()
        return lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"
    server: Server = request.getfixturevalue("server")
    return server.database
