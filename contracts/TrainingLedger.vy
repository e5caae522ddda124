# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title TrainingLedger
@license AGPL-3.0-only
@notice The append-only history of every job (ZIP-406): one entry per finalized round, each bound
        to all before it by a hash chain, and statements that parties make about recorded models.
        An entry's previous model is, by construction, the new model of the entry before it.
@custom:kill Nothing can be stopped or rewritten: there is no owner. Entries come from the rounds
             contract alone, so pausing new rounds there pauses new entries here.
"""

from interfaces import ITrainingLedger

implements: ITrainingLedger


# What is stored of an entry. `prev_model` isn't: it is the `new_model` of the entry before, or
# the job's first model.
struct Record:
    round_id: uint256
    new_model: bytes32
    contributors_root: bytes32
    scores_root: bytes32
    report: bytes32
    head: bytes32
    timestamp: uint256


# The only contract that may record.
rounds: public(immutable(address))

length: public(HashMap[uint256, uint256])
is_recorded: public(HashMap[uint256, HashMap[bytes32, bool]])
attested_checkpoint: public(HashMap[uint256, HashMap[bytes32, HashMap[address, bytes32]]])
_first_model: HashMap[uint256, bytes32]
_records: HashMap[uint256, HashMap[uint256, Record]]


@deploy
def __init__(rounds_: address):
    """
    @notice Fixes the one contract that may record. There is no owner.
    @dev Reverts with "ledger: zero address".
    @param rounds_ The TrainingRounds contract.
    """
    assert rounds_ != empty(address), "ledger: zero address"
    rounds = rounds_


@external
def record_round(
    job_id: uint256,
    round_id: uint256,
    prev_model: bytes32,
    new_model: bytes32,
    contributors_root: bytes32,
    scores_root: bytes32,
    report: bytes32,
):
    """
    @notice Appends a finalized round to its job's history. Only the rounds contract may call it.
    @dev The new head is keccak256(abi_encode(head, job_id, round_id, prev_model, new_model,
         contributors_root, scores_root, report)); the head before the first entry is zero.
         Reverts: "ledger: not rounds", "ledger: empty model", "ledger: broken chain" (the
         previous model isn't the last one recorded), "ledger: round order".
    @param job_id The job.
    @param round_id The round, higher than every recorded one of the job.
    @param prev_model The model hash the round started from.
    @param new_model The model hash the round ended with.
    @param contributors_root Digest of who contributed.
    @param scores_root Digest of the contributions.
    @param report Digest of the aggregator's report.
    """
    assert msg.sender == rounds, "ledger: not rounds"
    assert prev_model != empty(bytes32) and new_model != empty(bytes32), "ledger: empty model"

    index: uint256 = self.length[job_id]
    head: bytes32 = empty(bytes32)
    if index == 0:
        self._first_model[job_id] = prev_model
    else:
        head = self._records[job_id][index - 1].head
        assert self._records[job_id][index - 1].new_model == prev_model, "ledger: broken chain"
        assert self._records[job_id][index - 1].round_id < round_id, "ledger: round order"
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
        )
    )

    self._records[job_id][index] = Record(
        round_id=round_id,
        new_model=new_model,
        contributors_root=contributors_root,
        scores_root=scores_root,
        report=report,
        head=head,
        timestamp=block.timestamp,
    )
    self.length[job_id] = index + 1
    self.is_recorded[job_id][new_model] = True
    log ITrainingLedger.RoundRecorded(
        job_id=job_id,
        round_id=round_id,
        index=index,
        prev_model=prev_model,
        new_model=new_model,
        contributors_root=contributors_root,
        scores_root=scores_root,
        report=report,
        head=head,
    )


@external
def attest_model(job_id: uint256, model: bytes32, checkpoint: bytes32, statement: bytes32):
    """
    @notice The caller states, once and for good, where the checkpoint of a recorded model is.
            Anyone may; a reader decides whose word it takes.
    @dev Reverts: "ledger: unknown model", "ledger: empty checkpoint", "ledger: already attested".
    @param job_id The job.
    @param model A model hash recorded as the result of one of the job's rounds.
    @param checkpoint Digest of the checkpoint artefact of that model.
    @param statement Digest of anything else the attester states about it; may be zero.
    """
    assert self.is_recorded[job_id][model], "ledger: unknown model"
    assert checkpoint != empty(bytes32), "ledger: empty checkpoint"
    assert (
        self.attested_checkpoint[job_id][model][msg.sender] == empty(bytes32)
    ), "ledger: already attested"

    self.attested_checkpoint[job_id][model][msg.sender] = checkpoint
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
    @dev Reverts with "ledger: no entry".
    @param job_id The job.
    @param index Its position, from 0.
    @return The entry.
    """
    assert index < self.length[job_id], "ledger: no entry"
    record: Record = self._records[job_id][index]
    prev_model: bytes32 = self._first_model[job_id]
    if index != 0:
        prev_model = self._records[job_id][index - 1].new_model
    return ITrainingLedger.Entry(
        round_id=record.round_id,
        prev_model=prev_model,
        new_model=record.new_model,
        contributors_root=record.contributors_root,
        scores_root=record.scores_root,
        report=record.report,
        head=record.head,
        timestamp=record.timestamp,
    )


@view
@external
def head(job_id: uint256) -> bytes32:
    """
    @notice The hash that binds a job's whole history.
    @param job_id The job.
    @return The head, zero before the first entry.
    """
    index: uint256 = self.length[job_id]
    if index == 0:
        return empty(bytes32)
    return self._records[job_id][index - 1].head
