# SPDX-License-Identifier: Apache-2.0
"""A 3-of-5 committee, a target contract, and people who are not members."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.committee import (
    GAS_CAP,
    GOVERNANCE_DELAY,
    GRACE,
    MEMBERS,
    ROUTINE_DELAY,
    ROUTINE_SELECTOR,
    SALT,
    TARGET_SOURCE,
)


@pytest.fixture(scope="session")
def coordinator_blueprint() -> Any:
    return boa.load_partial("contracts/Coordinator.vy")


@pytest.fixture(autouse=True)
def gas_cap() -> None:
    """Boa's pytest plugin undoes this, as everything a test does, after the test."""
    boa.env.evm.patch.gas_limit = GAS_CAP


@pytest.fixture(scope="session")
def target_blueprint() -> Any:
    return boa.loads_partial(TARGET_SOURCE)


@pytest.fixture(scope="session")
def zoo_blueprint() -> Any:
    return boa.load_partial("contracts/ZooToken.vy")


@pytest.fixture
def target(target_blueprint: Any) -> Any:
    return target_blueprint.deploy()


@pytest.fixture
def coordinator(coordinator_blueprint: Any, target: Any) -> Any:
    return coordinator_blueprint.deploy(
        MEMBERS, 3, ROUTINE_DELAY, GOVERNANCE_DELAY, GRACE, [(target.address, ROUTINE_SELECTOR)]
    )


@pytest.fixture
def store_call(target: Any) -> bytes:
    return bytes(target.store.prepare_calldata(7))


@pytest.fixture
def op_id(coordinator: Any, target: Any, store_call: bytes) -> bytes:
    """A routine operation with one approval, its proposer's."""
    return bytes(coordinator.propose(target.address, store_call, SALT, sender=MEMBERS[0]))


@pytest.fixture
def queued(coordinator: Any, op_id: bytes) -> bytes:
    coordinator.approve(op_id, sender=MEMBERS[1])
    coordinator.approve(op_id, sender=MEMBERS[2])
    return op_id
