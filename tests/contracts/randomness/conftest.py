# SPDX-License-Identifier: Apache-2.0
"""The randomness module behind a thin contract, with `blockhash` and with another source."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import install_block_hashes, mine

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

SOURCE = """
# pragma version ~=0.4.3
from interfaces import IRandomSource
implements: IRandomSource

values: HashMap[uint256, bytes32]

@external
def publish(block_number: uint256, word: bytes32):
    self.values[block_number] = word

@view
@external
def random_at(block_number: uint256) -> bytes32:
    return self.values[block_number]
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
    return boa.loads(SOURCE)


@pytest.fixture
def sourced(harness_code: Any, source: Any) -> Any:
    return harness_code.deploy(source.address)
