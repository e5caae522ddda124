# SPDX-License-Identifier: Apache-2.0
"""All redundant tasks, replayed event by event: each follows from those before it, or differs.

Rule: RedundantTasks and TaskAppeals of the contracts. What an event must say is computed before it
is read: who is drawn from the seed, the stakes and the seats; deadlines from block times; who
agrees from the tags; what a verdict, an objection or silence leads to from the snapshot. What only
its sender knew (spec, commitment, tag, result) is held by the transaction, by the opening of the
commitment, or by what the contract keeps.
"""

from __future__ import annotations

from typing import Any

from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.audit.tasks.appeals import Appeals
from agents.audit.tasks.comparing import Comparing
from agents.audit.tasks.course import LANES, Course, Lane
from agents.audit.tasks.pools import Pools
from agents.audit.tasks.purse import Purse
from agents.protocol import formulas
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import ZERO_DIGEST, LaneState, TaskStatus, Violation
from agents.runtime.contracts import Event
from agents.tasks.contract import open_to_appeal

_MIN_RUN_S = 60
_MIN_POOL = 3
_LIFETIME = 256
_REVEAL = ("uint256", "uint256", "bytes32", "bytes32", "bytes32")
_NAMES = (
    *("ClassAdded", "ExecutorJoined", "ExecutorLeft", "ExecutorMoved", "TaskCreated"),
    *("DrawRequested", "ExecutorDrawn", "ResultCommitted", "RevealOpened", "ResultRevealed"),
    *("ExecutorAborted", "TaskAgreed", "TaskUndecided", "TaskUnavailable", "ExecutorSlashed"),
    *("AppealBegun", "TaskClosed"),
)
_OF_APPEALS = (
    *("TaskAppealed", "VerdictRequested", "ResultAttested", "VerdictGiven", "VerdictContested"),
    *("ObjectionResolved", "FalseVerdictSlashed", "TaskJudged", "AppealLapsed"),
    "ClassesDeclared",
)


class TaskBook(Comparing):
    """The tasks by number, as their events tell them."""

    def __init__(
        self, record: Record, registry: StakeBook, part: Part, random_source: bool = False
    ) -> None:
        super().__init__(part)
        terms = record.tasks.terms
        course = terms.draw_s + terms.max_run_s + terms.reveal_s
        horizon = course + 2 * terms.appeal_s + terms.verdict_s + terms.dispute_s
        self.tasks: dict[int, Course] = {}
        self._record = record
        self._registry = registry
        self._terms = terms
        self._random_source = random_source
        self._pools = Pools(record, registry, part, terms, horizon)
        self._purse = Purse(record, part)
        self._appeals = Appeals(record, registry, part, self._purse, self._pools)

    @property
    def classes(self) -> list[bytes]:
        """Names of the determinism classes, by number, once `check` has followed them."""
        return self._pools.classes

    def check(self) -> dict[int, Course]:
        """Replay all events and compare with what is kept; the tasks."""
        record = self._record
        events = record.all(*_NAMES, *_OF_APPEALS)
        sent = ("ResultRevealed", "ResultAttested")
        record.fetch_transactions(event for event in events if event.name in sent)
        record.fetch_headers(event.block for event in events)
        for event in events:
            if event.address == record.network.appeals.address:
                self._appeals.follow(self.tasks, event)
            else:
                self._follow(event)
        self._check_end()
        return self.tasks

    def _follow(self, event: Event) -> None:
        pools = {
            "ClassAdded": self._pools.add_class,
            "ExecutorJoined": self._pools.join,
            "ExecutorLeft": self._pools.leave,
            "ExecutorMoved": self._pools.move,
        }
        if event.name in pools:
            pools[event.name](event)
            return
        if event.name == "TaskCreated":
            self._create(event)
            return
        course = self.tasks.get(event.args["task_id"])
        if course is None:
            who = f"task {event.args['task_id']}"
            self._part.differ("tasks", who, f"{event.name} is of it, and it was never created.")
            return
        getattr(self, f"_on_{event.name}")(course, event)

    # -- comparing -----------------------------------------------------------------------------

    def _due(self, course: Course, event: Event) -> bool:
        """Whether an event is the one that must come next; then its fields are compared."""
        if not course.due:
            return False
        name, wanted = course.due.pop(0)
        if self._part.same("tasks", course.name, "its next event", event.name, name):
            self._same(course, event, **wanted)
        return True

    def _settle(self, course: Course, event: Event) -> None:
        """Nothing may be due any more when something else happens."""
        if course.due:
            missing = ", ".join(name for name, _ in course.due)
            self._hold(course, False, f"{event.name} came where {missing} should have.")
            course.due.clear()

    def _time(self, event: Event) -> int:
        return self._record.time(event)

    # -- the course ----------------------------------------------------------------------------

    def _create(self, event: Event) -> None:
        args, time = event.args, self._time(event)
        number = len(self.tasks) + 1
        sizes = self._pools.sizes(args["class_id"], event.block)
        course = Course(
            task=number,
            creator=args["creator"],
            class_id=args["class_id"],
            spec=bytes(args["spec"]),
            fee=args["fee"],
            run_s=args["run_s"],
            born=time,
            status=TaskStatus.DRAWING,
            time=time,
            seed_block=event.block + 1,
            requested=event.block,
            sizes=sizes,
        )
        self.tasks[number] = course
        self._same(course, event, task_id=number, seed_block=course.seed_block)
        terms = self._terms
        fits = _MIN_RUN_S <= course.run_s <= terms.max_run_s
        self._hold(course, fits, f"its executors have {course.run_s} seconds.")
        fits = 0 < course.fee <= terms.max_fee and course.fee >= course.run_s * terms.fee_per_s
        self._hold(course, fits, f"its fee is {course.fee}.")
        enough = sizes.stop > _MIN_POOL
        self._hold(course, enough, f"its pool had {sizes.stop - 1} seats when it was created.")
        self._purse.take(event, course.name, course.creator, course.fee)

    def _request(self, course: Course, event: Event) -> dict[str, Any]:
        """A further draw is pinned to the next block; what DrawRequested must say."""
        wanted = course.wanted
        course.status, course.time = TaskStatus.DRAWING, self._time(event)
        course.requested, course.seed_block = event.block, event.block + 1
        course.sizes, course.drawn = self._pools.sizes(course.class_id, event.block), None
        return {"wanted": wanted, "seed_block": course.seed_block}

    def _proceed(self, course: Course, event: Event) -> tuple[str, dict[str, Any]]:
        """What follows a stage that nobody is missing from any more."""
        wanted = course.wanted
        if wanted == 0 and course.count(LaneState.COMMITTED):
            course.status = TaskStatus.REVEALING
            course.time = self._time(event) + self._terms.reveal_s
            return "RevealOpened", {"deadline": course.time}
        if wanted == 0 or wanted > course.free:
            return "TaskUndecided", self._undecided(course, event)
        return "DrawRequested", self._request(course, event)

    def _undecided(self, course: Course, event: Event) -> dict[str, Any]:
        course.status = TaskStatus.UNDECIDED
        course.time = self._time(event) + self._terms.appeal_s
        self._release(course)
        self._purse.credit(event, course.name, course.creator, course.fee)
        return {"refund": course.fee, "appeal_deadline": course.time}

    def _release(self, course: Course) -> None:
        for node in course.held:
            self._pools.release(node)

    def _unasked(self, course: Course, event: Event) -> None:
        """A step that anybody may take: after a deadline, or of a draw that was not captured."""
        if self._due(course, event):
            return
        time, stage = self._time(event), course.status
        if stage in (TaskStatus.RUNNING, TaskStatus.REVEALING) and time > course.time:
            missing = LaneState.RUNNING if stage == TaskStatus.RUNNING else LaneState.COMMITTED
            late = [(n, lane) for n, lane in enumerate(course.lanes) if lane.state == missing]
            for _, lane in late:
                lane.state = LaneState.ABORTED
                self._pools.release(lane.node)
            course.due = [self._proceed(course, event)]
            course.due += [
                ("ExecutorAborted", {"node_id": lane.node, "lane": n}) for n, lane in late
            ]
        elif stage == TaskStatus.DRAWING:
            until = self._draw_until(course)
            if time > until:
                course.due = [("TaskUndecided", self._undecided(course, event))]
            elif event.block > course.seed_block + _LIFETIME:
                course.due = [("DrawRequested", self._request(course, event))]
        if not self._due(course, event):
            self._hold(course, False, f"{event.name} came when nothing asked for it.")

    def _draw_until(self, course: Course) -> int:
        return formulas.task_created_at(course.born, course.time) + self._terms.draw_s

    def _on_DrawRequested(self, course: Course, event: Event) -> None:
        self._unasked(course, event)

    def _on_RevealOpened(self, course: Course, event: Event) -> None:
        self._unasked(course, event)

    def _on_TaskUndecided(self, course: Course, event: Event) -> None:
        self._unasked(course, event)

    def _on_ExecutorAborted(self, course: Course, event: Event) -> None:
        self._unasked(course, event)

    def _on_ExecutorDrawn(self, course: Course, event: Event) -> None:
        self._settle(course, event)
        drawing = course.status == TaskStatus.DRAWING
        if not self._hold(course, drawing, "an executor was drawn when none was to be."):
            return
        if course.drawn is None:
            course.drawn = self._picked(course, event)
        wanted = len(course.drawn) if course.drawn else course.wanted
        place, time = len(course.lanes), self._time(event)
        known = {"lane": place, "deadline": time + course.run_s}
        node = event.args["node_id"]
        if course.drawn:
            node = course.drawn[0]
            del course.drawn[0]
            known["node_id"] = node
        self._same(course, event, **known)
        course.lanes.append(Lane(node))
        self._pools.occupy(node)
        if wanted == 1 or course.wanted == 0:
            course.status, course.time, course.drawn = TaskStatus.RUNNING, time + course.run_s, None

    def _picked(self, course: Course, event: Event) -> list[int]:
        """Whom the seed draws; nobody where the seed can't be known."""
        record, wanted = self._record, course.wanted
        until = self._draw_until(course)
        ready = course.seed_block < event.block <= course.seed_block + _LIFETIME
        in_time = self._time(event) <= until
        self._hold(course, ready and in_time, f"it was drawn in block {event.block}.")
        if self._random_source or not ready:
            return []
        pinned, key = record.header(course.seed_block).hash, formulas.task_key(course.task)
        address = record.network.tasks.address
        seed = formulas.seed(pinned, key, record.chain_id, address)
        request = course.requested, course.time
        taken = [lane.node for lane in course.lanes]
        said = [
            e.args["node_id"]
            for e in record.events.get("ExecutorDrawn", ())
            if e.tx_hash == event.tx_hash and e.args["task_id"] == course.task
        ]
        found: list[int] = []
        for size in reversed(course.sizes):
            place = (course.class_id, size, request, seed, course.creator, wanted, taken, event)
            found = found or self._pools.picked(*place)
            if self._pools.picked(*place) == said:
                found = said
                break
        enough = f"its seed draws {len(found)} executors, {wanted} are needed."
        self._hold(course, len(found) == wanted, enough)
        return list(found)

    def _on_ResultCommitted(self, course: Course, event: Event) -> None:
        self._settle(course, event)
        args = event.args
        lane = course.lane(args["lane"], args["node_id"])
        late = course.status != TaskStatus.RUNNING or self._time(event) > course.time
        sentence = f"node {args['node_id']} committed in lane {args['lane']}, where it could not."
        expected = lane is not None and lane.state == LaneState.RUNNING and not late
        if not self._hold(course, expected, sentence):
            return
        assert lane is not None
        lane.state, lane.answer, lane.commitment = (
            LaneState.COMMITTED,
            bytes(args["commitment"]),
            event,
        )
        if not course.count(LaneState.RUNNING):
            course.due = [self._proceed(course, event)]

    def _on_ResultRevealed(self, course: Course, event: Event) -> None:
        self._settle(course, event)
        args = event.args
        lane = course.lane(args["lane"], args["node_id"])
        late = course.status != TaskStatus.REVEALING or self._time(event) > course.time
        sentence = f"node {args['node_id']} revealed in lane {args['lane']}, where it could not."
        expected = lane is not None and lane.state == LaneState.COMMITTED and not late
        if not self._hold(course, expected, sentence):
            return
        assert lane is not None
        result = self._opened(course, lane, event)
        tag = bytes(args["tag"])
        for number, other in enumerate(course.lanes):
            if other.state == LaneState.REVEALED and other.answer == tag:
                other.state, lane.state, lane.answer = LaneState.AGREED, LaneState.OPENED, result
                self._agree(course, event, (number, args["lane"]), tag, result)
                return
        lane.state, lane.answer = LaneState.REVEALED, tag
        if not course.count(LaneState.COMMITTED):
            course.due = [self._proceed(course, event)]

    def _opened(self, course: Course, lane: Lane, event: Event) -> bytes:
        """The result that the transaction of a reveal shows; its opening must fit."""
        record, args = self._record, event.args
        assert lane.commitment is not None
        operator = self._registry.operator(lane.node, lane.commitment)
        tasks = record.network.tasks
        sent, result = False, ZERO_DIGEST
        for sender, values in record.calls(tasks, "reveal", _REVEAL, event):
            if values[:3] != (course.task, args["lane"], bytes(args["tag"])):
                continue
            sent, result = True, bytes(values[3])
            parts = (course.spec, bytes(args["tag"]), bytes(values[4]))
            place = (record.chain_id, tasks.address, (course.task, lane.node))
            digest = formulas.task_commitment(*place, sender or operator, parts)
            what = f"the commitment of node {lane.node}"
            self._part.same("tasks", course.name, what, lane.answer, digest)
            break
        sentence = f"the transaction of node {lane.node}'s reveal holds another tag."
        self._hold(course, sent, sentence)
        return result

    def _agree(
        self, course: Course, event: Event, lanes: tuple[int, int], tag: bytes, result: bytes
    ) -> None:
        """Two agree: what the next event must say, and who is paid."""
        record, terms, time = self._record, self._terms, self._time(event)
        shown = formulas.task_tag(
            record.chain_id, record.network.tasks.address, course.task, result
        )
        self._part.same("tasks", course.name, "the tag of the result that was shown", shown, tag)
        if result == UNAVAILABLE:
            rent = course.run_s * terms.fee_per_s
            course.status, course.time = TaskStatus.CLOSED, 0
            course.due = [("TaskUnavailable", {"refund": course.fee - rent, "rent": rent})]
            self._release(course)
            self._purse.credit(event, course.name, course.creator, course.fee - rent)
            treasury = self._record.parameters_at(event).treasury
            self._purse.credit(event, course.name, treasury, rent)
            return
        contested = course.count(LaneState.REVEALED) != 0
        course.time = time + terms.appeal_s
        fields = {
            "result": result,
            "lanes": list(lanes),
            "contested": contested,
            "appeal_deadline": course.time,
        }
        course.due = [("TaskAgreed", fields)]
        if contested:
            course.status = TaskStatus.DECIDED
            return
        course.status = TaskStatus.AGREED
        self._release(course)
        self._pay_agreed(course, event)
        self._pools.pay(course.agreed, course.fee // 2, time)

    def _pay_agreed(self, course: Course, event: Event) -> None:
        half, rest = formulas.fee_shares(course.fee)
        for node, amount in zip(course.agreed, (rest, half), strict=True):
            payout = self._registry.payout(node, event)
            self._purse.credit(event, course.name, payout, amount)

    def _on_TaskAgreed(self, course: Course, event: Event) -> None:
        if not self._due(course, event):
            self._hold(course, False, "TaskAgreed came when nobody had agreed.")

    def _on_TaskUnavailable(self, course: Course, event: Event) -> None:
        if not self._due(course, event):
            self._hold(course, False, "TaskUnavailable came when nobody had said so.")

    def _on_ExecutorSlashed(self, course: Course, event: Event) -> None:
        if not self._due(course, event):
            node = event.args["node_id"]
            self._hold(course, False, f"node {node} was slashed when nobody was to be.")

    # -- the end of a task ---------------------------------------------------------------------

    def _on_AppealBegun(self, course: Course, event: Event) -> None:
        self._settle(course, event)
        open_ = open_to_appeal(course.status, [lane.state for lane in course.lanes])
        in_time = open_ and self._time(event) <= course.time
        if not self._hold(course, in_time, "it was appealed when it could not be."):
            return
        self._same(course, event, status=int(course.status))
        if course.status == TaskStatus.AGREED:
            self._pools.appealed(course.agreed, course.fee // 2)
        self._appeals.begin(course, event)

    def _on_TaskClosed(self, course: Course, event: Event) -> None:
        if course.due[:1] == [("TaskClosed", {})]:
            del course.due[0]
        self._settle(course, event)
        if course.status == TaskStatus.APPEALED and course.appeal is not None:
            self._end_appeal(course, event)
        elif course.status == TaskStatus.DECIDED and self._time(event) > course.time:
            self._release(course)
            self._pay_agreed(course, event)
            kind = int(Violation.REDUNDANCY_MISMATCH)
            course.due = [
                ("ExecutorSlashed", {"node_id": lane.node, "violation": kind})
                for lane in course.lanes
                if lane.state == LaneState.REVEALED
            ]
        else:
            self._hold(course, False, "it was closed when nothing was over.")
        course.status, course.time = TaskStatus.CLOSED, 0

    def _end_appeal(self, course: Course, event: Event) -> None:
        appeal = course.appeal
        assert appeal is not None
        ended = appeal.carried_out
        self._hold(course, ended, "it was closed before its appeal had ended.")
        if appeal.status == TaskStatus.AGREED:
            self._pools.appealed(course.agreed, -(course.fee // 2))
        elif appeal.status == TaskStatus.DECIDED:
            self._release(course)
            if appeal.overturned:
                self._purse.credit(event, course.name, course.creator, course.fee)
            else:
                self._pay_agreed(course, event)

    def _check_end(self) -> None:
        """Every task as the contract keeps it, the pools, the money."""
        part, kept = self._part, self._record.tasks.tasks
        part.same("tasks", "RedundantTasks", "the number of tasks", len(kept), len(self.tasks))
        for number, course in self.tasks.items():
            if course.due:
                missing = ", ".join(name for name, _ in course.due)
                self._hold(course, False, f"its event {missing} is missing.")
            state = kept.get(number)
            if state is None:
                continue
            drawing = course.status == TaskStatus.DRAWING
            wanted = {
                "status": course.status,
                "creator": course.creator,
                "class_id": course.class_id,
                "spec": course.spec,
                "fee": course.fee,
                "run_s": course.run_s,
                "time": course.time,
                "seed_block": course.seed_block,
                "draw_until": self._draw_until(course) if drawing else 0,
                "nodes": [lane.node for lane in course.lanes],
                "states": [lane.state for lane in course.lanes],
                "answers": [lane.answer for lane in course.lanes],
                "wanted": course.wanted if drawing else 0,
            }
            for name, value in wanted.items():
                what = f"its {name} as the contract keeps it"
                part.same("tasks", course.name, what, getattr(state, name), value)
        self._appeals.check_end(self.tasks)
        self._pools.check_end()
        self._purse.check_end()


__all__ = ["LANES", "TaskBook"]
