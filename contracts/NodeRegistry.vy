# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title NodeRegistry
@custom:contract-name NodeRegistry
@license AGPL-3.0-only
@notice Who takes part, with what stake, in which role, and with what score in its benchmark, which
        NodeBenchmarks verifies.

        Rules this contract holds:
        - It owns every staked token: balance >= total_stake + total_bounties, and equal unless
          somebody sends tokens here unasked.
        - Only a listed slasher lowers a node's stake; the stake leaves by `withdraw`, to the owner,
          after the unbonding period, and is slashable until then.
        - Only NodeBenchmarks changes a node's score. This contract calls nobody but the token.
        - One operator address serves one node, and only with its own signature: nobody can occupy
          another's. The owner key is cold (stake, settings); the operator key is hot (the agent
          holds it). Both may be the same address, which gives up that safety.
        - A node is eligible for a role when it asked for it, was approved where approval is needed
          (VERIFIER, AGGREGATOR), is active, not suspended, not banned, not exiting, not locked, has
          the role's minimum stake, and, as a TRAINER, has passed a benchmark.
        - A role's list holds the nodes that asked for the role, do not exit, are not banned and
          have no lock; as VERIFIER or AGGREGATOR only approved ones, as TRAINER only active ones
          with a passed benchmark and the minimum stake. Rounds look at so many places only, and
          registering is open to all: registrations that do no work take no place.
        - Who votes on work (`voters`) is fixed by what was bonded before the work existed. A
          verifier that rests, sleeps or is suspended stays in the denominator, an owner has one
          voice, and no voice weighs more than twice the minimum stake: so no timing, no addition,
          no loan of a block and no rich owner alone makes a majority.
        - Settlement is never blocked: `slash`, `lock` and `unlock` accept a node with nothing left.
@custom:kill The owner (the Coordinator) can pause `register_node` with `set_paused`, and delist
             every slasher. `begin_exit`, `withdraw` and `claim_bounty` have no switch: every owner
             can always leave with its stake.
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

initializes: pausing
initializes: penalties

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


# Roles, as bits.
TRAINER: constant(uint256) = 1
VERIFIER: constant(uint256) = 2
AGGREGATOR: constant(uint256) = 4
ALL_ROLES: constant(uint256) = 7

# Pause bits.
PAUSE_REGISTER_NODE: constant(uint256) = 1

STRIKES_TO_BAN: constant(uint256) = 3
BPS: constant(uint256) = 10_000

# One ZOO: the least addition (so the ring of additions is not flooded) and the least minimum stake.
ZOO: constant(uint256) = 10**18
RING: constant(uint256) = 16
MAX_SLASHERS: constant(uint256) = 8
MAX_LIST: constant(uint256) = 128
MAX_QUORUM: constant(uint256) = 16

# Voices in a vote at most, and the most that one weighs, in minimum stakes of a verifier.
MAX_VOICES: constant(uint256) = 32
VOICE_CAP: constant(uint256) = 2
# Unbonding periods that a benchmark's score is good for.
SCORE_PERIODS: constant(uint256) = 4
# A score, then when it was given.
_SCORED_AT: constant(uint256) = 128
_SCORE_MASK: constant(uint256) = 2**128 - 1
# The part of the unbonding period that stake must have been bonded before it votes.
MATURITY_PART: constant(uint256) = 1_000

CONSENT_TYPE_HASH: constant(bytes32) = keccak256(
    "OperatorConsent(address operator,address owner,uint256 nonce)"
)
# An operator's word: its node, then how many consents it has used.
_NONCE: constant(uint256) = 128
_NODE_MASK: constant(uint256) = 2**128 - 1

MAX_UNBONDING: constant(uint256) = 365 * 86_400
# Below 1e6 seconds, so that one unit within the window still scores at least 1.
MAX_WINDOW: constant(uint256) = 7 * 86_400

benchmarks: public(immutable(address))
_TOKEN: immutable(IERC20)


struct Addition:
    amount: uint256
    time: uint256


# The penalties hold `suspended_until` and `strikes`; these fields stay empty here.
_nodes: HashMap[uint256, INodeRegistry.Node]
_node_count: uint256
_operators: HashMap[address, uint256]

# Per role the enumerable nodes, and per role and node its place in that list plus one.
_list: HashMap[uint256, HashMap[uint256, uint256]]
_list_size: HashMap[uint256, uint256]
_place: HashMap[uint256, HashMap[uint256, uint256]]

# The last `RING` stake additions of a node, and how many there were.
_additions: HashMap[uint256, HashMap[uint256, Addition]]
_addition_count: HashMap[uint256, uint256]

_slashers: DynArray[address, 8]
_locks: HashMap[uint256, HashMap[address, uint256]]
# Which of 256 nodes have a lock, the first in the lowest bit: payments read it for many at once.
_locked: HashMap[uint256, uint256]

_bounties: HashMap[address, uint256]
_total_bounties: uint256
_total_stake: uint256
_parameters: INodeRegistry.Parameters


@deploy
def __init__(
    token_: address,
    benchmarks_: address,
    owner_: address,
    slashers_: DynArray[address, 8],
    parameters_: INodeRegistry.Parameters,
):
    """
    @notice Starts an empty registry with the default slashing table. The deployer keeps no right.
    @dev Reverts: "registry: zero address" and the reverts of `set_slasher` and `set_parameters`.
    @param token_ The ZOO token.
    @param benchmarks_ NodeBenchmarks, the only contract that sets scores.
    @param owner_ The Coordinator.
    @param slashers_ The contracts that may slash and lock.
    @param parameters_ Minimum stakes, times, quorum and treasury.
    """
    for account: address in [token_, benchmarks_, owner_]:
        self._check_address(account)
    ownable.__init__()
    ownable_2step.__init__()
    ownable._transfer_ownership(owner_)
    eip712.__init__("Menagerie NodeRegistry", "1")
    pausing.__init__()
    penalties.__init__()
    benchmarks = benchmarks_
    _TOKEN = IERC20(token_)
    for slasher: address in slashers_:
        self._set_slasher(slasher, True)
    self._set_parameters(parameters_)


# Nodes


@external
def register_node(
    operator: address,
    payout: address,
    roles: uint256,
    stake: uint256,
    encryption_key: bytes32,
    consent: Bytes[65],
) -> uint256:
    """
    @notice Anyone: registers a node owned by the caller and takes its stake (an allowance is
            needed). A TRAINER works once it has passed a benchmark, which its owner or operator
            requests from NodeBenchmarks. VERIFIER and AGGREGATOR wait for `approve_role`.
    @dev Reverts: "pausing: paused", "registry: zero address", "registry: operator in use",
         "registry: no consent", "registry: bad roles", "registry: stake too low", and snekmate's
         "ecdsa: ..." for malformed signatures.
    @param operator The hot key of the agent; unused so far.
    @param payout Where rewards are credited.
    @param roles Bits: TRAINER 1, VERIFIER 2, AGGREGATOR 4.
    @param stake At least the least minimum among the roles; each role needs its own to be eligible.
    @param encryption_key Public key for encrypted shards, or zero.
    @param consent The operator's signature of `consent_digest(operator, caller)`; empty when the
           caller is the operator.
    @return uint256 The new node's id: 1, 2, 3, ...
    """
    pausing._check_not_paused(PAUSE_REGISTER_NODE)
    node_id: uint256 = self._node_count + 1
    self._engage(operator, node_id, consent)
    self._check_address(payout)
    self._check_roles(roles, stake)

    self._node_count = node_id
    self._nodes[node_id].owner = msg.sender
    self._nodes[node_id].operator = operator
    self._nodes[node_id].payout = payout
    self._nodes[node_id].roles = roles
    self._nodes[node_id].stake = stake
    self._nodes[node_id].active = True
    self._nodes[node_id].registered_at = block.timestamp
    self._nodes[node_id].encryption_key = encryption_key
    self._total_stake += stake
    self._update_lists(node_id)
    log INodeRegistry.NodeRegistered(
        node_id=node_id,
        owner=msg.sender,
        operator=operator,
        payout=payout,
        roles=roles,
        stake=stake,
        encryption_key=encryption_key,
    )
    self._pull(stake)
    return node_id


@external
def add_stake(node_id: uint256, amount: uint256):
    """
    @notice A node's owner: adds stake (an allowance is needed). An addition is not at risk for
            offences before it. The last 16 are remembered; a 17th within an unbonding period is
            refused, so that no young addition is forgotten and taken for old stake.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: exiting",
         "registry: banned", "registry: addition too small", "registry: too many additions".
    @param node_id The node.
    @param amount At least one ZOO.
    """
    self._check_owner_of(node_id)
    self._check_staying(node_id)
    self._require(amount >= ZOO, "registry: addition too small")
    count: uint256 = self._addition_count[node_id]
    forgotten: uint256 = self._additions[node_id][count % RING].time
    self._require(
        forgotten == 0 or block.timestamp >= forgotten + self._parameters.unbonding_period,
        "registry: too many additions",
    )
    self._additions[node_id][count % RING] = Addition(amount=amount, time=block.timestamp)
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
    @notice A node's owner: ends the node's work for good. Its whole stake starts to unbond and
            stays slashable until it is withdrawn. Never paused; open to banned nodes.
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
    @notice A node's owner: takes out what is left after the unbonding period, closes the node and
            frees its operator address. Never paused.
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
    self._dismiss(self._nodes[node_id].operator)
    self._nodes[node_id].operator = empty(address)
    self._total_stake -= amount
    log INodeRegistry.StakeWithdrawn(node_id=node_id, owner=msg.sender, amount=amount)
    self._push(msg.sender, amount)


@external
def set_operator(node_id: uint256, operator: address, consent: Bytes[65]):
    """
    @notice A node's owner: replaces the hot key; the old address is free again.
    @dev Reverts: "registry: unknown node", "registry: not the owner", "registry: closed",
         "registry: zero address", "registry: operator in use", "registry: no consent", and
         snekmate's "ecdsa: ..." for malformed signatures.
    @param node_id The node.
    @param operator The new key; unused so far.
    @param consent The new operator's signature of `consent_digest(operator, caller)`; empty when
           the caller is the operator.
    """
    self._check_owner_of(node_id)
    self._check_open(node_id)
    old: address = self._nodes[node_id].operator
    self._engage(operator, node_id, consent)
    self._dismiss(old)
    self._nodes[node_id].operator = operator
    log INodeRegistry.OperatorChanged(node_id=node_id, old_operator=old, new_operator=operator)


@external
def set_payout(node_id: uint256, payout: address):
    """
    @notice A node's owner: replaces where later rewards are credited; works after the exit too.
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
    @notice A node's owner or operator: replaces the public key that data keys are sealed to. What
            is sealed already stays sealed to the old one.
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
    @notice A node's owner: replaces the roles. A dropped role loses its approval, so adding a gated
            role always waits for a fresh `approve_role`. A node that adds TRAINER keeps the score
            that it had before.
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


@external
def set_active(node_id: uint256, active: bool):
    """
    @notice A node's owner or operator: takes a rest from new rounds, or comes back. A resting
            TRAINER gives up its place in the list.
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


# NodeBenchmarks


@external
def set_score(node_id: uint256, score: uint256):
    """
    @notice NodeBenchmarks only: replaces the node's verified score, which decides over its place in
            the list of trainers and weighs it there, for four unbonding periods. NodeBenchmarks
            logs `BenchmarkSettled`, or `VerdictOverruled` for a score of 0. A node that exits or is
            banned meanwhile takes the score and no place.
    @dev Reverts: "registry: not benchmarks", "registry: unknown node".
    @param node_id The node.
    @param score Units per million seconds; 0 for none.
    """
    self._require(msg.sender == benchmarks, "registry: not benchmarks")
    self._check_known(node_id)
    self._nodes[node_id].benchmark_score = (block.timestamp << _SCORED_AT | min(score, _SCORE_MASK))
    self._update_lists(node_id)


# Listed slashers


@external
def slash(
    node_id: uint256, violation: uint256, offence_time: uint256, reporter: address
) -> uint256:
    """
    @notice Listed slashers: applies the row of `violation`. Takes ceil(base * bps / 10,000), where
            the base is the bonded amount (stake and unbonding) less what was added after the
            offence (additions older than an unbonding period may be forgotten). Takes from the
            stake first, then from the unbonding part. The third strike applies REPEATED instead. A
            node with nothing left is still recorded and never reverts.
    @dev Reverts: "registry: not a slasher", "registry: unknown node",
         "registry: offence in the future", "penalties: unknown violation".
    @param node_id The offender.
    @param violation The violation's id.
    @param offence_time When it happened, in seconds.
    @param reporter Who gets the reporter's share; nobody when empty or when it is the node's own
           owner or operator, unless it is the calling slasher. The payout does not count as its
           own: it may be set to anybody's address, which would deny a reporter its share. What is
           not the reporter's goes to the treasury.
    @return uint256 The amount taken.
    """
    self._check_slasher()
    self._check_known(node_id)
    self._require(offence_time <= block.timestamp, "registry: offence in the future")

    row: IPenalties.Penalty = penalties._record(node_id, violation)
    if row.strike and penalties._strike(node_id) >= STRIKES_TO_BAN:
        row = penalties._record(node_id, penalties.REPEATED)
    amount: uint256 = self._take(node_id, row.bps, offence_time)
    share: uint256 = 0
    # A slasher that reports for itself is nobody's own address, whatever a node calls it.
    if reporter == msg.sender or (
        reporter != empty(address) and not self._is_own_address(node_id, reporter)
    ):
        share = amount * row.reporter_bps // BPS
    self._credit(reporter, share)
    self._credit(self._parameters.treasury, amount - share)

    if row.suspension != 0:
        penalties._suspend(node_id, block.timestamp + row.suspension)
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
        suspended_until=penalties._suspended_until(node_id),
        strikes=penalties._strikes(node_id),
        banned=self._nodes[node_id].banned,
    )
    return amount


@external
def lock(node_id: uint256):
    """
    @notice Listed slashers: holds back the node's withdrawal and takes it off all role lists, so
            that it gets no new work while a finding against it is open.
    @dev Reverts: "registry: not a slasher", "registry: unknown node".
    @param node_id The node.
    """
    self._check_slasher()
    self._check_known(node_id)
    self._locks[node_id][msg.sender] += 1
    self._update_lists(node_id)
    log INodeRegistry.StakeLocked(node_id=node_id, locks=self._nodes[node_id].locks)


@external
def unlock(node_id: uint256):
    """
    @notice A slasher: releases one of its own locks. One slasher cannot release another's. With
            the last one the node is back on its lists, at their end. The locks of a slasher that
            the owner delisted stop counting at once, so none can hold stake forever; the lists
            follow with the next change of the node's record (`set_active` is enough).
    @dev Reverts: "registry: no lock".
    @param node_id The node.
    """
    count: uint256 = self._locks[node_id][msg.sender]
    self._require(count != 0, "registry: no lock")
    self._locks[node_id][msg.sender] = count - 1
    self._update_lists(node_id)
    log INodeRegistry.StakeUnlocked(node_id=node_id, locks=self._nodes[node_id].locks)


# Owner


@external
def approve_role(node_id: uint256, role: uint256, approved: bool):
    """
    @notice Owner only: admits a node to VERIFIER or AGGREGATOR, or revokes that.
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
    @notice Owner only: lists or delists a contract that may slash and lock, at most 8.
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
    @notice Owner only: replaces the parameters. Running exits keep their date. A new
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
    @notice Owner only: replaces a row of the slashing table.
    @dev Reverts: "ownable: caller is not the owner" and those of `penalties`.
    @param violation The violation's id, 1 to 16.
    @param penalty The new row.
    """
    ownable._check_owner()
    penalties._set_penalty(violation, penalty)


@external
def set_paused(bits: uint256):
    """
    @notice Owner only: replaces the pause bits, PAUSE_REGISTER_NODE = 1.
    @dev Reverts: "ownable: caller is not the owner", "pausing: unknown bit".
    @param bits The new bits.
    """
    ownable._check_owner()
    pausing._set_paused(bits, PAUSE_REGISTER_NODE)


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
    record.benchmark_score = self._score(node_id)
    record.suspended_until = penalties._suspended_until(node_id)
    record.strikes = penalties._strikes(node_id)
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
    return self._node_of(operator)


@view
@reentrant
@external
def consent_digest(operator: address, owner: address) -> bytes32:
    """
    @notice What an operator signs to serve a node of an owner: EIP-712
            OperatorConsent(address operator,address owner,uint256 nonce), where nonce is how often
            it has been engaged so far, so that a consent serves once.
    @param operator The hot key.
    @param owner The cold key that registers the node or changes its operator.
    @return bytes32 The digest.
    """
    return self._consent_digest(operator, owner)


@view
@reentrant
@external
def consents_used(operator: address) -> uint256:
    """
    @notice The nonce of an operator's next consent.
    @param operator The hot key.
    @return uint256 How often it has been engaged.
    """
    return self._operators[operator] >> _NONCE


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
def acting_operator(node_id: uint256) -> address:
    """
    @notice The key that votes for a node.
    @param node_id The node.
    @return address The operator, or zero when the node is banned or suspended, unknown or closed:
            who was convicted has no say, whatever a snapshot of before gives it.
    """
    if self._nodes[node_id].banned or block.timestamp < penalties._suspended_until(node_id):
        return empty(address)
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
def payouts(node_ids: DynArray[uint256, 128]) -> DynArray[address, 128]:
    """
    @notice Where the rewards of several nodes are credited, in the order asked.
    @param node_ids The nodes.
    @return DynArray The addresses; zero for an unknown id.
    """
    addresses: DynArray[address, 128] = []
    for node_id: uint256 in node_ids:
        addresses.append(self._nodes[node_id].payout)
    return addresses


@view
@reentrant
@external
def payees(node_ids: DynArray[uint256, 128]) -> (DynArray[address, 128], uint256):
    """
    @notice As `payouts`, and which of the nodes have a lock: their pay is held back meanwhile.
    @param node_ids The nodes.
    @return The addresses, zero for an unknown id; and one bit a node, the first the lowest.
    """
    addresses: DynArray[address, 128] = []
    locked: uint256 = 0
    at: uint256 = max_value(uint256)
    word: uint256 = 0
    for node_id: uint256 in node_ids:
        if node_id >> 8 != at:
            at = node_id >> 8
            word = self._locked[at]
        if word != 0 and word >> (node_id & 255) & 1 != 0:
            locked |= 1 << len(addresses)
        addresses.append(self._nodes[node_id].payout)
    return addresses, locked


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
    @param since Later additions do not count.
    @param until Stake that may be withdrawn earlier does not count.
    @return uint256 The amount; 0 when the node is banned, locked, or was suspended beyond `since`.
    """
    unlock_at: uint256 = self._nodes[node_id].unlock_at
    if (
        self._nodes[node_id].banned
        or self._nodes[node_id].locks != 0
        or penalties._suspended_until(node_id) > since
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
def score_until(node_id: uint256) -> uint256:
    """
    @notice When a trainer's score expires: four unbonding periods after it was given. Until then a
            new attempt may replace it.
    @param node_id The node.
    @return uint256 The time, or 0 when it never had one.
    """
    scored_at: uint256 = self._nodes[node_id].benchmark_score >> _SCORED_AT
    if scored_at == 0:
        return 0
    return scored_at + SCORE_PERIODS * self._parameters.unbonding_period


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
def role_nodes(role: uint256, start: uint256, limit: uint256) -> DynArray[uint256, 128]:
    """
    @notice A page of a role's list; the order changes when nodes leave.
    @dev Reverts: "registry: limit too large".
    @param role One role bit.
    @param start The first place.
    @param limit How many at most, up to 128.
    @return DynArray The node ids; empty behind the end.
    """
    self._check_limit(limit)
    ids: DynArray[uint256, 128] = []
    size: uint256 = self._list_size[role]
    if start >= size:
        return ids
    for i: uint256 in range(min(limit, size - start), bound=MAX_LIST):
        ids.append(self._list[role][start + i])
    return ids


@view
@reentrant
@external
def eligible_nodes(
    role: uint256, start: uint256, limit: uint256
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
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
    ids: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    size: uint256 = self._list_size[role]
    for i: uint256 in range(min(limit, size), bound=MAX_LIST):
        node_id: uint256 = self._list[role][(start % size + i) % size]
        if self._can_work(node_id, role):
            ids.append(node_id)
            if role == TRAINER:
                weights.append(self._score(node_id))
            else:
                weights.append(self._nodes[node_id].stake)
    return ids, weights


@view
@reentrant
@external
def voters(before: uint256) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    """
    @notice Who votes on work that did not exist before `before`, and with what weight. Every
            verifier of the list has its voice, also one that rests or is suspended: its silence
            counts against whoever asks. One voice per owner, of its first node in the list. A voice
            weighs what its node had bonded at `before`, at most twice the minimum stake; without
            the minimum there is none. At most 32 voices, the first of the list.
    @dev Callers ask for `block.timestamp - maturity()` or earlier.
    @param before Stake that was bonded later does not count.
    @return DynArray The node ids, and as many weights.
    """
    ids: DynArray[uint256, 128] = []
    weights: DynArray[uint256, 128] = []
    owners: DynArray[address, MAX_VOICES] = []
    least: uint256 = self._parameters.verifier_stake
    for i: uint256 in range(min(self._list_size[VERIFIER], MAX_LIST), bound=MAX_LIST):
        node_id: uint256 = self._list[VERIFIER][i]
        if self._nodes[node_id].registered_at > before:
            continue
        stake: uint256 = self._nodes[node_id].stake
        # Earlier slashes may have eaten into the additions.
        stake -= min(stake, self._added_since(node_id, before))
        owner: address = self._nodes[node_id].owner
        if stake < least or owner in owners:
            continue
        ids.append(node_id)
        weights.append(min(stake, VOICE_CAP * least))
        owners.append(owner)
        if len(owners) == MAX_VOICES:
            break
    return ids, weights


@view
@reentrant
@external
def maturity() -> uint256:
    """
    @notice How long stake must have been bonded before a work exists to vote on it.
    @return uint256 A thousandth of the unbonding period (20 minutes of 14 days), in seconds, and a
            second at least.
    """
    return max(self._parameters.unbonding_period // MATURITY_PART, 1)


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
@pure
def _check_address(account: address):
    self._require(account != empty(address), "registry: zero address")


@internal
@pure
def _check_limit(limit: uint256):
    self._require(limit <= MAX_LIST, "registry: limit too large")


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
    self._require(roles != 0 and roles & ~ALL_ROLES == 0, "registry: bad roles")
    least: uint256 = max_value(uint256)
    for i: uint256 in range(3):
        role: uint256 = TRAINER << i
        if roles & role != 0:
            least = min(least, self._min_stake(role))
    self._require(stake >= least, "registry: stake too low")


# Internal: operators


@internal
@view
def _node_of(operator: address) -> uint256:
    return self._operators[operator] & _NODE_MASK


@internal
@view
def _consent_digest(operator: address, owner: address) -> bytes32:
    return eip712._hash_typed_data_v4(
        keccak256(
            abi_encode(CONSENT_TYPE_HASH, operator, owner, self._operators[operator] >> _NONCE)
        )
    )


@internal
def _engage(operator: address, node_id: uint256, consent: Bytes[65]):
    """
    @notice Lets an operator that is free and agrees serve a node of the caller.
    """
    self._check_address(operator)
    self._require(self._node_of(operator) == 0, "registry: operator in use")
    if operator != msg.sender:
        signer: address = ecdsa._recover_sig(self._consent_digest(operator, msg.sender), consent)
        self._require(signer == operator, "registry: no consent")
    nonce: uint256 = (self._operators[operator] >> _NONCE) + 1
    self._operators[operator] = nonce << _NONCE | node_id


@internal
def _dismiss(operator: address):
    """
    @notice Frees an operator. Its consents so far stay used.
    """
    self._operators[operator] &= ~_NODE_MASK


# Internal: stake


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
    amount: uint256 = (base * bps + BPS - 1) // BPS
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
    for i: uint256 in range(min(count, RING), bound=RING):
        place: uint256 = (count - 1 - i) % RING
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
    return account == self._nodes[node_id].owner or account == self._nodes[node_id].operator


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


# Internal: roles


@internal
@view
def _score(node_id: uint256) -> uint256:
    """
    @notice The node's score, 0 once it has expired.
    """
    word: uint256 = self._nodes[node_id].benchmark_score
    until: uint256 = (word >> _SCORED_AT) + SCORE_PERIODS * self._parameters.unbonding_period
    return word & _SCORE_MASK if block.timestamp < until else 0


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
    return self._place[role][node_id] != 0 and self._can_work(node_id, role)


@internal
@view
def _can_work(node_id: uint256, role: uint256) -> bool:
    """
    @notice Whether a node that has a place in the role's list is eligible now. A place means:
            requested, approved if needed, not exiting, not banned, not locked. A trainer's stake is
            asked again: the minimum may have been raised since it got its place.
    """
    if role == TRAINER and self._score(node_id) == 0:
        return False
    return (
        self._nodes[node_id].active
        and self._nodes[node_id].stake >= self._min_stake(role)
        and block.timestamp >= penalties._suspended_until(node_id)
    )


@internal
def _update_lists(node_id: uint256):
    """
    @notice Brings the node's places in the three lists in line with its record, and its number of
            locks in line with the listed slashers.
    """
    locks: uint256 = self._lock_count(node_id)
    before: uint256 = self._nodes[node_id].locks
    if locks != before:
        self._nodes[node_id].locks = locks
        if locks == 0 or before == 0:
            self._locked[node_id >> 8] ^= 1 << (node_id & 255)
    listed: uint256 = 0
    if locks == 0 and self._nodes[node_id].unlock_at == 0 and not self._nodes[node_id].banned:
        listed = self._nodes[node_id].roles & self._nodes[node_id].approved_roles
        # A trainer has its place while it could be eligible: a round looks at so many places only,
        # and registering is open to all.
        if (
            self._nodes[node_id].roles & TRAINER != 0
            and self._nodes[node_id].active
            and self._score(node_id) != 0
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


# Internal: settings


@internal
def _set_slasher(slasher: address, allowed: bool):
    self._check_address(slasher)
    self._require((slasher in self._slashers) != allowed, "registry: slasher unchanged")
    if allowed:
        self._require(len(self._slashers) < MAX_SLASHERS, "registry: too many slashers")
        self._slashers.append(slasher)
    else:
        last: address = self._slashers.pop()
        if last != slasher:
            for i: uint256 in range(len(self._slashers), bound=MAX_SLASHERS):
                if self._slashers[i] == slasher:
                    self._slashers[i] = last
                    break
    log INodeRegistry.SlasherChanged(slasher=slasher, allowed=allowed)


@internal
def _set_parameters(new: INodeRegistry.Parameters):
    self._require(
        new.unbonding_period != 0 and new.unbonding_period <= MAX_UNBONDING,
        "registry: bad unbonding period",
    )
    self._require(
        min(new.trainer_stake, min(new.verifier_stake, new.aggregator_stake)) >= ZOO,
        "registry: bad minimum stake",
    )
    self._require(
        new.benchmark_window != 0 and new.benchmark_window <= MAX_WINDOW,
        "registry: bad benchmark window",
    )
    self._require(
        new.benchmark_quorum != 0 and new.benchmark_quorum <= MAX_QUORUM,
        "registry: bad quorum",
    )
    self._check_address(new.treasury)
    log INodeRegistry.ParametersChanged(old_parameters=self._parameters, new_parameters=new)
    self._parameters = new
