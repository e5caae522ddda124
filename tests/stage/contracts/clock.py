# SPDX-License-Identifier: Apache-2.0
"""Blocks and block hashes for titanoboa, which has neither: one transaction is one call in a block
that stands still until `mine` moves it, and `blockhash` is empty until `install_block_hashes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import boa
from eth_utils import keccak

BLOCK_SECONDS = 12


class _Hashes(Sequence[bytes]):
    """Index i: hash of the block i + 1 before the current one, 256 in all, as the EVM keeps."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: Any) -> Any:
        return hash_of(boa.env.evm.patch.block_number - 1 - index)


def hash_of(block: int) -> bytes:
    """The hash that `blockhash(block)` answers within 256 blocks."""
    return keccak(text=str(block))  # as revm has it


def install_block_hashes() -> None:
    """Gives every past block a hash, until the surrounding `boa.env.anchor()` ends."""
    boa.env.evm.patch.prev_hashes = _Hashes()


def mine(blocks: int = 1, seconds: int | None = None) -> None:
    """Moves the chain `blocks` blocks and `seconds` (12 per block unless given) forward."""
    boa.env.evm.patch.block_number += blocks
    boa.env.evm.patch.timestamp += BLOCK_SECONDS * blocks if seconds is None else seconds


def wait(seconds: int) -> None:
    """Moves the chain `seconds` forward, with one block."""
    mine(1, seconds)


def now() -> int:
    return int(boa.env.timestamp)


def block() -> int:
    return int(boa.env.evm.patch.block_number)
