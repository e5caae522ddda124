# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
# pragma optimize gas
"""
@title TrainingJobs
@custom:contract-name TrainingJobs
@license AGPL-3.0-only
@notice What sponsors pay for. A job has a sponsor, terms that never change, a status, and a head:
        the model that its last finished round has made.

        A round passes through three contracts. It begins here, where it gets its number and the
        model that it starts from. TrainingRounds runs it while nodes commit and reveal.
        TrainingResults runs it from there on, and ends it here: with the model that it has made, or
        with none when it was void.

        How many rounds of a job may be open at a time is asked here alone, in `begin_round`. It is
        one today.
@custom:kill The owner (the Coordinator) may pause `create_job`. Jobs that exist run on: no round
             can be kept from beginning or from ending here, and a sponsor may always cancel.
"""

from interfaces import ICoordinator
from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import ITrainingJobs

implements: IPausing
implements: ITrainingJobs

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
PAUSE_CREATE_JOB: constant(uint256) = 1

# Status of a job.
ACTIVE: constant(uint256) = 1
COMPLETED: constant(uint256) = 2
CANCELLED: constant(uint256) = 3

# Rounds of a job that may be open at a time.
MAX_OPEN_ROUNDS: constant(uint256) = 1
MAX_ROUNDS: constant(uint256) = 100_000
MAX_NODES: constant(uint256) = 128
MAX_CUTS: constant(uint256) = 5_000
MAX_AMOUNT: constant(uint256) = 2**128
# Rounds' pay of a trainer that a job may have retained.
MAX_RETAINED: constant(uint256) = 32
# A window is longer than this part of the unbonding period (a minute of 14 days), so that no
# job's terms leave a node no time to reveal or to appeal.
WINDOWS_PER_UNBONDING: constant(uint256) = 20_000
# The clocks of a round keep a window in 22 bits.
MAX_WINDOW: constant(uint256) = 30 * 86_400

registry: public(immutable(address))
rounds: public(immutable(address))
results: public(immutable(address))

job_count: public(uint256)
_bounds: ITrainingJobs.Bounds
_jobs: HashMap[uint256, ITrainingJobs.Job]
# Rounds of a job that are over: finalized and paid, or void.
_rounds_over: HashMap[uint256, uint256]


@deploy
def __init__(
    registry_: address,
    rounds_: address,
    results_: address,
    owner_: address,
    bounds_: ITrainingJobs.Bounds,
):
    """
    @notice Fixes the other contracts, by predicted addresses where they do not exist yet.
    @dev Reverts: "jobs: zero address" and those of `set_bounds`.
    @param registry_ NodeRegistry.
    @param rounds_ TrainingRounds, which alone begins rounds.
    @param results_ TrainingResults, which alone ends rounds.
    @param owner_ The Coordinator.
    @param bounds_ What terms may hold at first.
    """
    for account: address in [registry_, rounds_, results_, owner_]:
        assert account != empty(address), "jobs: zero address"
    pausing.__init__()
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    rounds = rounds_
    results = results_
    self._set_bounds(bounds_)


# Owner


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_CREATE_JOB = 1.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_CREATE_JOB)


@external
def set_bounds(bounds: ITrainingJobs.Bounds):
    """
    @notice Owner only: replaces what the terms of new jobs may hold. The terms of a job that exists
            never change; agents leave a job that the bounds of the day would refuse.
    @dev Reverts: "ownable: caller is not the owner", "jobs: bad bounds" (a bound is 0 or 2**128 and
         more, or the least bond is above the most, or more than 32 rounds' pay is to be retained).
    @param bounds Least and most challenge bond, the least reward of a round, and how many rounds'
           pay a job has to retain at least.
    """
    ownable._check_owner()
    self._set_bounds(bounds)


# Sponsors


@external
def create_job(terms: ITrainingJobs.JobTerms) -> uint256:
    """
    @notice Anyone: creates a job, whose sponsor is the caller. Fund it in the RewardPool.
    @dev Reverts: "pausing: paused", "jobs: empty artefact", "jobs: bad round count",
         "jobs: bad amount", "jobs: reward too low", "jobs: bad bond" (outside of `bounds`), "jobs:
         cuts too high", "jobs: bad node count", "jobs: bad retention" (outside of `bounds`), "jobs:
         bad window" (not above 1/20,000 of the unbonding period, or above 30 days: a node needs
         time to reveal or to appeal), "jobs: windows exceed unbonding" (a node could leave with its
         stake before its work is judged), "jobs: dispute window too short" (less than two of the
         Coordinator's routine delays). A sum that overflows reverts without a reason.
    @param terms The job's terms, which never change.
    @return uint256 The job id.
    """
    pausing._check_not_paused(PAUSE_CREATE_JOB)
    assert (
        terms.spec != empty(bytes32)
        and terms.genesis_model != empty(bytes32)
        and terms.genesis_checkpoint != empty(bytes32)
    ), "jobs: empty artefact"
    assert terms.rounds != 0 and terms.rounds <= MAX_ROUNDS, "jobs: bad round count"
    assert terms.reward_per_round < MAX_AMOUNT, "jobs: bad amount"
    assert terms.reward_per_round >= self._bounds.least_reward, "jobs: reward too low"
    assert (
        terms.challenge_bond >= self._bounds.least_bond
        and terms.challenge_bond <= self._bounds.most_bond
    ), "jobs: bad bond"
    assert terms.verifier_bps + terms.aggregator_bps <= MAX_CUTS, "jobs: cuts too high"
    assert terms.max_nodes != 0 and terms.max_nodes <= MAX_NODES, "jobs: bad node count"
    assert (
        terms.retain_rounds >= self._bounds.least_retained and terms.retain_rounds <= MAX_RETAINED
    ), "jobs: bad retention"
    unbonding: uint256 = self._unbonding()
    for window: uint256 in [
        terms.commit_s,
        terms.reveal_s,
        terms.aggregate_s,
        terms.challenge_s,
        terms.dispute_s,
        terms.appeal_s,
    ]:
        assert (
            window > unbonding // WINDOWS_PER_UNBONDING and window <= MAX_WINDOW
        ), "jobs: bad window"
    assert self._round_s(terms) + self._decision_s(terms) <= unbonding, (
        "jobs: windows exceed unbonding"
    )
    # A decision needs the owner's delay; in less, every challenge and appeal would win by default.
    if ownable.owner.is_contract:
        routine: uint256 = 0
        governance: uint256 = 0
        routine, governance = staticcall ICoordinator(ownable.owner).delays()
        assert terms.dispute_s >= 2 * routine, "jobs: dispute window too short"

    job_id: uint256 = self.job_count + 1
    self.job_count = job_id
    self._jobs[job_id] = ITrainingJobs.Job(
        sponsor=msg.sender,
        terms=terms,
        status=ACTIVE,
        cancel_requested=False,
        rounds_opened=0,
        rounds_done=0,
        model=terms.genesis_model,
    )
    log ITrainingJobs.JobCreated(job_id=job_id, sponsor=msg.sender, terms=terms)
    return job_id


@external
def cancel_job(job_id: uint256):
    """
    @notice Sponsor, or the owner: ends the job, at once when no round is open, else when the open
            round is over. It moves no round on: when the round's deadline has passed, call
            `advance` of the contract that has the round.
    @dev Reverts: "jobs: not sponsor", "jobs: job not active", "jobs: cancel requested".
    @param job_id The job.
    """
    assert msg.sender in [self._jobs[job_id].sponsor, ownable.owner], "jobs: not sponsor"
    assert self._jobs[job_id].status == ACTIVE, "jobs: job not active"
    assert not self._jobs[job_id].cancel_requested, "jobs: cancel requested"
    self._jobs[job_id].cancel_requested = True
    log ITrainingJobs.JobCancelRequested(job_id=job_id)
    self._end_if_due(job_id)


# TrainingRounds only


@external
def begin_round(job_id: uint256) -> ITrainingJobs.RoundTerms:
    """
    @notice TrainingRounds only: opens the next round of an active job, whose number and terms it
            is told. This is the one place that says how many rounds of a job may be open. The round
            is told too by when its result must be settled: whoever leaves now can't withdraw its
            stake before a report that was confirmed at the last moment is decided.
    @dev Reverts: "jobs: not rounds", "jobs: round open", "jobs: job not active", "jobs: windows
         exceed unbonding" (the owner has shortened the unbonding period since).
    @param job_id The job.
    @return ITrainingJobs.RoundTerms What the round needs to open.
    """
    assert msg.sender == rounds, "jobs: not rounds"
    opened: uint256 = self._jobs[job_id].rounds_opened
    assert opened - self._rounds_over[job_id] < MAX_OPEN_ROUNDS, "jobs: round open"
    assert self._jobs[job_id].status == ACTIVE, "jobs: job not active"
    self._jobs[job_id].rounds_opened = opened + 1
    terms: ITrainingJobs.JobTerms = self._jobs[job_id].terms
    unbonding: uint256 = self._unbonding()
    decision: uint256 = self._decision_s(terms)
    assert self._round_s(terms) + decision <= unbonding, "jobs: windows exceed unbonding"
    return ITrainingJobs.RoundTerms(
        round_id=opened + 1,
        model=self._jobs[job_id].model,
        max_nodes=terms.max_nodes,
        commit_s=terms.commit_s,
        reveal_s=terms.reveal_s,
        aggregate_s=terms.aggregate_s,
        challenge_s=terms.challenge_s,
        dispute_s=terms.dispute_s,
        reward=terms.reward_per_round,
        settle_by=block.timestamp + unbonding - decision,
    )


# TrainingResults only


@external
def end_round(job_id: uint256, model: bytes32):
    """
    @notice TrainingResults only: an open round of the job is over. The model it made becomes the
            job's head; a void round made none and changes nothing. The job ends when its rounds are
            done or it was cancelled, and no round is open any more.
    @dev Reverts: "jobs: not results", "jobs: no round open".
    @param job_id The job.
    @param model Hash of the new model, or empty when the round was void.
    """
    assert msg.sender == results, "jobs: not results"
    over: uint256 = self._rounds_over[job_id] + 1
    assert over <= self._jobs[job_id].rounds_opened, "jobs: no round open"
    self._rounds_over[job_id] = over
    if model != empty(bytes32):
        self._jobs[job_id].rounds_done += 1
        self._jobs[job_id].model = model
    self._end_if_due(job_id)


# Views


@view
@reentrant
@external
def job(job_id: uint256) -> ITrainingJobs.Job:
    """
    @notice A job.
    @param job_id The job.
    @return ITrainingJobs.Job The job; all zero when there is none.
    """
    return self._jobs[job_id]


@view
@reentrant
@external
def job_ended(job_id: uint256) -> bool:
    """
    @notice Whether a job is completed or cancelled: its escrow may be refunded.
    @param job_id The job.
    @return bool False also for a job that does not exist.
    """
    return self._jobs[job_id].status > ACTIVE


@view
@reentrant
@external
def sponsor_of(job_id: uint256) -> address:
    """
    @notice Who created a job.
    @param job_id The job.
    @return address The sponsor, zero when there is no such job.
    """
    return self._jobs[job_id].sponsor


@view
@reentrant
@external
def origin_of(job_id: uint256) -> (address, bytes32):
    """
    @notice What tells a job from every other one that might have its id after a reorganisation: who
            created it, and for what.
    @param job_id The job.
    @return The sponsor and the digest of the spec; empty when there is no such job.
    """
    return self._jobs[job_id].sponsor, self._jobs[job_id].terms.spec


@view
@reentrant
@external
def bounds() -> ITrainingJobs.Bounds:
    """
    @notice What the terms of a new job may hold.
    @return ITrainingJobs.Bounds Least and most challenge bond, the least reward of a round, and
            how many rounds' pay a job has to retain at least, 32 at most.
    """
    return self._bounds


@view
@reentrant
@external
def rounds_opened(job_id: uint256) -> uint256:
    """
    @notice How many rounds of a job were ever opened, which is the id of its newest round.
    @param job_id The job.
    @return uint256 The count.
    """
    return self._jobs[job_id].rounds_opened


@view
@reentrant
@external
def rounds_open(job_id: uint256) -> uint256:
    """
    @notice How many rounds of a job are open: begun, and neither void nor finalized and paid.
    @param job_id The job.
    @return uint256 The count.
    """
    return self._jobs[job_id].rounds_opened - self._rounds_over[job_id]


@view
@reentrant
@external
def payment(job_id: uint256) -> (bytes32, uint256, uint256):
    """
    @notice What TrainingResults needs of a job to record and pay a round.
    @param job_id The job.
    @return The job's head, and the parts of 10,000 of a round's pool that the verifiers and the
            proposer get.
    """
    return (
        self._jobs[job_id].model,
        self._jobs[job_id].terms.verifier_bps,
        self._jobs[job_id].terms.aggregator_bps,
    )


@view
@reentrant
@external
def challenge_bond(job_id: uint256) -> uint256:
    """
    @notice The bond of a challenge in a job.
    @param job_id The job.
    @return uint256 The amount.
    """
    return self._jobs[job_id].terms.challenge_bond


@view
@reentrant
@external
def retain_rounds(job_id: uint256) -> uint256:
    """
    @notice How many rounds' pay of a trainer the pool retains in a job.
    @param job_id The job.
    @return uint256 The number, at most 32.
    """
    return self._jobs[job_id].terms.retain_rounds


# Internal: bounds


@internal
def _set_bounds(bounds: ITrainingJobs.Bounds):
    """
    @notice See `set_bounds`.
    """
    assert (
        bounds.least_bond != 0
        and bounds.least_bond <= bounds.most_bond
        and bounds.most_bond < MAX_AMOUNT
        and bounds.least_reward != 0
        and bounds.least_reward < MAX_AMOUNT
        and bounds.least_retained <= MAX_RETAINED
    ), "jobs: bad bounds"
    log ITrainingJobs.BoundsChanged(old_bounds=self._bounds, new_bounds=bounds)
    self._bounds = bounds


@internal
@view
def _unbonding() -> uint256:
    """
    @notice For how long a stake stays slashable once its owner leaves.
    """
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    return parameters.unbonding_period


@internal
@pure
def _round_s(terms: ITrainingJobs.JobTerms) -> uint256:
    """
    @notice The longest a round takes up to the end of its first result: with the fallback window, a
            challenge, and the half window that a result has at least after a challenge was
            rejected.
    """
    return (
        terms.commit_s
        + terms.reveal_s
        + 2 * terms.aggregate_s
        + terms.challenge_s
        + terms.challenge_s // 2
        + terms.dispute_s
    )


@internal
@pure
def _decision_s(terms: ITrainingJobs.JobTerms) -> uint256:
    """
    @notice The longest that a confirmed report waits for its end: an appeal at the last moment, and
            the owner's decision on it.
    """
    return terms.appeal_s + terms.dispute_s


# Internal: end


@internal
def _end_if_due(job_id: uint256):
    """
    @notice Ends a job without open round when its rounds are done or it was cancelled.
    """
    if self._rounds_over[job_id] != self._jobs[job_id].rounds_opened:
        return
    status: uint256 = ACTIVE
    if self._jobs[job_id].rounds_done == self._jobs[job_id].terms.rounds:
        status = COMPLETED
    elif self._jobs[job_id].cancel_requested:
        status = CANCELLED
    if status != ACTIVE:
        self._jobs[job_id].status = status
        log ITrainingJobs.JobEnded(job_id=job_id, status=status)
