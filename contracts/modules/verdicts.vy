# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Verdicts
@custom:contract-name verdicts
@license AGPL-3.0-only
@notice Verifiers who run a task again and say what its result is. Asking takes a snapshot of the
        registry's voters as they were before the task existed; who rests or sleeps stays in it, and
        stake that came later counts for nothing. Once two owners at least, with two thirds of that
        weight, name the same result, it is the verdict.

        Assumption: a false verdict takes two thirds of all voters' weight, where no owner has more
        than twice the minimum stake, and never fewer than two owners whom the Coordinator approved.
        At equal stake that is two thirds of the owners; two at the cap are enough against two at
        the minimum. More than a third of the weight silent or dishonest: no verdict.
@dev `_open` is called once per id, by the importer. The importer closes the vote by not asking.
"""

from interfaces import INodeRegistry
from interfaces import IVerdicts

MAX_VERIFIERS: constant(uint256) = 32
# Owners that must name a result.
MIN_VOICES: constant(uint256) = 2
# A voice: the place of its result among those that were named, then its verifier.
_RESULT_MASK: constant(uint256) = 255
_VERIFIER: constant(uint256) = 8

_REGISTRY: immutable(address)

_snapshots: HashMap[uint256, bytes32]
_totals: HashMap[uint256, uint256]
# One bit per place of the snapshot.
_attested: HashMap[uint256, uint256]
_weights: HashMap[uint256, HashMap[bytes32, uint256]]
_results: HashMap[uint256, DynArray[bytes32, MAX_VERIFIERS]]
_voices: HashMap[uint256, DynArray[uint256, MAX_VERIFIERS]]


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
    return self._who(task_id, result, True)


@view
@external
def attested_weight(task_id: uint256, result: bytes32) -> (uint256, uint256):
    """
    @notice The weight behind a result.
    @param task_id The task.
    @param result The result.
    @return The weight that named it, and that of the whole snapshot.
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
def _open(task_id: uint256, created_at: uint256):
    """
    @notice Takes the snapshot.
    @dev Reverts: "verdicts: too few verifiers".
    @param task_id The task.
    @param created_at No later than the task's creation.
    """
    verifiers: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    maturity: uint256 = staticcall INodeRegistry(_REGISTRY).maturity()
    verifiers, weights = staticcall INodeRegistry(_REGISTRY).voters(
        created_at - min(created_at, maturity)
    )
    assert len(verifiers) >= MIN_VOICES, "verdicts: too few verifiers"
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
    @notice Counts what the caller, a verifier's operator, found; a banned or suspended verifier has
            no say any more.
    @dev Reverts: "verdicts: empty result", "verdicts: wrong snapshot", "verdicts: not a verifier",
         "verdicts: not operator", "verdicts: has attested".
    @param task_id The task.
    @param place The verifier's place in the snapshot.
    @param verifiers The node ids of VerdictRequested.
    @param weights The weights of VerdictRequested.
    @param result The result.
    @return bool Whether this result has two owners and two thirds of the weight now.
    """
    assert result != empty(bytes32), "verdicts: empty result"
    assert (
        keccak256(abi_encode(verifiers, weights)) == self._snapshots[task_id]
    ), "verdicts: wrong snapshot"
    assert place < len(verifiers), "verdicts: not a verifier"
    verifier_id: uint256 = verifiers[place]
    assert (
        staticcall INodeRegistry(_REGISTRY).acting_operator(verifier_id) == msg.sender
    ), "verdicts: not operator"
    attested: uint256 = self._attested[task_id]
    assert attested >> place & 1 == 0, "verdicts: has attested"
    self._attested[task_id] = attested | 1 << place
    weight: uint256 = self._weights[task_id][result] + weights[place]
    self._weights[task_id][result] = weight
    place_of: uint256 = 0
    results: DynArray[bytes32, MAX_VERIFIERS] = self._results[task_id]
    for other: bytes32 in results:
        if other == result:
            break
        place_of += 1
    if place_of == len(results):
        self._results[task_id].append(result)
    self._voices[task_id].append(verifier_id << _VERIFIER | place_of)
    log IVerdicts.ResultAttested(
        task_id=task_id, verifier_id=verifier_id, result=result, weight=weights[place]
    )
    return (
        3 * weight >= 2 * self._totals[task_id]
        and len(self._who(task_id, result, True)) >= MIN_VOICES
    )


@internal
@view
def _who(task_id: uint256, result: bytes32, named: bool) -> DynArray[uint256, MAX_VERIFIERS]:
    """
    @notice The verifiers who named a result, or those who named another, in order.
    """
    found: DynArray[uint256, MAX_VERIFIERS] = []
    for voice: uint256 in self._voices[task_id]:
        if (self._results[task_id][voice & _RESULT_MASK] == result) == named:
            found.append(voice >> _VERIFIER)
    return found
