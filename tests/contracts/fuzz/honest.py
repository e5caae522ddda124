# SPDX-License-Identifier: Apache-2.0
"""What honest people do, as their agents do it: each as soon as it can, whatever the others do.

`wanted` names the transactions that honest people have in their hands at this moment, in an order
in which they may arrive. Hostile ones may come before any of them, but no block passes before all
that were wanted are in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from tests.contracts.fuzz.machine import Struct
from tests.contracts.fuzz.run import (
    CPU,
    GOOD_SPECS,
    UNAVAILABLE,
    Person,
    Round,
    Run,
    right_content,
    right_model,
    right_result,
)
from tests.stage.contracts.clock import BLOCK_SECONDS
from tests.stage.contracts.scores import median, scores_digest
from tests.stage.contracts.system import (
    AGGREGATE,
    CHALLENGE,
    COMMIT,
    COMMIT_DOMAIN,
    DISPUTED,
    INVALID,
    REVEAL,
    ZOO,
)
from tests.stage.contracts.tasks import (
    AGREED,
    APPEALED,
    CLOSED,
    DECIDED,
    DRAWING,
    LANE_COMMITTED,
    LANE_REVEALED,
    LANE_RUNNING,
    REVEALING,
    RUNNING,
    TAG_DOMAIN,
)
from tests.stage.contracts.tasks import COMMIT_DOMAIN as TASK_DOMAIN

Call = tuple[str, str, tuple[Any, ...]]

OPEN, CONFIRMED, REPORT_APPEALED, EXECUTED = 1, 2, 3, 4
SALT = keccak(text="salt")
INPUT, TRACE = keccak(text="input"), keccak(text="trace")
EVIDENCE = keccak(text="evidence")
ANNOUNCE_DOMAIN = keccak(text="menagerie.announcements.v1")
UPDATE, REPORT, RECORD = (keccak(text=t) for t in ("update", "report", "record"))
FEE = 2 * ZOO
FINDERS_DEPOSIT = 500 * ZOO  # half of a stake: the most that a finder can earn
RUN_S = 600
TASKS = 3
# Honest agents leave jobs that pay next to nothing, and watch so many at once.
LEAST_REWARD = ZOO
WATCHED = 3
MANY = 300


def work_digest(run: Run, job: int, number: int, node: int, operator: str, content: bytes) -> bytes:
    """A trainer's commitment, from its definition."""
    return keccak(
        encode(
            ["bytes32", "uint256", "address"] + ["uint256"] * 3 + ["address"] + ["bytes32"] * 4,
            [
                COMMIT_DOMAIN,
                1,
                run.machine.addresses["rounds"],
                job,
                number,
                node,
                operator,
                INPUT,
                content,
                TRACE,
                SALT,
            ],
        )
    )


def tag(run: Run, task: int, result: bytes) -> bytes:
    """A result's tag, from its definition."""
    return keccak(
        encode(
            ["bytes32", "uint256", "address", "uint256", "bytes32"],
            [TAG_DOMAIN, 1, run.machine.addresses["tasks"], task, result],
        )
    )


def answer_digest(run: Run, task: int, node: int, operator: str, spec: bytes, mark: bytes) -> bytes:
    """An executor's commitment, from its definition."""
    return keccak(
        encode(
            ["bytes32", "uint256", "address", "uint256", "uint256", "address"] + ["bytes32"] * 3,
            [
                TASK_DOMAIN,
                1,
                run.machine.addresses["tasks"],
                task,
                node,
                operator,
                spec,
                mark,
                SALT,
            ],
        )
    )


def row_digest(run: Run, job: int, number: int, node: int, operator: str, row: list[int]) -> bytes:
    """A verifier's commitment to its scores."""
    scores = run.machine.addresses["scores"]
    return scores_digest(1, scores, job, number, node, operator, row, RECORD, SALT)


def announcement(
    run: Run, contract: str, seen: Round, what: int, finder: int, evidence: bytes
) -> bytes:
    """What a finder announces before it reports or challenges, from its definition."""
    return keccak(
        encode(
            ["bytes32", "uint256", "address"] + ["uint256"] * 4 + ["bytes32"],
            [
                ANNOUNCE_DOMAIN,
                1,
                run.machine.addresses[contract],
                *seen.key,
                what,
                finder,
                evidence,
            ],
        )
    )


def proof_of(finder: int) -> bytes:
    """A finder's evidence, which nobody else can guess."""
    return keccak(text=f"evidence of {finder}")


class Honest:
    """The honest people of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ask = run.ask
        self.closing = False
        self._tried: set[tuple[int, str]] = set()
        self._tasks = 0
        self._closed: set[int] = set()
        self._queued: dict[bytes, int] = {}

    # Playing

    def step(self) -> bool:
        """Sends the first transaction that is wanted; whether one went through."""
        return any(self._send(call) for call in self.wanted())

    def turn(self) -> bool:
        """A block: sends everything that is wanted now, and not what is wanted only after it;
        whether anything went through."""
        sent = [self._send(call) for call in list(self.wanted())]
        self.run.machine.mine(1, BLOCK_SECONDS)
        return any(sent)

    def wait(self, seconds: int) -> None:
        """Time passes, block by block where something is to do; honest people miss nothing."""
        machine = self.run.machine
        end = machine.time + seconds
        for _ in range(MANY):
            seen = machine.time
            idle = not self.turn() and not self._awaits_seed()
            if machine.time >= end:
                return
            if idle:
                due = [at + 1 for at in self.deadlines() if at + 1 > seen]
                machine.mine(1, max(0, min([end, *due]) - machine.time))

    def until_due(self) -> None:
        """Time passes to the first second in which honest people may act again: hostile people can
        be faster in it."""
        machine = self.run.machine
        for _ in range(MANY):
            seen = machine.time
            if not self.turn() and not self._awaits_seed():
                # The idle turn's block may have passed a deadline.
                due = [at + 1 for at in self.deadlines() if at + 1 > seen]
                if due:
                    machine.mine(1, max(0, min(due) - machine.time))
                return

    def _send(self, call: Call) -> bool:
        mark = (self.run.machine.time, repr(call))
        if mark in self._tried:
            return False
        self._tried.add(mark)
        return self.run.send(call[0], call[1], *call[2]).ok

    def deadlines(self) -> Iterator[int]:
        """Times after which somebody honest has something to do."""
        for seen in self._open_rounds():
            state = self.ask("rounds.round", *seen.key)
            yield int(state.deadline)
            if self.ask("scores.adopted", seen.job):
                scoring = self.ask("scores.scoring", *seen.key)
                yield int(scoring.commit_deadline)
                yield int(scoring.reveal_deadline)
        # An operation may be executed at its time, not after it.
        yield from (eta - 1 for eta in self._queued.values())
        for report in self.run.reports:
            state = self.ask("reports.report_of", report)
            if state.status in (CONFIRMED, REPORT_APPEALED):
                yield int(state.deadline)
        for task, state in self._live_tasks():
            if state.status in (RUNNING, REVEALING, DECIDED):
                yield int(state.time)
            elif state.status == APPEALED:
                yield int(self.ask("appeals.appeal_of", task).deadline)

    def _awaits_seed(self) -> bool:
        """Whether a draw or a seed is a block or two away."""
        for seen in self._open_rounds():
            state = self.ask("rounds.round", *seen.key)
            if state.phase == COMMIT and self.run.machine.block <= state.seed_block:
                return True
        for _, state in self._live_tasks():
            if state.status == DRAWING and self.run.machine.block <= state.seed_block:
                return True
        return False

    def busy(self) -> bool:
        """Whether something is still to be decided."""
        if any(True for _ in self._open_rounds()):
            return True
        for report in self.run.reports:
            if self.ask("reports.report_of", report).status in (CONFIRMED, REPORT_APPEALED):
                return True
        return any(
            state.status in (DRAWING, RUNNING, REVEALING, DECIDED, APPEALED)
            for _, state in self._live_tasks()
        )

    # Wishes

    def _live_tasks(self) -> Iterator[tuple[int, Struct]]:
        """The tasks that are not closed."""
        for task in self.run.tasks:
            if task not in self._closed:
                state = self.ask("tasks.task", task)
                if state.status == CLOSED:
                    self._closed.add(task)
                else:
                    yield task, state

    def wanted(self) -> Iterator[Call]:
        """What honest people would send now."""
        for seen in self._open_rounds():
            yield from self._in_round(seen)
        for report in self.run.reports:
            yield from self._on_report(report)
        for seen in self.run.rounds.values():
            if seen.ended not in ("", "finalized"):
                yield from self._in_void_round(seen)
        for task, state in self._live_tasks():
            yield from self._in_task(task, state)
        if not self.closing:
            yield from self._new_rounds()
            yield from self._new_task()

    def _open_rounds(self) -> Iterator[Round]:
        for job, number in self.run.newest.items():
            seen = self.run.rounds.get((job, number))
            if seen is not None and not seen.ended:
                yield seen

    def _new_rounds(self) -> Iterator[Call]:
        watched = 0
        for job in self.run.jobs:
            seen = self.run.rounds.get((job, self.run.newest[job]))
            if seen is not None and not seen.ended:
                watched += 1
                continue
            state = self.ask("jobs.job", job)
            reward = state.terms.reward_per_round
            if state.status != 1 or state.cancel_requested or watched >= WATCHED:
                continue
            watched += 1
            if LEAST_REWARD <= reward <= self.ask("pool.escrow", job):
                sender = self.run.role("verifier")[0].operator
                yield sender, "rounds.open_round", (job,)

    def _new_task(self) -> Iterator[Call]:
        for creator in self.run.role("creator"):
            if self._tasks >= TASKS:
                return
            if any(
                state.status in (DRAWING, RUNNING, REVEALING) for _, state in self._live_tasks()
            ):
                return
            self._tasks += 1
            spec = GOOD_SPECS[self._tasks % len(GOOD_SPECS)]
            yield creator.owner, "tasks.create_task", (CPU, spec, FEE, RUN_S)

    # Rounds

    def _in_round(self, seen: Round) -> Iterator[Call]:
        run, job, number = self.run, seen.job, seen.number
        state = self.ask("rounds.round", job, number)
        late = run.machine.time > state.deadline
        anybody = run.role("verifier")[0].operator
        trainers = [p for p in run.role("trainer") if p.node in seen.nodes]
        if state.phase == COMMIT:
            if late:
                yield anybody, "rounds.advance", seen.key
                return
            if not state.n_eligible:
                yield anybody, "rounds.seat", (*seen.key, *seen.candidates)
                return
            for p in trainers:
                if p.node not in seen.committed and run.machine.block > state.seed_block:
                    content = right_content(job, number, p.node)
                    digest = work_digest(run, job, number, p.node, p.operator, content)
                    yield p.operator, "rounds.commit", (job, number, p.node, digest)
            return
        if state.phase == REVEAL:
            if late:
                yield anybody, "rounds.advance", seen.key
                return
            for p in trainers:
                if p.node in seen.committed and p.node not in seen.revealed:
                    content = right_content(job, number, p.node)
                    opening = (job, number, p.node, INPUT, content, TRACE, SALT, EVIDENCE)
                    yield p.operator, "rounds.reveal", opening
            return
        for node in seen.committed:
            if node not in seen.revealed:
                yield anybody, "rounds.slash_unrevealed", (job, number, node)
        if self.ask("scores.adopted", job):
            yield from self._scores(seen)
        if state.phase == AGGREGATE:
            yield from self._propose(seen, late)
        elif state.phase == CHALLENGE:
            yield from self._check(seen, state, late)
        elif state.phase == DISPUTED:
            if late:
                yield anybody, "results.advance", seen.key
            else:
                yield from self._judge(seen, state)
                args = (job, number, state.result_hash, not run.is_right(seen))
                yield from self._decide("results.resolve_challenge", args, seen.disputed_at)

    def _propose(self, seen: Round, late: bool) -> Iterator[Call]:
        run = self.run
        duty = self.ask("results.aggregator_on_duty", *seen.key)
        if late:
            yield run.role("verifier")[0].operator, "results.advance", seen.key
        nodes = [
            n for n in run.right_nodes(seen) if not self.ask("results.is_invalid", *seen.key, n)
        ]
        for p in [*run.role("aggregator"), *run.role("verifier"), *run.role("trainer")]:
            if duty in (0, p.node):
                made = (right_model(*seen.key), UPDATE, REPORT, nodes, [1] * len(nodes))
                yield p.operator, "results.propose_result", (*seen.key, p.node, *made)

    def _check(self, seen: Round, state: Struct, late: bool) -> Iterator[Call]:
        run, key = self.run, seen.key
        assert seen.proposal is not None
        shares = (seen.proposal.fields["nodes"], seen.proposal.fields["contributions"])
        if late:
            yield run.role("verifier")[0].operator, "results.finalize", (*key, *shares)
            return
        yield from self._judge(seen, state)
        if run.is_right(seen) and self.ask("results.can_finalize", *key):
            yield run.role("verifier")[0].operator, "results.finalize", (*key, *shares)

    def _announced(self, contract: str, digest: bytes) -> int | None:
        """In which block something was announced; 0 once that was opened."""
        scope = self.run.announced.get(digest)
        return None if scope is None else int(self.ask(f"{contract}.announced_in", scope, digest))

    def _challenge(self, seen: Round, state: Struct) -> Iterator[Call]:
        """A wrong result is challenged in the block after it was announced; whoever announced it
        and was slower opens its announcement."""
        run, result = self.run, state.result_hash
        for p in run.role("verifier"):
            finder = int(p.operator, 16)
            what = int.from_bytes(result, "big")
            digest = announcement(run, "results", seen, what, finder, proof_of(finder))
            made = self._announced("results", digest)
            if made is None and "results.announce_challenge" in run.machine.functions:
                if state.phase == CHALLENGE:
                    yield p.operator, "results.announce_challenge", (digest,)
            elif made != run.machine.block and (made or state.phase == CHALLENGE):
                args = (*seen.key, result, proof_of(finder))
                yield p.operator, "results.challenge", args

    def _judge(self, seen: Round, state: Struct) -> Iterator[Call]:
        """Reports, challenges and attestations, also while a result is disputed."""
        run, key = self.run, seen.key
        verifiers = [p for p in run.role("verifier") if p.node in seen.verifiers]
        right = run.right_nodes(seen)
        for node in seen.revealed:
            if node in right:
                continue
            invalid = self.ask("results.is_invalid", *key, node)
            said = self.ask(
                "reports.reporters", self.ask("reports.report_id_of", *key, node, INVALID)
            )
            for p in verifiers:
                proof = proof_of(p.node)
                digest = announcement(run, "reports", seen, node, p.node, proof)
                made = self._announced("reports", digest)
                if invalid:
                    continue
                if made is None and "reports.announce_report" in run.machine.functions:
                    announced = (*key, p.node, digest, FINDERS_DEPOSIT)
                    yield p.operator, "reports.announce_report", announced
                elif made != run.machine.block and p.node not in said:
                    yield p.operator, "reports.report", (*key, p.node, node, INVALID, proof)
        if run.is_right(seen):
            for p in verifiers:
                if p.node not in seen.attested.get(state.result_hash, ()):
                    yield p.operator, "results.attest", (*key, p.node, state.result_hash)
        else:
            yield from self._challenge(seen, state)

    def row(self, seen: Round) -> list[int]:
        """The scores that an honest verifier gives: as much for each right work."""
        right = self.run.right_nodes(seen)
        return [1_000 if node in right else 0 for node in seen.nodes]

    def _scores(self, seen: Round) -> Iterator[Call]:
        run, (job, number) = self.run, seen.key
        scoring = self.ask("scores.scoring", *seen.key)
        row = self.row(seen)
        for p in run.role("verifier"):
            if p.node not in seen.verifiers:
                continue
            if scoring.phase <= 1:
                digest = row_digest(run, job, number, p.node, p.operator, row)
                yield p.operator, "scores.commit_scores", (job, number, p.node, digest)
            elif scoring.phase == 2:
                args = (job, number, p.node, row, RECORD, SALT)
                yield p.operator, "scores.reveal_scores", args
        if scoring.closable:
            sender = run.role("verifier")[0].operator
            yield (
                sender,
                "scores.close_scoring",
                (*seen.key, seen.nodes, seen.weights, self.consensus(seen)),
            )

    def consensus(self, seen: Round) -> list[int]:
        """The medians of the scores that were revealed."""
        rows = {
            e.fields["verifier_id"]: list(e.fields["scores"])
            for _, e in self.run.log
            if e.name == "ScoresRevealed" and (e.fields["job_id"], e.fields["round_id"]) == seen.key
        }
        if not rows:
            return [0] * len(seen.nodes)
        stakes = [seen.verifiers[v] for v in rows]
        return median(list(rows.values()), stakes, sum(seen.verifiers.values()))

    # Reports

    def guilty(self, report: bytes) -> bool:
        """Whether a reported node did wrong."""
        f = self.run.reports[report].fields
        seen = self.run.rounds[f["job_id"], f["round_id"]]
        return f["node_id"] not in self.run.right_nodes(seen)

    def _on_report(self, report: bytes) -> Iterator[Call]:
        run = self.run
        state = self.ask("reports.report_of", report)
        late = run.machine.time > state.deadline
        victim = run.by_node.get(state.node_id)
        if state.status in (CONFIRMED, REPORT_APPEALED, EXECUTED):
            yield from self._open_late(state)
        elif state.status == OPEN and run.rounds[state.job_id, state.round_id].ended:
            yield run.role("verifier")[0].operator, "reports.lapse", (report,)
        if state.status == CONFIRMED:
            if late:
                yield run.role("verifier")[0].operator, "reports.execute", (report,)
            elif victim is not None and victim in run.good and not self.guilty(report):
                for sender in (victim.operator, victim.owner):
                    yield sender, "reports.appeal", (report, EVIDENCE)
        elif state.status == REPORT_APPEALED:
            if late:
                yield run.role("verifier")[0].operator, "reports.dismiss_unresolved", (report,)
            else:
                args = (report, not self.guilty(report))
                yield from self._decide("reports.resolve_appeal", args, state.deadline)

    def _open_late(self, report: Struct) -> Iterator[Call]:
        """Whoever announced a node that others have convicted has its deposit back."""
        seen = self.run.rounds[report.job_id, report.round_id]
        for p, _ in self._announcers(seen, report.node_id):
            late_one = (*seen.key, p.node, report.node_id, proof_of(p.node))
            yield p.operator, "reports.open_announcement", late_one

    def _in_void_round(self, seen: Round) -> Iterator[Call]:
        """Nobody was convicted there: whoever announced a node has its deposit back."""
        for node in seen.revealed:
            for p, digest in self._announcers(seen, node):
                yield p.operator, "reports.expire_announcement", (*seen.key, p.node, digest)

    def _announcers(self, seen: Round, node: int) -> Iterator[tuple[Person, bytes]]:
        """The verifiers whose announcement of a node is not opened, and their digests."""
        for p in self.run.role("verifier"):
            digest = announcement(self.run, "reports", seen, node, p.node, proof_of(p.node))
            if self._announced("reports", digest):
                yield p, digest

    # The committee

    def _decide(self, title: str, args: tuple[Any, ...], occasion: int) -> Iterator[Call]:
        """The steps of honest members that have a call made, each when it is due."""
        function = self.run.machine.functions[title]
        target = self.run.machine.addresses[function.contract]
        salt = occasion.to_bytes(32, "big")
        call = (target, function.data(args), salt)
        operation = bytes(self.ask("coordinator.operation_id", *call))
        members = [p.owner for p in self.run.role("member")]
        state = self.ask("coordinator.operation", operation)
        if not state.proposed_at:
            yield members[0], "coordinator.propose", call
        elif not state.eta:
            for member in members:
                if not self.ask("coordinator.has_approved", operation, member):
                    yield member, "coordinator.approve", (operation,)
        else:
            self._queued[operation] = state.eta
            if self.run.machine.time >= state.eta:
                yield members[0], "coordinator.execute", (operation,)

    # Tasks

    def _in_task(self, task: int, state: Struct) -> Iterator[Call]:
        run = self.run
        late = run.machine.time > state.time
        anybody = run.role("executor")[0].operator
        right = right_result(state.spec)
        if state.status == DRAWING:
            if run.machine.block > state.seed_block:
                yield anybody, "tasks.draw", (task,)
        elif state.status == RUNNING:
            if late:
                yield anybody, "tasks.advance", (task,)
            for lane, p in self._mine(state, LANE_RUNNING):
                mark = tag(run, task, right)
                digest = answer_digest(run, task, p.node, p.operator, state.spec, mark)
                yield p.operator, "tasks.commit", (task, lane, digest)
        elif state.status == REVEALING:
            if late:
                yield anybody, "tasks.advance", (task,)
            mark = tag(run, task, right)
            shown = (LANE_REVEALED, mark) in zip(state.states, state.answers, strict=True)
            for lane, p in self._mine(state, LANE_COMMITTED):
                result = right if shown else bytes(32)
                yield p.operator, "tasks.reveal", (task, lane, mark, result, SALT)
        elif state.status in (AGREED, DECIDED):
            yield from self._decided(task, state, right, late)
        elif state.status == APPEALED:
            yield from self._appealed(task, state, right)

    def _appealed(self, task: int, state: Struct, right: bytes) -> Iterator[Call]:
        run = self.run
        appeal = self.ask("appeals.appeal_of", task)
        late = run.machine.time > appeal.deadline
        anybody = run.role("executor")[0].operator
        verifiers = run.role("verifier")
        if int(appeal.objector, 16):
            if late:
                yield anybody, "appeals.lapse", (task,)
            elif right != UNAVAILABLE:
                yield from self._decide("appeals.resolve", (task, right), appeal.deadline)
        elif any(appeal.result):
            if late:
                yield anybody, "appeals.finalize", (task,)
            elif appeal.result != right:
                executors = [run.by_node[n] for n in state.nodes if n in run.by_node]
                for p in (*verifiers, *(p for p in executors if p in run.good)):
                    yield p.operator, "appeals.contest", (task,)
        elif late:
            yield anybody, "appeals.lapse", (task,)
        elif right != UNAVAILABLE:
            nodes, weights = run.verdicts[task]
            for p in verifiers:
                if p.node in nodes:
                    place = nodes.index(p.node)
                    yield p.operator, "appeals.attest", (task, place, nodes, weights, right)

    def _mine(self, state: Struct, lane_state: int) -> Iterator[tuple[int, Person]]:
        for lane, node in enumerate(state.nodes):
            p = self.run.by_node.get(node)
            if state.states[lane] == lane_state and p is not None and p in self.run.good:
                yield lane, p

    def _decided(self, task: int, state: Struct, right: bytes, late: bool) -> Iterator[Call]:
        run = self.run
        if not late and self.ask("tasks.result_of", task) not in (right, UNAVAILABLE):
            hurt = [p for p in run.good if state.creator in p.addresses]
            hurt += [p for _, p in self._mine(state, LANE_REVEALED)]
            for p in hurt:
                for sender in dict.fromkeys((p.operator, p.owner)):
                    yield sender, "appeals.appeal", (task,)
        if late and state.status == DECIDED:
            yield run.role("executor")[0].operator, "tasks.finalize", (task,)
