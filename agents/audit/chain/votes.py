# SPDX-License-Identifier: Apache-2.0
"""Who proposed the round's result, who stood behind it, and what the ledger made of it.

Rule: a result is final when its challenge window passed. It is final before when two verifiers or
more attested it and no report with a third of the snapshot's weight was open: with all of the
weight at any time, with two thirds in the last half of the window. Only the aggregator on duty, or
in the second window any node of the snapshot, may have proposed it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from agents.audit.chain.carry import pool_of
from agents.audit.chain.opening import Opened
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.protocol import formulas
from agents.protocol.numbers import MIN_VOICES, UNCLAIMED, ZERO_DIGEST, Phase, Violation
from agents.protocol.structs import Proposal
from agents.runtime.contracts import Event

_RESULT = ("model", "update", "report", "nodes", "contributions")  # what a proposal says


@dataclass(frozen=True)
class Tally:
    """The result that stands.

    `attesters`: weight by verifier in order of attestation. `invalid`: found so in the round.
    `cleared`: those of them whose appeal the committee upheld.
    """

    proposal: Proposal
    attesters: dict[int, int]
    invalid: frozenset[int]
    cleared: frozenset[int]

    @property
    def contributions(self) -> dict[int, int]:
        """What the result says that each node has contributed."""
        return dict(zip(self.proposal.nodes, self.proposal.contributions, strict=False))


def check_votes(record: Record, part: Part, opened: Opened, seed: bytes | None) -> Tally | None:
    """Check proposals, attestations, challenges and reports; the result that stands, if any."""
    number, state = part.round_id, record.current[part.round_id]
    invalid = _check_invalid(record, part, opened)
    standing: Event | None = None
    rejected: list[Event] = []
    attempt = 0
    names = ("ResultProposed", "ChallengeResolved", "PhaseChanged")
    entered = 0  # how often AGGREGATE was
    for event in sorted((e for name in names for e in record.of(name, number)), key=place):
        args = event.args
        if event.name == "PhaseChanged":
            entered += args["phase"] == Phase.AGGREGATE
        elif event.name == "ResultProposed":
            attempt += 1
            standing = event
            _check_proposal(record, part, opened, event, attempt)
            barred = {event.args["proposer"] for event in rejected}
            _check_proposer(part, opened, seed, args["proposer"], entered > 1, barred)
        elif args["upheld"] and standing is not None:
            rejected.append(standing)
            standing = None
    found = ZERO_DIGEST if standing is None else standing.args["result_hash"]
    part.same("votes", "ResultProposed", "the result that stands", found, state.result_hash)
    if standing is None:
        return None
    args = standing.args
    for name in ("proposer", "model", "update", "report"):
        part.same("votes", "ResultProposed", name, args[name], getattr(state, name))
    proposal = Proposal(
        proposer=args["proposer"],
        model=args["model"],
        update=args["update"],
        report=args["report"],
        result_hash=found,
        nodes=tuple(args["nodes"]),
        contributions=tuple(args["contributions"]),
    )
    digest = formulas.contributions_hash(proposal.nodes, proposal.contributions)
    part.same(
        "votes", "ResultProposed", "the contributions' hash", digest, state.contributions_hash
    )
    attesters = _check_attested(record, part, opened, found)
    for event in rejected:
        if all(event.args[name] == args[name] for name in _RESULT):
            part.remark(
                f"node {event.args['proposer']} proposed what stands in the end, and the committee "
                "upheld a challenge of it: its files were not to be had then, or the committee was "
                "wrong."
            )
    if state.phase == Phase.FINALIZED:
        _check_final(record, part, opened, standing, attesters)
    mine = {e.args["report_id"] for e in record.of("ViolationReported", number)}
    cleared = frozenset(
        e.args["node_id"]
        for e in record.all("AppealResolved")
        if e.args["report_id"] in mine and e.args["upheld"]
    )
    return Tally(proposal, attesters, invalid, cleared)


def _check_proposal(record: Record, part: Part, opened: Opened, event: Event, attempt: int) -> None:
    args = event.args
    nodes, contributions = list(args["nodes"]), list(args["contributions"])
    say = f"ResultProposed {attempt}"
    part.same("votes", say, "the number of contributions", len(contributions), len(nodes))
    wanted = formulas.result_hash(
        record.job_id,
        part.round_id,
        attempt,
        args["model"],
        args["update"],
        args["report"],
        formulas.contributions_hash(nodes, contributions),
    )
    part.same("votes", say, "result_hash", args["result_hash"], wanted)
    part.same("votes", say, "the order of nodes", nodes, sorted(set(nodes)))
    revealed = {e.args["node_id"] for e in record.of("Revealed", part.round_id)}
    for node in nodes:
        ok = node in revealed or node == UNCLAIMED
        part.hold("votes", ok, f"node {node}", "it is to be paid but revealed nothing.")


def _check_proposer(
    part: Part,
    opened: Opened,
    seed: bytes | None,
    proposer: int,
    fallback: bool,
    barred: set[int],
) -> None:
    who = f"node {proposer}"
    if not fallback and opened.aggregators:
        duty = opened.aggregators[int.from_bytes(seed or b"", "big") % len(opened.aggregators)]
        part.same("votes", "ResultProposed", "the proposer on duty", proposer, duty)
        return
    known = {*opened.nodes, *opened.verifiers, *opened.aggregators}
    part.hold("votes", proposer in known, who, "it proposed without being in the snapshot.")
    part.hold("votes", proposer not in barred, who, "it proposed although it was barred.")


def _check_attested(record: Record, part: Part, opened: Opened, result: bytes) -> dict[int, int]:
    state = record.current[part.round_id]
    found: dict[int, int] = {}
    for event in record.of("Attested", part.round_id):
        args = event.args
        verifier = args["verifier_id"]
        who = f"verifier {verifier}"
        stake = opened.verifiers.get(verifier)
        part.same("votes", who, "the weight of its attestation", args["weight"], stake or 0)
        known = {e.args["result_hash"] for e in record.of("ResultProposed", part.round_id)}
        named = args["result_hash"]
        part.hold(
            "votes", named in known, who, f"it attested 0x{named.hex()}, which nobody proposed."
        )
        if named == result:
            part.hold("votes", verifier not in found, who, "it attested twice.")
            found[verifier] = args["weight"]
    part.same("votes", "Attested", "the attested stake", sum(found.values()), state.attested_stake)
    return found


def _check_invalid(record: Record, part: Part, opened: Opened) -> frozenset[int]:
    """Nodes found invalid: each by a confirmed report with two thirds of the verifiers' stake."""
    number, state = part.round_id, record.current[part.round_id]
    found = [e.args["node_id"] for e in record.of("NodeInvalidated", number)]
    cleared = [e.args["node_id"] for e in record.of("NodeCleared", number)]
    part.hold(
        "votes",
        len(set(cleared)) == len(cleared) and set(cleared) <= set(found),
        "NodeCleared",
        "it is of a node that was not found invalid, or twice of the same.",
    )
    invalid = [node for node in found if node not in cleared]
    part.same("votes", "NodeInvalidated", "their number", len(invalid), state.n_invalid)
    marks = record.flags("is_invalid", number, opened.nodes)
    for node, mark in marks.items():
        part.same("votes", f"node {node}", "whether it is invalid", mark, node in invalid)
    for event in record.of("ViolationReported", number):
        args = event.args
        wanted = formulas.report_id(record.job_id, number, args["node_id"], args["violation"])
        part.same(
            "votes", f"node {args['node_id']}", "the id of its report", args["report_id"], wanted
        )
    confirmed = []
    total = sum(opened.verifiers.values())
    for event in record.all("ReportConfirmed"):
        key = event.args["report_id"]
        reports = [e for e in record.of("ViolationReported", number) if e.args["report_id"] == key]
        if not reports:
            continue
        first = reports[0].args
        node = first["node_id"]
        confirmed.append(node)
        who = f"node {node}"
        part.same("votes", who, "who ReportConfirmed is about", event.args["node_id"], node)
        weight = voices = 0
        for report in reports:
            verifier = report.args["verifier_id"]
            stake = opened.verifiers.get(verifier, 0)
            part.same(
                "votes",
                f"verifier {verifier}",
                "the weight of its report",
                report.args["weight"],
                stake,
            )
            if place(report) < place(event):
                weight += stake
                voices += 1
        part.hold(
            "votes",
            3 * weight >= 2 * total and voices >= MIN_VOICES,
            who,
            f"its report was confirmed with {weight} of {total} stake by {voices}, less than two "
            "thirds or than two verifiers.",
        )
        deadline = record.time(event) + record.job.terms.appeal_s
        part.same("votes", who, "its appeal deadline", event.args["appeal_deadline"], deadline)
        if first["violation"] == Violation.COPIED:
            same = [e.args["second_node"] for e in record.of("DuplicateContent", number)]
            same += [e.args["first_node"] for e in record.of("DuplicateContent", number)]
            part.hold("votes", node in same, who, "it was found COPIED with a content of its own.")
    part.same("votes", "NodeInvalidated", "the nodes", sorted(found), sorted(confirmed))
    return frozenset(found)


def _check_final(
    record: Record, part: Part, opened: Opened, standing: Event, attesters: dict[int, int]
) -> None:
    final = record.of("RoundFinalized", part.round_id)
    if not part.same("votes", "RoundFinalized", "their number", len(final), 1):
        return
    event = final[0]
    windows = [
        e.args["deadline"]
        for e in record.of("PhaseChanged", part.round_id)
        if e.args["phase"] == Phase.CHALLENGE and place(e) < place(event)
    ]
    total, attested = sum(opened.verifiers.values()), sum(attesters.values())
    still = _open_reports(record, part.round_id, event, total)
    at, ends = record.time(event), windows[-1] if windows else 0
    half = record.job.terms.challenge_s // 2
    enough = 2 * total if ends and at + half >= ends else 3 * total
    early = 3 * attested >= enough and len(attesters) >= MIN_VOICES and not still
    late = bool(ends) and at > ends
    part.hold(
        "votes",
        early or late,
        "RoundFinalized",
        f"{len(attesters)} with {attested} of {total} stake attested it, less than two, or than "
        "two thirds (all before the last half of the challenge window), or with a report open, "
        "and the window had not passed.",
    )
    said = record.current[part.round_id].open_reports
    part.same("votes", "TrainingResults", "the number of open reports", said, still)
    part.same("votes", "RoundFinalized", "model", event.args["model"], standing.args["model"])


def _open_reports(record: Record, round_id: int, at: Event, total: int) -> int:
    """How many reports with a third of the weight were open when an event happened."""
    weights: dict[bytes, int] = defaultdict(int)
    still: dict[bytes, int] = {}
    confirmed: set[int] = set()
    for event in record.of("ViolationReported", round_id):
        if place(event) < place(at):
            args = event.args
            weights[args["report_id"]] += args["weight"]
            if 3 * weights[args["report_id"]] >= total:
                still[args["report_id"]] = args["node_id"]
    for event in record.all("ReportConfirmed"):
        key = event.args["report_id"]
        if key in still and place(event) < place(at):
            confirmed.add(still[key])
    return sum(node not in confirmed for node in still.values())


def check_ledger(record: Record, part: Part, opened: Opened, standing: Tally) -> None:
    """The round's entry: every field, and the head that binds it to all before it."""
    indices = [i for i, entry in enumerate(record.ledger) if entry.round_id == part.round_id]
    if not part.same("ledger", "TrainingLedger", "the entries of this round", len(indices), 1):
        return
    index = indices[0]
    entry, proposal = record.ledger[index], standing.proposal
    contributors = formulas.contributors_root(proposal.nodes)
    scores = formulas.contributions_hash(proposal.nodes, proposal.contributions)
    before = ZERO_DIGEST if index == 0 else record.ledger[index - 1].head
    events = record.of("RoundRecorded", part.round_id)
    if not part.same("ledger", "RoundRecorded", "their number", len(events), 1):
        return
    reward, timestamp = pool_of(record, part.round_id)[0], record.time(events[0])
    head = formulas.ledger_head(
        before,
        record.job_id,
        part.round_id,
        opened.prev_model,
        proposal.model,
        contributors,
        scores,
        proposal.report,
        reward,
        timestamp,
    )
    wanted = {
        "index": index,
        "prev_model": opened.prev_model,
        "new_model": proposal.model,
        "contributors_root": contributors,
        "scores_root": scores,
        "report": proposal.report,
        "reward": reward,
        "timestamp": timestamp,
        "head": head,
    }
    for name, value in wanted.items():
        part.same("ledger", f"entry {index}", name, getattr(entry, name), value)
        part.same("ledger", "RoundRecorded", name, events[0].args[name], value)
