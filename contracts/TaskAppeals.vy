# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title TaskAppeals
@custom:contract-name TaskAppeals
@license AGPL-3.0-only
@notice Appeals against the outcome of a redundant task. Anyone may bond a re-execution in the
        task's appeal window; verifiers run the task again and give a verdict. It stands open for a
        window in which anyone may bond an objection to the owner of this contract (the
        Coordinator), whose word is the last. Only then it slashes every executor who revealed
        another result, by the row COLLUSION when that result had been agreed on. So a node outvoted
        by two that collude loses nothing, and they pay for it; and a node that verifiers condemn
        falsely loses nothing, and they pay for that: who named another result than the committee is
        slashed for FALSE_REPORT.

        Half of what is slashed (the treasury has the other half, so nobody earns by slashing
        itself) is shared out, as far as it reaches, in this order: the fee to the creator if it was
        paid out already; half the fee to every executor who was right; as much as an appeal bond
        among the verifiers who said so; the rest to the appellant, or to whoever objected rightly.

        A false verdict that holds takes two thirds of the voters' weight behind two owners at
        least, and nobody honest who looks at it within the objection window; with an objection a
        majority of the committee as well. A committee that does not decide in time slashes nobody;
        what was to be paid follows the verdict.

        A verifier can run a task again only in the determinism class that its machine computes in,
        and says here which classes those are. That is its word: nothing in this contract depends on
        it, no appeal is refused for it, and who says nothing may attest. Creators and the economics
        count by it who could find a fake in a class.
@custom:kill Nothing can be paused. Without verifiers no appeal can be made or every one lapses:
             then nobody is slashed for its result, and executors who agree are paid. Without the
             Coordinator every objection ends undecided.
"""

from interfaces import IBonds
from interfaces import IExecutors
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
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: bonds
initializes: verdicts
initializes: ownable
initializes: ownable_2step[ownable := ownable]

exports: (
    bonds.withdraw_bond,
    bonds.bond_credit,
    bonds.bonds_held,
    verdicts.attesters,
    verdicts.attested_weight,
    verdicts.has_attested,
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
)


# Status of a task.
AGREED: constant(uint256) = 4
UNDECIDED: constant(uint256) = 6

# Violations of the registry.
FALSE_REPORT: constant(uint256) = 6
REDUNDANCY_MISMATCH: constant(uint256) = 7
COLLUSION: constant(uint256) = 9

registry: public(immutable(address))
tasks: public(immutable(address))
_BOND: immutable(uint256)
_VERDICT_S: immutable(uint256)
_OBJECTION_S: immutable(uint256)
_DISPUTE_S: immutable(uint256)

_appeals: HashMap[uint256, ITaskAppeals.Appeal]
# By node: one bit per class.
_classes: HashMap[uint256, uint256]


@deploy
def __init__(token_: address, registry_: address, tasks_: address, owner_: address):
    """
    @notice Fixes the other contracts and takes the bond and the windows from the tasks' terms. An
            objection has as long as an appeal, and costs as much.
    @dev Reverts: "appeals: zero address", "bonds: zero address".
    @param token_ ZOO.
    @param registry_ NodeRegistry, which lists this contract as a slasher.
    @param tasks_ RedundantTasks.
    @param owner_ The Coordinator.
    """
    for account: address in [registry_, tasks_, owner_]:
        assert account != empty(address), "appeals: zero address"
    bonds.__init__(token_)
    verdicts.__init__(registry_)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    tasks = tasks_
    terms: IRedundantTasks.Terms = staticcall IRedundantTasks(tasks_).terms()
    _BOND = terms.appeal_bond
    _VERDICT_S = terms.verdict_s
    _OBJECTION_S = terms.appeal_s
    _DISPUTE_S = terms.dispute_s


@external
def appeal(task_id: uint256):
    """
    @notice Anyone, in the task's appeal window, once, and with the appeal bond (an allowance is
            needed): has verifiers run the task again, those who were bonded before the task
            existed. Nothing is paid or slashed meanwhile.
    @dev Reverts: "tasks: nothing to appeal", "tasks: too late", "verdicts: too few verifiers",
         "bonds: transfer failed".
    @param task_id The task.
    """
    status: uint256 = 0
    decided_at: uint256 = 0
    created_at: uint256 = 0
    status, decided_at, created_at = extcall IRedundantTasks(tasks).begin_appeal(task_id)
    deadline: uint256 = block.timestamp + _VERDICT_S
    self._appeals[task_id] = ITaskAppeals.Appeal(
        appellant=msg.sender,
        status=status,
        decided_at=decided_at,
        deadline=deadline,
        result=empty(bytes32),
        overturned=False,
        objector=empty(address),
    )
    log ITaskAppeals.TaskAppealed(
        task_id=task_id, appellant=msg.sender, bond=_BOND, deadline=deadline
    )
    verdicts._open(task_id, created_at)
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
            thirds of the snapshot's weight, of two owners at least, for one result are the verdict.
            It is carried out by `finalize`, unless somebody objects to it first.
    @dev Reverts: "appeals: not open", "appeals: verdict given", "appeals: too late",
         "appeals: no result" (that inputs can't be had now proves nothing about then),
         "appeals: own task", "verdicts: empty result", "verdicts: wrong snapshot", "verdicts: not a
         verifier", "verdicts: not operator", "verdicts: has attested".
    @param task_id The task.
    @param place The verifier's place in VerdictRequested.
    @param verifiers The node ids of VerdictRequested.
    @param weights The weights of VerdictRequested.
    @param result The result.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    assert appeal.deadline != 0, "appeals: not open"
    assert appeal.result == empty(bytes32), "appeals: verdict given"
    assert block.timestamp <= appeal.deadline, "appeals: too late"
    assert result != task_word.UNAVAILABLE, "appeals: no result"
    quorum: bool = verdicts._attest(task_id, place, verifiers, weights, result)
    task: IRedundantTasks.Task = staticcall IRedundantTasks(tasks).task(task_id)
    owner: address = self._owner(verifiers[place])
    for node_id: uint256 in task.nodes:
        assert owner != self._owner(node_id), "appeals: own task"
    if quorum:
        deadline: uint256 = block.timestamp + _OBJECTION_S
        self._appeals[task_id].result = result
        self._appeals[task_id].deadline = deadline
        log ITaskAppeals.VerdictGiven(task_id=task_id, result=result, deadline=deadline)


@external
def contest(task_id: uint256):
    """
    @notice Anyone, within the objection window of a verdict, once, and with a bond as high as an
            appeal's (an allowance is needed): asks this contract's owner what the result is. It has
            the dispute window to say so, and nothing is paid or slashed meanwhile.
    @dev Reverts: "appeals: no verdict", "appeals: already contested", "appeals: too late", "bonds:
         transfer failed".
    @param task_id The task.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    self._check_verdict(appeal)
    assert block.timestamp <= appeal.deadline, "appeals: too late"
    deadline: uint256 = block.timestamp + _DISPUTE_S
    self._appeals[task_id].objector = msg.sender
    self._appeals[task_id].deadline = deadline
    log ITaskAppeals.VerdictContested(
        task_id=task_id, objector=msg.sender, bond=_BOND, deadline=deadline
    )
    bonds._take(msg.sender, _BOND)


@external
def resolve(task_id: uint256, result: bytes32):
    """
    @notice Owner only, until the deadline of an objection: names the task's result, which is the
            last word. Every verifier who named another is slashed for FALSE_REPORT. The same as the
            verdict: the objection's bond goes to the treasury. Another: it goes back, and what is
            left of the seized share goes to the objector.
    @dev Reverts: "ownable: caller is not the owner", "appeals: not contested",
         "appeals: too late", "appeals: no result".
    @param task_id The task.
    @param result The result that running the task gives.
    """
    ownable._check_owner()
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    assert appeal.deadline != 0 and appeal.objector != empty(address), "appeals: not contested"
    assert block.timestamp <= appeal.deadline, "appeals: too late"
    assert result != empty(bytes32) and result != task_word.UNAVAILABLE, "appeals: no result"
    upheld: bool = result != appeal.result
    log ITaskAppeals.ObjectionResolved(task_id=task_id, result=result, upheld=upheld)
    if upheld:
        bonds._credit(appeal.objector, _BOND)
    else:
        parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
        bonds._credit(parameters.treasury, _BOND)
    self._judge(task_id, appeal, result, True)


@external
def finalize(task_id: uint256):
    """
    @notice Anyone, when the objection window of a verdict passed and nobody objected: carries it
            out. The appeal was right when an executor was wrong and nobody agreed with anybody, or
            those who agreed were wrong; then the seized share is shared out as the notice of this
            contract says, the bond goes back, and a fee that was held goes back to the creator.
            Else the bond goes to the verifiers who said so, and the two who agreed are paid.
    @dev Reverts: "appeals: no verdict", "appeals: already contested",
         "appeals: objection window open".
    @param task_id The task.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    self._check_verdict(appeal)
    assert block.timestamp > appeal.deadline, "appeals: objection window open"
    self._judge(task_id, appeal, appeal.result, True)


@external
def declare_classes(node_id: uint256, classes: uint256):
    """
    @notice A node's operator, unless the node is banned or suspended, at any time: says in which
            determinism classes it runs tasks again, instead of what it said before.
    @dev Reverts: "appeals: not the operator", "appeals: unknown class".
    @param node_id The node.
    @param classes One bit per class of RedundantTasks, the lowest for class 0; none for no class.
    """
    operator: address = staticcall INodeRegistry(registry).acting_operator(node_id)
    assert operator == msg.sender, "appeals: not the operator"
    known: uint256 = len(staticcall IExecutors(tasks).classes())
    assert classes >> known == 0, "appeals: unknown class"
    self._classes[node_id] = classes
    log ITaskAppeals.ClassesDeclared(node_id=node_id, classes=classes)


@external
def lapse(task_id: uint256):
    """
    @notice Anyone, when verifiers gave no verdict in time: the bond goes back, nobody is slashed
            for its result, and two who agreed are paid. Or when the owner did not decide on an
            objection in time: nobody is slashed, both bonds and the fee go where the verdict sends
            them without that, and the objection's goes back. So who asks for a decision that is
            not made has won no money by it, and no executor has lost stake to an open question.
    @dev Reverts: "appeals: not open", "appeals: verdict pending", "appeals: verdict given".
    @param task_id The task.
    """
    appeal: ITaskAppeals.Appeal = self._appeals[task_id]
    assert appeal.deadline != 0, "appeals: not open"
    assert block.timestamp > appeal.deadline, "appeals: verdict pending"
    if appeal.result != empty(bytes32):
        assert appeal.objector != empty(address), "appeals: verdict given"
        log ITaskAppeals.AppealLapsed(task_id=task_id)
        bonds._credit(appeal.objector, _BOND)
        self._judge(task_id, appeal, appeal.result, False)
        return
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


@view
@external
def declared_classes(node_id: uint256) -> uint256:
    """
    @notice In which determinism classes a node says that it runs tasks again.
    @param node_id The node.
    @return uint256 One bit per class, the lowest for class 0.
    """
    return self._classes[node_id]


# Internal


@internal
@pure
def _check_verdict(appeal: ITaskAppeals.Appeal):
    """
    @notice Lets only a verdict pass that was neither carried out nor contested.
    """
    assert appeal.deadline != 0 and appeal.result != empty(bytes32), "appeals: no verdict"
    assert appeal.objector == empty(address), "appeals: already contested"


@internal
def _judge(task_id: uint256, appeal: ITaskAppeals.Appeal, result: bytes32, convict: bool):
    """
    @notice Ends an appeal by a result, see `finalize`, `resolve` and `lapse`. `convict`: whether
            anybody is slashed.
    """
    upheld: bool = result != appeal.result
    task: IRedundantTasks.Task = staticcall IRedundantTasks(tasks).task(task_id)
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

    seized: uint256 = 0
    if convict:
        # A frivolous appellant earns nothing even when somebody is slashed.
        reporter: address = empty(address)
        if overturned or upheld:
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
        if appeal.objector != empty(address):
            self._convict_verifiers(task_id, appeal.decided_at, result, reporter)
        if staticcall INodeRegistry(registry).bounty(self) != 0:
            seized = extcall INodeRegistry(registry).claim_bounty()
            bonds._receive(seized)
    log ITaskAppeals.TaskJudged(
        task_id=task_id, result=result, overturned=overturned, seized=seized
    )

    left: uint256 = seized
    part: uint256 = 0
    if overturned:
        if convict and appeal.status == AGREED:
            part = min(left, task.fee)
            left -= part
            self._credit(task.creator, part)
        for node_id: uint256 in right:
            part = min(left, task.fee // 2)
            left -= part
            self._credit(self._payout(node_id), part)
    else:
        left += _BOND
    judges: DynArray[uint256, 32] = verdicts._who(task_id, result, True)
    if len(judges) != 0:
        part = min(left, _BOND)
        left -= part
        self._share_out(judges, part)
    back: uint256 = _BOND if overturned else 0
    if upheld:
        self._credit(appeal.objector, left)
    else:
        back += left
    self._credit(appeal.appellant, back)
    extcall IRedundantTasks(tasks).end_appeal(task_id, appeal.status, overturned)


@internal
def _convict_verifiers(task_id: uint256, since: uint256, result: bytes32, reporter: address):
    """
    @notice Slashes the verifiers who named another result than the last word.
    """
    liars: DynArray[uint256, 32] = verdicts._who(task_id, result, False)
    for verifier_id: uint256 in liars:
        amount: uint256 = extcall INodeRegistry(registry).slash(
            verifier_id, FALSE_REPORT, since, reporter
        )
        log ITaskAppeals.FalseVerdictSlashed(
            task_id=task_id, verifier_id=verifier_id, amount=amount
        )


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
