# SPDX-License-Identifier: Apache-2.0
"""Appeals against tasks, replayed: who was asked, what they said, what came of it.

Rule: TaskAppeals of the contracts. Voters weigh what they had bonded before the task existed, at
most twice the minimum. Two owners with two thirds of the weight make a verdict; who objects asks
the committee; whoever named another result than the last word is slashed; the bonds and what was
seized go where the contract sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.audit.tasks.comparing import Comparing
from agents.audit.tasks.course import Challenge, Course
from agents.audit.tasks.pools import Pools
from agents.audit.tasks.purse import Purse
from agents.protocol import formulas
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import MIN_VOICES, ZERO_DIGEST, LaneState, TaskStatus, Violation
from agents.runtime.contracts import Event

_ATTEST = ("uint256", "uint256", "uint256[]", "uint256[]", "bytes32")


class Appeals(Comparing):
    """The appeals of all tasks. What each must lead to is put into the task's `due`."""

    def __init__(
        self, record: Record, registry: StakeBook, part: Part, purse: Purse, pools: Pools
    ) -> None:
        super().__init__(part)
        self._record = record
        self._registry = registry
        self._purse = purse
        self._pools = pools
        self._terms = record.tasks.terms
        self._declared: dict[int, int] = {}
        self._requested: dict[tuple[int, str], Event] = {}

    def begin(self, course: Course, event: Event) -> None:
        """Follow AppealBegun: the task waits for a verdict, and what comes next is due."""
        decided = course.time - self._terms.appeal_s
        deadline = self._record.time(event) + self._terms.verdict_s
        course.appeal = Challenge("", course.status, decided, deadline)
        course.status, course.time = TaskStatus.APPEALED, deadline
        fields = {"bond": self._terms.appeal_bond, "deadline": deadline}
        course.due = [("TaskAppealed", fields), ("VerdictRequested", {})]

    def follow(self, tasks: Mapping[int, Course], event: Event) -> None:
        """Follow an event of TaskAppeals."""
        if event.name == "ClassesDeclared":
            self._declare(event)
            return
        course = tasks.get(event.args["task_id"])
        appeal = None if course is None else course.appeal
        who = f"task {event.args['task_id']}"
        sentence = f"{event.name} is of it, and nobody has appealed."
        if not self._part.hold("tasks", appeal is not None, who, sentence):
            return
        assert course is not None and appeal is not None
        if course.due and course.due[0][0] != event.name:
            missing = ", ".join(name for name, _ in course.due)
            self._hold(course, False, f"{event.name} came where {missing} should have.")
            course.due.clear()
        getattr(self, f"_on_{event.name}")(course, appeal, event)

    def _due(self, course: Course, event: Event) -> bool:
        if not course.due or course.due[0][0] != event.name:
            return False
        _, wanted = course.due.pop(0)
        self._same(course, event, **wanted)
        return True

    # -- asking --------------------------------------------------------------------------------

    def _on_TaskAppealed(self, course: Course, appeal: Challenge, event: Event) -> None:
        self._hold(course, self._due(course, event), "TaskAppealed came without an appeal.")
        appeal.appellant = event.args["appellant"]
        self._purse.take(event, course.name, appeal.appellant, self._terms.appeal_bond)

    def _on_VerdictRequested(self, course: Course, appeal: Challenge, event: Event) -> None:
        self._hold(course, self._due(course, event), "a verdict was requested without an appeal.")
        verifiers, weights = list(event.args["verifiers"]), list(event.args["weights"])
        created = formulas.task_created_at(course.born, appeal.decided_at)
        voters = self._registry.voters(event, created)
        self._same(course, event, verifiers=list(voters), weights=list(voters.values()))
        total = self._record.tasks.weights.get(course.task, 0)
        what = "all that the verifiers asked weigh"
        self._part.same("tasks", course.name, what, sum(weights), total)
        appeal.weights = dict(zip(verifiers, weights, strict=False))

    # -- the verdict ---------------------------------------------------------------------------

    def _on_ResultAttested(self, course: Course, appeal: Challenge, event: Event) -> None:
        args, time = event.args, self._record.time(event)
        verifier, result = args["verifier_id"], bytes(args["result"])
        asked = verifier in appeal.weights and verifier not in appeal.voices
        open_ = appeal.result == ZERO_DIGEST and time <= appeal.deadline and not appeal.carried_out
        self._hold(course, asked and open_, f"verifier {verifier} attested when it could not.")
        self._same(course, event, weight=appeal.weights.get(verifier, 0))
        self._hold(course, result not in (ZERO_DIGEST, UNAVAILABLE), "a verifier named no result.")
        self._check_attested(course, appeal, event)
        appeal.voices[verifier] = result
        behind = [v for v, named in appeal.voices.items() if named == result]
        weight = sum(appeal.weights.get(v, 0) for v in behind)
        if 3 * weight >= 2 * sum(appeal.weights.values()) and len(behind) >= MIN_VOICES:
            appeal.result, appeal.deadline = result, time + self._terms.appeal_s
            course.due = [("VerdictGiven", {"result": result, "deadline": appeal.deadline})]

    def _check_attested(self, course: Course, appeal: Challenge, event: Event) -> None:
        """The transaction names the snapshot, which the contract keeps as a hash, and the result;
        its sender was the verifier's operator."""
        args, contract = event.args, self._record.network.appeals
        snapshot = tuple(appeal.weights), tuple(appeal.weights.values())
        said, who = False, f"verifier {args['verifier_id']}"
        for sender, values in self._record.calls(contract, "attest", _ATTEST, event):
            number, place, verifiers, weights, result = values
            if (number, bytes(result)) != (course.task, bytes(args["result"])):
                continue
            if place >= len(verifiers) or verifiers[place] != args["verifier_id"]:
                continue
            said = True
            what = "the snapshot that it attested with"
            self._part.same("tasks", course.name, what, (verifiers, weights), snapshot)
            if sender:
                operator = self._registry.operator(args["verifier_id"], event)
                self._part.same("tasks", course.name, f"who sent it for {who}", sender, operator)
            break
        sentence = f"the transaction of {who}'s attestation says something else."
        self._hold(course, said, sentence)

    def _on_VerdictGiven(self, course: Course, appeal: Challenge, event: Event) -> None:
        self._hold(course, self._due(course, event), "a verdict was given without a quorum.")

    def _on_VerdictContested(self, course: Course, appeal: Challenge, event: Event) -> None:
        time = self._record.time(event)
        open_ = self._is_standing(appeal) and time <= appeal.deadline
        self._hold(course, open_, "its verdict was contested when it could not be.")
        appeal.objector, appeal.deadline = event.args["objector"], time + self._terms.dispute_s
        self._same(course, event, bond=self._terms.appeal_bond, deadline=appeal.deadline)
        self._purse.take(event, course.name, appeal.objector, self._terms.appeal_bond)

    def _is_standing(self, appeal: Challenge) -> bool:
        return appeal.result != ZERO_DIGEST and not appeal.objector and not appeal.carried_out

    # -- the last word -------------------------------------------------------------------------

    def _on_ObjectionResolved(self, course: Course, appeal: Challenge, event: Event) -> None:
        result, bond = bytes(event.args["result"]), self._terms.appeal_bond
        open_ = bool(appeal.objector) and self._record.time(event) <= appeal.deadline
        self._hold(course, open_, "the committee decided when it was not asked.")
        upheld = result != appeal.result
        self._same(course, event, upheld=upheld)
        treasury = self._record.parameters_at(event).treasury
        self._purse.credit(event, course.name, appeal.objector if upheld else treasury, bond)
        self._expect(course, appeal, result, True)

    def _on_AppealLapsed(self, course: Course, appeal: Challenge, event: Event) -> None:
        over = self._record.time(event) > appeal.deadline and not appeal.carried_out
        lapsed = over and (appeal.result == ZERO_DIGEST or bool(appeal.objector))
        self._hold(course, lapsed, "its appeal lapsed when something was still open.")
        bond = self._terms.appeal_bond
        if appeal.result == ZERO_DIGEST:
            self._purse.credit(event, course.name, appeal.appellant, bond)
            appeal.carried_out, appeal.deadline = True, 0
            course.due = [("TaskClosed", {})]
            return
        self._purse.credit(event, course.name, appeal.objector, bond)
        self._expect(course, appeal, appeal.result, False)

    def _wrong(self, course: Course, result: bytes) -> list[int]:
        """Lanes whose results are not this one; those that aborted have none."""
        record = self._record
        tag = formulas.task_tag(record.chain_id, record.network.tasks.address, course.task, result)
        return [
            number
            for number, lane in enumerate(course.lanes)
            if lane.state != LaneState.ABORTED
            and lane.answer != (result if lane.state == LaneState.OPENED else tag)
        ]

    def _expect(self, course: Course, appeal: Challenge, result: bytes, convict: bool) -> None:
        """The last word is said: whom it slashes, and how it is told."""
        wrong = self._wrong(course, result)
        agreed = any(course.lanes[n].state != LaneState.REVEALED for n in wrong)
        overturned = agreed or (appeal.status == TaskStatus.UNDECIDED and bool(wrong))
        due: list[tuple[str, dict[str, Any]]] = []
        for number in wrong if convict else ():
            lane = course.lanes[number]
            mild = lane.state == LaneState.REVEALED
            kind = Violation.REDUNDANCY_MISMATCH if mild else Violation.COLLUSION
            due.append(("ExecutorSlashed", {"node_id": lane.node, "violation": int(kind)}))
        if convict and appeal.objector:
            liars = [v for v, named in appeal.voices.items() if named != result]
            due += [("FalseVerdictSlashed", {"verifier_id": liar}) for liar in liars]
        due.append(("TaskJudged", {"result": result, "overturned": overturned}))
        course.due = due
        appeal.overturned, appeal.convict = overturned, convict

    def _begin_end(self, course: Course, appeal: Challenge, event: Event) -> None:
        """A verdict that nobody objected to is carried out by whoever comes."""
        over = self._is_standing(appeal) and self._record.time(event) > appeal.deadline
        if not course.due and over:
            self._expect(course, appeal, appeal.result, True)

    def _on_ExecutorSlashed(self, course: Course, appeal: Challenge, event: Event) -> None:
        self._begin_end(course, appeal, event)
        node = event.args["node_id"]
        sentence = f"node {node} was slashed when somebody else was to be, or nobody."
        self._hold(course, self._due(course, event), sentence)

    def _on_FalseVerdictSlashed(self, course: Course, appeal: Challenge, event: Event) -> None:
        verifier = event.args["verifier_id"]
        sentence = f"verifier {verifier} was slashed when somebody else was to be, or nobody."
        self._hold(course, self._due(course, event), sentence)

    def _on_TaskJudged(self, course: Course, appeal: Challenge, event: Event) -> None:
        self._begin_end(course, appeal, event)
        if not self._hold(
            course, self._due(course, event), "it was judged when nothing was decided."
        ):
            course.due.clear()
        seized = sum(
            e.args["amount"]
            for e in self._record.events.get("BountyClaimed", ())
            if e.tx_hash == event.tx_hash and e.args["account"] == event.address
        )
        self._same(course, event, seized=seized)
        self._share_out(course, appeal, event, seized)
        appeal.result, appeal.deadline = bytes(event.args["result"]), 0
        appeal.carried_out = True
        course.due = [("TaskClosed", {})]

    def _share_out(self, course: Course, appeal: Challenge, event: Event, seized: int) -> None:
        """Where what was seized and the bonds go, in the contract's order."""
        result, bond, who = bytes(event.args["result"]), self._terms.appeal_bond, course.name
        self._purse.receive(event, seized)
        wrong = set(self._wrong(course, result))
        upheld = result != appeal.result
        left = seized
        if appeal.overturned:
            if appeal.convict and appeal.status == TaskStatus.AGREED:
                part = min(left, course.fee)
                left -= part
                self._purse.credit(event, who, course.creator, part)
            for number, lane in enumerate(course.lanes):
                if lane.state == LaneState.ABORTED or number in wrong:
                    continue
                part = min(left, course.fee // 2)
                left -= part
                payout = self._registry.payout(lane.node, event)
                self._purse.credit(event, who, payout, part)
        else:
            left += bond
        judges = [v for v, named in appeal.voices.items() if named == result]
        if judges:
            part = min(left, bond)
            left -= part
            each = part // len(judges)
            extra = part - each * len(judges)
            for judge in judges:
                payout = self._registry.payout(judge, event)
                self._purse.credit(event, who, payout, each + extra)
                extra = 0
        back = bond if appeal.overturned else 0
        if upheld:
            self._purse.credit(event, who, appeal.objector, left)
        else:
            back += left
        self._purse.credit(event, who, appeal.appellant, back)

    # -- what verifiers say of themselves, and the end -----------------------------------------

    def _declare(self, event: Event) -> None:
        node, classes = event.args["node_id"], event.args["classes"]
        known = classes >> len(self._pools.classes) == 0
        sentence = f"it declared the classes {classes:b}, which there are not."
        self._part.hold("tasks", known, f"node {node}", sentence)
        sender, operator = self._record.sender(event), self._registry.operator(node, event)
        what = "who declared its classes"
        self._part.same("tasks", f"node {node}", what, sender, operator)
        self._declared[node] = classes

    def check_end(self, tasks: Mapping[int, Course]) -> None:
        """Every appeal as the contract keeps it, and the classes that verifiers declared."""
        state, part = self._record.tasks, self._part
        for number, kept in state.appeals.items():
            course = tasks.get(number)
            appeal = None if course is None else course.appeal
            if course is None or appeal is None:
                part.differ("tasks", f"task {number}", "its appeal is told by no event.")
                continue
            wanted = {
                "appellant": appeal.appellant,
                "status": appeal.status,
                "decided_at": appeal.decided_at,
                "deadline": appeal.deadline,
                "result": appeal.result,
                "overturned": appeal.overturned and appeal.carried_out,
                "objector": appeal.objector or "0x" + "00" * 20,
            }
            for name, value in wanted.items():
                what = f"the {name} of its appeal as the contract keeps it"
                part.same("tasks", course.name, what, getattr(kept, name), value)
            spoken = {
                place: verifier in appeal.voices for place, verifier in enumerate(appeal.weights)
            }
            marks = {place: state.attested.get((number, place)) for place in spoken}
            part.same("tasks", course.name, "which verifiers have spoken", marks, spoken)
        for node in state.declared.keys() | self._declared.keys():
            classes, said = state.declared.get(node, 0), self._declared.get(node, 0)
            part.same("tasks", f"node {node}", "the classes it declared", classes, said)
