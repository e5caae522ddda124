# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title DataKeys
@license AGPL-3.0-only
@notice Who asked for, and who was given, the key of a job's encrypted data. The sponsor announces
        the key by its public identifier; a node asks; the sponsor's releaser answers with the key
        sealed to the node's public key. The keys themselves are never on chain.

        Rules this contract holds:
        - Only the job's sponsor announces its key and says who may release it.
        - Only a node's operator asks, and only while the node could work: as a TRAINER with a
          verified benchmark, or as a VERIFIER or AGGREGATOR that the Coordinator approved; with the
          role's stake locked, active, not suspended, banned or exiting; with a public key in the
          registry.
        - A release answers an open request, while the node still could work, with the job's current
          key, sealed to the key that the node has in the registry now and had when it asked.
        - One answer to one request; a node asks again only when the data key or its own public key
          has changed. Nothing recorded for one job counts in another.
        - Keys of single shards, or of payloads, travel in files: whoever discloses one records its
          digest for a round, under its own name. Readers take files of the job's releaser, or of
          whom else their rules name; nothing is decided here by a disclosure.

        Whether an envelope holds the announced key, only its receiver can tell: `key_id` is a
        commitment to the key. A released key can't be called back; changing it does not unseal what
        was encrypted under the old one.
@custom:kill There is no owner and no pause, and no money. A sponsor stops releases by giving the
             right to nobody's address (`set_releaser`), and old requests by a new key (`set_key`).
"""

from interfaces import IDataKeys
from interfaces import INodeRegistry
from interfaces import ITrainingJobs

implements: IDataKeys

# Roles of the registry.
TRAINER: constant(uint256) = 1
VERIFIER: constant(uint256) = 2
AGGREGATOR: constant(uint256) = 4

registry: public(immutable(address))
jobs: public(immutable(address))

# By job.
key_of: public(HashMap[uint256, bytes32])
_releasers: HashMap[uint256, address]

# By job and node.
request_of: public(HashMap[uint256, HashMap[uint256, IDataKeys.Request]])
released: public(HashMap[uint256, HashMap[uint256, IDataKeys.Release]])

# By account: the public key under which it is written to, such as a committee member, who is no
# node of the registry.
reader_key_of: public(HashMap[address, bytes32])


@deploy
def __init__(registry_: address, jobs_: address):
    """
    @notice Fixes who knows the nodes and who knows the sponsors. There is no owner.
    @dev Reverts: "keys: zero address".
    @param registry_ The NodeRegistry.
    @param jobs_ The TrainingJobs contract.
    """
    assert registry_ != empty(address) and jobs_ != empty(address), "keys: zero address"
    registry = registry_
    jobs = jobs_


@external
def set_key(job_id: uint256, key_id: bytes32):
    """
    @notice Sponsor: announces the key of the job's data, or another one. Requests for the old key
            are void: their nodes ask again.
    @dev Reverts: "keys: not sponsor", "keys: empty key", "keys: key unchanged".
    @param job_id The job.
    @param key_id A commitment to the key, the same for everybody who is given it.
    """
    self._check_sponsor(job_id)
    assert key_id != empty(bytes32), "keys: empty key"
    old_key_id: bytes32 = self.key_of[job_id]
    assert key_id != old_key_id, "keys: key unchanged"
    self.key_of[job_id] = key_id
    log IDataKeys.KeyChanged(job_id=job_id, old_key_id=old_key_id, new_key_id=key_id)


@external
def set_releaser(job_id: uint256, account: address):
    """
    @notice Sponsor: names the hot key that alone may release the job's key; until then, and after
            naming zero, that is the sponsor itself.
    @dev Reverts: "keys: not sponsor".
    @param job_id The job.
    @param account The hot key, or zero.
    """
    self._check_sponsor(job_id)
    old_releaser: address = self._releaser_of(job_id)
    self._releasers[job_id] = account
    log IDataKeys.ReleaserChanged(
        job_id=job_id, old_releaser=old_releaser, new_releaser=self._releaser_of(job_id)
    )


@external
def request_key(job_id: uint256, node_id: uint256):
    """
    @notice The operator of a node that could work now asks for the job's key: as a TRAINER if it
            could be one, else as a VERIFIER, which may have to re-execute the work, else as an
            AGGREGATOR, which measures the merged model on the validation split. Again only when the
            job's key or the node's public key has changed since.
    @dev Reverts: "keys: not operator", "keys: no key", "keys: node not eligible",
         "keys: no encryption key", "keys: already requested".
    @param job_id The job.
    @param node_id The node.
    """
    # An unknown or closed node's operator is zero, which sends nothing.
    assert (
        staticcall INodeRegistry(registry).operator_of(node_id) == msg.sender
    ), "keys: not operator"
    key_id: bytes32 = self.key_of[job_id]
    assert key_id != empty(bytes32), "keys: no key"
    role: uint256 = self._role_of(node_id)
    assert role != 0, "keys: node not eligible"
    encryption_key: bytes32 = self._encryption_key_of(node_id)
    assert encryption_key != empty(bytes32), "keys: no encryption key"
    last: IDataKeys.Request = self.request_of[job_id][node_id]
    assert (
        last.key_id != key_id or last.encryption_key != encryption_key
    ), "keys: already requested"

    self.request_of[job_id][node_id] = IDataKeys.Request(
        role=role, key_id=key_id, encryption_key=encryption_key, at=block.timestamp
    )
    log IDataKeys.KeyRequested(
        job_id=job_id,
        node_id=node_id,
        role=role,
        key_id=key_id,
        encryption_key=encryption_key,
    )


@external
def release_key(
    job_id: uint256,
    node_id: uint256,
    key_id: bytes32,
    encryption_key: bytes32,
    envelope: Bytes[256],
):
    """
    @notice The job's releaser answers a node's request with the sealed key, which is put on record.
            It names the data key and the public key that it has sealed, so that a change of either
            meanwhile stops it.
    @dev Reverts: "keys: not releaser", "keys: empty envelope", "keys: no request", "keys: not the
         current key", "keys: request is for another key", "keys: stale encryption key" (not the one
         of the request, or not the one in the registry now), "keys: already released",
         "keys: node not eligible" (in no role).
    @param job_id The job.
    @param node_id The node.
    @param key_id The data key in the envelope.
    @param encryption_key The public key that the envelope is sealed to.
    @param envelope The sealed key; not empty.
    """
    assert msg.sender == self._releaser_of(job_id), "keys: not releaser"
    assert len(envelope) != 0, "keys: empty envelope"
    request: IDataKeys.Request = self.request_of[job_id][node_id]
    assert request.at != 0, "keys: no request"
    assert key_id == self.key_of[job_id], "keys: not the current key"
    assert key_id == request.key_id, "keys: request is for another key"
    assert (
        encryption_key == request.encryption_key
        and encryption_key == self._encryption_key_of(node_id)
    ), "keys: stale encryption key"
    assert not self._is_answered(job_id, node_id, request), "keys: already released"
    assert self._role_of(node_id) != 0, "keys: node not eligible"

    self.released[job_id][node_id] = IDataKeys.Release(
        key_id=key_id, encryption_key=encryption_key, at=block.timestamp
    )
    log IDataKeys.KeyReleased(
        job_id=job_id,
        node_id=node_id,
        key_id=key_id,
        encryption_key=encryption_key,
        envelope=envelope,
        by=msg.sender,
    )


@external
def set_reader_key(encryption_key: bytes32):
    """
    @notice Anybody: names the public key under which it is written to. A committee member needs one
            before keys can be disclosed to it; being written to gives no right to anything.
    @dev Reverts: "keys: no encryption key", "keys: reader key unchanged".
    @param encryption_key An X25519 public key; not zero.
    """
    assert encryption_key != empty(bytes32), "keys: no encryption key"
    old_key: bytes32 = self.reader_key_of[msg.sender]
    assert encryption_key != old_key, "keys: reader key unchanged"
    self.reader_key_of[msg.sender] = encryption_key
    log IDataKeys.ReaderKeyChanged(account=msg.sender, old_key=old_key, new_key=encryption_key)


@external
def disclose_keys(job_id: uint256, round_id: uint256, digest: bytes32):
    """
    @notice Anybody: puts on record that it has published, for a round, a file of keys, each sealed
            to its reader. One digest stands for all readers of the file. Who may be believed is for
            readers to say: shards' keys come from the job's releaser.
    @dev Reverts: "keys: no job", "keys: empty digest".
    @param job_id The job.
    @param round_id The round whose work the keys are needed for.
    @param digest SHA2-256 of the file, as in its CID; not zero.
    """
    assert (staticcall ITrainingJobs(jobs).sponsor_of(job_id) != empty(address)), "keys: no job"
    assert digest != empty(bytes32), "keys: empty digest"
    log IDataKeys.KeysDisclosed(job_id=job_id, round_id=round_id, digest=digest, by=msg.sender)


@view
@external
def releaser_of(job_id: uint256) -> address:
    """
    @notice Who alone may release a job's key.
    @param job_id The job.
    @return address The account that the sponsor named, else the sponsor; zero when there is no such
            job.
    """
    return self._releaser_of(job_id)


@view
@external
def is_open(job_id: uint256, node_id: uint256) -> bool:
    """
    @notice Whether `release_key` would take an answer to the node's request now, from the releaser,
            with the keys of the request. Requests are found from the events.
    @param job_id The job.
    @param node_id The node.
    @return bool Whether it would.
    """
    request: IDataKeys.Request = self.request_of[job_id][node_id]
    return (
        request.at != 0
        and request.key_id == self.key_of[job_id]
        and not self._is_answered(job_id, node_id, request)
        and request.encryption_key == self._encryption_key_of(node_id)
        and self._role_of(node_id) != 0
    )


@internal
@view
def _check_sponsor(job_id: uint256):
    """
    @notice Stops everybody but a job's sponsor; an unknown job's is zero, which sends nothing.
    """
    assert (staticcall ITrainingJobs(jobs).sponsor_of(job_id) == msg.sender), "keys: not sponsor"


@internal
@view
def _releaser_of(job_id: uint256) -> address:
    """
    @notice See `releaser_of`.
    """
    account: address = self._releasers[job_id]
    if account == empty(address):
        return staticcall ITrainingJobs(jobs).sponsor_of(job_id)
    return account


@internal
@view
def _is_answered(job_id: uint256, node_id: uint256, request: IDataKeys.Request) -> bool:
    """
    @notice Whether what a request asks for was released already.
    """
    return (
        self.released[job_id][node_id].key_id == request.key_id
        and self.released[job_id][node_id].encryption_key == request.encryption_key
    )


@internal
@view
def _role_of(node_id: uint256) -> uint256:
    """
    @notice What a node may work as now: TRAINER, else VERIFIER, else AGGREGATOR, else 0. The
            registry's word stands for the benchmark of a trainer, the approval of the others, and
            the stake of all.
    """
    if staticcall INodeRegistry(registry).is_eligible(node_id, TRAINER):
        return TRAINER
    if staticcall INodeRegistry(registry).is_eligible(node_id, VERIFIER):
        return VERIFIER
    if staticcall INodeRegistry(registry).is_eligible(node_id, AGGREGATOR):
        return AGGREGATOR
    return 0


@internal
@view
def _encryption_key_of(node_id: uint256) -> bytes32:
    """
    @notice A node's public key in the registry now.
    """
    return staticcall INodeRegistry(registry).encryption_key_of(node_id)
