# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Executors
@custom:contract-name executors
@license AGPL-3.0-only
@notice Pools of nodes that take tasks, one pool per determinism class, and the draw from them.

        A pool is a row of seats. A draw takes the pool as it was one block before the one it is
        pinned to, which for the first draw is before its request: whoever sat down before that
        block and had not left before it. Both blocks stand in the seat, and stake counts as of the
        request, so nothing that is done once the seed may be known changes who is drawn: joining
        later, leaving later, exiting the registry, adding stake. What remains is that a node with
        its hands full (`MAX_OPEN`), slashed meanwhile, or with too much pay at risk is passed over.

        A node's pay is at risk while it may turn out to be for a fake. One stake answers for all
        of it, so a node is drawn only while its stake is `COVER` times its pay at risk: what it was
        paid in this window and the last one, each as long as an appeal may wait, and
        `APPEAL_WEIGHT` times what is appealed. Example: with 100 ZOO at stake a node is passed over
        once it was paid more than 50 ZOO that may still be appealed, or while more than 5 ZOO are.

        A draw picks seats by hashing until it has enough, so it costs the same in a pool of ten as
        in one of ten thousand, and each node of the pool is equally likely. Empty seats are taken
        again first, but only when no draw can mean their last holder any more; a node that left
        waits as long. So a pool never has more seats than it had nodes within that time. `compact`
        takes it back to as many as it has: a crowd that left would leave a pool without draws.

        Owners are told apart by address. One person with two owner keys counts as two.
@dev The importer guards nothing more; `_occupy` and `_release` are called once per lane each.
"""

from interfaces import IExecutors
from interfaces import INodeRegistry

# Open lanes of a node at most: what one stake answers for at a time, what one machine must run at
# once, and what one outage costs.
MAX_OPEN: constant(uint256) = 2
# Seats looked at in one draw.
MAX_TRIES: constant(uint256) = 64
MAX_CLASSES: constant(uint256) = 255
# Stake that a draw asks for, in multiples of the pay at risk.
COVER: constant(uint256) = 2
# How often appealed pay counts: of ten fakes a verifier runs about one again.
APPEAL_WEIGHT: constant(uint256) = 10
# Blocks that a draw can mean a seat's holder after it left: its request, and `blockhash`'s memory.
COOLDOWN: constant(uint256) = 260

# Seats that one `compact` looks at, and dead entries of the queue that one step passes, at most.
MAX_STEPS: constant(uint256) = 64
MAX_STALE: constant(uint256) = 16

_MASK_24: constant(uint256) = 2**24 - 1
_MASK_36: constant(uint256) = 2**36 - 1
# A seat: the owner's address, then these.
_SEAT_NODE: constant(uint256) = 160
_HOLDER: constant(uint256) = 2**184 - 1
_SEAT_JOINED: constant(uint256) = 184
_SEAT_LEFT: constant(uint256) = 220
# A member: open lanes (8 bits), then these. The seat is its place plus one.
_MEMBER_SEAT: constant(uint256) = 8
_MEMBER_CLASS: constant(uint256) = 40
_MEMBER_LEFT: constant(uint256) = 48
# Instead of a window, which is never 0: pay that is appealed.
_APPEALED: constant(uint256) = 0
# A pool: its seats (24 bits), then the ends of the queue of empty ones.
_POOL_HEAD: constant(uint256) = 24
_POOL_TAIL: constant(uint256) = 64
_MASK_40: constant(uint256) = 2**40 - 1

_REGISTRY: immutable(address)
_TASK_STAKE: immutable(uint256)
# Seconds that a node's stake must stay from the draw on.
_HORIZON: immutable(uint256)
# Seconds in which pay may be appealed.
_APPEAL_S: immutable(uint256)

_classes: DynArray[bytes32, MAX_CLASSES]
_pools: HashMap[uint256, uint256]
_seats: HashMap[uint256, HashMap[uint256, uint256]]
_empty_seats: HashMap[uint256, HashMap[uint256, uint256]]
_members: HashMap[uint256, uint256]
# What nodes were paid, by window of `_APPEAL_S` seconds and unless it is appealed no more.
_paid: HashMap[uint256, HashMap[uint256, uint256]]


@deploy
def __init__(registry: address, task_stake: uint256, horizon: uint256, appeal_s: uint256):
    """
    @notice Fixes what a seat needs.
    @dev Reverts: "executors: bad stake".
    @param registry The NodeRegistry.
    @param task_stake Stake at risk that a node needs.
    @param horizon Seconds that it must stay at risk from a draw on.
    @param appeal_s Seconds in which a node's pay may be appealed, not zero.
    """
    assert task_stake != 0, "executors: bad stake"
    _REGISTRY = registry
    _TASK_STAKE = task_stake
    _HORIZON = horizon
    _APPEAL_S = appeal_s


@external
def join(node_id: uint256, class_id: uint256):
    """
    @notice A node's owner or operator: takes a seat in the pool of a determinism class. From the
            next block on the node may be drawn, and then must run the task: silence is slashed.
    @dev Reverts: "executors: not the node's", "executors: unknown class", "executors: has a seat",
         "executors: just left", "executors: too little stake" (also when it exits or is
         suspended), "executors: node id too large".
    @param node_id The node.
    @param class_id The class whose bits the node computes.
    """
    self._check_own(node_id)
    assert class_id < len(self._classes), "executors: unknown class"
    assert node_id <= _MASK_24, "executors: node id too large"
    member: uint256 = self._members[node_id]
    assert member >> _MEMBER_SEAT & _MASK_24 == 0, "executors: has a seat"
    left: uint256 = member >> _MEMBER_LEFT
    assert left == 0 or block.number > left + COOLDOWN, "executors: just left"
    assert self._stays(node_id), "executors: too little stake"

    pool: uint256 = 0
    place: uint256 = 0
    pool, place = self._oldest_empty(class_id, self._pools[class_id])
    if place == pool & _MASK_24:
        pool += 1
    owner: address = staticcall INodeRegistry(_REGISTRY).owner_of(node_id)
    self._pools[class_id] = pool
    self._seats[class_id][place] = (
        convert(owner, uint256) | node_id << _SEAT_NODE | block.number << _SEAT_JOINED
    )
    self._members[node_id] = (
        member & 255 | (place + 1) << _MEMBER_SEAT | class_id << _MEMBER_CLASS
    )
    log IExecutors.ExecutorJoined(node_id=node_id, class_id=class_id, seat=place)


@external
def leave(node_id: uint256):
    """
    @notice A node's owner or operator: gives up the node's seat; do so before `begin_exit`. Draws
            requested up to this block may still take the node, and tasks it runs go on.
    @dev Reverts: "executors: not the node's", "executors: no seat".
    @param node_id The node.
    """
    self._check_own(node_id)
    self._vacate(node_id)


@external
def evict(node_id: uint256):
    """
    @notice Anyone: empties the seat of a node whose stake at risk is too little, that is suspended
            or banned, or that exits the registry: an exit alone gives up no seat, since nobody may
            dodge a draw by it. Draws requested up to this block may still take the node.
    @dev Reverts: "executors: no seat", "executors: enough stake".
    @param node_id The node.
    """
    assert not self._stays(node_id), "executors: enough stake"
    self._vacate(node_id)


@external
def compact(class_id: uint256) -> uint256:
    """
    @notice Anyone: shortens a pool that many have left, in which a draw would find too few: drops
            empty seats at its end, and moves the holders of the last ones to the oldest empty ones.
            Only seats that no draw can mean any more are dropped or taken. A holder that moves is
            meant by its old seat in draws requested up to this block, by the new one later.
    @param class_id The class.
    @return uint256 The seats that are left; the same as before when nothing could be done yet.
    """
    pool: uint256 = self._pools[class_id]
    end: uint256 = pool & _MASK_24
    for _: uint256 in range(MAX_STEPS):
        if end == 0:
            break
        end -= 1
        last: uint256 = self._seats[class_id][end]
        left: uint256 = last >> _SEAT_LEFT
        if left != 0:
            if end == (pool & _MASK_24) - 1 and block.number > left + COOLDOWN:
                pool -= 1
            continue
        rest: uint256 = 0
        place: uint256 = 0
        rest, place = self._oldest_empty(class_id, pool)
        if place > end:
            if place == rest & _MASK_24:
                # Dead entries that were passed stay passed, so that the next call gets further.
                pool = rest
            break
        node_id: uint256 = last >> _SEAT_NODE & _MASK_24
        self._seats[class_id][end] = last | block.number << _SEAT_LEFT
        self._seats[class_id][place] = last & _HOLDER | block.number << _SEAT_JOINED
        self._empty_seats[class_id][rest >> _POOL_TAIL] = end
        pool = rest + (1 << _POOL_TAIL)
        self._members[node_id] = (
            self._members[node_id] & 255 | (place + 1) << _MEMBER_SEAT | class_id << _MEMBER_CLASS
        )
        log IExecutors.ExecutorMoved(node_id=node_id, class_id=class_id, seat=place)
    self._pools[class_id] = pool
    return pool & _MASK_24


@view
@external
def classes() -> DynArray[bytes32, MAX_CLASSES]:
    """
    @notice The determinism classes; a class's id is its place.
    @return DynArray Their names, ASCII, padded with zeros.
    """
    return self._classes


@view
@external
def pool_size(class_id: uint256) -> uint256:
    """
    @notice The seats of a pool, empty ones too.
    @param class_id The class.
    @return uint256 How many.
    """
    return self._pools[class_id] & _MASK_24


@view
@external
def seat(class_id: uint256, place: uint256) -> (uint256, address, uint256, uint256):
    """
    @notice A seat of a pool.
    @param class_id The class.
    @param place Its place.
    @return Its holder or last holder, the holder's owner, and the blocks of joining and leaving
            (0 while it is held).
    """
    seat: uint256 = self._seats[class_id][place]
    return (
        seat >> _SEAT_NODE & _MASK_24,
        convert(seat & convert(max_value(uint160), uint256), address),
        seat >> _SEAT_JOINED & _MASK_36,
        seat >> _SEAT_LEFT,
    )


@view
@external
def executor(node_id: uint256) -> IExecutors.Executor:
    """
    @notice What the pools know of a node.
    @param node_id The node.
    @return IExecutors.Executor Whether it has a seat, its class and place, its open lanes and when
            it left the last, and its pay at risk.
    """
    member: uint256 = self._members[node_id]
    place: uint256 = member >> _MEMBER_SEAT & _MASK_24
    return IExecutors.Executor(
        seated=place != 0,
        class_id=member >> _MEMBER_CLASS & 255,
        seat=place - min(place, 1),
        open=member & 255,
        left=member >> _MEMBER_LEFT,
        at_risk=self._pay_at_risk(node_id),
    )


@internal
def _add_class(name: bytes32):
    """
    @notice Adds a determinism class.
    @dev Reverts: "executors: empty class", "executors: known class", "executors: too many classes".
    @param name ASCII, padded with zeros.
    """
    assert name != empty(bytes32), "executors: empty class"
    assert name not in self._classes, "executors: known class"
    assert len(self._classes) < MAX_CLASSES, "executors: too many classes"
    log IExecutors.ClassAdded(class_id=len(self._classes), name=name)
    self._classes.append(name)


@internal
@view
def _oldest_empty(class_id: uint256, pool: uint256) -> (uint256, uint256):
    """
    @notice The pool without the oldest seat in its queue of empty ones that may be taken, and that
            seat; the first place behind the pool's end when there is none.
    @dev `compact` leaves places in the queue that are behind the end now, or held again.
    """
    rest: uint256 = pool
    for _: uint256 in range(MAX_STALE):
        head: uint256 = rest >> _POOL_HEAD & _MASK_40
        if head == rest >> _POOL_TAIL:
            break
        place: uint256 = self._empty_seats[class_id][head]
        left: uint256 = self._seats[class_id][place] >> _SEAT_LEFT
        stale: bool = place >= rest & _MASK_24 or left == 0
        if not stale and block.number <= left + COOLDOWN:
            break
        rest += 1 << _POOL_HEAD
        if not stale:
            return rest, place
    return rest, rest & _MASK_24


@internal
@view
def _size(class_id: uint256) -> uint256:
    """
    @notice The seats of a pool.
    """
    return self._pools[class_id] & _MASK_24


@internal
@view
def _pick(
    class_id: uint256,
    size: uint256,
    requested: uint256,
    since: uint256,
    seed: bytes32,
    creator: address,
    wanted: uint256,
    taken: DynArray[address, 8],
) -> DynArray[uint256, 2]:
    """
    @notice The nodes that a seed draws.
    @param class_id The class.
    @param size The seats when the draw was requested.
    @param requested The block of the request.
    @param since The time of the request.
    @param seed The seed.
    @param creator Its own nodes are never drawn.
    @param wanted How many, 1 or 2.
    @param taken The owners who have a lane already.
    @return DynArray The node ids; fewer than wanted when MAX_TRIES seats had no more.
    """
    nodes: DynArray[uint256, 2] = []
    if size == 0:
        return nodes
    owners: DynArray[address, 8] = taken
    for attempt: uint256 in range(MAX_TRIES):
        place: uint256 = convert(keccak256(abi_encode(seed, attempt)), uint256) % size
        seat: uint256 = self._seats[class_id][place]
        left: uint256 = seat >> _SEAT_LEFT
        if seat >> _SEAT_JOINED & _MASK_36 >= requested or (left != 0 and left < requested):
            continue
        owner: address = convert(seat & convert(max_value(uint160), uint256), address)
        if owner == creator or owner in owners:
            continue
        node_id: uint256 = seat >> _SEAT_NODE & _MASK_24
        # Blocks may share a second: what was bonded in the request's may have come after the seed.
        enough: uint256 = max(_TASK_STAKE, COVER * self._pay_at_risk(node_id))
        if self._members[node_id] & 255 >= MAX_OPEN or not self._is_bonded(
            node_id, enough, since - 1, since + 2 * _HORIZON
        ):
            continue
        nodes.append(node_id)
        if len(nodes) == wanted:
            break
        owners.append(owner)
    return nodes


@internal
def _occupy(node_id: uint256):
    """
    @notice Counts an open lane of a node.
    """
    self._members[node_id] += 1


@internal
def _release(node_id: uint256):
    """
    @notice Closes an open lane of a node.
    """
    self._members[node_id] -= 1


@internal
def _count_pay(nodes: uint256[2], pay: uint256, window: uint256, more: bool):
    """
    @notice Counts what each node was paid in a window, or that it is at risk no more.
    @param window `_window`, or `_APPEALED`.
    """
    for node_id: uint256 in nodes:
        paid: uint256 = self._paid[node_id][window]
        self._paid[node_id][window] = paid + pay if more else paid - pay


@internal
@view
def _window() -> uint256:
    """
    @notice The window that pay counts in now.
    """
    return unsafe_div(block.timestamp, _APPEAL_S)


@internal
@view
def _pay_at_risk(node_id: uint256) -> uint256:
    """
    @notice What a node was paid in this window and in the one before, which covers all that may
            still be appealed, and ten times what is appealed.
    """
    window: uint256 = self._window()
    return (
        self._paid[node_id][window]
        + self._paid[node_id][window - 1]
        + self._paid[node_id][_APPEALED] * APPEAL_WEIGHT
    )


@internal
@view
def _is_bonded(node_id: uint256, enough: uint256, since: uint256, until: uint256) -> bool:
    """
    @notice Whether enough was bonded at `since`, and stays until `until`.
    """
    return staticcall INodeRegistry(_REGISTRY).stake_at_risk(node_id, since, until) >= enough


@internal
@view
def _stays(node_id: uint256) -> bool:
    """
    @notice Whether enough is bonded and the node is not on its way out of the registry.
    """
    return self._is_bonded(node_id, _TASK_STAKE, block.timestamp, max_value(uint256))


@internal
def _vacate(node_id: uint256):
    """
    @notice Empties a node's seat and queues it.
    """
    member: uint256 = self._members[node_id]
    place: uint256 = member >> _MEMBER_SEAT & _MASK_24
    assert place != 0, "executors: no seat"
    place -= 1
    class_id: uint256 = member >> _MEMBER_CLASS & 255
    pool: uint256 = self._pools[class_id]
    self._empty_seats[class_id][pool >> _POOL_TAIL] = place
    self._pools[class_id] = pool + (1 << _POOL_TAIL)
    self._seats[class_id][place] |= block.number << _SEAT_LEFT
    self._members[node_id] = member & 255 | block.number << _MEMBER_LEFT
    log IExecutors.ExecutorLeft(node_id=node_id, class_id=class_id, seat=place)


@internal
@view
def _check_own(node_id: uint256):
    """
    @notice Stops everybody but a node's owner and operator; an unknown or closed node has none.
    """
    assert (
        msg.sender == staticcall INodeRegistry(_REGISTRY).operator_of(node_id)
        or msg.sender == staticcall INodeRegistry(_REGISTRY).owner_of(node_id)
    ), "executors: not the node's"
