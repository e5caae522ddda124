# SPDX-License-Identifier: Apache-2.0
"""What a verifier keeps of a round that it attests, where later rounds are judged by it.

Rule: where nodes take something from one round into the next (`agents.rounds.codec_memory`,
`agents.rounds.stage_memory`), whoever judges a node does its rounds since the last reset again. For
this it reads the payloads that were accepted in them, what counted beside these, the updates and
the reports. A proposer keeps all of that, and may be the node's friend. So a verifier keeps it too
before it attests, and one honest attester is enough for those who come later.

Nearly all of it was read for the verdict, so hardly anything is fetched for this. What can't be had
any more is waited for as a missing payload is, and then the result is attested without it: nobody
can tell who lost it. In other jobs a verifier keeps nothing. Nothing is dropped after the reset: an
audit reads it, and a store can't tell for whom else it keeps something.
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

    def unkept(self, view: View) -> str:
        """Keep what the result that stands in the round rests on; it was found to be right.

        Returns:
            why not all of it is kept, empty if it is. It stops at the first that can't be had,
            because a store may search a minute for each. Called again it tries the others first.

        Raises:
            StoreError: the report can't be had, which was just read.
        """
        if not looks_back(self._reader.models.job(view.job_id)):
            return ""
        place = view.job_id, view.round_id, view.round.result_hash
        if place != self._place:
            self._due = deque(self._all(view))
            self._place = place
        while self._due:
            try:
                self._due[0]()
            except StoreError as error:
                self._due.rotate(-1)
                return str(error)
            self._due.popleft()
        return ""

    def _all(self, view: View) -> Iterator[Callable[[], None]]:
        """What keeps each file, the nodes' own first."""
        reader = self._reader
        proposal = reader.network.proposal(view.job_id, view.round_id, view.round)
        report = reader.models.report(proposal.report)
        outcome = reader.outcome(view, reader.submissions(view), report)
        for line in report.nodes:
            if line.accepted:
                yield partial(self._pin, bytes.fromhex(line.content))
        for digest in () if outcome is None else outcome.rests_on:
            yield partial(self._pin, digest)
        yield partial(self._pin, proposal.report)
        yield from self._result(report, outcome)

    def _result(self, report: RoundReport, outcome: Outcome | None) -> Iterator[Callable[[], None]]:
        """Update and checkpoint: from memory where this verifier made the same."""
        if outcome is not None and outcome.report.update == report.update:
            made = (*outcome.parts, outcome.update, outcome.checkpoint)
            yield from (partial(self._put, one) for one in made if one is not None)
            return
        # The proposer left out what came late; `agents.verify.judging` merged without it as well.
        for cid in (report.update, report.checkpoint):
            if cid is not None:
                yield partial(self._store.pin, cid)

    def _pin(self, digest: bytes) -> None:
        self._store.pin(self._store.resolve(digest))

    def _put(self, content: bytes) -> None:
        self._store.pin(self._store.put_bytes(content))
