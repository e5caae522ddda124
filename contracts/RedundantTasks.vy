# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title RedundantTasks
@custom:contract-name RedundantTasks
@license AGPL-3.0-only
@notice Deterministic tasks on public input (the Crynux mechanism): nodes drawn by lot run the same
        task and the chain compares their results. Two run it first; when they differ, or one stays
        silent, another is drawn, until two agree.

        Rules this contract holds:
        - Results are compared by equality of a 32-byte digest, so likeness is transitive.
        - What is committed to and revealed is a tag of the result, not the result. Who reveals a
          tag that was revealed before must show the result behind it. So until two agree no result
          is on chain, and a third executor can copy none.
        - A commitment binds the chain, this contract, the task, its spec, the node and its sender.
        - Each draw is pinned to a block after everything it depends on, and every further executor
          to a fresh one: nobody knows in time who will break a tie.
        - An executor knows who runs with it. So silence, before or after committing, costs at
          least what losing the comparison costs (the slashing table refuses anything else).
        - Two equal results of the first two are paid at once. When a third had to decide, payment
          and slash wait for the appeal window. Until it ends anyone may bond a re-execution by
          verifiers (TaskAppeals). No slash for a *result* rests on a majority of executors alone
          if somebody objects.
        - Three different results, or nobody left to ask: the whole fee goes back, and nobody is
          slashed for its result. Nobody has a bounty for closing a task: the creator wants its fee,
          the executors their lanes.
        - Two who agree that the inputs can't be had (`task_word.UNAVAILABLE`) end the task: nobody
          is paid or slashed, then or later. The treasury takes the rent of the lanes, which is the
          least fee of the task's run time, and the rest of the fee goes back. So a creator that
          withholds its inputs pays for the time it has taken, and nodes that only say so gain
          nothing. Alone it is a result like another.
        - A draw that finds everybody busy waits, and is captured by whoever sees that it would find
          enough. A task that has not all its executors `draw_s` after its creation ends, and the
          whole fee goes back.
        - Every step is open to anyone or has a deadline after which it is, so no absent party
          stalls a task. The creator can do nothing once it has paid.
        - Money is pulled. Balance >= `bonds_held`, which is the fees of tasks that run and the
          credits.
@custom:kill The owner (the Coordinator) may pause `create_task` with bit 1 of `set_paused`. Tasks
             that were created end as usual, nodes leave and credits are withdrawn at any time. Do
             so before the registry delists this contract: a task with somebody to slash waits for
             a slasher.
"""

from interfaces import IBonds
from interfaces import IExecutors
from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import IRedundantTasks

implements: IBonds
implements: IExecutors
implements: IPausing
implements: IRedundantTasks

from contracts.modules import bonds
from contracts.modules import executors
from contracts.modules import pausing
from contracts.modules import randomness
from contracts.modules import task_word
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: bonds
initializes: executors
initializes: pausing
initializes: randomness
initializes: ownable
initializes: ownable_2step[ownable := ownable]

exports: (
    bonds.withdraw_bond,
    bonds.bond_credit,
    bonds.bonds_held,
    executors.join,
    executors.leave,
    executors.evict,
    executors.compact,
    executors.classes,
    executors.pool_size,
    executors.seat,
    executors.executor,
    pausing.paused,
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
)


# INodeRegistry's function for two nodes: an answer of up to 128 would need that much memory.
interface Payouts:
    def payouts(node_ids: DynArray[uint256, 2]) -> DynArray[address, 2]: view


# Pause bits.
PAUSE_CREATE_TASK: constant(uint256) = 1

# Status of a task.
DRAWING: constant(uint256) = 1
RUNNING: constant(uint256) = 2
REVEALING: constant(uint256) = 3
AGREED: constant(uint256) = 4
DECIDED: constant(uint256) = 5
UNDECIDED: constant(uint256) = 6
APPEALED: constant(uint256) = 7
CLOSED: constant(uint256) = 8

# Violations of the registry.
REDUNDANCY_MISMATCH: constant(uint256) = 7
ABORT: constant(uint256) = 8

# Results that are compared at most.
MAX_REVEALS: constant(uint256) = 3
# A tie needs a third.
MIN_POOL: constant(uint256) = 3
MAX_WINDOW: constant(uint256) = 7 * 86_400
MAX_RUN_S: constant(uint256) = 2**20 - 1
# Several blocks: in less no executor, however fast, could commit, and would be slashed for it.
MIN_RUN_S: constant(uint256) = 60

COMMIT_DOMAIN: constant(bytes32) = keccak256("menagerie.RedundantTasks.commit.v1")
TAG_DOMAIN: constant(bytes32) = keccak256("menagerie.RedundantTasks.tag.v1")

# An order's word: the creator's address, then these.
_FEE: constant(uint256) = 160
_BORN: constant(uint256) = 232
_CLASS: constant(uint256) = 248
_FEE_MASK: constant(uint256) = 2**72 - 1
# When the task was created, in steps of 8 seconds, as far as it is told apart within six days.
_BORN_STEP: constant(uint256) = 8
_BORN_MASK: constant(uint256) = 2**16 - 1
MAX_AGE: constant(uint256) = 6 * 86_400

registry: public(immutable(address))
appeals: public(immutable(address))
_TERMS: immutable(IRedundantTasks.Terms)

task_count: public(uint256)
_words: HashMap[uint256, uint256]
_orders: HashMap[uint256, uint256]
_specs: HashMap[uint256, bytes32]
# By lane: the commitment, then the tag; the result in the lane that showed it.
_answers: HashMap[uint256, HashMap[uint256, bytes32]]


@deploy
def __init__(
    token_: address,
    registry_: address,
    appeals_: address,
    owner_: address,
    terms_: IRedundantTasks.Terms,
    classes_: DynArray[bytes32, 16],
    random_source_: address,
):
    """
    @notice Fixes the terms. A stake that is drawn must stay slashable until the last word on the
            task, so the windows together (those of an appeal and of an objection to its verdict
            too) are at most half of the registry's unbonding period. The time to draw in is no
            shorter than what slow executors may take before the last draw.
    @dev Reverts: "tasks: zero address", "tasks: bad terms", "tasks: windows too long", "bonds: zero
         address" and the reverts of `add_class`.
    @param token_ ZOO.
    @param registry_ NodeRegistry, which lists this contract as a slasher.
    @param appeals_ TaskAppeals.
    @param owner_ The Coordinator.
    @param terms_ Stakes, fees and windows, for good.
    @param classes_ The first determinism classes.
    @param random_source_ See `randomness`; zero for `blockhash`.
    """
    for account: address in [registry_, appeals_, owner_]:
        assert account != empty(address), "tasks: zero address"
    assert (
        terms_.max_fee != 0
        and terms_.max_fee <= _FEE_MASK
        and terms_.appeal_bond != 0
        and terms_.appeal_bond <= _FEE_MASK
        and terms_.max_run_s >= MIN_RUN_S
        and terms_.max_run_s <= MAX_RUN_S
        and min(terms_.reveal_s, min(terms_.appeal_s, min(terms_.verdict_s, terms_.dispute_s))) != 0
        and max(terms_.reveal_s, max(terms_.appeal_s, max(terms_.verdict_s, terms_.dispute_s)))
        <= MAX_WINDOW
        and terms_.fee_per_s <= _FEE_MASK
        and terms_.fee_per_s * terms_.max_run_s <= terms_.max_fee
        and terms_.draw_s >= (task_word.LANES - 2) * (terms_.max_run_s + terms_.reveal_s)
        and terms_.draw_s <= MAX_AGE
    ), "tasks: bad terms"
    course: uint256 = terms_.draw_s + terms_.max_run_s + terms_.reveal_s
    # An appeal: the window to make it, the vote, the window to object to it, and the committee.
    horizon: uint256 = course + 2 * terms_.appeal_s + terms_.verdict_s + terms_.dispute_s
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry_).parameters()
    assert (
        2 * horizon <= parameters.unbonding_period and course <= MAX_AGE
    ), "tasks: windows too long"
    bonds.__init__(token_)
    executors.__init__(registry_, terms_.task_stake, horizon, terms_.appeal_s)
    pausing.__init__()
    randomness.__init__(random_source_)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    appeals = appeals_
    _TERMS = terms_
    for name: bytes32 in classes_:
        executors._add_class(name)


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_CREATE_TASK = 1.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_CREATE_TASK)


@external
def add_class(name: bytes32):
    """
    @notice Owner only: opens a pool for another determinism class.
    @dev Reverts: "ownable: caller is not the owner", "executors: empty class", "executors: known
         class", "executors: too many classes".
    @param name ASCII, padded with zeros.
    """
    ownable._check_owner()
    executors._add_class(name)


# Creators


@external
def create_task(class_id: uint256, spec: bytes32, fee: uint256, run_s: uint256) -> uint256:
    """
    @notice Anyone but an operator: escrows the fee (an allowance is needed) and requests the draw
            of two executors from the pool as it is before this block. An operator key is refused
            so that no creator's own node is drawn unknown; its owner key may create.
    @dev Reverts: "pausing: paused", "tasks: empty spec", "tasks: bad run time", "tasks: bad fee",
         "tasks: operator", "tasks: too few executors", "bonds: transfer failed".
    @param class_id The determinism class.
    @param spec Digest of the spec's CID.
    @param fee Paid half to each of two executors who agree; `fee_per_s` for each second of run_s
               at least.
    @param run_s Seconds from the draw until the executors must have committed, a minute at least.
    @return uint256 The task's id: 1, 2, 3, ...
    """
    pausing._check_not_paused(PAUSE_CREATE_TASK)
    assert spec != empty(bytes32), "tasks: empty spec"
    assert run_s >= MIN_RUN_S and run_s <= _TERMS.max_run_s, "tasks: bad run time"
    assert (
        fee != 0 and fee >= run_s * _TERMS.fee_per_s and fee <= _TERMS.max_fee
    ), "tasks: bad fee"
    assert staticcall INodeRegistry(registry).node_of(msg.sender) == 0, "tasks: operator"
    size: uint256 = executors._size(class_id)
    assert size >= MIN_POOL, "tasks: too few executors"

    task_id: uint256 = self.task_count + 1
    target: uint256 = block.number + 1
    self.task_count = task_id
    self._specs[task_id] = spec
    self._orders[task_id] = (
        convert(msg.sender, uint256)
        | fee << _FEE
        | (block.timestamp // _BORN_STEP & _BORN_MASK) << _BORN
        | class_id << _CLASS
    )
    self._words[task_id] = task_word._request(
        task_word._with_run_s(0, run_s), DRAWING, block.timestamp, target, size
    )
    log IRedundantTasks.TaskCreated(
        task_id=task_id,
        creator=msg.sender,
        class_id=class_id,
        spec=spec,
        fee=fee,
        run_s=run_s,
        seed_block=target,
    )
    bonds._take(msg.sender, fee)
    return task_id


# Executors


@external
def commit(task_id: uint256, lane: uint256, commitment: bytes32):
    """
    @notice The operator of an executor, once and in time: commits to a tag. Captures the draw if
            nobody has. When all executors have committed revealing begins.
    @dev Reverts: "tasks: too early", "tasks: hands full", "tasks: not running", "tasks: too late",
         "tasks: not expected", "tasks: not operator", "tasks: empty commitment".
    @param task_id The task.
    @param lane The executor's lane.
    @param commitment See `commitment_digest`.
    """
    word: uint256 = self._words[task_id]
    if task_word._status(word) == DRAWING:
        word = self._draw(task_id, word)
    assert task_word._status(word) == RUNNING, "tasks: not running"
    assert block.timestamp <= task_word._time(word), "tasks: too late"
    assert (
        lane < task_word.LANES and task_word._state(word, lane) == task_word.RUNNING
    ), "tasks: not expected"
    node_id: uint256 = task_word._node(word, lane)
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "tasks: not operator"
    assert commitment != empty(bytes32), "tasks: empty commitment"
    self._answers[task_id][lane] = commitment
    word = task_word._with_state(word, lane, task_word.COMMITTED)
    log IRedundantTasks.ResultCommitted(
        task_id=task_id, node_id=node_id, lane=lane, commitment=commitment
    )
    if task_word._count(word, task_word.RUNNING) == 0:
        word = self._proceed(task_id, word)
    self._words[task_id] = word


@external
def reveal(task_id: uint256, lane: uint256, tag: bytes32, result: bytes32, salt: bytes32):
    """
    @notice Whoever committed in a lane, in time: opens the commitment. Equal to a tag that was
            revealed: the two agree. The last one without agreement: another executor is drawn, or
            the task ends undecided.
    @dev Reverts: "tasks: not revealing", "tasks: too late", "tasks: not expected", "tasks: bad
         opening", "tasks: show the result".
    @param task_id The task.
    @param lane The lane.
    @param tag See `tag_of`.
    @param result The result behind the tag, needed only when another lane revealed this tag.
    @param salt The commitment's salt.
    """
    word: uint256 = self._words[task_id]
    assert task_word._status(word) == REVEALING, "tasks: not revealing"
    assert block.timestamp <= task_word._time(word), "tasks: too late"
    assert (
        lane < task_word.LANES and task_word._state(word, lane) == task_word.COMMITTED
    ), "tasks: not expected"
    node_id: uint256 = task_word._node(word, lane)
    assert (
        self._digest(task_id, node_id, msg.sender, self._specs[task_id], tag, salt)
        == self._answers[task_id][lane]
    ), "tasks: bad opening"
    log IRedundantTasks.ResultRevealed(task_id=task_id, node_id=node_id, lane=lane, tag=tag)

    for other: uint256 in range(task_word.LANES):
        if (
            task_word._state(word, other) == task_word.REVEALED
            and self._answers[task_id][other] == tag
        ):
            assert self._tag(task_id, result) == tag, "tasks: show the result"
            self._answers[task_id][lane] = result
            word = task_word._with_state(word, other, task_word.AGREED)
            word = task_word._with_state(word, lane, task_word.OPENED)
            self._agree(task_id, word, other, lane, result)
            return
    self._answers[task_id][lane] = tag
    word = task_word._with_state(word, lane, task_word.REVEALED)
    if task_word._count(word, task_word.COMMITTED) == 0:
        word = self._proceed(task_id, word)
    self._words[task_id] = word


# Anyone


@external
def draw(task_id: uint256):
    """
    @notice Anyone, from the second block after a request on: captures the draw, which starts the
            executors' time. While it would find too few who have a lane free it waits. A draw that
            nobody captured for 256 blocks is requested again. `draw_s` after its creation the task
            ends undecided instead.
    @dev Reverts: "tasks: not drawing", "tasks: too early", "tasks: hands full".
    @param task_id The task.
    """
    word: uint256 = self._words[task_id]
    assert task_word._status(word) == DRAWING, "tasks: not drawing"
    self._words[task_id] = self._draw(task_id, word)


@external
def advance(task_id: uint256):
    """
    @notice Anyone, when a deadline for committing or revealing has passed: slashes the executors
            who missed it (ABORT) and lets the task go on without them.
    @dev Reverts: "tasks: not running", "tasks: not over".
    @param task_id The task.
    """
    word: uint256 = self._words[task_id]
    status: uint256 = task_word._status(word)
    assert status == RUNNING or status == REVEALING, "tasks: not running"
    deadline: uint256 = task_word._time(word)
    assert block.timestamp > deadline, "tasks: not over"
    missing: uint256 = task_word.RUNNING if status == RUNNING else task_word.COMMITTED
    late: DynArray[uint256, 5] = []
    for lane: uint256 in range(task_word.LANES):
        if task_word._state(word, lane) == missing:
            late.append(lane)
            word = task_word._with_state(word, lane, task_word.ABORTED)
            executors._release(task_word._node(word, lane))
    word = self._proceed(task_id, word)
    self._words[task_id] = word
    for lane: uint256 in late:
        node_id: uint256 = task_word._node(word, lane)
        amount: uint256 = extcall INodeRegistry(registry).slash(
            node_id, ABORT, deadline, empty(address)
        )
        log IRedundantTasks.ExecutorAborted(
            task_id=task_id, node_id=node_id, lane=lane, slashed=amount
        )


@external
def finalize(task_id: uint256):
    """
    @notice Anyone, when a decision by a third executor was not appealed in time: pays the two who
            agreed and slashes the other (REDUNDANCY_MISMATCH), all of it to the treasury: nobody
            earns by outvoting another.
    @dev Reverts: "tasks: not decided", "tasks: appeal window open".
    @param task_id The task.
    """
    word: uint256 = self._words[task_id]
    assert task_word._status(word) == DECIDED, "tasks: not decided"
    deadline: uint256 = task_word._time(word)
    assert block.timestamp > deadline, "tasks: appeal window open"
    self._words[task_id] = task_word._enter(word, CLOSED, 0)
    log IRedundantTasks.TaskClosed(task_id=task_id)
    self._release(word)
    self._pay_agreed(task_id, word)
    for lane: uint256 in range(task_word.LANES):
        if task_word._state(word, lane) == task_word.REVEALED:
            node_id: uint256 = task_word._node(word, lane)
            amount: uint256 = extcall INodeRegistry(registry).slash(
                node_id, REDUNDANCY_MISMATCH, deadline - _TERMS.appeal_s, empty(address)
            )
            log IRedundantTasks.ExecutorSlashed(
                task_id=task_id, node_id=node_id, violation=REDUNDANCY_MISMATCH, amount=amount
            )


# TaskAppeals only


@external
def begin_appeal(task_id: uint256) -> (uint256, uint256, uint256):
    """
    @notice TaskAppeals only, in the appeal window of a task with at least one revealed result: from
            now on nothing is paid or slashed until `end_appeal`.
    @dev Reverts: "tasks: not appeals", "tasks: nothing to appeal", "tasks: too late".
    @param task_id The task.
    @return The task's status until now, when it was decided, and a time no later than its creation,
            nor more than 8 seconds earlier: exact unless nobody drew for days.
    """
    self._check_appeals()
    word: uint256 = self._words[task_id]
    status: uint256 = task_word._status(word)
    assert (
        status == AGREED
        or status == DECIDED
        or (status == UNDECIDED and task_word._count(word, task_word.REVEALED) != 0)
    ), "tasks: nothing to appeal"
    deadline: uint256 = task_word._time(word)
    assert block.timestamp <= deadline, "tasks: too late"
    self._words[task_id] = task_word._enter(word, APPEALED, block.timestamp + _TERMS.verdict_s)
    log IRedundantTasks.AppealBegun(task_id=task_id, status=status)
    if status == AGREED:
        self._count_pay(task_id, word, executors._APPEALED, True)
    decided: uint256 = deadline - _TERMS.appeal_s
    return status, decided, self._created_at(self._orders[task_id], decided)


@external
def end_appeal(task_id: uint256, status: uint256, overturned: bool):
    """
    @notice TaskAppeals only: closes an appealed task. A fee that is still held goes back to the
            creator if the appeal was right, else to the two who agreed.
    @dev Reverts: "tasks: not appeals", "tasks: not appealed".
    @param task_id The task.
    @param status The task's status before, as `begin_appeal` gave it.
    @param overturned Whether the appeal was right.
    """
    self._check_appeals()
    word: uint256 = self._words[task_id]
    assert task_word._status(word) == APPEALED, "tasks: not appealed"
    self._words[task_id] = task_word._enter(word, CLOSED, 0)
    log IRedundantTasks.TaskClosed(task_id=task_id)
    if status == AGREED:
        self._count_pay(task_id, word, executors._APPEALED, False)
    elif status == DECIDED:
        self._release(word)
        if overturned:
            order: uint256 = self._orders[task_id]
            self._credit(self._creator(order), self._fee(order))
        else:
            self._pay_agreed(task_id, word)


# Views


@view
@external
def task(task_id: uint256) -> IRedundantTasks.Task:
    """
    @notice A task as it is stored.
    @param task_id The task.
    @return IRedundantTasks.Task The task; all zero when there is none.
    """
    word: uint256 = self._words[task_id]
    nodes: DynArray[uint256, 5] = []
    states: DynArray[uint256, 5] = []
    answers: DynArray[bytes32, 5] = []
    for lane: uint256 in range(task_word.LANES):
        state: uint256 = task_word._state(word, lane)
        if state == 0:
            break
        nodes.append(task_word._node(word, lane))
        states.append(state)
        answers.append(self._answers[task_id][lane])
    order: uint256 = self._orders[task_id]
    wanted: uint256 = 0
    draw_until: uint256 = 0
    if task_word._status(word) == DRAWING:
        wanted = self._wanted(word)
        draw_until = self._draw_until(order, word)
    return IRedundantTasks.Task(
        status=task_word._status(word),
        creator=self._creator(order),
        class_id=order >> _CLASS,
        spec=self._specs[task_id],
        fee=self._fee(order),
        run_s=task_word._run_s(word),
        time=task_word._time(word),
        seed_block=task_word._block(word),
        draw_until=draw_until,
        nodes=nodes,
        states=states,
        answers=answers,
        wanted=wanted,
    )


@view
@external
def expected(task_id: uint256) -> DynArray[uint256, 2]:
    """
    @notice The executors that `draw` would take now, in the order of their lanes, so that they can
            start before anybody pays for the capture.
    @param task_id The task.
    @return DynArray Their node ids; empty while the seed is unknown and when none is being drawn.
    """
    word: uint256 = self._words[task_id]
    if (
        task_word._status(word) != DRAWING
        or randomness._is_lost(task_word._block(word))
        or block.timestamp > self._draw_until(self._orders[task_id], word)
    ):
        return []
    seed: bytes32 = randomness._derive(self._key(task_id), task_word._block(word))
    if seed == empty(bytes32):
        return []
    nodes: DynArray[uint256, 2] = self._picked(task_id, word, seed)
    if len(nodes) < self._wanted(word):
        return []
    return nodes


@view
@external
def result_of(task_id: uint256) -> bytes32:
    """
    @notice The result that two executors agreed on, `task_word.UNAVAILABLE` where there was none.
    @dev A verdict of TaskAppeals may say otherwise, until the task is closed or its time is over.
    @param task_id The task.
    @return bytes32 The result, empty when there is none.
    """
    word: uint256 = self._words[task_id]
    for lane: uint256 in range(task_word.LANES):
        if task_word._state(word, lane) == task_word.OPENED:
            return self._answers[task_id][lane]
    return empty(bytes32)


@view
@external
def terms() -> IRedundantTasks.Terms:
    """
    @notice Stakes, fees and windows.
    @return IRedundantTasks.Terms The terms.
    """
    return _TERMS


@view
@external
def tag_of(task_id: uint256, result: bytes32) -> bytes32:
    """
    @notice keccak256(abi_encode(TAG_DOMAIN, chain.id, this contract, task_id, result));
            TAG_DOMAIN = keccak256("menagerie.RedundantTasks.tag.v1").
    @param task_id The task.
    @param result The result.
    @return bytes32 The tag.
    """
    return self._tag(task_id, result)


@view
@external
def commitment_digest(
    task_id: uint256,
    node_id: uint256,
    operator: address,
    spec: bytes32,
    tag: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice keccak256(abi_encode(COMMIT_DOMAIN, chain.id, this contract, and the arguments in
            order)); COMMIT_DOMAIN = keccak256("menagerie.RedundantTasks.commit.v1").
    @param task_id The task.
    @param node_id The executor.
    @param operator Who commits and reveals.
    @param spec The task's spec.
    @param tag See `tag_of`.
    @param salt A secret.
    @return bytes32 The commitment.
    """
    return self._digest(task_id, node_id, operator, spec, tag, salt)


# Internal: the course of a task


@internal
def _draw(task_id: uint256, word: uint256) -> uint256:
    """
    @notice The word with the executors drawn, or with a new request, or undecided.
    @dev Reverts: "tasks: too early", "tasks: hands full".
    """
    target: uint256 = task_word._block(word)
    if block.timestamp > self._draw_until(self._orders[task_id], word):
        return self._undecided(task_id, word)
    if randomness._is_lost(target):
        return self._request(task_id, word)
    seed: bytes32 = randomness._derive(self._key(task_id), target)
    assert seed != empty(bytes32), "tasks: too early"
    nodes: DynArray[uint256, 2] = self._picked(task_id, word, seed)
    assert len(nodes) == self._wanted(word), "tasks: hands full"
    deadline: uint256 = block.timestamp + task_word._run_s(word)
    drawn: uint256 = task_word._enter(word, RUNNING, deadline)
    lane: uint256 = task_word.LANES - task_word._count(word, 0)
    for node_id: uint256 in nodes:
        drawn = task_word._with_node(drawn, lane, node_id)
        executors._occupy(node_id)
        log IRedundantTasks.ExecutorDrawn(
            task_id=task_id, node_id=node_id, lane=lane, deadline=deadline
        )
        lane = unsafe_add(lane, 1)
    return drawn


@internal
def _request(task_id: uint256, word: uint256) -> uint256:
    """
    @notice The word with a draw pinned to the next block.
    """
    target: uint256 = block.number + 1
    size: uint256 = executors._size(self._orders[task_id] >> _CLASS)
    log IRedundantTasks.DrawRequested(task_id=task_id, wanted=self._wanted(word), seed_block=target)
    return task_word._request(word, DRAWING, block.timestamp, target, size)


@internal
def _proceed(task_id: uint256, word: uint256) -> uint256:
    """
    @notice The word after a stage that nobody is missing from any more and that brought no
            agreement: revealing, a further draw, or undecided.
    """
    wanted: uint256 = self._wanted(word)
    if wanted == 0 and task_word._count(word, task_word.COMMITTED) != 0:
        deadline: uint256 = block.timestamp + _TERMS.reveal_s
        log IRedundantTasks.RevealOpened(task_id=task_id, deadline=deadline)
        return task_word._enter(word, REVEALING, deadline)
    if wanted == 0 or wanted > task_word._count(word, 0):
        return self._undecided(task_id, word)
    return self._request(task_id, word)


@internal
def _agree(task_id: uint256, word: uint256, first: uint256, second: uint256, result: bytes32):
    """
    @notice Two lanes agree: unless a third dissents they are paid at once.
    """
    if result == task_word.UNAVAILABLE:
        order: uint256 = self._orders[task_id]
        rent: uint256 = task_word._run_s(word) * _TERMS.fee_per_s
        refund: uint256 = self._fee(order) - rent
        self._words[task_id] = task_word._enter(word, CLOSED, 0)
        log IRedundantTasks.TaskUnavailable(task_id=task_id, refund=refund, rent=rent)
        self._release(word)
        self._credit(self._creator(order), refund)
        parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
        self._credit(parameters.treasury, rent)
        return
    contested: bool = task_word._count(word, task_word.REVEALED) != 0
    deadline: uint256 = block.timestamp + _TERMS.appeal_s
    log IRedundantTasks.TaskAgreed(
        task_id=task_id,
        result=result,
        lanes=[first, second],
        contested=contested,
        appeal_deadline=deadline,
    )
    if contested:
        self._words[task_id] = task_word._enter(word, DECIDED, deadline)
    else:
        self._words[task_id] = task_word._enter(word, AGREED, deadline)
        self._release(word)
        self._pay_agreed(task_id, word)
        self._count_pay(task_id, word, executors._window(), True)


@internal
def _undecided(task_id: uint256, word: uint256) -> uint256:
    """
    @notice The word of a task that nobody agreed on: its fee goes back.
    """
    order: uint256 = self._orders[task_id]
    fee: uint256 = self._fee(order)
    deadline: uint256 = block.timestamp + _TERMS.appeal_s
    log IRedundantTasks.TaskUndecided(task_id=task_id, refund=fee, appeal_deadline=deadline)
    self._release(word)
    self._credit(self._creator(order), fee)
    return task_word._enter(word, UNDECIDED, deadline)


# Internal: money and stakes


@internal
def _pay_agreed(task_id: uint256, word: uint256):
    """
    @notice Credits the fee to the two who agreed; the one who showed the result gets an odd unit.
    """
    fee: uint256 = self._fee(self._orders[task_id])
    half: uint256 = fee // 2
    pair: uint256[2] = self._agreed(word)
    payouts: DynArray[address, 2] = staticcall Payouts(registry).payouts([pair[0], pair[1]])
    self._credit(payouts[0], fee - half)
    self._credit(payouts[1], half)


@internal
def _count_pay(task_id: uint256, word: uint256, window: uint256, more: bool):
    """
    @notice Counts what the two who agreed were paid, but an odd unit, as at risk or so no more.
    """
    pay: uint256 = self._fee(self._orders[task_id]) // 2
    executors._count_pay(self._agreed(word), pay, window, more)


@internal
def _credit(account: address, amount: uint256):
    """
    @notice Credits an amount unless it is zero.
    """
    if amount != 0:
        bonds._credit(account, amount)


@internal
def _release(word: uint256):
    """
    @notice Closes the lanes of all executors but those who aborted, whose lanes are closed.
    """
    for lane: uint256 in range(task_word.LANES):
        state: uint256 = task_word._state(word, lane)
        if state == 0:
            break
        if state != task_word.ABORTED:
            executors._release(task_word._node(word, lane))


# Internal: reading


@internal
@view
def _check_appeals():
    """
    @notice Stops everybody but TaskAppeals.
    """
    assert msg.sender == appeals, "tasks: not appeals"


@internal
@view
def _picked(task_id: uint256, word: uint256, seed: bytes32) -> DynArray[uint256, 2]:
    """
    @notice The executors that a seed draws for a task.
    """
    order: uint256 = self._orders[task_id]
    return executors._pick(
        order >> _CLASS,
        task_word._size(word),
        task_word._block(word) - 1,
        task_word._time(word),
        seed,
        self._creator(order),
        self._wanted(word),
        self._owners(word),
    )


@internal
@view
def _owners(word: uint256) -> DynArray[address, 8]:
    """
    @notice The owners of all executors so far.
    """
    owners: DynArray[address, 8] = []
    for lane: uint256 in range(task_word.LANES):
        node_id: uint256 = task_word._node(word, lane)
        if node_id == 0:
            break
        owners.append(staticcall INodeRegistry(registry).owner_of(node_id))
    return owners


@internal
@pure
def _wanted(word: uint256) -> uint256:
    """
    @notice How many executors are missing: two results are compared, three when two differed.
    """
    revealed: uint256 = task_word._count(word, task_word.REVEALED)
    needed: uint256 = 2 if revealed < 2 else MAX_REVEALS
    live: uint256 = (
        revealed
        + task_word._count(word, task_word.COMMITTED)
        + task_word._count(word, task_word.RUNNING)
    )
    return needed - min(needed, live)


@internal
@pure
def _agreed(word: uint256) -> uint256[2]:
    """
    @notice The two who agreed, first the one who showed the result.
    """
    pair: uint256[2] = [0, 0]
    for lane: uint256 in range(task_word.LANES):
        state: uint256 = task_word._state(word, lane)
        if state == task_word.OPENED:
            pair[0] = task_word._node(word, lane)
        elif state == task_word.AGREED:
            pair[1] = task_word._node(word, lane)
    return pair


@internal
@view
def _key(task_id: uint256) -> bytes32:
    """
    @notice Names a task's draws; the block that a draw is pinned to tells them apart.
    """
    return convert(task_id, bytes32)


@internal
@view
def _tag(task_id: uint256, result: bytes32) -> bytes32:
    """
    @notice See `tag_of`.
    """
    return keccak256(abi_encode(TAG_DOMAIN, chain.id, self, task_id, result))


@internal
@view
def _digest(
    task_id: uint256,
    node_id: uint256,
    operator: address,
    spec: bytes32,
    tag: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice See `commitment_digest`.
    """
    return keccak256(
        abi_encode(COMMIT_DOMAIN, chain.id, self, task_id, node_id, operator, spec, tag, salt)
    )


@internal
@pure
def _creator(order: uint256) -> address:
    """
    @notice Who created the task.
    """
    return convert(order & convert(max_value(uint160), uint256), address)


@internal
@pure
def _fee(order: uint256) -> uint256:
    """
    @notice The fee.
    """
    return order >> _FEE & _FEE_MASK


@internal
@pure
def _created_at(order: uint256, at: uint256) -> uint256:
    """
    @notice A time no later than the task's creation, nor more than 8 seconds earlier, as seen from
            a time within six days of it.
    """
    steps: uint256 = at // _BORN_STEP
    age: uint256 = unsafe_sub(steps, order >> _BORN & _BORN_MASK) & _BORN_MASK
    return (steps - age) * _BORN_STEP


@internal
@view
def _draw_until(order: uint256, word: uint256) -> uint256:
    """
    @notice Until when a task that draws may find executors; exact unless its request came days
            after its creation.
    """
    return self._created_at(order, task_word._time(word)) + _TERMS.draw_s
