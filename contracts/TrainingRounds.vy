# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
# pragma optimize gas
# pragma experimental-codegen
"""
@title TrainingRounds
@license AGPL-3.0-only
@notice Jobs and their rounds. A round runs COMMIT, REVEAL, AGGREGATE, CHALLENGE and ends FINALIZED
        or VOID. Every phase has a deadline, an action is allowed up to and including it, and anyone
        may move a round on once it has passed, so no absent party can stall a job. A phase also
        ends as soon as everybody expected has acted.

        Rules this contract holds: a node commits once and for itself; a reveal opens exactly its
        commitment; a round finalizes once; only work revealed in the round and not invalidated is
        paid; the weight of a verifier is its stake when the round opened.
@custom:kill The owner (the Coordinator) may pause `create_job` and `open_round`. Open rounds always
             run to their end: nothing that finalizes, settles or pays can be paused.
"""

from interfaces import IBonds
from interfaces import ICoordinator
from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import IRewardPool
from interfaces import ITrainingLedger
from interfaces import ITrainingRounds

implements: IBonds
implements: IPausing
implements: ITrainingRounds

from contracts.modules import bonds
from contracts.modules import pausing
from contracts.modules import randomness
from contracts.modules import round_clock
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: bonds
initializes: pausing
initializes: randomness
initializes: ownable
initializes: ownable_2step[ownable := ownable]

exports: (
    bonds.withdraw_bond,
    bonds.bond_credit,
    bonds.bonds_held,
    pausing.paused,
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
)


# Pause bits.
CREATE: constant(uint256) = 1
OPEN: constant(uint256) = 2

# Phases.
COMMIT: constant(uint256) = 1
REVEAL: constant(uint256) = 2
AGGREGATE: constant(uint256) = 3
CHALLENGE: constant(uint256) = 4
DISPUTED: constant(uint256) = 5
FINALIZED: constant(uint256) = 6
VOID: constant(uint256) = 7

# Job status.
ACTIVE: constant(uint256) = 1
COMPLETED: constant(uint256) = 2
CANCELLED: constant(uint256) = 3

# Roles and violations of the registry.
TRAINER: constant(uint256) = 1
VERIFIER: constant(uint256) = 2
AGGREGATOR: constant(uint256) = 4
NO_REVEAL: constant(uint256) = 1
BAD_RESULT: constant(uint256) = 5

# Marks of a node in a round, and one in a job.
EXPECTED: constant(uint256) = 1
REVEALED: constant(uint256) = 2
FLAGGED: constant(uint256) = 3  # same content as another node
INVALIDATED: constant(uint256) = 4
PENALIZED: constant(uint256) = 5  # slashed for not revealing
BARRED: constant(uint256) = 6  # proposed a result that was successfully challenged
ABSENT: constant(uint256) = 7  # of a job, under the key of its round 0

COMMIT_DOMAIN: constant(bytes32) = keccak256("menagerie.TrainingRounds.commit.v1")

MAX_NODES: constant(uint256) = 128
MAX_VERIFIERS: constant(uint256) = 32
MAX_AGGREGATORS: constant(uint256) = 16
MAX_ROUNDS: constant(uint256) = 100_000
# A window is longer than this part of the unbonding period (a minute of 14 days), so that no
# job's terms leave a node no time to reveal or to appeal.
WINDOWS_PER_UNBONDING: constant(uint256) = 20_000
# The clock keeps a window in 22 bits.
MAX_WINDOW: constant(uint256) = 30 * 86_400
MAX_AMOUNT: constant(uint256) = 2**128
MAX_CUTS: constant(uint256) = 5_000
BPS: constant(uint256) = 10_000
# Nodes paid in one transaction.
BATCH: constant(uint256) = 64
# Rounds that count towards a node's reliability.
HISTORY: constant(uint256) = 8
# Finalized rounds in a row without a commitment that make a node absent, and how far back to look.
ABSENCES: constant(uint256) = 3
ABSENCE_HISTORY: constant(uint256) = 32

registry: public(immutable(address))
pool: public(immutable(address))
ledger: public(immutable(address))
reports: public(immutable(address))


struct Origin:
    opened_block: uint256
    prev_model: bytes32
    snapshot_hash: bytes32
    verifier_stake: uint256


struct Result:
    proposer: uint256
    attested_stake: uint256
    result_hash: bytes32
    model: bytes32
    update: bytes32
    report: bytes32
    contributions_hash: bytes32


job_count: public(uint256)
_jobs: HashMap[uint256, ITrainingRounds.Job]

# By round key, see `_key`.
_clocks: HashMap[bytes32, uint256]
_origins: HashMap[bytes32, Origin]
_results: HashMap[bytes32, Result]
_challengers: HashMap[bytes32, address]
_aggregators: HashMap[bytes32, DynArray[uint256, 16]]
_weights: HashMap[bytes32, HashMap[uint256, uint256]]
# Nodes of the proposed arrays that settlement has gone through.
_settled_nodes: HashMap[bytes32, uint256]
# The commitment; after the reveal keccak256(abi_encode(content, trace_root)).
_submissions: HashMap[bytes32, HashMap[uint256, bytes32]]
_first_with: HashMap[bytes32, HashMap[bytes32, uint256]]

# Bitmaps of node ids, 256 to a word, by mark << 248 | node_id >> 8.
_marks: HashMap[bytes32, HashMap[uint256, uint256]]

# The newest round when a node rejoined its job: absences up to it no longer count.
_rejoined_at: HashMap[uint256, HashMap[uint256, uint256]]

# By result hash.
_attesters: HashMap[bytes32, DynArray[uint256, 32]]


@deploy
def __init__(
    token_: address,
    registry_: address,
    pool_: address,
    ledger_: address,
    reports_: address,
    owner_: address,
    random_source_: address,
):
    """
    @notice Fixes the other contracts, by predicted addresses where they do not exist yet.
    @dev Reverts: "rounds: zero address", "bonds: zero address".
    @param token_ ZOO.
    @param registry_ NodeRegistry.
    @param pool_ RewardPool.
    @param ledger_ TrainingLedger.
    @param reports_ ViolationReports.
    @param owner_ The Coordinator.
    @param random_source_ See modules/randomness; zero for `blockhash`.
    """
    for account: address in [registry_, pool_, ledger_, reports_, owner_]:
        assert account != empty(address), "rounds: zero address"
    bonds.__init__(token_)
    pausing.__init__()
    randomness.__init__(random_source_)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    pool = pool_
    ledger = ledger_
    reports = reports_


# Owner


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, CREATE = 1 and OPEN = 2.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, CREATE | OPEN)


# Jobs


@external
def create_job(terms: ITrainingRounds.JobTerms) -> uint256:
    """
    @notice Anyone: creates a job, whose sponsor is the caller. Fund it in the RewardPool.
    @dev Reverts: "pausing: paused", "rounds: empty artefact", "rounds: bad round count",
         "rounds: bad amount", "rounds: cuts too high", "rounds: bad node count",
         "rounds: bad window" (not above 1/20,000 of the unbonding period, or
         above 30 days: a node needs time to
         reveal or to appeal), "rounds: windows exceed unbonding" (it could leave with its stake
         before its work is judged), "rounds: dispute window too short" (less than two of the
         Coordinator's routine delays). A sum that overflows reverts without a reason.
    @param terms The job's terms, which never change.
    @return uint256 The job id.
    """
    pausing._check_not_paused(CREATE)
    self._require(
        terms.spec != empty(bytes32)
        and terms.genesis_model != empty(bytes32)
        and terms.genesis_checkpoint != empty(bytes32),
        "rounds: empty artefact",
    )
    self._require(terms.rounds != 0 and terms.rounds <= MAX_ROUNDS, "rounds: bad round count")
    self._require(
        terms.reward_per_round < MAX_AMOUNT
        and terms.challenge_bond != 0
        and terms.challenge_bond < MAX_AMOUNT,
        "rounds: bad amount",
    )
    self._require(
        terms.verifier_bps + terms.aggregator_bps <= MAX_CUTS,
        "rounds: cuts too high",
    )
    self._require(terms.max_nodes != 0 and terms.max_nodes <= MAX_NODES, "rounds: bad node count")
    unbonding: uint256 = self._parameters().unbonding_period
    # The fallback window, and the second decision of the owner (on an appeal), count too.
    total: uint256 = 0
    for window: uint256 in [
        terms.commit_s,
        terms.reveal_s,
        terms.aggregate_s,
        terms.aggregate_s,
        terms.challenge_s,
        terms.dispute_s,
        terms.appeal_s,
        terms.dispute_s,
    ]:
        self._require(
            window > unbonding // WINDOWS_PER_UNBONDING and window <= MAX_WINDOW,
            "rounds: bad window",
        )
        total += window
    self._require(total <= unbonding, "rounds: windows exceed unbonding")
    # A decision needs the owner's delay; in less, every challenge and appeal would win by default.
    if ownable.owner.is_contract:
        routine: uint256 = 0
        governance: uint256 = 0
        routine, governance = staticcall ICoordinator(ownable.owner).delays()
        self._require(terms.dispute_s >= 2 * routine, "rounds: dispute window too short")

    job_id: uint256 = self.job_count + 1
    self.job_count = job_id
    self._jobs[job_id] = ITrainingRounds.Job(
        sponsor=msg.sender,
        terms=terms,
        status=ACTIVE,
        cancel_requested=False,
        rounds_opened=0,
        rounds_done=0,
        model=terms.genesis_model,
    )
    log ITrainingRounds.JobCreated(job_id=job_id, sponsor=msg.sender, terms=terms)
    return job_id


@external
def cancel_job(job_id: uint256):
    """
    @notice Sponsor or owner: ends the job, at once when no round is open, else after that round.
    @dev Reverts: "rounds: not sponsor", "rounds: job not active", "rounds: cancel requested".
    @param job_id The job.
    """
    self._require(msg.sender in [self._jobs[job_id].sponsor, ownable.owner], "rounds: not sponsor")
    clock: uint256 = self._tick(job_id, self._jobs[job_id].rounds_opened)
    self._require(self._jobs[job_id].status == ACTIVE, "rounds: job not active")
    self._require(not self._jobs[job_id].cancel_requested, "rounds: cancel requested")
    self._jobs[job_id].cancel_requested = True
    log ITrainingRounds.JobCancelRequested(job_id=job_id)
    if self._is_over(clock):
        self._end_job_if_due(job_id)


# Rounds


@external
def open_round(job_id: uint256) -> uint256:
    """
    @notice Anyone: opens the next round of an active job. Takes the snapshot of trainers, verifiers
            and aggregators eligible in this block, sets the round's pool aside and pins the
            round's seed to the next block. Stake or nodes added later do not count.
    @dev A trainer's weight is its benchmark score times its reliability: 1e4 * (1 + accepted) //
         (1 + expected) over the job's last 8 rounds, // 1e4, at least 1. When there are more
         trainers than seats the snapshot starts max_nodes further in every round.
         Reverts: "pausing: paused", "rounds: round open", "rounds: job not active",
         "rounds: too few nodes", "pool: escrow too low".
    @param job_id The job.
    @return uint256 The round id.
    """
    pausing._check_not_paused(OPEN)
    round_id: uint256 = self._jobs[job_id].rounds_opened
    self._require(self._is_over(self._tick(job_id, round_id)), "rounds: round open")
    job: ITrainingRounds.Job = self._jobs[job_id]
    self._require(job.status == ACTIVE, "rounds: job not active")
    round_id += 1
    key: bytes32 = self._key(job_id, round_id)

    nodes: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    nodes, weights = self._snapshot_trainers(job_id, round_id, key, job.terms.max_nodes)
    verifiers: DynArray[uint256, 128] = []
    stakes: DynArray[uint256, 128] = []
    verifiers, stakes = self._eligible(VERIFIER, 0, MAX_VERIFIERS)
    aggregators: DynArray[uint256, 128] = []
    ignored: DynArray[uint256, 128] = []
    aggregators, ignored = self._eligible(AGGREGATOR, 0, MAX_AGGREGATORS)
    self._require(
        len(nodes) != 0 and len(verifiers) != 0 and len(aggregators) != 0,
        "rounds: too few nodes",
    )

    verifier_stake: uint256 = 0
    index: uint256 = 0
    for verifier: uint256 in verifiers:
        self._weights[key][verifier] = stakes[index]
        verifier_stake += stakes[index]
        index += 1
    for aggregator: uint256 in aggregators:
        self._aggregators[key].append(aggregator)
    self._origins[key] = Origin(
        opened_block=block.number,
        prev_model=job.model,
        snapshot_hash=keccak256(abi_encode(nodes, weights)),
        verifier_stake=verifier_stake,
    )
    self._jobs[job_id].rounds_opened = round_id
    log ITrainingRounds.RoundOpened(
        job_id=job_id,
        round_id=round_id,
        prev_model=job.model,
        seed_block=randomness._request(key),
        nodes=nodes,
        weights=weights,
        verifiers=verifiers,
        stakes=stakes,
        aggregators=aggregators,
    )
    self._enter(
        job_id,
        round_id,
        round_clock._new(
            len(nodes),
            block.timestamp,
            job.terms.reveal_s,
            job.terms.aggregate_s,
            job.terms.challenge_s,
            job.terms.dispute_s,
        ),
        COMMIT,
        job.terms.commit_s,
    )
    extcall IRewardPool(pool).reserve(job_id, round_id, job.terms.reward_per_round)
    return round_id


@external
def capture_seed(job_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the seed of the job's newest round or, when that is stored already, its
            audit seed. When the seed's block is too old to be known it is pinned to a new one.
    @dev Reverts: "rounds: no seed due" (both are stored), "randomness: not requested" (no round,
         or its reveals are not over), "randomness: too early".
    @param job_id The job.
    @return bytes32 The seed, empty when it was pinned to a new block.
    """
    round_id: uint256 = self._jobs[job_id].rounds_opened
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    captured: uint256 = round_clock.SEED_CAPTURED
    seed_key: bytes32 = key
    if clock & round_clock.SEED_CAPTURED != 0:
        captured = round_clock.AUDIT_CAPTURED
        seed_key = self._audit_key(key)
    self._require(clock & captured == 0, "rounds: no seed due")
    seed: bytes32 = randomness._capture(seed_key)
    if seed != empty(bytes32):
        self._clocks[key] = clock | captured
    return seed


# `reentrant`: its only call out is a view of the registry, so the lock would protect nothing.
@external
@reentrant
def commit(job_id: uint256, round_id: uint256, node_id: uint256, commitment: bytes32):
    """
    @notice The operator of a node of the snapshot commits the node's work, once per round. The
            first commit also stores the round's seed. The last one expected opens REVEAL.
    @dev Reverts: "rounds: not in commit", "rounds: too late", "rounds: not expected",
         "rounds: not operator", "rounds: empty commitment", "rounds: already committed",
         "rounds: seed expired" (call `capture_seed`), "randomness: too early".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @param commitment See `commitment_digest`.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    # Written out, unlike elsewhere: this is the call that every node pays for in every round.
    assert clock & 255 == COMMIT, "rounds: not in commit"
    assert (
        block.timestamp <= clock >> round_clock._DEADLINE & round_clock._TIME_MASK
    ), "rounds: too late"
    assert (
        self._marks[key][EXPECTED << 248 | node_id >> 8] & 1 << (node_id & 255) != 0
    ), "rounds: not expected"
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "rounds: not operator"
    self._require(commitment != empty(bytes32), "rounds: empty commitment")
    assert self._submissions[key][node_id] == empty(bytes32), "rounds: already committed"
    if clock & round_clock.SEED_CAPTURED == 0:
        self._require(randomness._capture(key) != empty(bytes32), "rounds: seed expired")
        clock |= round_clock.SEED_CAPTURED

    self._submissions[key][node_id] = commitment
    clock += 1 << round_clock.COMMITTED
    log ITrainingRounds.Committed(
        job_id=job_id, round_id=round_id, node_id=node_id, commitment=commitment
    )
    if clock >> round_clock.COMMITTED & 255 == clock >> round_clock.ELIGIBLE & 255:
        self._leave_commit(job_id, round_id, clock)
    else:
        self._clocks[key] = clock


@external
def reveal(
    job_id: uint256,
    round_id: uint256,
    node_id: uint256,
    input_root: bytes32,
    content: bytes32,
    trace_root: bytes32,
    salt: bytes32,
    proof: bytes32,
):
    """
    @notice The sender of a commitment opens it. Equal content of two nodes flags both for an audit;
            who came first proves nothing. The last reveal expected opens AGGREGATE.
    @dev The sender is part of the commitment, so nobody else can open it and a copy of it can't be
         opened at all. Reverts: "rounds: not in reveal", "rounds: empty artefact",
         "rounds: bad opening".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @param input_root What the work started from: seed, model, data, batches.
    @param content Digest of the payload.
    @param trace_root Merkle root over the step hashes.
    @param salt The secret of the commitment.
    @param proof Digest of the proof-of-computation artefact; only logged, not committed to.
    """
    clock: uint256 = self._tick(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    self._require(round_clock._phase(clock) == REVEAL, "rounds: not in reveal")
    self._require(
        content != empty(bytes32) and trace_root != empty(bytes32),
        "rounds: empty artefact",
    )
    self._require(
        self._submissions[key][node_id]
        == self._commitment(
            job_id, round_id, node_id, msg.sender, input_root, content, trace_root, salt
        ),
        "rounds: bad opening",
    )

    self._submissions[key][node_id] = keccak256(abi_encode(content, trace_root))
    self._mark(key, REVEALED, node_id)
    clock += 1 << round_clock.REVEALED
    log ITrainingRounds.Revealed(
        job_id=job_id,
        round_id=round_id,
        node_id=node_id,
        input_root=input_root,
        content=content,
        trace_root=trace_root,
        proof=proof,
    )
    first: uint256 = self._first_with[key][content]
    if first == 0:
        self._first_with[key][content] = node_id
    else:
        self._mark(key, FLAGGED, first)
        self._mark(key, FLAGGED, node_id)
        log ITrainingRounds.DuplicateContent(
            job_id=job_id,
            round_id=round_id,
            content=content,
            first_node=first,
            second_node=node_id,
        )
    if round_clock._count(clock, round_clock.REVEALED) == round_clock._count(
        clock, round_clock.COMMITTED
    ):
        self._leave_reveal(job_id, round_id, clock)
    else:
        self._clocks[key] = clock


@external
def advance(job_id: uint256):
    """
    @notice Anyone: moves the job's newest round on when the deadline of its phase has passed.
    @dev Reverts: "rounds: nothing to advance".
    @param job_id The job.
    """
    round_id: uint256 = self._jobs[job_id].rounds_opened
    before: uint256 = self._clocks[self._key(job_id, round_id)]
    self._require(self._tick(job_id, round_id) != before, "rounds: nothing to advance")


@external
def slash_unrevealed(job_id: uint256, round_id: uint256, node_id: uint256) -> uint256:
    """
    @notice Anyone, once REVEAL is over: slashes a node that committed and did not reveal, once. The
            caller is the reporter and earns its share.
    @dev Reverts: "rounds: reveal not over", "rounds: not committed", "rounds: revealed",
         "rounds: already slashed".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return uint256 The amount slashed.
    """
    clock: uint256 = self._tick(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    self._require(round_clock._phase(clock) > REVEAL, "rounds: reveal not over")
    self._require(self._submissions[key][node_id] != empty(bytes32), "rounds: not committed")
    self._require(not self._has(key, REVEALED, node_id), "rounds: revealed")
    self._require(not self._has(key, PENALIZED, node_id), "rounds: already slashed")
    self._mark(key, PENALIZED, node_id)
    amount: uint256 = extcall INodeRegistry(registry).slash(
        node_id, NO_REVEAL, round_clock._opened_at(clock), msg.sender
    )
    log ITrainingRounds.UnrevealedSlashed(
        job_id=job_id, round_id=round_id, node_id=node_id, amount=amount
    )
    return amount


@external
def propose_result(
    job_id: uint256,
    round_id: uint256,
    node_id: uint256,
    model: bytes32,
    update: bytes32,
    report: bytes32,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Proposes the round's result and opens CHALLENGE: the operator of the aggregator on duty
            until the deadline, then that of any node of the snapshot for another window, except
            nodes whose result was successfully challenged in this round.
    @dev result_hash = keccak256(abi_encode(job_id, round_id, attempt, model, update, report,
         contributions_hash)), contributions_hash = keccak256(abi_encode(nodes, contributions)).
         Reverts: "rounds: not in aggregate", "rounds: not operator", "rounds: not on duty",
         "rounds: not in snapshot", "rounds: barred", "rounds: empty artefact",
         "rounds: length mismatch", "rounds: nodes not ascending", "rounds: node not payable"
         (not revealed in this round, or invalid), "rounds: bad amount".
    @param job_id The job.
    @param round_id The round.
    @param node_id The proposing node.
    @param model Hash of the new model.
    @param update Digest of the canonical update.
    @param report Digest of the report.
    @param nodes Contributing nodes, strictly ascending; may be empty.
    @param contributions Their contributions, each < 2**128.
    """
    clock: uint256 = self._tick(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    self._require(round_clock._phase(clock) == AGGREGATE, "rounds: not in aggregate")
    self._check_operator(node_id)
    if clock & round_clock.FALLBACK == 0:
        self._require(node_id == self._on_duty(key), "rounds: not on duty")
    else:
        self._require(
            self._weights[key][node_id] != 0
            or self._has(key, EXPECTED, node_id)
            or node_id in self._aggregators[key],
            "rounds: not in snapshot",
        )
        self._require(not self._has(key, BARRED, node_id), "rounds: barred")
    self._require(
        model != empty(bytes32) and update != empty(bytes32) and report != empty(bytes32),
        "rounds: empty artefact",
    )
    self._require(len(nodes) == len(contributions), "rounds: length mismatch")
    previous: uint256 = 0
    index: uint256 = 0
    for node: uint256 in nodes:
        self._require(node > previous, "rounds: nodes not ascending")
        self._require(self._is_payable(key, node), "rounds: node not payable")
        self._require(contributions[index] < MAX_AMOUNT, "rounds: bad amount")
        previous = node
        index += 1

    clock += 1 << round_clock.ATTEMPT
    contributions_hash: bytes32 = self._contributions_hash(nodes, contributions)
    result_hash: bytes32 = keccak256(
        abi_encode(
            job_id,
            round_id,
            round_clock._count(clock, round_clock.ATTEMPT),
            model,
            update,
            report,
            contributions_hash,
        )
    )
    self._results[key] = Result(
        proposer=node_id,
        attested_stake=0,
        result_hash=result_hash,
        model=model,
        update=update,
        report=report,
        contributions_hash=contributions_hash,
    )
    log ITrainingRounds.ResultProposed(
        job_id=job_id,
        round_id=round_id,
        proposer=node_id,
        model=model,
        update=update,
        report=report,
        result_hash=result_hash,
        nodes=nodes,
        contributions=contributions,
    )
    self._enter(
        job_id,
        round_id,
        clock,
        CHALLENGE,
        round_clock._window(clock, round_clock.CHALLENGE_S),
    )


@external
def attest(job_id: uint256, round_id: uint256, verifier_id: uint256, result_hash: bytes32):
    """
    @notice The operator of a verifier of the snapshot confirms the proposed result, once. The
            verifier's weight is its stake when the round opened.
    @dev Reverts: "rounds: not in challenge", "rounds: too late", "rounds: wrong result",
         "rounds: not operator", "rounds: not a verifier", "rounds: already attested".
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param result_hash The result it confirms.
    """
    key: bytes32 = self._key(job_id, round_id)
    self._check_in_challenge(key)
    self._require(result_hash == self._results[key].result_hash, "rounds: wrong result")
    self._check_operator(verifier_id)
    weight: uint256 = self._weights[key][verifier_id]
    self._require(weight != 0, "rounds: not a verifier")
    self._require(verifier_id not in self._attesters[result_hash], "rounds: already attested")
    self._attesters[result_hash].append(verifier_id)
    self._results[key].attested_stake += weight
    log ITrainingRounds.Attested(
        job_id=job_id,
        round_id=round_id,
        verifier_id=verifier_id,
        result_hash=result_hash,
        weight=weight,
    )


@external
def challenge(job_id: uint256, round_id: uint256, result_hash: bytes32, evidence: bytes32):
    """
    @notice Anyone, with the job's bond: disputes the proposed result before the owner.
    @dev Reverts: "rounds: not in challenge", "rounds: too late", "rounds: wrong result".
    @param job_id The job.
    @param round_id The round.
    @param result_hash The result it attacks.
    @param evidence Digest of the evidence.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._check_in_challenge(key)
    self._require(result_hash == self._results[key].result_hash, "rounds: wrong result")
    bond: uint256 = self._jobs[job_id].terms.challenge_bond
    self._challengers[key] = msg.sender
    log ITrainingRounds.Challenged(
        job_id=job_id, round_id=round_id, challenger=msg.sender, evidence=evidence, bond=bond
    )
    self._enter(
        job_id, round_id, clock, DISPUTED, round_clock._window(clock, round_clock.DISPUTE_S)
    )
    bonds._take(msg.sender, bond)


@external
def resolve_challenge(job_id: uint256, round_id: uint256, result_hash: bytes32, upheld: bool):
    """
    @notice Owner only, until the dispute deadline. Upheld: the proposer is slashed and barred from
            this round, the bond goes back and any other node of the snapshot may propose.
            Rejected: the treasury gets the bond and the challenge window starts again.
    @dev Reverts: "ownable: caller is not the owner", "rounds: not disputed", "rounds: too late",
         "rounds: wrong result".
    @param job_id The job.
    @param round_id The round.
    @param result_hash The disputed result.
    @param upheld Whether the challenger is right.
    """
    ownable._check_owner()
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    self._require(round_clock._phase(clock) == DISPUTED, "rounds: not disputed")
    self._check_in_time(clock)
    self._require(result_hash == self._results[key].result_hash, "rounds: wrong result")
    bond: uint256 = self._jobs[job_id].terms.challenge_bond
    challenger: address = self._challengers[key]
    self._challengers[key] = empty(address)
    log ITrainingRounds.ChallengeResolved(job_id=job_id, round_id=round_id, upheld=upheld)
    if upheld:
        proposer: uint256 = self._results[key].proposer
        self._mark(key, BARRED, proposer)
        self._results[key] = empty(Result)
        self._enter(
            job_id,
            round_id,
            clock | round_clock.FALLBACK,
            AGGREGATE,
            round_clock._window(clock, round_clock.AGGREGATE_S),
        )
        bonds._credit(challenger, bond)
        extcall INodeRegistry(registry).slash(
            proposer, BAD_RESULT, round_clock._opened_at(clock), challenger
        )
    else:
        self._enter(
            job_id,
            round_id,
            clock,
            CHALLENGE,
            round_clock._window(clock, round_clock.CHALLENGE_S),
        )
        bonds._credit(self._parameters().treasury, bond)


@external
def finalize(
    job_id: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Anyone: makes the proposed result final when verifiers with two thirds of the snapshot's
            stake confirmed it and no report is open, or when the challenge window passed. Records
            it in the ledger, credits the cuts and the first 64 nodes. Nodes found invalid in this
            round are not paid and do not dilute the others.
    @dev Reverts: "rounds: not finalizable", "rounds: wrong contributions".
    @param job_id The job.
    @param nodes The node ids of ResultProposed.
    @param contributions The contributions of ResultProposed.
    """
    round_id: uint256 = self._jobs[job_id].rounds_opened
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    self._require(self._can_finalize(key, clock), "rounds: not finalizable")

    result: Result = self._results[key]
    self._require(
        self._contributions_hash(nodes, contributions) == result.contributions_hash,
        "rounds: wrong contributions",
    )

    # Proposed nodes have revealed; unless a report was confirmed, all of them are paid.
    all_valid: bool = round_clock._count(clock, round_clock.INVALID) == 0
    total: uint256 = 0
    index: uint256 = 0
    for node: uint256 in nodes:
        if all_valid or self._is_payable(key, node):
            total += contributions[index]
        index += 1
    clock = self._enter(job_id, round_id, clock, FINALIZED, 0)
    self._jobs[job_id].rounds_done += 1
    self._jobs[job_id].model = result.model
    log ITrainingRounds.RoundFinalized(
        job_id=job_id, round_id=round_id, model=result.model, total_contribution=total
    )
    extcall ITrainingLedger(ledger).record_round(
        job_id,
        round_id,
        self._origins[key].prev_model,
        result.model,
        keccak256(abi_encode(nodes)),
        result.contributions_hash,
        result.report,
    )
    self._pay_cuts(job_id, round_id, key, result, total)
    self._settle(job_id, round_id, clock, nodes, contributions)


@external
def settle(
    job_id: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Anyone: credits the next 64 nodes of a finalized round that `finalize` did not pay.
    @dev Reverts: "rounds: nothing to settle", "rounds: wrong contributions".
    @param job_id The job.
    @param nodes The node ids of ResultProposed.
    @param contributions The contributions of ResultProposed.
    """
    round_id: uint256 = self._jobs[job_id].rounds_opened
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    self._require(
        round_clock._phase(clock) == FINALIZED and clock & round_clock.SETTLED == 0,
        "rounds: nothing to settle",
    )
    self._require(
        self._contributions_hash(nodes, contributions) == self._results[key].contributions_hash,
        "rounds: wrong contributions",
    )
    self._settle(job_id, round_id, clock, nodes, contributions)


@external
def mark_absent(job_id: uint256, node_id: uint256):
    """
    @notice Anyone: takes a node that did not commit in the last 3 finalized rounds it was expected
            in out of the job's expected set, so that rounds stop waiting for it.
    @dev Looks back over 32 rounds, not beyond the node's last return.
         Reverts: "rounds: already absent", "rounds: not absent".
    @param job_id The job.
    @param node_id The node.
    """
    job_key: bytes32 = self._key(job_id, 0)
    self._require(not self._has(job_key, ABSENT, node_id), "rounds: already absent")
    round_id: uint256 = self._jobs[job_id].rounds_opened
    oldest: uint256 = self._rejoined_at[job_id][node_id]
    missed: uint256 = 0
    for _: uint256 in range(ABSENCE_HISTORY):
        if round_id <= oldest or missed == ABSENCES:
            break
        key: bytes32 = self._key(job_id, round_id)
        if round_clock._phase(self._clocks[key]) == FINALIZED and self._has(key, EXPECTED, node_id):
            self._require(self._submissions[key][node_id] == empty(bytes32), "rounds: not absent")
            missed += 1
        round_id -= 1
    self._require(missed == ABSENCES, "rounds: not absent")
    self._mark(job_key, ABSENT, node_id)
    log ITrainingRounds.NodeAbsent(job_id=job_id, node_id=node_id, absent=True)


@external
def rejoin(job_id: uint256, node_id: uint256):
    """
    @notice The operator of an absent node brings it back; earlier absences no longer count.
    @dev Reverts: "rounds: not operator", "rounds: not absent".
    @param job_id The job.
    @param node_id The node.
    """
    self._check_operator(node_id)
    job_key: bytes32 = self._key(job_id, 0)
    self._require(self._has(job_key, ABSENT, node_id), "rounds: not absent")
    self._marks[job_key][self._word(ABSENT, node_id)] ^= self._bit(node_id)
    self._rejoined_at[job_id][node_id] = self._jobs[job_id].rounds_opened
    log ITrainingRounds.NodeAbsent(job_id=job_id, node_id=node_id, absent=False)


# ViolationReports only


@external
def report_opened(job_id: uint256, round_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE: a report was opened; early finalization waits.
    @dev Reverts: "rounds: not reports", "rounds: not in challenge", "rounds: too late".
    @param job_id The job.
    @param round_id The round.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    self._clocks[key] += 1 << round_clock.OPEN_REPORTS


@external
def report_closed(job_id: uint256, round_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE: a report was decided.
    @dev Reverts: "rounds: not reports", "rounds: not in challenge", "rounds: too late",
         "rounds: no open report".
    @param job_id The job.
    @param round_id The round.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    self._require(round_clock._open_reports(self._clocks[key]) != 0, "rounds: no open report")
    self._clocks[key] -= 1 << round_clock.OPEN_REPORTS


@external
def invalidate(job_id: uint256, round_id: uint256, node_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE: the node's work in this round is not paid.
    @dev Reverts: "rounds: not reports", "rounds: not in challenge", "rounds: too late",
         "rounds: node not payable" (not revealed, or invalid already).
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    self._require(self._is_payable(key, node_id), "rounds: node not payable")
    self._mark(key, INVALIDATED, node_id)
    self._clocks[key] += 1 << round_clock.INVALID
    log ITrainingRounds.NodeInvalidated(job_id=job_id, round_id=round_id, node_id=node_id)


# Views


@view
@external
@reentrant
def job(job_id: uint256) -> ITrainingRounds.Job:
    """
    @notice A job.
    @param job_id The job.
    @return The job; all zero when there is none.
    """
    return self._jobs[job_id]


@view
@external
@reentrant
def job_ended(job_id: uint256) -> bool:
    """
    @notice Whether a job is completed or cancelled: its escrow may be refunded.
    @param job_id The job.
    @return bool False also for a job that does not exist.
    """
    return self._jobs[job_id].status > ACTIVE


@view
@external
@reentrant
def sponsor_of(job_id: uint256) -> address:
    """
    @notice Who created a job.
    @param job_id The job.
    @return address The sponsor, zero when there is no such job.
    """
    return self._jobs[job_id].sponsor


@view
@external
@reentrant
def round(job_id: uint256, round_id: uint256) -> ITrainingRounds.Round:
    """
    @notice A round as stored: a passed deadline shows in `phase` only after somebody has acted.
    @param job_id The job.
    @param round_id The round.
    @return The round; all zero when there is none.
    """
    key: bytes32 = self._key(job_id, round_id)
    audit_key: bytes32 = self._audit_key(key)
    clock: uint256 = self._clocks[key]
    origin: Origin = self._origins[key]
    result: Result = self._results[key]
    return ITrainingRounds.Round(
        phase=round_clock._phase(clock),
        deadline=round_clock._deadline(clock),
        opened_block=origin.opened_block,
        opened_at=round_clock._opened_at(clock),
        n_eligible=round_clock._count(clock, round_clock.ELIGIBLE),
        n_committed=round_clock._count(clock, round_clock.COMMITTED),
        n_revealed=round_clock._count(clock, round_clock.REVEALED),
        n_invalid=round_clock._count(clock, round_clock.INVALID),
        open_reports=round_clock._open_reports(clock),
        seed_block=randomness._target(key),
        seed=randomness._seed(key),
        audit_block=randomness._target(audit_key),
        audit_seed=randomness._seed(audit_key),
        prev_model=origin.prev_model,
        snapshot_hash=origin.snapshot_hash,
        verifier_stake=origin.verifier_stake,
        attested_stake=result.attested_stake,
        proposer=result.proposer,
        result_hash=result.result_hash,
        model=result.model,
        update=result.update,
        report=result.report,
        contributions_hash=result.contributions_hash,
        challenger=self._challengers[key],
        settled=clock & round_clock.SETTLED != 0,
    )


@view
@external
@reentrant
def phase(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice The phase of a round as stored.
    @param job_id The job.
    @param round_id The round.
    @return uint256 The phase, 0 when there is no such round.
    """
    return round_clock._phase(self._clocks[self._key(job_id, round_id)])


@view
@external
@reentrant
def commitment_of(job_id: uint256, round_id: uint256, node_id: uint256) -> bytes32:
    """
    @notice The commitment of a node; after its reveal keccak256(abi_encode(content, trace_root)).
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bytes32 Empty when the node did not commit.
    """
    return self._submissions[self._key(job_id, round_id)][node_id]


@view
@external
@reentrant
def is_expected(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node is a trainer of the round's snapshot.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it is.
    """
    return self._has(self._key(job_id, round_id), EXPECTED, node_id)


@view
@external
@reentrant
def is_revealed(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node revealed in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it did.
    """
    return self._has(self._key(job_id, round_id), REVEALED, node_id)


@view
@external
@reentrant
def is_flagged(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node revealed the same content as another node of the round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it did.
    """
    return self._has(self._key(job_id, round_id), FLAGGED, node_id)


@view
@external
@reentrant
def is_invalid(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node's work was found invalid in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it was.
    """
    return self._has(self._key(job_id, round_id), INVALIDATED, node_id)


@view
@external
@reentrant
def is_absent(job_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node is out of a job's expected set, see `mark_absent`.
    @param job_id The job.
    @param node_id The node.
    @return bool Whether it is.
    """
    return self._has(self._key(job_id, 0), ABSENT, node_id)


@view
@external
@reentrant
def verifier_weight(job_id: uint256, round_id: uint256, verifier_id: uint256) -> uint256:
    """
    @notice A verifier's weight in a round: its stake when the round opened.
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @return uint256 The weight, 0 when it is not a verifier of the snapshot.
    """
    return self._weights[self._key(job_id, round_id)][verifier_id]


@view
@external
@reentrant
def aggregator_on_duty(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice The aggregator that may propose in the duty window: aggregators[seed % n].
    @param job_id The job.
    @param round_id The round.
    @return uint256 Its node id; 0 before the seed is stored, and in the fallback window, when any
            node of the snapshot that is not barred may propose.
    """
    key: bytes32 = self._key(job_id, round_id)
    if self._clocks[key] & round_clock.FALLBACK != 0 or randomness._seed(key) == empty(bytes32):
        return 0
    return self._on_duty(key)


@view
@external
@reentrant
def can_finalize(job_id: uint256) -> bool:
    """
    @notice Whether `finalize` would accept the right arrays now.
    @param job_id The job.
    @return bool Whether it would.
    """
    key: bytes32 = self._key(job_id, self._jobs[job_id].rounds_opened)
    return self._can_finalize(key, self._clocks[key])


@view
@external
@reentrant
def commitment_digest(
    job_id: uint256,
    round_id: uint256,
    node_id: uint256,
    operator: address,
    input_root: bytes32,
    content: bytes32,
    trace_root: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice keccak256(abi_encode(COMMIT_DOMAIN, chain.id, this contract, and the arguments in
            order)); COMMIT_DOMAIN = keccak256("menagerie.TrainingRounds.commit.v1").
    @return bytes32 The commitment.
    """
    return self._commitment(
        job_id, round_id, node_id, operator, input_root, content, trace_root, salt
    )


# Internal: phases


@internal
def _tick(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice Moves a round on when the deadline of its phase has passed.
    @dev Each phase gets its whole window from the moment it is entered, so one call makes at most
         one step. CHALLENGE waits for `finalize`.
    @return uint256 The round's clock, stored.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    if block.timestamp <= round_clock._deadline(clock):
        return clock
    phase: uint256 = round_clock._phase(clock)
    if phase == COMMIT:
        return self._leave_commit(job_id, round_id, clock)
    if phase == REVEAL:
        return self._leave_reveal(job_id, round_id, clock)
    if phase == AGGREGATE:
        if clock & round_clock.FALLBACK != 0:
            return self._void(job_id, round_id, clock, "no result")
        return self._enter(
            job_id,
            round_id,
            clock | round_clock.FALLBACK,
            AGGREGATE,
            round_clock._window(clock, round_clock.AGGREGATE_S),
        )
    if phase == DISPUTED:
        challenger: address = self._challengers[key]
        bonds._credit(challenger, self._jobs[job_id].terms.challenge_bond)
        return self._void(job_id, round_id, clock, "dispute not resolved")
    return clock


@internal
def _leave_commit(job_id: uint256, round_id: uint256, clock: uint256) -> uint256:
    """
    @notice COMMIT is over.
    """
    if round_clock._count(clock, round_clock.COMMITTED) == 0:
        return self._void(job_id, round_id, clock, "no commits")
    return self._enter(
        job_id, round_id, clock, REVEAL, round_clock._window(clock, round_clock.REVEAL_S)
    )


@internal
def _leave_reveal(job_id: uint256, round_id: uint256, clock: uint256) -> uint256:
    """
    @notice REVEAL is over. The audit seed is pinned only now: nobody can reveal selectively on it.
    """
    if round_clock._count(clock, round_clock.REVEALED) == 0:
        return self._void(job_id, round_id, clock, "no reveals")
    randomness._request(self._audit_key(self._key(job_id, round_id)))
    return self._enter(
        job_id, round_id, clock, AGGREGATE, round_clock._window(clock, round_clock.AGGREGATE_S)
    )


@internal
def _enter(
    job_id: uint256, round_id: uint256, clock: uint256, phase: uint256, window: uint256
) -> uint256:
    """
    @notice Stores the clock in a phase that lasts `window` seconds from now, or for good.
    """
    deadline: uint256 = 0
    if window != 0:
        deadline = block.timestamp + window
    entered: uint256 = round_clock._enter(clock, phase, deadline)
    self._clocks[self._key(job_id, round_id)] = entered
    log ITrainingRounds.PhaseChanged(
        job_id=job_id, round_id=round_id, phase=phase, deadline=deadline
    )
    return entered


@internal
def _void(job_id: uint256, round_id: uint256, clock: uint256, reason: String[32]) -> uint256:
    """
    @notice Ends a round without a result; its whole pool goes back to the job's escrow.
    """
    voided: uint256 = self._enter(job_id, round_id, clock | round_clock.SETTLED, VOID, 0)
    log ITrainingRounds.RoundVoided(job_id=job_id, round_id=round_id, reason=reason)
    self._end_job_if_due(job_id)
    extcall IRewardPool(pool).close(job_id, round_id)
    return voided


@internal
def _end_job_if_due(job_id: uint256):
    """
    @notice Ends a job without open round when its rounds are done or it was cancelled.
    """
    status: uint256 = ACTIVE
    if self._jobs[job_id].rounds_done == self._jobs[job_id].terms.rounds:
        status = COMPLETED
    elif self._jobs[job_id].cancel_requested:
        status = CANCELLED
    if status != ACTIVE:
        self._jobs[job_id].status = status
        log ITrainingRounds.JobEnded(job_id=job_id, status=status)


# Internal: snapshot


@internal
def _snapshot_trainers(
    job_id: uint256, round_id: uint256, key: bytes32, max_nodes: uint256
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice Marks the trainers of a new round as expected.
    @return Their node ids and weights.
    """
    job_key: bytes32 = self._key(job_id, 0)
    eligible: DynArray[uint256, 128] = []
    scores: DynArray[uint256, 128] = []
    eligible, scores = self._eligible(TRAINER, (round_id - 1) * max_nodes, max_nodes)
    nodes: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    index: uint256 = 0
    for node: uint256 in eligible:
        if not self._has(job_key, ABSENT, node):
            self._mark(key, EXPECTED, node)
            nodes.append(node)
            weights.append(max(1, scores[index] * self._reliability(job_id, round_id, node) // BPS))
        index += 1
    return nodes, weights


@internal
@view
def _eligible(
    role: uint256, start: uint256, limit: uint256
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice Eligible nodes of a role among `limit` from place `start` of its list, which wraps.
    @return Their node ids; the scores of trainers, the stakes of others.
    """
    return staticcall INodeRegistry(registry).eligible_nodes(role, start, limit)


@internal
@view
def _reliability(job_id: uint256, round_id: uint256, node_id: uint256) -> uint256:
    """
    @notice 1e4 * (1 + accepted) // (1 + expected) over the 8 rounds before `round_id`; accepted is
            revealed and not invalid.
    """
    expected: uint256 = 1
    accepted: uint256 = 1
    past: uint256 = round_id
    for _: uint256 in range(HISTORY):
        past -= 1
        if past == 0:
            break
        key: bytes32 = self._key(job_id, past)
        if self._has(key, EXPECTED, node_id):
            expected += 1
            if self._is_payable(key, node_id):
                accepted += 1
    return BPS * accepted // expected


# Internal: payment


@internal
def _pay_cuts(job_id: uint256, round_id: uint256, key: bytes32, result: Result, total: uint256):
    """
    @notice Credits the verifiers that attested, by weight, and the proposer; starts the trainers'
            distribution.
    """
    reward: uint256 = self._jobs[job_id].terms.reward_per_round
    verifier_cut: uint256 = reward * self._jobs[job_id].terms.verifier_bps // BPS
    cut_nodes: DynArray[uint256, 128] = [result.proposer]
    cut_amounts: DynArray[uint256, 128] = [reward * self._jobs[job_id].terms.aggregator_bps // BPS]
    for verifier: uint256 in self._attesters[result.result_hash]:
        cut_nodes.append(verifier)
        cut_amounts.append(verifier_cut * self._weights[key][verifier] // result.attested_stake)
    extcall IRewardPool(pool).start_distribution(job_id, round_id, total, cut_nodes, cut_amounts)


@internal
def _settle(
    job_id: uint256,
    round_id: uint256,
    clock: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Credits the next batch of valid nodes; after the last one closes the pool and, when
            it is due, the job.
    """
    key: bytes32 = self._key(job_id, round_id)
    first: uint256 = self._settled_nodes[key]
    last: uint256 = min(first + BATCH, len(nodes))
    all_valid: bool = round_clock._count(clock, round_clock.INVALID) == 0
    batch: DynArray[uint256, 128] = []
    amounts: DynArray[uint256, 128] = []
    for index: uint256 in range(first, last, bound=BATCH):
        if contributions[index] != 0 and (all_valid or self._is_payable(key, nodes[index])):
            batch.append(nodes[index])
            amounts.append(contributions[index])
    self._settled_nodes[key] = last
    done: bool = last == len(nodes)
    if done:
        self._clocks[key] = clock | round_clock.SETTLED
        self._end_job_if_due(job_id)
    if len(batch) != 0:
        extcall IRewardPool(pool).distribute(job_id, round_id, batch, amounts)
    if done:
        paid: uint256 = 0
        returned: uint256 = 0
        paid, returned = extcall IRewardPool(pool).close(job_id, round_id)
        log ITrainingRounds.RoundSettled(
            job_id=job_id, round_id=round_id, paid=paid, returned=returned
        )


# Internal: checks


@internal
@view
def _can_finalize(key: bytes32, clock: uint256) -> bool:
    """
    @notice CHALLENGE, and either two thirds attested with no report open, or its window passed.
    """
    if round_clock._phase(clock) != CHALLENGE:
        return False
    if block.timestamp > round_clock._deadline(clock):
        return True
    return (
        round_clock._open_reports(clock) == 0
        and 3 * self._results[key].attested_stake >= 2 * self._origins[key].verifier_stake
    )


@internal
@pure
def _is_over(clock: uint256) -> bool:
    """
    @notice Whether nothing is left to do in a round, or there is none.
    """
    return clock == 0 or clock & round_clock.SETTLED != 0


@internal
@view
def _is_payable(key: bytes32, node_id: uint256) -> bool:
    """
    @notice Whether a node revealed in the round and was not found invalid.
    """
    return self._has(key, REVEALED, node_id) and not self._has(key, INVALIDATED, node_id)


@internal
@view
def _on_duty(key: bytes32) -> uint256:
    """
    @notice The aggregator drawn by the round's seed.
    """
    return self._aggregators[key][
        convert(randomness._seed(key), uint256) % len(self._aggregators[key])
    ]


@internal
@view
def _parameters() -> INodeRegistry.Parameters:
    """
    @notice The registry's parameters.
    """
    return staticcall INodeRegistry(registry).parameters()


@internal
@view
def _check_in_time(clock: uint256):
    """
    @notice Stops an action after the deadline of its phase.
    """
    self._require(block.timestamp <= round_clock._deadline(clock), "rounds: too late")


@internal
@view
def _check_operator(node_id: uint256):
    """
    @notice Stops everybody but the operator of a node.
    """
    self._require(
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender,
        "rounds: not operator",
    )


@internal
@view
def _check_in_challenge(key: bytes32) -> uint256:
    """
    @notice Stops an action outside of CHALLENGE or after its deadline.
    @return uint256 The round's clock.
    """
    clock: uint256 = self._clocks[key]
    self._require(round_clock._phase(clock) == CHALLENGE, "rounds: not in challenge")
    self._check_in_time(clock)
    return clock


@internal
@view
def _check_reports(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Stops everybody but ViolationReports, and it outside of CHALLENGE.
    @return bytes32 The round's key.
    """
    self._require(msg.sender == reports, "rounds: not reports")
    key: bytes32 = self._key(job_id, round_id)
    self._check_in_challenge(key)
    return key


@internal
@pure
def _contributions_hash(
    nodes: DynArray[uint256, 128], contributions: DynArray[uint256, 128]
) -> bytes32:
    """
    @notice Digest of a result's nodes and contributions.
    """
    return keccak256(abi_encode(nodes, contributions))


# Internal: digests and bits


@internal
@view
def _commitment(
    job_id: uint256,
    round_id: uint256,
    node_id: uint256,
    operator: address,
    input_root: bytes32,
    content: bytes32,
    trace_root: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice See `commitment_digest`.
    """
    return keccak256(
        abi_encode(
            COMMIT_DOMAIN,
            chain.id,
            self,
            job_id,
            round_id,
            node_id,
            operator,
            input_root,
            content,
            trace_root,
            salt,
        )
    )


@internal
@pure
def _key(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Names a round in storage; also the key of its seed.
    """
    return keccak256(abi_encode(job_id, round_id))


@internal
@pure
def _audit_key(key: bytes32) -> bytes32:
    """
    @notice The key of a round's audit seed. One word, so it is never the key of a round.
    """
    return keccak256(abi_encode(key))


@internal
@view
def _has(key: bytes32, mark: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node has a mark in a round (or job).
    """
    return self._marks[key][self._word(mark, node_id)] & self._bit(node_id) != 0


@internal
def _mark(key: bytes32, mark: uint256, node_id: uint256):
    """
    @notice Gives a node a mark in a round (or job).
    """
    self._marks[key][self._word(mark, node_id)] |= self._bit(node_id)


@internal
@pure
def _word(mark: uint256, node_id: uint256) -> uint256:
    """
    @notice The index of the word that holds a node's bit of a mark.
    """
    return mark << 248 | node_id >> 8


@internal
@pure
def _bit(node_id: uint256) -> uint256:
    """
    @notice A node's bit in its word of a bitmap.
    """
    return 1 << (node_id & 255)


@internal
@pure
def _require(ok: bool, reason: String[32]):
    """
    @notice `assert ok, reason`, in one place: inline, the strings would not fit in the contract.
    """
    assert ok, reason
