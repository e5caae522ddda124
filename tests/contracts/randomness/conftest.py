# SPDX-License-Identifier: Apache-2.0
"""The randomness module behind a thin contract, with `blockhash` and with another source."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import install_block_hashes, mine
from tests.stage.contracts.sources import RANDOM_SOURCE

GAS_CAP = 16_777_216  # EIP-7825

HARNESS = """
# pragma version ~=0.4.3
from contracts.modules import randomness
initializes: randomness

@deploy
def __init__(source: address):
    randomness.__init__(source)

@external
def request(key: bytes32) -> uint256:
    return randomness._request(key)

@external
def capture(key: bytes32) -> bytes32:
    return randomness._capture(key)

@view
@external
def peek(key: bytes32) -> bytes32:
    return randomness._peek(key)

@view
@external
def seed(key: bytes32) -> bytes32:
    return randomness._seed(key)

@view
@external
def target(key: bytes32) -> uint256:
    return randomness._target(key)

@view
@external
def derive(key: bytes32, target: uint256) -> bytes32:
    return randomness._derive(key, target)

@view
@external
def is_lost(target: uint256) -> bool:
    return randomness._is_lost(target)
"""


@pytest.fixture(autouse=True)
def chain() -> None:
    """Boa's pytest plugin undoes every fixture after its test, block and gas limit included."""
    boa.env.evm.patch.gas_limit = GAS_CAP
    install_block_hashes()
    mine(1_000)


@pytest.fixture(scope="session")
def harness_code() -> Any:
    return boa.loads_partial(HARNESS)


@pytest.fixture
def draws(harness_code: Any) -> Any:
    return harness_code.deploy("0x" + "00" * 20)


@pytest.fixture
def source() -> Any:
    return boa.loads(RANDOM_SOURCE)


@pytest.fixture
def sourced(harness_code: Any, source: Any) -> Any:
    return harness_code.deploy(source.address)
