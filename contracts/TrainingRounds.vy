# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
# pragma optimize gas
"""
@title TrainingRounds
@custom:contract-name TrainingRounds
@license AGPL-3.0-only
@notice A round of a job from its opening to the end of its reveals: who was expected, who committed
        to which work, who revealed it. A round runs COMMIT, then REVEAL. Both have a deadline, an
        action is allowed up to and including it, and anyone may move the round on once it has
        passed, so no absent party can stall a job. A phase also ends as soon as everybody expected
        has acted.

        When the reveals are over TrainingResults has the round: to judge its result, or as void
        when nobody committed or revealed. This contract stores its own two phases only; `phase` and
        `round` ask TrainingResults for the rest, so that they are right at any time.

        Rules this contract holds: a node commits once and for itself; a reveal opens exactly its
        commitment; who committed and did not reveal can be slashed, once, whatever became of the
        round.
@custom:kill The owner (the Coordinator) may pause `open_round`. Open rounds always run to their
             end: nothing that commits, reveals or moves a round on can be paused.
"""

from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import ITrainingJobs
from interfaces import ITrainingResults
from interfaces import ITrainingRounds

implements: IPausing
implements: ITrainingRounds

from contracts.modules import node_marks
from contracts.modules import pausing
from contracts.modules import randomness
from contracts.modules import round_clock
from contracts.modules import round_marks
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: node_marks
initializes: pausing
initializes: randomness
initializes: round_marks
initializes: ownable
initializes: ownable_2step[ownable := ownable]

exports: (
    pausing.paused,
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
)


# Pause bits.
PAUSE_OPEN_ROUND: constant(uint256) = 1

# Phases of a round. CLOSED is what is stored here once TrainingResults has the round.
COMMIT: constant(uint256) = 1
REVEAL: constant(uint256) = 2
CLOSED: constant(uint256) = 3
FINALIZED: constant(uint256) = 6

# Roles and violations of the registry.
TRAINER: constant(uint256) = 1
AGGREGATOR: constant(uint256) = 4
NO_REVEAL: constant(uint256) = 1

# Marks of a node in a round: two in modules/round_marks, the others in modules/node_marks, the last
# of them of a job.
EXPECTED: constant(uint256) = round_marks.LOW
REVEALED: constant(uint256) = round_marks.HIGH
FLAGGED: constant(uint256) = 3  # same content as another node
PENALIZED: constant(uint256) = 5  # slashed for not revealing
ABSENT: constant(uint256) = 7  # of a job, under the key of its round 0

COMMIT_DOMAIN: constant(bytes32) = keccak256("menagerie.TrainingRounds.commit.v1")
SEATS_DOMAIN: constant(bytes32) = keccak256("menagerie.TrainingRounds.seats.v1")

MAX_CANDIDATES: constant(uint256) = 128
MAX_AGGREGATORS: constant(uint256) = 16
BPS: constant(uint256) = 10_000
# Rounds that count towards a node's reliability.
HISTORY: constant(uint256) = 8
# Finalized rounds in a row without a commitment that make a node absent, and how far back to look.
ABSENCES: constant(uint256) = 3
ABSENCE_HISTORY: constant(uint256) = 32

registry: public(immutable(address))
jobs: public(immutable(address))
results: public(immutable(address))


# Of the word of `commit_on`.
_MASK_24: constant(uint256) = 2**24 - 1
_MASK_64: constant(uint256) = 2**64 - 1
# Bits of a block's hash that are not in it.
_UNSEEN: constant(uint256) = 160


struct Origin:
    opened_block: uint256
    prev_model: bytes32
    snapshot_hash: bytes32


# By round key, see `_key`.
_clocks: HashMap[bytes32, uint256]
_origins: HashMap[bytes32, Origin]
# The commitment; after the reveal keccak256(abi_encode(content, trace_root)).
_submissions: HashMap[bytes32, HashMap[uint256, bytes32]]
_first_with: HashMap[bytes32, HashMap[bytes32, uint256]]

# The newest round when a node rejoined its job: absences up to it no longer count.
_rejoined_at: HashMap[uint256, HashMap[uint256, uint256]]


@deploy
def __init__(
    registry_: address,
    jobs_: address,
    results_: address,
    owner_: address,
    random_source_: address,
):
    """
    @notice Fixes the other contracts, by predicted addresses where they do not exist yet.
    @dev Reverts: "rounds: zero address".
    @param registry_ NodeRegistry.
    @param jobs_ TrainingJobs.
    @param results_ TrainingResults.
    @param owner_ The Coordinator.
    @param random_source_ See modules/randomness; zero for `blockhash`.
    """
    for account: address in [registry_, jobs_, results_, owner_]:
        assert account != empty(address), "rounds: zero address"
    node_marks.__init__()
    pausing.__init__()
    randomness.__init__(random_source_)
    round_marks.__init__()
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    jobs = jobs_
    results = results_


# Owner


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_OPEN_ROUND = 1.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_OPEN_ROUND)


# Anyone


@external
def open_round(job_id: uint256) -> uint256:
    """
    @notice Anyone: opens the next round of an active job. Takes the snapshot of trainers and
            aggregators eligible in this block, has the round's pool set aside and pins the round's
            seed to the next block. Verifiers are those of the registry's `voters`, resting or not,
            with the stake that was bonded already when nobody could know of this round. Stake or
            nodes added later do not count.
    @dev When there are more trainers than seats, the snapshot holds up to 128 candidates with their
         scores, and `seat` draws the trainers from them by the round's seed. Of more than 128
         trainers, each round looks at the next 128 places of the list.
         A trainer's weight is its benchmark score times its reliability: 1e4 * (1 + accepted) //
         (1 + expected) over the job's last 8 rounds, // 1e4, at least 1.
         Reverts: "pausing: paused", "jobs: round open" (also when it is overdue: `advance` it),
         "jobs: job not active", "rounds: too few nodes", "pool: escrow too low".
    @param job_id The job.
    @return uint256 The round id.
    """
    pausing._check_not_paused(PAUSE_OPEN_ROUND)
    terms: ITrainingJobs.RoundTerms = extcall ITrainingJobs(jobs).begin_round(job_id)
    round_id: uint256 = terms.round_id
    key: bytes32 = self._key(job_id, round_id)

    nodes: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    nodes, weights = self._candidates(job_id, round_id)
    seats: uint256 = 0
    if len(nodes) > terms.max_nodes:
        seats = terms.max_nodes
    else:
        weights = self._take_seats(job_id, round_id, nodes, weights)
    verifiers: DynArray[uint256, 128] = []
    stakes: DynArray[uint256, 128] = []
    maturity: uint256 = staticcall INodeRegistry(registry).maturity()
    verifiers, stakes = staticcall INodeRegistry(registry).voters(block.timestamp - maturity)
    aggregators: DynArray[uint256, 128] = []
    ignored: DynArray[uint256, 128] = []
    aggregators, ignored = self._eligible(AGGREGATOR, 0, MAX_AGGREGATORS)
    assert (
        len(nodes) != 0 and len(verifiers) != 0 and len(aggregators) != 0
    ), "rounds: too few nodes"

    self._origins[key] = Origin(
        opened_block=block.number,
        prev_model=terms.model,
        snapshot_hash=keccak256(abi_encode(nodes, weights)),
    )
    log ITrainingRounds.RoundOpened(
        job_id=job_id,
        round_id=round_id,
        prev_model=terms.model,
        seed_block=randomness._request(key),
        nodes=nodes,
        weights=weights,
        verifiers=verifiers,
        stakes=stakes,
        aggregators=aggregators,
    )
    clock: uint256 = (
        block.timestamp << round_clock.OPENED_AT
        | (len(nodes) if seats == 0 else 0) << round_clock.ELIGIBLE
        | terms.reveal_s << round_clock.REVEAL_S
        | seats << round_clock.SEATS
    )
    self._enter(job_id, round_id, clock, COMMIT, terms.commit_s)
    extcall ITrainingResults(results).open(job_id, terms, verifiers, stakes, aggregators)
    return round_id


@external
def seat(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    scores: DynArray[uint256, 128],
):
    """
    @notice Anyone, once the seed of a round with more candidates than seats is known: draws who is
            seated. Each candidate has the same chance, whatever its place, because the list was
            fixed before the seed's block. Stores the seed too. Nobody can commit before.
    @dev A candidate is taken when its number of a chain of hashes, modulo the candidates left, is
         below the seats left; the first number is keccak256(abi_encode(SEATS_DOMAIN, seed)),
         SEATS_DOMAIN = keccak256("menagerie.TrainingRounds.seats.v1"). Weights as in `open_round`.
         Reverts: "rounds: no seats to draw", "rounds: too late", "rounds: wrong candidates",
         "rounds: seed expired" (call `capture_seed`), "randomness: too early".
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids of RoundOpened.
    @param scores The weights of RoundOpened.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    seats: uint256 = round_clock._count(clock, round_clock.SEATS)
    assert seats != 0 and round_clock._phase(clock) == COMMIT, "rounds: no seats to draw"
    assert block.timestamp <= round_clock._deadline(clock), "rounds: too late"
    assert (
        keccak256(abi_encode(nodes, scores)) == self._origins[key].snapshot_hash
    ), "rounds: wrong candidates"
    seed: bytes32 = randomness._capture(key)
    assert seed != empty(bytes32), "rounds: seed expired"

    seated: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    number: bytes32 = keccak256(abi_encode(SEATS_DOMAIN, seed))
    left: uint256 = len(nodes)
    index: uint256 = 0
    for node: uint256 in nodes:
        if convert(number, uint256) % left < seats:
            seated.append(node)
            weights.append(scores[index])
            seats = unsafe_sub(seats, 1)
        left = unsafe_sub(left, 1)
        index = unsafe_add(index, 1)
        number = keccak256(number)
    weights = self._take_seats(job_id, round_id, seated, weights)
    self._origins[key].snapshot_hash = keccak256(abi_encode(seated, weights))
    clock &= ~(255 << round_clock.SEATS)
    self._clocks[key] = (clock | len(seated) << round_clock.ELIGIBLE | round_clock.SEED_CAPTURED)
    log ITrainingRounds.RoundSeated(job_id=job_id, round_id=round_id, nodes=seated, weights=weights)


@external
def capture_seed(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the seed of a round. When the seed's block is too old to be known it is
            pinned to a new one.
    @dev Reverts: "rounds: no seed due" (it is stored), "randomness: not requested" (no such round),
         "randomness: too early".
    @param job_id The job.
    @param round_id The round.
    @return bytes32 The seed, empty when it was pinned to a new block.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    assert clock & round_clock.SEED_CAPTURED == 0, "rounds: no seed due"
    seed: bytes32 = randomness._capture(key)
    if seed != empty(bytes32):
        self._clocks[key] = clock | round_clock.SEED_CAPTURED
    return seed


@external
def advance(job_id: uint256, round_id: uint256):
    """
    @notice Anyone: moves a round on when the deadline of COMMIT or REVEAL has passed.
    @dev Reverts: "rounds: nothing to advance" (also when TrainingResults has the round: see its
         `advance`).
    @param job_id The job.
    @param round_id The round.
    """
    before: uint256 = self._clocks[self._key(job_id, round_id)]
    assert self._tick(job_id, round_id) != before, "rounds: nothing to advance"


@external
def slash_unrevealed(job_id: uint256, round_id: uint256, node_id: uint256) -> uint256:
    """
    @notice Anyone, once REVEAL is over: slashes a node that committed and did not reveal, once. The
            caller is the reporter and earns its share. What became of the round doesn't matter.
    @dev Reverts: "rounds: reveal not over", "rounds: not committed", "rounds: revealed",
         "rounds: already slashed".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return uint256 The amount slashed.
    """
    clock: uint256 = self._tick(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    assert round_clock._phase(clock) == CLOSED, "rounds: reveal not over"
    assert self._submissions[key][node_id] != empty(bytes32), "rounds: not committed"
    assert not round_marks._has(job_id, round_id, REVEALED, node_id), "rounds: revealed"
    assert not node_marks._has(key, PENALIZED, node_id), "rounds: already slashed"
    node_marks._mark(key, PENALIZED, node_id)
    amount: uint256 = extcall INodeRegistry(registry).slash(
        node_id, NO_REVEAL, round_clock._opened_at(clock), msg.sender
    )
    log ITrainingRounds.UnrevealedSlashed(
        job_id=job_id, round_id=round_id, node_id=node_id, amount=amount
    )
    return amount


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
    assert not node_marks._has(job_key, ABSENT, node_id), "rounds: already absent"
    round_id: uint256 = staticcall ITrainingJobs(jobs).rounds_opened(job_id)
    oldest: uint256 = self._rejoined_at[job_id][node_id]
    missed: uint256 = 0
    for _: uint256 in range(ABSENCE_HISTORY):
        if round_id <= oldest or missed == ABSENCES:
            break
        key: bytes32 = self._key(job_id, round_id)
        if (
            round_marks._has(job_id, round_id, EXPECTED, node_id)
            and staticcall ITrainingResults(results).phase(job_id, round_id) == FINALIZED
        ):
            assert self._submissions[key][node_id] == empty(bytes32), "rounds: not absent"
            missed += 1
        round_id -= 1
    assert missed == ABSENCES, "rounds: not absent"
    node_marks._mark(job_key, ABSENT, node_id)
    log ITrainingRounds.NodeAbsent(job_id=job_id, node_id=node_id, absent=True)


# Trainers


# `reentrant`, as is `commit_on`: the only call out of a commitment is a view of the registry, so
# the lock would protect nothing.
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
    self._commit(job_id, round_id, node_id, commitment)


@external
@reentrant
def commit_on(place: uint256, commitment: bytes32):
    """
    @notice `commit`, but only on the chain that the work was made on: work is bound to the round's
            seed, and a reorganisation may give the round another one. A transaction that is mined
            again after that leaves no commitment that can't be revealed; the node may commit to
            the work that the new seed asks for.
    @dev One word for all but the commitment: the bytes of a call are a part of its price, and every
         node pays it in every round. Reverts: "rounds: another chain" (also for a block older than
         256), and as `commit`; without a reason for a block that a chain younger than 256 blocks
         does not have.
    @param place job_id << 192 | round_id << 128 | node_id << 104 | (seen_block & 255) << 96 | the
                 last 12 bytes of that block's hash. The block is the one that the seed is taken
                 from, or a later one.
    @param commitment See `commitment_digest`.
    """
    self._commit(place >> 192, place >> 128 & _MASK_64, place >> 104 & _MASK_24, commitment)
    # Of the last 256 blocks the one whose number ends so.
    newest: uint256 = unsafe_sub(block.number, 1)
    seen: uint256 = unsafe_sub(newest, unsafe_sub(newest, place >> 96) & 255)
    assert (
        convert(blockhash(seen), uint256) << _UNSEEN == place << _UNSEEN
    ), "rounds: another chain"


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
            who came first proves nothing. The last reveal expected hands the
            round to TrainingResults, which opens AGGREGATE.
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
    assert clock & 255 == REVEAL, "rounds: not in reveal"  # written out, as in `commit`
    assert content != empty(bytes32) and trace_root != empty(bytes32), "rounds: empty artefact"
    assert self._submissions[key][node_id] == self._commitment(
        job_id, round_id, node_id, msg.sender, input_root, content, trace_root, salt
    ), "rounds: bad opening"

    self._submissions[key][node_id] = keccak256(abi_encode(content, trace_root))
    # Written out too.
    round_marks._words[job_id][round_id >> 3 << 64 | node_id >> 4] |= (
        1 << ((round_id & 7) << 5 | REVEALED | node_id & 15)
    )
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
        node_marks._mark(key, FLAGGED, first)
        node_marks._mark(key, FLAGGED, node_id)
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
def rejoin(job_id: uint256, node_id: uint256):
    """
    @notice A node's operator: brings an absent node back; earlier absences no longer count.
    @dev Reverts: "rounds: not operator", "rounds: not absent".
    @param job_id The job.
    @param node_id The node.
    """
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "rounds: not operator"
    job_key: bytes32 = self._key(job_id, 0)
    assert node_marks._has(job_key, ABSENT, node_id), "rounds: not absent"
    node_marks._unmark(job_key, ABSENT, node_id)
    self._rejoined_at[job_id][node_id] = staticcall ITrainingJobs(jobs).rounds_opened(job_id)
    log ITrainingRounds.NodeAbsent(job_id=job_id, node_id=node_id, absent=False)


# Views


@view
@reentrant
@external
def round(job_id: uint256, round_id: uint256) -> ITrainingRounds.Round:
    """
    @notice A round as stored, whoever has it: a passed deadline shows in `phase` only after
            somebody has acted. What is known only after the reveals comes from TrainingResults.
    @param job_id The job.
    @param round_id The round.
    @return ITrainingRounds.Round The round; all zero when there is none.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    origin: Origin = self._origins[key]
    result: ITrainingResults.Result = staticcall ITrainingResults(results).result(job_id, round_id)
    phase: uint256 = round_clock._phase(clock)
    deadline: uint256 = round_clock._deadline(clock)
    if phase == CLOSED:
        phase = result.phase
        deadline = result.deadline
    return ITrainingRounds.Round(
        phase=phase,
        deadline=deadline,
        opened_block=origin.opened_block,
        opened_at=round_clock._opened_at(clock),
        n_eligible=round_clock._count(clock, round_clock.ELIGIBLE),
        n_committed=round_clock._count(clock, round_clock.COMMITTED),
        n_revealed=round_clock._count(clock, round_clock.REVEALED),
        n_invalid=result.n_invalid,
        open_reports=result.open_reports,
        seed_block=randomness._target(key),
        seed=randomness._seed(key),
        audit_block=result.audit_block,
        audit_seed=result.audit_seed,
        prev_model=origin.prev_model,
        snapshot_hash=origin.snapshot_hash,
        verifier_stake=result.verifier_stake,
        attested_stake=result.attested_stake,
        proposer=result.proposer,
        result_hash=result.result_hash,
        model=result.model,
        update=result.update,
        report=result.report,
        contributions_hash=result.contributions_hash,
        challenger=result.challenger,
        settled=result.settled,
    )


@view
@reentrant
@external
def phase(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice The phase of a round as stored, whoever has it.
    @param job_id The job.
    @param round_id The round.
    @return uint256 The phase, 0 when there is no such round.
    """
    phase: uint256 = round_clock._phase(self._clocks[self._key(job_id, round_id)])
    if phase == CLOSED:
        return staticcall ITrainingResults(results).phase(job_id, round_id)
    return phase


@view
@reentrant
@external
def opened_at(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice When a round opened. An offence in it counts as of then.
    @param job_id The job.
    @param round_id The round.
    @return uint256 The time in seconds, 0 when there is no such round.
    """
    return round_clock._opened_at(self._clocks[self._key(job_id, round_id)])


@view
@reentrant
@external
def closed_at(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice When the reveals of a round were over and TrainingResults got it.
    @param job_id The job.
    @param round_id The round.
    @return uint256 The time in seconds; 0 before, in a round without reveals, and when there is no
            such round.
    """
    clock: uint256 = self._clocks[self._key(job_id, round_id)]
    if round_clock._phase(clock) != CLOSED:
        return 0
    return round_clock._deadline(clock)


@view
@reentrant
@external
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
@reentrant
@external
def revealed(job_id: uint256, round_id: uint256, index: uint256) -> uint256:
    """
    @notice Who of 16 nodes revealed in a round, as other contracts read it.
    @param job_id The job.
    @param round_id The round.
    @param index The nodes from 16 * index on, the first in the lowest bit.
    @return uint256 Their bits.
    """
    return round_marks._lane(job_id, round_id, REVEALED, index)


@view
@reentrant
@external
def is_expected(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node is a trainer of the round's snapshot.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it is.
    """
    return round_marks._has(job_id, round_id, EXPECTED, node_id)


@view
@reentrant
@external
def is_revealed(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node revealed in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it did.
    """
    return round_marks._has(job_id, round_id, REVEALED, node_id)


@view
@reentrant
@external
def is_flagged(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node revealed the same content as another node of the round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it did.
    """
    return node_marks._has(self._key(job_id, round_id), FLAGGED, node_id)


@view
@reentrant
@external
def is_absent(job_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node is out of a job's expected set, see `mark_absent`.
    @param job_id The job.
    @param node_id The node.
    @return bool Whether it is.
    """
    return node_marks._has(self._key(job_id, 0), ABSENT, node_id)


@view
@reentrant
@external
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
def _commit(job_id: uint256, round_id: uint256, node_id: uint256, commitment: bytes32):
    """
    @notice See `commit`.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    # Written out, unlike elsewhere: this is the call that every node pays for in every round.
    assert clock & 255 == COMMIT, "rounds: not in commit"
    assert (
        block.timestamp <= clock >> round_clock._DEADLINE & round_clock._TIME_MASK
    ), "rounds: too late"
    assert (
        round_marks._words[job_id][round_id >> 3 << 64 | node_id >> 4]
        >> ((round_id & 7) << 5 | node_id & 15)
        & 1
        != 0
    ), "rounds: not expected"
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "rounds: not operator"
    assert commitment != empty(bytes32), "rounds: empty commitment"
    assert self._submissions[key][node_id] == empty(bytes32), "rounds: already committed"
    if clock & round_clock.SEED_CAPTURED == 0:
        assert randomness._capture(key) != empty(bytes32), "rounds: seed expired"
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


@internal
def _tick(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice Moves a round on when the deadline of its phase has passed.
    @dev Each phase gets its whole window from the moment it is entered, so one call makes at most
         one step.
    @return uint256 The round's clock, stored.
    """
    clock: uint256 = self._clocks[self._key(job_id, round_id)]
    if block.timestamp <= round_clock._deadline(clock):
        return clock
    phase: uint256 = round_clock._phase(clock)
    if phase == COMMIT:
        return self._leave_commit(job_id, round_id, clock)
    if phase == REVEAL:
        return self._leave_reveal(job_id, round_id, clock)
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
    @notice REVEAL is over. The first commit has stored the seed, so it is known here.
    """
    if round_clock._count(clock, round_clock.REVEALED) == 0:
        return self._void(job_id, round_id, clock, "no reveals")
    key: bytes32 = self._key(job_id, round_id)
    # The time of it takes the place of a deadline, which CLOSED has none of.
    closed: uint256 = round_clock._enter(clock, CLOSED, block.timestamp)
    self._clocks[key] = closed
    extcall ITrainingResults(results).begin(job_id, round_id, randomness._seed(key))
    return closed


@internal
def _void(job_id: uint256, round_id: uint256, clock: uint256, reason: String[32]) -> uint256:
    """
    @notice Ends a round in which nobody has worked.
    """
    closed: uint256 = round_clock._enter(clock, CLOSED, 0)
    self._clocks[self._key(job_id, round_id)] = closed
    extcall ITrainingResults(results).void(job_id, round_id, reason)
    return closed


@internal
def _enter(
    job_id: uint256, round_id: uint256, clock: uint256, phase: uint256, window: uint256
) -> uint256:
    """
    @notice Stores the clock in a phase that lasts `window` seconds from now.
    """
    deadline: uint256 = block.timestamp + window
    entered: uint256 = round_clock._enter(clock, phase, deadline)
    self._clocks[self._key(job_id, round_id)] = entered
    log ITrainingRounds.PhaseChanged(
        job_id=job_id, round_id=round_id, phase=phase, deadline=deadline
    )
    return entered


# Internal: snapshot


@internal
@view
def _candidates(
    job_id: uint256, round_id: uint256
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice The eligible trainers that are not absent: all, or those of the round's 128 places.
    @return Their node ids and scores.
    """
    job_key: bytes32 = self._key(job_id, 0)
    eligible: DynArray[uint256, 128] = []
    scores: DynArray[uint256, 128] = []
    eligible, scores = self._eligible(TRAINER, (round_id - 1) * MAX_CANDIDATES, MAX_CANDIDATES)
    nodes: DynArray[uint256, 128] = []
    present: DynArray[uint256, 128] = []
    at: uint256 = max_value(uint256)
    absent: uint256 = 0
    index: uint256 = 0
    for node: uint256 in eligible:
        if node >> 8 != at:
            at = node >> 8
            absent = node_marks._word(job_key, ABSENT, at)
        if absent & 1 << (node & 255) == 0:
            nodes.append(node)
            present.append(scores[index])
        index = unsafe_add(index, 1)
    return nodes, present


@internal
def _take_seats(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    scores: DynArray[uint256, 128],
) -> DynArray[uint256, 128]:
    """
    @notice Marks the trainers of a round as expected. What is known of 16 nodes is read at once,
            and again only for a node of another 16.
    @return Their weights.
    """
    last_invalid: uint256 = staticcall ITrainingResults(results).last_invalid(job_id)
    with_invalid: bool = last_invalid != 0 and last_invalid + HISTORY >= round_id
    weights: DynArray[uint256, 128] = []
    at: uint256 = max_value(uint256)
    marked: uint256 = 0
    expected: uint256 = 0
    accepted: uint256 = 0
    index: uint256 = 0
    for node: uint256 in nodes:
        if node >> 4 != at:
            if marked != 0:
                round_marks._mark_all(job_id, round_id, at, marked)
                marked = 0
            at = node >> 4
            expected = round_marks._history(job_id, round_id, at)
            accepted = expected >> REVEALED
            if with_invalid:
                accepted &= ~staticcall ITrainingResults(results).invalid_history(
                    job_id, round_id, at
                )
        marked |= 1 << (node & 15)
        chances: uint256 = 1 + round_marks._count(expected, node)
        kept: uint256 = 1 + round_marks._count(accepted, node)
        weights.append(max(1, scores[index] * (BPS * kept // chances) // BPS))
        index = unsafe_add(index, 1)
    if marked != 0:
        round_marks._mark_all(job_id, round_id, at, marked)
    return weights


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


# Internal: digests


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
