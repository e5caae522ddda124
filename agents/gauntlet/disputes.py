# SPDX-License-Identifier: Apache-2.0
"""What a committee member does about validators: it measures again what they have revealed.

Rule: a vector is false only if public bytes deny it, or if nobody can have what it rests on. The
record that it names must give it, by the functions that validators make records with, node by node
in the order of the round's snapshot, which is how the contract reads the vector; it must follow the
record that its validator revealed before (`agents.gauntlet.record_chain`); and what it measured
must be what the round's payloads give on the batches that its audit seed drew
(`agents.gauntlet.remeasure`). It must name the round's model and its audit seed: with a seed of its
own a validator would choose whom it measures, and on what. (A round whose audit seed was drawn
again, because nobody captured it in time, had two.) An opinion that only lies far from the median
is no offence.

Whoever measures nothing and repeats the last consensus has no such record. It can name one that
nobody has: so a record that this member can't have for WITHHELD_S is false as well. It can name
payloads that nobody has: a record that says they were read is then false too, since whoever read
them keeps them. A member signs that of its own attempts; it takes three of them. The seconds count
by the chain's clock from the first attempt of this process that failed: what was read before a
restart is not known after it. It looks again after LOOK_S, and keeps each record that it has read,
if its store lets it. One vector is looked at in a step: first the newest of those that never were,
then the one whose turn came first. Of earlier records that nobody has a few are looked for in a
step (`agents.gauntlet.earlier_records`). So no number of records that are withheld holds up
another. The samples of its round are looked for beside the loop, as a validator does, and the
vector is judged in a later step.

A record of an older version was made by rules that this code has not, so it is left alone. Else a
member with new code would overrule what honest validators revealed before they had it. That holds
in a job that began with such records (`_first_is_older`). In another job no validator had cause to
make one, and whoever names one has measured nothing.

A vector is judged when the time to reveal is over, also where its round is void and has no scoring
that could be closed: the validator's later records follow from its record all the same. It is
looked after for the unbonding period (`agents.protocol.ages`) and as long as a record is looked
for: the contract sets no time, and who leaves at once can't be slashed any more after it.

The round's consensus stands, because it is a median; the validator is slashed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agents.gauntlet.earlier_records import EarlierRecords, SearchesSpent
from agents.gauntlet.record import MAX_RECORD_BYTES, OlderRecord, RecordError, ScoreRecord
from agents.gauntlet.record_chain import Revealed, breach
from agents.gauntlet.remeasure import (
    SAMPLES_WAIT_S,
    Measurements,
    errors,
    lacking,
    sample_search,
)
from agents.gauntlet.replay import replay
from agents.gauntlet.sample_search import SampleSearch
from agents.jobs.specs_beside import SpecComing, SpecsBeside
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.ages import Ages
from agents.protocol.formulas import audit_key, round_key
from agents.protocol.network import Network
from agents.protocol.scores import Consensus
from agents.protocol.view import View, observe
from agents.rounds.reader import RoundReader
from agents.runtime.chain import Head
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError

WITHHELD_S = 6 * 3_600  # in which a record that exists can be had
LOOK_S = 20 * 60  # within which a record that was missing is looked for again
_LOOK_S = 2.0  # that the step which begins a search waits for it
_SEARCHES = 4  # of rounds, that are kept
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
    """The revealed vectors of all jobs, and what measuring them again has shown.

    `say`: hears once that records can't be kept. They are judged all the same.
    """

    def __init__(
        self, network: Network, store: ContentStore, device: str, say: Callable[[str], None]
    ) -> None:
        self._network = network
        self._store = store
        self._device = device
        self._say = say
        self._told = False
        self._reader: RoundReader | None = None
        first = network.deployment.block
        self._events = EventLog(EventCursor(network.chain, network.scores, _EVENTS, first))
        self._ages = Ages(network.chain)
        self._found: dict[_Vector, str | None] = {}  # why it is false
        self._not_before: dict[_Vector, int] = {}  # chain seconds
        self._absent: set[_Vector] = set()  # whose records may come yet
        self._missed: dict[_Vector, int] = {}  # since when something can't be had, chain seconds
        self._deadlines: dict[tuple[int, int], int] = {}  # of the reveals in a round
        self._revealed: Mapping[tuple[int, int], Sequence[_Vector]] = {}
        self._began: dict[int, tuple[int, bool]] = {}  # jobs: when looked at, with older records
        self._samples: dict[tuple[int, int], SampleSearch] = {}  # of rounds
        self._measured = Measurements()
        self._records = EarlierRecords(self._record)
        self._specs = SpecsBeside(network, lambda spec: self._rounds().models.fetch(spec))

    def step(self, head: Head) -> list[FalseScores]:
        """The false vectors known here whose verifiers were not slashed; looks at one more."""
        self._records.begin(head.timestamp)
        due, overruled = self._read(head)
        waiting = [
            vector
            for vector in due
            if (vector not in self._found or vector in self._absent)
            and vector.verifier not in overruled[vector.job, vector.round]
            and head.timestamp >= self._not_before.get(vector, 0)
        ]
        if waiting:
            # Whose turn came first, and before them who had none yet.
            self._look(min(waiting, key=lambda vector: self._not_before.get(vector, 0)), head)
        return [
            FalseScores(vector.job, vector.round, vector.verifier, why)
            for vector in due
            if (why := self._found.get(vector))
            and vector.verifier not in overruled[vector.job, vector.round]
        ]

    def _look(self, vector: _Vector, head: Head) -> None:
        """Judge a vector, or say when to look at it again."""
        # Noted before it is tried: one that can't be judged holds up no other.
        self._not_before[vector] = 2 * head.timestamp - self._ages.made_at(vector.block) + 1
        try:
            known = self._judged(vector, head)
        except (SpecComing, SearchesSpent):
            self._not_before[vector] = head.timestamp + 1
            return
        if known is None or vector in self._absent:
            again = head.timestamp + LOOK_S
            self._not_before[vector] = min(self._not_before[vector], again)
        else:
            self._missed.pop(vector, None)
        if known is not None:
            self._found[vector] = known or None

    def _read(self, head: Head) -> tuple[list[_Vector], dict[tuple[int, int], set[int]]]:
        """The vectors of rounds in which nobody can reveal any more, newest first, and who was
        overruled in which round."""
        revealed: dict[tuple[int, int], list[_Vector]] = defaultdict(list)
        overruled: dict[tuple[int, int], set[int]] = defaultdict(set)
        ended: dict[tuple[int, int], int] = {}  # the block
        for event in self._events.read():
            args = event.args
            place = args["job_id"], args["round_id"]
            if event.name == "ScoresRevealed":
                scores = tuple(args["scores"])
                found = _Vector(*place, args["verifier_id"], scores, args["record"], event.block)
                revealed[place].append(found)
            elif event.name == "ScoresOverruled":
                overruled[place].add(args["verifier_id"])
            else:
                ended[place] = event.block
        self._revealed = revealed
        blocks = {place: vectors[-1].block for place, vectors in revealed.items()} | ended
        places = sorted(blocks, key=blocks.__getitem__)
        since = head.timestamp - self._network.unbonding_s() - WITHHELD_S
        recent = [
            place
            for place in self._ages.since(since, places, blocks.__getitem__)
            if place in ended or self._over(place, head)
        ]
        return [vector for place in reversed(recent) for vector in revealed[place]], overruled

    def _over(self, place: tuple[int, int], head: Head) -> bool:
        """Whether nobody can reveal in a round any more; a void one's scoring is never closed."""
        if place not in self._deadlines:
            scoring = Consensus(self._network).scoring(*place)
            self._deadlines[place] = scoring.reveal_deadline
        return head.timestamp > self._deadlines[place]

    def _judged(self, vector: _Vector, head: Head) -> str | None:
        """Why a vector is false, "" if it is not; None while that can't be known.

        Raises StoreError, SpecError: the job's spec can't be had or read, for which no validator is
        to blame.
        """
        self._absent.discard(vector)
        said = self._found.pop(vector, None)  # that it was withheld, if it has come since
        try:
            record = self._record(vector.record)
            self._keep(vector.record)
            wrong = self._denied(vector, record)
        except (StoreUnavailable, SearchesSpent):
            raise
        except StoreError:
            return self._withheld(vector, head, "its record")
        except OlderRecord as older:
            self._keep(vector.record)
            if self._began_older(vector.job, head):
                return ""
            return f"{older}, and its job began with a newer one"
        except RecordError as error:
            return f"its record, or the one before it, can't be read: {error}"
        if wrong:
            return wrong
        options = self._options(vector.job)
        wrong = self._replayed(record, options)
        view = observe(self._network, vector.job, head, vector.round)
        wrong = wrong or self._drawn(view, record)
        if wrong:
            return wrong
        reader = self._rounds()
        consensus = Consensus(self._network)
        search = self._search(consensus, options, view)
        if search is None:
            self._not_before[vector] = head.timestamp + 1
            if said is not None:
                self._absent.add(vector)
            return said
        wrong = next(errors(reader, consensus, options, view, record, search, self._measured), "")
        if not wrong and (gone := lacking(reader, view, record)):
            return self._withheld(vector, head, f"the payloads of nodes {gone} that it has read")
        return wrong

    def _search(self, consensus: Consensus, options: Gauntlet, view: View) -> SampleSearch | None:
        """What was found of a round's samples; None while they are looked for, beside the loop, or
        while as many other searches go on as are kept."""
        place = view.job_id, view.round_id
        search = self._samples.get(place)
        try:
            if search is None:
                if len(self._samples) >= _SEARCHES:
                    ended = [other for other, kept in self._samples.items() if kept.ended]
                    if not ended:
                        return None
                    del self._samples[ended[0]]
                search = sample_search(self._rounds(), consensus, options, view)
                self._samples[place] = search
                search.wait(_LOOK_S)
            if not search.over(SAMPLES_WAIT_S):
                return None
        except Exception:
            # The store is down: it says nothing of a sample, and all are looked for again.
            if search is not None:
                search.end()
            self._samples.pop(place, None)
            raise
        search.end()
        return search

    def _withheld(self, vector: _Vector, head: Head, what: str) -> str | None:
        """What is said of what a vector rests on, if it can't be had; None while it may come."""
        first = self._missed[vector] = self._missed.get(vector, head.timestamp)
        if head.timestamp - first <= WITHHELD_S:
            return None
        self._absent.add(vector)
        return f"nobody can have {what}, looked for during {WITHHELD_S // 3_600} hours"

    def _keep(self, digest: bytes) -> None:
        """Pin a record that was read: its validator may take it down, and others may ask for it."""
        try:
            self._store.pin(self._store.resolve(digest))
        except StoreError as error:
            # It was read, which is all that is needed here, also where the store takes no writes.
            if not self._told:
                self._say(f"a record that was read can't be kept: {error}")
            self._told = True

    def _record(self, digest: bytes) -> ScoreRecord:
        return ScoreRecord.from_bytes(self._store.get_digest(digest, MAX_RECORD_BYTES))

    def _denied(self, vector: _Vector, record: ScoreRecord) -> str:
        """What the record says of itself, and of those before it, that is not so by any options.

        Raises StoreError, RecordError: the one before it can't be had or read.
        """
        said = (record.job, record.round, record.verifier)
        if said != (vector.job, vector.round, vector.verifier):
            return f"its record is of job {said[0]}, round {said[1]}, verifier {said[2]}"
        if tuple(record.vector()) != vector.scores:
            return "its record gives another vector"
        wrong = breach(record, self._earlier(vector), self._records.of)
        if wrong:
            return wrong
        try:
            self._previous(record)
        except OlderRecord as older:
            return f"of the record that it follows: {older}"
        return ""

    def _previous(self, record: ScoreRecord) -> ScoreRecord | None:
        """The record that this one follows. Raises StoreError, RecordError, OlderRecord."""
        before = record.previous
        return None if before is None else self._record(bytes.fromhex(before))

    def _replayed(self, record: ScoreRecord, options: Gauntlet) -> str:
        """What the record says that does not follow from its own figures by the job's options."""
        return next(iter(replay(record, self._previous(record), options)), "")

    def _drawn(self, view: View, record: ScoreRecord) -> str:
        """What the record says of its round that the chain denies."""
        if tuple(line.node for line in record.scores) != tuple(view.snapshot.nodes):
            return "its record does not have the round's nodes in their order"
        if record.model != view.round.prev_model.hex():
            return "its record is of another model than the round's"
        drawn = self._network.seed(view.job_id, view.round_id, view.round, audit=True)
        if drawn in (None, bytes.fromhex(record.audit_seed)):
            return ""
        results, key = self._network.results, audit_key(round_key(view.job_id, view.round_id))
        blocks = view.round.opened_block, view.block
        if self._network.chain.events(results, "SeedRearmed", *blocks, {"key": key}):
            return ""
        return "its record has another audit seed than the round"

    def _earlier(self, vector: _Vector) -> Revealed:
        """What the vector's verifier revealed before in the job, newest first."""
        return sorted(
            (
                (other.round, other.record)
                for (job, number), vectors in self._revealed.items()
                if job == vector.job and number < vector.round
                for other in vectors
                if other.verifier == vector.verifier
            ),
            reverse=True,
        )

    def _began_older(self, job_id: int, head: Head) -> bool:
        """As `_first_is_older`; looked at again after LOOK_S, since a record may come yet."""
        if job_id not in self._began or head.timestamp > self._began[job_id][0] + LOOK_S:
            self._began[job_id] = head.timestamp, self._first_is_older(job_id, head)
        return self._began[job_id][1]

    def _first_is_older(self, job_id: int, head: Head) -> bool:
        """Whether older rules may have made the records of the job's first scored round.

        That is the first in which half of the verifiers' stake revealed. It is so if half of what
        was revealed named an older record, or one that can't be read here.
        """
        for number in sorted(number for job, number in self._revealed if job == job_id):
            vectors = self._revealed[job_id, number]
            stakes = observe(self._network, job_id, head, number).snapshot.verifiers
            all_of_them = sum(stakes.get(other.verifier, 0) for other in vectors)
            if 2 * all_of_them >= sum(stakes.values()):
                newer = sum(stakes.get(v.verifier, 0) for v in vectors if self._is_present(v))
                return newer <= all_of_them - newer
        return True

    def _is_present(self, vector: _Vector) -> bool:
        """Whether a vector's record can be read, and is of this version."""
        try:
            return self._records.of(vector.record) is not None
        except OlderRecord:
            return False

    def _options(self, job_id: int) -> Gauntlet:
        models = self._rounds().models  # made here, and not by the thread that gets a spec
        self._specs.need(job_id)
        options = models.job(job_id).score
        if not isinstance(options, Gauntlet):
            raise PayloadError(f"job {job_id} adopted ScoreConsensus and is not scored by it")
        return options

    def _rounds(self) -> RoundReader:
        if self._reader is None:
            self._reader = RoundReader(self._network, self._store, self._device)
        return self._reader
