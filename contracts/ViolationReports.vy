# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title ViolationReports
@license AGPL-3.0-only
@notice Verifiers' reports of INVALID and COPIED work. Verifiers with two thirds of the round's
        verifier stake confirm a report: the node is not paid for the round and its stake is locked.
        It is slashed only after a window in which its owner or operator may appeal to the owner of
        this contract (the Coordinator). An appeal that is upheld slashes the reporters instead; one
        that nobody decides in time slashes nobody. Every path from a confirmation ends in one
        unlock, and says what becomes of the share that the node would have got in the round: the
        escrow gets it back when the node was slashed, the node gets it when it was not.

        The bounty of a slash belongs to the verifier that found the node first, and not to the one
        whose report came first: a report can be copied while it waits for its block. A finder
        announces, and reports in a later block (modules/announcements). An announcement takes a
        deposit of any size, and its finder earns at most as much as it has deposited: so a guess
        that is wrong more often than right loses. The deposit goes back when the node is found
        guilty, and when nobody has judged it: the round is void, or ended without two thirds of the
        weight behind its result. Else the treasury gets it.
@custom:kill Nothing can be paused. Without the Coordinator every appeal ends dismissed, and without
             verifiers no report is ever confirmed.
"""

from interfaces import IAnnouncements
from interfaces import IBonds
from interfaces import INodeRegistry
from interfaces import IRewardPool
from interfaces import ITrainingJobs
from interfaces import ITrainingResults
from interfaces import ITrainingRounds
from interfaces import IViolationReports

implements: IAnnouncements
implements: IBonds
implements: IViolationReports

from contracts.modules import announcements
from contracts.modules import bonds
from snekmate.auth import ownable
from snekmate.auth import ownable_2step

initializes: announcements
initializes: bonds
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


# Status of a report.
OPEN: constant(uint256) = 1
CONFIRMED: constant(uint256) = 2
APPEALED: constant(uint256) = 3
EXECUTED: constant(uint256) = 4
DISMISSED: constant(uint256) = 5
LAPSED: constant(uint256) = 6

# Violations of the registry.
INVALID: constant(uint256) = 2
COPIED: constant(uint256) = 3
FALSE_REPORT: constant(uint256) = 6

# Phases of a round.
CHALLENGE: constant(uint256) = 4
DISPUTED: constant(uint256) = 5
FINALIZED: constant(uint256) = 6

MAX_BOND: constant(uint256) = 2**128
# Verifiers, each of another owner, that a confirmation needs.
MIN_VOICES: constant(uint256) = 2

registry: public(immutable(address))
jobs: public(immutable(address))
rounds: public(immutable(address))
results: public(immutable(address))
pool: public(immutable(address))
appeal_bond: public(immutable(uint256))

_reports: HashMap[bytes32, IViolationReports.Report]
_reporters: HashMap[bytes32, DynArray[uint256, 32]]
# By report and verifier: the deposit of the announcement that its report has opened, until it is
# settled.
_deposits: HashMap[bytes32, HashMap[uint256, uint256]]
# By subject: what its finder has deposited, and earns at most.
_earned_at_most: HashMap[bytes32, uint256]
# By round and verifier: its reports and announcements that were not confirmed. They cost it its
# bounties there.
_unconfirmed: HashMap[bytes32, HashMap[uint256, uint256]]


@deploy
def __init__(
    token_: address,
    registry_: address,
    jobs_: address,
    rounds_: address,
    results_: address,
    pool_: address,
    owner_: address,
    appeal_bond_: uint256,
):
    """
    @notice Fixes the other contracts and the bond of an appeal.
    @dev Reverts: "reports: zero address", "reports: bad bond", "bonds: zero address".
    @param token_ ZOO.
    @param registry_ NodeRegistry.
    @param jobs_ TrainingJobs.
    @param rounds_ TrainingRounds.
    @param results_ TrainingResults.
    @param pool_ RewardPool.
    @param owner_ The Coordinator.
    @param appeal_bond_ The bond of an appeal, not zero.
    """
    for account: address in [registry_, jobs_, rounds_, results_, pool_, owner_]:
        assert account != empty(address), "reports: zero address"
    assert appeal_bond_ != 0 and appeal_bond_ < MAX_BOND, "reports: bad bond"
    announcements.__init__()
    bonds.__init__(token_)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    registry = registry_
    jobs = jobs_
    rounds = rounds_
    results = results_
    pool = pool_
    appeal_bond = appeal_bond_


@external
def announce_report(
    job_id: uint256, round_id: uint256, verifier_id: uint256, digest: bytes32, deposit: uint256
):
    """
    @notice The operator of a verifier of the round's snapshot, unless it is suspended or banned,
            before it reports a node: says that it has found one, without saying which. The digest
            is keccak256(abi_encode(keccak256("menagerie.announcements.v1"), chain id, this
            contract, job_id, round_id, node_id, verifier_id, evidence)), with evidence that nobody
            can guess. The deposit is taken from what is credited to the sender here, and from its
            wallet for what that lacks. It bounds what the verifier can earn by the announcement. It
            goes back when the node is found guilty. It counts as an unconfirmed report until then,
            so announcing everybody blindly costs every bounty of the round.
    @dev Reverts: "reports: bad deposit", "reports: not operator", "reports: not a verifier",
         "announcements: already announced", "bonds: transfer failed", and the token's reasons. The
         scope of the event is keccak256(abi_encode(job_id, round_id, verifier_id)).
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param digest What `report` will open.
    @param deposit Not zero. A finder who wants the whole bounty deposits as much as that may be.
    """
    assert deposit != 0 and deposit < MAX_BOND, "reports: bad deposit"
    self._check_verifier(job_id, round_id, verifier_id)
    announcements._announce(self._scope(job_id, round_id, verifier_id), digest, deposit)
    self._unconfirmed[self._round_key(job_id, round_id)][verifier_id] += 1
    log IViolationReports.ReportAnnounced(
        job_id=job_id, round_id=round_id, verifier_id=verifier_id, digest=digest, deposit=deposit
    )
    bonds._take_credit_first(msg.sender, deposit)


@external
def open_announcement(
    job_id: uint256, round_id: uint256, verifier_id: uint256, node_id: uint256, evidence: bytes32
):
    """
    @notice Anyone, once the node is found guilty: opens an announcement whose verifier was too late
            with its report. It was right, so its deposit goes back, and until the node is slashed
            it earns the bounty if its announcement is the oldest.
    @dev Reverts: "reports: not confirmed", "reports: own node", "reports: not announced". The
         subject of the event is keccak256(abi_encode(job_id, round_id, node_id)).
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param node_id The node.
    @param evidence The evidence that was announced.
    """
    assert self._has_report(job_id, round_id, node_id, True), "reports: not confirmed"
    self._check_not_own(verifier_id, node_id)
    opened: bool = False
    deposit: uint256 = 0
    opened, deposit = self._open(job_id, round_id, verifier_id, node_id, evidence)
    assert opened, "reports: not announced"
    self._unconfirmed[self._round_key(job_id, round_id)][verifier_id] -= 1
    self._settle(job_id, round_id, verifier_id, deposit, True)


@external
def expire_announcement(job_id: uint256, round_id: uint256, verifier_id: uint256, digest: bytes32):
    """
    @notice Anyone, when an announcement was not opened within an unbonding period, in which every
            round and every appeal ends: the treasury gets its deposit, or the verifier's operator
            if nobody has judged the node (see `lapse`). The operator itself has it then as soon as
            the round is over. Others must wait: it may have found a node that was convicted before
            the round was void.
    @dev Reverts: "announcements: not announced", "announcements: too early".
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param digest What was announced.
    """
    result: ITrainingResults.Result = staticcall ITrainingResults(results).result(job_id, round_id)
    returned: bool = result.phase >= FINALIZED and not self._is_judged(result)
    after: uint256 = 0
    if not returned or staticcall INodeRegistry(registry).operator_of(verifier_id) != msg.sender:
        parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
        after = parameters.unbonding_period
    deposit: uint256 = announcements._expire(
        self._scope(job_id, round_id, verifier_id), digest, after
    )
    self._settle(job_id, round_id, verifier_id, deposit, returned)


@external
def report(
    job_id: uint256,
    round_id: uint256,
    verifier_id: uint256,
    node_id: uint256,
    violation: uint256,
    evidence: bytes32,
) -> bytes32:
    """
    @notice The operator of a verifier of the round's snapshot reports a node that revealed, in
            CHALLENGE or DISPUTED, once, unless it is suspended or banned itself. COPIED needs
            content equal to another node's. From a third of the snapshot's weight on a report keeps
            the round from being final early. With two thirds, of two verifiers at least, it
            confirms the violation: the node is invalid for the round, its stake is locked and its
            appeal window starts. Only one violation of a node can be confirmed in a round; an open
            report of the other kind then lapses. The verifier with the oldest announcement of the
            node earns the bounty, unless it reported or announced another node in the round
            without a confirmation: reporting everybody blindly must not pay. It earns its deposit
            at most. A report that opens no announcement earns nothing.
    @dev Reverts: "reports: unknown violation", "reports: not in challenge", "reports: not
         revealed", "reports: not a duplicate", "reports: already confirmed", "reports: not
         operator", "reports: not a verifier", "reports: own node", "reports: already reported".
    @param job_id The job.
    @param round_id The round.
    @param verifier_id The verifier's node id.
    @param node_id The reported node.
    @param violation INVALID = 2 or COPIED = 3.
    @param evidence Digest of the evidence, the one that was announced if one was.
    @return bytes32 The report id.
    """
    assert violation == INVALID or violation == COPIED, "reports: unknown violation"
    round: ITrainingRounds.Round = staticcall ITrainingRounds(rounds).round(job_id, round_id)
    assert (
        (round.phase == CHALLENGE or round.phase == DISPUTED) and block.timestamp <= round.deadline
    ), "reports: not in challenge"
    assert staticcall ITrainingRounds(rounds).is_revealed(
        job_id, round_id, node_id
    ), "reports: not revealed"
    if violation == COPIED:
        assert staticcall ITrainingRounds(rounds).is_flagged(
            job_id, round_id, node_id
        ), "reports: not a duplicate"
    weight: uint256 = self._check_verifier(job_id, round_id, verifier_id)
    self._check_not_own(verifier_id, node_id)
    report_id: bytes32 = self._report_id(job_id, round_id, node_id, violation)
    other: bytes32 = self._report_id(job_id, round_id, node_id, INVALID + COPIED - violation)
    # Whatever became of a confirmed report: who had a verdict is not judged twice.
    assert (
        self._reports[report_id].status <= OPEN and self._reports[other].status <= OPEN
    ), "reports: already confirmed"
    assert verifier_id not in self._reporters[report_id], "reports: already reported"

    first: bool = self._reports[report_id].status == 0
    if first:
        self._reports[report_id] = IViolationReports.Report(
            status=OPEN,
            job_id=job_id,
            round_id=round_id,
            node_id=node_id,
            violation=violation,
            weight=0,
            offence_time=round.opened_at,
            deadline=0,
            evidence=evidence,
            appellant=empty(address),
            bond=0,
        )
    before: uint256 = self._reports[report_id].weight
    total: uint256 = before + weight
    self._reports[report_id].weight = total
    self._reporters[report_id].append(verifier_id)
    opened: bool = False
    deposit: uint256 = 0
    opened, deposit = self._open(job_id, round_id, verifier_id, node_id, evidence)
    if opened:
        self._deposits[report_id][verifier_id] = deposit
    else:
        self._unconfirmed[self._round_key(job_id, round_id)][verifier_id] += 1
    announcements._publish(self._subject(job_id, round_id, node_id))
    log IViolationReports.ViolationReported(
        report_id=report_id,
        node_id=node_id,
        verifier_id=verifier_id,
        job_id=job_id,
        round_id=round_id,
        violation=violation,
        evidence=evidence,
        weight=weight,
    )
    if 3 * before < round.verifier_stake and 3 * total >= round.verifier_stake:
        extcall ITrainingResults(results).report_opened(job_id, round_id)
    if 3 * total >= 2 * round.verifier_stake and len(self._reporters[report_id]) >= MIN_VOICES:
        self._confirm(report_id, round.verifier_stake)
    return report_id


@external
def lapse(report_id: bytes32):
    """
    @notice Anyone: closes a report that was not confirmed before its round ended. The deposits of
            its reporters go to the treasury where two thirds of the weight attested the result and
            did not confirm the report. They go back where the round is void or so many did not
            attest: then nobody has judged the node.
    @dev Reverts: "reports: not open", "reports: round not over".
    @param report_id The report.
    """
    assert self._reports[report_id].status == OPEN, "reports: not open"
    report: IViolationReports.Report = self._reports[report_id]
    result: ITrainingResults.Result = staticcall ITrainingResults(results).result(
        report.job_id, report.round_id
    )
    assert result.phase >= FINALIZED, "reports: round not over"
    self._settle_reporters(report_id, report, not self._is_judged(result))
    self._lapse(report_id)


@external
def appeal(report_id: bytes32, statement: bytes32):
    """
    @notice A node's owner or operator, when a report on it was confirmed, in the appeal window and
            with the appeal bond: asks this contract's owner to decide. It has the job's dispute
            window to do so.
    @dev Reverts: "reports: not confirmed", "reports: too late", "reports: not the node".
    @param report_id The report.
    @param statement Digest of the appellant's statement.
    """
    report: IViolationReports.Report = self._reports[report_id]
    assert report.status == CONFIRMED, "reports: not confirmed"
    assert block.timestamp <= report.deadline, "reports: too late"
    assert msg.sender in [
        staticcall INodeRegistry(registry).owner_of(report.node_id),
        staticcall INodeRegistry(registry).operator_of(report.node_id),
    ], "reports: not the node"
    deadline: uint256 = block.timestamp + self._terms(report.job_id).dispute_s
    self._reports[report_id].status = APPEALED
    self._reports[report_id].deadline = deadline
    self._reports[report_id].appellant = msg.sender
    self._reports[report_id].bond = appeal_bond
    log IViolationReports.ReportAppealed(
        report_id=report_id,
        node_id=report.node_id,
        appellant=msg.sender,
        statement=statement,
        bond=appeal_bond,
        deadline=deadline,
    )
    bonds._take(msg.sender, appeal_bond)


@external
def resolve_appeal(report_id: bytes32, upheld: bool):
    """
    @notice Owner only, until the appeal's deadline. Upheld: the stake is unlocked, the bond goes
            back, the node gets its share of the round, and every reporter is slashed for
            FALSE_REPORT with the reporter's share to the node's payout. Rejected: the node is
            slashed and the treasury gets the bond.
    @dev Reverts: "ownable: caller is not the owner", "reports: not appealed", "reports: too late".
    @param report_id The report.
    @param upheld Whether the appellant is right.
    """
    ownable._check_owner()
    report: IViolationReports.Report = self._reports[report_id]
    assert report.status == APPEALED, "reports: not appealed"
    assert block.timestamp <= report.deadline, "reports: too late"
    log IViolationReports.AppealResolved(report_id=report_id, node_id=report.node_id, upheld=upheld)
    if upheld:
        self._dismiss(report_id, report)
        payout: address = self._payout(report.node_id)
        for verifier: uint256 in self._reporters[report_id]:
            amount: uint256 = extcall INodeRegistry(registry).slash(
                verifier, FALSE_REPORT, report.offence_time, payout
            )
            log IViolationReports.FalseReportSlashed(
                report_id=report_id, verifier_id=verifier, amount=amount
            )
    else:
        self._reports[report_id].bond = 0
        bonds._credit(self._treasury(), report.bond)
        self._execute(report_id, report)


@external
def execute(report_id: bytes32) -> uint256:
    """
    @notice Anyone, when the appeal window passed without an appeal: slashes the node. The payout of
            the node's finder is credited here with the reporter's share, up to what it deposited.
            The rest is the treasury's, and all of it when `report` denies it.
    @dev Reverts: "reports: not confirmed", "reports: appeal window open".
    @param report_id The report.
    @return uint256 The amount slashed.
    """
    report: IViolationReports.Report = self._reports[report_id]
    assert report.status == CONFIRMED, "reports: not confirmed"
    assert block.timestamp > report.deadline, "reports: appeal window open"
    return self._execute(report_id, report)


@external
def dismiss_unresolved(report_id: bytes32):
    """
    @notice Anyone, when an appeal was not decided in time: the stake is unlocked, the bond goes
            back, the node gets its share of the round and nobody is slashed.
    @dev Reverts: "reports: not appealed", "reports: appeal pending".
    @param report_id The report.
    """
    report: IViolationReports.Report = self._reports[report_id]
    assert report.status == APPEALED, "reports: not appealed"
    assert block.timestamp > report.deadline, "reports: appeal pending"
    self._dismiss(report_id, report)


@view
@external
def report_id_of(
    job_id: uint256, round_id: uint256, node_id: uint256, violation: uint256
) -> bytes32:
    """
    @notice The id of a report: keccak256(abi_encode(job_id, round_id, node_id, violation)).
    @param job_id The job.
    @param round_id The round.
    @param node_id The reported node.
    @param violation The violation.
    @return bytes32 The id, whether or not there is such a report.
    """
    return self._report_id(job_id, round_id, node_id, violation)


@view
@external
def report_of(report_id: bytes32) -> IViolationReports.Report:
    """
    @notice A report.
    @param report_id The report.
    @return IViolationReports.Report The report; all zero when there is none.
    """
    return self._reports[report_id]


@view
@external
def is_pending(job_id: uint256, round_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether a confirmed report on a node in a round has not come to its end.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return bool Whether one is CONFIRMED or APPEALED.
    """
    return self._has_report(job_id, round_id, node_id, False)


@view
@external
def finder_of(job_id: uint256, round_id: uint256, node_id: uint256) -> uint256:
    """
    @notice Which verifier has found a node in a round.
    @param job_id The job.
    @param round_id The round.
    @param node_id The node.
    @return uint256 The verifier whose announcement is the oldest that was opened; 0 when there is
            none from before the first report.
    """
    return announcements._finder(self._subject(job_id, round_id, node_id))


@view
@external
def reporters(report_id: bytes32) -> DynArray[uint256, 32]:
    """
    @notice The verifiers behind a report, in order.
    @param report_id The report.
    @return DynArray Their node ids.
    """
    return self._reporters[report_id]


@view
@external
def has_reported(report_id: bytes32, verifier_id: uint256) -> bool:
    """
    @notice Whether a verifier is behind a report.
    @param report_id The report.
    @param verifier_id The verifier's node id.
    @return bool Whether it is.
    """
    return verifier_id in self._reporters[report_id]


@internal
@view
def _check_verifier(job_id: uint256, round_id: uint256, verifier_id: uint256) -> uint256:
    """
    @notice Stops everybody but the operator of a verifier that has a say in the round.
    @return uint256 The verifier's weight.
    """
    assert (
        staticcall INodeRegistry(registry).acting_operator(verifier_id) == msg.sender
    ), "reports: not operator"
    weight: uint256 = staticcall ITrainingResults(results).verifier_weight(
        job_id, round_id, verifier_id
    )
    assert weight != 0, "reports: not a verifier"
    return weight


@internal
@view
def _check_not_own(verifier_id: uint256, node_id: uint256):
    """
    @notice Stops a verifier that judges a node of its own owner.
    """
    assert staticcall INodeRegistry(registry).owner_of(verifier_id) != staticcall INodeRegistry(
        registry
    ).owner_of(node_id), "reports: own node"


@internal
def _open(
    job_id: uint256, round_id: uint256, verifier_id: uint256, node_id: uint256, evidence: bytes32
) -> (bool, uint256):
    """
    @notice Opens a verifier's announcement of a node, if there is one.
    @return bool Whether there was one.
    @return uint256 Its deposit, which the caller settles.
    """
    digest: bytes32 = announcements._digest(job_id, round_id, node_id, verifier_id, evidence)
    subject: bytes32 = self._subject(job_id, round_id, node_id)
    oldest: uint256 = announcements._finders[subject]
    opened: bool = False
    deposit: uint256 = 0
    opened, deposit = announcements._open(
        self._scope(job_id, round_id, verifier_id), digest, subject, verifier_id
    )
    if announcements._finders[subject] != oldest:
        self._earned_at_most[subject] = deposit
    return opened, deposit


@internal
@view
def _has_report(job_id: uint256, round_id: uint256, node_id: uint256, slashed: bool) -> bool:
    """
    @notice Whether a confirmed report on a node has not come to its end, or, if that counts as
            well, has ended with a slash.
    """
    for violation: uint256 in [INVALID, COPIED]:
        status: uint256 = self._reports[
            self._report_id(job_id, round_id, node_id, violation)
        ].status
        if status == CONFIRMED or status == APPEALED or (slashed and status == EXECUTED):
            return True
    return False


@internal
def _settle(
    job_id: uint256, round_id: uint256, verifier_id: uint256, deposit: uint256, returned: bool
):
    """
    @notice Ends a deposit: it is credited to the verifier's operator, to its owner if the node is
            closed, or to the treasury.
    """
    account: address = empty(address)
    if returned:
        account = staticcall INodeRegistry(registry).operator_of(verifier_id)
        if account == empty(address):
            account = staticcall INodeRegistry(registry).owner_of(verifier_id)
    else:
        account = self._treasury()
    log IViolationReports.DepositSettled(
        job_id=job_id,
        round_id=round_id,
        verifier_id=verifier_id,
        amount=deposit,
        returned=returned,
    )
    bonds._credit(account, deposit)


@internal
def _settle_reporters(report_id: bytes32, report: IViolationReports.Report, returned: bool):
    """
    @notice Ends the deposits behind a report.
    """
    for verifier: uint256 in self._reporters[report_id]:
        deposit: uint256 = self._deposits[report_id][verifier]
        if deposit != 0:
            self._deposits[report_id][verifier] = 0
            self._settle(report.job_id, report.round_id, verifier, deposit, returned)


@internal
@pure
def _is_judged(result: ITrainingResults.Result) -> bool:
    """
    @notice Whether verifiers with two thirds of the weight stand behind a final result.
    """
    return result.phase == FINALIZED and 3 * result.attested_stake >= 2 * result.verifier_stake


@internal
@view
def _treasury() -> address:
    """
    @notice The registry's treasury.
    """
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    return parameters.treasury


@internal
def _confirm(report_id: bytes32, stake: uint256):
    """
    @notice Quorum: closes the report in the round, invalidates the node there, locks its stake.
    @param report_id The report.
    @param stake The weight of all verifiers of the round.
    """
    report: IViolationReports.Report = self._reports[report_id]
    deadline: uint256 = block.timestamp + self._terms(report.job_id).appeal_s
    self._reports[report_id].status = CONFIRMED
    self._reports[report_id].deadline = deadline
    self._vindicate(report_id, report)
    log IViolationReports.ReportConfirmed(
        report_id=report_id, node_id=report.node_id, appeal_deadline=deadline
    )
    extcall ITrainingResults(results).report_closed(report.job_id, report.round_id)
    other: bytes32 = self._report_id(
        report.job_id, report.round_id, report.node_id, INVALID + COPIED - report.violation
    )
    if self._reports[other].status == OPEN:
        self._vindicate(other, report)
        self._lapse(other)
        if 3 * self._reports[other].weight >= stake:
            extcall ITrainingResults(results).report_closed(report.job_id, report.round_id)
    extcall ITrainingResults(results).invalidate(report.job_id, report.round_id, report.node_id)
    extcall INodeRegistry(registry).lock(report.node_id)


@internal
def _vindicate(report_id: bytes32, report: IViolationReports.Report):
    """
    @notice The node of this report was found guilty: its reporters were right.
    """
    round_key: bytes32 = self._round_key(report.job_id, report.round_id)
    for verifier: uint256 in self._reporters[report_id]:
        self._unconfirmed[round_key][verifier] -= 1
    self._settle_reporters(report_id, report, True)


@internal
@pure
def _round_key(job_id: uint256, round_id: uint256) -> bytes32:
    """
    @notice Names a round in storage.
    """
    return keccak256(abi_encode(job_id, round_id))


@internal
@pure
def _scope(job_id: uint256, round_id: uint256, verifier_id: uint256) -> bytes32:
    """
    @notice Whose announcement, and in which round: there it counts as unconfirmed.
    """
    return keccak256(abi_encode(job_id, round_id, verifier_id))


@internal
@pure
def _subject(job_id: uint256, round_id: uint256, node_id: uint256) -> bytes32:
    """
    @notice What an announcement is about.
    """
    return keccak256(abi_encode(job_id, round_id, node_id))


@internal
def _lapse(report_id: bytes32):
    """
    @notice Ends an open report without consequence.
    """
    self._reports[report_id].status = LAPSED
    log IViolationReports.ReportLapsed(
        report_id=report_id, node_id=self._reports[report_id].node_id
    )


@internal
def _execute(report_id: bytes32, report: IViolationReports.Report) -> uint256:
    """
    @notice Unlocks the node's stake and slashes it. The finder's share comes here first.
    """
    self._reports[report_id].status = EXECUTED
    extcall INodeRegistry(registry).unlock(report.node_id)
    subject: bytes32 = self._subject(report.job_id, report.round_id, report.node_id)
    finder: uint256 = announcements._finder(subject)
    round_key: bytes32 = self._round_key(report.job_id, report.round_id)
    paid: bool = finder != 0 and self._unconfirmed[round_key][finder] == 0
    reporter: address = empty(address)
    if paid:
        reporter = self
    amount: uint256 = extcall INodeRegistry(registry).slash(
        report.node_id, report.violation, report.offence_time, reporter
    )
    log IViolationReports.ReportExecuted(report_id=report_id, node_id=report.node_id, amount=amount)
    if paid:
        self._pay_finder(report_id, finder, self._earned_at_most[subject])
    extcall IRewardPool(pool).settle_share(report.job_id, report.round_id, report.node_id, True)
    return amount


@internal
def _pay_finder(report_id: bytes32, finder: uint256, most: uint256):
    """
    @notice Credits the bounty of a slash: up to `most` to the finder's payout, the rest to the
            treasury.
    """
    if staticcall INodeRegistry(registry).bounty(self) == 0:
        return
    bounty: uint256 = extcall INodeRegistry(registry).claim_bounty()
    bonds._receive(bounty)
    share: uint256 = min(bounty, most)
    log IViolationReports.FinderPaid(
        report_id=report_id, verifier_id=finder, amount=share, rest=bounty - share
    )
    bonds._credit(self._payout(finder), share)
    if share != bounty:
        bonds._credit(self._treasury(), bounty - share)


@internal
def _dismiss(report_id: bytes32, report: IViolationReports.Report):
    """
    @notice Ends an appealed report in the node's favour: its stake is unlocked, its bond goes back.
    """
    self._reports[report_id].status = DISMISSED
    self._reports[report_id].bond = 0
    log IViolationReports.ReportDismissed(report_id=report_id, node_id=report.node_id)
    bonds._credit(report.appellant, report.bond)
    extcall INodeRegistry(registry).unlock(report.node_id)
    extcall ITrainingResults(results).clear(report.job_id, report.round_id, report.node_id)
    extcall IRewardPool(pool).settle_share(report.job_id, report.round_id, report.node_id, False)


@internal
@view
def _terms(job_id: uint256) -> ITrainingJobs.JobTerms:
    """
    @notice The terms of a job.
    """
    job: ITrainingJobs.Job = staticcall ITrainingJobs(jobs).job(job_id)
    return job.terms


@internal
@view
def _payout(node_id: uint256) -> address:
    """
    @notice Where a node's rewards go.
    """
    payouts: DynArray[address, 128] = staticcall INodeRegistry(registry).payouts([node_id])
    return payouts[0]


@internal
@pure
def _report_id(job_id: uint256, round_id: uint256, node_id: uint256, violation: uint256) -> bytes32:
    """
    @notice See `report_id_of`.
    """
    return keccak256(abi_encode(job_id, round_id, node_id, violation))
