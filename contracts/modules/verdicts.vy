# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Verdicts
@custom:contract-name verdicts
@license AGPL-3.0-only
@notice Verifiers who run a task again and say what its result is. Asking takes a snapshot of up to
        32 eligible verifiers with their stakes; later stake counts for nothing. Once verifiers with
        two thirds of that stake name the same result, it is the verdict.

        Assumption: verifiers with more than a third of the snapshot's stake are honest and awake,
        or there is no verdict; with two thirds dishonest, a false one. Verifiers are approved by
        the Coordinator.
@dev `_open` is called once per id, by the importer. The importer closes the vote by not asking.
"""

from interfaces import INodeRegistry
from interfaces import IVerdicts

VERIFIER: constant(uint256) = 2
MAX_VERIFIERS: constant(uint256) = 32

_REGISTRY: immutable(address)

_snapshots: HashMap[uint256, bytes32]
_totals: HashMap[uint256, uint256]
# One bit per place of the snapshot.
_attested: HashMap[uint256, uint256]
_weights: HashMap[uint256, HashMap[bytes32, uint256]]
_attesters: HashMap[uint256, HashMap[bytes32, DynArray[uint256, MAX_VERIFIERS]]]


@deploy
def __init__(registry: address):
    """
    @notice Fixes the registry.
    @param registry The NodeRegistry.
    """
    _REGISTRY = registry


@view
@external
def attesters(task_id: uint256, result: bytes32) -> DynArray[uint256, MAX_VERIFIERS]:
    """
    @notice The verifiers who named a result, in order.
    @param task_id The task.
    @param result The result.
    @return DynArray Their node ids.
    """
    return self._attesters[task_id][result]


@view
@external
def attested_weight(task_id: uint256, result: bytes32) -> (uint256, uint256):
    """
    @notice The stake behind a result.
    @param task_id The task.
    @param result The result.
    @return The stake that named it, and the stake of the whole snapshot.
    """
    return self._weights[task_id][result], self._totals[task_id]


@view
@external
def has_attested(task_id: uint256, place: uint256) -> bool:
    """
    @notice Whether the verifier at a place of the snapshot has spoken.
    @param task_id The task.
    @param place Its place in VerdictRequested.
    @return bool Whether it has.
    """
    return place < MAX_VERIFIERS and self._attested[task_id] >> place & 1 != 0


@internal
def _open(task_id: uint256):
    """
    @notice Takes the snapshot. Where there are more than 32 verifiers the task's id says from which
            place on they are taken.
    @dev Reverts: "verdicts: no verifiers".
    @param task_id The task.
    """
    verifiers: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    verifiers, weights = staticcall INodeRegistry(_REGISTRY).eligible_nodes(
        VERIFIER, task_id, MAX_VERIFIERS
    )
    assert len(verifiers) != 0, "verdicts: no verifiers"
    total: uint256 = 0
    for weight: uint256 in weights:
        total += weight
    self._snapshots[task_id] = keccak256(abi_encode(verifiers, weights))
    self._totals[task_id] = total
    log IVerdicts.VerdictRequested(task_id=task_id, verifiers=verifiers, weights=weights)


@internal
def _attest(
    task_id: uint256,
    place: uint256,
    verifiers: DynArray[uint256, 128],
    weights: DynArray[uint256, 128],
    result: bytes32,
) -> bool:
    """
    @notice Counts what the caller, a verifier's operator, found.
    @dev Reverts: "verdicts: empty result", "verdicts: wrong snapshot", "verdicts: not a verifier",
         "verdicts: not operator", "verdicts: has attested".
    @param task_id The task.
    @param place The verifier's place in the snapshot.
    @param verifiers The node ids of VerdictRequested.
    @param weights The weights of VerdictRequested.
    @param result The result.
    @return bool Whether this result has two thirds of the stake now.
    """
    assert result != empty(bytes32), "verdicts: empty result"
    assert (
        keccak256(abi_encode(verifiers, weights)) == self._snapshots[task_id]
    ), "verdicts: wrong snapshot"
    assert place < len(verifiers), "verdicts: not a verifier"
    verifier_id: uint256 = verifiers[place]
    assert (
        staticcall INodeRegistry(_REGISTRY).operator_of(verifier_id) == msg.sender
    ), "verdicts: not operator"
    attested: uint256 = self._attested[task_id]
    assert attested >> place & 1 == 0, "verdicts: has attested"
    self._attested[task_id] = attested | 1 << place
    weight: uint256 = self._weights[task_id][result] + weights[place]
    self._weights[task_id][result] = weight
    self._attesters[task_id][result].append(verifier_id)
    log IVerdicts.ResultAttested(
        task_id=task_id, verifier_id=verifier_id, result=result, weight=weights[place]
    )
    return 3 * weight >= 2 * self._totals[task_id]
