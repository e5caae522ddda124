# SPDX-License-Identifier: Apache-2.0
"""Random histories of the committee against a model: nothing executes without m approvals of the
members of that moment, before its delay, after its grace, twice, or once cancelled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import boa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.contracts.stateful.machine import Machine, run
from tests.stage.contracts.committee import (
    CANCELLED,
    EXECUTED,
    EXPIRED,
    GAS_CAP,
    PROPOSED,
    QUEUED,
    ROUTINE_SELECTOR,
    TARGET_SOURCE,
    make_accounts,
    sign,
)

N_PEOPLE = 7
ROUTINE, GOVERNANCE, GRACE = 10, 100, 300
MAX_OPEN = 4

people_sets = st.sets(st.integers(0, N_PEOPLE - 1), max_size=N_PEOPLE).map(sorted)
person = st.integers(0, N_PEOPLE - 1)
picks = st.integers(0, 2**16)


@dataclass
class ModelOperation:
    target: str
    data: bytes
    routine: bool
    effect: Any  # what execution does to the model
    eta: int = 0
    quorum_at: int = 0  # when the quorum that counts was reached
    delay: int = 0  # the class's delay at that moment
    executed: bool = False
    cancelled: bool = False
    approved: set[str] = field(default_factory=set)
    voted: set[str] = field(default_factory=set)
    compared_last: bool = False


class CoordinatorMachine(Machine):
    codes: tuple[Any, Any]  # coordinator, target

    def __init__(self) -> None:
        super().__init__()
        boa.env.evm.patch.gas_limit = GAS_CAP
        self.operations: dict[bytes, ModelOperation] = {}
        self.stored = 0
        self.steps = self.salt = 0

    @initialize(size=st.integers(1, 5), surplus=st.integers(0, 2))
    def set_up(self, size: int, surplus: int) -> None:
        self.keys = make_accounts(N_PEOPLE, first_key=5_000)
        self.people = [key.address for key in self.keys]
        self.members = self.people[:size]
        self.threshold = min(size, size // 2 + 1 + surplus)
        self.delays = (ROUTINE, GOVERNANCE)
        coordinator, target = self.codes
        self.target = target.deploy()
        self.routine_listed = True
        self.coordinator = coordinator.deploy(
            self.members,
            self.threshold,
            ROUTINE,
            GOVERNANCE,
            GRACE,
            [(self.target.address, ROUTINE_SELECTOR)],
        )

    # The model's view of an operation

    def approvals(self, operation: ModelOperation) -> int:
        return len(operation.approved & set(self.members))

    def votes(self, operation: ModelOperation) -> int:
        return len(operation.voted & set(self.members))

    def state(self, operation: ModelOperation) -> int:
        if operation.executed:
            return EXECUTED
        if operation.cancelled or self.votes(operation) > len(self.members) - self.threshold:
            return CANCELLED
        if operation.eta == 0:
            return PROPOSED
        return EXPIRED if boa.env.timestamp >= operation.eta + GRACE else QUEUED

    def closed(self, operation: ModelOperation) -> dict[str, bool]:
        """The reasons why nothing can be done with an operation any more."""
        state = self.state(operation)
        return {
            "coordinator: executed": state == EXECUTED,
            "coordinator: cancelled": state == CANCELLED,
            "coordinator: expired": state == EXPIRED,
        }

    def is_open(self, operation: ModelOperation) -> bool:
        return self.state(operation) in (PROPOSED, QUEUED)

    def approve_in_model(self, operation: ModelOperation, approvers: list[str]) -> None:
        had_quorum = self.approvals(operation) >= self.threshold
        operation.approved.update(approvers)
        has_quorum = self.approvals(operation) >= self.threshold
        if has_quorum and (operation.eta == 0 or not had_quorum):
            operation.quorum_at = boa.env.timestamp
            operation.delay = self.delays[0 if operation.routine and self.routine_listed else 1]
            operation.eta = operation.quorum_at + operation.delay

    def operation_at(self, pick: int) -> tuple[bytes, ModelOperation]:
        """Any operation one time in eight, else one that is still open, if there is one."""
        every = list(self.operations.items())
        still_open = [item for item in every if self.is_open(item[1])]
        chosen = still_open if still_open and pick % 8 else every
        return chosen[pick % len(chosen)]

    def n_open(self) -> int:
        return sum(map(self.is_open, self.operations.values()))

    # Proposals

    def propose(self, who: int, target: Any, data: bytes, routine: bool, effect: Any) -> None:
        sender = self.people[who]
        self.salt += 1
        salt = self.salt.to_bytes(32, "big")
        made: list[Any] = []
        if self.attempt(
            {"coordinator: not a member": sender not in self.members},
            lambda: made.append(
                self.coordinator.propose(target.address, data, salt, sender=sender)
            ),
        ):
            operation = ModelOperation(str(target.address), data, routine, effect)
            self.operations[bytes(made[0])] = operation
            self.approve_in_model(operation, [sender])

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person, amount=st.integers(0, 1_000))
    def propose_store(self, who: int, amount: int) -> None:
        def effect() -> None:
            self.stored = amount

        data = self.target.store.prepare_calldata(amount)
        self.propose(who, self.target, data, True, effect)

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person)
    def propose_failing_call(self, who: int) -> None:
        data = self.target.fail.prepare_calldata()
        self.propose(who, self.target, data, False, "target: refused")

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person, chosen=people_sets, threshold=st.integers(0, N_PEOPLE))
    def propose_members(self, who: int, chosen: list[int], threshold: int) -> None:
        members = [self.people[i] for i in chosen]

        def effect() -> None:
            self.members, self.threshold = members, threshold

        data = self.coordinator.set_members.prepare_calldata(members, threshold)
        outcome: Any = effect
        if not members:
            outcome = "coordinator: no members"
        elif not len(members) / 2 < threshold <= len(members):
            outcome = "coordinator: bad threshold"
        self.propose(who, self.coordinator, data, False, outcome)

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person, chosen=people_sets)
    def propose_sound_committee(self, who: int, chosen: list[int]) -> None:
        self.propose_members(who, chosen, len(chosen) // 2 + 1)

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person, routine=st.integers(0, 200), governance=st.integers(0, 200))
    def propose_delays(self, who: int, routine: int, governance: int) -> None:
        def effect() -> None:
            self.delays = (routine, governance)

        data = self.coordinator.set_delays.prepare_calldata(routine, governance)
        outcome = effect if routine <= governance else "coordinator: bad delays"
        self.propose(who, self.coordinator, data, False, outcome)

    @precondition(lambda self: self.n_open() < MAX_OPEN)
    @rule(who=person, listed=st.booleans())
    def propose_class(self, who: int, listed: bool) -> None:
        def effect() -> None:
            self.routine_listed = listed

        data = self.coordinator.set_delay_class.prepare_calldata(
            self.target.address, ROUTINE_SELECTOR, int(listed)
        )
        self.propose(who, self.coordinator, data, False, effect)

    # Approvals, votes, time, execution

    @precondition(lambda self: self.operations)
    @rule(pick=picks, who=person)
    def approve(self, pick: int, who: int) -> None:
        op_id, operation = self.operation_at(pick)
        sender = self.people[who]
        reasons = {
            "coordinator: not a member": sender not in self.members,
            **self.closed(operation),
            "coordinator: already approved": sender in operation.approved,
        }
        if self.attempt(reasons, lambda: self.coordinator.approve(op_id, sender=sender)):
            self.approve_in_model(operation, [sender])

    @precondition(lambda self: self.operations)
    @rule(pick=picks)
    def everybody_approves(self, pick: int) -> None:
        op_id, operation = self.operation_at(pick)
        for member in self.members:
            if member not in operation.approved and self.is_open(operation):
                self.coordinator.approve(op_id, sender=member)
                self.approve_in_model(operation, [member])

    @rule(chosen=st.sets(person, min_size=1, max_size=N_PEOPLE).map(sorted))
    def reform(self, chosen: list[int]) -> None:
        """A change of members from proposal to execution, while other operations wait."""
        before = set(self.operations)
        proposer = self.people.index(self.members[0])
        self.propose_members(proposer, chosen, len(chosen) // 2 + 1)
        (op_id,) = set(self.operations) - before
        operation = self.operations[op_id]
        for member in self.members[1 : self.threshold]:
            self.coordinator.approve(op_id, sender=member)
            self.approve_in_model(operation, [member])
        boa.env.time_travel(seconds=operation.delay)
        self.coordinator.execute(op_id)
        operation.executed = True
        operation.effect()

    @precondition(lambda self: self.operations)
    @rule(pick=picks, signers=people_sets, relayer=person, backwards=st.booleans())
    def approve_by_sig(self, pick: int, signers: list[int], relayer: int, backwards: bool) -> None:
        op_id, operation = self.operation_at(pick)
        order = signers[::-1] if backwards else signers
        signatures = [sign(self.keys[i], op_id, self.coordinator) for i in order]
        names = [self.people[i] for i in order]
        disordered = backwards and len(order) > 1
        # Signers are looked at one after another: behind the first, the order counts first.
        known = {*names[:1]} if disordered else {*names}
        reasons = {
            **self.closed(operation),
            "coordinator: not a member": not known <= set(self.members),
            "coordinator: signer order": disordered,
        }
        if self.attempt(
            reasons,
            lambda: self.coordinator.approve_by_sig(op_id, signatures, sender=self.people[relayer]),
        ):
            self.approve_in_model(operation, names)

    @precondition(lambda self: self.operations)
    @rule(pick=picks, who=person)
    def cancel(self, pick: int, who: int) -> None:
        op_id, operation = self.operation_at(pick)
        sender = self.people[who]
        reasons = {
            "coordinator: not a member": sender not in self.members,
            **self.closed(operation),
            "coordinator: already voted": sender in operation.voted,
        }
        if self.attempt(reasons, lambda: self.coordinator.cancel(op_id, sender=sender)):
            operation.voted.add(sender)
            operation.cancelled = self.votes(operation) > len(self.members) - self.threshold

    @rule(seconds=st.sampled_from([1, 5, ROUTINE, GOVERNANCE, GRACE]))
    def wait(self, seconds: int) -> None:
        boa.env.time_travel(seconds=seconds)

    @precondition(lambda self: self.operations)
    @rule(pick=picks, who=person)
    def execute(self, pick: int, who: int) -> None:
        op_id, operation = self.operation_at(pick)
        sender = self.people[who]
        approvers = [m for m in self.members if self.coordinator.has_approved(op_id, m)]
        reasons = {
            **self.closed(operation),
            "coordinator: not queued": operation.eta == 0,
            "coordinator: too early": boa.env.timestamp < operation.eta,
            "coordinator: approvals": self.approvals(operation) < self.threshold,
            str(operation.effect): isinstance(operation.effect, str),
        }
        if self.attempt(reasons, lambda: self.coordinator.execute(op_id, sender=sender)):
            assert 2 * len(approvers) > len(self.members)
            assert len(approvers) >= self.threshold
            assert boa.env.timestamp >= operation.quorum_at + operation.delay
            operation.executed = True
            operation.effect()

    @precondition(lambda self: self.operations)
    @rule(pick=picks, who=person)
    def wait_and_execute(self, pick: int, who: int) -> None:
        _, operation = self.operation_at(pick)
        if operation.eta > boa.env.timestamp:
            boa.env.time_travel(seconds=operation.eta - boa.env.timestamp)
        self.execute(pick, who)

    # The whole model, after every step

    @invariant()
    def chain_equals_model(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        assert self.coordinator.members() == self.members
        assert self.coordinator.threshold() == self.threshold
        assert self.coordinator.delays() == self.delays
        assert self.target.stored() == self.stored
        self.steps += 1
        name = self.people[self.steps % N_PEOPLE]
        assert self.coordinator.is_member(name) == (name in self.members)
        for op_id, operation in self.operations.items():
            if operation.compared_last:
                continue
            # What is executed, cancelled or expired is out of reach: compared once more.
            late = operation.eta != 0 and boa.env.timestamp >= operation.eta + GRACE
            operation.compared_last = operation.executed or operation.cancelled or late
            stored = self.coordinator.operation(op_id)
            assert (stored.target, stored.data) == (operation.target, operation.data)
            assert (stored.eta, stored.executed) == (operation.eta, operation.executed)
            assert stored.cancelled == operation.cancelled
            assert self.coordinator.state(op_id) == self.state(operation)
            assert self.coordinator.approvals(op_id) == self.approvals(operation)
            assert self.coordinator.cancel_votes(op_id) == self.votes(operation)


@pytest.fixture(scope="module")
def codes() -> tuple[Any, Any]:
    return boa.load_partial("contracts/Coordinator.vy"), boa.loads_partial(TARGET_SOURCE)


def test_coordinator_machine__random_histories__quorum_and_delay_hold(
    codes: tuple[Any, Any],
) -> None:
    machine = type("CoordinatorMachineHere", (CoordinatorMachine,), {"codes": codes})
    run(machine, examples=20, steps=50)
