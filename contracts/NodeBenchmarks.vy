# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title NodeBenchmarks
@custom:contract-name NodeBenchmarks
@license AGPL-3.0-only
@notice How fast a trainer's machine is, measured so that nobody can say it of itself. A node asks
        for an attempt and gets a seed that did not exist before. It computes for a while, and
        answers with a root over what it computed. A second seed then draws the parts that
        verifiers compute again. When enough of them agree that the answer is right, the node's
        score in the NodeRegistry is its work per second, until it expires there.

        Rules this contract holds:
        - A node answers an attempt once, after its seed and within the window. What is checked is
          drawn after the answer is fixed.
        - A verdict is an EIP-712 signature over the attempt, its answer and the check seed, so it
          counts once, and for nothing else. No verifier judges a node of its own owner.
        - Only a quorum of verdicts that the work is right raises a score: as many owners as the
          registry asks for, with more than half of the weight of all its voters as they were before
          the answer (the node's own owner aside), at rest or not. So a false score takes more than
          half of the weight and that many owners whom the Coordinator approved.
        - A score stands until the next attempt passes, or it expires in the registry. The
          Coordinator overrules a false verdict: the score is reset and who gave it is slashed.
        - Whoever invents work loses stake. The Coordinator condemns an answer that a verifier has
          failed, or whose pass it overrules, once. What was computed is exact integers, so an
          answer to its own seed is right or wrong, on all hardware; an answer that names another
          seed than the attempt's, after a reorganisation or a re-arm, reverts. Nobody is rewarded.
        - This contract holds no money and calls no contract but the NodeRegistry and, if there is
          one, the source of randomness.
@custom:kill The owner (the Coordinator) can pause requests, answers and verdicts with
             `set_paused`. Scores then stay until they expire, and trainers keep their places.
"""

from interfaces import INodeBenchmarks
from interfaces import INodeRegistry
from interfaces import IPausing

implements: INodeBenchmarks
implements: IPausing

from snekmate.auth import ownable
from snekmate.auth import ownable_2step
from snekmate.utils import ecdsa
from snekmate.utils import eip712_domain_separator as eip712

initializes: ownable
initializes: ownable_2step[ownable := ownable]
initializes: eip712

from contracts.modules import pausing
from contracts.modules import randomness

initializes: pausing
initializes: randomness

exports: (
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
    eip712.eip712Domain,
    pausing.paused,
)


# Role of the registry.
TRAINER: constant(uint256) = 1

# Violation of the registry.
FALSE_REPORT: constant(uint256) = 6

# What a verifier said of an attempt, below the time at which it did.
PASSED: constant(uint256) = 1
FAILED: constant(uint256) = 2
OVERRULED: constant(uint256) = 3
_TIME: constant(uint256) = 2

# What became of an answer that was judged, below the time at which it was given.
RAISED: constant(uint256) = 1
DOUBTED: constant(uint256) = 2
CONDEMNED: constant(uint256) = 4
_ANSWERED: constant(uint256) = 3

# Pause bits.
PAUSE_BENCHMARK: constant(uint256) = 1

MAX_VERDICTS: constant(uint256) = 16
# Voices that the registry gives at most.
MAX_VOICES: constant(uint256) = 32
MAX_UNITS: constant(uint256) = 1_000_000
# Scores are units per million seconds.
SCORE_SCALE: constant(uint256) = 1_000_000

# The texts name the registry, where attempts were kept before: digests keep their domains.
SEED_DOMAIN: constant(bytes32) = keccak256("Menagerie NodeRegistry benchmark seed")
CHECK_DOMAIN: constant(bytes32) = keccak256("Menagerie NodeRegistry benchmark check")
VERDICT_TYPE_HASH: constant(bytes32) = keccak256(
    "BenchmarkVerdict(uint256 node_id,uint256 attempt,bytes32 root,uint256 units,"
    "bytes32 check_seed,bool passed)"
)

registry: public(immutable(address))

_benchmarks: HashMap[uint256, INodeBenchmarks.Benchmark]
_voted: HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]]
_judged: HashMap[uint256, HashMap[uint256, uint256]]


@deploy
def __init__(registry_: address, owner_: address, random_source_: address):
    """
    @notice Fixes whose nodes are measured. The deployer keeps no right.
    @dev Reverts: "benchmarks: zero address".
    @param registry_ The NodeRegistry, which takes scores from this contract only.
    @param owner_ The Coordinator.
    @param random_source_ See `randomness`; zero for `blockhash`.
    """
    self._require(
        registry_ != empty(address) and owner_ != empty(address),
        "benchmarks: zero address",
    )
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    eip712.__init__("Menagerie NodeRegistry", "1")
    pausing.__init__()
    randomness.__init__(random_source_)
    registry = registry_


# Owner


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_BENCHMARK = 1.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_BENCHMARK)


@external
def overrule(node_id: uint256, attempt: uint256, passed: bool, verifier_ids: DynArray[uint256, 16]):
    """
    @notice Owner only: finds that a verdict on an attempt was false. The verifiers named, who gave
            it, are slashed for FALSE_REPORT (all of it to the treasury). A false pass resets the
            node's score, so that it must measure again, and of a settled attempt the node itself is
            slashed as by `condemn`, once.
    @dev Reverts: "ownable: caller is not the owner", "benchmarks: not its verdict" (also twice for
         the same verdict).
    @param node_id The node that was measured.
    @param attempt The number of its attempt.
    @param passed The verdict that was false.
    @param verifier_ids Verifiers who gave it.
    """
    ownable._check_owner()
    judged: uint256 = self._judged[node_id][attempt]
    invented: bool = passed and judged != 0 and judged & CONDEMNED == 0
    if invented:
        self._judged[node_id][attempt] = judged | CONDEMNED
    for verifier_id: uint256 in verifier_ids:
        vote: uint256 = self._voted[node_id][attempt][verifier_id]
        self._require(
            vote & OVERRULED == (PASSED if passed else FAILED), "benchmarks: not its verdict"
        )
        self._voted[node_id][attempt][verifier_id] = vote | OVERRULED
        amount: uint256 = extcall INodeRegistry(registry).slash(
            verifier_id, FALSE_REPORT, vote >> _TIME, empty(address)
        )
        log INodeBenchmarks.BenchmarkVerdictSlashed(
            node_id=node_id, attempt=attempt, verifier_id=verifier_id, amount=amount
        )
    log INodeBenchmarks.VerdictOverruled(node_id=node_id, attempt=attempt, passed=passed)
    if passed:
        extcall INodeRegistry(registry).set_score(node_id, 0)
    if invented:
        self._slash(node_id, attempt, judged)


@external
def condemn(node_id: uint256, attempt: uint256):
    """
    @notice Owner only: finds that the work of an attempt was invented. The attempt is settled, and
            a verifier has signed that it failed. The node is slashed for FALSE_REPORT (all of it to
            the treasury), once for an attempt. If the attempt passed all the same, the node's score
            is reset.
    @dev Reverts: "ownable: caller is not the owner", "benchmarks: nothing to condemn" (not settled,
         failed by nobody, or condemned before).
    @param node_id The node that answered.
    @param attempt The number of its attempt.
    """
    ownable._check_owner()
    judged: uint256 = self._judged[node_id][attempt]
    self._require(judged & (DOUBTED | CONDEMNED) == DOUBTED, "benchmarks: nothing to condemn")
    self._judged[node_id][attempt] = judged | CONDEMNED
    self._slash(node_id, attempt, judged)
    if judged & RAISED != 0:
        extcall INodeRegistry(registry).set_score(node_id, 0)


# Trainers


@external
def request_benchmark(node_id: uint256):
    """
    @notice A node's owner or operator: starts a new attempt, pinned to a seed of the next block.
            The node is a TRAINER, and its last attempt is settled or its window has passed. A
            passed score stands until a new attempt passes: a failed one changes nothing, so honest
            nodes risk nothing by measuring again.
    @dev Reverts: "pausing: paused", "benchmarks: unknown node", "benchmarks: not the owner or
         operator", "benchmarks: exiting", "benchmarks: banned", "benchmarks: not a trainer",
         "benchmarks: benchmark pending".
    @param node_id The node.
    """
    pausing._check_not_paused(PAUSE_BENCHMARK)
    roles: uint256 = self._check_may_measure(node_id)
    self._require(roles & TRAINER != 0, "benchmarks: not a trainer")
    self._require(not self._is_pending(node_id), "benchmarks: benchmark pending")
    attempt: uint256 = self._benchmarks[node_id].attempt + 1
    self._benchmarks[node_id] = empty(INodeBenchmarks.Benchmark)
    self._benchmarks[node_id].attempt = attempt
    self._benchmarks[node_id].requested_at = block.timestamp
    seed_block: uint256 = randomness._request(self._seed_key(node_id))
    log INodeBenchmarks.BenchmarkRequested(node_id=node_id, attempt=attempt, seed_block=seed_block)


@external
def submit_benchmark(
    node_id: uint256, seed: bytes32, units: uint256, root: bytes32, artefact: bytes32
):
    """
    @notice A node's owner or operator: answers the attempt, once, within the window. The time
            between request and answer in block timestamps is taken for the work: an upper bound of
            the true time, so latency costs the node score and never gains it any. Pins the check
            seed to the next block. The answer names the seed it is of, so that no answer is taken
            for the work of a seed that came later.
    @dev Reverts: "pausing: paused", "benchmarks: unknown node", "benchmarks: not the owner or
         operator", "benchmarks: exiting", "benchmarks: banned", "benchmarks: no benchmark pending",
         "benchmarks: benchmark window passed", "benchmarks: bad units",
         "benchmarks: empty benchmark", "benchmarks: seed expired" (capture it again first),
         "benchmarks: not its seed", "randomness: too early".
    @param node_id The node.
    @param seed The seed of the attempt.
    @param units Work units done, 1 to 1,000,000.
    @param root Root over the chunks.
    @param artefact Digest of the stored proof.
    """
    pausing._check_not_paused(PAUSE_BENCHMARK)
    self._check_may_measure(node_id)
    attempt: uint256 = self._benchmarks[node_id].attempt
    self._require(
        attempt != 0 and self._benchmarks[node_id].submitted_at == 0,
        "benchmarks: no benchmark pending",
    )
    self._require(self._is_pending(node_id), "benchmarks: benchmark window passed")
    self._require(units != 0 and units <= MAX_UNITS, "benchmarks: bad units")
    self._require(
        root != empty(bytes32) and artefact != empty(bytes32),
        "benchmarks: empty benchmark",
    )
    captured: bytes32 = self._capture_now(self._seed_key(node_id))
    self._require(seed == captured, "benchmarks: not its seed")
    self._benchmarks[node_id].submitted_at = block.timestamp
    self._benchmarks[node_id].units = units
    self._benchmarks[node_id].root = root
    self._benchmarks[node_id].artefact = artefact
    check_block: uint256 = randomness._request(self._draw_key(node_id))
    log INodeBenchmarks.BenchmarkSubmitted(
        node_id=node_id,
        attempt=attempt,
        units=units,
        root=root,
        artefact=artefact,
        elapsed=block.timestamp - self._benchmarks[node_id].requested_at,
        check_block=check_block,
    )


# Anyone


@external
def capture_benchmark_seed(node_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the seed of the current attempt, or re-arms it when its block hash is
            gone.
    @dev Reverts: "randomness: not requested", "randomness: too early".
    @param node_id The node.
    @return bytes32 The seed, or empty when this call re-armed it.
    """
    return randomness._capture(self._seed_key(node_id))


@external
def capture_check_seed(node_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the seed that draws the chunks to check, or re-arms it when its block
            hash is gone.
    @dev Reverts: "randomness: not requested", "randomness: too early".
    @param node_id The node.
    @return bytes32 The seed, or empty when this call re-armed it.
    """
    return randomness._capture(self._draw_key(node_id))


@external
def submit_verdicts(
    node_id: uint256,
    passed: bool,
    verifier_ids: DynArray[uint256, 16],
    signatures: DynArray[Bytes[65], 16],
):
    """
    @notice Anyone: relays verdicts that verifiers signed (EIP-712 `BenchmarkVerdict`, by the
            verifier's operator key), of the registry's voters as they were before the answer. As
            many equal verdicts as the registry's `benchmark_quorum`, with more than half of the
            weight, settle the attempt; verdicts behind the deciding one are ignored. An attempt
            that passed sets the node's score in the registry. Captures the check seed when that was
            not done.
    @dev Reverts: "pausing: paused", "benchmarks: no benchmark submitted", "benchmarks: benchmark
         settled", "benchmarks: bad verdicts", "benchmarks: seed expired" (capture it again first),
         "benchmarks: not a verifier", "benchmarks: own benchmark", "benchmarks: verdict already
         given", "benchmarks: bad signature", "randomness: too early", and snekmate's "ecdsa: ..."
         for malformed signatures.
    @param node_id The node.
    @param passed The verdict all the signatures give.
    @param verifier_ids The verifiers' node ids.
    @param signatures One per verifier, in the same order.
    """
    pausing._check_not_paused(PAUSE_BENCHMARK)
    attempt: uint256 = self._benchmarks[node_id].attempt
    self._check_submitted(node_id)
    self._require(not self._benchmarks[node_id].settled, "benchmarks: benchmark settled")
    self._require(
        len(verifier_ids) != 0 and len(verifier_ids) == len(signatures),
        "benchmarks: bad verdicts",
    )
    check_seed: bytes32 = self._capture_now(self._draw_key(node_id))
    digest: bytes32 = self._digest(node_id, check_seed, passed)
    votes: uint256 = self._benchmarks[node_id].fails
    if passed:
        votes = self._benchmarks[node_id].passes
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    quorum: uint256 = parameters.benchmark_quorum
    owner: address = staticcall INodeRegistry(registry).owner_of(node_id)
    kind: uint256 = PASSED if passed else FAILED
    voters: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    voters, weights = self._voters(node_id)
    total: uint256 = 0
    weight: uint256 = 0
    for i: uint256 in range(len(voters), bound=MAX_VOICES):
        if staticcall INodeRegistry(registry).owner_of(voters[i]) != owner:
            total += weights[i]
        if self._voted[node_id][attempt][voters[i]] & OVERRULED == kind:
            weight += weights[i]
    for i: uint256 in range(len(verifier_ids), bound=MAX_VERDICTS):
        if votes >= quorum and 2 * weight > total:
            break
        verifier_id: uint256 = verifier_ids[i]
        part: uint256 = 0
        for j: uint256 in range(len(voters), bound=MAX_VOICES):
            if voters[j] == verifier_id:
                part = weights[j]
        self._require(part != 0, "benchmarks: not a verifier")
        self._require(
            staticcall INodeRegistry(registry).owner_of(verifier_id) != owner,
            "benchmarks: own benchmark",
        )
        self._require(
            self._voted[node_id][attempt][verifier_id] == 0,
            "benchmarks: verdict already given",
        )
        signer: address = ecdsa._recover_sig(digest, signatures[i])
        self._require(
            signer == staticcall INodeRegistry(registry).acting_operator(verifier_id),
            "benchmarks: bad signature",
        )
        self._voted[node_id][attempt][verifier_id] = block.timestamp << _TIME | kind
        votes += 1
        weight += part
        log INodeBenchmarks.BenchmarkVerdictGiven(
            node_id=node_id, attempt=attempt, verifier_id=verifier_id, passed=passed
        )

    if passed:
        self._benchmarks[node_id].passes = votes
    else:
        self._benchmarks[node_id].fails = votes
    if votes >= quorum and 2 * weight > total:
        self._settle(node_id, passed)


# Views. They need no lock: the state is complete before the registry is called.


@view
@reentrant
@external
def benchmark(node_id: uint256) -> INodeBenchmarks.Benchmark:
    """
    @notice The node's current or last attempt; seeds are empty until captured.
    @param node_id The node.
    @return INodeBenchmarks.Benchmark The attempt; all zero when there was none.
    """
    attempt: INodeBenchmarks.Benchmark = self._benchmarks[node_id]
    seed_key: bytes32 = self._seed_key(node_id)
    draw_key: bytes32 = self._draw_key(node_id)
    attempt.seed_block = randomness._target(seed_key)
    attempt.seed = randomness._seed(seed_key)
    attempt.check_block = randomness._target(draw_key)
    attempt.check_seed = randomness._seed(draw_key)
    return attempt


@view
@reentrant
@external
def verdict_digest(node_id: uint256, passed: bool) -> bytes32:
    """
    @notice What a verifier signs for the submitted attempt. Works as soon as the check seed can be
            captured, and gives the same digest afterwards.
    @dev Reverts: "benchmarks: no benchmark submitted", "benchmarks: check seed not ready".
    @param node_id The node.
    @param passed The verdict.
    @return bytes32 The EIP-712 digest.
    """
    self._check_submitted(node_id)
    check_seed: bytes32 = randomness._peek(self._draw_key(node_id))
    self._require(check_seed != empty(bytes32), "benchmarks: check seed not ready")
    return self._digest(node_id, check_seed, passed)


# Internal: checks


@internal
@pure
def _require(condition: bool, reason: String[40]):
    """
    @notice Reverts with `reason` unless the condition holds. One shared function, because every
            `assert` with its own reason costs 50 bytes more.
    """
    assert condition, reason


@internal
@view
def _check_may_measure(node_id: uint256) -> uint256:
    """
    @notice Lets the owner and the operator of a node pass that stays, and returns its roles.
    """
    record: INodeRegistry.Node = staticcall INodeRegistry(registry).node(node_id)
    self._require(record.owner != empty(address), "benchmarks: unknown node")
    self._require(
        msg.sender == record.owner or msg.sender == record.operator,
        "benchmarks: not the owner or operator",
    )
    self._require(record.unlock_at == 0, "benchmarks: exiting")
    self._require(not record.banned, "benchmarks: banned")
    return record.roles


@internal
@view
def _check_submitted(node_id: uint256):
    self._require(self._benchmarks[node_id].submitted_at != 0, "benchmarks: no benchmark submitted")


@internal
@view
def _is_pending(node_id: uint256) -> bool:
    """
    @notice Whether the last attempt still excludes a new one.
    """
    if self._benchmarks[node_id].attempt == 0 or self._benchmarks[node_id].settled:
        return False
    parameters: INodeRegistry.Parameters = staticcall INodeRegistry(registry).parameters()
    return block.timestamp <= self._benchmarks[node_id].requested_at + parameters.benchmark_window


# Internal: seeds and verdicts


@internal
@view
def _voters(node_id: uint256) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice Who judges the node's attempt: verifiers whose stake was old enough when it answered,
            which is before it asked where the window is shorter than the maturity.
    """
    answered: uint256 = self._benchmarks[node_id].submitted_at
    maturity: uint256 = staticcall INodeRegistry(registry).maturity()
    return staticcall INodeRegistry(registry).voters(answered - min(answered, maturity))


@internal
@view
def _seed_key(node_id: uint256) -> bytes32:
    return keccak256(abi_encode(SEED_DOMAIN, node_id, self._benchmarks[node_id].attempt))


@internal
@view
def _draw_key(node_id: uint256) -> bytes32:
    return keccak256(abi_encode(CHECK_DOMAIN, node_id, self._benchmarks[node_id].attempt))


@internal
def _capture_now(key: bytes32) -> bytes32:
    """
    @notice The seed, captured if need be. Reverting undoes a re-arm: the capture functions keep it.
    """
    seed: bytes32 = randomness._capture(key)
    self._require(seed != empty(bytes32), "benchmarks: seed expired")
    return seed


@internal
@view
def _digest(node_id: uint256, check_seed: bytes32, passed: bool) -> bytes32:
    return eip712._hash_typed_data_v4(
        keccak256(
            abi_encode(
                VERDICT_TYPE_HASH,
                node_id,
                self._benchmarks[node_id].attempt,
                self._benchmarks[node_id].root,
                self._benchmarks[node_id].units,
                check_seed,
                passed,
            )
        )
    )


@internal
def _settle(node_id: uint256, passed: bool):
    """
    @notice Ends the attempt. One that failed leaves the score alone.
    """
    attempt: uint256 = self._benchmarks[node_id].attempt
    self._benchmarks[node_id].settled = True
    said: uint256 = RAISED if passed else 0
    if self._benchmarks[node_id].fails != 0:
        said |= DOUBTED
    self._judged[node_id][attempt] = self._benchmarks[node_id].submitted_at << _ANSWERED | said
    score: uint256 = 0
    if passed:
        elapsed: uint256 = (
            self._benchmarks[node_id].submitted_at - self._benchmarks[node_id].requested_at
        )
        score = self._benchmarks[node_id].units * SCORE_SCALE // max(elapsed, 1)
    else:
        record: INodeRegistry.Node = staticcall INodeRegistry(registry).node(node_id)
        score = record.benchmark_score
    log INodeBenchmarks.BenchmarkSettled(
        node_id=node_id,
        attempt=attempt,
        passed=passed,
        score=score,
    )
    if passed:
        extcall INodeRegistry(registry).set_score(node_id, score)


@internal
def _slash(node_id: uint256, attempt: uint256, judged: uint256):
    """
    @notice Slashes the node for an attempt, which is `judged` and condemned now.
    """
    amount: uint256 = extcall INodeRegistry(registry).slash(
        node_id, FALSE_REPORT, judged >> _ANSWERED, empty(address)
    )
    log INodeBenchmarks.FalseBenchmarkSlashed(node_id=node_id, attempt=attempt, amount=amount)
