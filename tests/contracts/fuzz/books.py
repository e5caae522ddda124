# SPDX-License-Identifier: Apache-2.0
"""Who won and who lost: what everybody has, what honest work should have earned, and why it did
not.

A person has what stands in its name anywhere: wallets, stake and what unbonds, rewards, also those
that are held or set aside, bounties, bond credits, and what is left in the escrow of its jobs. What
a person was due is counted by the rules of an honest run: for every round that finished, a
trainer's share for right work, a verifier's cut for confirming a right result, an aggregator's for
proposing it; for every task that was decided, half the fee for a right result; and a finder's share
of what it got slashed. An honest person that has less than before and its due has lost; a coalition
that has more than before and its due has won."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contracts.fuzz.machine import Event, Struct
from tests.contracts.fuzz.run import UNAVAILABLE, Person, Round, Run, right_result
from tests.stage.contracts.tasks import (
    AGREED,
    CLOSED,
    LANE_AGREED,
    LANE_OPENED,
    LANE_REVEALED,
    UNDECIDED,
)

BPS = 10_000
# Rounding: a unit for each of a few divisions.
DUST = 10**6
ABORT_NODE = 8
VIOLATIONS = {
    1: "NO_REVEAL",
    2: "INVALID",
    3: "COPIED",
    4: "REPEATED",
    5: "BAD_RESULT",
    6: "FALSE_REPORT",
    7: "REDUNDANCY_MISMATCH",
    8: "ABORT",
    9: "COLLUSION",
}
HOLDERS = ("results", "reports", "tasks", "appeals")


@dataclass(frozen=True)
class Verdict:
    """What came of a play, in units; the causes in words, with what each cost somebody honest."""

    profit: int
    loss: int
    causes: frozenset[str]
    losers: tuple[tuple[str, int], ...]

    @property
    def score(self) -> int:
        return max(0, self.profit) + self.loss

    @property
    def is_finding(self) -> bool:
        return self.profit > DUST or self.loss > DUST


class Books:
    """What everybody had when a play began."""

    def __init__(self, run: Run) -> None:
        self.run = run
        known = run.stage.wealth
        for person in run.stage.people if not known else ():
            known[person.name] = self.wealth(person)
        self.before = known

    def wealth(self, person: Person) -> int:
        """Everything that stands in a person's name."""
        ask, total = self.run.ask, 0
        # What a contract keeps for nobody need not be asked for each.
        holders = [h for h in HOLDERS if ask(f"{h}.bonds_held")]
        for address in person.addresses:
            total += ask("token.balanceOf", address)
            total += ask("pool.pending", address) if ask("pool.total_pending") else 0
            total += ask("registry.bounty", address) if ask("registry.total_bounties") else 0
            total += sum(ask(f"{holder}.bond_credit", address) for holder in holders)
        nodes = [person.node] if person.node else []
        known = {p.node for p in self.run.stage.people}
        for node in self.run.all_nodes:
            if node not in known and ask("registry.owner_of", node) in person.addresses:
                nodes.append(node)
        total += sum(ask("registry.bonded", node) for node in nodes)
        if ask("pool.total_held"):
            total += sum(ask("pool.held", node) for node in nodes)
            total += sum(ask("pool.retained", j, n) for j in self.run.jobs for n in nodes)
        for report in self.run.reports.values():
            f = report.fields
            if f["node_id"] in nodes:
                total += ask("pool.set_aside", f["job_id"], f["round_id"], f["node_id"])
        for job, made in self.run.jobs.items():
            if made["sponsor"] in person.addresses:
                total += ask("pool.escrow", job)
        return int(total)

    def verdict(self) -> Verdict:
        """Who won and who lost since then."""
        tally = Tally(self.run)
        profit, losers = 0, []
        for person in self.run.stage.people:
            gained = self.wealth(person) - self.before[person.name]
            missing = tally.due.get(person.name, 0) - gained
            if person in self.run.bad:
                profit -= missing
            elif missing > DUST:
                losers.append((person.name, missing))
        loss = sum(amount for _, amount in losers)
        causes = tally.causes
        if not causes and loss > DUST:
            causes = {f"{'/'.join(sorted({n.split()[0] for n, _ in losers}))} lost, unexplained"}
        if not causes and profit > DUST:
            causes = {"profit, unexplained"}
        return Verdict(profit, loss, frozenset(causes), tuple(losers))


class Tally:
    """What each person was due, from the events of a play, and what went wrong in it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ask = run.ask
        self.due: dict[str, int] = {}
        self.causes: set[str] = set()
        for seen in run.rounds.values():
            self._round(seen)
        for task in run.tasks:
            self._task(task)
        self._slashes()
        self._losses()

    def _owe(self, node: int, amount: int) -> None:
        person = self.run.by_node.get(node)
        if person is not None:
            self.due[person.name] = self.due.get(person.name, 0) + amount

    def _is_good(self, node: int) -> bool:
        person = self.run.by_node.get(node)
        return person is not None and person in self.run.good

    # Rounds

    def _round(self, seen: Round) -> None:
        run = self.run
        terms = self.ask("jobs.job", seen.job).terms
        reward = terms.reward_per_round
        verifier_cut = reward * terms.verifier_bps // BPS
        aggregator_cut = reward * terms.aggregator_bps // BPS
        least = reward - verifier_cut - aggregator_cut
        right = run.right_nodes(seen)
        good = [n for n in right if self._is_good(n)]
        for node in right:
            if self._is_good(node) and self.ask("results.is_invalid", *seen.key, node):
                self.causes.add("right work found invalid")
        if seen.ended != "finalized":
            if seen.ended and seen.proposal is not None:
                self._sponsor(seen.job, -reward)  # carried to the next round
            if seen.ended and good:
                self.causes.add(f"round void with right work in it: {seen.ended}")
            for node in good if seen.ended else ():
                self._owe(node, least // len(right))
            return
        assert seen.proposal is not None
        f = seen.proposal.fields
        if run.is_right(seen):
            pool = self.ask("pool.pool", *seen.key)
            cut_from = pool.amount - pool.for_trainers
            verifier_cut = cut_from * terms.verifier_bps // BPS
            aggregator_cut = cut_from * terms.aggregator_bps // BPS
            for node in right:
                self._owe(node, pool.trainer_amount // len(right))
            attesters = seen.attested.get(f["result_hash"], [])
            attested = sum(seen.verifiers[v] for v in attesters)
            for node in attesters:
                self._owe(node, verifier_cut * seen.verifiers[node] // attested)
            self._owe(f["proposer"], aggregator_cut)
            self._sponsor(seen.job, -reward)
            if pool.scored_round:
                self.causes.add("paid by scores") if self._odd_scores(seen) else None
        else:
            self.causes.add(self._why_wrong(terms.challenge_bond))
            for node in good:
                self._owe(node, least // len(right))
            everybody = sum(seen.verifiers.values())
            for node, weight in seen.verifiers.items():
                if self._is_good(node):
                    self._owe(node, verifier_cut * weight // everybody)

    def _odd_scores(self, seen: Round) -> bool:
        shares = self.ask("scores.shares", *seen.key, seen.nodes)
        right = self.run.right_nodes(seen)
        return len({s for n, s in zip(seen.nodes, shares, strict=True) if n in right}) > 1

    def _why_wrong(self, bond: int) -> str:
        richest = max(
            self.ask("token.balanceOf", a) for p in self.run.role("verifier") for a in p.addresses
        )
        if bond > richest:
            return "wrong result final: nobody could pay the bond"
        return "wrong result final"

    def _sponsor(self, job: int, amount: int) -> None:
        person = self.run.by_address.get(self.run.jobs[job]["sponsor"])
        if person is not None and person in self.run.good:
            self.due[person.name] = self.due.get(person.name, 0) + amount

    # Tasks

    def _task(self, task: int) -> None:
        state = self.ask("tasks.task", task)
        right = right_result(state.spec)
        creator = self.run.by_address[state.creator]
        lanes = list(zip(state.nodes, state.states, state.answers, strict=True))
        result = self.ask("tasks.result_of", task)
        appeal = self.ask("appeals.appeal_of", task)
        overturned = bool(appeal.overturned)
        if state.status not in (AGREED, CLOSED) or not result:
            return
        if result == UNAVAILABLE:
            # The rule's price, though two liars can make a creator pay it: nobody can prove what
            # could be had, and they forgo a fee that is no less.
            if creator in self.run.good:
                rent = state.run_s * self.ask("tasks.terms").fee_per_s
                self.due[creator.name] = self.due.get(creator.name, 0) - rent
            return
        if not overturned and result == right:
            for node, stage, _ in lanes:
                if stage in (LANE_AGREED, LANE_OPENED):
                    self._owe(node, state.fee // 2)
            if creator in self.run.good:
                self.due[creator.name] = self.due.get(creator.name, 0) - state.fee
        elif overturned and appeal.result == right:
            for node, stage, _ in lanes:
                if stage == LANE_REVEALED and self._is_good(node):
                    self._owe(node, state.fee // 2)
        elif overturned:
            self.causes.add("false verdict on a task")
            for node, stage, _ in lanes:
                if stage in (LANE_AGREED, LANE_OPENED) and self._is_good(node):
                    self._owe(node, state.fee // 2)
        else:
            self.causes.add("wrong result of a task stands")

    # Slashes

    def _slashes(self) -> None:
        """Slashed honest nodes, and what finders of guilty ones were due."""
        log = self.run.log
        for place, (sender, event) in enumerate(log):
            if event.name != "NodeSlashed":
                continue
            f = event.fields
            node, amount, violation = f["node_id"], f["amount"], f["violation"]
            if self._is_good(node):
                if amount:
                    self.causes.add(f"honest node slashed: {VIOLATIONS[violation]}")
                continue
            finder = self._finder(place, sender, event)
            if finder is None or not amount:
                continue
            share = amount * self._share_bps(node, violation, place) // BPS
            self.due[finder.name] = self.due.get(finder.name, 0) + share
            if f["reporter_share"] < share:
                self.causes.add(f"bounty missing: {VIOLATIONS[violation]}")

    def _share_bps(self, node: int, violation: int, place: int) -> int:
        banned = self.run.log[place][1].fields["banned"]
        return int(self.ask("registry.penalty", 4 if banned else violation).reporter_bps)

    def _finder(self, place: int, sender: str, slashed: Event) -> Person | None:
        """The honest person that a slash is owed to, if there is one."""
        run, violation = self.run, slashed.fields["violation"]
        found: Person | None = None
        if violation == 1:
            found = run.by_address.get(sender)
        elif violation in (2, 3):
            done = self._next(place, "ReportExecuted")
            if done is not None:
                report = self.ask("reports.report_of", done.fields["report_id"])
                found = run.by_node.get(self._found(report))
        elif violation == 5 and "results.announce_challenge" in run.machine.functions:
            found = run.by_address.get(slashed.fields["reporter"])
        elif violation == 5:
            challenges = [s for s, e in run.log[:place] if e.name == "Challenged"]
            found = run.by_address.get(challenges[-1]) if challenges else None
        elif violation == 6:
            # What false verdicts cost is shared out by the appeal, see `_task`.
            done = self._next(place, "FalseReportSlashed")
            if done is not None:
                report = self.ask("reports.report_of", done.fields["report_id"])
                found = run.by_node.get(report.node_id)
        return found if found is not None and found in run.good else None

    def _found(self, report: Struct) -> int:
        """The verifier that found what a report says."""
        if "reports.finder_of" not in self.run.machine.functions:
            return int(report.first_reporter)
        return int(self.ask("reports.finder_of", report.job_id, report.round_id, report.node_id))

    def _next(self, place: int, name: str) -> Event | None:
        for _, event in self.run.log[place : place + 4]:
            if event.name == name:
                return event
        return None

    # Losses that no rule above explains

    def _losses(self) -> None:
        for _, event in self.run.log:
            if event.name == "AppealLapsed":
                self.causes.add("appeal lapsed")
        if any(
            self.ask("tasks.task", task).status == UNDECIDED
            and self.run.by_address[self.ask("tasks.task", task).creator] in self.run.good
            for task in self.run.tasks
        ):
            self.causes.add("honest task undecided")
