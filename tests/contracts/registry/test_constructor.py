# SPDX-License-Identifier: Apache-2.0
"""Rule: from the first block the coordinator owns the registry and the deployer owns nothing."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.registry import (
    COORDINATOR,
    DEFAULT_ROWS,
    SLASHER,
    TRAINER,
    ZERO,
    address_of,
)


def test_init__hands_everything_to_the_coordinator(
    registry: Any, deployer: str, parameters: tuple[Any, ...]
) -> None:
    assert registry.owner() == COORDINATOR != deployer
    assert registry.pending_owner() == ZERO
    assert registry.is_slasher(SLASHER)
    assert not registry.is_slasher(deployer)
    assert tuple(registry.parameters()) == parameters


def test_init__starts_empty(registry: Any) -> None:
    assert registry.node_count() == 0
    assert registry.total_stake() == 0
    assert registry.total_bounties() == 0
    assert registry.paused() == 0
    assert registry.role_count(TRAINER) == 0


@pytest.mark.parametrize("violation", range(17))
def test_init__fills_the_default_table(registry: Any, violation: int) -> None:
    empty = (0, 0, 0, False, False, 0)
    assert tuple(registry.penalty(violation)) == DEFAULT_ROWS.get(violation, empty)


@pytest.mark.parametrize("which", ["token", "benchmarks", "owner", "slasher", "treasury"])
def test_init__with_a_zero_address__reverts(
    registry_code: Any, token: Any, parameters: tuple[Any, ...], which: str
) -> None:
    given = {
        "token": token.address,
        "benchmarks": address_of("benchmarks contract"),
        "owner": COORDINATOR,
        "slasher": SLASHER,
        "treasury": parameters[6],
    } | {which: ZERO}
    with boa.reverts("registry: zero address"):
        registry_code.deploy(
            given["token"],
            given["benchmarks"],
            given["owner"],
            [given["slasher"]],
            (*parameters[:6], given["treasury"]),
        )


def test_init__with_a_slasher_twice__reverts(
    registry_code: Any, token: Any, parameters: tuple[Any, ...]
) -> None:
    with boa.reverts("registry: slasher unchanged"):
        registry_code.deploy(token.address, SLASHER, COORDINATOR, [SLASHER, SLASHER], parameters)


def test_init_benchmarks__hands_the_pause_to_the_coordinator(
    registry: Any, benchmarks: Any, deployer: str
) -> None:
    assert registry.benchmarks() == benchmarks.address
    assert benchmarks.registry() == registry.address
    assert benchmarks.owner() == COORDINATOR != deployer
    assert benchmarks.pending_owner() == ZERO
    assert benchmarks.paused() == 0


def test_code__fits_in_nine_tenths_of_the_limit(registry: Any, benchmarks: Any) -> None:
    for contract in (registry, benchmarks):
        assert len(boa.env.get_code(contract.address)) < 22_118


def test_domain__is_what_wallets_sign(benchmarks: Any) -> None:
    _, name, version, chain_id, contract, salt, extensions = benchmarks.eip712Domain()
    assert (name, version) == ("Menagerie NodeRegistry", "1")
    assert (chain_id, contract) == (boa.env.evm.patch.chain_id, benchmarks.address)
    assert (salt, extensions) == (bytes(32), [])
