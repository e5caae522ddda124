# SPDX-License-Identifier: Apache-2.0
"""What stands behind the score vectors: every validator's record of a round, replayed.

A vector is right if its record is. The record is the one that the chain names, follows the
validator's record before it, and is of this round's model, audit seed and snapshot; its draw,
ratings and scores are computed again from it (`agents.gauntlet.replay`), and so are the cheap
checks of fast evaluation. With `deep` the losses are measured again, on the batches that the
audit seed drew.

A validator that lost its disk may start from fresh ratings, and one may not have had a payload or a
sample in time that is there now. Nobody can tell whether that is true, so the audit reports it as a
remark. Where a payload that a record rests on is gone by now, what depends on it is believed, which
is remarked too (`agents.gauntlet.remeasure`). So is a record of an older version: it was made by
rules that this code has not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agents.audit.chain.opening import Opened
from agents.audit.chain.scores import Scored, Vector
from agents.audit.sources.artefacts import Artefacts, guarded
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.gauntlet.fast_evaluation import (
    IMPLAUSIBLE,
    Checked,
    Facts,
    check_nodes,
    step_size,
)
from agents.gauntlet.loss_score import LOSS_TOLERANCE, NANO
from agents.gauntlet.primary_evaluation import Measured
from agents.gauntlet.record import (
    MAX_RECORD_BYTES,
    NodeScore,
    OlderRecord,
    RecordError,
    ScoreRecord,
)
from agents.gauntlet.record_chain import LOOK_BACK, breach
from agents.gauntlet.remeasure import Due, denied, due_losses, losses_in, measure_due, work_in
from agents.gauntlet.replay import replay
from agents.jobs.job import JobContext
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.plan import Plan
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import max_samples_bytes
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import State

LOSS_SCORE_TOLERANCE = round(LOSS_TOLERANCE * NANO)  # in nano-nats per token


@dataclass(frozen=True)
class RoundFacts:
    """A finalized round as the audit derived it.

    `before`: its model; `earlier`: the model one round before, None in the job's first. `history`:
    the newest merged updates that changed the model before it, newest first; None: not known.
    """

    job: JobContext
    plan: Plan
    before: State
    earlier: State | None
    submissions: Sequence[Submission]
    invalid: frozenset[int]
    history: Sequence[State] | None


class Ratings:
    """Replays the records of a job's validators."""

    def __init__(self, record: Record, artefacts: Artefacts, options: Gauntlet) -> None:
        self._record = record
        self._artefacts = artefacts
        self._options = options
        self._denied: set[tuple[int, int]] = set()  # rounds and verifiers, of who was overruled

    def check(
        self,
        part: Part,
        opened: Opened,
        scored: Scored,
        seed: bytes | None,
        facts: RoundFacts | None,
    ) -> dict[int, ScoreRecord]:
        """Every record of the round that could be read, by verifier.

        `seed`: the round's audit seed. `facts` None: the round came to nothing, or its inputs are
        not known here. Without either only what follows from the records themselves is looked at.
        """
        if seed is None and scored.vectors:
            part.remark("The audit seed is not known here: records were believed about it.")
            facts = None
        checked = None if facts is None else self._fast(part, opened, scored, seed or b"", facts)
        lost = set() if facts is None else self._lost(part, scored, facts)
        found = {}
        for verifier, vector in scored.vectors.items():
            record = self._read(part, verifier, part.round_id, vector.record)
            if record is None:
                continue
            found[verifier] = record
            if verifier in self._overruled(part):
                part.remark(f"verifier {verifier}: the committee found its scores false.")
                convicts = frozenset() if facts is None else facts.invalid
                if self._is_denied(part, verifier, vector, record, checked or {}, convicts):
                    self._denied.add((part.round_id, verifier))
                continue
            self._check_place(part, opened, verifier, vector, record)
            if seed is not None:
                who = f"verifier {verifier}"
                part.same("ratings", who, "audit_seed of its record", record.audit_seed, seed.hex())
            self._check_chain(part, verifier, record)
            if checked is not None and facts is not None:
                self._compare(part, verifier, record, checked, facts.invalid, lost)
        return found

    def measure(
        self, part: Part, records: dict[int, ScoreRecord], facts: RoundFacts, device: str
    ) -> None:
        """Measure every LossScore of these records again."""
        if facts.history is None:
            part.remark("An earlier update is not known here: losses in records were believed.")
            return
        sent = {s.reveal.node: s.gradient for s in facts.submissions if s.gradient is not None}
        for verifier, record in records.items():
            due = due_losses(record, sent.keys(), facts.job)
            if due.gone:
                part.remark(_unjudged(verifier, due))
            own = Part(part.round_id)
            if due.measurable:
                found = measure_due(
                    due,
                    record,
                    sent,
                    facts.job,
                    self._options,
                    facts.plan,
                    facts.before,
                    facts.history[: self._options.history],
                    device,
                )
                overruled = verifier in self._overruled(part)
                for line in due.lines:
                    where = own if overruled else part
                    self._compare_losses(where, verifier, line, found[line.node], due.alone)
            if verifier not in self._overruled(part):
                continue
            sentence = "the committee overruled it, but its record and its losses are right."
            wrong = not own.holds or (part.round_id, verifier) in self._denied
            if wrong or not due.gone:  # else what denied it may be gone
                part.hold("losses", wrong, f"verifier {verifier}", sentence)

    def _overruled(self, part: Part) -> set[int]:
        events = self._record.of("ScoresOverruled", part.round_id)
        return {event.args["verifier_id"] for event in events}

    def _is_denied(
        self,
        part: Part,
        verifier: int,
        vector: Vector,
        record: ScoreRecord,
        checked: dict[int, Checked],
        excused: frozenset[int],
    ) -> bool:
        """Whether a record is false by itself, by those before it, or by the cheap checks.

        `excused`: nodes of which it may say either.
        """
        past = self._past(part, verifier)
        own = Part(part.round_id)
        if record.vector() != list(vector.scores) or breach(record, past, self._kept):
            return True
        self._check_chain(own, verifier, record)
        return not own.holds or any(
            denied(line, checked[line.node], self._options)
            for line in record.scores
            if line.node in checked and line.node not in excused
        )

    def _past(self, part: Part, verifier: int) -> list[tuple[int, bytes]]:
        """Rounds and digests of what a verifier revealed before, newest first."""
        events = self._record.of("ScoresRevealed", verifier_id=verifier)
        found = ((event.args["round_id"], event.args["record"]) for event in events)
        return sorted((item for item in found if item[0] < part.round_id), reverse=True)

    def _kept(self, digest: bytes) -> ScoreRecord | None:
        """A record by its digest; None if it can't be had or read. Raises OlderRecord."""
        try:
            return ScoreRecord.from_bytes(self._artefacts.get_digest(digest, MAX_RECORD_BYTES))
        except (StoreUnavailable, OlderRecord):
            raise
        except (StoreError, RecordError):
            return None

    def _is_older(self, digest: bytes) -> bool:
        try:
            self._kept(digest)
        except OlderRecord:
            return True
        return False

    # -- one record ----------------------------------------------------------------------------

    def _read(self, part: Part, verifier: int, round_id: int, digest: bytes) -> ScoreRecord | None:
        where = "" if round_id == part.round_id else f" in round {round_id}"
        name = f"record of verifier {verifier}{where}"
        self._artefacts.name(digest, name)

        def read() -> ScoreRecord | None:
            try:
                return ScoreRecord.from_bytes(self._artefacts.get_digest(digest, MAX_RECORD_BYTES))
            except OlderRecord as older:
                part.remark(f"{name}: {older}, so it is not replayed.")
                return None

        return guarded(part, "ratings", name, read)

    def _check_place(
        self, part: Part, opened: Opened, verifier: int, vector: Vector, record: ScoreRecord
    ) -> None:
        who = f"verifier {verifier}"
        said = (record.job, record.round, record.verifier)
        wanted = (self._record.job_id, part.round_id, verifier)
        part.same("ratings", who, "job, round and verifier of its record", said, wanted)
        part.same("ratings", who, "model of its record", record.model, opened.prev_model.hex())
        nodes = tuple(line.node for line in record.scores)
        part.same("ratings", who, "the nodes in its record", nodes, opened.nodes)
        part.same("ratings", who, "the scores in its record", record.vector(), vector.scores)

    def _check_chain(self, part: Part, verifier: int, record: ScoreRecord) -> None:
        """The record follows the newest one that the verifier revealed before."""
        who, number = f"verifier {verifier}", part.round_id
        past = [
            event
            for event in self._record.of("ScoresRevealed", verifier_id=verifier)
            if event.args["round_id"] < number
        ]
        last = max(past, key=place) if past else None
        if record.previous is None:
            if last is not None and last.args["round_id"] >= number - LOOK_BACK:
                part.remark(
                    f"{who} started from fresh ratings, although it "
                    f"revealed a record in round {last.args['round_id']}."
                )
            self._say(part, who, replay(record, None, self._options))
            return
        digest = b"" if last is None else last.args["record"]
        named = bytes.fromhex(record.previous)
        part.same("ratings", who, "the record that its record follows", named, digest)
        if last is None or named != digest:
            return
        if self._is_older(digest):
            part.hold("ratings", False, who, "its record follows one of an older version.")
            return
        previous = self._read(part, verifier, last.args["round_id"], digest)
        if previous is not None:
            self._say(part, who, replay(record, previous, self._options))

    def _say(self, part: Part, who: str, wrong: Sequence[str]) -> None:
        part.hold("ratings", not wrong, who, f"its record: {'; '.join(wrong)}.")

    # -- fast evaluation -----------------------------------------------------------------------

    def _fast(
        self, part: Part, opened: Opened, scored: Scored, seed: bytes, facts: RoundFacts
    ) -> dict[int, Checked] | None:
        committed = {e.args["node_id"] for e in self._record.of("Committed", part.round_id)}
        try:
            return check_nodes(
                Facts(opened.nodes, committed, scored.samples, frozenset()),
                facts.job,
                self._options,
                facts.plan,
                facts.before,
                facts.submissions,
                seed,
                step_size(facts.before, facts.earlier),
                self._artefacts,
            )
        except StoreUnavailable:
            raise
        except (StoreError, ValueError) as error:
            part.differ("ratings", "fast evaluation", f"it can't be done again: {error}")
            return None

    def _lost(self, part: Part, scored: Scored, facts: RoundFacts) -> set[int]:
        """Nodes whose payload or sync sample can't be had; said once each. Whether it could be
        when the validators looked, nobody can tell."""
        lost = {s.reveal.node for s in facts.submissions if s.unavailable}
        bound = max_samples_bytes(facts.job.shapes, self._options.samples)
        for node, digest in scored.samples.items():
            self._artefacts.name(digest, f"sync sample of node {node}")
            try:
                self._artefacts.get_digest(digest, bound)
            except StoreUnavailable:
                raise
            except StoreError:
                lost.add(node)
        for node in sorted(lost):
            part.remark(f"node {node}: what records say of its payload or sample can't be checked.")
        return lost

    def _compare(
        self,
        part: Part,
        verifier: int,
        record: ScoreRecord,
        checked: dict[int, Checked],
        excused: Collection[int],
        lost: Collection[int],
    ) -> None:
        """What a record says of each node but the `excused` and those whose payload or sample is
        `lost` against the same checks made here."""
        lacked = any(line.failure.startswith(UNAVAILABLE) for line in record.scores)
        for line in record.scores:
            own = checked.get(line.node)
            if own is None or line.node in excused or line.node in lost:
                continue
            who = f"verifier {verifier}, node {line.node}"
            if line.failure.startswith(UNAVAILABLE):
                if not own.failure:
                    part.remark(f'{who}: its record says "{line.failure}", which is not so now.')
            elif (lost or lacked) and IMPLAUSIBLE in (line.failure, own.failure):
                part.remark(f"{who}: its norm can't be judged here, beside payloads that are gone.")
            elif line.usable and not own.usable:
                part.hold(
                    "ratings", False, who, f"its record calls the payload usable: {own.failure}."
                )
            elif own.failure and not line.failure:
                part.hold(
                    "ratings", False, who, f"its record overlooks a failed check: {own.failure}."
                )
            elif why := denied(line, own, self._options):
                part.hold("ratings", False, who, f"its record is wrong: {why} it.")
            elif line.failure and not own.failure:
                part.remark(f'{who}: its record says "{line.failure}", which is not so now.')
            elif own.sync is not None and line.sync is None and not line.failure:
                part.hold("ratings", False, who, "its record has no SyncScore of it.")
            else:
                part.hold("ratings", True, who, "")
            if line.sync is not None and own.sync is not None:
                close = abs(line.sync - round(own.sync * 1_000)) <= 1
                sentence = f"its SyncScore is {line.sync / 1_000}, it should be {own.sync:.3f}."
                part.hold("ratings", close, who, sentence)

    # -- losses --------------------------------------------------------------------------------

    def _compare_losses(
        self, part: Part, verifier: int, line: NodeScore, found: Measured, alone: bool
    ) -> None:
        """`alone`: only what does not depend on the other evaluated nodes."""
        who = f"verifier {verifier}, node {line.node}"
        for name, said, own in losses_in(line, found, alone):
            close = (
                said is own
                if said is None or own is None
                else abs(said - own) <= LOSS_SCORE_TOLERANCE
            )
            sentence = f"its {name} LossScore is {_nats(said)}, it should be {_nats(own)}"
            sentence += f" ({found.reason})." if found.reason else "."
            part.hold("losses", close, who, sentence)
        for what, shown, given, unsure in work_in(line, found, alone):
            sentence = f"it shows {shown / 1e6:.4f} of the {what}, it should be {given / 1e6:.4f}."
            part.hold("losses", abs(shown - given) <= unsure, who, sentence)


def _unjudged(verifier: int, due: Due) -> str:
    """What of a record's losses can't be judged, since payloads are gone."""
    what = f"verifier {verifier}: the payloads of nodes {list(due.gone)} are gone"
    if not due.measurable:
        return f"{what}, and with them the median length: its losses were believed."
    if not due.alone:
        return f"{what}; its record evaluated none of them, so its losses were measured."
    return (
        f"{what}: their losses were believed, and of the other evaluated nodes what was expected "
        "of them and what they show."
    )


def _nats(score: int | None) -> str:
    return "missing" if score is None else f"{score / 1e9:.6f} nats"
