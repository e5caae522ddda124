# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title TaskAppeals
@custom:contract-name TaskAppeals
@license AGPL-3.0-only
@notice Appeals against the outcome of a redundant task. Anyone may bond a re-execution in the
        task's appeal window; verifiers run the task again, and their verdict is final: it slashes
        every executor who revealed another result, by the row COLLUSION when that result had been
        agreed on. So a node outvoted by two that collude loses nothing, and they pay for it.

        Half of what is slashed (the treasury has the other half, so nobody earns by slashing
        itself) is shared out, as far as it reaches, in this order: the fee to the creator if it was
        paid out already; half the fee to every executor who was right; as much as an appeal bond
        among the verifiers who said so; the rest to the appellant.
@custom:kill Nothing can be paused. Without verifiers no appeal can be made or every one lapses:
             then nobody is slashed for its result, and executors who agree are paid.
"""

from interfaces import IBonds
from interfaces import INodeRegistry
from interfaces import IRedundantTasks
from interfaces import ITaskAppeals
from interfaces import IVerdicts

implements: IBonds
implements: ITaskAppeals
implements: IVerdicts

from contracts.modules import bonds
from contracts.modules import task_word
from contracts.modules import verdicts

initializes: bonds
initializes: verdicts

exports: (
    bonds.withdraw_bond,
    bonds.bond_credit,
    bonds.bonds_held,
    verdicts.attesters,
    verdicts.attested_weight,
    verdicts.has_attested,
)


# Status of a task.
AGREED: constant(uint256) = 4
UNDECIDED: constant(uint256) = 6

# Violations of the registry.
REDUNDANCY_MISMATCH: constant(uint256) = 7
COLLUSION: constant(uint256) = 9

registry: public(immutable(address))
tasks: public(immutable(address))
_BOND: immutable(uint256)
_VERDICT_S: immutable(uint256)

_appeals: HashMap[uint256, ITaskAppeals.Appeal]


@deploy
def __init__(token_: address, registry_: address, tasks_: address):
    """
    @notice Fixes the other contracts and takes the bond and the window from the tasks' terms.
    @dev Reverts: "appeals: zero address", "bonds: zero address".
    @param token_ ZOO.
    @param registry_ NodeRegistry, which lists this contract as a slasher.
    @param tasks_ RedundantTasks.
    """
    assert registry_ != empty(address) and tasks_ != empty(address), "appeals: zero address"
    bonds.__init__(token_)
    verdicts.__init__(registry_)
    registry = registry_
    tasks = tasks_
    terms: IRedundantTasks.Terms = staticcall IRedundantTasks(tasks_).terms()
    _BOND = terms.appeal_bond
    _VERDICT_S = terms.verdict_s


@external
def appeal(task_id: uint256):
    """
    @notice Anyone, in the task's appeal window, once, and with the appeal bond (an allowance is
            needed): has verifiers run the task again. Nothing is paid or slashed meanwhile.
    @dev Reverts: "tasks: nothing to appeal", "tasks: too late", "verdicts: no verifiers", "bonds:
         transfer failed".
    @param task_id The task.
    """
    status: uint256 = 0
    decided_at: uint256 = 0
    status, decided_at = extcall IRedundantTasks(tasks).begin_appeal(task_id)
    deadline: uint256 = block.timestamp + _VERDICT_S
    self._appeals[task_id] = ITaskAppeals.Appeal(
        appellant=msg.sender,
        status=status,
        decided_at=decided_at,
        deadline=deadline,
        result=empty(bytes32),
        overturned=False,
    )
    log ITaskAppeals.TaskAppealed(
        task_id=task_id, appellant=msg.sender, bond=_BOND, deadline=deadline
    )
    verdicts._open(task_id)
    bonds._take(msg.sender, _BOND)


@external
def attest(
    task_id: uint256,
    place: uint256,
    verifiers: DynArray[uint256, 128],
    weights: DynArray[uint256, 128],
    result: bytes32,
):
    """
    @notice The operator of a verifier of the appeal's snapshot, once and in time, unless its owner
            also owns one of the executors: says what result running the task again gave. Two
            thirds of the snapshot's stake for one result are the verdict. The appeal was right
            when an executor was wrong and nobody agreed with anybody, or those who agreed were
            wrong; then the seized share is shared out as the notice of this contract says, the
            bond goes back, and a fee that was held goes back to the creator. Else the bond goes to
            the verifiers who said so, and the two who agreed are paid.
    @dev Reverts: "appeals: not open", "appeals: too late", "appeals: no result" (that inputs can't
         be had now proves nothing about then), "appeals: own task", "verdicts: empty result",
         "verdicts: wrong snapshot", "verdicts: not a verifier", "verdicts: not operator",
         "verdicts: has attested".
    @param task_id The task.
    @param place The verifier's place in VerdictRequested.
    @param verifiers The node ids of VerdictRequested.
    @param weights The weights of VerdictRequested.
    @param result The result.
    """
    deadline: uint256 = self._appeals[task_id].deadline
    assert deadline != 0, "appeals: not open"
    assert block.timestamp <= deadline, "appeals: too late"
    assert result != task_word.UNAVAILABLE, "appeals: no result"
    quorum: bool = verdicts._attest(task_id, place, verifiers, weights, result)
    task: IRedundantTasks.Task = staticcall IRedundantTasks(tasks).task(task_id)
    owner: address = self._owner(verifiers[place])
    for node_id: uint256 in task.nodes:
        assert owner != self._owner(node_id), "appeals: own task"
    if quorum:
        self._judge(task_id, task, result)


@external
def lapse(task_id: uint256):
    """
    @notice Anyone, when verifiers gave no verdict in time: the bond goes back, nobody is slashed
            for its result, and two who agreed are paid.
    @dev Reverts: "appeals: not open", "appeals: verdict pending".
    @param task_id The task.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    assert appeal.deadline != 0, "appeals: not open"
    assert block.timestamp > appeal.deadline, "appeals: verdict pending"
    self._appeals[task_id].deadline = 0
    log ITaskAppeals.AppealLapsed(task_id=task_id)
    bonds._credit(appeal.appellant, _BOND)
    extcall IRedundantTasks(tasks).end_appeal(task_id, appeal.status, False)


@view
@external
def appeal_of(task_id: uint256) -> ITaskAppeals.Appeal:
    """
    @notice The appeal against a task's outcome.
    @param task_id The task.
    @return ITaskAppeals.Appeal The appeal; all zero when there was none.
    """
    return self._appeals[task_id]


# Internal


@internal
def _judge(task_id: uint256, task: IRedundantTasks.Task, result: bytes32):
    """
    @notice Carries out a verdict, see `attest`.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    tag: bytes32 = staticcall IRedundantTasks(tasks).tag_of(task_id, result)
    right: DynArray[uint256, 5] = []
    wrong: DynArray[uint256, 5] = []
    agreed_wrong: bool = False
    for lane: uint256 in range(len(task.nodes), bound=5):
        state: uint256 = task.states[lane]
        if state == task_word.ABORTED:
            continue
        if task.answers[lane] == (result if state == task_word.OPENED else tag):
            right.append(task.nodes[lane])
        else:
            wrong.append(lane)
            if state != task_word.REVEALED:
                agreed_wrong = True
    overturned: bool = agreed_wrong or (appeal.status == UNDECIDED and len(wrong) != 0)
    self._appeals[task_id].deadline = 0
    self._appeals[task_id].result = result
    self._appeals[task_id].overturned = overturned

    # A frivolous appellant earns nothing even when somebody is slashed.
    reporter: address = empty(address)
    if overturned:
        reporter = self
    for lane: uint256 in wrong:
        violation: uint256 = (
            REDUNDANCY_MISMATCH if task.states[lane] == task_word.REVEALED else COLLUSION
        )
        amount: uint256 = extcall INodeRegistry(registry).slash(
            task.nodes[lane], violation, appeal.decided_at, reporter
        )
        log ITaskAppeals.ExecutorSlashed(
            task_id=task_id, node_id=task.nodes[lane], violation=violation, amount=amount
        )
    seized: uint256 = 0
    if staticcall INodeRegistry(registry).bounty(self) != 0:
        seized = extcall INodeRegistry(registry).claim_bounty()
        bonds._receive(seized)
    log ITaskAppeals.TaskJudged(
        task_id=task_id, result=result, overturned=overturned, seized=seized
    )

    left: uint256 = seized
    part: uint256 = _BOND
    if overturned:
        if appeal.status == AGREED:
            part = min(left, task.fee)
            left -= part
            self._credit(task.creator, part)
        for node_id: uint256 in right:
            part = min(left, task.fee // 2)
            left -= part
            self._credit(self._payout(node_id), part)
        part = min(left, _BOND)
        self._credit(appeal.appellant, _BOND + left - part)
    self._share_out(verdicts._attesters[task_id][result], part)
    extcall IRedundantTasks(tasks).end_appeal(task_id, appeal.status, overturned)


@internal
def _share_out(verifiers: DynArray[uint256, 32], amount: uint256):
    """
    @notice Credits an amount equally to some verifiers; the first one gets what is left over.
    """
    part: uint256 = amount // len(verifiers)
    extra: uint256 = amount - part * len(verifiers)
    for node_id: uint256 in verifiers:
        self._credit(self._payout(node_id), part + extra)
        extra = 0


@internal
def _credit(account: address, amount: uint256):
    """
    @notice Credits an amount unless it is zero.
    """
    if amount != 0:
        bonds._credit(account, amount)


@internal
@view
def _owner(node_id: uint256) -> address:
    """
    @notice The owner of a node.
    """
    return staticcall INodeRegistry(registry).owner_of(node_id)


@internal
@view
def _payout(node_id: uint256) -> address:
    """
    @notice Where a node's rewards go.
    """
    payouts: DynArray[address, 128] = staticcall INodeRegistry(registry).payouts([node_id])
    return payouts[0]
