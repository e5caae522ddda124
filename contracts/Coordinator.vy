# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title Coordinator
@license AGPL-3.0-only
@notice The Zoo AI committee. An operation is one call of one contract; it is public from its
        proposal on, needs the approval of m of the n members, and waits out a delay before
        anyone may execute it. Every privileged role of the other contracts is held by this
        contract, and its own settings change only by such operations. It may hold ZOO.

        Approvals and cancel votes are counted over the *current* members, each time: those of a
        removed member don't count (and count again if it returns). An operation that loses its
        quorum while queued isn't executable; when an approval restores the quorum its delay
        starts anew. n-m+1 cancel votes, which leave no m members without one, stop it for good.
@custom:kill Members cancel an operation by vote. The contract itself can't be stopped: it is what
             stops the others. Below m reachable members nothing moves and nothing is lost.
"""

from interfaces import ICoordinator

implements: ICoordinator

from snekmate.utils import ecdsa
from snekmate.utils import eip712_domain_separator

initializes: eip712_domain_separator

exports: eip712_domain_separator.eip712Domain

MAX_DELAY: constant(uint256) = 90 * 86_400
# Delay classes.
GOVERNANCE: constant(uint256) = 0
ROUTINE: constant(uint256) = 1

OPERATION_DOMAIN: constant(bytes32) = keccak256("menagerie.coordinator.operation.v1")
APPROVAL_TYPE_HASH: constant(bytes32) = keccak256("Approval(bytes32 op_id)")

# States of an operation.
STATE_NONE: constant(uint256) = 0
STATE_PROPOSED: constant(uint256) = 1
STATE_QUEUED: constant(uint256) = 2
STATE_EXECUTED: constant(uint256) = 3
STATE_CANCELLED: constant(uint256) = 4
STATE_EXPIRED: constant(uint256) = 5


# Seconds after its eta in which a queued operation may be executed.
grace_period: public(immutable(uint256))


# The views are open during an execution (`reentrant`): a target may ask who is a member.
threshold: public(reentrant(uint256))
is_member: public(reentrant(HashMap[address, bool]))
delay_class: public(reentrant(HashMap[address, HashMap[bytes4, uint256]]))
_members: DynArray[address, 16]
_routine_delay: uint256
_governance_delay: uint256
_operations: HashMap[bytes32, ICoordinator.Operation]
_approved: HashMap[bytes32, HashMap[address, bool]]
_cancel_voted: HashMap[bytes32, HashMap[address, bool]]


@deploy
def __init__(
    members_: DynArray[address, 16],
    threshold_: uint256,
    routine_delay_: uint256,
    governance_delay_: uint256,
    grace_period_: uint256,
    routine_calls_: DynArray[ICoordinator.RoutineCall, 16],
):
    """
    @notice Fixes the first committee, its delays, and the calls that wait only the routine delay.
            The deployer gets no right.
    @dev Reverts: "coordinator: bad grace period" (outside 1 second to 90 days), and the reverts of
         `set_members`, `set_delays` and `set_delay_class`.
    @param members_ The members.
    @param threshold_ The approvals an operation needs, m.
    @param routine_delay_ Seconds between quorum and execution of a routine call.
    @param governance_delay_ Seconds between quorum and execution of any other call.
    @param grace_period_ Seconds a queued operation stays executable after its delay.
    @param routine_calls_ The (target, selector) pairs of class ROUTINE.
    """
    assert grace_period_ != 0 and grace_period_ <= MAX_DELAY, "coordinator: bad grace period"
    grace_period = grace_period_
    eip712_domain_separator.__init__("Menagerie Coordinator", "1")
    self._set_members(members_, threshold_)
    self._set_delays(routine_delay_, governance_delay_)
    for routine_call: ICoordinator.RoutineCall in routine_calls_:
        self._set_delay_class(routine_call.target, routine_call.selector, ROUTINE)


@external
def propose(target: address, data: Bytes[1024], salt: bytes32) -> bytes32:
    """
    @notice Member: publishes an operation and records its proposer's approval.
    @dev The same (target, data, salt) can be proposed once; another salt makes another operation.
         Reverts: "coordinator: not a member", "coordinator: zero target",
         "coordinator: already proposed".
    @param target The contract to call.
    @param data The call: selector and arguments.
    @param salt Any value, distinguishes equal calls.
    @return bytes32 The operation's id.
    """
    assert self.is_member[msg.sender], "coordinator: not a member"
    assert target != empty(address), "coordinator: zero target"
    op_id: bytes32 = self._operation_id(target, data, salt)
    assert self._operations[op_id].proposed_at == 0, "coordinator: already proposed"

    self._operations[op_id] = ICoordinator.Operation(
        target=target,
        data=data,
        salt=salt,
        proposer=msg.sender,
        proposed_at=block.timestamp,
        eta=0,
        executed=False,
        cancelled=False,
    )
    log ICoordinator.OperationProposed(
        op_id=op_id, proposer=msg.sender, target=target, data=data, salt=salt
    )
    self._approve(op_id, msg.sender, 0)
    self._queue_at_quorum(op_id, 0)
    return op_id


@external
def approve(op_id: bytes32):
    """
    @notice Member: records the caller's approval. The one that makes the quorum queues the
            operation.
    @dev Reverts: "coordinator: not a member", "coordinator: already approved", and the reverts of
         `_check_open`.
    @param op_id The operation.
    """
    assert self.is_member[msg.sender], "coordinator: not a member"
    self._check_open(op_id)
    assert not self._approved[op_id][msg.sender], "coordinator: already approved"

    before: uint256 = self._count_approvals(op_id)
    self._approve(op_id, msg.sender, before)
    self._queue_at_quorum(op_id, before)


@external
def approve_by_sig(op_id: bytes32, signatures: DynArray[Bytes[65], 16]):
    """
    @notice Anyone: relays approvals that members signed off chain, and so records them.
    @dev Signers' addresses ascend strictly. An approval already recorded is skipped, so that
         nobody can make a relay revert by sending part of it first. With nothing new to record
         the call still queues an operation that a change of members brought to quorum.
         Reverts: "coordinator: bad signature" (not 65 bytes), "coordinator: signer order",
         "coordinator: not a member", "ecdsa: invalid signature",
         "ecdsa: invalid signature `s` value", and the reverts of `_check_open`.
    @param op_id The operation.
    @param signatures EIP-712 signatures (r, s, v) of Approval(bytes32 op_id).
    """
    self._check_open(op_id)
    digest: bytes32 = self._approval_digest(op_id)
    before: uint256 = self._count_approvals(op_id)
    count: uint256 = before
    last_signer: address = empty(address)
    for signature: Bytes[65] in signatures:
        assert len(signature) == 65, "coordinator: bad signature"
        signer: address = ecdsa._recover_sig(digest, signature)
        assert convert(signer, uint160) > convert(last_signer, uint160), "coordinator: signer order"
        assert self.is_member[signer], "coordinator: not a member"
        last_signer = signer
        if not self._approved[op_id][signer]:
            self._approve(op_id, signer, count)
            count += 1
    self._queue_at_quorum(op_id, before)


@external
def execute(op_id: bytes32) -> Bytes[256]:
    """
    @notice Anyone: makes the call of an operation whose delay is over.
    @dev A revert of the target is passed on unchanged and leaves the operation queued. Reverts:
         "coordinator: not queued", "coordinator: too early", "coordinator: approvals" (the quorum
         was lost to a change of members), "coordinator: no code at target", and the reverts of
         `_check_open`.
    @param op_id The operation.
    @return Bytes What the target returned, its first 256 bytes.
    """
    self._check_open(op_id)
    eta: uint256 = self._operations[op_id].eta
    assert eta != 0, "coordinator: not queued"
    assert block.timestamp >= eta, "coordinator: too early"
    assert self._count_approvals(op_id) >= self.threshold, "coordinator: approvals"
    target: address = self._operations[op_id].target
    assert target.is_contract, "coordinator: no code at target"

    self._operations[op_id].executed = True
    result: Bytes[256] = raw_call(target, self._operations[op_id].data, max_outsize=256)
    log ICoordinator.OperationExecuted(op_id=op_id, executor=msg.sender, result=result)
    return result


@external
def cancel(op_id: bytes32):
    """
    @notice Member: records the caller's vote to cancel. n-m+1 votes of members cancel for good. A
            vote does not take back an approval and can't be taken back.
    @dev Reverts: "coordinator: not a member", "coordinator: already voted", and the reverts of
         `_check_open`.
    @param op_id The operation.
    """
    assert self.is_member[msg.sender], "coordinator: not a member"
    self._check_open(op_id)
    assert not self._cancel_voted[op_id][msg.sender], "coordinator: already voted"

    self._cancel_voted[op_id][msg.sender] = True
    votes: uint256 = self._count_cancel_votes(op_id)
    log ICoordinator.CancelVoted(op_id=op_id, member=msg.sender, votes=votes)
    if votes >= self._cancel_quorum():
        self._operations[op_id].cancelled = True
        log ICoordinator.OperationCancelled(op_id=op_id)


@reentrant
@external
def set_members(members_: DynArray[address, 16], threshold_: uint256):
    """
    @notice Coordinator only, by an operation on itself: replaces the committee.
    @dev Reverts: "coordinator: not self", "coordinator: no members", "coordinator: bad member"
         (zero or this contract), "coordinator: duplicate member", "coordinator: bad threshold"
         (not a majority, or more than the members).
    @param members_ The members, 1 to 16.
    @param threshold_ The approvals an operation needs.
    """
    self._check_self()
    self._set_members(members_, threshold_)


@reentrant
@external
def set_delays(routine: uint256, governance: uint256):
    """
    @notice Coordinator only, by an operation on itself: changes both delays for operations queued
            from now on.
    @dev Reverts: "coordinator: not self", "coordinator: bad delays" (unless routine <= governance
         <= 90 days).
    @param routine Seconds for routine calls.
    @param governance Seconds for all other calls.
    """
    self._check_self()
    self._set_delays(routine, governance)


@reentrant
@external
def set_delay_class(target: address, selector: bytes4, delay_class_: uint256):
    """
    @notice Coordinator only, by an operation on itself: puts one function of one contract in a
            delay class, for operations queued from now on.
    @dev This contract's own functions are always GOVERNANCE. Reverts: "coordinator: not self",
         "coordinator: bad class", "coordinator: own calls".
    @param target The contract.
    @param selector The function.
    @param delay_class_ GOVERNANCE = 0 or ROUTINE = 1.
    """
    self._check_self()
    self._set_delay_class(target, selector, delay_class_)


@view
@reentrant
@external
def members() -> DynArray[address, 16]:
    """
    @notice The current members.
    @return DynArray Their addresses, in the order they were set.
    """
    return self._members


@view
@reentrant
@external
def delays() -> (uint256, uint256):
    """
    @notice The current delays.
    @return Seconds for routine calls, and for all other calls.
    """
    return self._routine_delay, self._governance_delay


@view
@reentrant
@external
def operation(op_id: bytes32) -> ICoordinator.Operation:
    """
    @notice An operation as stored.
    @param op_id The operation.
    @return ICoordinator.Operation The operation; `proposed_at` is 0 when it is unknown.
    """
    return self._operations[op_id]


@view
@reentrant
@external
def operation_id(target: address, data: Bytes[1024], salt: bytes32) -> bytes32:
    """
    @notice The id an operation has on this chain and contract.
    @param target The contract to call.
    @param data The call.
    @param salt The salt.
    @return bytes32 The id.
    """
    return self._operation_id(target, data, salt)


@view
@reentrant
@external
def state(op_id: bytes32) -> uint256:
    """
    @notice Where an operation stands: NONE = 0, PROPOSED = 1, QUEUED = 2, EXECUTED = 3,
            CANCELLED = 4, EXPIRED = 5. A queued operation may still have to wait for its eta, or
            for approvals lost to a change of members.
    @param op_id The operation.
    @return uint256 The state.
    """
    return self._state(op_id)


@view
@reentrant
@external
def approvals(op_id: bytes32) -> uint256:
    """
    @notice How many current members approved an operation.
    @param op_id The operation.
    @return uint256 Their number.
    """
    return self._count_approvals(op_id)


@view
@reentrant
@external
def has_approved(op_id: bytes32, member: address) -> bool:
    """
    @notice Whether an account's approval of an operation counts now.
    @param op_id The operation.
    @param member The account.
    @return bool True if it approved and is a member.
    """
    return self.is_member[member] and self._approved[op_id][member]


@view
@reentrant
@external
def cancel_votes(op_id: bytes32) -> uint256:
    """
    @notice How many current members voted to cancel an operation; n-m+1 cancel it.
    @param op_id The operation.
    @return uint256 Their number.
    """
    return self._count_cancel_votes(op_id)


@view
@reentrant
@external
def approval_digest(op_id: bytes32) -> bytes32:
    """
    @notice The EIP-712 digest a member signs to approve an operation off chain.
    @param op_id The operation.
    @return bytes32 The digest, bound to this chain and contract.
    """
    return self._approval_digest(op_id)


@internal
def _approve(op_id: bytes32, member: address, before: uint256):
    """
    @notice Records one new approval.
    @param op_id The operation.
    @param member The approving member.
    @param before The approvals counted before this one.
    """
    self._approved[op_id][member] = True
    log ICoordinator.OperationApproved(op_id=op_id, member=member, approvals=before + 1)


@internal
def _queue_at_quorum(op_id: bytes32, before: uint256):
    """
    @notice Starts the delay when the quorum is there and either never was, or had been lost before
         the approvals of this call.
    @param op_id The operation.
    @param before The approvals counted before this call.
    """
    if self._count_approvals(op_id) < self.threshold:
        return
    if self._operations[op_id].eta != 0 and before >= self.threshold:
        return
    delay: uint256 = self._governance_delay
    if self._class_of(op_id) == ROUTINE:
        delay = self._routine_delay
    eta: uint256 = block.timestamp + delay
    self._operations[op_id].eta = eta
    log ICoordinator.OperationQueued(op_id=op_id, eta=eta)


@internal
def _set_members(new_members: DynArray[address, 16], new_threshold: uint256):
    """
    @notice Replaces members and threshold after checking them.
    @param new_members The members.
    @param new_threshold The threshold.
    """
    assert len(new_members) != 0, "coordinator: no members"
    assert (
        new_threshold <= len(new_members) and 2 * new_threshold > len(new_members)
    ), "coordinator: bad threshold"
    old_members: DynArray[address, 16] = self._members
    old_threshold: uint256 = self.threshold

    for member: address in old_members:
        self.is_member[member] = False
    for member: address in new_members:
        assert member != empty(address) and member != self, "coordinator: bad member"
        assert not self.is_member[member], "coordinator: duplicate member"
        self.is_member[member] = True
    self._members = new_members
    self.threshold = new_threshold
    log ICoordinator.MembersChanged(
        old_members=old_members,
        new_members=new_members,
        old_threshold=old_threshold,
        new_threshold=new_threshold,
    )


@internal
def _set_delays(routine: uint256, governance: uint256):
    """
    @notice Replaces both delays after checking them.
    @param routine Seconds for routine calls.
    @param governance Seconds for all other calls.
    """
    assert routine <= governance and governance <= MAX_DELAY, "coordinator: bad delays"
    old_routine: uint256 = self._routine_delay
    old_governance: uint256 = self._governance_delay
    self._routine_delay = routine
    self._governance_delay = governance
    log ICoordinator.DelaysChanged(
        old_routine=old_routine,
        old_governance=old_governance,
        new_routine=routine,
        new_governance=governance,
    )


@internal
def _set_delay_class(target: address, selector: bytes4, new_class: uint256):
    """
    @notice Sets the class of one function after checking it.
    @param target The contract.
    @param selector The function.
    @param new_class The class.
    """
    assert new_class <= ROUTINE, "coordinator: bad class"
    assert target != self, "coordinator: own calls"
    old_class: uint256 = self.delay_class[target][selector]
    self.delay_class[target][selector] = new_class
    log ICoordinator.DelayClassChanged(
        target=target, selector=selector, old_class=old_class, new_class=new_class
    )


@internal
@view
def _check_self():
    """
    @notice Lets only operations of this contract on itself pass.
    """
    assert msg.sender == self, "coordinator: not self"


@internal
@view
def _check_open(op_id: bytes32):
    """
    @notice Lets only operations pass that may still be approved, cancelled or executed. Reverts:
         "coordinator: unknown operation", "coordinator: executed", "coordinator: cancelled",
         "coordinator: expired".
    @param op_id The operation.
    """
    state: uint256 = self._state(op_id)
    assert state != STATE_NONE, "coordinator: unknown operation"
    assert state != STATE_EXECUTED, "coordinator: executed"
    assert state != STATE_CANCELLED, "coordinator: cancelled"
    assert state != STATE_EXPIRED, "coordinator: expired"


@internal
@view
def _state(op_id: bytes32) -> uint256:
    """
    @notice The state of an operation. Cancel votes that a change of members turned into a quorum
         cancel without another vote.
    @param op_id The operation.
    @return uint256 The state.
    """
    if self._operations[op_id].proposed_at == 0:
        return STATE_NONE
    if self._operations[op_id].executed:
        return STATE_EXECUTED
    if (
        self._operations[op_id].cancelled
        or self._count_cancel_votes(op_id) >= self._cancel_quorum()
    ):
        return STATE_CANCELLED
    eta: uint256 = self._operations[op_id].eta
    if eta == 0:
        return STATE_PROPOSED
    if block.timestamp >= eta + grace_period:
        return STATE_EXPIRED
    return STATE_QUEUED


@internal
@view
def _count_approvals(op_id: bytes32) -> uint256:
    """
    @notice Counts over the current members only; an approval is a boolean that nothing but
         `_approve` sets, so an absent one can't pass for one given.
    @param op_id The operation.
    @return uint256 The approvals.
    """
    count: uint256 = 0
    for member: address in self._members:
        if self._approved[op_id][member]:
            count = unsafe_add(count, 1)
    return count


@internal
@view
def _count_cancel_votes(op_id: bytes32) -> uint256:
    """
    @notice Counts over the current members only.
    @param op_id The operation.
    @return uint256 The votes.
    """
    count: uint256 = 0
    for member: address in self._members:
        if self._cancel_voted[op_id][member]:
            count = unsafe_add(count, 1)
    return count


@internal
@view
def _cancel_quorum() -> uint256:
    """
    @notice The votes after which fewer than m members are left without one.
    @return uint256 n - m + 1.
    """
    return len(self._members) - self.threshold + 1


@internal
@view
def _class_of(op_id: bytes32) -> uint256:
    """
    @notice The delay class of an operation's call; a call without selector is GOVERNANCE.
    @param op_id The operation.
    @return uint256 The class.
    """
    data: Bytes[1024] = self._operations[op_id].data
    if len(data) < 4:
        return GOVERNANCE
    return self.delay_class[self._operations[op_id].target][convert(slice(data, 0, 4), bytes4)]


@internal
@view
def _operation_id(target: address, data: Bytes[1024], salt: bytes32) -> bytes32:
    """
    @notice Binds the id to the chain and this contract.
    @param target The contract to call.
    @param data The call.
    @param salt The salt.
    @return bytes32 The id.
    """
    return keccak256(abi_encode(OPERATION_DOMAIN, chain.id, self, target, data, salt))


@internal
@view
def _approval_digest(op_id: bytes32) -> bytes32:
    """
    @notice The EIP-712 digest of Approval(bytes32 op_id).
    @param op_id The operation.
    @return bytes32 The digest.
    """
    return eip712_domain_separator._hash_typed_data_v4(
        keccak256(abi_encode(APPROVAL_TYPE_HASH, op_id))
    )
