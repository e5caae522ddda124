# SPDX-License-Identifier: Apache-2.0
"""`propose` publishes an operation once and counts as its proposer's approval."""

from __future__ import annotations

from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.committee import GOVERNANCE_DELAY, MEMBERS, NONE, PROPOSED, QUEUED, SALT
from tests.stage.contracts.events import event, logged


def test_propose__member__publishes_and_approves(
    coordinator: Any, target: Any, store_call: bytes
) -> None:
    op_id = coordinator.propose(target.address, store_call, SALT, sender=MEMBERS[0])

    assert logged(coordinator) == [
        event(
            "OperationProposed",
            op_id=op_id,
            proposer=MEMBERS[0],
            target=target.address,
            data=store_call,
            salt=SALT,
        ),
        event("OperationApproved", op_id=op_id, member=MEMBERS[0], approvals=1),
    ]
    stored = coordinator.operation(op_id)
    assert tuple(stored) == (
        target.address,
        store_call,
        SALT,
        MEMBERS[0],
        boa.env.timestamp,
        0,
        False,
        False,
    )
    assert coordinator.state(op_id) == PROPOSED
    assert coordinator.approvals(op_id) == 1
    assert coordinator.has_approved(op_id, MEMBERS[0])
    assert not coordinator.has_approved(op_id, MEMBERS[1])


def test_propose__one_member_committee__queues_at_once(
    coordinator_blueprint: Any, target: Any
) -> None:
    alone = coordinator_blueprint.deploy(MEMBERS[:1], 1, 60, GOVERNANCE_DELAY, 100, [])
    op_id = alone.propose(target.address, b"", SALT, sender=MEMBERS[0])
    eta = boa.env.timestamp + GOVERNANCE_DELAY
    assert logged(alone)[-1] == event("OperationQueued", op_id=op_id, eta=eta)
    assert alone.state(op_id) == QUEUED


def test_propose__id__binds_chain_contract_and_call(
    coordinator: Any, coordinator_blueprint: Any, target: Any
) -> None:
    domain = keccak(text="menagerie.coordinator.operation.v1")
    fields = ["bytes32", "uint256", "address", "address", "bytes", "bytes32"]
    chain_id = boa.env.evm.patch.chain_id
    expected = keccak(
        encode(fields, [domain, chain_id, coordinator.address, target.address, b"abc", SALT])
    )
    assert coordinator.operation_id(target.address, b"abc", SALT) == expected
    assert coordinator.state(expected) == NONE

    twin = coordinator_blueprint.deploy(MEMBERS, 3, 1, 2, 3, [])
    assert twin.operation_id(target.address, b"abc", SALT) != expected
    boa.env.evm.patch.chain_id = chain_id + 1
    assert coordinator.operation_id(target.address, b"abc", SALT) != expected


def test_propose__again__reverts_until_the_salt_differs(
    coordinator: Any, target: Any, store_call: bytes, op_id: bytes
) -> None:
    with boa.reverts("coordinator: already proposed"):
        coordinator.propose(target.address, store_call, SALT, sender=MEMBERS[1])
    other = coordinator.propose(target.address, store_call, bytes(32), sender=MEMBERS[1])
    assert other != op_id


def test_propose__largest_call__fits_under_the_gas_cap(coordinator: Any, target: Any) -> None:
    data = bytes(range(256)) * 4
    op_id = coordinator.propose(target.address, data, SALT, sender=MEMBERS[0])
    assert coordinator.operation(op_id).data == data
