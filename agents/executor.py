# SPDX-License-Identifier: Apache-2.0
"""The executor: runs the tasks that its node is drawn for, commits, reveals, publishes.

    at first    wait until the owner has registered the node
    REVEALING   open the commitment: before anything else
    RUNNING     run the task, journal the secret, commit; if it can't be run, to that
    DRAWING     the same already, where the node will be drawn: the commitment captures the draw
    AGREED ...  publish what was found, if it was right; appeal, if the outcome says otherwise
    APPEALED    object to a verdict that condemns what running the task again gives, or what was
                found where it can't be run again
    any time    permissionless duties; last of all the seat in the pool

Silence costs as much as a wrong result, so a node that has no result when its time runs out says
that there is none, whatever the reason: a task that no honest node can run ends unharmed, as one
whose inputs can't be had. Nor must a reveal wait for anything slow. Tasks are
computed and payloads are published beside the loop, and a transaction that is refused holds back no
other. What a commitment hides is on disk before it is sent. A payload is published only when nobody
can be drawn for the task any more.

There is one secret for a node and a task with all that its result and tag depend on (spec, time,
class, chain, contract). Neither lane nor draw is among that. So a reorg that moves the node to
another lane of the same task changes nothing, and one that puts another task under the same number
makes another secret. Which one to open, the commitment on chain says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, LaneState, TaskStatus
from agents.runtime.background import Background
from agents.runtime.chain import Head
from agents.runtime.commitments import Commitments, Entry
from agents.runtime.context import Context
from agents.runtime.errors import JournalFull, Reverted
from agents.runtime.faults import crashpoint
from agents.runtime.pace import stretched
from agents.runtime.transaction import Order
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.tasks.appeal import TaskAppeals, is_wrong
from agents.tasks.compute.result import TaskResult
from agents.tasks.contract import Task, Tasks
from agents.tasks.giving_up import GivingUp, had_by_another
from agents.tasks.runner import TaskRunner
from agents.tasks.seat import TaskSeat
from agents.tasks.upkeep import TaskUpkeep
from agents.tasks.watch import TaskWatch

_PATIENCE_S = 2.0
_TURN_S = 10.0  # how long a later lane waits for an earlier one, at most
_REORG_BLOCKS = 128  # a secret is kept for as long as a reorg could bring its task back
_CONFIRM = "confirm-"
_PAYLOAD = "payload"  # the file of a commitment
_SECRETS = "task-"  # what the keys of the journal begin with
_SPEAK_SHARE = 4  # of the window, left when a node speaks for what it can't run again
_LAST_SHARE = 8  # and for what it has not run again, though nothing was wrong with it
_OVER = (TaskStatus.AGREED, TaskStatus.DECIDED, TaskStatus.UNDECIDED)


@dataclass(frozen=True)
class Secret:
    """What a commitment to a task's result hides. `name` is its key in the journal."""

    name: str
    result: bytes
    tag: bytes
    salt: bytes
    refusal: str | None

    @classmethod
    def of(cls, name: str, entry: Entry) -> Secret:
        """The secret of a journal entry."""
        result, tag, salt = (bytes.fromhex(entry[key]) for key in ("result", "tag", "salt"))
        return cls(name, result, tag, salt, entry["refusal"])


class Executor:
    """One node that runs tasks, as a function of the chain."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.store = store
        self.network = Network(context.chain, context.deployment)
        self.node_id = 0  # until the owner has registered the node
        self.tasks = Tasks(self.network)
        self.runner = TaskRunner(context, context.settings.device)
        self.commitments = Commitments(context.journal, context.artefacts, "executor")
        self.appeals = TaskAppeals(self.network, self.tasks, context)
        self.seat = TaskSeat(self.network, self.tasks, context)
        self.upkeep = TaskUpkeep(
            self.network, self.tasks, context.sender, _PATIENCE_S, context.settings.jitter_s
        )
        self._watch = TaskWatch(self.tasks, context.chain)
        self._watch.follow(self.commitments.numbers(_SECRETS))
        self._publisher = Background(context.feed.wake, self._cannot_publish)
        self._label: str | None = None  # the class that this machine computes in, at this step
        self._class: int | None = None  # its pool
        self._own: dict[int, Task] = {}  # as last seen
        self._asked: dict[str, Task] = {}  # what the runner may be at, by job
        self._giving_up = GivingUp()
        self._found: dict[str, TaskResult] = {}  # late, and not committed to yet, by job
        self._confirmed: dict[str, bytes] = {}  # what running a task again gave, by job
        self._published: set[str] = set()
        self._revealing: dict[int, tuple[int, float]] = {}  # first block and moment of it
        self._over: dict[int, int] = {}  # task -> block at which it was seen settled
        self._said: set[tuple[str, int]] = set()

    # -- what a cheat does otherwise -----------------------------------------------------------

    def outcome(self, task: Task, result: TaskResult) -> TaskResult:
        """What to commit to: what running the task gave."""
        return result

    def reveals(self, task: Task) -> bool:
        """Whether to open the commitment."""
        return True

    # -- the step ------------------------------------------------------------------------------

    def step(self, head: Head) -> str | None:
        """The single next action."""
        if not self._registered(head):
            return None
        did = self._duty(head)
        return did or self.seat.step(head, self.node_id, self.runner.label)

    def _registered(self, head: Head) -> bool:
        """Whether the owner has registered the node; says once that it has not. A key that comes to
        serve another node is that one, once nothing of the former is open."""
        address = self.context.wallet.address
        node = self.network.node_of(address)
        if node and node != self.node_id and self._is_free(head):
            self.node_id = node
            self.context.log.info("node", node_id=node)
        elif not self.node_id and ("not_registered", 0) not in self._said:
            self._said.add(("not_registered", 0))
            why = f"no node has {address} as its operator; the owner registers it with"
            self.context.log.warning("not_registered", why=f"{why} `ape run node register`")
        return bool(self.node_id)

    def _is_free(self, head: Head) -> bool:
        return all(task.settled(head.timestamp) for task in self._own.values())

    def _duty(self, head: Head) -> str | None:
        """What the node's tasks ask for next."""
        self._label = label = self.runner.label
        self._class = None if label is None else self.tasks.class_id(label)
        at = {task.task_id for task in self._asked.values()}
        known = self._own.keys() | self.commitments.numbers(_SECRETS)
        seen = self._watch.look(head, known | at, self.node_id)
        lanes = self._lanes(seen, head)
        refused = self._begin(lanes, head)
        did = self._reveal(head) or self._commit(lanes)
        self._forget(head)
        did = did or self._object(head)
        did = did or self.upkeep.step(seen, head, self._class, self.node_id)
        if did is None and refused is not None:
            raise refused
        return did

    def _begin(self, lanes: dict[int, tuple[Task, int]], head: Head) -> JournalFull | None:
        """Keep what has been computed, and start what goes on beside the loop. Returns what the
        disk said if it refuses: a reveal writes nothing, so it does not wait for that."""
        self._publish()
        try:
            self._take()
            self._compute(lanes, head)
        except JournalFull as error:
            return error
        return None

    def _lanes(self, seen: list[Task], head: Head) -> dict[int, tuple[Task, int]]:
        """Tasks to run and commit to, with the lane: those that run, most urgent first, then those
        that the node will be drawn for, best paid first. Notes by the way what has become of its
        own tasks."""
        known = self.commitments.numbers(_SECRETS)
        for task in seen:
            if task.lane_of(self.node_id) is not None or task.task_id in known:
                self._own[task.task_id] = task
        running = [
            task
            for task in seen
            if task.status == TaskStatus.RUNNING
            and task.state_of(self.node_id) == LaneState.RUNNING
            and head.timestamp <= task.time
        ]
        running.sort(key=_deadline)
        lanes = {task.task_id: (task, task.nodes.index(self.node_id)) for task in running}
        drawing = [
            task
            for task in seen
            if task.status == TaskStatus.DRAWING
            and task.class_id == self._class
            and head.number >= task.seed_block
        ]
        drawing.sort(key=_pay, reverse=True)
        expected = self.tasks.expected_many([task.task_id for task in drawing])
        for task in drawing:
            nodes = expected[task.task_id]
            if self.node_id in nodes:
                lanes[task.task_id] = (task, len(task.nodes) + nodes.index(self.node_id))
        return lanes

    # -- running -------------------------------------------------------------------------------

    def _compute(self, lanes: dict[int, tuple[Task, int]], head: Head) -> None:
        """Have the most urgent task run that is not yet; nothing is waited for here."""
        open_jobs: dict[str, Task] = {}
        elsewhere: set[str] = set()  # jobs of a class that this machine does not compute in now
        for task, _ in lanes.values():
            here, name = task.class_id == self._class, self._name(task)
            lost = not here and self._label is not None
            if lost:
                why = f"it is in class {self.tasks.label(task.class_id)}, not in this one's"
                self._say("cannot_run", task, why)
            if self.secret(task) is None:
                failed = 1 if lost else self.runner.failed(name)
                self._giving_up.note(name, task, failed, head.timestamp)
                answer = self._answer(task, name, head)
                if answer is not None:
                    self._keep(task, answer)
                elif here:
                    open_jobs[name] = task
                else:
                    elsewhere.add(name)
        self._giving_up.keep(open_jobs.keys() | elsewhere)
        self._found = {name: found for name, found in self._found.items() if name in open_jobs}
        runs = {name: task for name, task in open_jobs.items() if name not in self._found}
        for task in self._lost(head):
            name = _CONFIRM + self._name(task)
            if name not in self._confirmed:
                runs[name] = task
        self._asked = {n: t for n, t in self._asked.items() if n in self.runner.running} | runs
        self.runner.want(runs)

    def _take(self) -> None:
        """Put what has been computed on disk; only then may a commitment be sent."""
        while (ended := self.runner.take()) is not None:
            name, result = ended
            if name.startswith(_CONFIRM):
                self._confirmed[name] = result.digest
            elif self._giving_up.found_late(name):
                self._found[name] = result
            else:
                self._keep(self._asked[name], result)

    def _keep(self, task: Task, result: TaskResult) -> None:
        self._watch.follow({task.task_id})
        answer = self.outcome(task, result)
        name = self._name(task)
        fields = {
            "result": answer.digest.hex(),
            "tag": self.tasks.tag(task.task_id, answer.digest).hex(),
            "refusal": answer.refusal,
        }
        secret = Secret.of(name, self.commitments.keep(name, fields, {_PAYLOAD: answer.payload}))
        self.context.log.info(
            "task_run",
            task=task.task_id,
            result=secret.result.hex(),
            refusal=secret.refusal,
            why=result.detail or None,
        )

    def _answer(self, task: Task, name: str, head: Head) -> TaskResult | None:
        """What to commit to now: what the task gave, that it can't be run, or nothing yet."""
        block_s = self.context.sender.block_s
        if self._giving_up.in_vain(name, task, head.timestamp, block_s):
            return TaskResult(UNAVAILABLE, b"", "unavailable")
        found = self._found.get(name)
        nothing = self.tasks.tag(task.task_id, UNAVAILABLE)
        if found is None or had_by_another(task, self.node_id, nothing):
            return found
        return None

    # -- committing ----------------------------------------------------------------------------

    def _commit(self, lanes: dict[int, tuple[Task, int]]) -> str | None:
        """Commit to what is on disk, in all tasks at once."""
        orders: dict[str, Order] = {}
        for task, lane in lanes.values():
            secret = self.secret(task)
            if secret is not None:
                args = (task.task_id, lane, self._digest(task, secret))
                said = f"committed: task {task.task_id}, lane {lane}"
                orders[said] = Order(self.network.tasks, "commit", args)
        if not orders:
            return None
        crashpoint("executor-before-commit")
        did = self._sent(orders)
        crashpoint("executor-after-commit")
        return did

    def _sent(self, orders: dict[str, Order]) -> str | None:
        """Send calls together; what was done, None if others were faster with all of them: the
        next look says what is to be done then."""
        done = []
        outcomes = self.context.sender.send_all(list(orders.values()))
        for said, outcome in zip(orders, outcomes, strict=True):
            if isinstance(outcome, Reverted):
                self.context.log.info("task_refused", call=outcome.call, why=outcome.reason)
            else:
                done.append(said)
        return "; ".join(done) or None

    # -- revealing -----------------------------------------------------------------------------

    def _reveal(self, head: Head) -> str | None:
        """Open the commitments that are due, in all tasks at once."""
        due = [
            task
            for task in self._own.values()
            if task.status == TaskStatus.REVEALING
            and task.state_of(self.node_id) == LaneState.COMMITTED
            and head.timestamp <= task.time
        ]
        now = (head.number, time.monotonic())
        self._revealing = {t.task_id: self._revealing.get(t.task_id, now) for t in due}
        orders: dict[str, Order] = {}
        for task in sorted(due, key=_deadline):
            lane = task.nodes.index(self.node_id)
            secret = self.secret_behind(task, task.answers[lane])
            if secret is None:
                self._say("secret_lost", task, "the journal has no secret of this commitment")
            elif self.reveals(task) and self._my_turn(task, lane, head):
                shown = secret.result if secret.tag in task.revealed() else ZERO_DIGEST
                args = (task.task_id, lane, secret.tag, shown, secret.salt)
                said = f"revealed: task {task.task_id}, lane {lane}"
                orders[said] = Order(self.network.tasks, "reveal", args)
        if not orders:
            return None
        crashpoint("executor-before-reveal")
        did = self._sent(orders)
        crashpoint("executor-after-reveal")
        return did

    def _my_turn(self, task: Task, lane: int, head: Head) -> bool:
        """Whether to reveal now. Of two with one tag the second must show its result, and two at
        once would both be the first: so a later lane waits a little for the earlier ones."""
        before = sum(state == LaneState.COMMITTED for state in task.states[:lane])
        block, moment = self._revealing[task.task_id]
        wait = before * stretched(_TURN_S, self.context.sender.block_s)
        return head.number >= block + before or time.monotonic() >= moment + wait

    # -- afterwards ----------------------------------------------------------------------------

    def _publish(self) -> None:
        """Publish what was agreed on, or found right by a verdict."""
        jobs: dict[str, Callable[[], None]] = {}
        ended = self._publisher.take()
        if ended is not None:
            self._published.add(ended[0])
        for task in self._own.values():
            if task.status < TaskStatus.AGREED:
                continue
            secret = self.secret(task)
            if secret is None or secret.name in self._published or secret.result == UNAVAILABLE:
                continue
            if secret.result == task.result or self._proved(task, secret):
                jobs[secret.name] = partial(self._put, task, secret)
            elif task.status == TaskStatus.CLOSED:
                self._published.add(secret.name)  # nobody asks for it
        self._publisher.want(jobs)

    def _proved(self, task: Task, secret: Secret) -> bool:
        if task.status != TaskStatus.CLOSED:
            return False
        return self.tasks.appeal(task.task_id).result == secret.result

    def _put(self, task: Task, secret: Secret) -> None:
        crashpoint("executor-before-publish")
        cid = self.store.put_file(self.commitments.path(secret.name, _PAYLOAD))
        if digest_of(cid) != secret.result:
            self._say("payload_damaged", task, "the file is not what was committed to")
            return
        self.store.pin(cid)
        self.context.log.info("published", task=task.task_id, cid=cid)

    def _lost(self, head: Head) -> Iterator[Task]:
        """Own tasks whose outcome, or a verdict on it, is against this node, and may be wrong."""
        if not self.context.settings.executor.appeal:
            return
        for task in self._own.values():
            if self._is_condemned(task, head):
                yield task
            if task.status not in _OVER or head.timestamp > task.time:
                continue
            rivals = task.status == TaskStatus.DECIDED or len(task.revealed()) > 1
            if rivals and task.state_of(self.node_id) == LaneState.REVEALED:
                yield task

    def _is_condemned(self, task: Task, head: Head) -> bool:
        """Whether a verdict that may still be contested says that this node was wrong."""
        revealed = (LaneState.REVEALED, LaneState.AGREED, LaneState.OPENED)
        if task.status != TaskStatus.APPEALED or task.state_of(self.node_id) not in revealed:
            return False
        appeal, secret = self.tasks.appeal(task.task_id), self.secret(task)
        if secret is None or not appeal.standing or head.timestamp > appeal.deadline:
            return False
        return appeal.result != secret.result

    def _object(self, head: Head) -> str | None:
        """Appeal where the node lost, running the task again gives the same as before or can't be
        done, and a verdict for that would change the outcome; likewise object to a verdict against
        it."""
        for task in list(self._lost(head)):
            again = self._confirmed.get(_CONFIRM + self._name(task))
            why = "running it again gave the same as before"
            if again is None:
                again, why = self._unconfirmed(task, head)
            if again is None:
                continue
            if task.status == TaskStatus.APPEALED:
                did = self._contest(task, again, why)
                if did is not None:
                    return did
                continue
            if self.tasks.tag(task.task_id, again) not in task.revealed():
                self._say("was_wrong", task, "running it again gave another result")
            elif is_wrong(self.tasks, task, again):
                did = self.appeals.file(task, why)
                if did is not None:
                    return did
        return None

    def _unconfirmed(self, task: Task, head: Head) -> tuple[bytes | None, str]:
        """What this node said, where it is about to be slashed for that and has not run the task
        again, and why it speaks; None as long as there is time.

        Running it has failed until little time is left: whoever framed it may have taken the inputs
        down. If verifiers can't have them either, nobody is slashed. Or it has not ended until
        even less is left: whoever framed it may have it drawn for tasks that take its processes.
        """
        secret, name = self.secret(task), _CONFIRM + self._name(task)
        condemned = task.status == TaskStatus.APPEALED
        if secret is None or not (condemned or task.status == TaskStatus.DECIDED):
            return None, ""
        deadline = self.tasks.appeal(task.task_id).deadline if condemned else task.time
        left, window = deadline - head.timestamp, self.tasks.terms().appeal_s
        if left <= window // _SPEAK_SHARE and self.runner.fails(name):
            return secret.result, "it can't be run again"
        if left <= window // _LAST_SHARE:
            return secret.result, "it has not been run again"
        return None, ""

    def _contest(self, task: Task, again: bytes, why: str) -> str | None:
        secret = self.secret(task)
        if secret is None or secret.result != again:
            self._say("was_wrong", task, "running it again gave another result")
            return None
        return self.appeals.contest(task, why)

    def _forget(self, head: Head) -> None:
        """Drop what no reorg can bring back into use."""
        settled = {n for n, task in self._own.items() if task.settled(head.timestamp)}
        self._over = {n: self._over.get(n, head.number) for n in settled}
        for number, block in list(self._over.items()):
            if head.number >= block + _REORG_BLOCKS:
                self.commitments.forget(f"{_SECRETS}{number}-")
                del self._own[number], self._over[number]
                part = f"{_SECRETS}{number}-"
                self._published = {n for n in self._published if not n.startswith(part)}
                self._confirmed = {n: r for n, r in self._confirmed.items() if part not in n}

    # -- secrets -------------------------------------------------------------------------------

    def secret(self, task: Task) -> Secret | None:
        """The secret of a task as it stands, None if it has not been computed."""
        name = self._name(task)
        entry = self.commitments.get(name)
        return None if entry is None else Secret.of(name, entry)

    def secret_behind(self, task: Task, commitment: bytes) -> Secret | None:
        """The secret that a commitment on chain (32 bytes) was made from."""
        found = self.commitments.behind(
            f"{_SECRETS}{task.task_id}-{self.node_id}-",
            commitment,
            lambda entry: self._digest(task, Secret.of("", entry)),
        )
        return None if found is None else Secret.of(*found)

    def _name(self, task: Task) -> str:
        return f"{_SECRETS}{task.task_id}-{self.node_id}-{self.tasks.inputs(task).hex()[:16]}"

    def _digest(self, task: Task, secret: Secret) -> bytes:
        """The commitment to a secret."""
        operator = self.context.wallet.address
        return self.tasks.commitment(task, self.node_id, operator, secret.tag, secret.salt)

    # -- saying --------------------------------------------------------------------------------

    def _say(self, what: str, task: Task, why: str) -> None:
        """Once a task: the stake at risk is the operator's."""
        if (what, task.task_id) not in self._said:
            self._said.add((what, task.task_id))
            self.context.log.error(what, task=task.task_id, why=why)

    def _cannot_publish(self, name: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self.context.log.warning("cannot_publish_yet", secret=name, why=text)


def _deadline(task: Task) -> int:
    return task.time


def _pay(task: Task) -> float:
    return task.fee / task.run_s


def build(context: Context) -> Executor:
    """The executor of a started agent."""
    return Executor(context, open_stores(context.settings.store))
