# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, by what the chain says: attempts, seeds, answers, verdicts, scores.

Rule: an attempt is answered once, after its seed and within the window, and judged by verifiers'
signatures over what was answered. The time between request and answer is of block headers. The
score is the newest that passed, and zero once the committee found the pass false. What an answer
named is held by its transaction, and of a node's newest attempt by what the contract keeps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from agents.audit.chain.benchmark_scores import BenchmarkScores
from agents.audit.chain.opening import check_seed
from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.protocol import formulas
from agents.protocol.benchmark_verdict import benchmark_verdict
from agents.protocol.numbers import NOBODY, ZERO_DIGEST
from agents.protocol.structs import Benchmark
from agents.runtime.contracts import Event
from agents.runtime.wallet import recover_typed

_NAMES = (
    "BenchmarkRequested",
    "BenchmarkSubmitted",
    "BenchmarkVerdictGiven",
    "BenchmarkSettled",
    "BenchmarkVerdictSlashed",
    "VerdictOverruled",
    "FalseBenchmarkSlashed",
)
_ANSWER = ("uint256", "bytes32", "uint256", "bytes32", "bytes32")
_VERDICTS = ("uint256", "bool", "uint256[]", "bytes[]")
_MOST_UNITS = 1_000_000


@dataclass
class Attempt:
    """An attempt at a benchmark, as its events tell it.

    `votes`: who passed it (True) or failed it. `decided`: what they must settle it to, None while
    they are too few; `settled`: what it was settled to.
    `overruled`: verifiers whom the committee found wrong. `condemned`: whether the node was slashed
    for it.
    """

    node: int
    attempt: int
    requested: Event
    submitted: Event | None = None
    seed: bytes = ZERO_DIGEST
    check_seed: bytes = ZERO_DIGEST
    votes: dict[int, bool] = field(default_factory=dict)
    decided: bool | None = None
    settled: bool | None = None
    overruled: set[int] = field(default_factory=set)
    condemned: bool = False

    @property
    def name(self) -> str:
        return f"benchmark {self.attempt} of node {self.node}"

    @property
    def root(self) -> bytes:
        return ZERO_DIGEST if self.submitted is None else bytes(self.submitted.args["root"])

    @property
    def artefact(self) -> bytes:
        return ZERO_DIGEST if self.submitted is None else bytes(self.submitted.args["artefact"])

    @property
    def units(self) -> int:
        return 0 if self.submitted is None else int(self.submitted.args["units"])


class Benchmarks:
    """All attempts of all nodes, replayed."""

    def __init__(
        self, record: Record, registry: StakeBook, part: Part, random_source: bool = False
    ) -> None:
        self.attempts: dict[int, list[Attempt]] = defaultdict(list)
        self._record = record
        self._registry = registry
        self._part = part
        self._random_source = random_source
        self._scores = BenchmarkScores(record)
        self._slashed: list[Event] = []  # by the overruling that runs
        self._false_passes: set[tuple[int, int, bytes]] = set()  # overruled: attempt, transaction

    def check(self) -> list[Attempt]:
        """Replay and compare; the attempts that were answered, in order of their nodes."""
        record = self._record
        events = record.all(*_NAMES)
        sent = ("BenchmarkSubmitted", "BenchmarkVerdictGiven")
        record.fetch_transactions(event for event in events if event.name in sent)
        record.fetch_headers(event.block for event in events)
        for event in events:
            getattr(self, f"_on_{event.name}")(event)
        now = record.head.timestamp
        for slash in self._slashed:
            whose = f"benchmark {slash.args['attempt']} of node {slash.args['node_id']}"
            verifier = slash.args["verifier_id"]
            sentence = f"verifier {verifier} was slashed, and its verdict was not overruled."
            self._part.differ("benchmarks", whose, sentence)
        for attempt in (a for found in self.attempts.values() for a in found):
            what = "what its verdicts settled it to"
            self._part.same("benchmarks", attempt.name, what, attempt.settled, attempt.decided)
        for node, state in record.benchmarks.items():
            self._check_state(node, state)
            score = self._scores.of(node, now, self._registry.parameters)
            found = record.nodes[node].benchmark_score
            self._part.same("benchmarks", f"node {node}", "its score", found, score)
        self._check_seeds()
        return [a for found in self.attempts.values() for a in found if a.submitted is not None]

    # -- replay --------------------------------------------------------------------------------

    def _newest(self, event: Event) -> Attempt | None:
        """The attempt that an event is of; a difference where it is not the node's newest."""
        node, number = event.args["node_id"], event.args["attempt"]
        found = self.attempts[node][-1] if self.attempts[node] else None
        known = 0 if found is None else found.attempt
        who = f"benchmark {known or number} of node {node}"
        self._part.same("benchmarks", who, f"the attempt of {event.name}", number, known)
        return found

    def _on_BenchmarkRequested(self, event: Event) -> None:
        args, before = event.args, self.attempts[event.args["node_id"]]
        made = Attempt(args["node_id"], len(before) + 1, event)
        who, time = made.name, self._record.time(event)
        self._part.same("benchmarks", who, "its number", args["attempt"], made.attempt)
        self._part.same("benchmarks", who, "seed_block", args["seed_block"], event.block + 1)
        if before and before[-1].settled is None:
            parameters = self._record.parameters_at(event)
            window = 0 if parameters is None else parameters.benchmark_window
            free = self._record.time(before[-1].requested) + window
            sentence = f"it was asked for before {before[-1].name} was settled or its window over."
            self._part.hold("benchmarks", time > free, who, sentence)
        before.append(made)

    def _on_BenchmarkSubmitted(self, event: Event) -> None:
        attempt = self._newest(event)
        if attempt is None:
            return
        part, args, who = self._part, event.args, attempt.name
        part.hold("benchmarks", attempt.submitted is None, who, "it was answered twice.")
        attempt.submitted = event
        elapsed = self._record.time(event) - self._record.time(attempt.requested)
        part.same("benchmarks", who, "elapsed", args["elapsed"], elapsed)
        part.same("benchmarks", who, "check_block", args["check_block"], event.block + 1)
        parameters = self._record.parameters_at(event)
        if parameters is not None:
            late = elapsed > parameters.benchmark_window
            part.hold("benchmarks", not late, who, "it was answered after its window.")
        fits = 1 <= args["units"] <= _MOST_UNITS
        part.hold("benchmarks", fits, who, f"it has {args['units']} units.")
        sent = [
            values
            for _, values in self._record.calls(
                self._record.network.benchmarks, "submit_benchmark", _ANSWER, event
            )
            if values[0] == args["node_id"]
        ]
        seed = self._seed(formulas.benchmark_seed_key(attempt.node, attempt.attempt))
        answer = (args["units"], bytes(args["root"]), bytes(args["artefact"]))
        sentence = f"the transaction 0x{event.tx_hash.hex()} of its answer says something else."
        part.hold("benchmarks", (args["node_id"], seed, *answer) in sent, who, sentence)

    def _on_BenchmarkVerdictGiven(self, event: Event) -> None:
        attempt = self._newest(event)
        if attempt is None:
            return
        part, args, who = self._part, event.args, attempt.name
        verifier = args["verifier_id"]
        open_ = attempt.submitted is not None and attempt.settled is None
        part.hold("benchmarks", open_, who, f"verifier {verifier} judged it when nobody could.")
        once = verifier not in attempt.votes
        part.hold("benchmarks", once, who, f"verifier {verifier} judged it twice.")
        attempt.votes[verifier] = args["passed"]
        self._check_signature(attempt, event)
        parameters = self._record.parameters_at(event)
        if attempt.submitted is not None and parameters is not None:
            self._due(attempt, event, parameters.benchmark_quorum)

    def _due(self, attempt: Attempt, event: Event, quorum: int) -> None:
        """Whether the verdicts so far settle the attempt: a quorum of owners, who have more than
        half of the weight of all that may judge it."""
        assert attempt.submitted is not None
        passed = event.args["passed"]
        voters = self._registry.voters(event, self._record.time(attempt.submitted))
        owner_of, nodes = attempt.node, self._registry.nodes
        own = nodes[owner_of].owner if owner_of in nodes else NOBODY
        total = sum(weight for node, weight in voters.items() if nodes[node].owner != own)
        behind = [node for node, vote in attempt.votes.items() if vote == passed]
        weight = sum(voters.get(node, 0) for node in behind if node not in attempt.overruled)
        verifier = event.args["verifier_id"]
        sentence = f"verifier {verifier} judged it and had no voice."
        self._part.hold("benchmarks", verifier in voters, attempt.name, sentence)
        if len(behind) >= quorum and 2 * weight > total:
            attempt.decided = passed

    def _check_signature(self, attempt: Attempt, event: Event) -> None:
        """The verdict was signed by the verifier's operator, and it is not its owner's node."""
        record, args = self._record, event.args
        verifier, passed = args["verifier_id"], args["passed"]
        attempt.check_seed = self._seed(formulas.benchmark_check_key(attempt.node, attempt.attempt))
        place = (record.network.benchmarks.address, record.chain_id, attempt.node)
        data = benchmark_verdict(*place, attempt, attempt.check_seed, passed)
        signers = set()
        called = record.calls(record.network.benchmarks, "submit_verdicts", _VERDICTS, event)
        for _, (node, said, ids, signatures) in called:
            if node != attempt.node or said != passed:
                continue
            for one, signature in zip(ids, signatures, strict=False):
                if one == verifier:
                    signers.add(recover_typed(*data, signature))
        operator = self._registry.operator(verifier, event)
        sentence = f"its operator {operator} did not sign that verdict on {attempt.name}."
        signed = operator != NOBODY and operator in signers
        self._part.hold("benchmarks", signed, f"verifier {verifier}", sentence)
        owners = [
            account.owner
            for account in map(self._registry.nodes.get, (verifier, attempt.node))
            if account is not None
        ]
        own = f"verifier {verifier} judged a node of its own owner."
        self._part.hold("benchmarks", len(set(owners)) == 2, attempt.name, own)

    def _on_BenchmarkSettled(self, event: Event) -> None:
        attempt = self._newest(event)
        if attempt is None:
            return
        part, args, who = self._part, event.args, attempt.name
        part.hold("benchmarks", attempt.settled is None, who, "it was settled twice.")
        attempt.settled = args["passed"]
        part.same("benchmarks", who, "the verdict", args["passed"], attempt.decided)
        parameters = self._record.parameters_at(event)
        if args["passed"] and attempt.submitted is not None:
            elapsed = self._record.time(attempt.submitted) - self._record.time(attempt.requested)
            self._scores.passed(attempt.node, attempt.units, elapsed, event)
        wanted = self._scores.of(attempt.node, self._record.time(event), parameters)
        part.same("benchmarks", who, "the score of BenchmarkSettled", args["score"], wanted)

    def _on_BenchmarkVerdictSlashed(self, event: Event) -> None:
        self._slashed.append(event)

    def _on_VerdictOverruled(self, event: Event) -> None:
        """The committee names verifiers who gave a verdict, each once."""
        args, part = event.args, self._part
        node, number = args["node_id"], args["attempt"]
        found = {attempt.attempt: attempt for attempt in self.attempts[node]}.get(number)
        who = f"benchmark {number} of node {node}"
        mine, self._slashed = self._slashed, []
        if not part.hold("benchmarks", found is not None, who, "it was overruled, and never was."):
            self._slashed = mine
            return
        assert found is not None
        for slash in mine:
            whose = f"benchmark {slash.args['attempt']} of node {slash.args['node_id']}"
            verifier = slash.args["verifier_id"]
            about = (slash.args["node_id"], slash.args["attempt"], slash.tx_hash)
            here = about == (node, number, event.tx_hash)
            gave = found.votes.get(verifier) == args["passed"] and verifier not in found.overruled
            sentence = f"verifier {verifier} was slashed for a verdict that it did not give."
            part.hold("benchmarks", here and gave, whose, sentence)
            found.overruled.add(verifier)
        if args["passed"]:
            self._scores.reset(node, event)
            self._false_passes.add((node, number, event.tx_hash))

    def _on_FalseBenchmarkSlashed(self, event: Event) -> None:
        """The committee slashes a node for an answer, once, that a verifier failed or whose pass it
        overrules in the same call."""
        args, part = event.args, self._part
        node, number = args["node_id"], args["attempt"]
        found = {attempt.attempt: attempt for attempt in self.attempts[node]}.get(number)
        who = f"benchmark {number} of node {node}"
        judged = found is not None and found.settled is not None
        if not part.hold("benchmarks", judged, who, "its node was slashed for it unjudged."):
            return
        assert found is not None
        part.hold("benchmarks", not found.condemned, who, "its node was slashed for it twice.")
        overruled = (node, number, event.tx_hash) in self._false_passes
        doubted = overruled or not all(found.votes.values())
        sentence = "its node was slashed for it, and no verifier failed it."
        part.hold("benchmarks", doubted, who, sentence)
        found.condemned = True
        if found.settled:
            self._scores.reset(node, event)

    # -- the end -------------------------------------------------------------------------------

    def _check_state(self, node: int, state: Benchmark) -> None:
        """What the contract keeps of a node's newest attempt."""
        if not self.attempts[node]:
            self._part.same("benchmarks", f"node {node}", "its attempts", state.attempt, 0)
            return
        attempt = self.attempts[node][-1]
        time = self._record.time
        wanted = {
            "attempt": attempt.attempt,
            "requested_at": time(attempt.requested),
            "submitted_at": 0 if attempt.submitted is None else time(attempt.submitted),
            "units": attempt.units,
            "root": attempt.root,
            "artefact": attempt.artefact,
            "passes": sum(attempt.votes.values()),
            "fails": sum(not vote for vote in attempt.votes.values()),
            "settled": attempt.settled is not None,
        }
        for name, value in wanted.items():
            self._part.same("benchmarks", attempt.name, name, getattr(state, name), value)

    def _seed(self, key: bytes) -> bytes:
        events = self._record.seeds.get((self._record.network.benchmarks.address, key), [])
        found = [bytes(e.args["seed"]) for e in events if e.name == "SeedCaptured"]
        return found[-1] if found else ZERO_DIGEST

    def _check_seeds(self) -> None:
        """Both seeds of each attempt from their blocks, and no seed of anything else."""
        record, part, contract = self._record, self._part, self._record.network.benchmarks
        known = set()
        for node, attempts in self.attempts.items():
            state = record.benchmarks.get(node)
            for attempt in attempts:
                place = node, attempt.attempt
                newest = state is not None and attempt is attempts[-1]
                keys = formulas.benchmark_seed_key(*place), formulas.benchmark_check_key(*place)
                known |= set(keys)
                kept = (
                    [None, None]
                    if state is None or not newest
                    else [
                        (state.seed_block, state.seed),
                        (state.check_block, state.check_seed),
                    ]
                )
                asked = (True, attempt.submitted is not None)
                for key, what, block, due in zip(
                    keys, ("seed", "check seed"), kept, asked, strict=True
                ):
                    who = f"{what} of {attempt.name}"
                    events = record.seeds.get((contract.address, key), [])
                    requests = sum(event.name == "SeedRequested" for event in events)
                    part.same("seeds", who, "how often it was requested", requests, int(due))
                    seed = check_seed(
                        record, part, (contract, key), who, block, self._random_source
                    )
                    needed = attempt.submitted is not None if what == "seed" else attempt.votes
                    got = not needed or seed != ZERO_DIGEST
                    part.hold("seeds", got, who, "it was used and never captured.")
                    if what == "seed":
                        attempt.seed = seed
        for (address, key), events in record.seeds.items():
            if address == contract.address and key not in known:
                who = f"{events[0].name} of NodeBenchmarks"
                part.differ("seeds", who, f"no benchmark has a seed of the key 0x{key.hex()}.")
