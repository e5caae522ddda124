# SPDX-License-Identifier: Apache-2.0
"""What verifiers do for redundant tasks: they run some of them again.

APPEALED    every verifier of the appeal's snapshot runs the task and attests what it found, and
            objects to a verdict for another result
decided     a sample, drawn in private by each verifier, is run again; a wrong outcome is appealed.
            What it has no time for is drawn by lot too, so that nobody chooses it
declared    where there are executors: the class in which this machine computes, so that creators
            see whether anybody can find a fake in it
any         what anybody may send for strangers' tasks: a call of its own (`move_on`), since it
            comes after all that the verifier owes

A verifier attests only what it has computed itself. It does not vote if its machine computes in
another class than the task's, or if its owner also owns one of the task's executors. Nor does it
where its vote could slash nobody but those who said that the inputs can't be had
(`agents.tasks.appeal`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator

from agents.protocol.network import Network
from agents.protocol.numbers import TaskStatus
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import Reverted
from agents.runtime.faults import crashpoint
from agents.runtime.transaction import Order
from agents.tasks.appeal import TaskAppeals, is_wrong, slashes_denials_only
from agents.tasks.compute.budget import SHARES
from agents.tasks.contract import Decision, Task, Tasks
from agents.tasks.runner import TaskRunner
from agents.tasks.upkeep import TaskUpkeep
from agents.tasks.watch import TaskWatch

_PATIENCE_S = 6.0  # executors first
_DECIDED = (TaskStatus.AGREED, TaskStatus.DECIDED, TaskStatus.UNDECIDED)


class Recheck:
    """The tasks that one verifier node looks after. `rate`: share of outcomes to check."""

    def __init__(self, network: Network, context: Context, device: str, rate: float) -> None:
        self.tasks = Tasks(network)
        self.runner = TaskRunner(context, device)
        self._network = network
        self._context = context
        self._rate = rate
        self._appeals = TaskAppeals(network, self.tasks, context)
        self._watch = TaskWatch(self.tasks, context.chain)
        self._upkeep = TaskUpkeep(
            network, self.tasks, context.sender, _PATIENCE_S, context.settings.jitter_s
        )
        self._seen: list[Task] = []  # in this step
        self._looked_at: set[int] = set()  # tasks whose outcome was drawn for, or was not
        self._sample: dict[int, Task] = {}
        self._lot = secrets.token_bytes(16)  # in which order, where there is no time for all
        self._asked: dict[int, tuple[Task, Decision, int]] = {}  # with this verifier's place
        self._found: set[int] = set()  # of these, what a verifier has appealed
        self._others: dict[int, int] = {}  # what others are asked about, with the task's time
        self._results: dict[str, bytes] = {}
        self._class_asked = False
        self._declared: int | None = None  # what the chain has, as far as is known here

    def step(self, head: Head, node_id: int) -> str | None:
        """The single next action of those that the verifier owes."""
        self._seen = []
        while (ended := self.runner.take()) is not None:
            self._results[ended[0]] = ended[1].digest
        self._seen = self._watch.look(head)
        # Appealed ones last: they are asked about, and an error there must hide nothing that is
        # over, which is read once.
        for task in sorted(self._seen, key=lambda task: task.status == TaskStatus.APPEALED):
            self._note(task, node_id)
        self._drop(head)
        runs = {self._name(task): task for task in self._wanted(head) if self._can(task)}
        if runs or self.runner.running:
            self.runner.want({name: t for name, t in runs.items() if name not in self._results})
        did = self._attest(node_id) or self._check() or self._object(head)
        return did or self._declare(node_id)

    def move_on(self, head: Head) -> str | None:
        """Send what is due in the tasks that the last step has read, each time once."""
        seen, self._seen = self._seen, []
        return self._upkeep.step(seen, head)

    def _note(self, task: Task, node_id: int) -> None:
        """Sort a task that was just read: asked about, drawn for the sample, or neither."""
        number = task.task_id
        known = number in self._asked and self._asked[number][0].time == task.time
        if task.status != TaskStatus.APPEALED:
            self._asked.pop(number, None)
            self._others.pop(number, None)
            self._found.discard(number)
        elif not known and self._others.get(number) != task.time:
            verdict = self.tasks.decision(number)
            if node_id in verdict.verifiers and not self._is_own(task, node_id):
                self._asked[number] = (task, verdict, verdict.verifiers.index(node_id))
                if self._is_found(number, verdict):
                    self._found.add(number)
            else:
                self._others[number] = task.time
        if task.status in _DECIDED and number not in self._looked_at:
            self._looked_at.add(number)
            # Nobody else can know what is drawn here, so nobody can be honest in the sample only.
            if secrets.SystemRandom().random() < self._rate:
                self._sample[number] = task

    def _is_own(self, task: Task, node_id: int) -> bool:
        """Whether this verifier's owner has an executor in the task."""
        calls = [(self._network.registry, "owner_of", (n,)) for n in (node_id, *task.nodes)]
        mine, *owners = self._context.chain.call_many(calls)
        return mine in owners

    def _is_found(self, number: int, verdict: Decision) -> bool:
        """Whether one of the verifiers has appealed: it has run the task, and has stake to lose."""
        calls = [(self._network.registry, "operator_of", (n,)) for n in verdict.verifiers]
        return self.tasks.appeal(number).appellant in self._context.chain.call_many(calls)

    def _drop(self, head: Head) -> None:
        """Forget what it is too late for."""
        for number, task in list(self._sample.items()):
            if head.timestamp > task.time:
                del self._sample[number]
        kept = {self._name(task) for task in self._sample.values()}
        kept |= {self._name(task) for task, _, _ in self._asked.values()}
        self._results = {name: found for name, found in self._results.items() if name in kept}

    def _wanted(self, head: Head) -> Iterator[Task]:
        """What to run, each task once, most urgent first; somebody waits for a verdict.

        The sample is in an order that nobody else knows. By deadline, a verifier that has more to
        do than it can would come to each task when that is nearly too late, and finish none.
        """
        asked = self._asked.items()
        due = {n: task for n, (task, _, place) in asked if not self.tasks.has_attested(n, place)}
        # Strangers' appeals may be many, so that a verifier's would come too late among them.
        yield from sorted(
            due.values(), key=lambda task: (task.task_id not in self._found, task.time)
        )
        # One that was appealed meanwhile is what somebody waits for, and no sample.
        rest = [task for number, task in self._sample.items() if number not in due]
        yield from sorted(rest, key=lambda task: (self._hurries(task, head), self._place(task)))

    @staticmethod
    def _hurries(task: Task, head: Head) -> bool:
        """Whether a task may take longer than it may still be appealed: it comes last."""
        return task.time - head.timestamp < task.run_s // SHARES

    def _place(self, task: Task) -> bytes:
        """A task's place in the order of the sample."""
        return hashlib.sha256(self._lot + task.task_id.to_bytes(32, "big")).digest()

    def _can(self, task: Task) -> bool:
        label = self.runner.label
        return label is None or self.tasks.class_id(label) == task.class_id

    def _name(self, task: Task) -> str:
        return f"audit-{task.task_id}-{self.tasks.inputs(task).hex()[:16]}"

    # -- its class -----------------------------------------------------------------------------

    def _declare(self, node_id: int) -> str | None:
        """Say in which class this machine computes, where that is not what the chain has."""
        label = self.runner.label
        if label is None:
            # Once: a machine that holds no class is asked again only for a task.
            if not self._class_asked and self.tasks.has_seats():
                self._class_asked = True
                self.runner.want({})
            return None
        class_id = self.tasks.class_id(label)
        classes = 0 if class_id is None else 1 << class_id
        if classes == self._declared:
            return None
        operator = self._context.chain.call(self._network.registry, "acting_operator", node_id)
        if operator != self._context.wallet.address:
            return None  # suspended
        sent = self._context.sender.ensure(
            lambda: self.tasks.declared(node_id) == classes,
            self._network.appeals,
            "declare_classes",
            node_id,
            classes,
        )
        self._declared = classes
        return None if sent is None else f"declared: runs tasks of {label} again"

    # -- what is done --------------------------------------------------------------------------

    def _attest(self, node_id: int) -> str | None:
        """Attest what was found, in all tasks at once."""
        orders: dict[int, Order] = {}
        for number, (task, verdict, place) in self._asked.items():
            result = self._results.get(self._name(task))
            if result is None or self.tasks.has_attested(number, place):
                continue
            appeal = self.tasks.appeal(number)
            if not appeal.voting or slashes_denials_only(self.tasks, task, appeal.status, result):
                continue
            voters = list(verdict.verifiers), list(verdict.weights)
            args = (number, place, *voters, result)
            orders[number] = Order(self._network.appeals, "attest", args)
        if not orders:
            return None
        crashpoint("auditor-before-attest")
        done = []
        outcomes = self._context.sender.send_all(list(orders.values()))
        for number, outcome in zip(orders, outcomes, strict=True):
            if isinstance(outcome, Reverted):
                self._context.log.info("task_refused", call=outcome.call, why=outcome.reason)
            else:
                done.append(f"attested: task {number}")
        crashpoint("auditor-after-attest")
        return "; ".join(done) or None

    def _object(self, head: Head) -> str | None:
        """Object to a verdict for another result than the one that was found here."""
        for number, (task, _, _) in self._asked.items():
            result = self._results.get(self._name(task))
            if result is None:
                continue
            appeal = self.tasks.appeal(number)
            if not appeal.standing or appeal.result == result or head.timestamp > appeal.deadline:
                continue
            did = self._appeals.contest(task, f"it gives {result.hex()}")
            if did is not None:
                return did
        return None

    def _check(self) -> str | None:
        for number, task in list(self._sample.items()):
            result = self._results.get(self._name(task))
            if result is None:
                continue
            now = self.tasks.task(number)
            if now.status not in _DECIDED or not is_wrong(self.tasks, now, result):
                if now.status in _DECIDED:
                    self._context.log.info("task_audited", task=number, wrong=False)
                del self._sample[number]
                continue
            did = self._appeals.file(now, f"it gives {result.hex()}")
            if did is not None:
                del self._sample[number]
                return did
        return None
