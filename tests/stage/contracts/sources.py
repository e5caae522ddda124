# SPDX-License-Identifier: Apache-2.0
"""Vyper sources of contracts that only tests deploy, where more than one folder needs them."""

from __future__ import annotations

# An `IRandomSource` that answers what anybody published for a block, and zero until then.
RANDOM_SOURCE = """
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

REFUSING_TOKEN = """
# pragma version ~=0.4.3

@external
def transfer(to: address, amount: uint256) -> bool:
    return False

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return False
"""
