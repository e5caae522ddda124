# SPDX-License-Identifier: Apache-2.0
"""Random histories of several redundant tasks at once against `tasks_model`: every call must
succeed, or revert with the reason, that the model says. After every step the tasks that were
called, their nodes and the sums of the money must be the model's, every few steps and at the end
everything that can be read, to the wei.

Beside the model, from the events alone: nobody who told the truth is slashed for its result, unless
nobody appealed, or verifiers with two thirds of a snapshot's stake lied; and nobody is slashed for
silence who was not silent. Each history ends by a stranger's calls and the clock alone; in some
everybody then takes out what it owns, and the contracts are empty."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import boa
from eth_utils import keccak

from tests.contracts.stateful.machine import Refused
from tests.contracts.stateful.registry_model import RegistryModel, Settings
from tests.contracts.stateful.tasks_model import APPEALS, TASKS, UNAVAILABLE, Task, TasksModel
from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.registry import DEFAULT_ROWS, account, consent
from tests.stage.contracts.system import (
    DAY,
    EMPTY,
    TASK_TERMS,
    TRAINER,
    VERIFIER,
    ZERO,
    ZOO,
    Codes,
    System,
    deploy,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import (
    ABORT,
    AGREED,
    APPEALED,
    CLOSED,
    COLLUSION,
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
    REDUNDANCY_MISMATCH,
    REVEALING,
    RUNNING,
    UNDECIDED,
)

REGISTRY = "registry"
# The shortest that the windows allow, so that nodes leave with their stake within a history.
UNBONDING = 37 * 3_600
WEALTH = 2_000 * ZOO
# Executors by owner and class: one owner has two nodes, and the second pool is small.
SEATED = [(0, 0), (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1), (6, 1), (7, 1), (8, 1)]
# By owner. The last verifier's owner has an executor too. The first and the last of them have
# exactly two thirds of the stake.
VERIFIERS = [(9, 100 * ZOO), (10, 150 * ZOO), (1, 200 * ZOO)]
OWNERS = 11
CREATORS = 2
MOST_NODES = len(SEATED) + len(VERIFIERS) + 3
MOST_TASKS = 9
# Fees so high that two tasks are more pay at risk than a stake of 100 ZOO covers.
TERMS = TASK_TERMS | {"max_fee": 60 * ZOO}

# What a node does with its tasks, and how often nodes are so, in one history or another.
CHARACTERS = {
    "honest": (9, 5, 5),
    "colluder": (3, 6, 2),
    "loner": (2, 2, 6),
    "lazy": (1, 1, 1),
    "copier": (1, 2, 2),
}

# How often each action is tried, out of the sum.
WEIGHTS = {
    "create": 6,
    "go_on": 80,
    "stray": 16,
    "seats": 4,
    "stakes": 4,
    "keys": 1,
    "government": 4,
    "claims": 4,
    "time": 3,
    "donate": 1,
}
# Every step looks at the tasks that were called, at their nodes and at the sums of the money; every
# so many steps, and at the end, at everything.
FULL_EVERY = 8
STEPS = 40
# Twenty of the first 120, which together see as much of what is below as the first 200 do.
SEEDS = (1, 2, 3, 7, 15, 16, 18, 19, 23, 27, 45, 47, 48, 50, 58, 59, 71, 87, 112, 117)
REASONS = {
    "executors: enough stake",
    "executors: has a seat",
    "executors: just left",
    "executors: no seat",
    "executors: not the node's",
    "executors: too little stake",
    "executors: unknown class",
    "executors: known class",
    "executors: empty class",
    "ownable: caller is not the owner",
    "pausing: paused",
    "pausing: unknown bit",
    "tasks: appeal window open",
    "tasks: bad fee",
    "tasks: bad opening",
    "tasks: bad run time",
    "tasks: empty commitment",
    "tasks: empty spec",
    "tasks: hands full",
    "tasks: not appeals",
    "tasks: not decided",
    "tasks: not drawing",
    "tasks: not expected",
    "tasks: not operator",
    "tasks: not over",
    "tasks: not revealing",
    "tasks: not running",
    "tasks: nothing to appeal",
    "tasks: operator",
    "tasks: show the result",
    "tasks: too early",
    "tasks: too few executors",
    "tasks: too late",
    "appeals: no result",
    "appeals: not open",
    "appeals: own task",
    "appeals: too late",
    "appeals: verdict pending",
    "verdicts: empty result",
    "verdicts: has attested",
    "appeals: already contested",
    "appeals: no verdict",
    "appeals: not contested",
    "appeals: objection window open",
    "appeals: verdict given",
    "verdicts: not a verifier",
    "verdicts: not operator",
    "verdicts: wrong snapshot",
    "bonds: nothing to withdraw",
}
# What must have happened in some history.
SIGHTS = {
    *(f"status {status}" for status in range(1, 9)),
    *(f"lane {state}" for state in range(1, 7)),
    "lost draw",
    "drawn by a commit",
    "undecided",
    "gave up drawing",
    "hands full",
    "too much at risk",
    "a seat taken again",
    "a pool shortened",
    "an executor moved",
    *(
        f"appeal of {status}: {end}"
        for status in (AGREED, DECIDED, UNDECIDED)
        for end in ("right", "wrong", "lapsed")
        # An undecided task whose only results are right takes too many chances.
        if (status, end) != (UNDECIDED, "wrong")
    ),
    "framed",
    "false verdict",
    "all three of a decided task wrong",
    "unavailable",
    "banned",
    "slash did not reach all",
    "a bond that is not divisible",
    *(f"slashed for {row}" for row in (REDUNDANCY_MISMATCH, ABORT, COLLUSION)),
}


@dataclass(frozen=True)
class Answer:
    """What a lane committed to; no result where the node knows none behind its tag."""

    sender: str
    tag: bytes
    result: bytes | None
    salt: bytes


@dataclass
class Stage:
    """The chain as all histories find it, and its model."""

    system: System
    model: TasksModel
    creators: list[str]
    people: list[str]


def keys_of(i: int) -> list[str]:
    """The hot key and the payout address of the i-th node."""
    return [str(account(f"{kind} {i}").address) for kind in ("operator", "payout")]


def make_stage(codes: Codes) -> Stage:
    """Nodes of `SEATED` in their pools, the verifiers, and money for everybody."""
    s = deploy(codes, tuple(TERMS.values()), unbonding_period=UNBONDING)
    coordinator = str(s.coordinator.address)
    rows = dict(DEFAULT_ROWS)
    stakes = dict.fromkeys((1, 2, 4), 100 * ZOO)
    registry = RegistryModel(
        coordinator,
        str(s.benchmarks.address),
        [str(c.address) for c in (s.rounds, s.reports, s.tasks, s.appeals)],
        Settings(UNBONDING, stakes, 3_600, 1, coordinator),
        rows,
    )
    model = TasksModel(
        registry,
        TERMS,
        [bytes(name) for name in s.tasks.classes()],
        {TASKS: str(s.tasks.address), APPEALS: str(s.appeals.address)},
        boa.env.evm.patch.chain_id,
    )
    model.at(now(), block())
    owners = [s.person(f"owner {i}", WEALTH) for i in range(OWNERS)]
    creators = [s.person(f"creator {i}", WEALTH) for i in range(CREATORS)]
    people = [*owners, *creators, s.person("stranger", WEALTH), coordinator]
    for owner in owners:
        registry.wallets[owner] += WEALTH
    for i in range(MOST_NODES):
        people += keys_of(i)

    def enter(owner: str, role: int, stake: int) -> int:
        i = len(registry.nodes)
        operator, payout = keys_of(i)
        signed = consent(s.registry, account(f"operator {i}"), owner)
        s.registry.register_node(operator, payout, role, stake, EMPTY, signed, sender=owner)
        return registry.register_node(owner, operator, payout, role, stake)

    for i, (at, class_id) in enumerate(SEATED):
        node = enter(owners[at], TRAINER, (100, 100, 126, 240)[i % 4] * ZOO + i % 3)
        s.tasks.join(node, class_id, sender=owners[at])
        model.join(owners[at], node, class_id)
    for at, stake in VERIFIERS:
        node = enter(owners[at], VERIFIER, stake)
        s.registry.approve_role(node, VERIFIER, True, sender=coordinator)
        registry.approve_role(coordinator, node, VERIFIER, True)
    mine(2, registry.maturity() + 8)
    for person in people:
        registry.wallets[person] = s.token.balanceOf(person)
    return Stage(s, model, creators, people)


class TasksMachine:
    """One history, told by its seed."""

    stage: ClassVar[Stage]
    refused: ClassVar[Counter[str]] = Counter()
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.s = self.stage.system
        self.model = copy.deepcopy(self.stage.model)
        self.contracts = {TASKS: self.s.tasks, APPEALS: self.s.appeals, REGISTRY: self.s.registry}
        self.coordinator = str(self.s.coordinator.address)
        self.stranger = self.s.person("stranger")
        self.total = self.s.balances() + self.wealth()
        self.donated: Counter[str] = Counter()
        kinds = {"operator": MOST_NODES, "payout": MOST_NODES, "owner": OWNERS, "creator": CREATORS}
        names = ["stranger", *(f"{kind} {i}" for kind, n in kinds.items() for i in range(n))]
        self.keys = {str(account(name).address): account(name) for name in names}
        self.answers: dict[tuple[int, int], Answer] = {}
        self.revealed: set[tuple[int, int]] = set()
        self.characters: dict[int, str] = {}
        self.steps = 0
        self.touched: set[int] = set()

    def start(self) -> None:
        """Who is honest, and how dear a slash is, in this history."""
        r = Random(self.seed)
        names, weights = list(CHARACTERS), r.choice(list(zip(*CHARACTERS.values(), strict=True)))
        self.characters = dict(
            enumerate(r.choices(names, weights, k=MOST_NODES), start=1)  # by node id
        )
        liars = r.choice([0.2, 0.2, 1.0])
        for i in range(len(VERIFIERS)):
            lies = r.random() < liars
            self.characters[len(SEATED) + 1 + i] = "colluder" if lies else "honest"
        mild = (r.choice([0, 2_000, 7_000]), 0, r.choice([0, 0, 3_600]), r.random() < 0.4, False)
        if r.random() < 0.85:
            share = r.choice([0, 2_500, 5_000])
            for row in (REDUNDANCY_MISMATCH, ABORT, COLLUSION):
                values = (*mild, share)
                self.do(REGISTRY, "set_penalty", self.coordinator, row, values)

    def act(self) -> None:
        self.steps += 1
        r = Random(f"{self.seed} {self.steps}")
        (action,) = r.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, f"do_{action}")(r)

    # Driving both

    def do(
        self, where: str, function: str, sender: str, *given: Any, rules: tuple[Any, ...] = ()
    ) -> bool:
        """Calls the model and a contract and compares outcome and answer; whether they succeeded.
        `rules` replaces the model's arguments where they differ."""
        self.model.at(now(), block())
        contract = self.contracts[where]
        model: Any = self.model.registry if where == REGISTRY else self.model
        before = copy.copy(self.model.task(given[0])) if given else Task(ZERO, 0, EMPTY, 0, 0)
        if where != REGISTRY:
            self.touched |= set(given[:1]) & set(self.model.tasks)
        rule = "finalize_appeal" if (where, function) == (APPEALS, "finalize") else function
        try:
            expected = getattr(model, rule)(sender, *(rules or given))
        except Refused as refusal:
            self.refused[str(refusal)] += 1
            with refuses(str(refusal)):
                getattr(contract, function)(*given, sender=sender)
            return False
        got = getattr(contract, function)(*given, sender=sender)
        if expected is not None and where != REGISTRY:
            assert got == expected
        if where != REGISTRY:
            self.watch(where, before)
        return True

    def watch(self, where: str, before: Task) -> None:
        """What must be true of slashes whatever the model says, from the events of the last call.
        `before` is the task as it was."""
        for name, event in events_of(self.contracts[where]):
            self.note(name, event)
            if name == "ExecutorAborted":
                place = event["task_id"], event["lane"]
                stage = RUNNING if place not in self.answers else REVEALING
                assert before.status == stage and now() > before.time
                assert place not in self.revealed, "slashed for silence who was not silent"
            elif name == "ExecutorSlashed":
                self.is_just(where, event)

    def is_just(self, where: str, event: dict[str, Any]) -> None:
        """A slash for a result."""
        task_id, node = event["task_id"], event["node_id"]
        t = self.s.tasks.task(task_id)
        lane = list(t.nodes).index(node)
        agreed = t.states[lane] in (LANE_AGREED, LANE_OPENED)
        assert event["violation"] == (COLLUSION if agreed else REDUNDANCY_MISMATCH)
        true = self.truth(task_id)
        told_the_truth = self.answers[task_id, lane].result == true
        appeal = self.s.appeals.appeal_of(task_id)
        if where == TASKS:
            assert not agreed and appeal.appellant == ZERO, "slashed by outvoting, though appealed"
            self.seen["framed"] += told_the_truth
        elif told_the_truth:
            assert appeal.result != true
            if appeal.objector == ZERO:
                weight, total = self.s.appeals.attested_weight(task_id, appeal.result)
                assert 3 * weight >= 2 * total
            self.seen["false verdict"] += 1

    def note(self, name: str, event: dict[str, Any]) -> None:
        """Remembers what has happened."""
        seen = self.seen
        if name == "TaskUndecided":
            t = self.model.tasks[event["task_id"]]
            seen["undecided"] += 1
            seen["gave up drawing"] += now() > self.model.draw_until(t) and t.wanted > 0
        elif name == "TaskJudged":
            appeal = self.model.appeals[event["task_id"]]
            seen[f"appeal of {appeal.status}: {'right' if appeal.overturned else 'wrong'}"] += 1
            t = self.model.tasks[event["task_id"]]
            tag = self.model.tag(event["task_id"], event["result"])
            answers = [lane.answer for lane in t.lanes if lane.state != LANE_ABORTED]
            if appeal.status == DECIDED and not {tag, event["result"]} & set(answers):
                seen["all three of a decided task wrong"] += 1
            if not appeal.overturned and len(appeal.voters(event["result"])) == 3:
                seen["a bond that is not divisible"] += 1
            owed = t.fee if appeal.status == AGREED else 0
            if appeal.overturned and event["seized"] < owed + TERMS["appeal_bond"]:
                seen["slash did not reach all"] += 1
        elif name == "TaskUnavailable":
            seen["unavailable"] += 1
        elif name == "AppealLapsed":
            seen[f"appeal of {self.model.appeals[event['task_id']].status}: lapsed"] += 1
        elif name == "ExecutorSlashed":
            seen[f"slashed for {event['violation']}"] += 1
        elif name == "ExecutorAborted":
            seen[f"slashed for {ABORT}"] += 1

    # What people know and do

    def truth(self, task_id: int) -> bytes:
        """What honest nodes find; some creators keep their inputs back."""
        if Random(f"{self.seed} {task_id}").random() < 0.2:
            return UNAVAILABLE
        return keccak(text=f"result of {task_id}")

    def lie(self, task_id: int, liar: int | None = None) -> bytes:
        """What colluders agree to say, or one liar's own."""
        return keccak(text=f"lie of {liar} about {task_id}")

    def answer(self, r: Random, task_id: int, lane: int, node: int) -> Answer | None:
        """What a node commits to; nothing when it is silent."""
        t = self.model.task(task_id)
        character = self.characters[node]
        shown = [x.answer for x in t.lanes if x.state == LANE_REVEALED]
        if r.random() < (0.5 if character == "lazy" else 0.04):
            return None
        result: bytes | None = {
            "colluder": self.lie(task_id),
            "loner": self.lie(task_id, node),
        }.get(character, self.truth(task_id))
        tag = self.model.tag(task_id, result or EMPTY)
        if character == "copier":
            result, tag = None, shown[0] if shown else keccak(text=f"no result {task_id}")
        elif r.random() < 0.04:
            result, tag = UNAVAILABLE, self.model.tag(task_id, UNAVAILABLE)
        sender = self.model.registry.nodes[node].operator
        return Answer(sender, tag, result, keccak(text=f"salt {task_id} {lane}"))

    def operator(self, node: int) -> str:
        """A node's operator, or its owner once it has none."""
        n = self.model.registry.nodes[node]
        return n.operator if n.operator != ZERO else n.owner

    def anybody(self, r: Random) -> str:
        return r.choice(self.stage.people)

    def with_money(self, r: Random, *wanted: str) -> str:
        """Somebody who can pay a fee or a bond."""
        people = [p for p in wanted if self.model.registry.wallets[p] >= TERMS["max_fee"]]
        return r.choice(people) if people else self.stranger

    def pass_deadline(self, time: int, after: int = 1) -> None:
        if time + after > now():
            mine(1, time + after - now())

    # Tasks

    def do_create(self, r: Random) -> None:
        """One task, or so many that nodes have their hands full."""
        class_id = r.choice([0, 0, 0, 0, 1])
        for _ in range(r.choice([1, 1, 1, 2, 4])):
            if len(self.model.tasks) >= MOST_TASKS:
                return
            run_s = r.choice([60, 61, 600, 3_600])
            least, most = TERMS["fee_per_s"] * run_s, TERMS["max_fee"]
            fee = r.choice([least, most, r.randint(least, most)])
            owners = [n.owner for n in self.model.registry.nodes.values()]
            creator = self.with_money(r, *self.stage.creators, r.choice(owners))
            spec = keccak(text=f"spec {r.random()}")
            self.do(TASKS, "create_task", creator, class_id, spec, fee, run_s)

    def do_go_on(self, r: Random) -> None:
        """One task goes on by a stage, or a little."""
        live = [i for i in self.model.tasks if not self.is_final(i)]
        if not live:
            return self.do_create(r)
        task_id = live[0] if r.random() < 0.5 else r.choice(live)
        stages: dict[int, Callable[[Random, int], None]] = {
            DRAWING: self.go_draw,
            RUNNING: self.go_run,
            REVEALING: self.go_reveal,
            APPEALED: self.go_judge,
        }
        for _ in range(r.choice([1, 2, 3])):
            if not self.is_final(task_id):
                stages.get(self.model.tasks[task_id].status, self.go_settle)(r, task_id)

    def is_final(self, task_id: int) -> bool:
        """Whether nothing can happen to a task any more."""
        t = self.model.tasks[task_id]
        return t.status == CLOSED or (t.status in (AGREED, UNDECIDED) and now() > t.time)

    def go_draw(self, r: Random, task_id: int) -> None:
        t = self.model.tasks[task_id]
        for _ in range(r.choice([1, 1, 1, 3])):
            if t.status != DRAWING:
                return
            if r.random() < 0.9:
                mine(max(0, t.seed_block + 1 - block()))
            if r.random() < 0.04:
                mine(max(0, t.seed_block + LIFETIME + r.randint(0, 1) - block()))
            if r.random() < 0.03:
                self.pass_deadline(self.model.draw_until(t), r.choice([0, 1]))
            self.model.at(now(), block())
            expected, pinned = self.model.expected(task_id), t.seed_block
            if expected and r.random() < 0.4:
                if self.go_commit(r, task_id, len(t.lanes), expected[0]):
                    self.seen["drawn by a commit"] += 1
            else:
                self.do(TASKS, "draw", self.anybody(r), task_id)
            self.seen["lost draw"] += t.status == DRAWING and t.seed_block > pinned

    def go_commit(self, r: Random, task_id: int, lane: int, node: int) -> bool:
        """A node commits, unless it is silent."""
        answer = self.answer(r, task_id, lane, node)
        if answer is None or answer.sender == ZERO:
            return False
        digest = self.model.digest(task_id, node, answer.sender, answer.tag, answer.salt)
        if r.random() < 0.05:
            self.do(TASKS, "commit", self.stranger, task_id, lane, digest)
        if r.random() < 0.05:
            self.do(TASKS, "commit", answer.sender, task_id, lane, EMPTY)
        done = self.do(TASKS, "commit", answer.sender, task_id, lane, digest)
        if done:
            self.answers[task_id, lane] = answer
        return done

    def go_run(self, r: Random, task_id: int) -> None:
        t = self.model.tasks[task_id]
        if r.random() < 0.1:
            self.pass_deadline(t.time, r.randint(0, 1))
        for place, lane in self.shuffled(r, t, LANE_RUNNING):
            self.go_commit(r, task_id, place, lane.node)
        self.go_advance(r, task_id, RUNNING)

    def go_reveal(self, r: Random, task_id: int) -> None:
        t = self.model.tasks[task_id]
        if r.random() < 0.1:
            self.pass_deadline(t.time, r.randint(0, 1))
        for place, _ in self.shuffled(r, t, LANE_COMMITTED):
            answer = self.answers[task_id, place]
            if r.random() < (0.3 if answer.result is None else 0.07):
                continue
            shown = answer.result or EMPTY
            if r.random() < 0.2:
                wrong = r.choice(["salt", "sender", "result"])
                sender = self.anybody(r) if wrong == "sender" else answer.sender
                salt = EMPTY if wrong == "salt" else answer.salt
                result = keccak(text="else") if wrong == "result" else shown
                if self.do(TASKS, "reveal", sender, task_id, place, answer.tag, result, salt):
                    self.revealed.add((task_id, place))
                    continue
            if self.do(
                TASKS, "reveal", answer.sender, task_id, place, answer.tag, shown, answer.salt
            ):
                self.revealed.add((task_id, place))
        self.go_advance(r, task_id, REVEALING)

    def go_advance(self, r: Random, task_id: int, status: int) -> None:
        """When somebody was silent: usually its time passes."""
        t = self.model.tasks[task_id]
        if t.status == status and r.random() < 0.7:
            self.pass_deadline(t.time, r.choice([0, 1, 1, 1]))
            self.add_late(r, t)
            self.do(TASKS, "advance", self.anybody(r), task_id)

    def go_settle(self, r: Random, task_id: int) -> None:
        t = self.model.tasks[task_id]
        if r.random() < 0.6:
            self.do(APPEALS, "appeal", self.with_money(r, self.anybody(r)), task_id)
        else:
            self.pass_deadline(t.time, r.choice([0, 1]))
            self.add_late(r, t)
            self.do(TASKS, "finalize", self.anybody(r), task_id)

    def add_late(self, r: Random, t: Task) -> None:
        """An executor adds stake, which is not at risk for what it did before."""
        if t.lanes and r.random() < 0.4:
            mine(1)
            node = r.choice(t.lanes).node
            owner = self.model.registry.nodes[node].owner
            if self.model.registry.wallets[owner] >= 100 * ZOO:
                self.do(REGISTRY, "add_stake", owner, node, r.randint(ZOO, 60 * ZOO))

    def go_judge(self, r: Random, task_id: int) -> None:
        appeal, t = self.model.appeals[task_id], self.model.tasks[task_id]
        self.add_late(r, t)
        if r.random() < 0.4:
            self.stray_attest(r)
        places = list(range(len(appeal.verifiers)))
        for place in r.sample(places, len(places)):
            node = appeal.verifiers[place]
            if t.status != APPEALED or r.random() < 0.15:
                continue
            honest = self.characters[node] == "honest"
            result = self.truth(task_id) if honest else self.lie(task_id)
            if r.random() < 0.05:
                result = keccak(text="neither")
            if result == UNAVAILABLE and r.random() < 0.7:
                continue
            self.attest(task_id, self.operator(node), place, result)
        if t.status == APPEALED and appeal.result != EMPTY:
            self.go_contest(r, task_id)
        elif t.status == APPEALED and r.random() < 0.5:
            self.pass_deadline(appeal.deadline, r.choice([0, 1, 1]))
            self.do(APPEALS, "lapse", self.anybody(r), task_id)

    def go_contest(self, r: Random, task_id: int) -> None:
        """A verdict: it is contested or not, the committee decides rightly, wrongly or not."""
        appeal = self.model.appeals[task_id]
        if appeal.objector == ZERO and r.random() < 0.5:
            self.do(APPEALS, "contest", self.with_money(r, self.anybody(r)), task_id)
        if appeal.objector == ZERO:
            self.pass_deadline(appeal.deadline, r.choice([0, 1, 1]))
            self.do(APPEALS, "finalize", self.anybody(r), task_id)
        elif r.random() < 0.7:
            result = self.truth(task_id) if r.random() < 0.8 else self.lie(task_id)
            sender = self.coordinator if r.random() < 0.9 else self.anybody(r)
            self.do(APPEALS, "resolve", sender, task_id, result)
        else:
            self.pass_deadline(appeal.deadline, r.choice([0, 1, 1]))
            self.do(APPEALS, "lapse", self.anybody(r), task_id)

    def attest(self, task_id: int, sender: str, place: int, result: bytes) -> None:
        appeal = self.model.appeals[task_id]
        votes = appeal.verifiers, appeal.weights
        self.do(APPEALS, "attest", sender, task_id, place, *votes, result)

    @staticmethod
    def shuffled(r: Random, t: Task, state: int) -> Iterable[tuple[int, Any]]:
        lanes = [(place, lane) for place, lane in enumerate(t.lanes) if lane.state == state]
        return r.sample(lanes, len(lanes))

    def do_stray(self, r: Random) -> None:
        """Calls that hardly anybody should make."""
        for _ in range(3):
            self.stray(r)

    def stray(self, r: Random) -> None:
        task_id = r.randint(0, len(self.model.tasks) + 1)
        t = self.model.task(task_id)
        lane = r.randint(0, MAX_LANES)
        node = t.lanes[lane].node if lane < len(t.lanes) else 1
        sender = self.operator(node) if r.random() < 0.7 else self.anybody(r)
        salt, tag = keccak(text="stray"), self.model.tag(task_id, self.truth(task_id))
        which = r.choice(["commit", "reveal", "step", "create", "appeal", "attest", "begin"])
        if which == "commit":
            late = lane < len(t.lanes) and t.lanes[lane].state == LANE_RUNNING
            digest = EMPTY if late else keccak(text="commitment")
            if not late or r.random() < 0.5 or sender != self.operator(node):
                done = self.do(TASKS, "commit", sender, task_id, lane, digest)
                if done:
                    self.answers[task_id, lane] = Answer(sender, EMPTY, None, EMPTY)
        elif which == "reveal":
            self.do(TASKS, "reveal", sender, task_id, lane, tag, EMPTY, salt)
        elif which == "step":
            self.do(TASKS, r.choice(["draw", "advance", "finalize"]), sender, task_id)
        elif which == "create":
            self.stray_create(r)
        elif which == "appeal":
            deed = r.choice(
                ["lapse", "lapse", "appeal", "appeal", "contest", "finalize", "resolve"]
            )
            more = (self.truth(task_id),) if deed == "resolve" else ()
            payer = sender if deed == "lapse" else self.with_money(r, sender)
            self.do(APPEALS, deed, payer, task_id, *more)
        elif which == "attest":
            self.stray_attest(r)
        else:
            self.refused["tasks: not appeals"] += 1
            with refuses("tasks: not appeals"):
                if r.random() < 0.5:
                    self.s.tasks.begin_appeal(task_id, sender=sender)
                else:
                    self.s.tasks.end_appeal(task_id, DECIDED, True, sender=sender)

    def stray_create(self, r: Random) -> None:
        nodes = list(self.model.registry.nodes)
        class_id, spec, fee, run_s = 0, salted(r), ZOO, 600
        sender = self.stranger
        which = r.randint(0, 5)
        if which == 0:
            spec = EMPTY
        elif which == 1:
            run_s = r.choice([0, 59, TERMS["max_run_s"] + 1])
        elif which == 2:
            fee = r.choice([0, 600 * TERMS["fee_per_s"] - 1, TERMS["max_fee"] + 1])
        elif which == 3:
            sender = self.operator(r.choice(nodes))
            if self.model.registry.node_of(sender) == 0:
                return
        elif which == 4:
            class_id = r.choice([2, 255])
        elif len(self.model.tasks) >= MOST_TASKS:
            return
        self.do(TASKS, "create_task", sender, class_id, spec, fee, run_s)

    def stray_attest(self, r: Random) -> None:
        """An attestation that is wrong in some way, or late."""
        known = [i for i, t in self.model.tasks.items() if t.status == APPEALED]
        known = known or list(self.model.appeals)
        if not known:
            return
        task_id = r.choice(known)
        appeal = self.model.appeals[task_id]
        verifiers, weights = list(appeal.verifiers), list(appeal.weights)
        place = r.randrange(len(verifiers))
        sender, result = self.operator(verifiers[place]), self.truth(task_id)
        which = r.randint(0, 5)
        if which == 0:
            result = EMPTY
        elif which == 1:
            weights[place] += 1
        elif which == 2:
            place = len(verifiers)
        elif which == 3:
            sender = self.anybody(r)
        elif which == 4 and appeal.deadline:
            self.pass_deadline(appeal.deadline, 1)
        elif appeal.votes:
            place = r.choice(list(appeal.votes))
            sender = self.operator(verifiers[place])
        self.do(APPEALS, "attest", sender, task_id, place, verifiers, weights, result)

    # Nodes and owners

    def do_seats(self, r: Random) -> None:
        for _ in range(3):
            self.go_sit(r)

    def go_sit(self, r: Random) -> None:
        """A node takes or leaves a seat."""
        standing = [i for i in self.model.left if self.model.registry.nodes[i].unlock_at == 0]
        nodes = standing if standing and r.random() < 0.5 else list(self.model.registry.nodes)
        node = r.choice(nodes)
        n = self.model.registry.nodes[node]
        sender = self.anybody(r) if r.random() < 0.1 else r.choice([n.owner, self.operator(node)])
        seated = self.model.place(node)
        if r.random() < 0.2:
            class_id = r.choice([0, 0, 1, 2])
            mine(r.choice([0, COOLDOWN + 1]))
            before = [seat.node for seat in self.model.pool(class_id).seats if not seat.left]
            size = len(self.model.pool(class_id).seats)
            self.do(TASKS, "compact", self.anybody(r), class_id)
            after = [seat.node for seat in self.model.pool(class_id).seats if not seat.left]
            self.seen["a pool shortened"] += len(self.model.pool(class_id).seats) < size
            self.seen["an executor moved"] += before != after
        elif r.random() < 0.3:
            self.model.at(now(), block())
            poor = [i for i in self.model.registry.nodes if not self.model.stays(i)]
            node = r.choice(poor) if poor and r.random() < 0.8 else node
            self.do(TASKS, "evict", self.anybody(r), node)
        elif seated is None or r.random() < 0.15:
            # Often when the pause after leaving is over.
            if r.random() < 0.6 and self.model.left.get(node):
                mine(max(0, self.model.left[node] + COOLDOWN + r.choice([0, 1, 1]) - block()))
            class_id = r.choice([0, 0, 0, 1, 1, 2])
            sizes = {i: len(pool.seats) for i, pool in self.model.pools.items()}
            if self.do(TASKS, "join", sender, node, class_id):
                again = sizes.get(class_id, 0) == len(self.model.pools[class_id].seats)
                self.seen["a seat taken again"] += again
        else:
            self.do(TASKS, "leave", sender, node)

    def do_stakes(self, r: Random) -> None:
        registry = self.model.registry
        node = r.choice(list(registry.nodes))
        n = registry.nodes[node]
        leaving = [i for i, x in registry.nodes.items() if x.unlock_at and x.operator != ZERO]
        which = r.choice(["add", "add", "exit", "withdraw", "withdraw", "register", "slash"])
        if which == "add" and registry.wallets[n.owner] >= 100 * ZOO:
            self.do(REGISTRY, "add_stake", n.owner, node, r.randint(ZOO, 60 * ZOO))
        elif which == "exit" and len(leaving) < 3:
            self.do(REGISTRY, "begin_exit", n.owner, node)
        elif which == "withdraw" and leaving:
            node = r.choice(leaving)
            if r.random() < 0.4:
                self.pass_deadline(registry.nodes[node].unlock_at, 0)
            self.do(REGISTRY, "withdraw", registry.nodes[node].owner, node)
        elif which == "register" and len(registry.nodes) < MOST_NODES:
            i = len(registry.nodes)
            operator, payout = keys_of(i)
            owner, stake = n.owner, r.choice([100, 150]) * ZOO
            if registry.wallets[owner] >= stake and registry.node_of(operator) == 0:
                settings = operator, payout, TRAINER, stake
                signed = consent(self.s.registry, account(f"operator {i}"), owner)
                given = *settings, EMPTY, signed
                self.do(REGISTRY, "register_node", owner, *given, rules=settings)
                self.do(TASKS, "join", owner, i + 1, 0)
        elif which == "slash":
            # Another contract's business.
            reports = str(self.s.reports.address)
            for _ in range(r.choice([1, 1, 3])):
                self.do(REGISTRY, "slash", reports, node, r.choice([2, 5]), now(), ZERO)
        self.seen["banned"] += any(x.banned for x in registry.nodes.values())

    def do_keys(self, r: Random) -> None:
        """A node gets another hot key or another payout address."""
        node = r.choice(list(self.model.registry.nodes))
        n = self.model.registry.nodes[node]
        other = self.anybody(r)
        if r.random() < 0.5:
            self.do(REGISTRY, "set_payout", n.owner, node, other)
        elif n.operator != ZERO:
            key = self.keys.get(other)
            if key is not None:
                signed = b"" if other == n.owner else consent(self.s.registry, key, n.owner)
                given = node, other, signed
                self.do(REGISTRY, "set_operator", n.owner, *given, rules=(node, other))

    def do_government(self, r: Random) -> None:
        sender = self.coordinator if r.random() < 0.8 else self.anybody(r)
        which = r.choice(["pause", "pause", "class", "approve"])
        if which == "pause":
            bits = 0 if self.model.paused else r.choice([0, 1, 2])
            self.do(TASKS, "set_paused", sender, bits)
            self.stray_create(r)
        elif which == "class":
            if len(self.model.classes) < 4 or r.random() < 0.5:
                name = r.choice([b"cpu-fp32", b"cuda:sm_100", b"cuda:sm_120", b""])
                self.do(TASKS, "add_class", sender, name.ljust(32, b"\0"))
        else:
            # All of them, so that for a while nobody can judge.
            self.approve(sender, False)
            outcomes = AGREED, DECIDED, UNDECIDED
            settled = [i for i, t in self.model.tasks.items() if t.status in outcomes]
            for task_id in settled[-3:]:
                self.do(APPEALS, "appeal", self.with_money(r, self.anybody(r)), task_id)
            if r.random() < 0.9:
                self.approve(sender, True)

    def approve(self, sender: str, approved: bool) -> None:
        for node in range(len(SEATED) + 1, len(SEATED) + len(VERIFIERS) + 1):
            self.do(REGISTRY, "approve_role", sender, node, VERIFIER, approved)

    def do_claims(self, r: Random) -> None:
        where = r.choice([TASKS, TASKS, APPEALS])
        credited = [p for p, amount in self.model.credits[where].items() if amount]
        sender = r.choice(credited) if credited and r.random() < 0.9 else self.anybody(r)
        self.withdraw(where, sender)
        if r.random() < 0.1 and self.model.registry.bounties[self.coordinator]:
            self.do(REGISTRY, "claim_bounty", self.coordinator)

    def withdraw(self, where: str, sender: str) -> None:
        self.do(where, "withdraw_bond", sender, rules=(where,))

    def do_time(self, r: Random) -> None:
        mine(r.choice([1, 2, 20, LIFETIME + 5]), r.choice([0, 12, 600, 3_600, DAY // 2, 8 * DAY]))

    def do_donate(self, r: Random) -> None:
        """Somebody sends tokens to a contract unasked."""
        where, amount = r.choice([TASKS, APPEALS]), r.randint(1, ZOO)
        if self.model.registry.wallets[self.stranger] > amount:
            self.s.token.transfer(self.contracts[where].address, amount, sender=self.stranger)
            self.model.registry.wallets[self.stranger] -= amount
            self.donated[where] += amount

    # What must hold

    def check_all(self, everything: bool) -> None:
        self.model.at(now(), block())
        for task_id in self.model.tasks:
            if everything or task_id in self.touched:
                self.check_task(task_id)
        self.check_nodes(everything)
        self.check_money(everything)
        self.touched.clear()

    def check_task(self, task_id: int) -> None:
        t, tasks = self.model.tasks[task_id], self.s.tasks
        assert tuple(tasks.task(task_id)) == (
            t.status,
            t.creator,
            t.class_id,
            t.spec,
            t.fee,
            t.run_s,
            t.time,
            t.seed_block,
            self.model.draw_until(t) if t.status == DRAWING else 0,
            [lane.node for lane in t.lanes],
            [lane.state for lane in t.lanes],
            [lane.answer for lane in t.lanes],
            t.wanted if t.status == DRAWING else 0,
        )
        self.seen[f"status {t.status}"] += 1
        for lane in t.lanes:
            self.seen[f"lane {lane.state}"] += 1
        owners = [self.model.registry.nodes[lane.node].owner for lane in t.lanes]
        assert len({*owners, t.creator}) == len(owners) + 1, "two lanes of one owner"
        assert t.count(LANE_REVEALED, LANE_AGREED, LANE_OPENED) <= 3
        if t.status in (AGREED, DECIDED):
            assert tasks.result_of(task_id) == self.model.result_of(task_id) != EMPTY
        if t.status == DRAWING:
            assert tasks.expected(task_id) == self.model.expected(task_id)
        if task_id in self.model.appeals:
            self.check_appeal(task_id)

    def check_appeal(self, task_id: int) -> None:
        appeal, appeals = self.model.appeals[task_id], self.s.appeals
        assert tuple(appeals.appeal_of(task_id)) == (
            appeal.appellant,
            appeal.status,
            appeal.decided_at,
            appeal.deadline,
            appeal.result,
            appeal.overturned,
            appeal.objector,
        )
        for vote in set(appeal.votes.values()):
            weights = appeal.weight(vote), sum(appeal.weights)
            assert tuple(appeals.attested_weight(task_id, vote)) == weights
            assert appeals.attesters(task_id, vote) == appeal.voters(vote)
        for place in range(len(appeal.verifiers)):
            assert appeals.has_attested(task_id, place) == (place in appeal.votes)

    def check_seats(self) -> None:
        for class_id in range(len(self.model.classes)):
            seats = self.model.pool(class_id).seats
            assert self.s.tasks.pool_size(class_id) == len(seats)
            for place, seat in enumerate(seats):
                fields = seat.node, seat.owner, seat.joined, seat.left
                assert tuple(self.s.tasks.seat(class_id, place)) == fields

    def check_nodes(self, everything: bool) -> None:
        if everything:
            self.check_seats()
            assert self.s.tasks.classes() == self.model.classes
            assert self.s.tasks.paused() == self.model.paused
            assert self.s.tasks.task_count() == len(self.model.tasks)
        registry = self.model.registry
        lanes_of = {lane.node for i in self.touched for lane in self.model.task(i).lanes}
        for node, n in registry.nodes.items():
            if not everything and node not in lanes_of:
                continue
            seat, lanes = self.model.place(node), self.model.open_lanes(node)
            at_risk = self.model.at_risk(node)
            assert tuple(self.s.tasks.executor(node)) == (
                seat is not None,
                *(seat or (0, 0)),
                lanes,
                self.model.left.get(node, 0),
                at_risk,
            )
            assert lanes <= MAX_OPEN
            self.seen["hands full"] += lanes == MAX_OPEN
            covered = registry.bonded(node) // COVER
            self.seen["too much at risk"] += seat is not None and at_risk > covered > 0
            assert self.s.registry.bonded(node) == registry.bonded(node)
            if everything:
                assert self.s.registry.owner_of(node) == n.owner
                assert self.s.registry.operator_of(node) == n.operator
                bonded = registry.stake_at_risk(node, now() - 1, now())
                assert self.s.registry.stake_at_risk(node, now() - 1, now()) == bonded

    def check_money(self, everything: bool) -> None:
        registry, token = self.model.registry, self.s.token
        for where in (TASKS, APPEALS):
            contract, credits = self.contracts[where], self.model.credits[where]
            assert contract.bonds_held() == self.model.held(where)
            held = self.model.held(where) + self.donated[where]
            assert token.balanceOf(contract.address) == held
            for person in self.stage.people if everything else ():
                assert contract.bond_credit(person) == credits[person]
            assert set(+credits) <= set(self.stage.people)
        if not everything:
            return
        for person in self.stage.people:
            assert token.balanceOf(person) == registry.wallets[person]
        assert registry.bounties[self.coordinator] == self.s.registry.bounty(self.coordinator)
        assert self.s.registry.bounty(self.s.appeals.address) == 0
        assert self.s.registry.total_stake() == sum(map(registry.bonded, registry.nodes))
        assert self.s.registry.total_bounties() == sum(registry.bounties.values())
        assert self.s.balances() == self.s.owed() + sum(self.donated.values())
        assert self.s.balances() + self.wealth() == self.total

    def wealth(self) -> int:
        """What everybody has in its wallet."""
        return sum(self.model.registry.wallets[person] for person in set(self.stage.people))

    # The end

    def end(self) -> None:
        for task_id in self.model.tasks:
            self.drive_to_the_end(task_id)
        if self.seed % 4 == 0:
            self.everybody_leaves()
        self.check_all(True)

    def drive_to_the_end(self, task_id: int) -> None:
        """A stranger and the clock alone: when nobody can be drawn any more the task ends, and else
        there are at most two stages for each of five lanes, and two calls for the outcome."""
        t = self.model.tasks[task_id]
        calls: dict[int, tuple[str, str]] = {
            DRAWING: (TASKS, "draw"),
            RUNNING: (TASKS, "advance"),
            REVEALING: (TASKS, "advance"),
            DECIDED: (TASKS, "finalize"),
            APPEALED: (APPEALS, "lapse"),
        }
        for _ in range(3 * MAX_LANES + 1):
            if t.status in (AGREED, UNDECIDED, CLOSED):
                break
            call = calls[t.status]
            if t.status == DRAWING:
                self.pass_deadline(self.model.draw_until(t))
            elif t.status == APPEALED:
                appeal = self.model.appeals[task_id]
                self.pass_deadline(appeal.deadline)
                if appeal.result != EMPTY and appeal.objector == ZERO:
                    call = (APPEALS, "finalize")
            else:
                self.pass_deadline(t.time)
            assert self.do(*call, self.stranger, task_id)
        assert t.status in (AGREED, UNDECIDED, CLOSED), "a task that nobody can end"

    def everybody_leaves(self) -> None:
        """Everybody takes what it owns, and nothing is left but what was given away."""
        registry = self.model.registry
        mine(1, 2 * DAY)
        assert not any(self.s.tasks.executor(node).open for node in registry.nodes)
        for where in (TASKS, APPEALS):
            for person in [p for p, amount in self.model.credits[where].items() if amount]:
                self.withdraw(where, person)
            left = self.s.token.balanceOf(self.contracts[where].address)
            assert self.contracts[where].bonds_held() == 0 and left == self.donated[where]
        for node, n in registry.nodes.items():
            if not n.unlock_at:
                self.do(REGISTRY, "begin_exit", n.owner, node)
        mine(1, UNBONDING)
        for node, n in registry.nodes.items():
            if n.operator != ZERO:
                assert self.do(REGISTRY, "withdraw", n.owner, node)
        assert self.s.registry.total_stake() == 0


def salted(r: Random) -> bytes:
    return keccak(text=f"salted {r.random()}")


def test_tasks_machine(codes: Codes) -> None:
    TasksMachine.stage = make_stage(codes)
    for seed in SEEDS:
        with boa.env.anchor():
            machine = TasksMachine(seed)
            print(f"history {seed}")  # shown when it fails
            machine.start()
            for step in range(1, STEPS + 1):
                print(f"step {step}")
                machine.act()
                machine.check_all(step % FULL_EVERY == 0)
            machine.end()
    # Each has a unit test of its own; a change of the contracts may lose the odd one.
    missed = sorted(REASONS - set(TasksMachine.refused))
    assert len(missed) <= 3, f"refusals never seen: {missed}"
    missed = sorted(SIGHTS - {sight for sight, times in TasksMachine.seen.items() if times})
    assert len(missed) <= 3, f"never seen: {missed}"
