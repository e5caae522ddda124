# SPDX-License-Identifier: Apache-2.0
"""A verifier's verdict on a benchmark: the typed data that its operator key signs (EIP-712).

Rule: a verdict names the attempt, its root and the check seed, so anyone may relay it and nobody
can use it for another attempt.
"""

from __future__ import annotations

from typing import Protocol

from agents.protocol.consent import TypedData

TYPES = {
    "BenchmarkVerdict": [
        {"name": "node_id", "type": "uint256"},
        {"name": "attempt", "type": "uint256"},
        {"name": "root", "type": "bytes32"},
        {"name": "units", "type": "uint256"},
        {"name": "check_seed", "type": "bytes32"},
        {"name": "passed", "type": "bool"},
    ]
}


class Attempt(Protocol):
    """What NodeBenchmarks says of a submitted benchmark."""

    @property
    def attempt(self) -> int: ...
    @property
    def root(self) -> bytes: ...
    @property
    def units(self) -> int: ...


def benchmark_verdict(
    benchmarks: str, chain_id: int, node: int, attempt: Attempt, check_seed: bytes, passed: bool
) -> TypedData:
    """Return what a verifier signs of a node's attempt; `benchmarks`: NodeBenchmarks' address."""
    domain = {
        "name": "Menagerie NodeRegistry",
        "version": "1",
        "chainId": chain_id,
        "verifyingContract": benchmarks,
    }
    message = {
        "node_id": node,
        "attempt": attempt.attempt,
        "root": attempt.root,
        "units": attempt.units,
        "check_seed": check_seed,
        "passed": passed,
    }
    return TypedData(domain, TYPES, message)
