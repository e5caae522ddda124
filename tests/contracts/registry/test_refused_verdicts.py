# SPDX-License-Identifier: Apache-2.0
"""Rule: a verdict counts once, about exactly what was submitted, from another owner's eligible
verifier, under its operator's key."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import mine, now, wait
from tests.stage.contracts.registry import (
    Keys,
    account,
    address_of,
    answer,
    consent,
    first,
    give,
    request,
    sign_verdict,
    submit,
)

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def test_verdict__both_ways_by_one_verifier__reverts(
    benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers))
    with boa.reverts("benchmarks: verdict already given"):
        give(benchmarks, answered, first(verifiers), passed=False)


def test_verdict__malleated_or_compact_copy__reverts(
    benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    """Another form of a known signature is no second verdict."""
    ((verifier, key),) = first(verifiers).items()
    signature = sign_verdict(benchmarks, key, answered, True)
    r, s, v = signature[:32], int.from_bytes(signature[32:64], "big"), signature[64]
    high = r + (CURVE_ORDER - s).to_bytes(32, "big") + bytes([55 - v])
    compact = r + (s | (v - 27) << 255).to_bytes(32, "big")
    with boa.reverts("ecdsa: invalid signature `s` value"):
        benchmarks.submit_verdicts(answered, True, [verifier], [high])
    benchmarks.submit_verdicts(answered, True, [verifier], [signature])
    with boa.reverts("benchmarks: verdict already given"):
        benchmarks.submit_verdicts(answered, True, [verifier], [compact])


@pytest.mark.parametrize("signature", [b"", b"\x01" * 64 + b"\x05", bytes(65)])
def test_verdict__garbage__never_counts(
    benchmarks: Any, answered: int, verifiers: Keys, signature: bytes
) -> None:
    with boa.reverts():
        benchmarks.submit_verdicts(answered, True, list(first(verifiers)), [signature])


def test_verdict__closed_verifier_with_zero_operator__reverts(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    """A closed node's operator is zero, which is also what a failed recovery could give."""
    (verifier,) = first(verifiers)
    owner = registry.owner_of(verifier)
    registry.begin_exit(verifier, sender=owner)
    wait(365 * 86_400)
    registry.withdraw(verifier, sender=owner)
    for signature in (b"", bytes(65)):
        with boa.reverts("benchmarks: not a verifier"):
            benchmarks.submit_verdicts(answered, True, [verifier], [signature])


@pytest.mark.parametrize(
    "changes",
    [
        {"node_id": 77},
        {"attempt": 1},
        {"root": stage.ARTEFACT},
        {"units": stage.UNITS + 1},
        {"check_seed": stage.ROOT},
        {"passed": False},
        {"chainId": 5},
        {"verifyingContract": stage.ZERO},
        {"name": "Other"},
        {"version": "2"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_verdict__about_anything_else__reverts(
    benchmarks: Any, answered: int, verifiers: Keys, changes: dict[str, Any]
) -> None:
    ((verifier, key),) = first(verifiers).items()
    signature = sign_verdict(benchmarks, key, answered, True, **changes)
    with boa.reverts("benchmarks: bad signature"):
        benchmarks.submit_verdicts(answered, True, [verifier], [signature])


def test_verdict__signed_by_the_verifiers_owner__reverts(
    benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    signature = sign_verdict(benchmarks, account("ada owner"), answered, True)
    with boa.reverts("benchmarks: bad signature"):
        benchmarks.submit_verdicts(answered, True, list(first(verifiers)), [signature])


def test_verdict__by_a_replaced_operator__reverts(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    ((verifier, key),) = first(verifiers).items()
    signature = sign_verdict(benchmarks, key, answered, True)
    cold = registry.owner_of(verifier)
    signed = consent(registry, account("new key"), cold)
    registry.set_operator(verifier, address_of("new key"), signed, sender=cold)
    with boa.reverts("benchmarks: bad signature"):
        benchmarks.submit_verdicts(answered, True, [verifier], [signature])


@pytest.mark.parametrize("why", ["unapproved", "revoked", "young", "suspended", "unknown"])
def test_verdict__by_an_ineligible_verifier__reverts(
    registry: Any,
    benchmarks: Any,
    answered: int,
    verifiers: Keys,
    register: stage.Register,
    why: str,
) -> None:
    ((verifier, key),) = first(verifiers).items()
    if why == "unapproved":
        verifier, key = register("uma", stage.VERIFIER), account("uma")
    elif why == "revoked":
        registry.approve_role(verifier, stage.VERIFIER, False, sender=stage.COORDINATOR)
    elif why == "young":
        verifier, key = register("uma", stage.VERIFIER), account("uma")
        registry.approve_role(verifier, stage.VERIFIER, True, sender=stage.COORDINATOR)
    elif why == "suspended":
        registry.slash(verifier, stage.INVALID, now(), stage.ZERO, sender=stage.SLASHER)
    else:
        verifier = 99
    reason = "bad signature" if why == "suspended" else "not a verifier"
    with boa.reverts(f"benchmarks: {reason}"):
        benchmarks.submit_verdicts(
            answered, True, [verifier], [sign_verdict(benchmarks, key, answered, True)]
        )


def test_verdict__by_the_node_itself__reverts(
    registry: Any, benchmarks: Any, fund: stage.Fund
) -> None:
    fund(stage.NODE_OWNER, 10**21)
    signed = consent(registry, account("both"), stage.NODE_OWNER)
    both = registry.register_node(
        address_of("both"),
        stage.ZERO[:-1] + "1",
        3,
        10**21,
        stage.ROOT,
        signed,
        sender=stage.NODE_OWNER,
    )
    registry.approve_role(both, stage.VERIFIER, True, sender=stage.COORDINATOR)
    wait(registry.maturity())
    request(registry, benchmarks, both)
    submit(registry, benchmarks, both)
    with boa.reverts("benchmarks: own benchmark"):
        benchmarks.submit_verdicts(
            both, True, [both], [sign_verdict(benchmarks, account("both"), both, True)]
        )


@pytest.mark.parametrize(("ids", "signatures"), [(0, 0), (1, 0), (0, 1), (2, 1)])
def test_verdicts__lists_do_not_match__reverts(
    benchmarks: Any, answered: int, verifiers: Keys, ids: int, signatures: int
) -> None:
    one = sign_verdict(benchmarks, next(iter(verifiers.values())), answered, True)
    with boa.reverts("benchmarks: bad verdicts"):
        benchmarks.submit_verdicts(answered, True, list(verifiers)[:ids], [one] * signatures)


def test_verdicts__nothing_submitted__reverts(benchmarks: Any, node: int, verifiers: Keys) -> None:
    with boa.reverts("benchmarks: no benchmark submitted"):
        benchmarks.submit_verdicts(node, True, list(first(verifiers)), [bytes(65)])


def test_verdicts__settled__reverts(benchmarks: Any, answered: int, verifiers: Keys) -> None:
    give(benchmarks, answered, first(verifiers, 2))
    with boa.reverts("benchmarks: benchmark settled"):
        give(benchmarks, answered, first(verifiers, 1, skip=2))


def test_verdicts__of_an_earlier_attempt__do_not_carry_over(
    registry: Any, benchmarks: Any, answered: int, verifiers: Keys
) -> None:
    give(benchmarks, answered, first(verifiers))
    ((verifier, key),) = first(verifiers, 1, skip=1).items()
    old = sign_verdict(benchmarks, key, answered, True)
    wait(stage.WINDOW + 1)
    benchmarks.request_benchmark(answered, sender=stage.OPERATOR)
    submit(registry, benchmarks, answered)
    assert benchmarks.benchmark(answered).passes == 0
    with boa.reverts("benchmarks: bad signature"):
        benchmarks.submit_verdicts(answered, True, [verifier], [old])
    give(benchmarks, answered, first(verifiers))


def test_verdicts__capture_the_check_seed_themselves(
    benchmarks: Any, node: int, verifiers: Keys
) -> None:
    mine(2)
    answer(benchmarks, node)
    mine(2)
    seed_free = benchmarks.verdict_digest(node, True)
    ((verifier, key),) = first(verifiers).items()
    signature = bytes(key.unsafe_sign_hash(seed_free).signature)
    benchmarks.submit_verdicts(node, True, [verifier], [signature])
    assert benchmarks.benchmark(node).check_seed != bytes(32)


def test_verdicts__check_seed_expired__reverts(benchmarks: Any, node: int, verifiers: Keys) -> None:
    mine(2)
    answer(benchmarks, node)
    mine(258)
    with boa.reverts("benchmarks: seed expired"):
        benchmarks.submit_verdicts(node, True, list(first(verifiers)), [bytes(65)])


def test_verdicts__paused__reverts(benchmarks: Any, answered: int, verifiers: Keys) -> None:
    benchmarks.set_paused(stage.PAUSE_BENCHMARK, sender=stage.COORDINATOR)
    with boa.reverts("pausing: paused"):
        give(benchmarks, answered, first(verifiers))
