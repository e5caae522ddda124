# SPDX-License-Identifier: Apache-2.0
"""`approve_by_sig` takes what members signed, from anyone, and nothing else."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts import committee
from tests.stage.contracts.committee import ACCOUNTS, STRANGER, make_accounts, sign, typed_approval
from tests.stage.contracts.events import event, logged

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def test_approve_by_sig__quorum_from_a_stranger__queues(coordinator: Any, op_id: bytes) -> None:
    signatures = [sign(account, op_id, coordinator) for account in ACCOUNTS[1:3]]
    coordinator.approve_by_sig(op_id, signatures, sender=STRANGER)
    assert logged(coordinator) == [
        event("OperationApproved", op_id=op_id, member=ACCOUNTS[1].address, approvals=2),
        event("OperationApproved", op_id=op_id, member=ACCOUNTS[2].address, approvals=3),
        event("OperationQueued", op_id=op_id, eta=boa.env.timestamp + committee.ROUTINE_DELAY),
    ]


def test_approve_by_sig__digest__is_the_eip712_one(coordinator: Any, op_id: bytes) -> None:
    message = typed_approval(op_id, str(coordinator.address), boa.env.evm.patch.chain_id)
    expected = keccak(b"\x19" + message.version + message.header + message.body)
    assert coordinator.approval_digest(op_id) == expected
    domain = coordinator.eip712Domain()
    assert domain[1:5] == (
        "Menagerie Coordinator",
        "1",
        boa.env.evm.patch.chain_id,
        coordinator.address,
    )


def test_approve_by_sig__front_run_in_part__still_succeeds(coordinator: Any, op_id: bytes) -> None:
    signatures = [sign(account, op_id, coordinator) for account in ACCOUNTS[1:3]]
    coordinator.approve_by_sig(op_id, signatures[:1], sender=STRANGER)
    coordinator.approve_by_sig(op_id, signatures)
    assert coordinator.approvals(op_id) == 3
    assert coordinator.state(op_id) == committee.QUEUED
    coordinator.approve_by_sig(op_id, signatures, sender=STRANGER)
    assert logged(coordinator) == []


@pytest.mark.parametrize("signers", [(1, 1), (2, 1)], ids=["twice", "descending"])
def test_approve_by_sig__signers_not_ascending__reverts(
    coordinator: Any, op_id: bytes, signers: tuple[int, int]
) -> None:
    signatures = [sign(ACCOUNTS[i], op_id, coordinator) for i in signers]
    with boa.reverts("coordinator: signer order"):
        coordinator.approve_by_sig(op_id, signatures)


def test_approve_by_sig__outsiders_signature__reverts(coordinator: Any, op_id: bytes) -> None:
    outsider = make_accounts(1, first_key=77)[0]
    with boa.reverts("coordinator: not a member"):
        coordinator.approve_by_sig(op_id, [sign(outsider, op_id, coordinator)])


@pytest.mark.parametrize(
    ("length", "ending", "reason"),
    [
        *((length, b"", "coordinator: bad signature") for length in (0, 1, 64)),
        *((64, bytes([v]), "ecdsa: invalid signature") for v in (0, 1, 26, 29, 255)),
        (0, bytes(65), "ecdsa: invalid signature"),
        (0, bytes(64) + b"\x1b", "ecdsa: invalid signature"),
    ],
)
def test_approve_by_sig__malformed_signature__reverts(
    coordinator: Any, op_id: bytes, length: int, ending: bytes, reason: str
) -> None:
    signature = sign(ACCOUNTS[1], op_id, coordinator)[:length] + ending
    with boa.reverts(reason):
        coordinator.approve_by_sig(op_id, [signature])


def test_approve_by_sig__malleated_signature__reverts(coordinator: Any, op_id: bytes) -> None:
    signature = sign(ACCOUNTS[1], op_id, coordinator)
    high_s = CURVE_ORDER - int.from_bytes(signature[32:64], "big")
    twin = signature[:32] + high_s.to_bytes(32, "big") + bytes([55 - signature[64]])
    with boa.reverts("ecdsa: invalid signature `s` value"):
        coordinator.approve_by_sig(op_id, [twin])


def test_approve_by_sig__made_for_something_else__reverts(
    coordinator: Any, op_id: bytes, target: Any
) -> None:
    """Another operation, contract, chain or domain name recovers to somebody else."""
    signer = ACCOUNTS[1]
    chain_id = boa.env.evm.patch.chain_id
    foreign = [
        sign(signer, bytes(32), coordinator),
        sign(signer, op_id, coordinator, address=str(target.address)),
        sign(signer, op_id, coordinator, chain_id=chain_id + 1),
        sign(signer, op_id, coordinator, name="Coordinator"),
    ]
    for signature in foreign:
        with boa.reverts("coordinator: not a member"):
            coordinator.approve_by_sig(op_id, [signature])
    assert coordinator.state(op_id) == committee.PROPOSED


def test_approve_by_sig__chain_forked_after_signing__reverts(
    coordinator: Any, op_id: bytes
) -> None:
    signature = sign(ACCOUNTS[1], op_id, coordinator)
    chain_id = boa.env.evm.patch.chain_id
    boa.env.evm.patch.chain_id = chain_id + 1
    with boa.reverts("coordinator: not a member"):
        coordinator.approve_by_sig(op_id, [signature])
