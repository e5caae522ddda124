# SPDX-License-Identifier: Apache-2.0
"""Fail when a contract's code fills more than 90 % of what EIP-170 allows."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts._net.compiled import compile_contracts

EIP_170 = 24_576
LIMIT = EIP_170 * 90 // 100


def main() -> int:
    """Print every contract's size; return 1 if one is above the limit."""
    contracts = sorted(compile_contracts().values(), key=lambda contract: -contract.size)
    for contract in contracts:
        verdict = "  TOO LARGE" if contract.size > LIMIT else ""
        share = contract.size / EIP_170
        print(f"{contract.name:<18}{contract.size:>7,} bytes {share:>6.1%}{verdict}")
    too_large = [contract.name for contract in contracts if contract.size > LIMIT]
    if too_large:
        print(f"Above {LIMIT:,} bytes: {', '.join(too_large)}. Split or shrink them.")
    return bool(too_large)


if __name__ == "__main__":
    sys.exit(main())
