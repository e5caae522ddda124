# SPDX-License-Identifier: Apache-2.0
"""What the tests of NodeRegistry and NodeBenchmarks share: amounts, the default table, and
signatures made without the contract's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from tests.stage.contracts.clock import mine

GAS_CAP = 16_777_216  # EIP-7825
ZOO = 10**18
DAY = 86_400
ZERO = "0x" + "00" * 20
EMPTY = bytes(32)

TRAINER, VERIFIER, AGGREGATOR = 1, 2, 4
NO_REVEAL, INVALID, COPIED, REPEATED, BAD_RESULT, FALSE_REPORT = range(1, 7)
REDUNDANCY_MISMATCH, ABORT, COLLUSION = range(7, 10)
PAUSE_REGISTER = 1
PAUSE_BENCHMARK = 1  # of NodeBenchmarks

UNBONDING = 14 * DAY
TRAINER_STAKE, VERIFIER_STAKE, AGGREGATOR_STAKE = 100 * ZOO, 500 * ZOO, 1_000 * ZOO
WINDOW = 3_600
QUORUM = 2
STAKE = 1_000 * ZOO

# bps, escalation bps, suspension, strike, ban, reporter bps
DEFAULT_ROWS = {
    NO_REVEAL: (500, 500, 0, False, False, 1_000),
    INVALID: (2_000, 0, 7 * DAY, True, False, 5_000),
    COPIED: (5_000, 0, 30 * DAY, True, False, 5_000),
    REPEATED: (10_000, 0, 0, False, True, 5_000),
    BAD_RESULT: (2_000, 0, 7 * DAY, True, False, 5_000),
    FALSE_REPORT: (2_000, 0, 7 * DAY, True, False, 5_000),
    REDUNDANCY_MISMATCH: (2_000, 0, 7 * DAY, True, False, 5_000),
    ABORT: (2_000, 0, 7 * DAY, True, False, 0),
    COLLUSION: (5_000, 0, 30 * DAY, True, False, 5_000),
}

ROOT = b"\xaa" * 32
ARTEFACT = b"\xbb" * 32
UNITS = 6_000
SECONDS = 24  # between request and answer

Keys = dict[int, LocalAccount]  # verifier node id to operator key
Register = Callable[..., int]  # what the fixture `register` is
Fund = Callable[[str, int], None]  # what the fixture `fund` is


SEED_DOMAIN = keccak(text="Menagerie NodeRegistry benchmark seed")
CHECK_DOMAIN = keccak(text="Menagerie NodeRegistry benchmark check")


def draw_key(domain: bytes, node_id: int, attempt: int) -> bytes:
    """The key of a benchmark's draw in the randomness module."""
    return keccak(encode(["bytes32", "uint256", "uint256"], [domain, node_id, attempt]))


def deploy_registry(
    registry_code: Any,
    benchmarks_code: Any,
    token: Any,
    owner: str,
    slashers: list[str],
    parameters: tuple[Any, ...],
) -> tuple[Any, Any]:
    """NodeRegistry and NodeBenchmarks, which know each other's address from their constructors."""
    at = address_of("benchmarks contract")
    registry = registry_code.deploy(token.address, at, owner, slashers, parameters)
    return registry, benchmarks_code.deploy(registry.address, owner, ZERO, override_address=at)


def account(name: str) -> LocalAccount:
    """A key that is always the same for the same name."""
    key = keccak(text=f"menagerie test key {name}")
    return Account.from_key(key)  # type: ignore[no-any-return]


def _domain(contract: Any) -> dict[str, Any]:
    """The EIP-712 domain that the registry and its benchmarks share but for the address."""
    return {
        "name": "Menagerie NodeRegistry",
        "version": "1",
        "chainId": boa.env.evm.patch.chain_id,
        "verifyingContract": contract.address,
    }


def sign_verdict(
    benchmarks: Any, signer: LocalAccount, node_id: int, passed: bool, /, **changes: Any
) -> bytes:
    """An EIP-712 BenchmarkVerdict signature; `changes` replaces message or domain fields."""
    attempt = benchmarks.benchmark(node_id)
    domain = _domain(benchmarks)
    message = {
        "node_id": node_id,
        "attempt": attempt.attempt,
        "root": attempt.root,
        "units": attempt.units,
        "check_seed": attempt.check_seed,
        "passed": passed,
    }
    for name, value in changes.items():
        (domain if name in domain else message)[name] = value
    types = {
        "BenchmarkVerdict": [
            {"name": "node_id", "type": "uint256"},
            {"name": "attempt", "type": "uint256"},
            {"name": "root", "type": "bytes32"},
            {"name": "units", "type": "uint256"},
            {"name": "check_seed", "type": "bytes32"},
            {"name": "passed", "type": "bool"},
        ]
    }
    return bytes(signer.sign_message(encode_typed_data(domain, types, message)).signature)


def consent(
    registry: Any, operator: LocalAccount, owner: str, nonce: int | None = None, **changes: Any
) -> bytes:
    """An operator's EIP-712 OperatorConsent signature; `changes` replaces fields of the domain."""
    if nonce is None:
        nonce = int(registry.consents_used(operator.address))
    domain = _domain(registry) | changes
    types = {
        "OperatorConsent": [
            {"name": "operator", "type": "address"},
            {"name": "owner", "type": "address"},
            {"name": "nonce", "type": "uint256"},
        ]
    }
    message = {"operator": operator.address, "owner": owner, "nonce": nonce}
    return bytes(operator.sign_message(encode_typed_data(domain, types, message)).signature)


def request(registry: Any, benchmarks: Any, node_id: int) -> None:
    """The node's operator asks for an attempt."""
    benchmarks.request_benchmark(node_id, sender=registry.operator_of(node_id))


def seed_now(benchmarks: Any, node_id: int) -> bytes:
    """The seed that an answer to the node's attempt must name; nothing is captured by asking."""
    with boa.env.anchor():
        return bytes(benchmarks.capture_benchmark_seed(node_id))


def answer(benchmarks: Any, node_id: int, units: int = UNITS, operator: str | None = None) -> None:
    """Answers the pending attempt, by the operator that tests' nodes have or another."""
    seed, sender = seed_now(benchmarks, node_id), operator or OPERATOR
    benchmarks.submit_benchmark(node_id, seed, units, ROOT, ARTEFACT, sender=sender)


def submit(
    registry: Any, benchmarks: Any, node_id: int, units: int = UNITS, seconds: int = 24
) -> None:
    """Answers the pending attempt two blocks and `seconds` later, and captures the check seed."""
    mine(2, seconds)
    answer(benchmarks, node_id, units, registry.operator_of(node_id))
    mine(2)
    benchmarks.capture_check_seed(node_id)


def give(benchmarks: Any, node_id: int, keys: Keys, passed: bool = True) -> None:
    """Relays the verdicts of these verifiers in one call."""
    signatures = [sign_verdict(benchmarks, key, node_id, passed) for key in keys.values()]
    benchmarks.submit_verdicts(node_id, passed, list(keys), signatures)


def first(keys: Keys, count: int = 1, skip: int = 0) -> Keys:
    return dict(list(keys.items())[skip : skip + count])


def benchmark_passed(registry: Any, benchmarks: Any, node_id: int, verifiers: Keys) -> None:
    """Takes the node's pending attempt to a passed score of units per million seconds."""
    submit(registry, benchmarks, node_id)
    give(benchmarks, node_id, verifiers)


def address_of(name: str) -> str:
    """The address of the actor that the fixture of the same name names."""
    return str(account(name).address)


# Everybody's address is that of a key made of the name, so tests name people without a fixture.
COORDINATOR, TREASURY, HOLDER = map(address_of, ("coordinator", "treasury", "holder"))
SLASHER, SECOND_SLASHER = map(address_of, ("slasher", "second_slasher"))
NODE_OWNER, OPERATOR, PAYOUT = map(address_of, ("node_owner", "operator", "payout"))
REPORTER, STRANGER = map(address_of, ("reporter", "stranger"))
