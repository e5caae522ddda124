# SPDX-License-Identifier: Apache-2.0
"""A ledger, and an account in the place of the rounds contract: the ledger checks its sender only
and never calls it."""

from __future__ import annotations

from typing import Any

import boa
import pytest

GAS_CAP = 16_777_216  # EIP-7825


@pytest.fixture(autouse=True)
def gas_cap() -> None:
    """Boa's pytest plugin undoes this, as everything a test does, after the test."""
    boa.env.evm.patch.gas_limit = GAS_CAP


@pytest.fixture(scope="session")
def ledger_blueprint() -> Any:
    return boa.load_partial("contracts/TrainingLedger.vy")


@pytest.fixture
def deployer() -> str:
    return str(boa.env.eoa)


@pytest.fixture
def rounds() -> str:
    return str(boa.env.generate_address("rounds"))


@pytest.fixture
def attester() -> str:
    return str(boa.env.generate_address("attester"))


@pytest.fixture
def ledger(ledger_blueprint: Any, rounds: str) -> Any:
    return ledger_blueprint.deploy(rounds)
