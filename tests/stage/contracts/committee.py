# SPDX-License-Identifier: Apache-2.0
"""What the coordinator's tests share: member keys, signatures made without the contract's help,
and the path of an operation from proposal to execution."""

from __future__ import annotations

from typing import Any

import boa
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

GAS_CAP = 16_777_216  # EIP-7825
ROUTINE_DELAY = 60
GOVERNANCE_DELAY = 3_600
GRACE = 7_200
SALT = bytes(31) + b"\x01"
ROUTINE_SELECTOR = bytes.fromhex("6057361d")  # store(uint256)

NONE, PROPOSED, QUEUED, EXECUTED, CANCELLED, EXPIRED = range(6)

# A target that answers, fails, looks back and strikes back.
TARGET_SOURCE = """
# pragma version ~=0.4.3
stored: public(uint256)
answer: public(bool)

interface Coordinator:
    def execute(op_id: bytes32) -> Bytes[256]: nonpayable
    def propose(target: address, data: Bytes[1024], salt: bytes32) -> bytes32: nonpayable
    def is_member(account: address) -> bool: view

@external
def store(amount: uint256) -> uint256:
    self.stored = amount
    return amount + 1

@external
def fail():
    raise "target: refused"

@external
def many_words() -> uint256[12]:
    return [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]

@external
def execute_again(op_id: bytes32):
    extcall Coordinator(msg.sender).execute(op_id)

@external
def ask(account: address):
    self.answer = staticcall Coordinator(msg.sender).is_member(account)

@external
@payable
def __default__():
    self.stored = 99
"""


def make_accounts(count: int, first_key: int = 1_000) -> list[LocalAccount]:
    """`count` accounts with known keys, in ascending order of address."""
    made = [Account.from_key((first_key + i).to_bytes(32, "big")) for i in range(count)]
    return sorted(made, key=lambda account: int(account.address, 16))


ACCOUNTS = make_accounts(5)  # of the members, with their keys
MEMBERS = [account.address for account in ACCOUNTS]
STRANGER = make_accounts(1, first_key=99)[0].address


def typed_approval(
    op_id: bytes, coordinator: str, chain_id: int, name: str = "Menagerie Coordinator"
) -> Any:
    """The EIP-712 message of an approval, built from the specification, not from the contract."""
    return encode_typed_data(
        domain_data={
            "name": name,
            "version": "1",
            "chainId": chain_id,
            "verifyingContract": coordinator,
        },
        message_types={"Approval": [{"name": "op_id", "type": "bytes32"}]},
        message_data={"op_id": op_id},
    )


def sign(account: LocalAccount, op_id: bytes, coordinator: Any, **domain: Any) -> bytes:
    """A member's 65-byte approval signature."""
    chain_id = domain.pop("chain_id", boa.env.evm.patch.chain_id)
    address = domain.pop("address", str(coordinator.address))
    return bytes(account.sign_message(typed_approval(op_id, address, chain_id, **domain)).signature)


def propose_and_approve(coordinator: Any, target: str, data: bytes, salt: bytes = SALT) -> bytes:
    """Proposed by the first member and approved by two more, as a committee of 3 of 5 needs."""
    op_id = bytes(coordinator.propose(target, data, salt, sender=MEMBERS[0]))
    for member in MEMBERS[1:3]:
        coordinator.approve(op_id, sender=member)
    return op_id


def end(coordinator: Any, op_id: bytes, how: str) -> None:
    """Ends a queued routine operation: executed, cancelled by three members, or expired."""
    if how == "cancelled":
        for member in MEMBERS[:3]:
            coordinator.cancel(op_id, sender=member)
    boa.env.time_travel(seconds=ROUTINE_DELAY + (GRACE if how == "expired" else 0))
    if how == "executed":
        coordinator.execute(op_id)


def pass_operation(
    coordinator: Any, approvers: list[str], target: str, data: bytes, salt: bytes = SALT
) -> bytes:
    """Proposes, approves up to the threshold, waits out the delay and executes."""
    needed = approvers[: coordinator.threshold()]
    op_id = coordinator.propose(target, data, salt, sender=needed[0])
    for approver in needed[1:]:
        coordinator.approve(op_id, sender=approver)
    boa.env.time_travel(seconds=coordinator.operation(op_id).eta - boa.env.timestamp)
    coordinator.execute(op_id)
    return op_id
