# SPDX-License-Identifier: Apache-2.0
"""Rule: a node is a new id, an unused operator and a stake that has arrived."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import (
    AGGREGATOR,
    AGGREGATOR_STAKE,
    EMPTY,
    NODE_OWNER,
    OPERATOR,
    PAYOUT,
    STAKE,
    STRANGER,
    TRAINER,
    TRAINER_STAKE,
    VERIFIER,
    VERIFIER_STAKE,
    ZERO,
    ZOO,
    Fund,
    Register,
    account,
    address_of,
    consent,
)

KEY = b"\x01" * 32


def agreed(registry: Any, owner: str = NODE_OWNER) -> bytes:
    """The consent of the operator to a node of `owner`."""
    return consent(registry, account("operator"), owner)


@pytest.fixture
def funded(fund: Fund) -> str:
    fund(NODE_OWNER, 10_000 * ZOO)
    return NODE_OWNER


def test_register_node__records_takes_and_tells(registry: Any, token: Any, funded: str) -> None:
    node_id = registry.register_node(
        OPERATOR, PAYOUT, TRAINER, STAKE, KEY, agreed(registry), sender=funded
    )
    assert events_of(registry) == [
        event(
            "NodeRegistered",
            node_id=1,
            owner=funded,
            operator=OPERATOR,
            payout=PAYOUT,
            roles=TRAINER,
            stake=STAKE,
            encryption_key=KEY,
        )
    ]
    assert node_id == 1
    assert tuple(registry.node(1)) == (
        funded,
        OPERATOR,
        PAYOUT,
        TRAINER,
        0,
        STAKE,
        0,
        0,
        0,
        False,
        True,
        0,
        0,
        0,
        now(),
        KEY,
    )
    assert registry.node_of(OPERATOR) == 1
    assert registry.operator_of(1) == OPERATOR
    assert registry.owner_of(1) == funded
    assert registry.payouts([1, 2, 1]) == [PAYOUT, ZERO, PAYOUT]
    assert registry.bonded(1) == registry.total_stake() == STAKE
    assert token.balanceOf(registry.address) == STAKE
    assert registry.role_nodes(TRAINER, 0, 128) == []  # not measured yet


def test_register_node__ids_count_up(registry: Any, register: Register) -> None:
    assert [register(name) for name in ("one", "two", "three")] == [1, 2, 3]
    assert registry.node_count() == 3


def test_register_node__owner_may_be_the_operator(registry: Any, funded: str) -> None:
    assert registry.register_node(funded, PAYOUT, TRAINER, STAKE, EMPTY, b"", sender=funded) == 1


def test_register_node__one_owner_many_nodes(registry: Any, funded: str) -> None:
    for name in ("a", "b"):
        signed = consent(registry, account(name), funded)
        registry.register_node(
            address_of(name), PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=funded
        )
    assert registry.owner_of(1) == registry.owner_of(2) == funded


@pytest.mark.parametrize(
    ("roles", "least"),
    [
        (TRAINER, TRAINER_STAKE),
        (VERIFIER, VERIFIER_STAKE),
        (AGGREGATOR, AGGREGATOR_STAKE),
        (VERIFIER | AGGREGATOR, VERIFIER_STAKE),
        (TRAINER | VERIFIER | AGGREGATOR, TRAINER_STAKE),
    ],
)
def test_register_node__stake_below_the_least_minimum__reverts(
    registry: Any, funded: str, roles: int, least: int
) -> None:
    rest = EMPTY, agreed(registry)
    with boa.reverts("registry: stake too low"):
        registry.register_node(OPERATOR, PAYOUT, roles, least - 1, *rest, sender=funded)
    assert registry.register_node(OPERATOR, PAYOUT, roles, least, *rest, sender=funded) == 1


def test_register_node__without_the_tokens__reverts(registry: Any) -> None:
    signed = agreed(registry, STRANGER)
    with boa.reverts():
        registry.register_node(OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=STRANGER)
    assert registry.node_count() == 0


def test_register_node__trainer__requests_its_benchmark_itself(
    registry: Any, benchmarks: Any, funded: str
) -> None:
    """Its window begins when its operator is ready to work, not when its owner registers it."""
    registry.register_node(OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, agreed(registry), sender=funded)
    assert benchmarks.benchmark(1).attempt == 0
    benchmarks.request_benchmark(1, sender=OPERATOR)
    assert benchmarks.benchmark(1).attempt == 1


@pytest.mark.parametrize("role", [VERIFIER, AGGREGATOR])
def test_register_node__gated_role__waits_for_approval(
    registry: Any, benchmarks: Any, register: Register, role: int
) -> None:
    """A stranger cannot enter or crowd the list of verifiers by paying for it."""
    node_id = register("hopeful", role)
    assert registry.node(node_id).approved_roles == 0
    assert not registry.is_eligible(node_id, role)
    assert registry.role_count(role) == 0
    assert benchmarks.benchmark(node_id).attempt == 0


# The operator's consent


def test_attack__squatting_anothers_operator_key__is_refused(registry: Any, fund: Fund) -> None:
    """A thief registered a node with a newcomer's operator address, so that the newcomer could not.
    It bonded a node for it; now no signature but the operator's own names it."""
    fund(STRANGER, STAKE)
    thief = account("stranger")
    for signed in (b"", consent(registry, thief, STRANGER)):
        with boa.reverts("registry: no consent"):
            registry.register_node(OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=STRANGER)
    assert registry.node_of(OPERATOR) == 0


def test_consent__names_owner_contract_chain_and_use(registry: Any, funded: str) -> None:
    """What was signed for another owner, contract, chain or engagement is nothing here."""
    key = account("operator")
    elsewhere = {"verifyingContract": STRANGER}, {"chainId": 2}, {"name": "other"}
    wrong = [consent(registry, key, STRANGER), consent(registry, key, funded, 1)]
    wrong += [consent(registry, key, funded, **change) for change in elsewhere]
    for signed in wrong:
        with boa.reverts("registry: no consent"):
            registry.register_node(OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=funded)


def test_consent__used_once__does_not_serve_again(registry: Any, funded: str) -> None:
    """An owner must not take back, with an old signature, an operator that has left it."""
    signed = agreed(registry)
    registry.register_node(OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=funded)
    registry.set_operator(1, funded, b"", sender=funded)
    assert registry.node_of(OPERATOR) == 0
    assert registry.consents_used(OPERATOR) == 1
    with boa.reverts("registry: no consent"):
        registry.set_operator(1, OPERATOR, signed, sender=funded)
    registry.set_operator(1, OPERATOR, agreed(registry), sender=funded)
    assert registry.node_of(OPERATOR) == 1


def test_consent_digest__is_what_wallets_sign(registry: Any) -> None:
    key = account("operator")
    digest = registry.consent_digest(OPERATOR, NODE_OWNER)
    assert bytes(key.unsafe_sign_hash(digest).signature) == agreed(registry)
