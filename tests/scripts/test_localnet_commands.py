# SPDX-License-Identifier: Apache-2.0
"""A local network of few."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet, LocalnetSettings, build_localnet
from scripts._net.processes import Supervisor

# As `make localnet ARGS="--verifiers 0 --aggregators 0"`: there is no role to approve.
FEW = LocalnetSettings(
    trainers=0, verifiers=0, aggregators=0, executors=0, members=1, threshold=1
)  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Localnet]:
    directory: Path = tmp_path_factory.mktemp("few")
    with Supervisor(directory / "logs", ROOT) as supervisor:
        yield build_localnet(supervisor, directory / "net", FEW)


def test_a_network_without_verifiers_and_aggregators_starts(net: Localnet) -> None:
    assert [seat.role for seat in net.seats.values()] == ["coordinator"]
    assert net.contract("Coordinator").functions.threshold().call() == 1
