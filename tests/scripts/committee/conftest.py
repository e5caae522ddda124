# SPDX-License-Identifier: Apache-2.0
"""One deployed system for the committee's commands; each test starts from the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.protocol.network import Network
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.chain.people import People, found
from tests.stage.terminal import reader


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deployed") / "deployment.json"


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, deployment: Path) -> Iterator[People]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        yield found(anvil.url, (), write_to=deployment)


@pytest.fixture
def people(base: People) -> Iterator[People]:
    snapshot = base.chain.snapshot()
    yield replace(base, nodes=dict(base.nodes), start=dict(base.start))
    base.chain.revert(snapshot)


@pytest.fixture
def network(people: People, deployment: Path) -> Network:
    return reader(people.chain._url, deployment)
