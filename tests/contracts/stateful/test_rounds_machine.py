# SPDX-License-Identifier: Apache-2.0
"""Random histories of one job against `rounds_model`: every call must succeed, or revert with the
reason, that the model says; after every step the chain must show the model's whole state and every
token must be accounted for. Each history is then driven to its end by permissionless calls and the
clock alone: no round, report, lock or bond may be stuck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import boa
import pytest
from eth_utils import keccak
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from agents.protocol.formulas import round_key, seed
from tests.contracts.stateful.machine import Machine, run
from tests.contracts.stateful.rounds_model import APPEALED, CONFIRMED, OPEN, Model, Report, Round
from tests.stage.contracts.clock import block, hash_of, mine, now
from tests.stage.contracts.rounds import DEPOSIT, EVIDENCE, RoundStage, make_rounds
from tests.stage.contracts.system import (
    ACTIVE,
    AGGREGATE,
    AGGREGATOR,
    APPEAL_BOND,
    BOND,
    CHALLENGE,
    COMMIT,
    COPIED,
    DISPUTED,
    FINALIZED,
    INVALID,
    REVEAL,
    STAKE,
    TRAINER,
    UNBONDING,
    VOID,
    ZERO,
    ZOO,
    Player,
    System,
    Work,
    events_of,
)

LIMIT = 6  # rounds of the job

Index = st.integers(0, 2)
Choice = st.integers(0, 2**16)


class RoundsMachine(Machine):
    stage: ClassVar[RoundStage]
    reached: ClassVar[Counter[int]] = Counter()  # successful calls by the phase they led to

    earned: ClassVar[Counter[str]] = Counter()  # executed reports by what the first reporter got

    def __init__(self) -> None:
        super().__init__()
        self.s = self.stage.system
        self.jobs, self.rounds, self.results = self.s.jobs, self.s.rounds, self.s.results
        self.reports = self.s.reports
        self.trainers = self.stage.trainers
        self.players = [*self.trainers, *self.stage.verifiers, *self.stage.aggregators]
        self.model = Model(
            escrow=self.s.pool.escrow(1),
            owner=str(self.s.coordinator.address),
            limit=LIMIT,
            seats=int(self.jobs.job(1).terms.max_nodes),
            operators={p.node_id: p.operator for p in self.stage.verifiers},
        )
        self.lists: tuple[list[int], list[int]] = [], []
        self.stakes = {p.node_id: self.bonded(p) for p in self.players}
        self.bounties = {p.node_id: self.bounty(p) for p in self.stage.verifiers}
        self.found = dict.fromkeys((self.stage.challenger, self.stage.sponsor), 0)

    def bonded(self, player: Player) -> int:
        return int(self.s.registry.bonded(player.node_id))

    def bounty(self, player: Player) -> int:
        return int(self.s.registry.bounty(player.payout))

    # One differential step

    def step(self, rules: Callable[[Model], None], call: Callable[[], Any]) -> bool:
        self.model.now, self.model.block = now(), block()
        done = super().step(rules, call)
        if done:
            self.reached[self.model.last.phase] += 1
        return done

    def work(self, player: Player) -> Work:
        shared = "shared" if player.node_id in self.stage.ids[:2] else None
        return Work.of(f"{player.name} {self.newest}", content=shared)

    def report_at(self, choice: int) -> Report:
        reports = list(self.model.reports.values())
        return reports[choice % len(reports)]

    def report_id(self, report: Report) -> bytes:
        return bytes(self.reports.report_id_of(1, report.round_id, report.node, report.violation))

    def same(self, model: Model, report: Report) -> Report:
        return model.reports[(report.round_id, report.node, report.violation)]

    # Time

    @rule(blocks=st.integers(1, 3), seconds=st.integers(1, 200))
    def wait(self, blocks: int, seconds: int) -> None:
        mine(blocks, seconds)

    @rule(offset=st.sampled_from([-1, 0, 1, 1, 2_000]))
    def wait_for_the_deadline(self, offset: int) -> None:
        self.wait_until(self.model.last.deadline + offset)

    def wait_until(self, time: int) -> None:
        if time > now():
            mine(2, time - now())

    @precondition(lambda self: any(r.deadline for r in self.model.reports.values()))
    @rule(choice=Choice, offset=st.sampled_from([0, 1]))
    def wait_for_a_report(self, choice: int, offset: int) -> None:
        self.wait_until(self.report_at(choice).deadline + offset)

    @rule(rarely=st.integers(0, 5))
    def many_blocks(self, rarely: int) -> None:
        if rarely == 0:
            mine(260, 30)

    # What honest people would do next

    @initialize(steps=st.integers(0, 4))
    def start(self, steps: int) -> None:
        for _ in range(steps):
            self.play_on()

    @rule()
    def play_on(self) -> None:
        r, phase = self.model.last, self.model.last.phase
        if phase in (COMMIT, REVEAL, AGGREGATE, DISPUTED) and r.deadline < now():
            assert self._advance()
            phase = self.model.last.phase
        if phase == COMMIT and r.candidates:
            self._seat()
        elif phase == COMMIT:
            self.some_commit({0, 1, 2})
        elif phase == REVEAL:
            self.some_reveal({0, 1, 2}, True)
        elif phase == AGGREGATE:
            shares = [self.model.done + 1, 7, 10**18]
            self.propose(None, False, shares)
        elif phase == CHALLENGE and not r.attesters and now() <= r.deadline:
            self.attest({0, 1, 2})
        elif phase == CHALLENGE:
            self.finalize(True)
        elif phase != DISPUTED:
            self._open()

    @rule(steps=st.integers(2, 5))
    def play_on_more(self, steps: int) -> None:
        for _ in range(steps):
            self.play_on()

    @rule(steps=st.integers(1, 6), sponsor=st.booleans())
    def play_to_a_dispute(self, steps: int, sponsor: bool) -> None:
        """Few histories get there by single steps."""
        for _ in range(steps):
            if self.model.last.phase != CHALLENGE:
                self.play_on()
        if self.model.last.phase == CHALLENGE:
            self.challenge(sponsor)

    # Rounds

    @rule(rarely=st.integers(0, 3))
    def open_round(self, rarely: int) -> None:
        if rarely == 0:
            self._open()

    def _open(self) -> None:
        def eligible(role: int) -> list[int]:
            ids = [p.node_id for p in self.players]
            return [i for i in ids if self.s.registry.is_eligible(i, role)]

        # In the order of the registry's list, by which the seats are drawn.
        trainers, _ = self.s.registry.eligible_nodes(TRAINER, 128 * self.newest, 128)
        aggregators = eligible(AGGREGATOR)
        since = now() - self.s.registry.maturity()
        weights = dict(zip(*self.s.registry.voters(since), strict=True))
        opened = self.step(
            lambda m: m.open_round(trainers, weights, aggregators),
            lambda: self.rounds.open_round(1),
        )
        if opened:
            event = dict(events_of(self.rounds))["RoundOpened"]
            self.lists = event["nodes"], event["weights"]
            mine(2)

    def _seat(self) -> bool:
        key = round_key(1, self.newest)

        def seed_of(target: int) -> bytes:
            return seed(hash_of(target), key, boa.env.evm.patch.chain_id, self.rounds.address)

        return self.step(
            lambda m: m.seat(seed_of), lambda: self.rounds.seat(1, self.newest, *self.lists)
        )

    @rule(
        what=st.sampled_from(
            ["seed", "seats", "audit seed", "advance", "absent", "rejoin", "slash"]
        ),
        who=Index,
    )
    def anybody(self, what: str, who: int) -> None:
        player = self.trainers[who]
        if what == "seed":
            self.step(lambda m: m.capture(), lambda: self.rounds.capture_seed(1, self.newest))
        elif what == "seats":
            self._seat()
        elif what == "audit seed":
            self.step(
                lambda m: m.capture_audit(), lambda: self.results.capture_audit_seed(1, self.newest)
            )
        elif what == "advance":
            self._advance()
        elif what == "absent":
            self.step(
                lambda m: m.mark_absent(player.node_id),
                lambda: self.rounds.mark_absent(1, player.node_id),
            )
        elif what == "rejoin":
            self.step(
                lambda m: m.rejoin(player.node_id),
                lambda: self.rounds.rejoin(1, player.node_id, sender=player.operator),
            )
        else:
            for back in (0, 1):
                self._slash_unrevealed(player.node_id, self.newest - back)

    @property
    def newest(self) -> int:
        return len(self.model.rounds)

    def _advance(self) -> bool:
        """Whether one of the two contracts had something to move on; never both."""
        moved = [
            self.step(lambda m: m.advance_rounds(), lambda: self.rounds.advance(1, self.newest)),
            self.step(lambda m: m.advance_results(), lambda: self.results.advance(1, self.newest)),
        ]
        assert not all(moved)
        return any(moved)

    @precondition(lambda self: self.model.last.phase == COMMIT)
    @rule(who=Index, copied=st.booleans())
    def commit(self, who: int, copied: bool) -> None:
        player = self.trainers[who]
        author = self.trainers[(who + 1) % 3] if copied else player
        round_id = self.newest
        digest = self.s.commitment(1, round_id, author.node_id, author.operator, self.work(author))
        work = None if copied else self.work(player)
        self.step(
            lambda m: m.commit(player.node_id, work),
            lambda: self.rounds.commit(1, round_id, player.node_id, digest, sender=player.operator),
        )

    @precondition(lambda self: self.model.last.phase == COMMIT)
    @rule(who=st.sets(Index, min_size=1))
    def some_commit(self, who: set[int]) -> None:
        for index in sorted(who):
            player = self.trainers[index]
            self.step(
                lambda m, p=player: m.commit(p.node_id, self.work(p)),
                lambda p=player: self.s.commit(1, self.newest, p, self.work(p)),
            )

    @precondition(lambda self: self.model.last.phase in (COMMIT, REVEAL))
    @rule(who=st.sets(Index, min_size=1), true=st.sampled_from([True, True, True, False]))
    def some_reveal(self, who: set[int], true: bool) -> None:
        for index in sorted(who):
            player, round_id = self.trainers[index], self.newest
            work = self.work(player) if true else Work.of("something else")
            self.step(
                lambda m, p=player, w=work: m.reveal(p.node_id, w),
                lambda p=player, w=work, r=round_id: self.s.reveal(1, r, p, w),
            )

    def _slash_unrevealed(self, node: int, round_id: int) -> None:
        if round_id >= 0 and self.step(
            lambda m: m.slash_unrevealed(round_id, node),
            lambda: self.rounds.slash_unrevealed(1, round_id, node, sender=self.stage.stranger),
        ):
            self.slashed(node)

    @precondition(lambda self: self.model.last.phase in (REVEAL, AGGREGATE))
    @rule(
        who=st.one_of(st.none(), st.integers(0, 7)),
        every=st.booleans(),
        shares=st.lists(st.integers(0, 2**128 - 1), min_size=4, max_size=4),
        nobody=st.booleans(),
    )
    def propose(
        self, who: int | None, every: bool, shares: list[int], nobody: bool = False
    ) -> None:
        """`nobody`: it gives a part to node 0, which is the treasury's."""
        r, round_id = self.model.last, self.newest
        duty = self.results.aggregator_on_duty(1, round_id)
        player = next(
            (p for p in self.players if p.node_id == duty and who is None),
            self.players[who] if who is not None else self._not_barred(r),
        )
        ids = self.stage.ids if every else [i for i in self.stage.ids if r.payable(i)]
        ids = [0, *ids] if nobody else ids
        model = keccak(text=f"model {round_id} {shares}")
        self.step(
            lambda m: m.propose(
                player.node_id, self.acts(player), duty, ids, shares[: len(ids)], model
            ),
            lambda: self.stage.propose(round_id, player, ids, shares[: len(ids)], model),
        )

    def _not_barred(self, r: Round) -> Player:
        may = (p for p in self.players if p.node_id not in r.barred and self.acts(p))
        return next(may, self.players[0])

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(who=st.sets(Index, min_size=1))
    def attest(self, who: set[int]) -> None:
        for index in sorted(who):
            player = self.stage.verifiers[index]
            self.step(
                lambda m, p=player: m.attest(p.node_id, self.acts(p)),
                lambda p=player: self.stage.attest(self.newest, p),
            )

    def acts(self, player: Player) -> bool:
        """Whether a verifier has a say: not while it is suspended or banned."""
        return bool(self.s.registry.acting_operator(player.node_id) == player.operator)

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(sponsor=st.booleans())
    def announce_challenge(self, sponsor: bool) -> None:
        sender = self.stage.sponsor if sponsor else self.stage.challenger
        self.step(
            lambda m: m.announce_challenge(sender),
            lambda: self.stage.announce_challenge(self.newest, sender),
        )

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(sponsor=st.booleans())
    def challenge(self, sponsor: bool) -> None:
        sender = self.stage.sponsor if sponsor else self.stage.challenger
        result = self.rounds.round(1, self.newest).result_hash
        self.step(
            lambda m: m.challenge(sender),
            lambda: self.results.challenge(1, self.newest, result, EVIDENCE, sender=sender),
        )

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(upheld=st.booleans())
    def resolve_challenge(self, upheld: bool) -> None:
        round_id, proposer = self.newest, self.model.last.proposer
        _, finder = self.model.finders.get((round_id, self.model.last.attempt), (0, ""))
        stake = self.stakes.get(proposer, 0)
        result = self.rounds.round(1, round_id).result_hash
        args = (1, round_id, result, upheld)
        resolved = self.step(
            lambda m: m.resolve(upheld),
            lambda: self.results.resolve_challenge(*args, sender=self.model.owner),
        )
        if resolved and upheld:
            self.slashed(proposer)
            if finder:
                self.found[finder] += (stake - self.stakes[proposer]) // 2

    @precondition(lambda self: self.model.last.phase in (AGGREGATE, CHALLENGE, FINALIZED))
    @rule(right=st.booleans())
    def finalize(self, right: bool) -> None:
        r = self.model.last
        shares = r.shares if right else [*r.shares, 1]
        self.step(
            lambda m: m.finalize(right),
            lambda: self.results.finalize(1, self.newest, r.nodes, shares),
        )

    @rule(rarely=st.integers(0, 9))
    def cancel(self, rarely: int) -> None:
        if rarely == 0 and self.model.rounds:
            self.step(
                lambda m: m.cancel(), lambda: self.jobs.cancel_job(1, sender=self.stage.sponsor)
            )

    # Reports

    @precondition(lambda self: self.model.last.phase in (AGGREGATE, CHALLENGE, DISPUTED))
    @rule(who=Index, node=Index, deposit=st.sampled_from([0, 1, STAKE // 20, DEPOSIT]))
    def announce(self, who: int, node: int, deposit: int = DEPOSIT) -> None:
        player, target = self.stage.verifiers[who], self.trainers[node]
        self.step(
            lambda m: m.announce(player.node_id, target.node_id, deposit, self.acts(player)),
            lambda: self.stage.announce(self.newest, target, player, deposit=deposit),
        )

    @precondition(lambda self: any(r.announced for r in self.model.rounds))
    @rule(choice=Choice, own=st.booleans())
    def expire_announcement(self, choice: int, own: bool) -> None:
        """Also when it is too early."""
        left = [
            (number, *key)
            for number, r in enumerate(self.model.rounds, 1)
            for key in sorted(r.announced)
        ]
        self.expire(*left[choice % len(left)], own)

    def expire(self, number: int, verifier: int, node: int, own: bool) -> bool:
        digest = self.stage.announcement(self.reports, number, node, verifier)
        sender = self.model.operators[verifier] if own else self.stage.stranger
        return self.step(
            lambda m: m.expire(number, verifier, node, own),
            lambda: self.reports.expire_announcement(1, number, verifier, digest, sender=sender),
        )

    @precondition(lambda self: self.model.last.announced)
    @rule(choice=Choice)
    def open_announcement(self, choice: int) -> None:
        """Also when it is too early, or nobody has confirmed it."""
        announced = sorted(self.model.last.announced)
        verifier, node = announced[choice % len(announced)]
        self.step(
            lambda m: m.open_announcement(verifier, node),
            lambda: self.reports.open_announcement(1, self.newest, verifier, node, EVIDENCE),
        )

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(node=Index, violation=st.sampled_from([INVALID, COPIED]))
    def two_report(self, node: int, violation: int) -> None:
        self.report({0, 1}, node, violation)

    @precondition(lambda self: self.model.last.phase == CHALLENGE)
    @rule(alone=Index, together=Index)
    def accuse_wildly(self, alone: int, together: int) -> None:
        """The first verifier is alone with one accusation and has company in the other."""
        self.report({0}, alone, INVALID)
        self.report({0, 1}, together, INVALID)

    @precondition(lambda self: self.model.last.phase in (CHALLENGE, DISPUTED))
    @rule(who=st.sets(Index, min_size=1), node=Index, violation=st.sampled_from([INVALID, COPIED]))
    def report(self, who: set[int], node: int, violation: int) -> None:
        target = self.trainers[node]
        for index in sorted(who):
            player = self.stage.verifiers[index]
            self.step(
                lambda m, p=player: m.report(p.node_id, target.node_id, violation, self.acts(p)),
                lambda p=player: self.stage.report(self.newest, target, violation, p),
            )

    @precondition(lambda self: self.model.reports)
    @rule(choice=Choice)
    def lapse(self, choice: int) -> None:
        self.end_report(self.report_at(choice), "lapse")

    @precondition(lambda self: self.model.reports)
    @rule(choice=Choice)
    def appeal(self, choice: int) -> None:
        report = self.report_at(choice)
        owner = next(p.owner for p in self.trainers if p.node_id == report.node)
        self.step(
            lambda m: m.appeal(self.same(m, report), owner),
            lambda: self.reports.appeal(self.report_id(report), EVIDENCE, sender=owner),
        )

    @precondition(lambda self: self.model.reports)
    @rule(choice=Choice, upheld=st.booleans())
    def resolve_appeal(self, choice: int, upheld: bool) -> None:
        report = self.report_at(choice)
        if self.step(
            lambda m: m.resolve_appeal(self.same(m, report), upheld),
            lambda: self.reports.resolve_appeal(
                self.report_id(report), upheld, sender=self.model.owner
            ),
        ):
            if upheld:
                self.slashed(*report.reporters)
            else:
                self._executed(report)

    @precondition(lambda self: self.model.reports)
    @rule(choice=Choice)
    def execute(self, choice: int) -> None:
        self.end_report(self.report_at(choice), "execute")

    def end_report(self, report: Report, way: str) -> bool:
        function = {"dismiss": "dismiss_unresolved"}.get(way, way)
        done = self.step(
            lambda m: getattr(m, way)(self.same(m, report)),
            lambda: getattr(self.reports, function)(self.report_id(report)),
        )
        if done and way == "execute":
            self._executed(report)
        return done

    def _executed(self, report: Report) -> None:
        """The node lost stake; half of that is its finder's, up to its deposit, if nothing else
        that it said in the round failed to be confirmed."""
        before = self.stakes[report.node]
        self.slashed(report.node)
        if self.model.earns_bounty(report):
            _, finder, _ = self.model.round(report.round_id).found[report.node]
            payout = next(p.payout for p in self.stage.verifiers if p.node_id == finder)
            bounty = (before - self.stakes[report.node]) // 2
            self.model.pay_finder(report, bounty, payout)
            self.earned["paid"] += 1
        else:
            self.earned["refused"] += 1

    @precondition(lambda self: self.model.reports)
    @rule(choice=Choice)
    def dismiss(self, choice: int) -> None:
        self.end_report(self.report_at(choice), "dismiss")

    # What must hold

    def slashed(self, *nodes: int) -> None:
        """Exactly these nodes lost stake (or had none left)."""
        for node in nodes:
            now = int(self.s.registry.bonded(node))
            assert now < self.stakes[node] or self.stakes[node] == 0
            self.stakes[node] = now

    @invariant()
    def chain_is_model(self) -> None:
        """A refused call left no trace by the rules of the EVM: only changes are worth a look."""
        if self.changed:
            self.changed = False
            self._round_is_model()
            self._reports_are_model()
            self._money_is_model()
            self._ledger_is_a_chain()

    def _round_is_model(self) -> None:
        m, r, round_id = self.model, self.model.last, self.newest
        job = self.jobs.job(1)
        assert (job.status, job.cancel_requested) == (m.status, m.cancel_requested)
        assert (job.rounds_opened, job.rounds_done, job.model) == (round_id, m.done, m.model)
        assert self.jobs.rounds_open(1) == (r.phase not in (0, FINALIZED, VOID))
        state = self.rounds.round(1, round_id)
        assert state.phase == self.rounds.phase(1, round_id)
        assert (
            state.phase,
            state.deadline,
            state.n_eligible,
            state.n_committed,
            state.n_revealed,
            state.n_invalid,
            state.open_reports,
            state.attested_stake,
            state.verifier_stake,
            state.proposer,
            state.challenger,
            state.settled,
        ) == (
            r.phase,
            r.deadline,
            len(r.trainers),
            len(r.committed),
            len(r.revealed),
            len(r.invalid),
            r.open_reports,
            r.attested,
            r.verifier_stake,
            r.proposer,
            r.challenger if r.phase in (DISPUTED, VOID) and r.challenger else ZERO,
            r.phase in (FINALIZED, VOID),
        )
        assert (state.seed != bytes(32), state.audit_seed != bytes(32)) == (r.seeded, r.audited)
        assert (state.seed_block, state.audit_block) == (r.seed_block, r.audit_block)
        self._nodes_are_model(r, round_id)

    def _nodes_are_model(self, r: Round, round_id: int) -> None:
        for player in self.trainers:
            node, work = player.node_id, r.committed.get(player.node_id)
            assert self.rounds.is_expected(1, round_id, node) == (node in r.trainers)
            assert self.rounds.is_revealed(1, round_id, node) == (node in r.revealed)
            assert self.rounds.is_flagged(1, round_id, node) == (node in r.flagged)
            assert self.results.is_invalid(1, round_id, node) == (node in r.invalid)
            assert self.rounds.is_absent(1, node) == (node in self.model.absent)
            stored = self.rounds.commitment_of(1, round_id, node)
            if work is not None:
                sealed = self.s.commitment(1, round_id, node, player.operator, work)
                assert stored == (work.sealed() if node in r.revealed else sealed)
            else:
                assert (stored != bytes(32)) == (node in r.committed)
            reports = [x for x in self.model.reports.values() if x.node == node]
            locks = sum(x.status in (CONFIRMED, APPEALED) for x in reports)
            assert self.s.registry.node(node).locks == locks

    def _reports_are_model(self) -> None:
        for report in self.model.reports.values():
            stored = self.reports.report_of(self.report_id(report))
            assert (stored.status, stored.deadline) == (report.status, report.deadline)
            assert self.reports.reporters(self.report_id(report)) == report.reporters

    def _money_is_model(self) -> None:
        m = self.model
        assert self.s.pool.escrow(1) == m.escrow
        assert self.s.pool.carried(1) == m.carried
        assert self.s.pool.carried_for_trainers(1) == m.for_trainers
        for player in self.players:
            assert self.s.pool.pending(player.payout) == m.pending.get(player.node_id, 0)
            assert self.s.pool.held(player.node_id) == m.held.get(player.node_id, 0)
            assert self.bonded(player) == self.stakes[player.node_id]
        treasury = self.s.registry.parameters().treasury
        assert self.s.pool.pending(treasury) == m.pending.get(0, 0)
        for (round_id, node), amount in m.aside.items():
            assert self.s.pool.set_aside(1, round_id, node) == amount
        assert self.s.pool.total_held() == sum(m.held.values()) + sum(m.aside.values())
        for player in self.stage.verifiers:
            assert self.bounty(player) == self.bounties[player.node_id]
        open_bond = BOND if m.last.phase == DISPUTED else 0
        deposits = BOND * len(m.deposits)
        assert self.results.bonds_held() == sum(m.round_bonds.values()) + open_bond + deposits
        for account, amount in self.found.items():
            assert self.s.registry.bounty(account) == amount
        appeals = [x for x in m.reports.values() if x.status == APPEALED]
        waiting = [a.deposit for r in m.rounds for a in r.announced.values()]
        waiting += [deposit for x in m.reports.values() for deposit in x.deposits.values()]
        assert self.reports.bonds_held() == (
            sum(m.report_bonds.values()) + APPEAL_BOND * len(appeals) + sum(waiting)
        )
        for book, contract in ((m.round_bonds, self.results), (m.report_bonds, self.reports)):
            for account, amount in book.items():
                assert contract.bond_credit(account) == amount
        for contract in (self.results, self.reports):
            assert self.s.token.balanceOf(contract.address) == contract.bonds_held()
        assert self.s.balances() == self.s.owed()

    def _ledger_is_a_chain(self) -> None:
        recorded = [r for r in self.model.rounds if r.phase == FINALIZED]
        assert self.s.ledger.length(1) == len(recorded) == self.model.done
        if recorded:
            last = self.s.ledger.entry(1, len(recorded) - 1)
            assert last.new_model == self.model.model
            assert last.reward == self.s.pool.pool(1, last.round_id).amount == recorded[-1].pool
            assert len(self.s.ledger.lineage(1, self.model.model, 64)) == len(recorded)
            if len(recorded) > 1:
                assert last.prev_model == recorded[-2].model

    # The end

    def teardown(self) -> None:
        try:
            self._drive_to_the_end()
        finally:
            self.stack.close()

    def _drive_to_the_end(self) -> None:
        """Anybody and time alone end every round and every report."""
        for _ in range(8):
            r = self.model.last
            if r.phase in (0, FINALIZED, VOID):
                break
            mine(2, max(1, r.deadline + 1 - now()))
            if r.phase == CHALLENGE:
                self.finalize(True)
            else:
                assert self._advance()
        assert self.model.last.phase in (0, FINALIZED, VOID)
        self._end_reports()
        for player in self.stage.verifiers:
            assert self.bounty(player) == self.bounties[player.node_id]
        for player in self.players:
            assert self.s.registry.node(player.node_id).locks == 0
        assert self.s.pool.total_held() == 0
        for book, contract in (
            (self.model.round_bonds, self.results),
            (self.model.report_bonds, self.reports),
        ):
            for account in (account for account, amount in book.items() if amount):
                contract.withdraw_bond(sender=account)
            left = BOND * len(self.model.deposits) if contract is self.results else 0
            assert self.s.token.balanceOf(contract.address) == left
        for player in self.players:
            if self.s.pool.pending(player.payout):
                self.s.pool.claim(sender=player.payout)
        if self.model.status != ACTIVE and self.model.escrow:
            self.s.pool.refund(1, sender=self.stage.sponsor)
            if self.s.pool.carried(1):
                self.s.pool.forfeit_carried(1)
                treasury = self.s.registry.parameters().treasury
                self.s.pool.claim(sender=treasury)
            assert self.s.token.balanceOf(self.s.pool.address) == 0
        assert self.s.balances() == self.s.owed()

    def _end_reports(self) -> None:
        ways = {OPEN: "lapse", CONFIRMED: "execute", APPEALED: "dismiss"}
        for report in list(self.model.reports.values()):
            if report.status in ways:
                mine(1, max(1, report.deadline + 1 - now()))
                assert self.end_report(report, ways[report.status])
        left = [
            (number, *key) for number, r in enumerate(self.model.rounds, 1) for key in r.announced
        ]
        mine(1, UNBONDING)
        for key in left:
            assert self.expire(*key, False)


@pytest.fixture
def stage(system: System, request: pytest.FixtureRequest) -> RoundStage:
    """Everybody can pay several bonds; more rounds of money than of work."""
    stage = make_rounds(system, rounds=LIMIT, max_nodes=getattr(request, "param", 128))
    for address in (stage.challenger, *(p.owner for p in stage.trainers)):
        system.token.transfer(address, 1_000 * ZOO, sender=system.holder)
    return stage


@pytest.mark.parametrize(
    ("stage", "examples"), [(128, 30), (2, 8)], indirect=["stage"], ids=["seats for all", "drawn"]
)
def test_rounds_machine(stage: RoundStage, examples: int) -> None:
    RoundsMachine.stage = stage
    RoundsMachine.reached.clear()
    run(RoundsMachine, examples=examples, steps=40)
    assert set(RoundsMachine.reached) == {*range(1, 8)}, "a phase was never reached"


@pytest.mark.parametrize(
    ("accused", "bounty"), [([0], "paid"), ([0, 1], "refused")], ids=["of one", "of two"]
)
def test_finder_is_paid_if_all_its_accusations_are_confirmed(
    stage: RoundStage, accused: list[int], bounty: str
) -> None:
    """Both ways out of a report, by the machine's own steps: histories drawn at random reach them
    or not, with the modules that happen to be loaded."""
    RoundsMachine.stage = stage
    machine = RoundsMachine()
    machine.earned.clear()
    while machine.model.last.phase != CHALLENGE:
        machine.play_on()
    for node in accused:
        machine.announce(0, node)
    machine.report({0}, accused[0], INVALID)
    machine.report({0, 1}, accused[-1], INVALID)
    machine.chain_is_model()
    machine.teardown()
    assert machine.earned == {bounty: 1}
