# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title TrainingLedger
@license AGPL-3.0-only
@notice The append-only history of every job (ZIP-406): one entry per finalized round, each bound
        to all before it by a hash chain, and statements that parties make about recorded models.
        An entry's previous model is, by construction, the new model of the entry before it.

        The reward of an entry is what the RewardPool set aside for the round when it opened. The
        pool never changes that figure, so the ledger reads it there when it records, and nobody
        states it.

        A round with a zero update, or one that returns to an earlier model, records a model hash
        again. The hash then stands for its newest entry: the lineage of a job's current model is
        always the job's whole history. Lineage is walked by position, never by hash, so a repeated
        hash neither ends it early nor makes it turn in a circle.

        Anyone may attest a model. The word of the Coordinator, which is a vote of its members and
        waits out its timelock, can be read apart from all others.
@custom:kill Nothing can be stopped or rewritten: there is no owner. Entries come from
             TrainingResults alone; pausing new rounds in TrainingRounds stops new entries here.
"""

from interfaces import IRewardPool
from interfaces import ITrainingLedger

implements: ITrainingLedger

# Entries that one call returns at most.
MAX_LINEAGE: constant(uint256) = 64

# A record's word holds the reward above bit 128, the round above bit 64, the time below.
_ROUND_SHIFT: constant(uint256) = 64
_REWARD_SHIFT: constant(uint256) = 128
_MASK_64: constant(uint256) = 2**64 - 1


# What is stored of an entry. `prev_model` isn't: it is the `new_model` of the entry before, or
# the job's first model.
struct Record:
    figures: uint256  # reward, round and time
    new_model: bytes32
    contributors_root: bytes32
    scores_root: bytes32
    report: bytes32
    head: bytes32


# The only contract that may record, where it set rewards aside, and whose attestations are apart.
results: public(immutable(address))
pool: public(immutable(address))
coordinator: public(immutable(address))

length: public(HashMap[uint256, uint256])
_first_model: HashMap[uint256, bytes32]
_records: HashMap[uint256, HashMap[uint256, Record]]

# Job and model to the place of the newest entry that ended with it, plus one.
_places: HashMap[uint256, HashMap[bytes32, uint256]]
_attestations: HashMap[uint256, HashMap[bytes32, HashMap[address, ITrainingLedger.Attestation]]]


@deploy
def __init__(results_: address, pool_: address, coordinator_: address):
    """
    @notice Fixes the one contract that may record, and its neighbours. There is no owner.
    @dev Reverts: "ledger: zero address".
    @param results_ The TrainingResults contract.
    @param pool_ The RewardPool, read for the reward of each round.
    @param coordinator_ The Coordinator, whose attestations are told from those of others.
    """
    assert (
        results_ != empty(address) and pool_ != empty(address) and coordinator_ != empty(address)
    ), "ledger: zero address"
    results = results_
    pool = pool_
    coordinator = coordinator_


@external
def record_round(
    job_id: uint256,
    round_id: uint256,
    prev_model: bytes32,
    new_model: bytes32,
    contributors_root: bytes32,
    scores_root: bytes32,
    report: bytes32,
) -> uint256:
    """
    @notice Appends a finalized round to its job's history. Only TrainingResults may call it.
    @dev The new head is keccak256(abi_encode(head, job_id, round_id, prev_model, new_model,
         contributors_root, scores_root, report, reward, timestamp)); the head before the first
         entry is zero. The call to the pool is a view: it can't come back here.
         Reverts: "ledger: not results", "ledger: empty model", "ledger: out of range" (a round of
         64 bits or a reward of 128, more than any job can have), "ledger: broken chain" (the
         previous model isn't the last one recorded), "ledger: round order".
    @param job_id The job.
    @param round_id The round, higher than every recorded one of the job.
    @param prev_model The model hash the round started from.
    @param new_model The model hash the round ended with.
    @param contributors_root Digest of who contributed.
    @param scores_root Digest of the contributions.
    @param report Digest of the aggregator's report.
    @return uint256 The part of the entry's reward, which is the round's whole pool, of which the
            verifiers and the proposer get their cuts.
    """
    assert msg.sender == results, "ledger: not results"
    assert prev_model != empty(bytes32) and new_model != empty(bytes32), "ledger: empty model"
    reserved: IRewardPool.Pool = staticcall IRewardPool(pool).pool(job_id, round_id)
    reward: uint256 = reserved.amount
    assert round_id <= _MASK_64 and reward >> _REWARD_SHIFT == 0, "ledger: out of range"

    index: uint256 = self.length[job_id]
    head: bytes32 = empty(bytes32)
    if index == 0:
        self._first_model[job_id] = prev_model
    else:
        head = self._records[job_id][index - 1].head
        assert self._records[job_id][index - 1].new_model == prev_model, "ledger: broken chain"
        assert (
            self._round_of(self._records[job_id][index - 1].figures) < round_id
        ), "ledger: round order"
    head = keccak256(
        abi_encode(
            head,
            job_id,
            round_id,
            prev_model,
            new_model,
            contributors_root,
            scores_root,
            report,
            reward,
            block.timestamp,
        )
    )

    self._records[job_id][index] = Record(
        figures=reward << _REWARD_SHIFT | round_id << _ROUND_SHIFT | block.timestamp,
        new_model=new_model,
        contributors_root=contributors_root,
        scores_root=scores_root,
        report=report,
        head=head,
    )
    self.length[job_id] = index + 1
    self._places[job_id][new_model] = index + 1
    log ITrainingLedger.RoundRecorded(
        job_id=job_id,
        round_id=round_id,
        index=index,
        prev_model=prev_model,
        new_model=new_model,
        contributors_root=contributors_root,
        scores_root=scores_root,
        report=report,
        reward=reward,
        timestamp=block.timestamp,
        head=head,
    )
    return reward - reserved.for_trainers


@external
def attest_model(job_id: uint256, model: bytes32, checkpoint: bytes32, statement: bytes32):
    """
    @notice The caller states, once and for good, where the checkpoint of a recorded model is.
            Anyone may; a reader decides whose word it takes. The Coordinator's is the one that
            `is_attested` and `checkpoint_of` answer with.
    @dev Reverts: "ledger: unknown model", "ledger: empty checkpoint", "ledger: already attested".
    @param job_id The job.
    @param model A model hash recorded as the result of one of the job's rounds.
    @param checkpoint Digest of the checkpoint artefact of that model.
    @param statement Digest of anything else the attester states about it; may be zero.
    """
    assert self._places[job_id][model] != 0, "ledger: unknown model"
    assert checkpoint != empty(bytes32), "ledger: empty checkpoint"
    assert (
        self._attestations[job_id][model][msg.sender].checkpoint == empty(bytes32)
    ), "ledger: already attested"

    self._attestations[job_id][model][msg.sender] = ITrainingLedger.Attestation(
        checkpoint=checkpoint, statement=statement, timestamp=block.timestamp
    )
    log ITrainingLedger.ModelAttested(
        job_id=job_id,
        model=model,
        attester=msg.sender,
        checkpoint=checkpoint,
        statement=statement,
    )


@view
@external
def entry(job_id: uint256, index: uint256) -> ITrainingLedger.Entry:
    """
    @notice One entry of a job's history.
    @dev Reverts: "ledger: no entry".
    @param job_id The job.
    @param index Its position, from 0.
    @return ITrainingLedger.Entry The entry.
    """
    assert index < self.length[job_id], "ledger: no entry"
    return self._entry(job_id, index)


@view
@external
def entries(job_id: uint256, index: uint256, limit: uint256) -> DynArray[ITrainingLedger.Entry, 64]:
    """
    @notice A page of a job's history, newest first: the entry at `index` and those before it.
    @dev Reverts: "ledger: no entry", "ledger: bad limit" (0, or above 64).
    @param job_id The job.
    @param index The position of the newest entry wanted.
    @param limit How many at most; fewer come when the first entry of the job is reached.
    @return DynArray The entries; the next page starts at the last one's index - 1, unless that is
            0.
    """
    assert index < self.length[job_id], "ledger: no entry"
    return self._walk(job_id, index, limit)


@view
@external
def lineage(job_id: uint256, model: bytes32, limit: uint256) -> DynArray[ITrainingLedger.Entry, 64]:
    """
    @notice How a model came to be: the entry that ended with it (its newest, if several did) and
            those before it, newest first. The first model of a job isn't the result of a round.
    @dev Older entries than these are read with `entries`.
         Reverts: "ledger: unknown model", "ledger: bad limit" (0, or above 64).
    @param job_id The job.
    @param model A model hash recorded as the result of one of the job's rounds.
    @param limit How many entries at most.
    @return DynArray The entries. Each one's `prev_model` is the `new_model` of the next.
    """
    return self._walk(job_id, self._index_of(job_id, model), limit)


@view
@external
def index_of(job_id: uint256, model: bytes32) -> uint256:
    """
    @notice The position of the newest entry that ended with a model.
    @dev Reverts: "ledger: unknown model".
    @param job_id The job.
    @param model The model hash.
    @return uint256 The position.
    """
    return self._index_of(job_id, model)


@view
@external
def is_recorded(job_id: uint256, model: bytes32) -> bool:
    """
    @notice Whether a model is the result of one of the job's rounds.
    @param job_id The job.
    @param model The model hash.
    @return bool Whether it is.
    """
    return self._places[job_id][model] != 0


@view
@external
def head(job_id: uint256) -> bytes32:
    """
    @notice The hash that binds a job's whole history.
    @param job_id The job.
    @return bytes32 The head, zero before the first entry.
    """
    index: uint256 = self.length[job_id]
    if index == 0:
        return empty(bytes32)
    return self._records[job_id][index - 1].head


@view
@external
def is_attested(job_id: uint256, model: bytes32) -> bool:
    """
    @notice Whether the Coordinator attested a model.
    @param job_id The job.
    @param model The model hash.
    @return bool Whether it did.
    """
    return self._attestations[job_id][model][coordinator].timestamp != 0


@view
@external
def checkpoint_of(job_id: uint256, model: bytes32) -> bytes32:
    """
    @notice The checkpoint of a model by the Coordinator's word.
    @param job_id The job.
    @param model The model hash.
    @return bytes32 Digest of the checkpoint artefact; zero when the Coordinator did not attest the
            model.
    """
    return self._attestations[job_id][model][coordinator].checkpoint


@view
@external
def attestation_of(
    job_id: uint256, model: bytes32, attester: address
) -> ITrainingLedger.Attestation:
    """
    @notice What somebody stated about a model.
    @param job_id The job.
    @param model The model hash.
    @param attester Who.
    @return ITrainingLedger.Attestation The attestation; all zero when there is none.
    """
    return self._attestations[job_id][model][attester]


@view
@external
def attested_checkpoint(job_id: uint256, model: bytes32, attester: address) -> bytes32:
    """
    @notice The checkpoint of a model by somebody's word.
    @param job_id The job.
    @param model The model hash.
    @param attester Who.
    @return bytes32 Digest of the checkpoint artefact; zero when it did not attest the model.
    """
    return self._attestations[job_id][model][attester].checkpoint


@internal
@view
def _index_of(job_id: uint256, model: bytes32) -> uint256:
    """
    @notice The newest entry that ended with a model.
    """
    place: uint256 = self._places[job_id][model]
    assert place != 0, "ledger: unknown model"
    return place - 1


@internal
@view
def _walk(job_id: uint256, index: uint256, limit: uint256) -> DynArray[ITrainingLedger.Entry, 64]:
    """
    @notice Up to `limit` entries from `index` down to 0.
    """
    assert limit != 0 and limit <= MAX_LINEAGE, "ledger: bad limit"
    walked: DynArray[ITrainingLedger.Entry, 64] = []
    for step: uint256 in range(min(limit, index + 1), bound=MAX_LINEAGE):
        walked.append(self._entry(job_id, index - step))
    return walked


@internal
@view
def _entry(job_id: uint256, index: uint256) -> ITrainingLedger.Entry:
    """
    @notice The entry at a position that exists.
    """
    record: Record = self._records[job_id][index]
    prev_model: bytes32 = self._first_model[job_id]
    if index != 0:
        prev_model = self._records[job_id][index - 1].new_model
    return ITrainingLedger.Entry(
        round_id=self._round_of(record.figures),
        prev_model=prev_model,
        new_model=record.new_model,
        contributors_root=record.contributors_root,
        scores_root=record.scores_root,
        report=record.report,
        head=record.head,
        timestamp=record.figures & _MASK_64,
        reward=record.figures >> _REWARD_SHIFT,
        index=index,
    )


@internal
@pure
def _round_of(figures: uint256) -> uint256:
    """
    @notice The round in a record's word.
    """
    return figures >> _ROUND_SHIFT & _MASK_64
