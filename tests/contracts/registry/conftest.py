# SPDX-License-Identifier: Apache-2.0
"""A registry with its benchmarks, a coordinator, two slashers, a funded node owner and three
approved verifiers."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import install_block_hashes, mine, wait
from tests.stage.contracts.registry import (
    AGGREGATOR_STAKE,
    COORDINATOR,
    GAS_CAP,
    HOLDER,
    NODE_OWNER,
    OPERATOR,
    PAYOUT,
    QUORUM,
    SECOND_SLASHER,
    SECONDS,
    SLASHER,
    STAKE,
    TRAINER,
    TRAINER_STAKE,
    TREASURY,
    UNBONDING,
    VERIFIER,
    VERIFIER_STAKE,
    WINDOW,
    ZOO,
    Fund,
    Keys,
    Register,
    account,
    consent,
    deploy_registry,
    request,
    submit,
)


@pytest.fixture(scope="session")
def registry_code() -> Any:
    return boa.load_partial("contracts/NodeRegistry.vy")


@pytest.fixture(scope="session")
def benchmarks_code() -> Any:
    return boa.load_partial("contracts/NodeBenchmarks.vy")


@pytest.fixture(scope="session")
def token_code() -> Any:
    return boa.load_partial("contracts/ZooToken.vy")


@pytest.fixture(autouse=True)
def chain() -> None:
    """Boa's pytest plugin undoes every fixture after its test, block and gas limit included."""
    boa.env.evm.patch.gas_limit = GAS_CAP
    install_block_hashes()
    mine(1_000)


@pytest.fixture
def parameters() -> tuple[Any, ...]:
    return (UNBONDING, TRAINER_STAKE, VERIFIER_STAKE, AGGREGATOR_STAKE, WINDOW, QUORUM, TREASURY)


@pytest.fixture
def token(token_code: Any) -> Any:
    return token_code.deploy(HOLDER, 10**9 * ZOO)


@pytest.fixture
def contracts(
    registry_code: Any, benchmarks_code: Any, token: Any, parameters: tuple[Any, ...]
) -> tuple[Any, Any]:
    slashers = [SLASHER, SECOND_SLASHER]
    return deploy_registry(registry_code, benchmarks_code, token, COORDINATOR, slashers, parameters)


@pytest.fixture
def registry(contracts: tuple[Any, Any]) -> Any:
    return contracts[0]


@pytest.fixture
def benchmarks(contracts: tuple[Any, Any]) -> Any:
    return contracts[1]


@pytest.fixture
def fund(token: Any, registry: Any) -> Fund:
    """Gives somebody ZOO and lets the registry take it."""

    def give(owner: str, amount: int) -> None:
        token.transfer(owner, amount, sender=HOLDER)
        token.approve(registry.address, 2**256 - 1, sender=owner)

    return give


@pytest.fixture
def register(registry: Any, benchmarks: Any, fund: Fund) -> Register:
    """Registers a funded node whose owner, operator and payout are named after it. A TRAINER also
    requests its benchmark."""

    def make(name: str, roles: int = TRAINER, stake: int = STAKE, owner: str = "") -> int:
        owner = owner or str(account(f"{name} owner").address)
        fund(owner, stake)
        node_id = int(
            registry.register_node(
                account(name).address,
                account(f"{name} payout").address,
                roles,
                stake,
                b"\x01" * 32,
                consent(registry, account(name), owner),
                sender=owner,
            )
        )
        if roles & TRAINER:
            request(registry, benchmarks, node_id)
        return node_id

    return make


@pytest.fixture
def node(registry: Any, benchmarks: Any, fund: Fund) -> int:
    """A TRAINER of 1,000 ZOO with a pending benchmark; its owner has 10,000 ZOO more."""
    fund(NODE_OWNER, STAKE + 10_000 * ZOO)
    node_id = int(
        registry.register_node(
            OPERATOR,
            PAYOUT,
            TRAINER,
            STAKE,
            b"\x01" * 32,
            consent(registry, account("operator"), NODE_OWNER),
            sender=NODE_OWNER,
        )
    )
    request(registry, benchmarks, node_id)
    return node_id


@pytest.fixture
def verifiers(registry: Any, register: Register) -> Keys:
    """Node id to operator key of three approved verifiers."""
    keys = {}
    for name in ("ada", "bea", "cyd"):
        node_id = register(name, VERIFIER)
        registry.approve_role(node_id, VERIFIER, True, sender=COORDINATOR)
        keys[node_id] = account(name)
    wait(registry.maturity())
    return keys


@pytest.fixture
def answered(registry: Any, benchmarks: Any, node: int, verifiers: Keys) -> int:
    """A node whose answer waits for verdicts, SECONDS after its request, with the check seed."""
    wait(WINDOW + 1)
    benchmarks.request_benchmark(node, sender=OPERATOR)
    submit(registry, benchmarks, node, seconds=SECONDS)
    return node
