# SPDX-License-Identifier: Apache-2.0
"""A committee member: signs only what its own recomputation confirms.

    a role asked for by a trusted owner   approve it, once the node's number is its own for good
    a challenged result                   recompute the round, uphold or reject
    an appealed report                    re-execute the node's task, uphold or reject
    a contested verdict on a task         run the task, name its result
    a judged benchmark                    check it again, overrule a false verdict, condemn
                                          invented work
    a validator's scores                  measure them again, overrule a false vector
    a model at a checkpoint               recompute its rounds, attest it

Cases of every job are decided, whichever job the member's settings name. One process per member.
Challenges come first, those that take least before others, then appeals: they have deadlines. A
result that takes longer to recompute than half of its dispute window is begun when nothing else is
to do in the step. It is not begun if all agents leave its job for that (`agents.jobs.judgeable`):
else a sponsor who works in such a job alone would keep members from all other cases for days. How
long one takes is reckoned by its job's spec and by this member's own speed
(`agents.verify.own_speed`).
For each case all honest members derive the same operation. One proposes it, each serves its EIP-712
signature on its board, and who has collected enough relays them; a member without peers approves
on chain. Where a change of members made a quorum of the approvals that are on chain already, one
has it queued. After the timelock one executes. Where nobody did in time, the ruling is proposed
again (`agents.verify.renewal`). Which member proposes, relays, queues or executes is drawn for each
operation, and the next one takes its place where it does not (`agents.runtime.one_by_one`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from agents.jobs.specs_beside import SpecComing
from agents.nodes.benchmark_disputes import BenchmarkDisputes
from agents.protocol.network import Network
from agents.protocol.structs import Operation, Report, read
from agents.protocol.view import View, observe
from agents.runtime.board import SignatureBoard, collect
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.errors import ConfigError, JournalError, Reverted, Stopped, WalletError
from agents.runtime.faults import crashpoint
from agents.runtime.one_by_one import OneByOne
from agents.runtime.pace import stretched
from agents.runtime.transaction import Order
from agents.runtime.wallet import recover_typed
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.tasks.dispute import TaskDisputes
from agents.verify.long_cases import LongCases
from agents.verify.own_speed import OwnSpeed
from agents.verify.renewal import Standing, command, standing
from agents.verify.rulings import (
    Ruling,
    appeal_rulings,
    attestation_rulings,
    benchmark_rulings,
    challenge_ruling,
    role_rulings,
    score_rulings,
    task_rulings,
)

if TYPE_CHECKING:
    from agents.gauntlet.disputes import FalseScores, ScoreDisputes
    from agents.rounds.member_access import MemberAccess
    from agents.verify.attesting import Attestation, Attesting
    from agents.verify.judging import Judge, Work

_PROPOSED, _QUEUED = 1, 2
_EXECUTE = "execute"
_TYPES = {"Approval": [{"name": "op_id", "type": "bytes32"}]}
_GIVE_UP = 0.5  # of the dispute window: how long a missing artefact is waited for
_APART_S = 2.0  # from member to member who may send the same; two blocks, where these take longer
_BOARD_PATIENCE_S = 10.0  # without enough signatures from the boards: approve on chain
_MOST = 0.5  # of the dispute window: a challenged result that takes longer to recompute comes last
_JUDGES = 4  # jobs whose models are kept in memory

T = TypeVar("T")


@dataclass(frozen=True)
class Deed:
    """A transaction for an operation. `done`: whether it has nothing left to do, after a refusal.
    `why` is for people."""

    order: Order
    done: Callable[[], bool]
    why: str


@dataclass(frozen=True)
class _Reckoned:
    """What is known of a challenged result before it is begun, in seconds. `takes`: to recompute it
    at the usual speed. `window`: for which it is disputed. `refused`: agents leave its job, whose
    results can't be recomputed in time at that speed."""

    takes: float
    window: int
    refused: bool


class Coordinator:
    """One committee member, as a function of the chain."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.store = store
        self.network = Network(context.chain, context.deployment)
        settings = context.settings.coordinator
        self.board = SignatureBoard(
            context.wallet.address, settings.board_host, settings.board_port, context.log
        )
        self.disputes = TaskDisputes(self.network, context, context.settings.device)
        self.benchmarks = BenchmarkDisputes(self.network, context, store)
        self._scores: ScoreDisputes | None = None
        self._since: dict[bytes, float] = {}
        apart_s = _APART_S if context.settings.jitter_s else 0.0
        self._one_by_one = OneByOne(context.wallet.address, apart_s)
        self._judges: dict[int, Judge] = {}
        self._attesting: Attesting | None = None
        self._no_word: dict[Work, bool] = {}
        self._reckoned: dict[tuple[int, int], _Reckoned] = {}
        self._cases = LongCases()
        self._speed = OwnSpeed()
        self._said: set[str] = set()
        self._error: Exception | None = None
        self._member: bool | None = None  # as the contract had it in the last step

    def judge(self, job_id: int) -> Judge:
        """The recomputation of a job, made for its first case. Loads torch, which a member without
        a case never needs."""
        if job_id not in self._judges:
            while len(self._judges) >= _JUDGES:
                del self._judges[next(iter(self._judges))]
            from agents.training.determinism import pin_torch
            from agents.verify.judging import Judge

            pin_torch()
            self._judges[job_id] = Judge(
                self.network,
                self.store,
                self.context.settings.device,
                partial(self._say, job_id),
                self.access,
                no_word=self._no_word,
            )
        return self._judges[job_id]

    @cached_property
    def access(self) -> MemberAccess:
        """What this member can read of encrypted data and sealed payloads."""
        from agents.rounds.member_access import MemberAccess

        return MemberAccess(self.network, self.store, self.context)

    def step(self, head: Head) -> str | None:
        """The single next action."""
        if not self._is_member():
            return None
        self._error = None
        self._cases.begin()
        for rulings in self._rulings(head):
            try:
                did = self._carry_out(rulings, head)
            except Reverted as error:
                self._error = error  # it holds up no other case
                continue
            if did is not None:
                return did
        if self._error is not None:
            raise self._error
        return None

    def _is_member(self) -> bool:
        """Whether the committee has this key. Says so where it does not, or does no longer."""
        address = self.context.wallet.address
        found = self.context.chain.call(self.network.coordinator, "is_member", address)
        member = read(bool, found)
        if member != self._member:
            if member:
                self.context.log.info("member", address=address)
            else:
                self.context.log.warning(
                    "not_a_member",
                    why=f"the committee does not have {address}, which decides nothing until its "
                    f"members add it: `ape run committee propose members --add {address}`",
                )
        self._member = member
        return member

    # -- what to decide ------------------------------------------------------------------------

    def _rulings(self, head: Head) -> Iterator[list[Ruling]]:
        """The cases of all jobs, whichever job `job_id` names, in groups: what each case of a group
        takes is little, or has been computed."""
        trusted = self.context.settings.coordinator.trusted_owners
        yield list(role_rulings(self.network, trusted, head))
        contested = self.disputes.step(head)
        yield list(task_rulings(self.network, contested, self.disputes.result))
        put_off: list[tuple[int, int]] = []
        for job_id, number in self._disputed(head):
            ruling = self._tried(job_id, partial(self._challenge, head, job_id, number))
            if ruling is not None:
                yield [ruling]
            elif self._is_too_long(job_id, number) and not self._reckoned[job_id, number].refused:
                put_off.append((job_id, number))
        for ruling in appeal_rulings(
            self.network,
            head,
            lambda report_id, report: self._tried(
                report.job_id, partial(self._innocent, head, report_id, report)
            ),
        ):
            yield [ruling]
        if self._cases.spent:
            return  # what has come up meanwhile is looked at first
        found = self._tried(None, partial(self.benchmarks.step, head))
        yield list(benchmark_rulings(self.network, found or []))
        false = self._tried(None, partial(self._false_scores, head))
        yield list(score_rulings(self.network, false or []))
        if self.context.settings.coordinator.attest:
            due = self._tried(None, partial(self._attestations, head, not put_off))
            yield list(attestation_rulings(self.network, due or []))
        for job_id, number in put_off:
            last = partial(self._challenge, head, job_id, number, last=True)
            ruling = self._tried(job_id, last)
            if ruling is not None:
                yield [ruling]
        self._cases.end()

    def _false_scores(self, head: Head) -> list[FalseScores]:
        """Validators' vectors that public bytes deny. Loads torch, which a member of a network
        without such a job never needs."""
        if self._scores is None:
            if not self.network.scored_jobs():
                return []
            from agents.gauntlet.disputes import ScoreDisputes
            from agents.training.determinism import pin_torch
            from agents.training.local import device_of

            pin_torch()
            device = device_of(self.context.settings.device)
            self._scores = ScoreDisputes(self.network, self.store, device, self._not_kept)
        return self._scores.step(head)

    def _tried(self, job_id: int | None, judge: Callable[[], T]) -> T | None:
        """A verdict; None if it failed. A case that can't be judged holds up no other: what it
        failed at is said once, and raised when nothing else was to do."""
        try:
            return judge()
        except (Stopped, ConfigError, WalletError, JournalError):
            raise
        except SpecComing:
            return None
        except Exception as error:
            self._error = error
            self._say(job_id, f"{type(error).__name__}: {error}")
            return None

    def _attestations(self, head: Head, idle: bool) -> list[Attestation]:
        """What is to be attested. `idle`: no challenged result waits."""
        if self._attesting is None:
            if not self.network.ledger_heads():
                return []  # torch is not loaded before it is needed
            from agents.verify.attesting import Attesting

            most_s = 3_600 * self.context.settings.coordinator.attest_hours
            self._attesting = Attesting(
                self.network, self._reading, self._no_attestation, most_s, speed=self._speed
            )
        return self._attesting.step(head, idle)

    def _reading(self, job_id: int) -> Judge:
        """As `judge`; the member has named the key under which it is given what the job hides."""
        self.access.step(job_id)
        return self.judge(job_id)

    def _no_attestation(self, job_id: int, why: str) -> None:
        if (sentence := f"attest job {job_id}: {why}") not in self._said:
            self._said.add(sentence)
            self.context.log.warning("not_attested", job=job_id, why=why)

    def _not_kept(self, why: str) -> None:
        self.context.log.warning("not_kept", why=why)

    def _say(self, job_id: int | None, why: str) -> None:
        """Log once why there is no verdict."""
        if why not in self._said:
            self._said.add(why)
            self.context.log.warning("cannot_judge", job=job_id, why=why)

    def _disputed(self, head: Head) -> list[tuple[int, int]]:
        """(job, round) of every challenged result, those first that take least to recompute."""
        found = self.network.disputed()
        for place in found:
            if place not in self._reckoned:
                reckoned = self._tried(place[0], partial(self._reckon, head, *place))
                if reckoned is not None:
                    self._reckoned[place] = reckoned
        self._reckoned = {one: self._reckoned[one] for one in found if one in self._reckoned}
        return sorted(self._reckoned, key=lambda place: (self._takes(*place), place))

    def _reckon(self, head: Head, job_id: int, number: int) -> _Reckoned:
        self.access.step(job_id)
        view = observe(self.network, job_id, head, number)
        judge = self.judge(job_id)
        return _Reckoned(judge.takes_s(view), view.job.terms.dispute_s, judge.is_refused(view))

    def _takes(self, job_id: int, number: int) -> float:
        """Seconds that this member takes to recompute a challenged result."""
        return self._speed.expected(job_id, self._reckoned[job_id, number].takes)

    def _is_too_long(self, job_id: int, number: int) -> bool:
        """Whether a challenged result comes last; says so once."""
        takes, reckoned = self._takes(job_id, number), self._reckoned[job_id, number]
        if takes <= _MOST * reckoned.window:
            return False
        disputed = f"and is disputed for {reckoned.window / 3_600:g}"
        so = "not begun, since all agents leave such a job" if reckoned.refused else "begun last"
        why = (
            f"the challenged result of round {number} takes {takes / 3_600:.3g} hours to "
            f"recompute, {disputed}: it is {so}"
        )
        self._say(job_id, why)
        return True

    def _challenge(self, head: Head, job_id: int, number: int, last: bool = False) -> Ruling | None:
        """The ruling on a challenged result. `last`: nothing else is to do in this step."""
        self.access.step(job_id)
        view = observe(self.network, job_id, head, number)
        case = "challenge", job_id, number, view.round.result_hash, view.round.deadline
        if not (last or self._cases.knows(case)) and self._is_too_long(job_id, number):
            return None
        judge = partial(self._result_errors, view)
        return challenge_ruling(
            self.network, view, lambda: self._cases.judged(case, judge, final=last)
        )

    def _result_errors(self, view: View) -> list[str] | None:
        window = view.job.terms.dispute_s
        left = (view.round.deadline - view.now) / window
        patient = left > 1 - _GIVE_UP
        judge = partial(self.judge(view.job_id).result_errors, view, patient=patient)
        place = view.job_id, view.round_id
        return self._speed.timed(*place, self._reckoned[place].takes, judge)

    def _innocent(self, head: Head, report_id: bytes, report: Report) -> bool | None:
        self.access.step(report.job_id)
        view = observe(self.network, report.job_id, head, report.round_id)
        # The seed too: another one, after a reorg, makes another task of the same report.
        case = report_id, view.round.seed
        return self._cases.judged(
            case,
            lambda: self.judge(report.job_id).is_innocent(view, report.node_id),
            final=True,
        )

    # -- carrying it out -----------------------------------------------------------------------

    def _carry_out(self, rulings: list[Ruling], head: Head) -> str | None:
        """Send the next step of each, together; what was done."""
        deeds = [deed for ruling in rulings if (deed := self._deed(ruling, head)) is not None]
        outcomes = self.context.sender.send_all([deed.order for deed in deeds])
        for deed, outcome in zip(deeds, outcomes, strict=True):
            if isinstance(outcome, Reverted) and not deed.done():
                raise outcome
        return "; ".join(deed.why for deed in deeds) or None

    def _deed(self, ruling: Ruling, head: Head) -> Deed | None:
        """What this member has to send for a ruling now."""
        contract, now = self.network.coordinator, standing(self.network, ruling)
        ruling, op_id, state = now.ruling, now.op_id, now.state
        for expired in now.expired:
            self.board.withdraw(expired)
        if now.why_left is not None:
            self.board.withdraw(op_id)
            self._leave(now, now.why_left)
            return None
        if state == 0 and self._is_mine(op_id, "propose"):
            crashpoint("coordinator-before-propose")
            order = Order(contract, "propose", (ruling.target, ruling.data, ruling.salt))
            again = f" again, since 0x{now.expired[-1].hex()} expired" if now.expired else ""
            return Deed(order, lambda: self._state(op_id) != 0, f"proposed{again}: {ruling.why}")
        if self._is_to_be_queued(op_id, state):
            return self._approval(op_id, ruling)
        self.board.withdraw(op_id)  # nobody needs the signature any more
        due = state == _QUEUED and head.timestamp >= self._operation(op_id).eta
        if due and self._is_mine(op_id, _EXECUTE):
            crashpoint("coordinator-before-execute")
            order = Order(contract, _EXECUTE, (op_id,))
            done = partial(self._is_executed, op_id)
            return Deed(order, done, f"executed: {ruling.why}")
        return None

    def _leave(self, now: Standing, why: str) -> None:
        """Log once that a ruling is not proposed again, and how a member does it."""
        if (sentence := f"{now.op_id.hex()}: {why}") not in self._said:
            self._said.add(sentence)
            typed = command(self.network.deployment, now.ruling)
            self.context.log.warning(
                "not_proposed_again",
                operation=f"0x{now.op_id.hex()}",
                why=f"{now.ruling.why}: {why}. To carry it out, a member types `{typed}`",
            )

    def _approval(self, op_id: bytes, ruling: Ruling) -> Deed | None:
        """Sign, gather the others' signatures, relay them when they suffice.

        A queued operation whose quorum was lost to a change of members needs this anew, and then
        waits its delay anew.
        """
        waited = time.monotonic() - self._since.setdefault(op_id, time.monotonic())
        chain, contract = self.context.chain, self.network.coordinator
        address = self.context.wallet.address
        approved = bool(chain.call(contract, "has_approved", op_id, address))
        signature = self.context.wallet.sign_typed(self._domain, _TYPES, {"op_id": op_id})
        self.board.publish(op_id, signature)
        crashpoint("coordinator-after-sign")
        peers = self.context.settings.coordinator.peers
        patience = stretched(_BOARD_PATIENCE_S, self.context.sender.block_s)
        if not approved and (not peers or waited > patience):
            order = Order(contract, "approve", (op_id,))
            return Deed(order, lambda: False, f"approved: {ruling.why}")
        members = self._members()
        own = {address: signature}
        found = collect(peers, op_id, self._signer(op_id), members, own) if peers else []
        known = {m for m in members if chain.call(contract, "has_approved", op_id, m)}
        if len(known | {signer for signer, _ in found}) < chain.call(contract, "threshold"):
            return None
        if not self._is_mine(op_id, "approve_by_sig"):
            return None
        # Without a signature it queues what a change of members brought to quorum: nobody is left
        # whose approval could do it.
        order = Order(contract, "approve_by_sig", (op_id, [signature for _, signature in found]))
        said = f"relayed: {len(found)} signatures" if found else "queued"
        return Deed(order, lambda: not self._is_to_be_queued(op_id), f"{said}: {ruling.why}")

    def _is_mine(self, op_id: bytes, what: str) -> bool:
        """Whether it is this member's turn to send what moves an operation on."""
        place = op_id, what, self._members(), self.context.sender.block_s
        return self._one_by_one.is_mine(*place)

    def _is_to_be_queued(self, op_id: bytes, state: int | None = None) -> bool:
        """Whether an operation needs an approval, or needs that its quorum is seen. `state`: where
        it was read already."""
        state = self._state(op_id) if state is None else state
        return state == _PROPOSED or (state == _QUEUED and not self._has_quorum(op_id))

    def _has_quorum(self, op_id: bytes) -> bool:
        chain, contract = self.context.chain, self.network.coordinator
        approvals = read(int, chain.call(contract, "approvals", op_id))
        return approvals >= read(int, chain.call(contract, "threshold"))

    def _members(self) -> Sequence[str]:
        found: Sequence[str] = self.context.chain.call(self.network.coordinator, "members")
        return found

    def _is_executed(self, op_id: bytes) -> bool:
        return self._operation(op_id).executed

    def _state(self, op_id: bytes) -> int:
        return read(int, self.context.chain.call(self.network.coordinator, "state", op_id))

    def _operation(self, op_id: bytes) -> Operation:
        found = self.context.chain.call(self.network.coordinator, "operation", op_id)
        return read(Operation, found)

    def _signer(self, op_id: bytes) -> Any:
        return lambda found: recover_typed(self._domain, _TYPES, {"op_id": op_id}, found)

    @cached_property
    def _domain(self) -> dict[str, Any]:
        return {
            "name": "Menagerie Coordinator",
            "version": "1",
            "chainId": self.context.deployment.chain_id,
            "verifyingContract": self.network.coordinator.address,
        }


def build(context: Context) -> Coordinator:
    """The committee member of a started agent."""
    return Coordinator(context, open_stores(context.settings.store))
