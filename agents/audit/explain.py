# SPDX-License-Identifier: Apache-2.0
"""Why a node was paid what it was paid in a round, and where that went, to the last unit.

Rule: every number comes from an event, and every formula is the auditor's. So what is explained is
what the audit would compare, and its sum is what the pool has credited. Nothing but the chain is
read; `agents.audit.replay` goes on from the contributions to the bytes behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agents.audit.chain.carry import pool_of
from agents.audit.chain.money import split_of
from agents.audit.chain.opening import Opened, check_opening, check_seeds
from agents.audit.chain.scores import Scored, Scores
from agents.audit.chain.stakes import StakeBook
from agents.audit.chain.votes import Tally, check_votes
from agents.audit.sources.findings import Difference, Part
from agents.audit.sources.record import Record, place
from agents.protocol.formulas import Split, shared_cuts
from agents.protocol.numbers import BPS, NOBODY, UNCLAIMED, Phase, Violation
from agents.runtime.contracts import Event
from agents.runtime.errors import ConfigError

_KEPT = {"PayRetained": "retained", "PayHeld": "held", "ShareSetAside": "set aside"}


@dataclass(frozen=True)
class Term:
    """A number of a formula. `unit`: "ZOO" for 1e-18 ZOO, else what it counts."""

    name: str
    value: int
    unit: str = ""


@dataclass(frozen=True)
class Step:
    """One line of a calculation: `result` = `formula`, in which `terms` are named."""

    result: Term
    formula: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Deed:
    """Something a node did or that was done to it, and the transaction that proves it.

    `digest`: of what the store has of it, None for nothing.
    """

    sentence: str
    tx: bytes
    digest: bytes | None = None


@dataclass(frozen=True)
class Outcome:
    """Where an amount went. `account`: who can claim it, None for nobody.

    `then`: what became of it later, of what is kept at first; None while it is kept.
    """

    what: str
    amount: int
    account: str | None = None
    tx: bytes | None = None
    then: Outcome | None = None

    @property
    def last(self) -> Outcome:
        """What has become of it until now."""
        return self if self.then is None else self.then.last


@dataclass(frozen=True)
class Payment:
    """What a node was due in one role, in 1e-18 ZOO. `outcomes` add up to `due`."""

    role: str
    due: int
    steps: tuple[Step, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Explanation:
    """A node in a round. `why`: a sentence, where no payment says it all."""

    round_id: int
    node: int
    deeds: tuple[Deed, ...]
    payments: tuple[Payment, ...]
    why: str = ""


@dataclass(frozen=True)
class Explained:
    """A round's money. `left`: what nobody was due, in outcomes that are no node's.

    `differences`: what an audit of the chain finds wrong in the round.
    """

    round_id: int
    status: str
    pool: int
    nodes: tuple[Explanation, ...]
    left: tuple[Outcome, ...]
    differences: tuple[Difference, ...]


@dataclass
class _Round:
    """What the audit's own functions make of a round."""

    part: Part
    opened: Opened | None
    standing: Tally | None
    scored: Scored | None
    spared: bool
    pool: int
    for_trainers: int
    source: int = 0
    split: Split | None = None
    left: dict[str, list[Event]] = field(default_factory=dict)


def credited(found: Iterable[Explained]) -> Counter[str]:
    """What explained rounds have credited until now, in 1e-18 ZOO, by account."""
    total: Counter[str] = Counter()
    for explained in found:
        for node in explained.nodes:
            for payment in node.payments:
                for outcome in payment.outcomes:
                    if outcome.last.account is not None:
                        total[outcome.last.account] += outcome.amount
    return total


class Explainer:
    """Explains a job, as of the record's block."""

    def __init__(self, record: Record, random_source: bool = False) -> None:
        self._record = record
        self._random = random_source
        self._registry = StakeBook(record)
        self._scores = Scores(record, self._registry)
        self._rounds: dict[int, _Round] = {}

    def all(self) -> list[Explained]:
        """Explain every round that the job has opened."""
        return [self.round(number) for number in self._record.current]

    def round(self, round_id: int) -> Explained:
        """Explain a round. Raises ConfigError where the job has no such round."""
        if round_id not in self._record.current:
            raise ConfigError(
                f"Job {self._record.job_id} has no round {round_id}; it has "
                f"{len(self._record.current)}."
            )
        for number in range(len(self._rounds) + 1, round_id + 1):
            self._rounds[number] = self._replayed(number)  # scores follow from those before
        found = self._rounds[round_id]
        named: set[int] = set()
        if found.opened is not None:
            named |= {*found.opened.nodes, *found.opened.verifiers, *found.opened.aggregators}
        if found.split is not None:
            named |= {*found.split.shares, *(node for node, _ in found.split.cuts)}
        return Explained(
            round_id,
            found.part.status,
            found.pool,
            tuple(self._node(found, node) for node in sorted(named)),
            tuple(self._left(found)),
            tuple(found.part.differences),
        )

    def node(self, round_id: int, node: int) -> Explanation:
        """Explain one node of a round, whatever it did there."""
        self.round(round_id)
        return self._node(self._rounds[round_id], node)

    # -- a round -------------------------------------------------------------------------------

    def _replayed(self, number: int) -> _Round:
        record = self._record
        part = Part(number, Phase(record.current[number].phase).name.lower())
        opened = check_opening(record, part)
        seed = check_seeds(record, part, self._random)
        pool, for_trainers = pool_of(record, number)
        found = _Round(part, opened, None, None, False, pool, for_trainers)
        if record.current[number].phase not in (Phase.FINALIZED, Phase.VOID):
            part.differences.clear()  # while it runs, its events and its state may differ in time
            return found
        if opened is None:
            return found
        found.standing = check_votes(record, part, opened, seed)
        found.scored = self._scores.replay(part, opened)
        found.spared = self._scores.spared(number)
        if found.standing is not None and record.current[number].phase == Phase.FINALIZED:
            found.source, found.split = split_of(
                record, number, found.standing, found.scored, found.spared
            )
        return found

    def _left(self, found: _Round) -> Iterator[Outcome]:
        """What no node was due: to the escrow, or to the next round."""
        for event in self._record.of("PoolClosed", found.part.round_id):
            if amount := event.args["returned"]:
                yield Outcome("returned to the job's escrow", amount, tx=event.tx_hash)
        for event in self._record.of("PayCarried", found.part.round_id):
            yield Outcome("carried to the job's next round", event.args["amount"], tx=event.tx_hash)

    # -- a node --------------------------------------------------------------------------------

    def _node(self, found: _Round, node: int) -> Explanation:
        deeds = tuple(self._deeds(found, node))
        payments: list[Payment] = []
        kept = self._kept(found.part.round_id, node)
        if found.split is not None:
            for index, (who, due) in enumerate(found.split.cuts):
                if who == node and due:
                    outcomes = self._of_cut(found, node, index, due, kept)
                    steps = self._proposing(found) if not index else self._attesting(found, node)
                    role = "aggregator" if not index else "verifier"
                    payments.append(Payment(role, due, tuple(steps), tuple(outcomes)))
            if due := found.split.shares.get(node, 0):
                outcomes = self._of_share(found, node, due, kept)
                steps = self._training(found, node)
                role = "nobody" if node == UNCLAIMED else "trainer"
                payments.append(Payment(role, due, tuple(steps), tuple(outcomes)))
        return Explanation(
            found.part.round_id, node, deeds, tuple(payments), self._why(found, node, payments)
        )

    def _deeds(self, found: _Round, node: int) -> Iterator[Deed]:
        """In chain order."""
        record, number = self._record, found.part.round_id
        said: list[tuple[Event, str, bytes | None]] = []
        for event in record.of("Committed", number, node_id=node):
            said.append((event, "committed to its work before anybody had published any", None))
        for event in record.of("Revealed", number, node_id=node):
            said.append((event, "revealed its update", event.args["content"]))
        for event in record.of("DuplicateContent", number):
            if node in (event.args["first_node"], event.args["second_node"]):
                said.append((event, "has the same content as another node", None))
        for event in record.of("ResultProposed", number):
            if event.args["proposer"] == node:
                said.append((event, "proposed a result; this is its report", event.args["report"]))
        for event in record.of("Attested", number, verifier_id=node):
            said.append((event, "computed the result too, and attested it", None))
        reports = {}
        for event in record.of("ViolationReported", number):
            args = event.args
            kind = Violation(args["violation"]).name
            if args["verifier_id"] == node:
                words = f"reported node {args['node_id']} as {kind}; this is its evidence"
                said.append((event, words, args["evidence"]))
            if args["node_id"] == node:
                reports[args["report_id"]] = kind
                words = f"was reported as {kind} by node {args['verifier_id']}"
                said.append((event, words, args["evidence"]))
        fates = {
            "ReportConfirmed": "was found guilty by two thirds of the verifiers' weight",
            "ReportAppealed": "appealed",
            "ReportExecuted": "was slashed",
            "ReportDismissed": "was cleared by the committee",
        }
        for name, words in fates.items():
            for event in record.all(name):
                if event.args["report_id"] in reports:
                    said.append((event, words, None))
        for event, words, digest in sorted(said, key=lambda item: place(item[0])):
            yield Deed(words, event.tx_hash, digest)

    def _why(self, found: _Round, node: int, payments: list[Payment]) -> str:
        """Why a node has no payment, as its last step in the round says it."""
        record, number = self._record, found.part.round_id
        if record.current[number].phase not in (Phase.FINALIZED, Phase.VOID):
            return "The round is not over yet."
        if payments:
            return ""
        if found.split is None:
            reasons = [e.args["reason"] for e in record.of("RoundVoided", number)]
            return f"The round is void ({', '.join(reasons)}), and pays nobody."
        assert found.opened is not None and found.standing is not None
        if node in found.opened.verifiers:
            if node in found.standing.attesters:
                return "It attested the result, and its scores earned no part of its cut."
            return "It did not attest the result that stands."
        if node in found.opened.aggregators and node not in found.opened.nodes:
            return "It did not propose the result that stands."
        if node not in found.opened.nodes:
            return "It was not drawn for the round."
        if not record.of("Committed", number, node_id=node):
            return "It was drawn and committed to nothing."
        if not record.of("Revealed", number, node_id=node):
            return "It committed and did not reveal."
        if node in found.standing.invalid:
            return "Its work was found invalid."
        return "The result gives it no contribution."

    # -- formulas ------------------------------------------------------------------------------

    def _pool_steps(self, found: _Round) -> list[Step]:
        reward = self._record.job.terms.reward_per_round
        pool = Term("pool", found.pool, "ZOO")
        carried = Term("carried", found.pool - reward, "ZOO")
        return [Step(pool, "reward + carried", (Term("reward", reward, "ZOO"), carried))]

    def _cut_base(self, found: _Round) -> Step:
        base = Term("base", found.pool - found.for_trainers, "ZOO")
        alone = Term("for trainers alone", found.for_trainers, "ZOO")
        return Step(base, "pool - for trainers alone", (Term("pool", found.pool, "ZOO"), alone))

    def _proposing(self, found: _Round) -> list[Step]:
        assert found.split is not None
        base = self._cut_base(found)
        share = Term("aggregator's share", self._record.job.terms.aggregator_bps, "of 10,000")
        cut = Term("cut", found.split.cuts[0][1], "ZOO")
        last = Step(cut, "base x aggregator's share", (base.result, share))
        return [*self._pool_steps(found), base, last]

    def _attesting(self, found: _Round, node: int) -> list[Step]:
        assert found.split is not None and found.standing is not None
        bps, weights = self._record.job.terms.verifier_bps, found.standing.attesters
        base = self._cut_base(found)
        share = Term("verifiers' share", bps, "of 10,000")
        all_ = Term("verifiers' part", base.result.value * bps // BPS, "ZOO")
        weight = Term("its weight", weights[node], "ZOO")
        attested = Term("attested weight", sum(weights.values()), "ZOO")
        cuts = {one: all_.value * own // attested.value for one, own in weights.items()}
        cut = Term("cut", cuts[node], "ZOO")
        steps = [
            *self._pool_steps(found),
            base,
            Step(all_, "base x verifiers' share", (base.result, share)),
            Step(cut, "verifiers' part x its weight / attested weight", (all_, weight, attested)),
        ]
        if found.scored is not None:
            factors = {one: found.scored.factor(one, found.spared) for one in cuts}
            steps.append(self._shared(cut, cuts, factors, node))
        return steps

    @staticmethod
    def _shared(cut: Term, cuts: Mapping[int, int], factors: Mapping[int, int], node: int) -> Step:
        """How the verifiers of a scored round share their cuts by trust."""
        factor = Term("trust factor", factors[node], "of 10,000")
        counted = sum(own for one, own in cuts.items() if factors[one])
        weighed = sum(own * factors[one] for one, own in cuts.items())
        return Step(
            Term("earned", shared_cuts(cuts, factors)[node], "ZOO"),
            "cut x trust factor x cuts that count / the same by their factors",
            (
                cut,
                factor,
                Term("cuts that count", counted, "ZOO"),
                Term("the same by their factors", weighed),
            ),
        )

    def _training(self, found: _Round, node: int) -> list[Step]:
        split = found.split
        assert split is not None
        cuts = Term("cuts", sum(amount for _, amount in split.cuts), "ZOO")
        left = Term("trainers' part", split.trainer_amount, "ZOO")
        whose = "score" if found.source else "contribution"
        part = Term(f"its {whose}", split.parts[node])
        total = Term(f"all {whose}s", split.total)
        share = Term("share", split.shares[node], "ZOO")
        return [
            *self._pool_steps(found),
            Step(left, "pool - cuts", (Term("pool", found.pool, "ZOO"), cuts)),
            Step(share, f"trainers' part x its {whose} / all {whose}s", (left, part, total)),
        ]

    # -- where it went -------------------------------------------------------------------------

    def _kept(self, round_id: int, node: int) -> list[Event]:
        """What was kept of a node's pay in a round, in chain order."""
        events = [e for name in _KEPT for e in self._record.of(name, round_id, node_id=node)]
        return sorted(events, key=place)

    def _of_cut(
        self, found: _Round, node: int, index: int, due: int, kept: list[Event]
    ) -> list[Outcome]:
        """A cut is credited, or held while the node has a lock."""
        credited = self._record.of("CutCredited", found.part.round_id, node_id=node)
        if index and credited and credited[0].args["amount"] != due:
            credited = credited[1:]  # of the one who proposed and attested
        for event in credited:
            if event.args["amount"] == due:
                return [Outcome("credited", due, event.args["payout"], event.tx_hash)]
        for event in kept:
            if event.name == "PayHeld" and event.args["amount"] == due:
                kept.remove(event)
                return [self._fate(event)]
        return [Outcome("not paid: it has no payout address any more", due)]

    def _of_share(self, found: _Round, node: int, due: int, kept: list[Event]) -> list[Outcome]:
        outcomes = [self._fate(event) for event in kept]
        for event in self._record.of("RewardsDistributed", found.part.round_id):
            args = event.args
            for who, account, amount in zip(
                args["nodes"], args["payouts"], args["amounts"], strict=False
            ):
                if who == node and amount:
                    outcomes.append(Outcome("credited", amount, account, event.tx_hash))
        rest = due - sum(outcome.amount for outcome in outcomes)
        if not rest:
            return outcomes
        if not self._record.of("PoolClosed", found.part.round_id):
            return [*outcomes, Outcome("not distributed yet", rest)]
        standing = found.standing
        if standing is not None and node in standing.invalid:
            words = "not paid: its work was found invalid; its share is carried to the next round"
            return [*outcomes, Outcome(words, rest)]
        return [*outcomes, Outcome("not paid: it has no payout address any more", rest)]

    def _fate(self, event: Event) -> Outcome:
        """What was kept, and what became of it."""
        args = event.args
        kept = Outcome(_KEPT[event.name], args["amount"], tx=event.tx_hash)
        ends = {
            "PayRetained": ("RetainedReleased", "RetainedForfeited"),
            "PayHeld": ("PayReleased",),
            "ShareSetAside": ("ShareSettled",),
        }[event.name]
        for end in self._record.all(*ends):
            if end.args["node_id"] != args["node_id"] or place(end) < place(event):
                continue
            if end.args.get("job_id", args["job_id"]) != args["job_id"]:
                continue
            if end.args.get("round_id", args["round_id"]) != args["round_id"]:
                continue
            return replace(kept, then=self._end(end, args["amount"]))
        return kept

    def _end(self, end: Event, amount: int) -> Outcome:
        args = end.args
        if end.name == "RetainedForfeited":
            return Outcome("forfeited", amount, args["treasury"], end.tx_hash)
        if end.name != "ShareSettled":
            return Outcome("credited", amount, args["payout"], end.tx_hash)
        if args["guilty"]:
            return Outcome("carried to the job's next round", amount, tx=end.tx_hash)
        payout = self._registry.payout(args["node_id"], end)
        if payout == NOBODY:
            return Outcome("not paid: it has no payout address any more", amount, tx=end.tx_hash)
        return Outcome("credited", amount, payout, end.tx_hash)
