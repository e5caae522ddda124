# SPDX-License-Identifier: Apache-2.0
"""anvil as ape starts it, with the EIP-7825 gas cap, and the whole system deployed on it."""

from __future__ import annotations

from typing import Any

import ape
import pytest
from ape_foundry.provider import FoundryProvider

from scripts._net.anvil import find_anvil
from scripts._net.compiled import compile_contracts
from scripts._net.deployment import (
    ORDER,
    Deployed,
    DeploymentSettings,
    check_deployment,
    constructor_arguments,
    create_address,
)

_command = FoundryProvider.build_command


def _capped(provider: FoundryProvider) -> list[str]:
    # ape-foundry has no setting for further arguments, and no test may run without the cap.
    return [find_anvil(), *_command(provider)[1:], "--enable-tx-gas-limit"]


FoundryProvider.build_command = _capped


@pytest.fixture(scope="session")
def settings(accounts: Any) -> DeploymentSettings:
    """Accounts 1 to 5 are the committee, account 9 holds the supply."""
    return DeploymentSettings(
        members=tuple(sorted(accounts[i].address for i in range(1, 6))),
        holder=accounts[9].address,
        routine_delay=60,
        governance_delay=600,
    )


@pytest.fixture(scope="session")
def system(project: Any, accounts: Any, settings: DeploymentSettings) -> dict[str, Any]:
    """Every contract, deployed by account 0 through ape and checked as `ape run deploy` does."""
    deployer = accounts[0]
    at = {
        name: create_address(deployer.address, deployer.nonce + i) for i, name in enumerate(ORDER)
    }
    artefacts = compile_contracts()
    arguments = constructor_arguments(settings, at, artefacts)
    contracts = {name: deployer.deploy(getattr(project, name), *arguments[name]) for name in ORDER}
    assert {name: c.address for name, c in contracts.items()} == at
    provider = ape.networks.active_provider
    deployed = Deployed(provider.chain_id, 0, deployer.address, at, artefacts)
    check_deployment(provider.web3, deployed, settings)
    return contracts
