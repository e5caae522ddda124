# SPDX-License-Identifier: Apache-2.0
"""The ledger among the contracts that it reads; entries are sent from the address of
TrainingResults, the only one that may, so that a test can record what no round would bring
about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.system import Codes, System


@pytest.fixture(scope="session")
def ledger_code(codes: Codes) -> Any:
    return codes.ledger


@pytest.fixture
def attester() -> str:
    return str(boa.env.generate_address("attester"))


@pytest.fixture
def ledger(system: System) -> Any:
    return system.ledger


@pytest.fixture
def results(system: System) -> str:
    """The address of TrainingResults, as a sender."""
    return str(system.results.address)


@pytest.fixture
def coordinator(system: System) -> str:
    """The address of the Coordinator, as a sender."""
    return str(system.coordinator.address)


@pytest.fixture
def reserve(system: System) -> Callable[[int, int], None]:
    """Sets the reward of a round of a new job aside, as its opening does."""
    sponsor = system.person("sponsor", 10**24)
    job_id = system.job(sponsor, escrow=10**24)

    def set_aside(round_id: int, amount: int) -> None:
        system.pool.reserve(job_id, round_id, amount, sender=system.results.address)

    return set_aside
