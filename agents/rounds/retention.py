# SPDX-License-Identifier: Apache-2.0
"""What a verifier keeps of a round that it attests, for those who work in later ones.

Rule: the next round begins with the model that a result makes, and who proposed it may publish its
report alone: all digests are right, and nobody else has the update. So a verifier keeps report,
update and checkpoint before it attests, which it has made itself, and without them it doesn't
attest. One honest attester is enough.

Where nodes take something from one round into the next (`agents.rounds.codec_memory`,
`agents.rounds.stage_memory`), whoever judges a node does its rounds since the last reset again. For
this it reads the payloads that were accepted in them, and what counted beside these. A proposer
keeps all of that, and may be the node's friend. So there a verifier keeps it too. Nearly all of it
was read for the verdict, so hardly anything is fetched for this. What can't be had any more is
waited for as a missing payload is, and then the result is attested without it: nobody can tell who
lost it.

Nothing is dropped later: an audit reads it, and a store can't tell for whom else it keeps
something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from agents.jobs.job import JobContext
from agents.protocol.view import View
from agents.rounds.outcome import Outcome
from agents.rounds.reader import RoundReader
from agents.rounds.report import RoundReport
from agents.rounds.submissions import left_out
from agents.storage.errors import StoreError


def looks_back(job: JobContext) -> bool:
    """Whether judging a node's work of one round may take what it sent in earlier ones."""
    if not job.verification.redone:
        return False
    if job.slices is not None:
        return job.spec.full_every > 1 and job.codec_at(0).has_memory
    return job.carried_rounds > 1


class Retention:
    """What one verifier keeps. `reader`: by which it judges rounds."""

    def __init__(self, reader: RoundReader) -> None:
        self._reader = reader
        self._store = reader.store
        self._place: tuple[int, int, bytes] | None = None
        self._due: deque[Callable[[], None]] = deque()
        self._beside: deque[Callable[[], None]] = deque()

    @property
    def lacks_result(self) -> bool:
        """Whether, of what `unkept` looked at last, report, update or checkpoint is not kept."""
        return bool(self._due)

    def unkept(self, view: View) -> str:
        """Keep the result that stands in the round, and what it rests on; it was found right.

        Returns:
            why not all of it is kept, empty if it is. It stops at the first that can't be had,
            because a store may search a minute for each. Called again it tries the others first.

        Raises:
            StoreError: the report can't be had, which was just read.
        """
        place = view.job_id, view.round_id, view.round.result_hash
        if place != self._place:
            self._open(view)
            self._place = place
        for due in (self._due, self._beside):
            while due:
                try:
                    due[0]()
                except StoreError as error:
                    due.rotate(-1)
                    return str(error)
                due.popleft()
        return ""

    def _open(self, view: View) -> None:
        """Note what keeps each file of a result."""
        reader = self._reader
        proposal = reader.network.proposal(view.job_id, view.round_id, view.round)
        report = reader.models.report(proposal.report)
        submissions = reader.submissions(view)
        outcome = reader.outcome(view, submissions, report)
        if outcome is not None and outcome.report.update != report.update:
            # The proposer left out what came late, and `agents.verify.judging` found that right.
            outcome = reader.outcome(view, left_out(submissions, report.missing()), report)
        self._beside.clear()
        if looks_back(reader.models.job(view.job_id)):
            for line in report.nodes:
                if line.accepted:
                    self._beside.append(partial(self._pin, bytes.fromhex(line.content)))
            for digest in () if outcome is None else outcome.rests_on:
                self._beside.append(partial(self._pin, digest))
        self._due = deque((partial(self._pin, proposal.report), *self._result(report, outcome)))

    def _result(self, report: RoundReport, outcome: Outcome | None) -> Iterator[Callable[[], None]]:
        """Update and checkpoint: from memory where this verifier made the same."""
        if outcome is not None and outcome.report.update == report.update:
            made = (*outcome.parts, outcome.update, outcome.checkpoint)
            yield from (partial(self._put, one) for one in made if one is not None)
            return
        for cid in (report.update, report.checkpoint):
            if cid is not None:
                yield partial(self._store.pin, cid)

    def _pin(self, digest: bytes) -> None:
        self._store.pin(self._store.resolve(digest))

    def _put(self, content: bytes) -> None:
        self._store.pin(self._store.put_bytes(content))
