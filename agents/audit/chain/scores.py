# SPDX-License-Identifier: Apache-2.0
"""The validators' vectors of a round, their consensus, and what it does to trust and cuts.

Rule: of a job that adopted ScoreConsensus, every revealed vector opens a commitment made before
anybody could read one; the consensus is the stake-weighted median of those vectors with the stakes
of the round's snapshot; trust is followed from the job's first round. All of it from events, the
salts from transactions; the contract's answers are only compared.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from agents.audit.chain.opening import Opened
from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, ScoreOpening, place
from agents.protocol.formulas import score_commitment
from agents.protocol.median import agreement, cut_factor, next_trust, stake_median
from agents.protocol.numbers import BPS, SCALE, ZERO_DIGEST, Phase, ScorePhase
from agents.runtime.contracts import Event

_EVENTS = (
    "SamplesPosted",
    "ScoringOpened",
    "ScoresCommitted",
    "ScoreRevealStarted",
    "ScoresRevealed",
    "ScoringClosed",
)
_OPEN = 2  # ScoreConsensus' pause bit


@dataclass(frozen=True)
class Vector:
    """What a verifier revealed: scores in the order of the snapshot, the digest of its record."""

    scores: tuple[int, ...]
    record: bytes


@dataclass(frozen=True)
class Scored:
    """A round of an adopted job.

    Attributes:
        standing: consensus by node of the newest round scored before, which chose whose payloads
            were merged; empty before the first.
        stood: that round, 0 before the first.
        samples: digest of its sync sample by node.
        vectors: by verifier.
        consensus: by node, without zeros; empty in an unscored round.
        opened: whether anybody committed to scores.
        trusts: of the verifiers that revealed, after the round.
    """

    standing: dict[int, int]
    stood: int
    samples: dict[int, bytes]
    vectors: dict[int, Vector]
    consensus: dict[int, int] = field(default_factory=dict)
    opened: bool = False
    trusts: dict[int, int] = field(default_factory=dict)

    def pays(self, round_id: int, named: Collection[int]) -> tuple[int, dict[int, int] | None]:
        """(the round whose consensus pays, the parts by node); (0, None): contributions do.

        `named`: the nodes of the round's result.
        """
        if self.consensus:
            return round_id, self.consensus
        parts = {node: self.standing[node] for node in named if node in self.standing}
        return (self.stood, parts) if parts else (0, None)

    def factor(self, verifier: int, spared: bool) -> int:
        """What an attester's cut counts, in 1/10,000. `spared`: no scoring could be opened."""
        if not self.opened and spared:
            return BPS
        if verifier not in self.vectors:
            return 0
        if not self.consensus:
            return BPS
        return cut_factor(self.trusts[verifier], max(self.trusts.values()))


class Scores:
    """The scorings of a job, replayed round by round."""

    def __init__(self, record: Record, registry: StakeBook) -> None:
        self._record = record
        self._registry = registry
        self._standing: dict[int, int] = {}
        self._trusts: dict[int, int] = {}
        self._last_scored = 0
        self.adoptions = record.of("JobAdopted")
        self.windows = (0, 0)
        if self.adoptions:
            args = self.adoptions[0].args
            self.windows = (args["commit_s"], args["reveal_s"])

    def check_adoption(self, part: Part) -> None:
        """Who adopted, when, and what the contract keeps of it."""
        record = self._record
        said = (record.adopted, record.windows)
        wanted = (bool(self.adoptions), self.windows)
        part.same("job", "ScoreConsensus", "adoption and windows", said, wanted)
        if not self.adoptions:
            for name in _EVENTS:
                for event in record.of(name):
                    part.differ(
                        "scores",
                        name,
                        f"there is one of round {event.args['round_id']}, but the job was never "
                        "adopted.",
                    )
            return
        part.same("job", "JobAdopted", "their number", len(self.adoptions), 1)
        sender = record.sender(self.adoptions[0])
        part.same("job", "JobAdopted", "who adopted", sender, record.job.sponsor)
        opened = record.of("RoundOpened")
        early = not opened or place(self.adoptions[0]) < place(opened[0])
        part.hold("job", early, "JobAdopted", "the job was adopted after its first round opened.")

    def check_end(self, part: Part) -> None:
        """What the contract keeps after the last round that was replayed."""
        record, contract = self._record, self._record.network.scores
        part.same("scores", "job", "the last scored round", record.last_scored, self._last_scored)
        committed = {e.args["verifier_id"] for e in record.of("ScoresCommitted")}
        kept = record.ask(contract, "trust_of", [(record.job_id, v) for v in sorted(committed)])
        for (_, verifier), said in kept.items():
            wanted = self._trusts.get(verifier, 0)
            part.same("scores", f"verifier {verifier}", "its trust", said, wanted)

    def replay(self, part: Part, opened: Opened) -> Scored | None:
        """Follow the round's scoring; None if the job isn't adopted."""
        if not self.adoptions:
            return None
        standing, stood, samples = dict(self._standing), self._last_scored, self._samples(part)
        commits = self._commits(part, opened)
        revealing, deadline = self._windows_of(part, opened, commits)
        self._samples_in_time(part, commits, revealing)
        vectors = self._reveals(part, opened, commits, revealing, deadline)
        consensus = self._closing(part, opened, commits, vectors, deadline)
        if consensus:
            self._standing = consensus
            self._last_scored = part.round_id
        trusts = {verifier: self._trusts.get(verifier, 0) for verifier in vectors}
        return Scored(standing, stood, samples, vectors, consensus, bool(commits), trusts)

    def spared(self, round_id: int) -> bool:
        """Whether opening a scoring was paused when a round was finalized."""
        final = self._record.of("RoundFinalized", round_id)
        bits = 0
        for event in self._record.all("PauseChanged"):
            mine = event.address == self._record.network.scores.address
            if mine and final and place(event) < place(final[0]):
                bits = event.args["new_bits"]
        return bool(bits & _OPEN)

    # -- one round -----------------------------------------------------------------------------

    def _samples(self, part: Part) -> dict[int, bytes]:
        """Who posted a sync sample: operators of nodes that revealed, once each."""
        record, number = self._record, part.round_id
        revealed = {e.args["node_id"] for e in record.of("Revealed", number)}
        found: dict[int, bytes] = {}
        for event in record.of("SamplesPosted", number):
            node = event.args["node_id"]
            who = f"node {node}"
            part.hold("scores", node not in found, who, "it has two events SamplesPosted.")
            part.hold(
                "scores", node in revealed, who, "it posted a sync sample but revealed nothing."
            )
            sender, operator = record.sender(event), self._registry.operator(node, event)
            part.same("scores", who, "who posted its sync sample", sender, operator)
            found.setdefault(node, event.args["digest"])
        self._same_kept(part, "samples_of", "node", "its sync sample", sorted(revealed), found)
        return found

    def _samples_in_time(self, part: Part, commits: dict[int, Event], revealing: int) -> None:
        """No sample was posted once all scores were committed to. `revealing`: when that was."""
        for event in self._record.of("SamplesPosted", part.round_id):
            late = bool(commits) and self._record.time(event) > revealing
            who = f"node {event.args['node_id']}"
            part.hold("scores", not late, who, "it posted its sync sample after the scores.")

    def _commits(self, part: Part, opened: Opened) -> dict[int, Event]:
        """ScoresCommitted by verifier, in their order."""
        record, number = self._record, part.round_id
        found: dict[int, Event] = {}
        for event in record.of("ScoresCommitted", number):
            verifier = event.args["verifier_id"]
            who = f"verifier {verifier}"
            part.hold("scores", verifier not in found, who, "it committed to scores twice.")
            known = verifier in opened.verifiers
            part.hold("scores", known, who, "it committed to scores without being in the snapshot.")
            sender, operator = record.sender(event), self._registry.operator(verifier, event)
            part.same("scores", who, "who committed to its scores", sender, operator)
            found.setdefault(verifier, event)
        digests = {v: e.args["commitment"] for v, e in found.items()}
        everybody = sorted(opened.verifiers)
        self._same_kept(
            part, "score_commitment_of", "verifier", "its commitment to scores", everybody, digests
        )
        return found

    def _windows_of(self, part: Part, opened: Opened, commits: dict[int, Event]) -> tuple[int, int]:
        """(the first time to reveal, the last), in chain time; checks both deadlines."""
        record, number = self._record, part.round_id
        starts = record.of("ScoringOpened", number)
        part.same("scores", "ScoringOpened", "their number", len(starts), int(bool(commits)))
        ended = record.of("ScoreRevealStarted", number)
        whole = bool(commits) and commits.keys() >= opened.verifiers.keys()
        part.same("scores", "ScoreRevealStarted", "their number", len(ended), int(whole))
        if not commits:
            return 0, 0
        events = list(commits.values())
        commit_by = self._commit_by(number)
        for event in starts:
            said = event.args["commit_deadline"]
            part.same("scores", "ScoringOpened", "commit_deadline", said, commit_by)
        for verifier, event in commits.items():
            in_time = record.time(event) <= commit_by
            who = f"verifier {verifier}"
            part.hold("scores", in_time, who, "it committed to scores after the deadline.")
        begin, deadline = commit_by + 1, commit_by + self.windows[1]
        if whole:
            begin = record.time(events[-1])
            deadline = begin + self.windows[1]
            for event in ended:
                part.same("scores", event.name, "deadline", event.args["deadline"], deadline)
        kept = record.scorings[record.job_id, number]
        said = (kept.commit_deadline, kept.reveal_deadline, kept.committed)
        wanted = (commit_by, deadline, len(commits))
        what = "commit deadline, reveal deadline and commitments"
        part.same("scores", "ScoreConsensus", what, said, wanted)
        return begin, deadline

    def _commit_by(self, round_id: int) -> int:
        """Until when scores may be committed to, by the clock of the round."""
        record = self._record
        begun = [
            e for e in record.of("PhaseChanged", round_id) if e.args["phase"] == Phase.AGGREGATE
        ]
        window = record.job.terms.aggregate_s + self.windows[0]
        return record.time(begun[0]) + window if begun else 0

    def _reveals(
        self,
        part: Part,
        opened: Opened,
        commits: dict[int, Event],
        begin: int,
        deadline: int,
    ) -> dict[int, Vector]:
        record, number = self._record, part.round_id
        found: dict[int, Vector] = {}
        for event in record.of("ScoresRevealed", number):
            args = event.args
            verifier, scores = args["verifier_id"], tuple(map(int, args["scores"]))
            who, time = f"verifier {verifier}", record.time(event)
            part.hold("scores", verifier not in found, who, "it revealed scores twice.")
            if not part.hold(
                "scores", verifier in commits, who, "it revealed scores without a commitment."
            ):
                continue
            sentence = f"it revealed scores at {time}, not from {begin} to {deadline}."
            part.hold("scores", begin <= time <= deadline, who, sentence)
            part.same("scores", who, "the number of its scores", len(scores), len(opened.nodes))
            sound = sum(scores) <= SCALE
            part.hold("scores", sound, who, f"its scores add up to {sum(scores)}, above 65,535.")
            self._check_opening(part, verifier, commits[verifier], event)
            padded = (*scores, *[0] * len(opened.nodes))[: len(opened.nodes)]
            found.setdefault(verifier, Vector(padded, args["record"]))
        records = {verifier: vector.record for verifier, vector in found.items()}
        everybody = sorted(opened.verifiers)
        self._same_kept(part, "record_of", "verifier", "its record's digest", everybody, records)
        said = record.scorings[record.job_id, number].revealed
        part.same("scores", "ScoreConsensus", "the number of reveals", said, len(found))
        return found

    def _check_opening(self, part: Part, verifier: int, commit: Event, reveal: Event) -> None:
        record, args, who = self._record, reveal.args, f"verifier {verifier}"
        openings = record.score_openings(reveal)
        if not part.hold(
            "scores",
            bool(openings),
            who,
            f"the transaction 0x{reveal.tx_hash.hex()} of its scores holds no opening.",
        ):
            return
        wanted = commit.args["commitment"]
        digests = [self._digest(part, verifier, opening, commit) for opening in openings]
        index = digests.index(wanted) if wanted in digests else 0
        part.same("scores", who, "its commitment to scores", wanted, digests[index])
        opening = openings[index]
        part.same("scores", who, "the scores that it revealed", args["scores"], opening.scores)
        part.same("scores", who, "the record that it revealed", args["record"], opening.record)

    def _digest(self, part: Part, verifier: int, opening: ScoreOpening, commit: Event) -> bytes:
        record = self._record
        return score_commitment(
            record.chain_id,
            record.network.scores.address,
            (record.job_id, part.round_id, verifier),
            opening.sender or self._registry.operator(verifier, commit),
            opening.scores,
            opening.record,
            opening.salt,
        )

    def _closing(
        self,
        part: Part,
        opened: Opened,
        commits: dict[int, Event],
        vectors: dict[int, Vector],
        deadline: int,
    ) -> dict[int, int]:
        """The consensus by node, without zeros; moves the trusts."""
        record, number, nodes = self._record, part.round_id, opened.nodes
        closings = record.of("ScoringClosed", number)
        final = record.of("RoundFinalized", number)
        if not closings:
            unsettled = bool(commits and final)
            part.hold(
                "scores",
                not unsettled,
                "ScoringClosed",
                "the round was finalized before its scores were closed.",
            )
            for last in [] if commits or self.spared(number) else final:
                waited = record.time(last) > self._commit_by(number)
                sentence = "the round was finalized while scores could still be committed to."
                part.hold("scores", waited, "RoundFinalized", sentence)
            return {}
        event, args = closings[0], closings[0].args
        part.same("scores", "ScoringClosed", "their number", len(closings), 1)
        part.hold("scores", bool(commits), "ScoringClosed", "nobody had committed to scores.")
        waited = len(vectors) == len(commits) or record.time(event) > deadline
        part.hold("scores", waited, "ScoringClosed", "it came while verifiers could still reveal.")
        for last in final:
            early = place(event) < place(last)
            part.hold("scores", early, "ScoringClosed", "it came after the round was finalized.")
        part.same("scores", "ScoringClosed", "nodes", args["nodes"], nodes)
        part.same("scores", "ScoringClosed", "verifiers", args["verifiers"], list(commits))
        worked = {e.args["node_id"] for e in record.of("Revealed", number)}
        agreed = stake_median(
            [
                [
                    score if node in worked else 0
                    for node, score in zip(nodes, v.scores, strict=True)
                ]
                for v in vectors.values()
            ],
            [opened.verifiers.get(verifier, 0) for verifier in vectors],
            max(1, sum(opened.verifiers.values())),  # an RPC node may claim that there was none
            len(nodes),
        )
        said = dict(zip(args["nodes"], args["consensus"], strict=False))
        for node, score in zip(nodes, agreed, strict=True):
            part.same("scores", f"node {node}", "its consensus", said.get(node), score)
        length = len(args["consensus"])
        part.same("scores", "ScoringClosed", "the length of consensus", length, len(nodes))
        part.same("scores", "ScoringClosed", "scored", args["scored"], any(agreed))
        agreements, trusts = [], []
        nothing = Vector((0,) * len(nodes), ZERO_DIGEST)
        for verifier in commits:
            newest = agreement(vectors.get(verifier, nothing).scores, agreed)
            if any(agreed):
                old = self._trusts.get(verifier)
                self._trusts[verifier] = next_trust(old, newest)
            agreements.append(newest)
            trusts.append(self._trusts.get(verifier, 0))
        for name, values in (("agreements", agreements), ("trusts", trusts)):
            part.same("scores", "ScoringClosed", name, args[name], values)
        kept = record.scorings[record.job_id, number]
        state = (kept.phase, kept.total, kept.scored)
        wanted = (int(ScorePhase.CLOSED), sum(agreed), any(agreed))
        part.same("scores", "ScoreConsensus", "phase, total and scored", state, wanted)
        keys = [(record.job_id, number, tuple(sorted(nodes)))]
        for shares in record.ask(record.network.scores, "shares", keys).values():
            own = [score for _, score in sorted(zip(nodes, agreed, strict=True))]
            part.same("scores", "ScoreConsensus", "the consensus it keeps", shares, own)
        return {node: score for node, score in zip(nodes, agreed, strict=True) if score}

    def _same_kept(
        self,
        part: Part,
        view: str,
        who: str,
        what: str,
        everybody: list[int],
        wanted: dict[int, bytes],
    ) -> None:
        """Compare a view of ScoreConsensus with the events, for each of `everybody`."""
        record = self._record
        keys = [(record.job_id, part.round_id, number) for number in everybody]
        for key, said in record.ask(record.network.scores, view, keys).items():
            due = wanted.get(key[2], ZERO_DIGEST)
            part.same("scores", f"{who} {key[2]}", f"{what}, as kept", said, due)
