# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title ScoreConsensus
@license AGPL-3.0-only
@notice What several validators make of a round's nodes, as one vector that none of them decides.
        A job whose sponsor adopts this contract is paid by it: each verifier of the round's
        snapshot commits to a fixed-point score for every node, then reveals it, and the consensus
        of a node is the stake-weighted median of its scores (the clipping of Yuma consensus).

        Rules this contract holds:
        - The consensus of a node that revealed is the largest c such that verifiers with more than
          half of the weight of the *whole* snapshot, at least two, gave it c or more; that of any
          other node is 0. A missing vector is zero everywhere, so half of the weight raises nobody
          above what somebody else gave it, and sets no score alone.
        - The time to commit is the same for all. It ends by the clock of the round, whoever commits
          or proposes first, or once the whole snapshot has committed.
        - A vector is committed to before any other can be read. The commitment binds the chain,
          the contract, the job, the round, the verifier and its sender: a copy can't be opened.
        - The contract checks the consensus that is brought to it, so anyone may bring it.
        - A scoring ends: one reveal window after the time to commit anyone can close it. Until then
          the round can't be finalized, and one that is void can't be scored.
        - Whoever has a consensus is paid by it, whether or not the result names it. A round without
          a consensus is paid by the newest one before it, among those that its result names.
        - A verifier's trust is its agreement with the consensus, averaged over rounds. Verifiers
          share their cuts in proportion to its cube, so that the first step away from the others
          costs more than it moves, and no cut is lost where honest draws differ; who revealed
          nothing earns none. Whoever commits and stays silent agrees with nothing.
        - A vector that is provably false (the record it names denies it, or states losses that
          public data deny) costs its verifier stake: the Coordinator overrules it.
@custom:kill The owner (the Coordinator) may pause `adopt` and the opening of a scoring. Rounds are
             then paid without a consensus of their own, and verifiers keep their cuts.
             Commitments to a scoring that is open, reveals and closing can't be paused.
"""

from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import IScoreConsensus
from interfaces import ITrainingJobs
from interfaces import ITrainingResults
from interfaces import ITrainingRounds

implements: IPausing
implements: IScoreConsensus

from contracts.modules import pausing
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: pausing
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
PAUSE_ADOPT: constant(uint256) = 1
PAUSE_OPEN_SCORING: constant(uint256) = 2

# Phases of a scoring; 0 before it is opened.
COMMIT: constant(uint256) = 1
REVEAL: constant(uint256) = 2
CLOSED: constant(uint256) = 3

# Phases of a round, in which it can be scored.
AGGREGATE: constant(uint256) = 3
DISPUTED: constant(uint256) = 5

SCALE: constant(uint256) = 65_535
# Verifiers, each of another owner, that a score needs.
MIN_VOICES: constant(uint256) = 2
BPS: constant(uint256) = 10_000
MAX_NODES: constant(uint256) = 128
# A window is longer than this part of the unbonding period, as those of a round are.
WINDOWS_PER_UNBONDING: constant(uint256) = 20_000
MAX_WINDOW: constant(uint256) = 86_400
# Trust moves by 3/10 of the way towards the newest agreement.
OLD_PARTS: constant(uint256) = 7
NEW_PARTS: constant(uint256) = 3

# Violation of the registry.
FALSE_REPORT: constant(uint256) = 6

SCORE_DOMAIN: constant(bytes32) = keccak256("menagerie.ScoreConsensus.commit.v1")

# A scoring's word: commit deadline (bits 0 to 39), reveal deadline (40), verifiers that committed
# (80) and revealed (88), nodes (96), closed (104), the best trust (112), the total (128).
_TIME_MASK: constant(uint256) = 2**40 - 1
_REVEAL_DEADLINE: constant(uint256) = 40
_COMMITTED: constant(uint256) = 80
_REVEALED: constant(uint256) = 88
_NODES: constant(uint256) = 96
_CLOSED_BIT: constant(uint256) = 1 << 104
_BEST_TRUST: constant(uint256) = 112
_TOTAL: constant(uint256) = 128

# A job's word: reveal window (bits 0 to 63), commit window (64), the job's aggregate window (128).
_COMMIT_S: constant(uint256) = 64
_AGGREGATE_S: constant(uint256) = 128
_WINDOW_MASK: constant(uint256) = 2**64 - 1

# A sum of weights, and above it the number of verifiers behind it.
_VOICES: constant(uint256) = 128
_WEIGHT_MASK: constant(uint256) = 2**128 - 1

# 16 scores of 16 bits are in one word, and 8 places of 32 bits.
_LANES: constant(uint256) = 16
_WORDS: constant(uint256) = MAX_NODES // _LANES
_PLACES: constant(uint256) = 8
_PLACE_BITS: constant(uint256) = 32
_PLACE_MASK: constant(uint256) = 2**32 - 1

registry: public(immutable(address))
jobs: public(immutable(address))
rounds: public(immutable(address))
results: public(immutable(address))

# By job, its word; 0 when the job isn't adopted.
_windows: HashMap[uint256, uint256]
last_scored: public(HashMap[uint256, uint256])
# By job and verifier; one more than the trust, so that 0 means none yet.
_trusts: HashMap[uint256, HashMap[uint256, uint256]]

# By round key, see `_key`.
_scorings: HashMap[bytes32, uint256]
_missing_stake: HashMap[bytes32, uint256]
_committers: HashMap[bytes32, DynArray[uint256, 32]]
_commitments: HashMap[bytes32, HashMap[uint256, bytes32]]
_records: HashMap[bytes32, HashMap[uint256, bytes32]]
_samples: HashMap[bytes32, HashMap[uint256, bytes32]]
# Vectors that the owner found false.
_overruled: HashMap[bytes32, HashMap[uint256, bool]]
# By verifier and place // 16 in the snapshot.
_rows: HashMap[bytes32, HashMap[uint256, HashMap[uint256, uint256]]]
# By node id // 16; and which of these words are not zero: their places + 1, ascending.
_consensus: HashMap[bytes32, HashMap[uint256, uint256]]
_places: HashMap[bytes32, HashMap[uint256, uint256]]


@deploy
def __init__(
    registry_: address, jobs_: address, rounds_: address, results_: address, owner_: address
):
    """
    @notice Fixes who knows the nodes, the jobs and the rounds, and who may pause.
    @dev Reverts: "scores: zero address".
    @param registry_ The NodeRegistry.
    @param jobs_ TrainingJobs.
    @param rounds_ TrainingRounds.
    @param results_ TrainingResults.
    @param owner_ The Coordinator.
    """
    for account: address in [registry_, jobs_, rounds_, results_, owner_]:
        assert account != empty(address), "scores: zero address"
    pausing.__init__()
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    jobs = jobs_
    rounds = rounds_
    results = results_


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_ADOPT = 1 and
            PAUSE_OPEN_SCORING = 2.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_ADOPT | PAUSE_OPEN_SCORING)


@external
def adopt(job_id: uint256, commit_s: uint256, reveal_s: uint256):
    """
    @notice Sponsor, before the job's first round, once and for good: the job is paid by consensus.
    @dev Adopt before funding, or anyone may open the first round in between.
         Reverts: "pausing: paused", "scores: not sponsor", "scores: already adopted",
         "scores: round opened", "scores: bad window" (not above 1/20,000 of the unbonding period,
         or above a day).
    @param job_id The job.
    @param commit_s Seconds to commit after the job's aggregate window, which begins when a round's
                    reveals are over.
    @param reveal_s Seconds to reveal.
    """
    pausing._check_not_paused(PAUSE_ADOPT)
    assert staticcall ITrainingJobs(jobs).sponsor_of(job_id) == msg.sender, "scores: not sponsor"
    assert self._windows[job_id] == 0, "scores: already adopted"
    assert staticcall ITrainingJobs(jobs).rounds_opened(job_id) == 0, "scores: round opened"
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    least: uint256 = parameters.unbonding_period // WINDOWS_PER_UNBONDING
    for window: uint256 in [commit_s, reveal_s]:
        assert window > least and window <= MAX_WINDOW, "scores: bad window"

    job: ITrainingJobs.Job = staticcall ITrainingJobs(jobs).job(job_id)
    self._windows[job_id] = (
        reveal_s | commit_s << _COMMIT_S | job.terms.aggregate_s << _AGGREGATE_S
    )
    log IScoreConsensus.JobAdopted(job_id=job_id, commit_s=commit_s, reveal_s=reveal_s)


@external
def post_samples(job_id: uint256, round_id: uint256, node_id: uint256, digest: bytes32):
    """
    @notice The operator of a node that revealed names the values of its model that the round's
            audit seed asks for, once, until the time to commit scores is over.
    @dev Reverts: "scores: not adopted", "scores: round not running", "scores: too late",
         "scores: not operator", "scores: not revealed", "scores: empty digest",
         "scores: already posted".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @param digest Digest of the artefact.
    """
    assert self._windows[job_id] != 0, "scores: not adopted"
    self._check_running(job_id, round_id)
    key: bytes32 = self._key(job_id, round_id)
    scoring: uint256 = self._scorings[key]
    assert block.timestamp <= self._commit_deadline(job_id, round_id), "scores: too late"
    assert scoring == 0 or self._phase(key, scoring) == COMMIT, "scores: too late"
    self._check_operator(node_id)
    assert staticcall ITrainingRounds(rounds).is_revealed(
        job_id, round_id, node_id
    ), "scores: not revealed"
    assert digest != empty(bytes32), "scores: empty digest"
    assert self._samples[key][node_id] == empty(bytes32), "scores: already posted"
    self._samples[key][node_id] = digest
    log IScoreConsensus.SamplesPosted(
        job_id=job_id, round_id=round_id, node_id=node_id, digest=digest
    )


@external
def commit_scores(job_id: uint256, round_id: uint256, verifier_id: uint256, commitment: bytes32):
    """
    @notice The operator of a verifier of the snapshot commits to its scores, once, from the end of
            the round's reveals until the aggregate and the commit window have passed; the last one
            of the whole snapshot ends that time. The first one opens the round's scoring. A banned
            or suspended verifier has no say.
    @dev Reverts: "scores: not adopted", "scores: round not running", "scores: not operator",
         "scores: not a verifier", "scores: empty commitment", "scores: already committed",
         "scores: too late"; the first also: "pausing: paused".
    @param job_id The job.
    @param round_id The round, in AGGREGATE, CHALLENGE or DISPUTED.
    @param verifier_id The verifier's node id.
    @param commitment See `scores_digest`.
    """
    self._commit(job_id, round_id, verifier_id, commitment)


@external
def commit_scores_on(
    job_id: uint256,
    round_id: uint256,
    verifier_id: uint256,
    commitment: bytes32,
    seen_block: uint256,
    seen_hash: bytes32,
):
    """
    @notice `commit_scores`, but only on the chain that the scores were made on: whom a validator
            evaluates depends on the audit seed, and a reorganisation may change it.
    @dev Reverts: "scores: another chain" (also for a block older than 256), and as `commit_scores`.
    @param job_id The job.
    @param round_id The round, in AGGREGATE, CHALLENGE or DISPUTED.
    @param verifier_id The verifier's node id.
    @param commitment See `scores_digest`.
    @param seen_block The block that the audit seed is taken from, or a later one.
    @param seen_hash Its hash.
    """
    self._commit(job_id, round_id, verifier_id, commitment)
    assert (
        seen_block < block.number
        and block.number - seen_block <= 256
        and blockhash(seen_block) == seen_hash
    ), "scores: another chain"


@external
def reveal_scores(
    job_id: uint256,
    round_id: uint256,
    verifier_id: uint256,
    scores: DynArray[uint256, 128],
    record: bytes32,
    salt: bytes32,
):
    """
    @notice The sender of a commitment opens it, once everybody has committed or the commit window
            is over, and until the reveal deadline; not while its verifier is banned or suspended.
    @dev The sender is part of the commitment, so nobody else can open it. Reverts:
         "scores: not in reveal", "scores: too late", "scores: already revealed",
         "scores: bad opening", "scores: no say", "scores: empty record", "scores: wrong length",
         "scores: score too high", "scores: sum too high".
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param scores One score for each node of the round's snapshot, in its order; their sum is at
                  most 65,535.
    @param record Digest of the verifier's evaluations and of its ratings after them.
    @param salt The secret of the commitment.
    """
    key: bytes32 = self._key(job_id, round_id)
    scoring: uint256 = self._scorings[key]
    assert self._phase(key, scoring) == REVEAL, "scores: not in reveal"
    assert block.timestamp <= self._reveal_deadline(scoring), "scores: too late"
    assert self._records[key][verifier_id] == empty(bytes32), "scores: already revealed"
    # An empty commitment has no known opening.
    assert self._commitments[key][verifier_id] == self._digest(
        job_id, round_id, verifier_id, msg.sender, scores, record, salt
    ), "scores: bad opening"
    # Its operator may be another by now.
    assert (
        staticcall INodeRegistry(registry).acting_operator(verifier_id) != empty(address)
    ), "scores: no say"
    assert record != empty(bytes32), "scores: empty record"
    assert len(scores) == self._count(scoring, _NODES), "scores: wrong length"

    total: uint256 = 0
    word: uint256 = 0
    place: uint256 = 0
    for score: uint256 in scores:
        assert score <= SCALE, "scores: score too high"
        total = unsafe_add(total, score)
        word |= score << (place % _LANES << 4)
        place = unsafe_add(place, 1)
        if place % _LANES == 0 or place == len(scores):
            if word != 0:
                self._rows[key][verifier_id][(place - 1) // _LANES] = word
                word = 0
    assert total <= SCALE, "scores: sum too high"
    self._records[key][verifier_id] = record
    self._scorings[key] = scoring + (1 << _REVEALED)
    log IScoreConsensus.ScoresRevealed(
        job_id=job_id, round_id=round_id, verifier_id=verifier_id, scores=scores, record=record
    )


@external
def overrule_scores(job_id: uint256, round_id: uint256, verifier_ids: DynArray[uint256, 16]):
    """
    @notice Owner only: finds that what verifiers revealed of a round is false: their records don't
            give their vectors, or state losses that the public payloads and data don't give. They
            are slashed for FALSE_REPORT, all of it to the treasury, each once a round. The round's
            consensus stands: it is a median.
    @dev Reverts: "ownable: caller is not the owner", "scores: nothing to overrule" (nothing was
         revealed, or it was overruled already).
    @param job_id The job.
    @param round_id The round.
    @param verifier_ids Verifiers who revealed a false vector.
    """
    ownable._check_owner()
    key: bytes32 = self._key(job_id, round_id)
    # Stake that was added after the time to commit does not answer for it.
    since: uint256 = self._scorings[key] & _TIME_MASK
    for verifier_id: uint256 in verifier_ids:
        assert (
            self._records[key][verifier_id] != empty(bytes32)
            and not self._overruled[key][verifier_id]
        ), "scores: nothing to overrule"
        self._overruled[key][verifier_id] = True
        amount: uint256 = extcall INodeRegistry(registry).slash(
            verifier_id, FALSE_REPORT, min(since, block.timestamp), empty(address)
        )
        log IScoreConsensus.ScoresOverruled(
            job_id=job_id, round_id=round_id, verifier_id=verifier_id, amount=amount
        )


@external
def close_scoring(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    weights: DynArray[uint256, 128],
    consensus: DynArray[uint256, 128],
):
    """
    @notice Anyone, once all that committed have revealed or the reveal deadline has passed: brings
            the stake-weighted medians, which are checked, and fixes them for the round. When their
            sum is zero the round has no consensus, see `settlement`. Else the trust of every
            verifier that committed moves towards its agreement with the consensus:
            10,000 * sum(min(score, consensus)) // max(sum(score), sum(consensus)), 0 without a
            reveal; trust = (7 * trust + 3 * agreement) // 10, at first the agreement.
    @dev The greater of the two sums, so that giving little to everybody isn't agreement.
         Reverts: "scores: not open", "scores: closed", "scores: not over",
         "scores: round not running", "scores: wrong snapshot", "scores: length mismatch",
         "scores: not the median".
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids of RoundOpened.
    @param weights The weights of RoundOpened.
    @param consensus For each node that revealed the largest value that verifiers with more than
                     half of the snapshot's verifier stake, at least two, reached; 0 for the others.
    """
    key: bytes32 = self._key(job_id, round_id)
    scoring: uint256 = self._scorings[key]
    assert scoring != 0, "scores: not open"
    assert scoring & _CLOSED_BIT == 0, "scores: closed"
    assert self._is_over(key, scoring), "scores: not over"
    round: ITrainingRounds.Round = staticcall ITrainingRounds(rounds).round(job_id, round_id)
    assert round.phase >= AGGREGATE and round.phase <= DISPUTED, "scores: round not running"
    assert keccak256(abi_encode(nodes, weights)) == round.snapshot_hash, "scores: wrong snapshot"
    assert len(consensus) == len(nodes), "scores: length mismatch"

    total: uint256 = 0
    for score: uint256 in consensus:
        # What is no median is refused below, whatever this sum is.
        total = unsafe_add(total, score)
    verifiers: DynArray[uint256, 32] = self._committers[key]
    agreements: DynArray[uint256, 32] = []
    reached: uint256[MAX_NODES] = empty(uint256[MAX_NODES])
    exceeded: uint256[MAX_NODES] = empty(uint256[MAX_NODES])
    for verifier: uint256 in verifiers:
        voice: uint256 = 1 << _VOICES | staticcall ITrainingResults(results).verifier_weight(
            job_id, round_id, verifier
        )
        given: uint256 = 0
        agreed: uint256 = 0
        for index: uint256 in range(_WORDS):
            if index * _LANES >= len(nodes):
                break
            word: uint256 = self._rows[key][verifier][index]
            place: uint256 = index * _LANES
            for _: uint256 in range(_LANES):
                if word == 0:
                    break
                score: uint256 = word & SCALE
                if score != 0:
                    value: uint256 = consensus[place]
                    given = unsafe_add(given, score)
                    if score >= value:
                        agreed = unsafe_add(agreed, value)
                        # No sum of weights exceeds the snapshot's verifier stake.
                        reached[place] = unsafe_add(reached[place], voice)
                        if score > value:
                            exceeded[place] = unsafe_add(exceeded[place], voice)
                    else:
                        agreed = unsafe_add(agreed, score)
                word >>= _LANES
                place = unsafe_add(place, 1)
        agreement: uint256 = 0
        if given != 0:
            agreement = BPS * agreed // max(given, total)
        agreements.append(agreement)
    place: uint256 = 0
    at: uint256 = max_value(uint256)
    revealed: uint256 = 0
    for node: uint256 in nodes:
        if node >> 4 != at:
            at = node >> 4
            revealed = staticcall ITrainingRounds(rounds).revealed(job_id, round_id, at)
        known: bool = revealed >> (node & 15) & 1 != 0
        assert (
            consensus[place] == 0
            or known
            and self._is_majority(reached[place], round.verifier_stake)
        ) and not (
            known and self._is_majority(exceeded[place], round.verifier_stake)
        ), "scores: not the median"
        place = unsafe_add(place, 1)

    trusts: DynArray[uint256, 32] = []
    best: uint256 = 0
    place = 0
    for verifier: uint256 in verifiers:
        trust: uint256 = 0
        if total == 0:
            trust = self._trust(job_id, verifier)
        else:
            trust = self._move_trust(job_id, verifier, agreements[place])
        if self._records[key][verifier] != empty(bytes32):
            best = max(best, trust)
        trusts.append(trust)
        place = unsafe_add(place, 1)
    if total != 0:
        self._store(key, nodes, consensus)
        self.last_scored[job_id] = round_id
    self._scorings[key] = scoring | _CLOSED_BIT | best << _BEST_TRUST | total << _TOTAL
    log IScoreConsensus.ScoringClosed(
        job_id=job_id,
        round_id=round_id,
        nodes=nodes,
        consensus=consensus,
        scored=total != 0,
        verifiers=verifiers,
        agreements=agreements,
        trusts=trusts,
    )


# Views


@view
@external
def adopted(job_id: uint256) -> bool:
    """
    @notice Whether a job is paid by consensus.
    @param job_id The job.
    @return bool Whether its sponsor adopted it.
    """
    return self._windows[job_id] != 0


@view
@external
def windows_of(job_id: uint256) -> (uint256, uint256):
    """
    @notice The windows of an adopted job, in seconds.
    @param job_id The job.
    @return The commit window and the reveal window; both 0 when the job isn't adopted.
    """
    windows: uint256 = self._windows[job_id]
    return windows >> _COMMIT_S & _WINDOW_MASK, windows & _WINDOW_MASK


@view
@external
def scoring(job_id: uint256, round_id: uint256) -> IScoreConsensus.Scoring:
    """
    @notice The scoring of a round, as of now.
    @param job_id The job.
    @param round_id The round.
    @return IScoreConsensus.Scoring The scoring; all zero but for the commit deadline when nobody
            has committed, and but for the phase COMMIT while somebody may.
    """
    key: bytes32 = self._key(job_id, round_id)
    scoring: uint256 = self._scorings[key]
    total: uint256 = scoring >> _TOTAL
    phase: uint256 = self._phase(key, scoring)
    if self._is_awaited(job_id, round_id, scoring):
        phase = COMMIT
    return IScoreConsensus.Scoring(
        phase=phase,
        commit_deadline=self._commit_deadline(job_id, round_id),
        reveal_deadline=self._reveal_deadline(scoring),
        committed=self._count(scoring, _COMMITTED),
        revealed=self._count(scoring, _REVEALED),
        missing_stake=self._missing_stake[key],
        total=total,
        scored=total != 0,
        closable=scoring & _CLOSED_BIT == 0 and self._is_over(key, scoring),
    )


@view
@external
def settlement(job_id: uint256, round_id: uint256) -> (bool, uint256, uint256):
    """
    @notice How a round is to be paid. The RewardPool asks when the round is finalized.
    @dev Reverts: "scores: open" (while the round's scoring is not closed, and while nobody has
         committed but still may).
    @param job_id The job.
    @param round_id The round.
    @return Whether the job is adopted; the round whose consensus pays, which is this one or the
            newest with a consensus before it, 0 for none; and the sum of this round's consensus.
    """
    if self._windows[job_id] == 0:
        return False, 0, 0
    scoring: uint256 = self._scorings[self._key(job_id, round_id)]
    assert not self._is_awaited(job_id, round_id, scoring), "scores: open"
    assert scoring == 0 or scoring & _CLOSED_BIT != 0, "scores: open"
    # No later round is open, so the newest one is this one if it has a consensus.
    return True, self.last_scored[job_id], scoring >> _TOTAL


@view
@external
def consensus_of(
    job_id: uint256, round_id: uint256
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice The consensus of a round.
    @param job_id The job.
    @param round_id The round.
    @return The nodes whose score is not zero, ascending, and their scores.
    """
    key: bytes32 = self._key(job_id, round_id)
    nodes: DynArray[uint256, 128] = []
    scores: DynArray[uint256, 128] = []
    for index: uint256 in range(MAX_NODES // _PLACES):
        places: uint256 = self._places[key][index]
        for _: uint256 in range(_PLACES):
            if places == 0:
                return nodes, scores
            at: uint256 = (places & _PLACE_MASK) - 1
            word: uint256 = self._consensus[key][at]
            for lane: uint256 in range(_LANES):
                if word == 0:
                    break
                if word & SCALE != 0:
                    nodes.append(at * _LANES + lane)
                    scores.append(word & SCALE)
                word >>= _LANES
            places >>= _PLACE_BITS
    return nodes, scores


@view
@external
def shares(
    job_id: uint256, round_id: uint256, nodes: DynArray[uint256, 128]
) -> DynArray[uint256, 128]:
    """
    @notice The consensus of some nodes of a round.
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids.
    @return DynArray The score of each; 0 for a node outside of the snapshot, and in a round not
            scored.
    """
    key: bytes32 = self._key(job_id, round_id)
    found: DynArray[uint256, 128] = []
    at: uint256 = max_value(uint256)
    word: uint256 = 0
    for node_id: uint256 in nodes:
        if node_id // _LANES != at:
            at = node_id // _LANES
            word = self._consensus[key][at]
        found.append(word >> (node_id % _LANES << 4) & SCALE)
    return found


@view
@external
def cut_factors(
    job_id: uint256, round_id: uint256, verifiers: DynArray[uint256, 128]
) -> DynArray[uint256, 128]:
    """
    @notice What the cut of each of some verifiers counts in a round, before the next one is
            closed: the RewardPool shares the cuts of those that count by it. In a scored round the
            cube of its trust relative to the best of those that revealed, all if the best is zero;
            nothing for one that did not reveal. In a round without consensus all for those that
            revealed and nothing for others, but all for everybody when no scoring was opened and
            opening one is paused, and in a job that isn't adopted.
    @param job_id The job.
    @param round_id The round.
    @param verifiers Their node ids.
    @return DynArray Parts of 10,000.
    """
    key: bytes32 = self._key(job_id, round_id)
    scoring: uint256 = self._scorings[key]
    spared: bool = self._windows[job_id] == 0 or (
        scoring == 0 and pausing._is_paused(PAUSE_OPEN_SCORING)
    )
    best: uint256 = scoring >> _BEST_TRUST & SCALE
    factors: DynArray[uint256, 128] = []
    for verifier: uint256 in verifiers:
        factor: uint256 = 0
        if spared:
            factor = BPS
        elif self._records[key][verifier] != empty(bytes32):
            factor = BPS
            if scoring >> _TOTAL != 0 and best != 0:
                trust: uint256 = self._trust(job_id, verifier)
                factor = BPS * trust**3 // best**3
        factors.append(factor)
    return factors


@view
@external
def trust_of(job_id: uint256, verifier_id: uint256) -> uint256:
    """
    @notice How well a verifier has agreed with a job's consensus.
    @param job_id The job.
    @param verifier_id The verifier's node id.
    @return uint256 Parts of 10,000; 0 also before its first scored round.
    """
    return self._trust(job_id, verifier_id)


@view
@external
def samples_of(job_id: uint256, round_id: uint256, node_id: uint256) -> bytes32:
    """
    @notice What a node posted in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bytes32 The digest, empty when there is none.
    """
    return self._samples[self._key(job_id, round_id)][node_id]


@view
@external
def score_commitment_of(job_id: uint256, round_id: uint256, verifier_id: uint256) -> bytes32:
    """
    @notice A verifier's commitment to its scores.
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @return bytes32 The commitment, empty when there is none.
    """
    return self._commitments[self._key(job_id, round_id)][verifier_id]


@view
@external
def record_of(job_id: uint256, round_id: uint256, verifier_id: uint256) -> bytes32:
    """
    @notice The record behind a verifier's revealed scores.
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @return bytes32 The digest, empty when the verifier has not revealed.
    """
    return self._records[self._key(job_id, round_id)][verifier_id]


@view
@external
def scores_digest(
    job_id: uint256,
    round_id: uint256,
    verifier_id: uint256,
    operator: address,
    scores: DynArray[uint256, 128],
    record: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice keccak256(abi_encode(SCORE_DOMAIN, chain.id, this contract, and the arguments in
            order)); SCORE_DOMAIN = keccak256("menagerie.ScoreConsensus.commit.v1").
    @return bytes32 The commitment.
    """
    return self._digest(job_id, round_id, verifier_id, operator, scores, record, salt)


# Internal


@internal
def _commit(job_id: uint256, round_id: uint256, verifier_id: uint256, commitment: bytes32):
    """
    @notice See `commit_scores`.
    """
    windows: uint256 = self._windows[job_id]
    assert windows != 0, "scores: not adopted"
    self._check_running(job_id, round_id)
    assert (
        staticcall INodeRegistry(registry).acting_operator(verifier_id) == msg.sender
    ), "scores: not operator"
    weight: uint256 = staticcall ITrainingResults(results).verifier_weight(
        job_id, round_id, verifier_id
    )
    assert weight != 0, "scores: not a verifier"
    assert commitment != empty(bytes32), "scores: empty commitment"
    key: bytes32 = self._key(job_id, round_id)
    assert self._commitments[key][verifier_id] == empty(bytes32), "scores: already committed"

    scoring: uint256 = self._scorings[key]
    missing: uint256 = 0
    if scoring == 0:
        pausing._check_not_paused(PAUSE_OPEN_SCORING)
        round: ITrainingRounds.Round = staticcall ITrainingRounds(rounds).round(job_id, round_id)
        deadline: uint256 = self._commit_deadline(job_id, round_id)
        assert block.timestamp <= deadline, "scores: too late"
        scoring = deadline | (deadline + (windows & _WINDOW_MASK)) << _REVEAL_DEADLINE
        scoring |= round.n_eligible << _NODES
        missing = round.verifier_stake
        log IScoreConsensus.ScoringOpened(
            job_id=job_id, round_id=round_id, commit_deadline=deadline
        )
    else:
        assert self._phase(key, scoring) == COMMIT, "scores: too late"
        missing = self._missing_stake[key]
    missing -= weight
    scoring += 1 << _COMMITTED
    self._commitments[key][verifier_id] = commitment
    self._committers[key].append(verifier_id)
    self._missing_stake[key] = missing
    log IScoreConsensus.ScoresCommitted(
        job_id=job_id, round_id=round_id, verifier_id=verifier_id, commitment=commitment
    )
    if missing == 0:
        deadline: uint256 = block.timestamp + (windows & _WINDOW_MASK)
        scoring = scoring & ~(_TIME_MASK << _REVEAL_DEADLINE) | deadline << _REVEAL_DEADLINE
        log IScoreConsensus.ScoreRevealStarted(job_id=job_id, round_id=round_id, deadline=deadline)
    self._scorings[key] = scoring


@internal
@view
def _check_running(job_id: uint256, round_id: uint256):
    """
    @notice Stops an action outside of AGGREGATE, CHALLENGE and DISPUTED.
    """
    phase: uint256 = staticcall ITrainingResults(results).phase(job_id, round_id)
    assert phase >= AGGREGATE and phase <= DISPUTED, "scores: round not running"


@internal
@view
def _check_operator(node_id: uint256):
    """
    @notice Stops everybody but the operator of a node; an unknown or closed node's is zero.
    """
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "scores: not operator"


@internal
@view
def _commit_deadline(job_id: uint256, round_id: uint256) -> uint256:
    """
    @notice Until when scores of a round may be committed to, whoever commits first; 0 when its
            reveals are not over, in a round without reveals, and in a job that isn't adopted.
    """
    closed_at: uint256 = staticcall ITrainingRounds(rounds).closed_at(job_id, round_id)
    windows: uint256 = self._windows[job_id]
    if closed_at == 0 or windows == 0:
        return 0
    return closed_at + (windows >> _AGGREGATE_S) + (windows >> _COMMIT_S & _WINDOW_MASK)


@internal
@view
def _is_awaited(job_id: uint256, round_id: uint256, scoring: uint256) -> bool:
    """
    @notice Whether nobody has committed to scores of an adopted job's round, and somebody may.
    """
    return (
        scoring == 0
        and not pausing._is_paused(PAUSE_OPEN_SCORING)
        and block.timestamp <= self._commit_deadline(job_id, round_id)
    )


@internal
@pure
def _is_majority(voices: uint256, stake: uint256) -> bool:
    """
    @notice Whether two verifiers or more, with more than half of the snapshot's stake, are behind a
            sum of voices.
    """
    return voices >> _VOICES >= MIN_VOICES and 2 * (voices & _WEIGHT_MASK) > stake


@internal
@view
def _phase(key: bytes32, scoring: uint256) -> uint256:
    """
    @notice The phase of a scoring as of now.
    """
    if scoring == 0:
        return 0
    if scoring & _CLOSED_BIT != 0:
        return CLOSED
    if block.timestamp <= scoring & _TIME_MASK and self._missing_stake[key] != 0:
        return COMMIT
    return REVEAL


@internal
@view
def _is_over(key: bytes32, scoring: uint256) -> bool:
    """
    @notice Whether a scoring that is not closed waits for nobody any more.
    """
    if self._phase(key, scoring) != REVEAL:
        return False
    return (
        block.timestamp > self._reveal_deadline(scoring)
        or self._count(scoring, _REVEALED) == self._count(scoring, _COMMITTED)
    )


@internal
@view
def _trust(job_id: uint256, verifier_id: uint256) -> uint256:
    """
    @notice See `trust_of`.
    """
    stored: uint256 = self._trusts[job_id][verifier_id]
    return stored - min(stored, 1)


@internal
def _move_trust(job_id: uint256, verifier_id: uint256, agreement: uint256) -> uint256:
    """
    @notice Moves a verifier's trust towards an agreement; the first one is taken as it is.
    @return uint256 The new trust.
    """
    trust: uint256 = agreement
    if self._trusts[job_id][verifier_id] != 0:
        trust = (OLD_PARTS * self._trust(job_id, verifier_id) + NEW_PARTS * agreement) // (
            OLD_PARTS + NEW_PARTS
        )
    self._trusts[job_id][verifier_id] = trust + 1
    return trust


@internal
def _store(key: bytes32, nodes: DynArray[uint256, 128], consensus: DynArray[uint256, 128]):
    """
    @notice Stores the consensus by node id, each word once when the ids ascend, and the places of
            the words.
    """
    places: DynArray[uint256, 128] = []
    at: uint256 = 0
    word: uint256 = 0
    place: uint256 = 0
    for node_id: uint256 in nodes:
        value: uint256 = consensus[place]
        place = unsafe_add(place, 1)
        if value == 0:
            continue
        if word != 0 and node_id // _LANES != at:
            self._consensus[key][at] |= word
            word = 0
        if word == 0:
            at = node_id // _LANES
            # Into its place among those before it; a list need not ascend.
            spot: uint256 = len(places)
            places.append(at)
            for _: uint256 in range(MAX_NODES):
                if spot == 0 or places[spot - 1] <= at:
                    break
                places[spot] = places[spot - 1]
                spot = spot - 1
            places[spot] = at
        word |= value << (node_id % _LANES << 4)
    if word != 0:
        self._consensus[key][at] |= word

    at = max_value(uint256)
    word = 0
    place = 0
    for found: uint256 in places:
        if found == at:
            continue
        at = found
        word |= unsafe_add(found, 1) << (place % _PLACES * _PLACE_BITS)
        place = unsafe_add(place, 1)
        if place % _PLACES == 0:
            self._places[key][place // _PLACES - 1] = word
            word = 0
    if word != 0:
        self._places[key][place // _PLACES] = word


@internal
@view
def _digest(
    job_id: uint256,
    round_id: uint256,
    verifier_id: uint256,
    operator: address,
    scores: DynArray[uint256, 128],
    record: bytes32,
    salt: bytes32,
) -> bytes32:
    """
    @notice See `scores_digest`.
    """
    return keccak256(
        abi_encode(
            SCORE_DOMAIN,
            chain.id,
            self,
            job_id,
            round_id,
            verifier_id,
            operator,
            scores,
            record,
            salt,
        )
    )


@internal
@pure
def _reveal_deadline(scoring: uint256) -> uint256:
    """
    @notice When revealing ends.
    """
    return scoring >> _REVEAL_DEADLINE & _TIME_MASK


@internal
@pure
def _count(scoring: uint256, field: uint256) -> uint256:
    """
    @notice An 8-bit counter, named by its offset.
    """
    return scoring >> field & 255


@internal
@pure
def _key(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Names a round in storage.
    """
    return keccak256(abi_encode(job_id, round_id))
