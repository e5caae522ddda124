# SPDX-License-Identifier: Apache-2.0
"""A second, plain statement of the rules of RedundantTasks and TaskAppeals, over `registry_model`.

Nothing is packed or counted twice: what a contract owes, and how many lanes a node answers for, are
sums over the tasks. Every method checks first and changes afterwards, so a refusal leaves the model
as it was; `at` sets the time before each. Draws are computed from the block hash."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from eth_abi import encode
from eth_utils import keccak

from tests.contracts.stateful.machine import need
from tests.contracts.stateful.registry_model import EMPTY, ZERO, RegistryModel
from tests.stage.contracts.clock import hash_of
from tests.stage.contracts.tasks import (
    ABORT,
    AGREED,
    APPEAL_WEIGHT,
    APPEALED,
    CLOSED,
    COLLUSION,
    COMMIT_DOMAIN,
    COOLDOWN,
    COVER,
    DECIDED,
    DRAWING,
    LANE_ABORTED,
    LANE_AGREED,
    LANE_COMMITTED,
    LANE_OPENED,
    LANE_REVEALED,
    LANE_RUNNING,
    LIFETIME,
    MAX_LANES,
    MAX_OPEN,
    NONE,
    REDUNDANCY_MISMATCH,
    REVEALING,
    RUNNING,
    TAG_DOMAIN,
    UNDECIDED,
    lot,
)

MIN_VOICES = 2
TASKS, APPEALS = "tasks", "appeals"  # the two contracts that owe money
FALSE_REPORT = 6
MIN_POOL, MAX_REVEALS = 3, 3
CREATE_BIT = 1
MIN_RUN_S = 60
FOREVER = 2**256 - 1
UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")


@dataclass
class Seat:
    node: int
    owner: str
    joined: int  # block
    left: int = 0  # block; 0 while it is held


@dataclass
class Pool:
    seats: list[Seat] = field(default_factory=list)
    # Places that were left, the earliest first; some may be held again or dropped by now.
    queue: list[int] = field(default_factory=list)


@dataclass
class Lane:
    node: int
    state: int = LANE_RUNNING
    answer: bytes = EMPTY


@dataclass
class Task:
    creator: str
    class_id: int
    spec: bytes
    fee: int
    run_s: int
    created_at: int = 0
    status: int = DRAWING
    time: int = 0
    seed_block: int = 0
    seats: int = 0  # of the pool when the draw was requested
    agreed_at: int = 0  # when two were paid at once
    lanes: list[Lane] = field(default_factory=list)

    def count(self, *states: int) -> int:
        return sum(lane.state in states for lane in self.lanes)

    def lane(self, place: int, state: int) -> Lane:
        """The lane at a place, which must be in a state."""
        ready = place < len(self.lanes) and self.lanes[place].state == state
        need(ready, "tasks: not expected")
        return self.lanes[place]

    @property
    def wanted(self) -> int:
        """Executors that are missing: two are compared, and three where two differed."""
        alive = self.count(LANE_RUNNING, LANE_COMMITTED, LANE_REVEALED)
        needed = 2 if self.count(LANE_REVEALED) < 2 else MAX_REVEALS
        return max(needed - alive, 0)


@dataclass
class Appeal:
    appellant: str
    status: int  # of the task before
    decided_at: int
    deadline: int
    verifiers: list[int]
    weights: list[int]
    result: bytes = EMPTY
    overturned: bool = False
    votes: dict[int, bytes] = field(default_factory=dict)  # by place, in order
    objector: str = ZERO

    def weight(self, result: bytes) -> int:
        return sum(self.weights[place] for place, vote in self.votes.items() if vote == result)

    def voters(self, result: bytes) -> list[int]:
        return [self.verifiers[place] for place, vote in self.votes.items() if vote == result]


@dataclass
class TasksModel:
    """Both contracts. `addresses` are theirs by name."""

    registry: RegistryModel
    terms: dict[str, int]
    classes: list[bytes]
    addresses: dict[str, str]
    chain_id: int
    pools: dict[int, Pool] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)  # by node without a seat that had one
    tasks: dict[int, Task] = field(default_factory=dict)
    appeals: dict[int, Appeal] = field(default_factory=dict)
    credits: dict[str, Counter[str]] = field(
        default_factory=lambda: {TASKS: Counter(), APPEALS: Counter()}
    )
    paused: int = 0

    def at(self, now: int, block: int) -> None:
        self.registry.now, self.registry.block = now, block

    @property
    def now(self) -> int:
        return self.registry.now

    @property
    def block(self) -> int:
        return self.registry.block

    @property
    def horizon(self) -> int:
        """Seconds from a draw to the end of everything that may follow from it."""
        t = self.terms
        last = t["max_run_s"] + t["reveal_s"]
        return t["draw_s"] + last + 2 * t["appeal_s"] + t["verdict_s"] + t["dispute_s"]

    # Definitions

    def tag(self, task_id: int, result: bytes) -> bytes:
        types = ["bytes32", "uint256", "address", "uint256", "bytes32"]
        values = [TAG_DOMAIN, self.chain_id, self.addresses[TASKS], task_id, result]
        return keccak(encode(types, values))

    def digest(self, task_id: int, node: int, sender: str, tag: bytes, salt: bytes) -> bytes:
        """The commitment."""
        spec = self.tasks[task_id].spec
        types = ["bytes32", "uint256", "address", "uint256", "uint256", "address"]
        values = [COMMIT_DOMAIN, self.chain_id, self.addresses[TASKS], task_id, node, sender]
        return keccak(encode([*types, *["bytes32"] * 3], [*values, spec, tag, salt]))

    # What can be read

    def task(self, task_id: int) -> Task:
        return self.tasks.get(task_id) or Task(ZERO, 0, EMPTY, 0, 0, status=NONE)

    def is_over(self, task_id: int) -> bool:
        """Whether nobody runs the task any more and its fee is paid out."""
        t = self.tasks[task_id]
        if t.status == APPEALED:
            return self.appeals[task_id].status != DECIDED
        return t.status in (AGREED, UNDECIDED, CLOSED)

    def open_lanes(self, node: int) -> int:
        return sum(
            lane.node == node and lane.state != LANE_ABORTED
            for task_id, t in self.tasks.items()
            if not self.is_over(task_id)
            for lane in t.lanes
        )

    def at_risk(self, node: int) -> int:
        """What a node was paid at once: in the appeal window's two latest periods, and as long as
        it is appealed ten times more."""
        total, period = 0, self.terms["appeal_s"]
        for t in self.tasks.values():
            paid = (LANE_AGREED, LANE_OPENED)
            if t.agreed_at and any(x.node == node and x.state in paid for x in t.lanes):
                late = self.now // period - t.agreed_at // period <= 1
                total += t.fee // 2 * (late + APPEAL_WEIGHT * (t.status == APPEALED))
        return total

    def held(self, contract: str) -> int:
        """What a contract owes: credits, and fees or bonds that are nobody's yet."""
        if contract == TASKS:
            waiting = sum(t.fee for i, t in self.tasks.items() if not self.is_over(i))
        else:
            bond = self.terms["appeal_bond"]
            open_ones = [appeal for appeal in self.appeals.values() if appeal.deadline]
            waiting = sum(bond * (1 + (appeal.objector != ZERO)) for appeal in open_ones)
        return waiting + sum(self.credits[contract].values())

    def pool(self, class_id: int) -> Pool:
        return self.pools.setdefault(class_id, Pool())

    def place(self, node: int) -> tuple[int, int] | None:
        """The class and the place of a node's seat."""
        for class_id, pool in self.pools.items():
            for place, seat in enumerate(pool.seats):
                if seat.node == node and not seat.left:
                    return class_id, place
        return None

    def is_bonded(self, node: int, since: int, until: int, cover: int = 0) -> bool:
        enough = max(self.terms["task_stake"], cover)
        return self.registry.stake_at_risk(node, since, until) >= enough

    def stays(self, node: int) -> bool:
        """Whether a node has enough at risk and is not on its way out."""
        return self.is_bonded(node, self.now, FOREVER)

    def result_of(self, task_id: int) -> bytes:
        shown = [x.answer for x in self.task(task_id).lanes if x.state == LANE_OPENED]
        return shown[0] if shown else EMPTY

    def expected(self, task_id: int) -> list[int]:
        t = self.task(task_id)
        if t.status != DRAWING or self.block <= t.seed_block or self.now > self.draw_until(t):
            return []
        return self._drawn(task_id)

    def draw_until(self, t: Task) -> int:
        """When a task that still draws ends; its age is told modulo 2**16 steps of 8 seconds."""
        steps = t.time // 8
        return (steps - (steps - t.created_at // 8) % 2**16) * 8 + self.terms["draw_s"]

    def _capture(self, task_id: int) -> list[int]:
        """Who is drawn by a call now; nobody when the seed is lost or the time is over."""
        t = self.tasks[task_id]
        late = self.now > self.draw_until(t)
        need(late or self.block > t.seed_block, "tasks: too early")
        nodes = [] if late else self._drawn(task_id)
        lost = self.block > t.seed_block + LIFETIME
        need(late or lost or bool(nodes), "tasks: hands full")
        return nodes

    def _drawn(self, task_id: int) -> list[int]:
        """Who is drawn, once the seed is known; nobody when it is lost or finds too few."""
        t = self.tasks[task_id]
        if self.block > t.seed_block + LIFETIME:
            return []
        value = [hash_of(t.seed_block), task_id, self.chain_id, self.addresses[TASKS]]
        seed = keccak(encode(["bytes32", "uint256", "uint256", "address"], value))
        requested, until = t.seed_block - 1, t.time + 2 * self.horizon
        seats = [
            (seat.node, seat.owner)
            if seat.joined < requested
            and (not seat.left or seat.left >= requested)
            and self.open_lanes(seat.node) < MAX_OPEN
            and self.is_bonded(seat.node, t.time - 1, until, COVER * self.at_risk(seat.node))
            else None
            for seat in self.pool(t.class_id).seats[: t.seats]
        ]
        barred = {t.creator} | {self._owner(lane.node) for lane in t.lanes}
        nodes: list[int] = lot(seed, seats, barred, t.wanted)
        return nodes if len(nodes) == t.wanted else []

    # Pools

    def add_class(self, sender: str, name: bytes) -> None:
        need(sender == self.registry.coordinator, "ownable: caller is not the owner")
        need(name != EMPTY, "executors: empty class")
        need(name not in self.classes, "executors: known class")
        self.classes.append(name)

    def set_paused(self, sender: str, bits: int) -> None:
        need(sender == self.registry.coordinator, "ownable: caller is not the owner")
        need(bits <= CREATE_BIT, "pausing: unknown bit")
        self.paused = bits

    def join(self, sender: str, node: int, class_id: int) -> None:
        self._need_own(sender, node)
        need(class_id < len(self.classes), "executors: unknown class")
        need(self.place(node) is None, "executors: has a seat")
        need(self._is_cool(self.left.get(node, 0)), "executors: just left")
        need(self.stays(node), "executors: too little stake")
        pool, seat = self.pool(class_id), Seat(node, self._owner(node), self.block)
        place, pool.queue = self._oldest_empty(pool)
        if place is None:
            pool.seats.append(seat)
        else:
            pool.seats[place] = seat
        self.left.pop(node, None)

    def leave(self, sender: str, node: int) -> None:
        self._need_own(sender, node)
        self._vacate(node)

    def evict(self, _sender: str, node: int) -> None:
        need(not self.stays(node), "executors: enough stake")
        self._vacate(node)

    def _vacate(self, node: int) -> None:
        at = self.place(node)
        need(at is not None, "executors: no seat")
        assert at is not None
        pool = self.pool(at[0])
        pool.seats[at[1]].left = self.left[node] = self.block
        pool.queue.append(at[1])

    def compact(self, _sender: str, class_id: int) -> int:
        pool = self.pool(class_id)
        for end in reversed(range(len(pool.seats))):
            last = pool.seats[end]
            if last.left:
                if end == len(pool.seats) - 1 and self._is_cool(last.left):
                    pool.seats.pop()
                continue
            place, queue = self._oldest_empty(pool)
            if place is None:
                pool.queue = queue
            if place is None or place > end:
                break
            pool.seats[place] = Seat(last.node, last.owner, self.block)
            last.left, pool.queue = self.block, [*queue, end]
        return len(pool.seats)

    def _oldest_empty(self, pool: Pool) -> tuple[int | None, list[int]]:
        """The place that is taken next, if one may be taken, and the queue from then on."""
        queue = list(pool.queue)
        while queue and (queue[0] >= len(pool.seats) or not pool.seats[queue[0]].left):
            queue.pop(0)
        if not queue or not self._is_cool(pool.seats[queue[0]].left):
            return None, queue
        return queue[0], queue[1:]

    def _is_cool(self, left: int) -> bool:
        """Whether no draw can mean any more who left at a block."""
        return not left or self.block > left + COOLDOWN

    # Tasks

    def create_task(self, sender: str, class_id: int, spec: bytes, fee: int, run_s: int) -> int:
        need(not self.paused & CREATE_BIT, "pausing: paused")
        need(spec != EMPTY, "tasks: empty spec")
        need(MIN_RUN_S <= run_s <= self.terms["max_run_s"], "tasks: bad run time")
        least = max(run_s * self.terms["fee_per_s"], 1)
        need(least <= fee <= self.terms["max_fee"], "tasks: bad fee")
        need(self.registry.node_of(sender) == 0, "tasks: operator")
        need(len(self.pool(class_id).seats) >= MIN_POOL, "tasks: too few executors")
        task_id = len(self.tasks) + 1
        self.tasks[task_id] = Task(sender, class_id, spec, fee, run_s, self.now)
        self._request(task_id)
        self.registry.wallets[sender] -= fee
        return task_id

    def draw(self, _sender: str, task_id: int) -> None:
        t = self.task(task_id)
        need(t.status == DRAWING, "tasks: not drawing")
        nodes = self._capture(task_id)
        if nodes:
            self._run(task_id, nodes)
        elif self.now <= self.draw_until(t):
            self._request(task_id)
        else:
            self._give_up(task_id)

    def commit(self, sender: str, task_id: int, place: int, commitment: bytes) -> None:
        t = self.task(task_id)
        drawn: list[int] = []
        if t.status == DRAWING:
            drawn = self._capture(task_id)
        need(t.status == RUNNING or bool(drawn), "tasks: not running")
        need(t.status == DRAWING or self.now <= t.time, "tasks: too late")
        lanes = [*t.lanes, *map(Lane, drawn)]
        ready = place < len(lanes) and lanes[place].state == LANE_RUNNING
        need(ready, "tasks: not expected")
        node = lanes[place].node
        need(sender == self.registry.nodes[node].operator, "tasks: not operator")
        need(commitment != EMPTY, "tasks: empty commitment")
        if drawn:
            self._run(task_id, drawn)
        lane = t.lane(place, LANE_RUNNING)
        lane.state, lane.answer = LANE_COMMITTED, commitment
        if not t.count(LANE_RUNNING):
            self._proceed(task_id)

    def reveal(
        self, sender: str, task_id: int, place: int, tag: bytes, result: bytes, salt: bytes
    ) -> None:
        t = self.task(task_id)
        need(t.status == REVEALING, "tasks: not revealing")
        need(self.now <= t.time, "tasks: too late")
        lane = t.lane(place, LANE_COMMITTED)
        opening = self.digest(task_id, lane.node, sender, tag, salt)
        need(opening == lane.answer, "tasks: bad opening")
        same = [x for x in t.lanes if x.state == LANE_REVEALED and x.answer == tag]
        if same:
            need(self.tag(task_id, result) == tag, "tasks: show the result")
            same[0].state, lane.state, lane.answer = LANE_AGREED, LANE_OPENED, result
            if result == UNAVAILABLE:
                rent = t.run_s * self.terms["fee_per_s"]
                self.credits[TASKS][t.creator] += t.fee - rent
                self.credits[TASKS][self.registry.settings.treasury] += rent
                self._close(t)
                return
            t.status = DECIDED if t.count(LANE_REVEALED) else AGREED
            t.time = self.now + self.terms["appeal_s"]
            if t.status == AGREED:
                t.agreed_at = self.now
                self._pay(t)
            return
        lane.state, lane.answer = LANE_REVEALED, tag
        if not t.count(LANE_COMMITTED):
            self._proceed(task_id)

    def advance(self, _sender: str, task_id: int) -> None:
        t = self.task(task_id)
        need(t.status in (RUNNING, REVEALING), "tasks: not running")
        need(self.now > t.time, "tasks: not over")
        deadline = t.time
        missing = LANE_RUNNING if t.status == RUNNING else LANE_COMMITTED
        late = [lane for lane in t.lanes if lane.state == missing]
        for lane in late:
            lane.state = LANE_ABORTED
        self._proceed(task_id)
        for lane in late:
            self._slash(TASKS, lane.node, ABORT, deadline, ZERO)

    def finalize(self, _sender: str, task_id: int) -> None:
        t = self.task(task_id)
        need(t.status == DECIDED, "tasks: not decided")
        need(self.now > t.time, "tasks: appeal window open")
        decided_at = t.time - self.terms["appeal_s"]
        self._close(t)
        self._pay(t)
        for lane in t.lanes:
            if lane.state == LANE_REVEALED:
                self._slash(TASKS, lane.node, REDUNDANCY_MISMATCH, decided_at, ZERO)

    def _request(self, task_id: int) -> None:
        """A draw pinned to the next block."""
        t = self.tasks[task_id]
        t.status, t.time, t.seed_block = DRAWING, self.now, self.block + 1
        t.seats = len(self.pool(t.class_id).seats)

    def _run(self, task_id: int, nodes: list[int]) -> None:
        t = self.tasks[task_id]
        t.status, t.time = RUNNING, self.now + t.run_s
        t.lanes += map(Lane, nodes)

    def _proceed(self, task_id: int) -> None:
        """Nobody is waited for any more, and there are no two equal results."""
        t = self.tasks[task_id]
        if t.wanted and len(t.lanes) + t.wanted <= MAX_LANES:
            self._request(task_id)
        elif not t.wanted and t.count(LANE_COMMITTED):
            t.status, t.time = REVEALING, self.now + self.terms["reveal_s"]
        else:
            self._give_up(task_id)

    def _give_up(self, task_id: int) -> None:
        t = self.tasks[task_id]
        self.credits[TASKS][t.creator] += t.fee
        t.status, t.time = UNDECIDED, self.now + self.terms["appeal_s"]

    def _pay(self, t: Task) -> None:
        """The two who agreed; who showed the result has the odd unit."""
        for lane in t.lanes:
            if lane.state == LANE_AGREED:
                self.credits[TASKS][self._payout(lane.node)] += t.fee // 2
            if lane.state == LANE_OPENED:
                self.credits[TASKS][self._payout(lane.node)] += t.fee - t.fee // 2

    @staticmethod
    def _close(t: Task) -> None:
        t.status, t.time = CLOSED, 0

    # Appeals

    def appeal(self, sender: str, task_id: int) -> None:
        t = self.task(task_id)
        outcome = t.status in (AGREED, DECIDED) or (
            t.status == UNDECIDED and t.count(LANE_REVEALED) > 0
        )
        need(outcome, "tasks: nothing to appeal")
        need(self.now <= t.time, "tasks: too late")
        born = t.created_at // 8 * 8
        verifiers, weights = self.registry.voters(born - self.registry.maturity())
        need(len(verifiers) >= MIN_VOICES, "verdicts: too few verifiers")
        until = self.now + self.terms["verdict_s"]
        decided_at = t.time - self.terms["appeal_s"]
        self.appeals[task_id] = Appeal(sender, t.status, decided_at, until, verifiers, weights)
        t.status, t.time = APPEALED, until
        self.registry.wallets[sender] -= self.terms["appeal_bond"]

    def attest(
        self,
        sender: str,
        task_id: int,
        place: int,
        verifiers: list[int],
        weights: list[int],
        result: bytes,
    ) -> None:
        appeal = self.appeals.get(task_id)
        need(appeal is not None and appeal.deadline != 0, "appeals: not open")
        assert appeal is not None
        need(appeal.result == EMPTY, "appeals: verdict given")
        need(self.now <= appeal.deadline, "appeals: too late")
        need(result != UNAVAILABLE, "appeals: no result")
        need(result != EMPTY, "verdicts: empty result")
        same = verifiers == appeal.verifiers and weights == appeal.weights
        need(same, "verdicts: wrong snapshot")
        need(place < len(verifiers), "verdicts: not a verifier")
        verifier = verifiers[place]
        need(sender == self.registry.acting(verifier), "verdicts: not operator")
        need(place not in appeal.votes, "verdicts: has attested")
        t = self.tasks[task_id]
        parties = {self._owner(lane.node) for lane in t.lanes}
        need(self._owner(verifier) not in parties, "appeals: own task")
        appeal.votes[place] = result
        enough = len(appeal.voters(result)) >= MIN_VOICES
        if enough and 3 * appeal.weight(result) >= 2 * sum(weights):
            appeal.result, appeal.deadline = result, self.now + self.terms["appeal_s"]

    def _standing(self, task_id: int) -> Appeal:
        appeal = self.appeals.get(task_id)
        given = appeal is not None and appeal.deadline != 0 and appeal.result != EMPTY
        need(given, "appeals: no verdict")
        assert appeal is not None
        need(appeal.objector == ZERO, "appeals: already contested")
        return appeal

    def contest(self, sender: str, task_id: int) -> None:
        appeal = self._standing(task_id)
        need(self.now <= appeal.deadline, "appeals: too late")
        appeal.objector, appeal.deadline = sender, self.now + self.terms["dispute_s"]
        self.registry.wallets[sender] -= self.terms["appeal_bond"]

    def finalize_appeal(self, _sender: str, task_id: int) -> None:
        """`finalize` of TaskAppeals."""
        appeal = self._standing(task_id)
        need(self.now > appeal.deadline, "appeals: objection window open")
        self._judge(task_id, appeal.result)

    def resolve(self, sender: str, task_id: int, result: bytes) -> None:
        need(sender == self.registry.coordinator, "ownable: caller is not the owner")
        appeal = self.appeals.get(task_id)
        asked = appeal is not None and appeal.deadline != 0 and appeal.objector != ZERO
        need(asked, "appeals: not contested")
        assert appeal is not None
        need(self.now <= appeal.deadline, "appeals: too late")
        need(result not in (EMPTY, UNAVAILABLE), "appeals: no result")
        wrong = result != appeal.result
        whose = appeal.objector if wrong else self.registry.settings.treasury
        self.credits[APPEALS][whose] += self.terms["appeal_bond"]
        self._judge(task_id, result)

    def lapse(self, _sender: str, task_id: int) -> None:
        appeal = self.appeals.get(task_id)
        need(appeal is not None and appeal.deadline != 0, "appeals: not open")
        assert appeal is not None
        need(self.now > appeal.deadline, "appeals: verdict pending")
        if appeal.result != EMPTY:
            need(appeal.objector != ZERO, "appeals: verdict given")
            self.credits[APPEALS][appeal.objector] += self.terms["appeal_bond"]
            self._judge(task_id, appeal.result, convict=False)
            return
        appeal.deadline = 0
        self.credits[APPEALS][appeal.appellant] += self.terms["appeal_bond"]
        self._end(task_id, False)

    def _judge(self, task_id: int, result: bytes, convict: bool = True) -> None:
        t, appeal = self.tasks[task_id], self.appeals[task_id]
        upheld = result != appeal.result
        tag = self.tag(task_id, result)
        judged = [lane for lane in t.lanes if lane.state != LANE_ABORTED]
        right = [x for x in judged if x.answer == (result if x.state == LANE_OPENED else tag)]
        wrong = [x for x in judged if x not in right]
        colluded = [x for x in wrong if x.state in (LANE_AGREED, LANE_OPENED)]
        overturned = bool(colluded) or (appeal.status == UNDECIDED and bool(wrong))
        appeal.result, appeal.overturned, appeal.deadline = result, overturned, 0
        own = self.addresses[APPEALS]
        reporter = own if overturned or upheld else ZERO
        left = 0
        if convict:
            for lane in wrong:
                row = COLLUSION if lane in colluded else REDUNDANCY_MISMATCH
                self._slash(APPEALS, lane.node, row, appeal.decided_at, reporter)
            if appeal.objector != ZERO:
                for place, said in appeal.votes.items():
                    if said != result:
                        liar = appeal.verifiers[place]
                        self._slash(APPEALS, liar, FALSE_REPORT, appeal.decided_at, reporter)
            left = self.registry.claim_bounty(own) if self.registry.bounties[own] else 0

        credits, bond = self.credits[APPEALS], self.terms["appeal_bond"]
        voters = appeal.voters(result)
        if overturned:
            # Who is paid out of it, in order.
            claims = [(t.creator, t.fee)] if convict and appeal.status == AGREED else []
            claims += [(self._payout(lane.node), t.fee // 2) for lane in right]
            for account, claim in claims:
                paid = min(claim, left)
                credits[account] += paid
                left -= paid
            credits[appeal.appellant] += bond
        else:
            left += bond
        shared = min(bond, left) if voters else 0
        for verifier in voters:
            credits[self._payout(verifier)] += shared // len(voters)
        if voters:
            credits[self._payout(voters[0])] += shared % len(voters)
        credits[appeal.objector if upheld else appeal.appellant] += left - shared
        self._end(task_id, overturned)

    def _end(self, task_id: int, overturned: bool) -> None:
        t, appeal = self.tasks[task_id], self.appeals[task_id]
        self._close(t)
        if appeal.status == DECIDED and overturned:
            self.credits[TASKS][t.creator] += t.fee
        elif appeal.status == DECIDED:
            self._pay(t)

    # Money

    def withdraw_bond(self, sender: str, contract: str) -> int:
        amount = self.credits[contract][sender]
        need(amount > 0, "bonds: nothing to withdraw")
        del self.credits[contract][sender]
        self.registry.wallets[sender] += amount
        return amount

    # Inside

    def _slash(self, contract: str, node: int, row: int, at: int, reporter: str) -> None:
        self.registry.slash(self.addresses[contract], node, row, at, reporter)

    def _owner(self, node: int) -> str:
        return self.registry.nodes[node].owner

    def _payout(self, node: int) -> str:
        return self.registry.nodes[node].payout

    def _need_own(self, sender: str, node: int) -> None:
        n = self.registry.nodes.get(node)
        need(n is not None and sender in (n.owner, n.operator), "executors: not the node's")
