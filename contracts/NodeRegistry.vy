# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title NodeRegistry
@custom:contract-name NodeRegistry
@license AGPL-3.0-only
@notice Who takes part, with what stake, in which role, and how good its verified benchmark is.

        Rules this contract holds:
        - It owns every staked token: balance >= total_stake + total_bounties, and equal unless
          somebody sends tokens here unasked.
        - Only a listed slasher lowers a node's stake; the stake leaves by `withdraw`, to the owner,
          after the unbonding period, and is slashable until then.
        - One operator address serves one node. The owner key is cold (stake, settings); the
          operator key is hot (the agent holds it). Both may be the same address, which gives up
          that safety.
        - A node is eligible for a role when it asked for it, was approved where approval is needed
          (VERIFIER, AGGREGATOR), is active, not suspended, not banned, not exiting, has the role's
          minimum stake, and, as a TRAINER, has passed a benchmark.
        - A role's list holds the nodes that asked for the role, do not exit and are not banned; as
          VERIFIER or AGGREGATOR only approved ones, as TRAINER only active ones with a passed
          benchmark and the minimum stake. Rounds look at so many places only, and registering is
          open to all: registrations that do no work take no place.
        - Settlement is never blocked: `slash`, `lock` and `unlock` accept a node with nothing left.

        Naming somebody else's operator address takes a bonded node and gains nothing; its victim
        uses another hot key.
@custom:kill The owner (the Coordinator) can pause `register_node` (bit 1) and the benchmark (bit 2)
             with `set_paused`, and delist every slasher. `begin_exit`, `withdraw` and
             `claim_bounty` have no switch: every owner can always leave with its stake.
"""

from ethereum.ercs import IERC20

from interfaces import INodeRegistry
from interfaces import IPausing
from interfaces import IPenalties

implements: INodeRegistry
implements: IPausing
implements: IPenalties

from snekmate.auth import ownable
from snekmate.auth import ownable_2step
from snekmate.utils import ecdsa
from snekmate.utils import eip712_domain_separator as eip712

initializes: ownable
initializes: ownable_2step[ownable := ownable]
initializes: eip712

from contracts.modules import pausing
from contracts.modules import penalties
from contracts.modules import randomness

initializes: pausing
initializes: penalties
initializes: randomness

exports: (
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
    eip712.eip712Domain,
    pausing.paused,
    penalties.penalty,
    penalties.offences,
)


# Role bits.
TRAINER: constant(uint256) = 1
VERIFIER: constant(uint256) = 2
AGGREGATOR: constant(uint256) = 4
_ALL_ROLES: constant(uint256) = 7
_GATED_ROLES: constant(uint256) = 6

# Pause bits.
_PAUSE_REGISTER: constant(uint256) = 1
_PAUSE_BENCHMARK: constant(uint256) = 2
_PAUSE_ALL: constant(uint256) = 3

_STRIKES_TO_BAN: constant(uint256) = 3
_BPS: constant(uint256) = 10_000

# One ZOO: the least addition (so the ring of additions is not flooded) and the least minimum stake.
_ZOO: constant(uint256) = 10**18
_RING: constant(uint256) = 16
_MAX_SLASHERS: constant(uint256) = 8
_MAX_LIST: constant(uint256) = 128
_MAX_VERDICTS: constant(uint256) = 16

_MAX_UNBONDING: constant(uint256) = 365 * 86_400
# Below 1e6 seconds, so that one unit within the window still scores at least 1.
_MAX_WINDOW: constant(uint256) = 7 * 86_400
_MAX_UNITS: constant(uint256) = 1_000_000
# Scores are units per million seconds.
_SCORE_SCALE: constant(uint256) = 1_000_000

_SEED_DOMAIN: constant(bytes32) = keccak256("Menagerie NodeRegistry benchmark seed")
_CHECK_DOMAIN: constant(bytes32) = keccak256("Menagerie NodeRegistry benchmark check")
_VERDICT_TYPE_HASH: constant(bytes32) = keccak256(
    "BenchmarkVerdict(uint256 node_id,uint256 attempt,bytes32 root,uint256 units,"
    "bytes32 check_seed,bool passed)"
)

_TOKEN: immutable(IERC20)


struct Addition:
    amount: uint256
    time: uint256


_nodes: HashMap[uint256, INodeRegistry.Node]
_node_count: uint256
_node_of: HashMap[address, uint256]

# Per role the enumerable nodes, and per role and node its place in that list plus one.
_list: HashMap[uint256, HashMap[uint256, uint256]]
_list_size: HashMap[uint256, uint256]
_place: HashMap[uint256, HashMap[uint256, uint256]]

# The last `_RING` stake additions of a node, and how many there were.
_additions: HashMap[uint256, HashMap[uint256, Addition]]
_addition_count: HashMap[uint256, uint256]

_benchmarks: HashMap[uint256, INodeRegistry.Benchmark]
_voted: HashMap[uint256, HashMap[uint256, HashMap[uint256, bool]]]

_slashers: DynArray[address, _MAX_SLASHERS]
_locks: HashMap[uint256, HashMap[address, uint256]]

_bounties: HashMap[address, uint256]
_total_bounties: uint256
_total_stake: uint256
_parameters: INodeRegistry.Parameters


@deploy
def __init__(
    token: address,
    owner: address,
    slashers: DynArray[address, _MAX_SLASHERS],
    parameters: INodeRegistry.Parameters,
    random_source: address,
):
    """
    @notice Starts an empty registry with the default slashing table. The deployer keeps no right.
    @dev Reverts: "registry: zero address" and the reverts of `set_slasher` and `set_parameters`.
    @param token The ZOO token.
    @param owner The Coordinator.
    @param slashers The contracts that may slash and lock.
    @param parameters Minimum stakes, times, quorum and treasury.
    @param random_source See `randomness`; zero for `blockhash`.
    """
    self._check_address(token)
    self._check_address(owner)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner)
    eip712.__init__("Menagerie NodeRegistry", "1")
    pausing.__init__()
    penalties.__init__()
    randomness.__init__(random_source)
    _TOKEN = IERC20(token)
    for slasher: address in slashers:
        self._set_slasher(slasher, True)
    self._set_parameters(parameters)


# Node life


@external
def register_node(
    operator: address,
    payout: address,
    roles: uint256,
    stake: uint256,
    hardware_spec: String[128],
    encryption_key: bytes32,
) -> uint256:
    """
    @notice Anyone: registers a node owned by the caller, takes its stake (an allowance is needed)
            and, for a TRAINER, requests its benchmark. VERIFIER and AGGREGATOR wait for
            `approve_role`.
    @dev Reverts: "pausing: paused", "registry: zero address", "registry: operator in use",
         "registry: bad roles", "registry: stake too low".
    @param operator The hot key of the agent; unused so far.
    @param payout Where rewards are credited.
    @param roles Bits: TRAINER 1, VERIFIER 2, AGGREGATOR 4.
    @param stake At least the least minimum among the roles; each role needs its own to be eligible.
    @param hardware_spec Free text for people.
    @param encryption_key Public key for encrypted shards, or zero.
    @return uint256 The new node's id: 1, 2, 3, ...
    """
    pausing._check_not_paused(_PAUSE_REGISTER)
    self._check_new_operator(operator)
    self._check_address(payout)
    self._check_roles(roles, stake)

    node_id: uint256 = self._node_count + 1
    self._node_count = node_id
    self._node_of[operator] = node_id
    self._nodes[node_id].owner = msg.sender
    self._nodes[node_id].operator = operator
    self._nodes[node_id].payout = payout
    self._nodes[node_id].roles = roles
    self._nodes[node_id].stake = stake
    self._nodes[node_id].active = True
    self._nodes[node_id].registered_at = block.timestamp
    self._nodes[node_id].encryption_key = encryption_key
    self._nodes[node_id].hardware_spec = hardware_spec
    self._total_stake += stake
    self._update_lists(node_id)
    log INodeRegistry.NodeRegistered(
        node_id=node_id,
        owner=msg.sender,
        operator=operator,
        payout=payout,
        roles=roles,
        stake=stake,
        hardware_spec=hardware_spec,
        encryption_key=encryption_key,
    )
    if roles & TRAINER != 0:
        self._request_if_possible(node_id)
    self._pull(stake)
    return node_id


@external
def add_stake(node_id: uint256, amount: uint256):
    """
    @notice Owner: adds stake (an allowance is needed). An addition is not at risk for offences
            before it, as long as it is among the node's last 16 additions.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: exiting",
         "registry: banned", "registry: addition too small".
    @param node_id The node.
    @param amount At least one ZOO.
    """
    self._check_owner_of(node_id)
    self._check_staying(node_id)
    self._require(amount >= _ZOO, "registry: addition too small")
    count: uint256 = self._addition_count[node_id]
    self._additions[node_id][count % _RING] = Addition(amount=amount, time=block.timestamp)
    self._addition_count[node_id] = count + 1
    stake: uint256 = self._nodes[node_id].stake + amount
    self._nodes[node_id].stake = stake
    self._total_stake += amount
    self._update_lists(node_id)
    log INodeRegistry.StakeAdded(node_id=node_id, amount=amount, stake=stake)
    self._pull(amount)


@external
def begin_exit(node_id: uint256):
    """
    @notice Owner: ends the node's work for good. Its whole stake starts to unbond and stays
            slashable until it is withdrawn. Never paused; open to banned nodes.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: exiting".
    @param node_id The node.
    """
    self._check_owner_of(node_id)
    self._check_not_exiting(node_id)
    amount: uint256 = self._nodes[node_id].stake
    unlock_at: uint256 = block.timestamp + self._parameters.unbonding_period
    self._nodes[node_id].stake = 0
    self._nodes[node_id].unbonding = amount
    self._nodes[node_id].unlock_at = unlock_at
    self._update_lists(node_id)
    log INodeRegistry.ExitBegun(node_id=node_id, amount=amount, unlock_at=unlock_at)


@external
def withdraw(node_id: uint256):
    """
    @notice Owner: takes out what is left after the unbonding period, closes the node and frees its
            operator address. Never paused.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: not exiting",
         "registry: closed", "registry: still unbonding", "registry: stake locked".
    @param node_id The node.
    """
    self._check_owner_of(node_id)
    unlock_at: uint256 = self._nodes[node_id].unlock_at
    self._require(unlock_at != 0, "registry: not exiting")
    self._check_open(node_id)
    self._require(block.timestamp >= unlock_at, "registry: still unbonding")
    self._require(self._lock_count(node_id) == 0, "registry: stake locked")
    amount: uint256 = self._nodes[node_id].unbonding
    self._nodes[node_id].unbonding = 0
    self._node_of[self._nodes[node_id].operator] = 0
    self._nodes[node_id].operator = empty(address)
    self._total_stake -= amount
    log INodeRegistry.StakeWithdrawn(node_id=node_id, owner=msg.sender, amount=amount)
    self._push(msg.sender, amount)


@external
def set_operator(node_id: uint256, operator: address):
    """
    @notice Owner: replaces the hot key; the old address is free again.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: closed",
         "registry: zero address", "registry: operator in use".
    @param node_id The node.
    @param operator The new key; unused so far.
    """
    self._check_owner_of(node_id)
    self._check_open(node_id)
    self._check_new_operator(operator)
    old: address = self._nodes[node_id].operator
    self._node_of[old] = 0
    self._node_of[operator] = node_id
    self._nodes[node_id].operator = operator
    log INodeRegistry.OperatorChanged(node_id=node_id, old_operator=old, new_operator=operator)


@external
def set_payout(node_id: uint256, payout: address):
    """
    @notice Owner: replaces where later rewards are credited; works after the exit too.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: zero address".
    @param node_id The node.
    @param payout The new address.
    """
    self._check_owner_of(node_id)
    self._check_address(payout)
    old: address = self._nodes[node_id].payout
    self._nodes[node_id].payout = payout
    log INodeRegistry.PayoutChanged(node_id=node_id, old_payout=old, new_payout=payout)


@external
def set_encryption_key(node_id: uint256, encryption_key: bytes32):
    """
    @notice Owner or operator: replaces the public key that data keys are sealed to. What is sealed
            already stays sealed to the old one.
    @dev Reverts: "registry: unknown node", "registry: not the owner or operator".
    @param node_id The node.
    @param encryption_key The new public key; zero for none.
    """
    self._check_owner_or_operator(node_id)
    old: bytes32 = self._nodes[node_id].encryption_key
    self._nodes[node_id].encryption_key = encryption_key
    log INodeRegistry.EncryptionKeyChanged(node_id=node_id, old_key=old, new_key=encryption_key)


@external
def set_roles(node_id: uint256, roles: uint256):
    """
    @notice Owner: replaces the roles. A dropped role loses its approval, so adding a gated role
            always waits for a fresh `approve_role`. Adding TRAINER requests a benchmark when none
            is pending.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: exiting",
         "registry: banned", "registry: bad roles", "registry: stake too low".
    @param node_id The node.
    @param roles The new bits.
    """
    self._check_owner_of(node_id)
    self._check_staying(node_id)
    self._check_roles(roles, self._nodes[node_id].stake)
    old: uint256 = self._nodes[node_id].roles
    self._nodes[node_id].roles = roles
    self._nodes[node_id].approved_roles &= roles
    self._update_lists(node_id)
    log INodeRegistry.RolesChanged(node_id=node_id, old_roles=old, new_roles=roles)
    if roles & ~old & TRAINER != 0:
        self._request_if_possible(node_id)


@external
def set_active(node_id: uint256, active: bool):
    """
    @notice Owner or operator: takes a rest from new rounds, or comes back. A resting TRAINER gives
            up its place in the list.
    @dev Reverts: "registry: unknown node", "registry: not the owner or operator".
    @param node_id The node.
    @param active Whether the node wants work.
    """
    self._check_owner_or_operator(node_id)
    self._nodes[node_id].active = active
    self._update_lists(node_id)
    log INodeRegistry.ActiveChanged(node_id=node_id, active=active)


@external
def claim_bounty() -> uint256:
    """
    @notice Anyone with a credit: takes out the whole of it. Never paused.
    @dev Reverts: "registry: nothing to claim".
    @return uint256 The amount.
    """
    amount: uint256 = self._bounties[msg.sender]
    self._require(amount != 0, "registry: nothing to claim")
    self._bounties[msg.sender] = 0
    self._total_bounties -= amount
    log INodeRegistry.BountyClaimed(account=msg.sender, amount=amount)
    self._push(msg.sender, amount)
    return amount


# Verified benchmark


@external
def request_benchmark(node_id: uint256):
    """
    @notice Owner or operator: starts a new attempt, pinned to a seed of the next block, when the
            last one is settled or its window has passed. A passed score stands until a new attempt
            passes: a failed one changes nothing, so honest nodes risk nothing by measuring again.
    @dev Reverts: "pausing: paused", "registry: unknown node", "registry: not the owner or
         operator", "registry: exiting", "registry: banned", "registry: not a trainer", "registry:
         benchmark pending".
    @param node_id The node.
    """
    pausing._check_not_paused(_PAUSE_BENCHMARK)
    self._check_owner_or_operator(node_id)
    self._check_staying(node_id)
    self._require(self._nodes[node_id].roles & TRAINER != 0, "registry: not a trainer")
    self._require(not self._is_pending(node_id), "registry: benchmark pending")
    self._start_attempt(node_id)


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
def submit_benchmark(node_id: uint256, units: uint256, root: bytes32, artefact: bytes32):
    """
    @notice Owner or operator: answers the attempt, once, within the window. The time between
            request and answer in block timestamps is taken for the work: an upper bound of the true
            time, so latency costs the node score and never gains it any. Pins the check seed to the
            next block.
    @dev Reverts: "pausing: paused", "registry: unknown node", "registry: not the owner or
         operator", "registry: exiting", "registry: banned", "registry: no benchmark pending",
         "registry: benchmark window passed", "registry: bad units", "registry: empty benchmark",
         "registry: seed expired" (capture it again first), "randomness: too early".
    @param node_id The node.
    @param units Work units done, 1 to 1,000,000.
    @param root Root over the chunks.
    @param artefact Digest of the stored proof.
    """
    pausing._check_not_paused(_PAUSE_BENCHMARK)
    self._check_owner_or_operator(node_id)
    self._check_staying(node_id)
    attempt: uint256 = self._benchmarks[node_id].attempt
    self._require(
        attempt != 0 and self._benchmarks[node_id].submitted_at == 0,
        "registry: no benchmark pending",
    )
    self._require(self._is_pending(node_id), "registry: benchmark window passed")
    self._require(units != 0 and units <= _MAX_UNITS, "registry: bad units")
    self._require(
        root != empty(bytes32) and artefact != empty(bytes32),
        "registry: empty benchmark",
    )
    self._capture_now(self._seed_key(node_id))
    self._benchmarks[node_id].submitted_at = block.timestamp
    self._benchmarks[node_id].units = units
    self._benchmarks[node_id].root = root
    self._benchmarks[node_id].artefact = artefact
    check_block: uint256 = randomness._request(self._check_key(node_id))
    log INodeRegistry.BenchmarkSubmitted(
        node_id=node_id,
        attempt=attempt,
        units=units,
        root=root,
        artefact=artefact,
        elapsed=block.timestamp - self._benchmarks[node_id].requested_at,
        check_block=check_block,
    )


@external
def capture_check_seed(node_id: uint256) -> bytes32:
    """
    @notice Anyone: stores the seed that draws the chunks to check, or re-arms it when its block
            hash is gone.
    @dev Reverts: "randomness: not requested", "randomness: too early".
    @param node_id The node.
    @return bytes32 The seed, or empty when this call re-armed it.
    """
    return randomness._capture(self._check_key(node_id))


@external
def submit_verdicts(
    node_id: uint256,
    passed: bool,
    verifier_ids: DynArray[uint256, _MAX_VERDICTS],
    signatures: DynArray[Bytes[65], _MAX_VERDICTS],
):
    """
    @notice Anyone: relays verdicts that verifiers signed (EIP-712 `BenchmarkVerdict`, by the
            verifier's operator key). `benchmark_quorum` equal verdicts settle the attempt; verdicts
            behind the deciding one are ignored. Captures the check seed when that was not done.
    @dev Reverts: "pausing: paused", "registry: no benchmark submitted", "registry: benchmark
         settled", "registry: bad verdicts", "registry: seed expired" (capture it again first),
         "registry: not a verifier", "registry: own benchmark", "registry: verdict already given",
         "registry: bad signature", "randomness: too early", and snekmate's "ecdsa: ..." for
         malformed signatures.
    @param node_id The node.
    @param passed The verdict all the signatures give.
    @param verifier_ids The verifiers' node ids.
    @param signatures One per verifier, in the same order.
    """
    pausing._check_not_paused(_PAUSE_BENCHMARK)
    attempt: uint256 = self._benchmarks[node_id].attempt
    self._check_submitted(node_id)
    self._require(not self._benchmarks[node_id].settled, "registry: benchmark settled")
    self._require(
        len(verifier_ids) != 0 and len(verifier_ids) == len(signatures),
        "registry: bad verdicts",
    )
    check_seed: bytes32 = self._capture_now(self._check_key(node_id))
    digest: bytes32 = self._digest(node_id, check_seed, passed)
    votes: uint256 = self._benchmarks[node_id].fails
    if passed:
        votes = self._benchmarks[node_id].passes
    quorum: uint256 = self._parameters.benchmark_quorum

    for i: uint256 in range(len(verifier_ids), bound=_MAX_VERDICTS):
        if votes >= quorum:
            break
        verifier: uint256 = verifier_ids[i]
        self._require(self._is_eligible(verifier, VERIFIER), "registry: not a verifier")
        self._require(
            self._nodes[verifier].owner != self._nodes[node_id].owner,
            "registry: own benchmark",
        )
        self._require(
            not self._voted[node_id][attempt][verifier],
            "registry: verdict already given",
        )
        signer: address = ecdsa._recover_sig(digest, signatures[i])
        self._require(signer == self._nodes[verifier].operator, "registry: bad signature")
        self._voted[node_id][attempt][verifier] = True
        votes += 1
        log INodeRegistry.BenchmarkVerdictGiven(
            node_id=node_id, attempt=attempt, verifier_id=verifier, passed=passed
        )

    if passed:
        self._benchmarks[node_id].passes = votes
    else:
        self._benchmarks[node_id].fails = votes
    if votes >= quorum:
        self._settle_benchmark(node_id, passed)


# Slashers


@external
def slash(
    node_id: uint256, violation: uint256, offence_time: uint256, reporter: address
) -> uint256:
    """
    @notice Listed slashers: applies the row of `violation`. Takes ceil(base * bps / 10,000), where
            the base is the bonded amount (stake and unbonding) less what was added after the
            offence (additions forgotten by the ring of 16 count as bonded then). Takes from the
            stake first, then from the unbonding part. The third strike applies REPEATED instead. A
            node with nothing left is still recorded and never reverts.
    @dev Reverts: "registry: not a slasher", "registry: unknown node",
         "registry: offence in the future", "penalties: unknown violation".
    @param node_id The offender.
    @param violation The violation's id.
    @param offence_time When it happened, in seconds.
    @param reporter Who gets the reporter's share; nobody when empty or when it is the node's own
           owner, operator or payout, unless it is the calling slasher. What is not the reporter's
           goes to the treasury.
    @return uint256 The amount taken.
    """
    self._check_slasher()
    self._check_known(node_id)
    self._require(offence_time <= block.timestamp, "registry: offence in the future")

    row: IPenalties.Penalty = penalties._record(node_id, violation)
    strikes: uint256 = self._nodes[node_id].strikes
    if row.strike:
        strikes += 1
        self._nodes[node_id].strikes = strikes
        if strikes >= _STRIKES_TO_BAN:
            row = penalties._record(node_id, penalties.REPEATED)
    amount: uint256 = self._take(node_id, row.bps, offence_time)
    share: uint256 = 0
    # A slasher that reports for itself is nobody's own address, whatever a node calls it.
    if reporter == msg.sender or (
        reporter != empty(address) and not self._is_own_address(node_id, reporter)
    ):
        share = amount * row.reporter_bps // _BPS
    self._credit(reporter, share)
    self._credit(self._parameters.treasury, amount - share)

    if row.suspension != 0:
        self._nodes[node_id].suspended_until = max(
            self._nodes[node_id].suspended_until, block.timestamp + row.suspension
        )
    if row.ban:
        self._nodes[node_id].banned = True
    self._update_lists(node_id)
    log INodeRegistry.NodeSlashed(
        node_id=node_id,
        violation=violation,
        amount=amount,
        reporter=reporter,
        reporter_share=share,
        treasury_share=amount - share,
        suspended_until=self._nodes[node_id].suspended_until,
        strikes=strikes,
        banned=self._nodes[node_id].banned,
    )
    return amount


@external
def lock(node_id: uint256):
    """
    @notice Listed slashers: holds back the node's withdrawal while a report is open.
    @dev Reverts: "registry: not a slasher", "registry: unknown node".
    @param node_id The node.
    """
    self._check_slasher()
    self._check_known(node_id)
    self._locks[node_id][msg.sender] += 1
    log INodeRegistry.StakeLocked(node_id=node_id, locks=self._lock_count(node_id))


@external
def unlock(node_id: uint256):
    """
    @notice A slasher: releases one of its own locks. One slasher cannot release another's. The
            locks of a slasher that the owner delisted stop counting at once, so none can hold stake
            forever.
    @dev Reverts: "registry: no lock".
    @param node_id The node.
    """
    count: uint256 = self._locks[node_id][msg.sender]
    self._require(count != 0, "registry: no lock")
    self._locks[node_id][msg.sender] = count - 1
    log INodeRegistry.StakeUnlocked(node_id=node_id, locks=self._lock_count(node_id))


# Coordinator


@external
def approve_role(node_id: uint256, role: uint256, approved: bool):
    """
    @notice Owner of the registry: admits a node to VERIFIER or AGGREGATOR, or revokes that.
    @dev Reverts: "ownable: caller is not the owner", "registry: unknown node",
         "registry: role needs no approval", "registry: role not requested".
    @param node_id The node.
    @param role VERIFIER or AGGREGATOR.
    @param approved Whether the node may act in the role.
    """
    ownable._check_owner()
    self._check_known(node_id)
    self._require(role == VERIFIER or role == AGGREGATOR, "registry: role needs no approval")
    self._require(self._nodes[node_id].roles & role != 0, "registry: role not requested")
    if approved:
        self._nodes[node_id].approved_roles |= role
    else:
        self._nodes[node_id].approved_roles &= ~role
    self._update_lists(node_id)
    log INodeRegistry.RoleApproved(node_id=node_id, role=role, approved=approved)


@external
def set_slasher(slasher: address, allowed: bool):
    """
    @notice Owner of the registry: lists or delists a contract that may slash and lock, at most 8.
            The locks of a delisted slasher stop counting; they count again if it is listed again.
    @dev Reverts: "ownable: caller is not the owner", "registry: zero address",
         "registry: slasher unchanged", "registry: too many slashers".
    @param slasher The contract.
    @param allowed Whether it is listed.
    """
    ownable._check_owner()
    self._set_slasher(slasher, allowed)


@external
def set_parameters(parameters: INodeRegistry.Parameters):
    """
    @notice Owner of the registry: replaces the parameters. Running exits keep their date. A new
            trainer minimum changes no list by itself: a trainer below a raised one keeps its place
            but is not eligible; one that a lowered one admits enters with the next change of its
            own record (`set_active`, even to the same value, is enough).
    @dev Reverts: "ownable: caller is not the owner", "registry: bad unbonding period",
         "registry: bad minimum stake", "registry: bad benchmark window", "registry: bad quorum",
         "registry: zero address".
    @param parameters Unbonding 1 s to 365 days, minimum stakes >= 1 ZOO, benchmark window 1 s to
           7 days, quorum 1 to 16, treasury not zero.
    """
    ownable._check_owner()
    self._set_parameters(parameters)


@external
def set_penalty(violation: uint256, penalty: IPenalties.Penalty):
    """
    @notice Owner of the registry: replaces a row of the slashing table.
    @dev Reverts: "ownable: caller is not the owner" and those of `penalties`.
    @param violation The violation's id, 1 to 16.
    @param penalty The new row.
    """
    ownable._check_owner()
    penalties._set_penalty(violation, penalty)


@external
def set_paused(bits: uint256):
    """
    @notice Owner of the registry: replaces the pause bits; register_node 1, benchmark functions 2.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, _PAUSE_ALL)


# Views. They need no lock: the state is complete before the token is called.


@view
@reentrant
@external
def node(node_id: uint256) -> INodeRegistry.Node:
    """
    @notice A node's whole record.
    @param node_id The node.
    @return INodeRegistry.Node The record; all zero for an unknown id, no operator once closed.
    """
    record: INodeRegistry.Node = self._nodes[node_id]
    record.locks = self._lock_count(node_id)
    return record


@view
@reentrant
@external
def node_count() -> uint256:
    """
    @notice How many nodes were ever registered; ids run from 1 to this.
    @return uint256 The count.
    """
    return self._node_count


@view
@reentrant
@external
def node_of(operator: address) -> uint256:
    """
    @notice The node an operator serves.
    @param operator The hot key.
    @return uint256 The node, or 0.
    """
    return self._node_of[operator]


@view
@reentrant
@external
def operator_of(node_id: uint256) -> address:
    """
    @notice A node's hot key.
    @param node_id The node.
    @return address The operator, or zero when unknown or closed.
    """
    return self._nodes[node_id].operator


@view
@reentrant
@external
def encryption_key_of(node_id: uint256) -> bytes32:
    """
    @notice The public key that data keys for a node are sealed to.
    @param node_id The node.
    @return bytes32 The key, or zero when it has none.
    """
    return self._nodes[node_id].encryption_key


@view
@reentrant
@external
def owner_of(node_id: uint256) -> address:
    """
    @notice A node's cold key.
    @param node_id The node.
    @return address The owner, or zero when unknown.
    """
    return self._nodes[node_id].owner


@view
@reentrant
@external
def payouts(node_ids: DynArray[uint256, _MAX_LIST]) -> DynArray[address, _MAX_LIST]:
    """
    @notice Where the rewards of several nodes are credited, in the order asked.
    @param node_ids The nodes.
    @return DynArray The addresses; zero for an unknown id.
    """
    addresses: DynArray[address, _MAX_LIST] = []
    for node_id: uint256 in node_ids:
        addresses.append(self._nodes[node_id].payout)
    return addresses


@view
@reentrant
@external
def bonded(node_id: uint256) -> uint256:
    """
    @notice What can be slashed: stake and unbonding.
    @param node_id The node.
    @return uint256 The amount.
    """
    return self._nodes[node_id].stake + self._nodes[node_id].unbonding


@view
@reentrant
@external
def stake_at_risk(node_id: uint256, since: uint256, until: uint256) -> uint256:
    """
    @notice What was bonded at `since` already and can be slashed at least until `until`.
    @param node_id The node.
    @param since Later additions do not count (among the last 16).
    @param until Stake that may be withdrawn earlier does not count.
    @return uint256 The amount; 0 when the node is banned or was suspended beyond `since`.
    """
    unlock_at: uint256 = self._nodes[node_id].unlock_at
    if (
        self._nodes[node_id].banned
        or self._nodes[node_id].suspended_until > since
        or (unlock_at != 0 and unlock_at < until)
    ):
        return 0
    total: uint256 = self._nodes[node_id].stake + self._nodes[node_id].unbonding
    return total - min(total, self._added_since(node_id, since))


@view
@reentrant
@external
def is_eligible(node_id: uint256, role: uint256) -> bool:
    """
    @notice Whether a node may act in a role now.
    @param node_id The node.
    @param role One role bit.
    @return bool False for unknown nodes and roles too.
    """
    return self._is_eligible(node_id, role)


@view
@reentrant
@external
def role_count(role: uint256) -> uint256:
    """
    @notice How many nodes a role's list holds: not exiting, not banned, and approved where the role
            needs it, or, as a TRAINER, active, with a passed benchmark and the minimum stake, so
            that neither strangers nor idle registrations crowd the others out of a scan.
    @param role One role bit.
    @return uint256 The count.
    """
    return self._list_size[role]


@view
@reentrant
@external
def role_nodes(role: uint256, start: uint256, limit: uint256) -> DynArray[uint256, _MAX_LIST]:
    """
    @notice A page of a role's list; the order changes when nodes leave.
    @dev Reverts: "registry: limit too large".
    @param role One role bit.
    @param start The first place.
    @param limit How many at most, up to 128.
    @return DynArray The node ids; empty behind the end.
    """
    self._check_limit(limit)
    ids: DynArray[uint256, _MAX_LIST] = []
    size: uint256 = self._list_size[role]
    if start >= size:
        return ids
    for i: uint256 in range(min(limit, size - start), bound=_MAX_LIST):
        ids.append(self._list[role][start + i])
    return ids


@view
@reentrant
@external
def eligible_nodes(
    role: uint256, start: uint256, limit: uint256
) -> (DynArray[uint256, _MAX_LIST], DynArray[uint256, _MAX_LIST]):
    """
    @notice The eligible nodes among `limit` entries of a role's list from place `start` modulo its
            length, wrapping, each node at most once, with their weights.
    @dev Reverts: "registry: limit too large".
    @param role One role bit.
    @param start Any number; rounds move it so that long lists get their turns.
    @param limit How many entries to look at, up to 128.
    @return DynArray The node ids, and as many weights: benchmark scores for TRAINER, else stakes.
    """
    self._check_limit(limit)
    ids: DynArray[uint256, _MAX_LIST] = []
    weights: DynArray[uint256, _MAX_LIST] = []
    size: uint256 = self._list_size[role]
    for i: uint256 in range(min(limit, size), bound=_MAX_LIST):
        node_id: uint256 = self._list[role][(start % size + i) % size]
        if self._is_eligible(node_id, role):
            ids.append(node_id)
            if role == TRAINER:
                weights.append(self._nodes[node_id].benchmark_score)
            else:
                weights.append(self._nodes[node_id].stake)
    return ids, weights


@view
@reentrant
@external
def benchmark(node_id: uint256) -> INodeRegistry.Benchmark:
    """
    @notice The node's current or last attempt; seeds are empty until captured.
    @param node_id The node.
    @return INodeRegistry.Benchmark The attempt; all zero when there was none.
    """
    attempt: INodeRegistry.Benchmark = self._benchmarks[node_id]
    seed_key: bytes32 = self._seed_key(node_id)
    check_key: bytes32 = self._check_key(node_id)
    attempt.seed_block = randomness._target(seed_key)
    attempt.seed = randomness._seed(seed_key)
    attempt.check_block = randomness._target(check_key)
    attempt.check_seed = randomness._seed(check_key)
    return attempt


@view
@reentrant
@external
def verdict_digest(node_id: uint256, passed: bool) -> bytes32:
    """
    @notice What a verifier signs for the submitted attempt. Works as soon as the check seed can be
            captured, and gives the same digest afterwards.
    @dev Reverts: "registry: no benchmark submitted", "registry: check seed not ready".
    @param node_id The node.
    @param passed The verdict.
    @return bytes32 The EIP-712 digest.
    """
    self._check_submitted(node_id)
    check_seed: bytes32 = randomness._peek(self._check_key(node_id))
    self._require(check_seed != empty(bytes32), "registry: check seed not ready")
    return self._digest(node_id, check_seed, passed)


@view
@reentrant
@external
def parameters() -> INodeRegistry.Parameters:
    """
    @notice Minimum stakes, times, quorum and treasury.
    @return INodeRegistry.Parameters The parameters.
    """
    return self._parameters


@view
@reentrant
@external
def is_slasher(account: address) -> bool:
    """
    @notice Whether an account may slash and lock.
    @param account The account.
    @return bool True while listed.
    """
    return account in self._slashers


@view
@reentrant
@external
def bounty(account: address) -> uint256:
    """
    @notice What an account can take out with `claim_bounty`.
    @param account The account.
    @return uint256 The amount.
    """
    return self._bounties[account]


@view
@reentrant
@external
def total_stake() -> uint256:
    """
    @notice The sum of all stakes and unbonding amounts.
    @return uint256 The amount.
    """
    return self._total_stake


@view
@reentrant
@external
def total_bounties() -> uint256:
    """
    @notice The sum of all unclaimed bounties.
    @return uint256 The amount.
    """
    return self._total_bounties


# Checks


@internal
@pure
def _require(condition: bool, reason: String[40]):
    """
    @notice Reverts with `reason` unless the condition holds. One shared function, because every
            `assert` with its own reason costs 50 bytes more and the code size is limited.
    """
    assert condition, reason


@internal
@pure
def _check_address(account: address):
    self._require(account != empty(address), "registry: zero address")


@internal
@view
def _check_new_operator(operator: address):
    self._check_address(operator)
    self._require(self._node_of[operator] == 0, "registry: operator in use")


@internal
@pure
def _check_limit(limit: uint256):
    self._require(limit <= _MAX_LIST, "registry: limit too large")


@internal
@view
def _check_known(node_id: uint256):
    self._require(self._nodes[node_id].owner != empty(address), "registry: unknown node")


@internal
@view
def _check_owner_of(node_id: uint256):
    self._check_known(node_id)
    self._require(msg.sender == self._nodes[node_id].owner, "registry: not the owner")


@internal
@view
def _check_owner_or_operator(node_id: uint256):
    self._check_known(node_id)
    self._require(
        msg.sender == self._nodes[node_id].owner or msg.sender == self._nodes[node_id].operator,
        "registry: not the owner or operator",
    )


@internal
@view
def _check_open(node_id: uint256):
    # `withdraw` empties the operator, and nothing else does.
    self._require(self._nodes[node_id].operator != empty(address), "registry: closed")


@internal
@view
def _check_not_exiting(node_id: uint256):
    self._require(self._nodes[node_id].unlock_at == 0, "registry: exiting")


@internal
@view
def _check_staying(node_id: uint256):
    self._check_not_exiting(node_id)
    self._require(not self._nodes[node_id].banned, "registry: banned")


@internal
@view
def _check_slasher():
    self._require(msg.sender in self._slashers, "registry: not a slasher")


@internal
@view
def _check_roles(roles: uint256, stake: uint256):
    self._require(roles != 0 and roles & ~_ALL_ROLES == 0, "registry: bad roles")
    least: uint256 = max_value(uint256)
    for i: uint256 in range(3):
        role: uint256 = TRAINER << i
        if roles & role != 0:
            least = min(least, self._min_stake(role))
    self._require(stake >= least, "registry: stake too low")


# Stake


@internal
def _pull(amount: uint256):
    assert extcall _TOKEN.transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "registry: transfer failed"


@internal
def _push(to: address, amount: uint256):
    assert extcall _TOKEN.transfer(
        to, amount, default_return_value=True
    ), "registry: transfer failed"


@internal
def _take(node_id: uint256, bps: uint256, offence_time: uint256) -> uint256:
    """
    @notice Lowers the stake, then the unbonding part, by the slash, and returns it.
    """
    stake: uint256 = self._nodes[node_id].stake
    total: uint256 = stake + self._nodes[node_id].unbonding
    added: uint256 = self._added_since(node_id, offence_time)
    # Earlier slashes may have eaten into the additions.
    base: uint256 = total - min(total, added)
    amount: uint256 = (base * bps + _BPS - 1) // _BPS
    from_stake: uint256 = min(stake, amount)
    self._nodes[node_id].stake = stake - from_stake
    self._nodes[node_id].unbonding -= amount - from_stake
    self._total_stake -= amount
    return amount


@internal
@view
def _added_since(node_id: uint256, time: uint256) -> uint256:
    """
    @notice Sum of the retained additions later than `time`, newest first.
    """
    count: uint256 = self._addition_count[node_id]
    total: uint256 = 0
    for i: uint256 in range(min(count, _RING), bound=_RING):
        place: uint256 = (count - 1 - i) % _RING
        if self._additions[node_id][place].time <= time:
            break
        total += self._additions[node_id][place].amount
    return total


@internal
def _credit(account: address, amount: uint256):
    if amount != 0:
        self._bounties[account] += amount
        self._total_bounties += amount


@internal
@view
def _is_own_address(node_id: uint256, account: address) -> bool:
    return (
        account == self._nodes[node_id].owner
        or account == self._nodes[node_id].operator
        or account == self._nodes[node_id].payout
    )


@internal
@view
def _lock_count(node_id: uint256) -> uint256:
    """
    @notice The locks of the listed slashers; those of delisted ones do not count.
    """
    total: uint256 = 0
    for slasher: address in self._slashers:
        total += self._locks[node_id][slasher]
    return total


# Roles


@internal
@view
def _min_stake(role: uint256) -> uint256:
    if role == TRAINER:
        return self._parameters.trainer_stake
    if role == VERIFIER:
        return self._parameters.verifier_stake
    return self._parameters.aggregator_stake


@internal
@view
def _is_eligible(node_id: uint256, role: uint256) -> bool:
    # A place in a role's list means: requested, approved if needed, not exiting, not banned. A
    # trainer's stake is asked again: the minimum may have been raised since it got its place.
    if self._place[role][node_id] == 0:
        return False
    if role == TRAINER and self._nodes[node_id].benchmark_score == 0:
        return False
    return (
        self._nodes[node_id].active
        and self._nodes[node_id].stake >= self._min_stake(role)
        and block.timestamp >= self._nodes[node_id].suspended_until
    )


@internal
def _update_lists(node_id: uint256):
    """
    @notice Brings the node's places in the three lists in line with its record.
    """
    listed: uint256 = 0
    if self._nodes[node_id].unlock_at == 0 and not self._nodes[node_id].banned:
        listed = self._nodes[node_id].roles & self._nodes[node_id].approved_roles
        # A trainer has its place while it could be eligible: a round looks at so many places only,
        # and registering is open to all.
        if (
            self._nodes[node_id].roles & TRAINER != 0
            and self._nodes[node_id].active
            and self._nodes[node_id].benchmark_score != 0
            and self._nodes[node_id].stake >= self._parameters.trainer_stake
        ):
            listed |= TRAINER
    for i: uint256 in range(3):
        role: uint256 = TRAINER << i
        place: uint256 = self._place[role][node_id]
        if listed & role != 0 and place == 0:
            size: uint256 = self._list_size[role]
            self._list[role][size] = node_id
            self._place[role][node_id] = size + 1
            self._list_size[role] = size + 1
        elif listed & role == 0 and place != 0:
            # The last entry fills the gap.
            last: uint256 = self._list_size[role] - 1
            moved: uint256 = self._list[role][last]
            self._list[role][place - 1] = moved
            self._place[role][moved] = place
            self._list[role][last] = 0
            self._place[role][node_id] = 0
            self._list_size[role] = last


# Benchmark


@internal
@view
def _seed_key(node_id: uint256) -> bytes32:
    return keccak256(abi_encode(_SEED_DOMAIN, node_id, self._benchmarks[node_id].attempt))


@internal
@view
def _check_key(node_id: uint256) -> bytes32:
    return keccak256(abi_encode(_CHECK_DOMAIN, node_id, self._benchmarks[node_id].attempt))


@internal
@view
def _is_pending(node_id: uint256) -> bool:
    """
    @notice Whether the last attempt still excludes a new one.
    """
    if self._benchmarks[node_id].attempt == 0 or self._benchmarks[node_id].settled:
        return False
    deadline: uint256 = (self._benchmarks[node_id].requested_at + self._parameters.benchmark_window)
    return block.timestamp <= deadline


@internal
@view
def _check_submitted(node_id: uint256):
    self._require(self._benchmarks[node_id].submitted_at != 0, "registry: no benchmark submitted")


@internal
def _capture_now(key: bytes32) -> bytes32:
    """
    @notice The seed, captured if need be. Reverting undoes a re-arm: the capture functions keep it.
    """
    seed: bytes32 = randomness._capture(key)
    self._require(seed != empty(bytes32), "registry: seed expired")
    return seed


@internal
def _request_if_possible(node_id: uint256):
    """
    @notice Requests a benchmark on the node's behalf unless that is paused or one is pending.
    """
    if not pausing._is_paused(_PAUSE_BENCHMARK) and not self._is_pending(node_id):
        self._start_attempt(node_id)


@internal
def _start_attempt(node_id: uint256):
    attempt: uint256 = self._benchmarks[node_id].attempt + 1
    self._benchmarks[node_id] = empty(INodeRegistry.Benchmark)
    self._benchmarks[node_id].attempt = attempt
    self._benchmarks[node_id].requested_at = block.timestamp
    seed_block: uint256 = randomness._request(self._seed_key(node_id))
    log INodeRegistry.BenchmarkRequested(node_id=node_id, attempt=attempt, seed_block=seed_block)


@internal
@view
def _digest(node_id: uint256, check_seed: bytes32, passed: bool) -> bytes32:
    return eip712._hash_typed_data_v4(
        keccak256(
            abi_encode(
                _VERDICT_TYPE_HASH,
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
def _settle_benchmark(node_id: uint256, passed: bool):
    self._benchmarks[node_id].settled = True
    if passed:
        elapsed: uint256 = (
            self._benchmarks[node_id].submitted_at - self._benchmarks[node_id].requested_at
        )
        self._nodes[node_id].benchmark_score = (
            self._benchmarks[node_id].units * _SCORE_SCALE // max(elapsed, 1)
        )
        self._update_lists(node_id)
    log INodeRegistry.BenchmarkSettled(
        node_id=node_id,
        attempt=self._benchmarks[node_id].attempt,
        passed=passed,
        score=self._nodes[node_id].benchmark_score,
    )


# Settings


@internal
def _set_slasher(slasher: address, allowed: bool):
    self._check_address(slasher)
    self._require((slasher in self._slashers) != allowed, "registry: slasher unchanged")
    if allowed:
        self._require(len(self._slashers) < _MAX_SLASHERS, "registry: too many slashers")
        self._slashers.append(slasher)
    else:
        last: address = self._slashers.pop()
        if last != slasher:
            for i: uint256 in range(len(self._slashers), bound=_MAX_SLASHERS):
                if self._slashers[i] == slasher:
                    self._slashers[i] = last
                    break
    log INodeRegistry.SlasherChanged(slasher=slasher, allowed=allowed)


@internal
def _set_parameters(new: INodeRegistry.Parameters):
    self._require(
        new.unbonding_period != 0 and new.unbonding_period <= _MAX_UNBONDING,
        "registry: bad unbonding period",
    )
    self._require(
        min(new.trainer_stake, min(new.verifier_stake, new.aggregator_stake)) >= _ZOO,
        "registry: bad minimum stake",
    )
    self._require(
        new.benchmark_window != 0 and new.benchmark_window <= _MAX_WINDOW,
        "registry: bad benchmark window",
    )
    self._require(
        new.benchmark_quorum != 0 and new.benchmark_quorum <= _MAX_VERDICTS,
        "registry: bad quorum",
    )
    self._check_address(new.treasury)
    log INodeRegistry.ParametersChanged(old_parameters=self._parameters, new_parameters=new)
    self._parameters = new
