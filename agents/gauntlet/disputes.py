# SPDX-License-Identifier: Apache-2.0
"""What a committee member does about validators: it measures again what they have revealed.

Rule: a vector is false only if public bytes deny it. The record that it names must give it, by the
functions that validators make records with, and the losses in the record must be those that the
round's payloads give on the batches that the record's own secret drew. It must name the round's
model and its audit seed: with a seed of its own a validator would choose whom it measures, and on
what. (A round whose audit seed was drawn again, because nobody captured it in time, had two.)
Losses are fp32 and differ a little between machines: twice the tolerance of the audit is left to
that. A record that nobody has proves nothing, and an opinion that only lies far from the median is
no offence.

The round's consensus stands, because it is a median; the validator is slashed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from agents.gauntlet.draw import round_seed
from agents.gauntlet.loss_score import NANO
from agents.gauntlet.primary_evaluation import LOSS_TOLERANCE, Yardstick, median_norm
from agents.gauntlet.record import MAX_RECORD_BYTES, RecordError, ScoreRecord
from agents.gauntlet.replay import replay
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.formulas import audit_key, round_key
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.view import View, observe
from agents.rounds.history import merged_updates
from agents.rounds.reader import RoundReader
from agents.runtime.chain import Head
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError

SURE = 2  # times the tolerance: what is beyond it is no machine's rounding
_LOOK_BACK = 50_000  # blocks
_EVENTS = ("ScoresRevealed", "ScoringClosed", "ScoresOverruled")


@dataclass(frozen=True)
class FalseScores:
    """A verifier's vector of a round that public bytes deny, and why."""

    job: int
    round: int
    verifier: int
    why: str


@dataclass(frozen=True)
class _Vector:
    job: int
    round: int
    verifier: int
    scores: tuple[int, ...]
    record: bytes
    block: int


class ScoreDisputes:
    """The revealed vectors of all jobs, and what measuring them again has shown."""

    def __init__(self, network: Network, store: ContentStore, device: str) -> None:
        self._network = network
        self._store = store
        self._device = device
        self._reader: RoundReader | None = None
        first = network.deployment.block
        self._events = EventLog(EventCursor(network.chain, network.scores, _EVENTS, first))
        self._found: dict[_Vector, str | None] = {}  # why it is false
        self._not_before: dict[_Vector, int] = {}  # blocks

    def step(self, head: Head) -> list[FalseScores]:
        """The false vectors known here whose verifiers were not slashed; looks at one more."""
        due, overruled = self._read(head)
        for vector in due:
            if vector not in self._found and head.number >= self._not_before.get(vector, 0):
                # Noted before it is tried: one that can't be judged holds up no other.
                self._not_before[vector] = 2 * head.number - vector.block + 1
                known = self._judged(vector, head)
                if known is not None:
                    self._found[vector] = known or None
                break
        return [
            FalseScores(vector.job, vector.round, vector.verifier, why)
            for vector in due
            if (why := self._found.get(vector))
            and vector.verifier not in overruled[vector.job, vector.round]
        ]

    def _read(self, head: Head) -> tuple[list[_Vector], dict[tuple[int, int], set[int]]]:
        """The vectors of closed scorings, newest first, and who was overruled in which round."""
        revealed: dict[tuple[int, int], list[_Vector]] = defaultdict(list)
        overruled: dict[tuple[int, int], set[int]] = defaultdict(set)
        closed: list[tuple[int, int]] = []
        for event in self._events.read():
            args = event.args
            place = args["job_id"], args["round_id"]
            if event.name == "ScoresRevealed":
                scores = tuple(args["scores"])
                found = _Vector(*place, args["verifier_id"], scores, args["record"], event.block)
                revealed[place].append(found)
            elif event.name == "ScoresOverruled":
                overruled[place].add(args["verifier_id"])
            elif event.block >= head.number - _LOOK_BACK:
                closed.append(place)
        return [vector for place in reversed(closed) for vector in revealed[place]], overruled

    def _judged(self, vector: _Vector, head: Head) -> str | None:
        """Why a vector is false, "" if it is not; None while that can't be known."""
        try:
            record = self._record(vector.record)
        except StoreUnavailable:
            raise
        except StoreError:
            return None
        except RecordError as error:
            return f"its record can't be read: {error}"
        view = observe(self._network, vector.job, head, vector.round)
        wrong = self._denied(vector, record) or self._drawn(view, record)
        return wrong if wrong else next(self._losses(vector, record, view), "")

    def _record(self, digest: bytes) -> ScoreRecord:
        return ScoreRecord.from_bytes(self._store.get_digest(digest, MAX_RECORD_BYTES))

    def _denied(self, vector: _Vector, record: ScoreRecord) -> str:
        """What the record says of itself that the vector is not."""
        said = (record.job, record.round, record.verifier)
        if said != (vector.job, vector.round, vector.verifier):
            return f"its record is of job {said[0]}, round {said[1]}, verifier {said[2]}"
        if tuple(record.vector()) != vector.scores:
            return "its record gives another vector"
        options = self._options(vector.job)
        previous = None
        if record.previous is not None:
            try:
                previous = self._record(bytes.fromhex(record.previous))
            except (StoreError, RecordError):
                return ""
        wrong = replay(record, previous, options)
        return wrong[0] if wrong else ""

    def _drawn(self, view: View, record: ScoreRecord) -> str:
        """What the record says of its round that the chain denies."""
        if record.model != view.round.prev_model.hex():
            return "its record is of another model than the round's"
        if view.round.audit_seed in (ZERO_DIGEST, bytes.fromhex(record.audit_seed)):
            return ""
        results, key = self._network.results, audit_key(round_key(view.job_id, view.round_id))
        blocks = view.round.opened_block, view.block
        if self._network.chain.events(results, "SeedRearmed", *blocks, {"key": key}):
            return ""
        return "its record has another audit seed than the round"

    def _losses(self, vector: _Vector, record: ScoreRecord, view: View) -> Iterator[str]:
        """Every LossScore that the payloads don't give, by far."""
        reader, options = self._rounds(), self._options(vector.job)
        plan = reader.plans.of(view)
        if plan is None:
            return
        sent = {
            s.reveal.node: s.gradient for s in reader.submissions(view) if s.gradient is not None
        }
        usable = [line.node for line in record.scores if line.usable]
        if any(node not in sent for node in usable):
            return  # what it measured is not there any more
        yardstick = Yardstick(
            job=reader.models.job(vector.job),
            options=options,
            plan=plan,
            before=reader.before(view),
            length=median_norm(sent[node] for node in usable),
            seed=round_seed(bytes.fromhex(record.secret), bytes.fromhex(record.audit_seed)),
            device=self._device,
            history=merged_updates(
                reader.models, vector.job, view.round.prev_model, options.history
            ),
        )
        due = {n.node: sent[n.node] for n in record.scores if n.evaluated and n.usable}
        for line in (n for n in record.scores if n.node in due):
            found = yardstick.measure({line.node: due[line.node]})[line.node]
            for name in ("assigned", "random"):
                said, own = getattr(line, name), getattr(found, name)
                if said is None or own is None:
                    continue
                if abs(said - own) > SURE * LOSS_TOLERANCE * NANO:
                    yield (
                        f"its {name} LossScore of node {line.node} is {said / NANO:.6f} nats, the "
                        f"payload gives {own / NANO:.6f}"
                    )

    def _options(self, job_id: int) -> Gauntlet:
        options = self._rounds().models.job(job_id).score
        if not isinstance(options, Gauntlet):
            raise PayloadError(f"job {job_id} adopted ScoreConsensus and is not scored by it")
        return options

    def _rounds(self) -> RoundReader:
        if self._reader is None:
            self._reader = RoundReader(self._network, self._store, self._device)
        return self._reader
