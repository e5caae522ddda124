# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
# pragma optimize gas
"""
@title TrainingResults
@custom:contract-name TrainingResults
@license AGPL-3.0-only
@notice What comes of a round once its reveals are over. A round runs AGGREGATE, CHALLENGE, perhaps
        DISPUTED, and ends FINALIZED or VOID. Every phase has a deadline, an action is allowed up to
        and including it, and anyone may move a round on once it has passed, so no absent party can
        stall a job.

        TrainingRounds opens a round here when it opens it there, so that its pool is set aside and
        the weights of its verifiers are fixed before anybody works. It hands the round over when
        the reveals are over (`begin`), or has it ended when nobody worked (`void`). Until then the
        phase is 0 here, and nobody else can act on the round.

        A result may be challenged once. Meanwhile everything else goes on: verifiers attest and
        report. A challenge that nobody decides in time falls to the verifiers: with their two
        thirds the result stands, else the round is void. A round that can't be settled within its
        `settle_by` is void, so the stakes of those in it are slashable until its end.

        Rules this contract holds: a round finalizes once; only work revealed in the round and not
        found invalid is paid; the weight of a verifier is its stake when the round opened; every
        end of a round closes its pool once and ends it once in TrainingJobs.
@custom:kill Nothing can be paused: open rounds always run to their end. Pausing `open_round` in
             TrainingRounds stops new ones.
"""

from interfaces import IAnnouncements
from interfaces import IBonds
from interfaces import INodeRegistry
from interfaces import IRewardPool
from interfaces import ITrainingJobs
from interfaces import ITrainingLedger
from interfaces import ITrainingResults
from interfaces import ITrainingRounds
from interfaces import IViolationReports

implements: IAnnouncements
implements: IBonds
implements: ITrainingResults

from contracts.modules import announcements
from contracts.modules import bonds
from contracts.modules import randomness
from contracts.modules import round_clock
from contracts.modules import round_marks
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: announcements
initializes: bonds
initializes: randomness
initializes: round_marks
initializes: ownable
initializes: ownable_2step[ownable := ownable]

exports: (
    announcements.announced_in,
    bonds.withdraw_bond,
    bonds.bond_credit,
    bonds.bonds_held,
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
)


# Phases of a round; 0 while TrainingRounds has it.
AGGREGATE: constant(uint256) = 3
CHALLENGE: constant(uint256) = 4
DISPUTED: constant(uint256) = 5
FINALIZED: constant(uint256) = 6
VOID: constant(uint256) = 7

# Violations of the registry.
BAD_RESULT: constant(uint256) = 5

# Marks of a node in a round.
INVALIDATED: constant(uint256) = round_marks.LOW
BARRED: constant(uint256) = round_marks.HIGH  # proposed a result that was successfully challenged

MAX_VERIFIERS: constant(uint256) = 32
MAX_AMOUNT: constant(uint256) = 2**128
BPS: constant(uint256) = 10_000
# Verifiers, each of another owner, that a result needs before its window has passed.
MIN_VOICES: constant(uint256) = 2
# Nodes paid in one transaction.
BATCH: constant(uint256) = 64

# A verifier's word: its weight, and above it the number of the attempt that it attested last.
_ATTESTED: constant(uint256) = 128
# The word of a result's attestations: their weight, and above it their number.
_ATTESTERS: constant(uint256) = 128
_WEIGHT_MASK: constant(uint256) = 2**128 - 1

registry: public(immutable(address))
pool: public(immutable(address))
ledger: public(immutable(address))
reports: public(immutable(address))
jobs: public(immutable(address))
rounds: public(immutable(address))


struct Proposal:
    proposer: uint256
    result_hash: bytes32
    model: bytes32
    update: bytes32
    report: bytes32
    contributions_hash: bytes32


# By round key, see `_key`.
_clocks: HashMap[bytes32, uint256]
_proposals: HashMap[bytes32, Proposal]
_challengers: HashMap[bytes32, address]
_aggregators: HashMap[bytes32, DynArray[uint256, 16]]
_verifiers: HashMap[bytes32, HashMap[uint256, uint256]]
_verifier_stakes: HashMap[bytes32, uint256]
# Nodes of the arrays that are paid that settlement has gone through.
_settled_nodes: HashMap[bytes32, uint256]

# By result hash: the word of its attestations, and the verifiers behind them in order.
_attestations: HashMap[bytes32, uint256]
_attesters: HashMap[bytes32, HashMap[uint256, uint256]]

# By job, the newest round in which a node's work was found invalid.
last_invalid: public(HashMap[uint256, uint256])


@deploy
def __init__(
    token_: address,
    registry_: address,
    pool_: address,
    ledger_: address,
    reports_: address,
    jobs_: address,
    rounds_: address,
    owner_: address,
    random_source_: address,
):
    """
    @notice Fixes the other contracts, by predicted addresses where they do not exist yet.
    @dev Reverts: "results: zero address", "bonds: zero address".
    @param token_ ZOO.
    @param registry_ NodeRegistry.
    @param pool_ RewardPool.
    @param ledger_ TrainingLedger.
    @param reports_ ViolationReports.
    @param jobs_ TrainingJobs.
    @param rounds_ TrainingRounds.
    @param owner_ The Coordinator.
    @param random_source_ See modules/randomness; zero for `blockhash`.
    """
    for account: address in [registry_, pool_, ledger_, reports_, jobs_, rounds_, owner_]:
        assert account != empty(address), "results: zero address"
    announcements.__init__()
    bonds.__init__(token_)
    randomness.__init__(random_source_)
    round_marks.__init__()
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    pool = pool_
    ledger = ledger_
    reports = reports_
    jobs = jobs_
    rounds = rounds_


# TrainingRounds only


@external
def open(
    job_id: uint256,
    terms: ITrainingJobs.RoundTerms,
    verifiers: DynArray[uint256, 128],
    stakes: DynArray[uint256, 128],
    aggregators: DynArray[uint256, 128],
):
    """
    @notice TrainingRounds only, when it opens a round: fixes who may judge the round's result and
            with what weight, and sets the round's pool aside.
    @dev Reverts: "results: not rounds", "results: already open", "pool: escrow too low".
    @param job_id The job.
    @param terms The round's number, windows and reward.
    @param verifiers The verifiers of the snapshot, at most 32.
    @param stakes The stake of each, which is its weight.
    @param aggregators The aggregators of the snapshot, at most 16.
    """
    assert msg.sender == rounds, "results: not rounds"
    key: bytes32 = self._key(job_id, terms.round_id)
    assert self._clocks[key] == 0, "results: already open"
    total: uint256 = 0
    index: uint256 = 0
    for verifier: uint256 in verifiers:
        self._verifiers[key][verifier] = stakes[index]
        total = unsafe_add(total, stakes[index])
        index = unsafe_add(index, 1)
    self._verifier_stakes[key] = total
    for aggregator: uint256 in aggregators:
        self._aggregators[key].append(aggregator)
    self._clocks[key] = (
        terms.aggregate_s << round_clock.AGGREGATE_S
        | terms.challenge_s << round_clock.CHALLENGE_S
        | terms.dispute_s << round_clock.DISPUTE_S
        | terms.settle_by << round_clock.SETTLE_BY
    )
    extcall IRewardPool(pool).reserve(job_id, terms.round_id, terms.reward)


@external
def begin(job_id: uint256, round_id: uint256, seed: bytes32):
    """
    @notice TrainingRounds only, when the reveals of a round are over: opens AGGREGATE, draws the
            aggregator on duty by the round's seed, and pins the audit seed to the next block.
            Nobody can reveal selectively on a seed that is pinned only now. A round that was moved
            on so late that no result can be settled any more is void.
    @dev Reverts: "results: not rounds", "results: not waiting" (not open, or begun already).
    @param job_id The job.
    @param round_id The round.
    @param seed The round's seed.
    """
    clock: uint256 = self._check_waiting(job_id, round_id)
    if not self._fits(clock, 2):
        self._void(job_id, round_id, clock, "no time left")
        return
    key: bytes32 = self._key(job_id, round_id)
    duty: uint256 = convert(seed, uint256) % len(self._aggregators[key])
    randomness._request(self._audit_key(key))
    self._enter(
        job_id,
        round_id,
        clock | duty << round_clock.DUTY,
        AGGREGATE,
        round_clock.AGGREGATE_S,
    )


@external
def void(job_id: uint256, round_id: uint256, reason: String[32]):
    """
    @notice TrainingRounds only, when nobody has committed or nobody has revealed: ends the round
            without a result. What its pool took from the job's escrow goes back there.
    @dev Reverts: "results: not rounds", "results: not waiting" (not open, or begun already).
    @param job_id The job.
    @param round_id The round.
    @param reason Why, for the event.
    """
    clock: uint256 = self._check_waiting(job_id, round_id)
    self._void(job_id, round_id, clock, reason)


# Anyone


@external
def capture_audit_seed(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the audit seed of a round. When the seed's block is too old to be known
            it is pinned to a new one.
    @dev Reverts: "results: no seed due" (it is stored), "randomness: not requested" (no such round,
         or its reveals are not over), "randomness: too early".
    @param job_id The job.
    @param round_id The round.
    @return bytes32 The seed, empty when it was pinned to a new block.
    """
    audit_key: bytes32 = self._audit_key(self._key(job_id, round_id))
    assert randomness._seed(audit_key) == empty(bytes32), "results: no seed due"
    return randomness._capture(audit_key)


@external
def advance(job_id: uint256, round_id: uint256):
    """
    @notice Anyone: moves a round on when the deadline of AGGREGATE or DISPUTED has passed.
    @dev Reverts: "results: nothing to advance" (also while TrainingRounds has the round: see its
         `advance`).
    @param job_id The job.
    @param round_id The round.
    """
    before: uint256 = self._clocks[self._key(job_id, round_id)]
    assert self._tick(job_id, round_id) != before, "results: nothing to advance"


@external
def finalize(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Anyone: makes the proposed result final when all verifiers of the snapshot, at least
            two, confirmed it and no report with a third of their weight is open; in the last half
            of the job's challenge window two thirds of the weight are enough; when the window
            passed, nobody need have confirmed it. Records it in the ledger, credits the cuts and
            the first 64 nodes, which are those of the consensus where a job's validators have one.
            The share of a node that was found invalid in this round is paid to nobody else in it:
            it is set aside until the report on the node has its end, or is carried to the trainers
            of the job's next round when it has had it.
    @dev Reverts: "results: not finalizable", "results: wrong contributions".
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids of ResultProposed.
    @param contributions The contributions of ResultProposed.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    assert self._can_finalize(key, clock), "results: not finalizable"
    contributions_hash: bytes32 = self._contributions_hash(nodes, contributions)
    self._check_contributions(key, contributions_hash)

    # What a node that was found invalid would get is not spread over the others. Each is below
    # 2**128.
    total: uint256 = 0
    for contribution: uint256 in contributions:
        total = unsafe_add(total, contribution)
    clock = self._enter(job_id, round_id, clock, FINALIZED, 0)
    model: bytes32 = self._proposals[key].model
    log ITrainingResults.RoundFinalized(
        job_id=job_id, round_id=round_id, model=model, total_contribution=total
    )
    head: bytes32 = empty(bytes32)
    verifier_bps: uint256 = 0
    aggregator_bps: uint256 = 0
    head, verifier_bps, aggregator_bps = staticcall ITrainingJobs(jobs).payment(job_id)
    amount: uint256 = extcall ITrainingLedger(ledger).record_round(
        job_id,
        round_id,
        head,
        model,
        keccak256(abi_encode(nodes)),
        contributions_hash,
        self._proposals[key].report,
    )
    self._pay_cuts(
        job_id,
        round_id,
        nodes,
        total,
        unsafe_div(unsafe_mul(amount, verifier_bps), BPS),
        unsafe_div(unsafe_mul(amount, aggregator_bps), BPS),
    )
    self._settle(job_id, round_id, clock, nodes, contributions)


@external
def settle(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
):
    """
    @notice Anyone: credits the next 64 nodes of a finalized round that `finalize` did not pay.
    @dev Reverts: "results: nothing to settle", "results: wrong contributions".
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids of ResultProposed.
    @param contributions The contributions of ResultProposed.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    assert (
        round_clock._phase(clock) == FINALIZED and clock & round_clock.SETTLED == 0
    ), "results: nothing to settle"
    self._check_contributions(key, self._contributions_hash(nodes, contributions))
    self._settle(job_id, round_id, clock, nodes, contributions)


# Aggregators


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
            nodes whose result was successfully challenged in this round, and nodes that are banned
            or suspended. Once there was such a challenge, a trainer may not propose: else each of
            many could hold the round a day.
    @dev result_hash = keccak256(abi_encode(job_id, round_id, attempt, model, update, report,
         contributions_hash)), contributions_hash = keccak256(abi_encode(nodes, contributions)).
         Reverts: "results: not in aggregate", "results: not operator", "results: not on duty",
         "results: not in snapshot", "results: barred", "results: empty artefact",
         "results: length mismatch", "results: nodes not ascending", "results: node not payable"
         (not revealed in this round), "results: bad amount". A node that was found invalid has its
         part in every result, so that its share is there if it is cleared; `_settle` pays it out or
         not. Node 0 is nobody: its contribution is that of work which was handed out and does not
         count, and the treasury gets its share. So nobody's share grows by what others lose.
    @param job_id The job.
    @param round_id The round.
    @param node_id The proposing node.
    @param model Hash of the new model.
    @param update Digest of the canonical update.
    @param report Digest of the report.
    @param nodes Contributing nodes, strictly ascending; may be empty. The first may be 0.
    @param contributions Their contributions, each < 2**128.
    """
    clock: uint256 = self._tick(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    assert round_clock._phase(clock) == AGGREGATE, "results: not in aggregate"
    if clock & round_clock.FALLBACK == 0:
        assert node_id == self._on_duty(key, clock), "results: not on duty"
    else:
        assert (
            self._verifiers[key][node_id] != 0
            or node_id in self._aggregators[key]
            or (
                round_clock._count(clock, round_clock.ATTEMPT) == 0
                and staticcall ITrainingRounds(rounds).is_expected(job_id, round_id, node_id)
            )
        ), "results: not in snapshot"
        assert not round_marks._has(job_id, round_id, BARRED, node_id), "results: barred"
    # Who is banned or suspended may have nothing left that answers for a wrong result.
    assert (
        staticcall INodeRegistry(registry).acting_operator(node_id) == msg.sender
    ), "results: not operator"
    assert (
        model != empty(bytes32) and update != empty(bytes32) and report != empty(bytes32)
    ), "results: empty artefact"
    assert len(nodes) == len(contributions), "results: length mismatch"
    least: uint256 = 0
    at: uint256 = max_value(uint256)
    accepted: uint256 = 0
    index: uint256 = 0
    for node: uint256 in nodes:
        assert node >= least, "results: nodes not ascending"
        if node >> 4 != at:
            at = node >> 4
            accepted = staticcall ITrainingRounds(rounds).revealed(job_id, round_id, at)
        if node != 0:
            assert accepted >> (node & 15) & 1 != 0, "results: node not payable"
        assert contributions[index] < MAX_AMOUNT, "results: bad amount"
        least = unsafe_add(node, 1)
        index = unsafe_add(index, 1)
    # At most 176 proposers can have an attempt each.
    clock = unsafe_add(clock & ~round_clock.CHALLENGED, 1 << round_clock.ATTEMPT)
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
    self._proposals[key] = Proposal(
        proposer=node_id,
        result_hash=result_hash,
        model=model,
        update=update,
        report=report,
        contributions_hash=contributions_hash,
    )
    log ITrainingResults.ResultProposed(
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
        round_clock.CHALLENGE_S,
    )


# Verifiers and challengers


@external
def attest(job_id: uint256, round_id: uint256, verifier_id: uint256, result_hash: bytes32):
    """
    @notice The operator of a verifier of the snapshot confirms the proposed result, once, also
            while it is disputed. The verifier's weight is that of the snapshot; one that is
            suspended or banned has no say.
    @dev Reverts: "results: not in challenge", "results: too late", "results: wrong result",
         "results: not operator", "results: not a verifier", "results: already attested".
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param result_hash The result it confirms.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._check_in_challenge(key)
    self._check_result(key, result_hash)
    assert (
        staticcall INodeRegistry(registry).acting_operator(verifier_id) == msg.sender
    ), "results: not operator"
    word: uint256 = self._verifiers[key][verifier_id]
    weight: uint256 = word & _WEIGHT_MASK
    assert weight != 0, "results: not a verifier"
    attempt: uint256 = round_clock._count(clock, round_clock.ATTEMPT)
    assert word >> _ATTESTED != attempt, "results: already attested"
    attestations: uint256 = self._attestations[result_hash]
    self._verifiers[key][verifier_id] = attempt << _ATTESTED | weight
    self._attesters[result_hash][attestations >> _ATTESTERS] = verifier_id
    # 32 verifiers at most, whose weights have a sum of less than 2**128.
    self._attestations[result_hash] = unsafe_add(attestations, 1 << _ATTESTERS | weight)
    log ITrainingResults.Attested(
        job_id=job_id,
        round_id=round_id,
        verifier_id=verifier_id,
        result_hash=result_hash,
        weight=weight,
    )


@external
def announce_challenge(digest: bytes32):
    """
    @notice Anyone, before it challenges a result, with a deposit of the least bond that
            TrainingJobs permits: says that it has found one, without saying which. The digest is
            keccak256(abi_encode(keccak256("menagerie.announcements.v1"), chain id, this contract,
            job_id, round_id, result_hash, msg.sender, evidence)), with evidence that nobody can
            guess. The deposit goes back when the announcement is opened, which takes a challenge:
            announcing every result in case somebody challenges it costs a deposit each time.
    @dev Reverts: "announcements: already announced", "bonds: transfer failed", and the token's
         reasons. The scope of the event is the sender.
    @param digest What `challenge` will open.
    """
    bounds: ITrainingJobs.Bounds = staticcall ITrainingJobs(jobs).bounds()
    announcements._announce(convert(msg.sender, bytes32), digest, bounds.least_bond)
    bonds._take(msg.sender, bounds.least_bond)


@external
def expire_announcement(account: address, digest: bytes32):
    """
    @notice Anyone, when an announcement was not opened within an unbonding period, in which every
            round ends: the treasury gets its deposit.
    @dev Reverts: "announcements: not announced", "announcements: too early".
    @param account Whose announcement.
    @param digest What was announced.
    """
    parameters: INodeRegistry.Parameters = self._parameters()
    deposit: uint256 = announcements._expire(
        convert(account, bytes32), digest, parameters.unbonding_period
    )
    bonds._credit(parameters.treasury, deposit)


@external
def challenge(job_id: uint256, round_id: uint256, result_hash: bytes32, evidence: bytes32):
    """
    @notice Anyone, with the job's bond: disputes the proposed result before the owner, once: the
            owner looks at the result, whoever challenges it. If the sender has announced it, its
            deposit goes back, also when another was faster: then it is one more challenger without
            a bond. If the challenge is upheld, the bounty belongs to the oldest announcement that
            was opened, and to the treasury if there is none from before the first challenge.
    @dev Reverts: "results: not in challenge", "results: too late", "results: already challenged",
         "results: wrong result".
    @param job_id The job.
    @param round_id The round.
    @param result_hash The result it attacks.
    @param evidence Digest of the evidence, the one that was announced if one was.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._check_in_challenge(key)
    self._check_result(key, result_hash)
    finder: uint256 = convert(msg.sender, uint256)
    opened: bool = False
    deposit: uint256 = 0
    opened, deposit = announcements._open(
        convert(msg.sender, bytes32),
        announcements._digest(job_id, round_id, convert(result_hash, uint256), finder, evidence),
        result_hash,
        finder,
    )
    if opened:
        bonds._credit(msg.sender, deposit)
    if clock & round_clock.CHALLENGED != 0:
        assert opened, "results: already challenged"
        return
    announcements._publish(result_hash)
    bond: uint256 = staticcall ITrainingJobs(jobs).challenge_bond(job_id)
    self._challengers[key] = msg.sender
    log ITrainingResults.Challenged(
        job_id=job_id, round_id=round_id, challenger=msg.sender, evidence=evidence, bond=bond
    )
    # Not late, see `_check_in_challenge`.
    left: uint256 = unsafe_sub(round_clock._deadline(clock), block.timestamp)
    clock &= ~(round_clock._WINDOW_MASK << round_clock.LEFT_S)
    self._enter(
        job_id,
        round_id,
        clock | round_clock.CHALLENGED | left << round_clock.LEFT_S,
        DISPUTED,
        round_clock.DISPUTE_S,
    )
    bonds._take(msg.sender, bond)


# Owner


@external
def resolve_challenge(job_id: uint256, round_id: uint256, result_hash: bytes32, upheld: bool):
    """
    @notice Owner only, until the dispute deadline. Upheld: the proposer is slashed for the result's
            finder and barred from this round, the bond goes back and any other node of the snapshot
            may propose, if there is time for another result. Rejected: the treasury gets the bond,
            and what was left of the challenge window goes on, or half a window if that is more.
    @dev Reverts: "ownable: caller is not the owner", "results: not disputed", "results: too late",
         "results: wrong result".
    @param job_id The job.
    @param round_id The round.
    @param result_hash The disputed result.
    @param upheld Whether the challenger is right.
    """
    ownable._check_owner()
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    assert round_clock._phase(clock) == DISPUTED, "results: not disputed"
    self._check_in_time(clock)
    self._check_result(key, result_hash)
    log ITrainingResults.ChallengeResolved(job_id=job_id, round_id=round_id, upheld=upheld)
    self._end_challenge(job_id, key, upheld)
    if upheld:
        proposer: uint256 = self._proposals[key].proposer
        round_marks._mark(job_id, round_id, BARRED, proposer)
        self._proposals[key] = empty(Proposal)
        self._aggregate_again(job_id, round_id, clock)
        extcall INodeRegistry(registry).slash(
            proposer,
            BAD_RESULT,
            staticcall ITrainingRounds(rounds).opened_at(job_id, round_id),
            convert(announcements._finder(result_hash), address),
        )
    else:
        self._resume(job_id, round_id, clock, block.timestamp)


# ViolationReports only


@external
def report_opened(job_id: uint256, round_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE or DISPUTED: a report has a third of the weight, so
            that early finalization waits for it.
    @dev Reverts: "results: not reports", "results: not in challenge", "results: too late".
    @param job_id The job.
    @param round_id The round.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    self._clocks[key] += 1 << round_clock.OPEN_REPORTS


@external
def report_closed(job_id: uint256, round_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE or DISPUTED: a report with a third was decided.
    @dev Reverts: "results: not reports", "results: not in challenge", "results: too late",
         "results: no open report".
    @param job_id The job.
    @param round_id The round.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    assert round_clock._open_reports(self._clocks[key]) != 0, "results: no open report"
    self._clocks[key] -= 1 << round_clock.OPEN_REPORTS


@external
def invalidate(job_id: uint256, round_id: uint256, node_id: uint256):
    """
    @notice ViolationReports only, in CHALLENGE or DISPUTED: the node's work in this round is not
            paid.
    @dev Reverts: "results: not reports", "results: not in challenge", "results: too late",
         "results: node not payable" (not revealed, or invalid already).
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    """
    key: bytes32 = self._check_reports(job_id, round_id)
    assert not round_marks._has(
        job_id, round_id, INVALIDATED, node_id
    ) and staticcall ITrainingRounds(rounds).is_revealed(
        job_id, round_id, node_id
    ), "results: node not payable"
    round_marks._mark(job_id, round_id, INVALIDATED, node_id)
    self._clocks[key] += 1 << round_clock.INVALID
    self.last_invalid[job_id] = max(self.last_invalid[job_id], round_id)
    log ITrainingResults.NodeInvalidated(job_id=job_id, round_id=round_id, node_id=node_id)


@external
def clear(job_id: uint256, round_id: uint256, node_id: uint256):
    """
    @notice ViolationReports only, when the appeal of an invalidated node was upheld or not decided:
            the node's work counts again, and is paid if the round is not settled yet.
    @dev Reverts: "results: not reports".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    """
    assert msg.sender == reports, "results: not reports"
    key: bytes32 = self._key(job_id, round_id)
    round_marks._unmark(job_id, round_id, INVALIDATED, node_id)
    self._clocks[key] -= 1 << round_clock.INVALID
    log ITrainingResults.NodeCleared(job_id=job_id, round_id=round_id, node_id=node_id)


# Views


@view
@reentrant
@external
def result(job_id: uint256, round_id: uint256) -> ITrainingResults.Result:
    """
    @notice What this contract stores of a round. TrainingRounds' `round` says everything of it.
    @param job_id The job.
    @param round_id The round.
    @return ITrainingResults.Result All zero when there is no such round; the phase is 0 while
            TrainingRounds has it.
    """
    key: bytes32 = self._key(job_id, round_id)
    audit_key: bytes32 = self._audit_key(key)
    clock: uint256 = self._clocks[key]
    proposal: Proposal = self._proposals[key]
    return ITrainingResults.Result(
        phase=round_clock._phase(clock),
        deadline=round_clock._deadline(clock),
        n_invalid=round_clock._count(clock, round_clock.INVALID),
        open_reports=round_clock._open_reports(clock),
        audit_block=randomness._target(audit_key),
        audit_seed=randomness._seed(audit_key),
        verifier_stake=self._verifier_stakes[key],
        attested_stake=self._attestations[proposal.result_hash] & _WEIGHT_MASK,
        proposer=proposal.proposer,
        result_hash=proposal.result_hash,
        model=proposal.model,
        update=proposal.update,
        report=proposal.report,
        contributions_hash=proposal.contributions_hash,
        challenger=self._challengers[key],
        settled=clock & round_clock.SETTLED != 0,
    )


@view
@reentrant
@external
def phase(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice The phase of a round as stored here: 0 while TrainingRounds has the round, and for a
            round that does not exist. TrainingRounds' `phase` is right at any time.
    @param job_id The job.
    @param round_id The round.
    @return uint256 The phase.
    """
    return round_clock._phase(self._clocks[self._key(job_id, round_id)])


@view
@reentrant
@external
def is_challenged(job_id: uint256, round_id: uint256) -> bool:
    """
    @notice Whether the newest result of a round was challenged, which it can be once.
    @param job_id The job.
    @param round_id The round.
    @return bool Whether it was, also when that has been decided.
    """
    return self._clocks[self._key(job_id, round_id)] & round_clock.CHALLENGED != 0


@view
@reentrant
@external
def is_invalid(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node's work was found invalid in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether it was.
    """
    return round_marks._has(job_id, round_id, INVALIDATED, node_id)


@view
@reentrant
@external
def invalid_history(job_id: uint256, round_id: uint256, index: uint256) -> uint256:
    """
    @notice Whose work was found invalid in the 8 rounds before a round, 16 nodes at once.
    @param job_id The job.
    @param round_id The round after them.
    @param index The nodes from 16 * index on, the first in the lowest bit.
    @return uint256 32 bits a round, each in the lane of its number modulo 8; 0 for rounds before
                    the first.
    """
    return round_marks._history(job_id, round_id, index) & round_marks.LOW_HALVES


@view
@reentrant
@external
def verifier_weight(job_id: uint256, round_id: uint256, verifier_id: uint256) -> uint256:
    """
    @notice A verifier's weight in a round: its stake when the round opened.
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @return uint256 The weight, 0 when it is not a verifier of the snapshot.
    """
    return self._verifiers[self._key(job_id, round_id)][verifier_id] & _WEIGHT_MASK


@view
@reentrant
@external
def aggregator_on_duty(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice The aggregator that may propose in the duty window: aggregators[seed % n], by the
            round's seed.
    @param job_id The job.
    @param round_id The round.
    @return uint256 Its node id; 0 before the reveals are over, in a round that was void then, and
            in the fallback window, when any node of the snapshot that is not barred may propose.
    """
    key: bytes32 = self._key(job_id, round_id)
    clock: uint256 = self._clocks[key]
    # The audit seed is pinned when the reveals are over, and in no round that was void then.
    if clock & round_clock.FALLBACK != 0 or randomness._target(self._audit_key(key)) == 0:
        return 0
    return self._on_duty(key, clock)


@view
@reentrant
@external
def can_finalize(job_id: uint256, round_id: uint256) -> bool:
    """
    @notice Whether `finalize` would accept the right arrays now.
    @param job_id The job.
    @param round_id The round.
    @return bool Whether it would.
    """
    key: bytes32 = self._key(job_id, round_id)
    return self._can_finalize(key, self._clocks[key])


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
    if phase == AGGREGATE:
        if clock & round_clock.FALLBACK != 0:
            return self._void(job_id, round_id, clock, "no result")
        return self._aggregate_again(job_id, round_id, clock)
    if phase == DISPUTED:
        # Who asked gets nothing of a decision that was not made.
        self._end_challenge(job_id, key, False)
        if self._is_confirmed(key, 2):
            return self._resume(job_id, round_id, clock, round_clock._deadline(clock))
        return self._void(job_id, round_id, clock, "dispute not resolved")
    return clock


@internal
def _aggregate_again(job_id: uint256, round_id: uint256, clock: uint256) -> uint256:
    """
    @notice Lets nodes of the snapshot propose, trainers before the first result alone, if a result
            can be settled in time.
    """
    if not self._fits(clock, 1):
        return self._void(job_id, round_id, clock, "no time left")
    return self._enter(
        job_id,
        round_id,
        clock | round_clock.FALLBACK,
        AGGREGATE,
        round_clock.AGGREGATE_S,
    )


@internal
def _resume(job_id: uint256, round_id: uint256, clock: uint256, since: uint256) -> uint256:
    """
    @notice The challenge failed: CHALLENGE goes on for what was left of it, at least half a window.
    """
    window: uint256 = max(
        round_clock._window(clock, round_clock.LEFT_S),
        unsafe_div(round_clock._window(clock, round_clock.CHALLENGE_S), 2),
    )
    return self._enter_until(job_id, round_id, clock, CHALLENGE, unsafe_add(since, window))


@internal
def _end_challenge(job_id: uint256, key: bytes32, upheld: bool):
    """
    @notice The bond goes back to the challenger if it was right, and else to the treasury.
    """
    account: address = self._challengers[key]
    self._challengers[key] = empty(address)
    if not upheld:
        parameters: INodeRegistry.Parameters = self._parameters()
        account = parameters.treasury
    bonds._credit(account, staticcall ITrainingJobs(jobs).challenge_bond(job_id))


@internal
@view
def _parameters() -> INodeRegistry.Parameters:
    """
    @notice The registry's parameters.
    """
    return staticcall INodeRegistry(registry).parameters()


@internal
def _enter(
    job_id: uint256, round_id: uint256, clock: uint256, phase: uint256, window: uint256
) -> uint256:
    """
    @notice Stores the clock in a phase that lasts from now for the window at that place of the
            clock, or for good when the place is 0.
    """
    deadline: uint256 = 0
    if window != 0:
        # A window has 22 bits.
        deadline = unsafe_add(block.timestamp, round_clock._window(clock, window))
    return self._enter_until(job_id, round_id, clock, phase, deadline)


@internal
def _enter_until(
    job_id: uint256, round_id: uint256, clock: uint256, phase: uint256, deadline: uint256
) -> uint256:
    """
    @notice Stores the clock in a phase that lasts until `deadline`, or for good when that is 0.
    """
    entered: uint256 = round_clock._enter(clock, phase, deadline)
    self._clocks[self._key(job_id, round_id)] = entered
    log ITrainingResults.PhaseChanged(
        job_id=job_id, round_id=round_id, phase=phase, deadline=deadline
    )
    return entered


@internal
def _void(job_id: uint256, round_id: uint256, clock: uint256, reason: String[32]) -> uint256:
    """
    @notice Ends a round without a result. Its reward goes back to the job's escrow if none was
            proposed, else to the job's next round: a sponsor could have the result proposed that
            spoils the round.
    """
    voided: uint256 = self._enter(job_id, round_id, clock | round_clock.SETTLED, VOID, 0)
    log ITrainingResults.RoundVoided(job_id=job_id, round_id=round_id, reason=reason)
    extcall ITrainingJobs(jobs).end_round(job_id, empty(bytes32))
    proposed: bool = round_clock._count(clock, round_clock.ATTEMPT) != 0
    extcall IRewardPool(pool).close(job_id, round_id, proposed)
    return voided


# Internal: payment


@internal
def _pay_cuts(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    total: uint256,
    verifier_cut: uint256,
    proposer_cut: uint256,
):
    """
    @notice Credits the proposer, and the verifiers that attested, by weight; starts the trainers'
            distribution.
    """
    key: bytes32 = self._key(job_id, round_id)
    result_hash: bytes32 = self._proposals[key].result_hash
    attestations: uint256 = self._attestations[result_hash]
    attested: uint256 = attestations & _WEIGHT_MASK
    cut_nodes: DynArray[uint256, 128] = [self._proposals[key].proposer]
    cut_amounts: DynArray[uint256, 128] = [proposer_cut]
    for index: uint256 in range(attestations >> _ATTESTERS, bound=MAX_VERIFIERS):
        verifier: uint256 = self._attesters[result_hash][index]
        weight: uint256 = self._verifiers[key][verifier] & _WEIGHT_MASK
        cut_nodes.append(verifier)
        # Both are below 2**128.
        cut_amounts.append(unsafe_div(unsafe_mul(verifier_cut, weight), attested))
    extcall IRewardPool(pool).start_distribution(
        job_id, round_id, nodes, total, cut_nodes, cut_amounts
    )


@internal
def _settle(
    job_id: uint256,
    round_id: uint256,
    clock: uint256,
    nodes_: DynArray[uint256, 128],
    contributions_: DynArray[uint256, 128],
):
    """
    @notice Credits the next batch of nodes, or sets aside for them; after the last one closes the
            pool and ends the round in its job. The nodes are those of the result, unless scores
            pay the round.
    """
    key: bytes32 = self._key(job_id, round_id)
    nodes: DynArray[uint256, 128] = []
    contributions: DynArray[uint256, 128] = []
    nodes, contributions = staticcall IRewardPool(pool).parts(job_id, round_id, nodes_)
    if len(nodes) == 0:
        nodes = nodes_
        contributions = contributions_
    first: uint256 = self._settled_nodes[key]
    last: uint256 = min(unsafe_add(first, BATCH), len(nodes))
    all_valid: bool = round_clock._count(clock, round_clock.INVALID) == 0
    batch: DynArray[uint256, 128] = []
    amounts: DynArray[uint256, 128] = []
    aside: uint256 = 0
    for index: uint256 in range(first, last, bound=BATCH):
        if contributions[index] == 0:
            continue
        if not all_valid and round_marks._has(job_id, round_id, INVALIDATED, nodes[index]):
            if not staticcall IViolationReports(reports).is_pending(job_id, round_id, nodes[index]):
                continue
            aside |= 1 << len(batch)
        batch.append(nodes[index])
        amounts.append(contributions[index])
    self._settled_nodes[key] = last
    done: bool = last == len(nodes)
    if done:
        self._clocks[key] = clock | round_clock.SETTLED
        extcall ITrainingJobs(jobs).end_round(job_id, self._proposals[key].model)
    if len(batch) != 0:
        extcall IRewardPool(pool).distribute(job_id, round_id, batch, amounts, aside)
    if done:
        paid: uint256 = 0
        returned: uint256 = 0
        paid, returned = extcall IRewardPool(pool).close(job_id, round_id, not all_valid)
        log ITrainingResults.RoundSettled(
            job_id=job_id, round_id=round_id, paid=paid, returned=returned
        )


# Internal: checks


@internal
@view
def _can_finalize(key: bytes32, clock: uint256) -> bool:
    """
    @notice CHALLENGE, and either enough attested with no report open, or its window passed. Enough
            is two thirds in the last half of the job's challenge window, and all before: the
            verifiers' cut is for those who attested, and nobody may shut out the others.
    """
    if round_clock._phase(clock) != CHALLENGE:
        return False
    deadline: uint256 = round_clock._deadline(clock)
    if block.timestamp > deadline:
        return True
    if round_clock._open_reports(clock) != 0:
        return False
    # A window has 22 bits, a deadline 40.
    half: uint256 = unsafe_div(round_clock._window(clock, round_clock.CHALLENGE_S), 2)
    early: bool = unsafe_add(block.timestamp, half) < deadline
    return self._is_confirmed(key, unsafe_add(2, convert(early, uint256)))


@internal
@view
def _is_confirmed(key: bytes32, thirds: uint256) -> bool:
    """
    @notice Whether two verifiers or more, with so many thirds of the weight, attested the result.
    """
    attestations: uint256 = self._attestations[self._proposals[key].result_hash]
    return (
        attestations >> _ATTESTERS >= MIN_VOICES
        and unsafe_mul(3, attestations & _WEIGHT_MASK)
        >= unsafe_mul(thirds, self._verifier_stakes[key])
    )


@internal
@view
def _fits(clock: uint256, windows: uint256) -> bool:
    """
    @notice Whether a result that may take `windows` aggregate windows to come, and then be
            challenged at the last moment, is settled in time.
    """
    # A window has 22 bits.
    needed: uint256 = unsafe_add(
        unsafe_mul(windows, round_clock._window(clock, round_clock.AGGREGATE_S)),
        unsafe_add(
            unsafe_div(unsafe_mul(3, round_clock._window(clock, round_clock.CHALLENGE_S)), 2),
            round_clock._window(clock, round_clock.DISPUTE_S),
        ),
    )
    return unsafe_add(block.timestamp, needed) <= round_clock._settle_by(clock)


@internal
@view
def _on_duty(key: bytes32, clock: uint256) -> uint256:
    """
    @notice The aggregator drawn by the round's seed.
    """
    return self._aggregators[key][clock >> round_clock.DUTY]


@internal
@view
def _check_waiting(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice Stops everybody but TrainingRounds, and it once it has handed the round over.
    @return uint256 The round's clock.
    """
    assert msg.sender == rounds, "results: not rounds"
    clock: uint256 = self._clocks[self._key(job_id, round_id)]
    assert clock != 0 and round_clock._phase(clock) == 0, "results: not waiting"
    return clock


@internal
@view
def _check_in_time(clock: uint256):
    """
    @notice Stops an action after the deadline of its phase.
    """
    assert block.timestamp <= round_clock._deadline(clock), "results: too late"


@internal
@view
def _check_in_challenge(key: bytes32) -> uint256:
    """
    @notice Stops an action while there is no result to judge, or after the phase's deadline. A
            dispute stops nobody.
    @return uint256 The round's clock.
    """
    clock: uint256 = self._clocks[key]
    phase: uint256 = round_clock._phase(clock)
    assert phase == CHALLENGE or phase == DISPUTED, "results: not in challenge"
    self._check_in_time(clock)
    return clock


@internal
@view
def _check_result(key: bytes32, result_hash: bytes32):
    """
    @notice Stops an action that is meant for another result than the proposed one.
    """
    assert result_hash == self._proposals[key].result_hash, "results: wrong result"


@internal
@view
def _check_reports(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Stops everybody but ViolationReports, and it while there is no result to judge.
    @return bytes32 The round's key.
    """
    assert msg.sender == reports, "results: not reports"
    key: bytes32 = self._key(job_id, round_id)
    self._check_in_challenge(key)
    return key


# Internal: digests


@internal
@view
def _check_contributions(key: bytes32, contributions_hash: bytes32):
    """
    @notice Lets only the contributions of the proposed result pass.
    """
    assert (
        contributions_hash == self._proposals[key].contributions_hash
    ), "results: wrong contributions"


@internal
@pure
def _contributions_hash(
    nodes: DynArray[uint256, 128], contributions: DynArray[uint256, 128]
) -> bytes32:
    """
    @notice Digest of a result's nodes and contributions.
    """
    return keccak256(abi_encode(nodes, contributions))


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
