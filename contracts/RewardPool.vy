# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title RewardPool
@license AGPL-3.0-only
@notice The money of every job. A sponsor's escrow becomes a round's pool when the round opens,
        the pool becomes pending rewards of payout addresses when it is settled. Payment is pulled:
        no receiver can block another.
        What a spoiled round does not pay is carried to the job's next round; the treasury gets what
        is carried when the job has ended. So a sponsor can't save pay by spoiling rounds. A round
        is spoiled when it is void although it had a result: the next round pays its whole pool too.
        For example, the result of a round of 1,000 ZOO is wrong, and there is no time for another
        one: the next round pays 2,000. A round is also spoiled when work in it was found invalid:
        what trainers did not get there is for the trainers of the next round, without cuts. Any
        other round gives back to the escrow what it doesn't pay.
        A job that adopted ScoreConsensus pays its trainers by the validators' consensus, whatever
        the round's result says of them, also those that it leaves out, and its verifiers by their
        trust.
        Nobody is paid while it stands accused. The share of a node in a round in which a report on
        it is confirmed is set aside until the report ends: it becomes the node's, or is carried.
        What the node earns elsewhere meanwhile is held until its stake is unlocked.
        Work that was handed out and does not count is paid to the treasury, where a job's results
        say how much of it there was: nobody earns more by what others lose.
        A job may have its trainers' first pay retained: it answers for their work there. Whoever is
        found guilty in the job forfeits it to the treasury, and not to the sponsor, who would
        profit from a conviction. All others get it when the job has ended or they have left it.
        Donations aside, at all times:
        token.balanceOf(self) == total_escrow + total_reserved + total_pending + total_held.
@custom:kill There is no owner and no pause. Pausing new rounds in TrainingRounds stops new
             reservations; claims, settlements and refunds always stay open.
"""

from interfaces import INodeRegistry
from interfaces import IRewardPool
from interfaces import IScoreConsensus
from interfaces import ITrainingJobs
from interfaces import ITrainingRounds
from interfaces import IZooToken

implements: IRewardPool

# Status of a pool.
RESERVED: constant(uint256) = 1
DISTRIBUTING: constant(uint256) = 2
CLOSED: constant(uint256) = 3

# Phase of a round in which a node may still commit.
COMMIT: constant(uint256) = 1
MAX_RETAINED: constant(uint256) = 32


# What is paid with, who says where a node is paid, who knows the jobs, the only contract that may
# move a pool, who says what the nodes of an adopted job are worth, and who ends what a report has
# begun.
token: public(immutable(address))
registry: public(immutable(address))
jobs: public(immutable(address))
results: public(immutable(address))
scores: public(immutable(address))
reports: public(immutable(address))

escrow: public(HashMap[uint256, uint256])
pending: public(HashMap[address, uint256])
total_escrow: public(uint256)
total_reserved: public(uint256)
total_pending: public(uint256)
total_held: public(uint256)
# By node, what it earned while it had a lock.
held: public(HashMap[uint256, uint256])
# By job and node, the pay that answers for its work.
retained: public(HashMap[uint256, HashMap[uint256, uint256]])
# By job, round and node, the share that a confirmed report keeps from it.
_aside: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
# By job, what its rounds have not paid, which its next round pays, and the part of it that is for
# trainers alone. `total_reserved` counts it.
carried: public(HashMap[uint256, uint256])
carried_for_trainers: public(HashMap[uint256, uint256])
# By job and round, the part of a pool that earlier rounds carried to it.
_brought: HashMap[uint256, HashMap[uint256, uint256]]
_pools: HashMap[uint256, HashMap[uint256, IRewardPool.Pool]]


@deploy
def __init__(
    token_: address,
    registry_: address,
    jobs_: address,
    results_: address,
    scores_: address,
    reports_: address,
):
    """
    @notice Fixes the contracts the pool works with. There is no owner.
    @dev Reverts: "pool: zero address".
    @param token_ The ZOO token.
    @param registry_ The NodeRegistry, read for payout addresses.
    @param jobs_ TrainingJobs, read for the sponsor and the end of a job.
    @param results_ TrainingResults, the only caller of the settlement functions.
    @param scores_ The ScoreConsensus contract, read for the shares and cuts of adopted jobs.
    @param reports_ ViolationReports, the only caller of `settle_share`.
    """
    for account: address in [token_, registry_, jobs_, results_, scores_, reports_]:
        assert account != empty(address), "pool: zero address"
    token = token_
    registry = registry_
    jobs = jobs_
    results = results_
    scores = scores_
    reports = reports_


@external
def fund(job_id: uint256, sponsor: address, spec: bytes32, amount: uint256):
    """
    @notice Anyone: adds to the escrow of an active job. Only the sponsor can get it back. The
            caller says whose job it means and for what: an id alone may be another job's, by a
            mistake or after a reorganisation of the chain, and its sponsor would take the money.
    @dev The caller must have approved this contract for `amount`. Reverts: "pool: zero amount",
         "pool: unknown job", "pool: another job", "pool: job ended", "pool: transfer failed", and
         the token's own.
    @param job_id The job.
    @param sponsor Its sponsor.
    @param spec The digest of its spec.
    @param amount The units added.
    """
    assert amount != 0, "pool: zero amount"
    job_sponsor: address = empty(address)
    job_spec: bytes32 = empty(bytes32)
    job_sponsor, job_spec = staticcall ITrainingJobs(jobs).origin_of(job_id)
    assert job_sponsor != empty(address), "pool: unknown job"
    assert job_sponsor == sponsor and job_spec == spec, "pool: another job"
    assert not staticcall ITrainingJobs(jobs).job_ended(job_id), "pool: job ended"

    escrow: uint256 = self.escrow[job_id] + amount
    self.escrow[job_id] = escrow
    self.total_escrow += amount
    log IRewardPool.JobFunded(job_id=job_id, funder=msg.sender, amount=amount, escrow=escrow)
    assert extcall IZooToken(token).transferFrom(msg.sender, self, amount), "pool: transfer failed"


@external
def claim() -> uint256:
    """
    @notice Anyone with a reward: takes out everything pending for the caller.
    @dev Reverts: "pool: nothing to claim", "pool: transfer failed".
    @return uint256 The units paid.
    """
    amount: uint256 = self.pending[msg.sender]
    assert amount != 0, "pool: nothing to claim"

    self.pending[msg.sender] = 0
    self.total_pending -= amount
    log IRewardPool.RewardClaimed(account=msg.sender, amount=amount)
    assert extcall IZooToken(token).transfer(msg.sender, amount), "pool: transfer failed"
    return amount


@external
def refund(job_id: uint256) -> uint256:
    """
    @notice Sponsor: takes back the escrow of an ended job. May be called again when a pool that
            was still open at the time has been closed since.
    @dev Reverts: "pool: not sponsor", "pool: job not ended", "pool: nothing to refund",
         "pool: transfer failed".
    @param job_id The job.
    @return uint256 The units paid.
    """
    assert msg.sender == staticcall ITrainingJobs(jobs).sponsor_of(job_id), "pool: not sponsor"
    assert staticcall ITrainingJobs(jobs).job_ended(job_id), "pool: job not ended"
    amount: uint256 = self.escrow[job_id]
    assert amount != 0, "pool: nothing to refund"

    self.escrow[job_id] = 0
    self.total_escrow -= amount
    log IRewardPool.EscrowRefunded(job_id=job_id, sponsor=msg.sender, amount=amount)
    assert extcall IZooToken(token).transfer(msg.sender, amount), "pool: transfer failed"
    return amount


@external
def release(node_id: uint256) -> uint256:
    """
    @notice Anyone, once a node has no lock: credits what was held for it to its payout address.
    @dev Reverts: "pool: nothing held", "pool: node locked".
    @param node_id The node.
    @return uint256 The units credited.
    """
    amount: uint256 = self.held[node_id]
    assert amount != 0, "pool: nothing held"
    payouts: DynArray[address, 128] = []
    locked: uint256 = 0
    payouts, locked = staticcall INodeRegistry(registry).payees([node_id])
    assert locked == 0, "pool: node locked"
    self._release(node_id, payouts[0])
    return amount


@external
def release_retained(job_id: uint256, node_id: uint256) -> uint256:
    """
    @notice Anyone, once a node that has no lock can answer for nothing more in a job: credits the
            pay that was retained there to its payout address. That is so when the job has ended;
            when the node has withdrawn its stake; when the node committed in none of the job's
            newest `retain_rounds` rounds, and can't commit in the newest one any more; and when no
            round is running and none was opened for an unbonding period.
    @dev The draw of spot checks counts what was retained when the round opened, so it must not
         leave while the node can still work in that round. Reverts: "pool: nothing retained",
         "pool: node locked", "pool: still working".
    @param job_id The job.
    @param node_id The node.
    @return uint256 The units credited.
    """
    amount: uint256 = self.retained[job_id][node_id]
    assert amount != 0, "pool: nothing retained"
    payouts: DynArray[address, 128] = []
    locked: uint256 = 0
    payouts, locked = staticcall INodeRegistry(registry).payees([node_id])
    assert locked == 0, "pool: node locked"
    assert (
        staticcall ITrainingJobs(jobs).job_ended(job_id)
        or staticcall INodeRegistry(registry).operator_of(node_id) == empty(address)
        or self._has_left(job_id, node_id)
    ), "pool: still working"

    self.retained[job_id][node_id] = 0
    self.total_held -= amount
    self.pending[payouts[0]] += amount
    self.total_pending += amount
    log IRewardPool.RetainedReleased(
        job_id=job_id, node_id=node_id, payout=payouts[0], amount=amount
    )
    return amount


@external
def forfeit_carried(job_id: uint256) -> uint256:
    """
    @notice Anyone, once a job has ended: credits the treasury what its last rounds have not paid,
            for there is no next round that could. May be called again when a report on a node of a
            last round has ended since.
    @dev Reverts: "pool: job not ended", "pool: nothing carried".
    @param job_id The job.
    @return uint256 The units credited.
    """
    assert staticcall ITrainingJobs(jobs).job_ended(job_id), "pool: job not ended"
    amount: uint256 = self.carried[job_id]
    assert amount != 0, "pool: nothing carried"

    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    self.carried[job_id] = 0
    self.carried_for_trainers[job_id] = 0
    self.total_reserved -= amount
    self.pending[parameters.treasury] += amount
    self.total_pending += amount
    log IRewardPool.CarriedForfeited(job_id=job_id, treasury=parameters.treasury, amount=amount)
    return amount


@external
def settle_share(job_id: uint256, round_id: uint256, node_id: uint256, guilty: bool):
    """
    @notice ViolationReports only, when a report on a node has ended: the share that was set aside
            for the node in that round is carried to the trainers of the job's next round when it is
            guilty, else it is credited to its payout address. What was held of other rounds is
            released, unless another lock is left. A guilty node's retained pay of the job goes to
            the treasury. Does nothing where nothing was kept.
    @dev Reverts: "pool: not reports".
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @param guilty Whether the node was found guilty.
    """
    assert msg.sender == reports, "pool: not reports"
    amount: uint256 = self._aside[job_id][round_id][node_id]
    payouts: DynArray[address, 128] = []
    locked: uint256 = 0
    payouts, locked = staticcall INodeRegistry(registry).payees([node_id])
    if amount != 0:
        self._aside[job_id][round_id][node_id] = 0
        self.total_held -= amount
        if guilty:
            self.carried[job_id] += amount
            self.carried_for_trainers[job_id] += amount
            self.total_reserved += amount
        else:
            self.pending[payouts[0]] += amount
            self.total_pending += amount
        log IRewardPool.ShareSettled(
            job_id=job_id, round_id=round_id, node_id=node_id, guilty=guilty, amount=amount
        )
    if guilty:
        self._forfeit(job_id, node_id)
    if locked == 0 and self.held[node_id] != 0:
        self._release(node_id, payouts[0])


@external
def reserve(job_id: uint256, round_id: uint256, amount: uint256):
    """
    @notice Sets a round's pool aside from its job's escrow, and adds what the rounds before it have
            carried to it. TrainingResults only, once per round.
    @dev Reverts: "pool: not results", "pool: already reserved", "pool: escrow too low".
    @param job_id The job.
    @param round_id The round.
    @param amount The units taken from the escrow.
    """
    self._check_results()
    assert self._pools[job_id][round_id].status == 0, "pool: already reserved"
    escrow: uint256 = self.escrow[job_id]
    assert amount <= escrow, "pool: escrow too low"

    brought: uint256 = self.carried[job_id]
    whole: uint256 = amount + brought
    if brought != 0:
        self.carried[job_id] = 0
        self._brought[job_id][round_id] = brought
        self._pools[job_id][round_id].for_trainers = self.carried_for_trainers[job_id]
        self.carried_for_trainers[job_id] = 0
    self._pools[job_id][round_id].amount = whole
    self._pools[job_id][round_id].status = RESERVED
    self.escrow[job_id] = unsafe_sub(escrow, amount)
    self.total_escrow -= amount
    self.total_reserved += amount
    log IRewardPool.PoolReserved(job_id=job_id, round_id=round_id, amount=whole)


@external
def start_distribution(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    total_contribution: uint256,
    cut_nodes: DynArray[uint256, 128],
    cut_amounts: DynArray[uint256, 128],
):
    """
    @notice Credits the fixed cuts of a finalized round and fixes what is left for its trainers.
            TrainingResults only, once per round.
    @dev A node may appear in several cuts. The cut of a node without payout address stays in the
         pool, that of a node with a lock is held. A zero total is a round that pays no trainer:
         `distribute` then always reverts.
         In an adopted job the cuts but the first are shared anew by `cut_factors`: those of the
         verifiers that count are divided in proportion to cut and factor, and those of the others
         go to the trainers, with what rounding leaves. If the round has a consensus, its sum
         replaces `total_contribution`; else the sum of what the newest consensus gives `nodes`,
         unless that is zero.
         Reverts: "pool: not results", "pool: not reserved", "pool: already distributing",
         "pool: closed", "pool: length mismatch", "pool: cuts too high", "scores: open".
    @param job_id The job.
    @param round_id The round.
    @param nodes The nodes that the result names.
    @param total_contribution Sum of their contributions.
    @param cut_nodes The nodes paid a cut: the proposer, then verifiers.
    @param cut_amounts The units of each cut.
    """
    self._check_results()
    status: uint256 = self._pools[job_id][round_id].status
    assert status != 0, "pool: not reserved"
    assert status != DISTRIBUTING, "pool: already distributing"
    assert status != CLOSED, "pool: closed"
    assert len(cut_nodes) == len(cut_amounts), "pool: length mismatch"

    adopted: bool = False
    source: uint256 = 0
    total: uint256 = 0
    adopted, source, total = staticcall IScoreConsensus(scores).settlement(job_id, round_id)
    factors: DynArray[uint256, 128] = []
    if adopted:
        factors = staticcall IScoreConsensus(scores).cut_factors(job_id, round_id, cut_nodes)
    if source != 0 and source != round_id:
        for score: uint256 in staticcall IScoreConsensus(scores).shares(job_id, source, nodes):
            total += score
    if total != 0:
        self._pools[job_id][round_id].scored_round = source
    else:
        total = total_contribution

    remaining: uint256 = self._pools[job_id][round_id].amount
    left: uint256 = remaining
    # Of the cuts that count: their sum, and the same by their factors.
    counted: uint256 = 0
    weighed: uint256 = 0
    index: uint256 = 0
    for amount: uint256 in cut_amounts:
        assert amount <= left, "pool: cuts too high"
        left = unsafe_sub(left, amount)
        if adopted and index != 0 and factors[index] != 0:
            counted += amount
            weighed += amount * factors[index]
        index = unsafe_add(index, 1)

    paid: uint256 = 0
    kept: uint256 = 0
    payouts: DynArray[address, 128] = []
    locked: uint256 = 0
    payouts, locked = staticcall INodeRegistry(registry).payees(cut_nodes)
    index = 0
    for node_id: uint256 in cut_nodes:
        payout: address = payouts[index]
        amount: uint256 = cut_amounts[index]
        # Those that count get no more than `counted` together.
        if adopted and index != 0:
            amount *= factors[index]
            if amount != 0:
                amount = amount * counted // weighed
        remaining -= amount
        if amount != 0 and locked >> index & 1 != 0:
            kept += amount
            self._hold(job_id, round_id, node_id, amount)
        elif amount != 0 and payout != empty(address):
            self.pending[payout] += amount
            paid += amount
            log IRewardPool.CutCredited(
                job_id=job_id,
                node_id=node_id,
                payout=payout,
                round_id=round_id,
                amount=amount,
            )
        index = unsafe_add(index, 1)

    self._pools[job_id][round_id].status = DISTRIBUTING
    self._pools[job_id][round_id].trainer_amount = remaining
    self._pools[job_id][round_id].total_contribution = total
    self._pools[job_id][round_id].paid = paid + kept
    self._credit(paid, kept)


@external
def distribute(
    job_id: uint256,
    round_id: uint256,
    nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128],
    aside: uint256,
):
    """
    @notice Credits one batch of trainers with trainer_amount * contribution // total, rounded
            down; a round may take several batches. The share of a node on whom a confirmed report
            is not at its end is set aside. Of any other share the job's retained pay of the node is
            filled first, up to `retain_rounds` times the share; what is left is held if the node
            has a lock. TrainingResults only, with what `parts` says.
    @dev Node ids ascend strictly, also from batch to batch, so no node is paid twice. The share
         of a node without payout address stays in the pool. Node 0 is nobody: the treasury gets its
         share at once, since nothing is retained, held or set aside for it. Reverts:
         "pool: not results", "pool: not distributing", "pool: closed", "pool: length mismatch",
         "pool: zero total", "pool: node order", "pool: over-distributed".
    @param job_id The job.
    @param round_id The round.
    @param nodes The node ids of the batch.
    @param contributions The contribution of each; zero credits nothing.
    @param aside One bit a node, the first the lowest: whether its share is set aside.
    """
    self._check_results()
    pool: IRewardPool.Pool = self._pools[job_id][round_id]
    assert pool.status != CLOSED, "pool: closed"
    assert pool.status == DISTRIBUTING, "pool: not distributing"
    assert len(nodes) == len(contributions), "pool: length mismatch"
    assert pool.total_contribution != 0, "pool: zero total"

    last_node: uint256 = pool.last_node
    remaining: uint256 = pool.total_contribution - pool.distributed
    paid: uint256 = 0
    kept: uint256 = 0
    payouts: DynArray[address, 128] = []
    locked: uint256 = 0
    payouts, locked = staticcall INodeRegistry(registry).payees(nodes)
    retain: uint256 = staticcall ITrainingJobs(jobs).retain_rounds(job_id)
    amounts: DynArray[uint256, 128] = []
    index: uint256 = 0
    for node_id: uint256 in nodes:
        contribution: uint256 = contributions[index]
        assert (
            node_id > last_node or node_id == 0 and index == 0 and pool.distributed == 0
        ), "pool: node order"
        assert contribution <= remaining, "pool: over-distributed"
        last_node = node_id
        remaining = unsafe_sub(remaining, contribution)
        if node_id == 0:
            parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
            payouts[0] = parameters.treasury
        payout: address = payouts[index]
        amount: uint256 = 0
        if payout != empty(address):
            amount = unsafe_div(pool.trainer_amount * contribution, pool.total_contribution)
        if node_id == 0:
            pass
        elif aside != 0 and amount != 0 and aside >> index & 1 != 0:
            kept += amount
            self._aside[job_id][round_id][node_id] = amount
            log IRewardPool.ShareSetAside(
                job_id=job_id, round_id=round_id, node_id=node_id, amount=amount
            )
            amount = 0
        elif retain != 0 and amount != 0:
            retaining: uint256 = self._retain(job_id, round_id, node_id, amount, retain)
            kept += retaining
            amount = unsafe_sub(amount, retaining)
        if locked != 0 and amount != 0 and locked >> index & 1 != 0:
            kept += amount
            self._hold(job_id, round_id, node_id, amount)
            amount = 0
        elif amount != 0:
            # No sum of credits exceeds the token's supply.
            self.pending[payout] = unsafe_add(self.pending[payout], amount)
            paid = unsafe_add(paid, amount)
        amounts.append(amount)
        index = unsafe_add(index, 1)

    self._pools[job_id][round_id].last_node = last_node
    self._pools[job_id][round_id].distributed = pool.total_contribution - remaining
    self._pools[job_id][round_id].paid = pool.paid + paid + kept
    self._credit(paid, kept)
    log IRewardPool.RewardsDistributed(
        job_id=job_id, round_id=round_id, nodes=nodes, payouts=payouts, amounts=amounts
    )


@external
def close(job_id: uint256, round_id: uint256, spoiled: bool) -> (uint256, uint256):
    """
    @notice Ends a pool. What it didn't pay (everything when the round was void, else dust and
            uncredited shares) is carried to the job's next round if `spoiled`. Else the part of it
            that came from the escrow goes back there. A void round carries what it would have cut
            and paid, any other round what only trainers get. TrainingResults only, once per round.
    @dev A sponsor must not gain by a round that goes wrong: it could send the noise, or propose the
         wrong result, that spoils it. Reverts: "pool: not results", "pool: not reserved",
         "pool: closed".
    @param job_id The job.
    @param round_id The round.
    @param spoiled Whether the round is void although it had a result, or somebody's work in it was
           found invalid.
    @return The units credited to nodes or kept for them, and the units that were not.
    """
    self._check_results()
    status: uint256 = self._pools[job_id][round_id].status
    assert status != 0, "pool: not reserved"
    assert status != CLOSED, "pool: closed"

    paid: uint256 = self._pools[job_id][round_id].paid
    unpaid: uint256 = self._pools[job_id][round_id].amount - paid
    self._pools[job_id][round_id].status = CLOSED
    kept: uint256 = unpaid
    if not spoiled:
        kept = min(unpaid, self._brought[job_id][round_id])
        returned: uint256 = unpaid - kept
        self.total_reserved -= returned
        self.total_escrow += returned
        self.escrow[job_id] += returned
    log IRewardPool.PoolClosed(job_id=job_id, round_id=round_id, paid=paid, returned=unpaid - kept)
    if kept != 0:
        for_trainers: uint256 = kept
        if status == RESERVED:
            for_trainers = self._pools[job_id][round_id].for_trainers
        self.carried[job_id] += kept
        self.carried_for_trainers[job_id] += for_trainers
        log IRewardPool.PayCarried(
            job_id=job_id, round_id=round_id, amount=kept, for_trainers=for_trainers
        )
    return paid, unpaid


@view
@external
def pool(job_id: uint256, round_id: uint256) -> IRewardPool.Pool:
    """
    @notice The pool of a round, kept after it is closed.
    @param job_id The job.
    @param round_id The round.
    @return IRewardPool.Pool The pool; status 0 when it was never reserved.
    """
    return self._pools[job_id][round_id]


@view
@external
def parts(
    job_id: uint256, round_id: uint256, nodes: DynArray[uint256, 128]
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice Whom scores pay in a round whose distribution has started, and in which parts: all that
            have a consensus in it; when there is none, those of the result, by the newest one.
    @param job_id The job.
    @param round_id The round.
    @param nodes The nodes that the result names.
    @return The nodes, ascending, and the part of each; both empty when the result's contributions
            pay the round.
    """
    source: uint256 = self._pools[job_id][round_id].scored_round
    if source == 0:
        return [], []
    if source == round_id:
        return staticcall IScoreConsensus(scores).consensus_of(job_id, round_id)
    return nodes, staticcall IScoreConsensus(scores).shares(job_id, source, nodes)


@view
@external
def set_aside(job_id: uint256, round_id: uint256, node_id: uint256) -> uint256:
    """
    @notice The share of a node in a round that waits for the end of a confirmed report.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return uint256 The units.
    """
    return self._aside[job_id][round_id][node_id]


@internal
@view
def _check_results():
    """
    @notice Lets only TrainingResults pass.
    """
    assert msg.sender == results, "pool: not results"


@internal
def _credit(paid: uint256, kept: uint256):
    """
    @notice Moves units from the reserved to the pending and the held total, once per batch.
    @param paid The units credited.
    @param kept The units held or set aside.
    """
    self.total_reserved -= paid + kept
    self.total_pending += paid
    if kept != 0:
        self.total_held += kept


@internal
def _hold(job_id: uint256, round_id: uint256, node_id: uint256, amount: uint256):
    """
    @notice Keeps a node's pay until it has no lock. `_credit` counts it.
    """
    self.held[node_id] += amount
    log IRewardPool.PayHeld(job_id=job_id, node_id=node_id, round_id=round_id, amount=amount)


@internal
def _retain(
    job_id: uint256, round_id: uint256, node_id: uint256, amount: uint256, rounds: uint256
) -> uint256:
    """
    @notice Retains of a node's pay what it lacks of `rounds` times that pay. `_credit` counts it.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @param amount Its pay of the round.
    @param rounds The job's `retain_rounds`.
    @return uint256 The units retained, at most `amount`.
    """
    before: uint256 = self.retained[job_id][node_id]
    wanted: uint256 = rounds * amount
    if before >= wanted:
        return 0
    retaining: uint256 = min(amount, wanted - before)
    self.retained[job_id][node_id] = before + retaining
    log IRewardPool.PayRetained(job_id=job_id, round_id=round_id, node_id=node_id, amount=retaining)
    return retaining


@internal
def _forfeit(job_id: uint256, node_id: uint256):
    """
    @notice Gives the treasury what was retained of a guilty node's pay in a job.
    """
    amount: uint256 = self.retained[job_id][node_id]
    if amount == 0:
        return
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    self.retained[job_id][node_id] = 0
    self.total_held -= amount
    self.pending[parameters.treasury] += amount
    self.total_pending += amount
    log IRewardPool.RetainedForfeited(
        job_id=job_id, node_id=node_id, treasury=parameters.treasury, amount=amount
    )


@internal
@view
def _has_left(job_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a node stayed away from a job's newest rounds, or the job from its nodes.
    """
    rounds: address = staticcall ITrainingJobs(jobs).rounds()
    newest: uint256 = staticcall ITrainingJobs(jobs).rounds_opened(job_id)
    if staticcall ITrainingJobs(jobs).rounds_open(job_id) == 0:
        parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
        opened: uint256 = staticcall ITrainingRounds(rounds).opened_at(job_id, newest)
        if opened + parameters.unbonding_period < block.timestamp:
            return True
    if staticcall ITrainingRounds(rounds).phase(job_id, newest) <= COMMIT:
        return False
    for back: uint256 in range(
        min(newest, staticcall ITrainingJobs(jobs).retain_rounds(job_id)), bound=MAX_RETAINED
    ):
        if staticcall ITrainingRounds(rounds).commitment_of(
            job_id, newest - back, node_id
        ) != empty(bytes32):
            return False
    return True


@internal
def _release(node_id: uint256, payout: address):
    """
    @notice Credits everything that was held for a node.
    """
    amount: uint256 = self.held[node_id]
    self.held[node_id] = 0
    self.total_held -= amount
    self.pending[payout] += amount
    self.total_pending += amount
    log IRewardPool.PayReleased(node_id=node_id, payout=payout, amount=amount)
