# SPDX-License-Identifier: Apache-2.0
"""ZOO, all of it held by one treasury account."""

from __future__ import annotations

from typing import Any

import boa
import pytest

GAS_CAP = 16_777_216  # EIP-7825
SUPPLY = 10**27


@pytest.fixture(autouse=True)
def gas_cap() -> None:
    """Boa's pytest plugin undoes this, as everything a test does, after the test."""
    boa.env.evm.patch.gas_limit = GAS_CAP


@pytest.fixture(scope="session")
def zoo_blueprint() -> Any:
    return boa.load_partial("contracts/ZooToken.vy")


@pytest.fixture
def treasury() -> str:
    return str(boa.env.generate_address("treasury"))


@pytest.fixture
def holder() -> str:
    return str(boa.env.generate_address("holder"))


@pytest.fixture
def spender() -> str:
    return str(boa.env.generate_address("spender"))


@pytest.fixture
def zoo(zoo_blueprint: Any, treasury: str) -> Any:
    return zoo_blueprint.deploy(treasury, SUPPLY)
