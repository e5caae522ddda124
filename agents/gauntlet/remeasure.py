# SPDX-License-Identifier: Apache-2.0
"""What a validator's record says of a round's nodes, checked and measured again from public bytes.

Rule: it is wrong only if public bytes deny it. Nobody can tell whether a payload or a sync sample
was in a validator's store in time, so a failure that says so is believed; the norms are then judged
among the payloads that it had. Of a node that was found invalid in the round a record may say that
or not: an appeal may have cleared the node before its validator looked, or after. Losses are fp32
and differ a little between machines: twice the tolerance of the audit is left to that.

A payload that the record says was read, and that can't be had here, hides what depends on it: the
losses of its own node, what is expected of the other evaluated nodes and what they show, whether
any norm is plausible, and where lengths count the length that all updates are brought to. The rest
is judged (`errors`). Who that payload is missing to says so (`lacking`), and it counts as a part of
the record that is withheld: a validator keeps each payload that it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.gauntlet.draw import round_seed
from agents.gauntlet.fast_evaluation import (
    IMPLAUSIBLE,
    INVALID,
    NO_BATCHES,
    NO_SAMPLE,
    OTHER_DATA,
    SAMPLE_LOST,
    Checked,
    Facts,
    check_nodes,
    step_size,
)
from agents.gauntlet.loss_score import LOSS_TOLERANCE, NANO
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.sample_search import SampleSearch
from agents.jobs.job import JobContext
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.rounds.history import earlier_model, merged_updates
from agents.rounds.plan import Plan
from agents.rounds.reader import RoundReader
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import max_samples_bytes
from agents.runtime.newest import Newest
from agents.training.state import State

SURE = 2  # times the tolerance: what is beyond it is no machine's rounding
_LATE = (UNAVAILABLE, NO_SAMPLE, SAMPLE_LOST)
_READ = (NO_BATCHES, OTHER_DATA, IMPLAUSIBLE, INVALID)  # failures of a payload that was there
_CLOSE = 0.01  # part of `sync_limit` within which another machine may find the other side of it
SAMPLES_WAIT_S = 240.0  # for the samples of a round, once
_MEASUREMENTS = 8

_Found = Mapping[int, Measured]


class Measurements:
    """What was measured, for the next record that says the same of whom there is to measure.

    Validators of a round measure the same nodes on the same batches, so the records of all that
    are honest cost what one does. The newest few are kept.
    """

    def __init__(self) -> None:
        self._kept: Newest[Hashable, _Found] = Newest(_MEASUREMENTS)

    def of(self, what: Hashable, measure: Callable[[], _Found]) -> _Found:
        """`measure()`, or what it gave for the same before. `what`: all that it depends on."""
        return self._kept.of(what, measure)


def sample_search(
    reader: RoundReader, consensus: Consensus, options: Gauntlet, view: View
) -> SampleSearch:
    """The search for a round's samples, begun; to be shared by all records of the round."""
    shapes = reader.models.job(view.job_id).shapes
    search = SampleSearch(reader.store, max_samples_bytes(shapes, options.samples))
    search.want(consensus.samples(view.job_id, view.round_id, view.round.opened_block).values())
    return search


def errors(
    reader: RoundReader,
    consensus: Consensus,
    options: Gauntlet,
    view: View,
    record: ScoreRecord,
    search: SampleSearch | None = None,
    known: Measurements | None = None,
) -> Iterator[str]:
    """Why a record is wrong about a round, as sentences; the cheap checks come first.

    `search`: of the round's samples; if it has not ended, it is waited for, and without one a
    search is made. What is missing at its end is not looked for again. `known`: to be shared by
    all records.
    Raises StoreError, PayloadError, ReportError: an artefact of the round can't be had or read.
    """
    plan = reader.plans.of(view)
    if plan is None:
        return
    submissions = reader.submissions(view)
    sent, complete = _had(submissions, record), not _missing(submissions, record)
    search = search or sample_search(reader, consensus, options, view)
    yield from _checks(reader, consensus, options, view, plan, sent, record, complete, search)
    there = [s for s in sent if s.gradient is not None]
    yield from _losses(reader, options, view, plan, there, record, known or Measurements())


def lacking(reader: RoundReader, view: View, record: ScoreRecord) -> list[int]:
    """Nodes whose payloads the record says were read, and that can't be had here; ascending."""
    return sorted(_missing(reader.submissions(view), record))


def _missing(submissions: Sequence[Submission], record: ScoreRecord) -> set[int]:
    read = {line.node for line in record.scores if line.usable or line.failure in _READ}
    return {s.reveal.node for s in submissions if s.unavailable} & read


def _had(submissions: Sequence[Submission], record: ScoreRecord) -> list[Submission]:
    """The submissions as the record says that its validator had them."""
    lost = {line.node for line in record.scores if line.failure.startswith(UNAVAILABLE)}
    return [
        replace(s, gradient=None, reason=f"{UNAVAILABLE}as the record says")
        if s.reveal.node in lost
        else s
        for s in submissions
    ]


# -- fast evaluation -------------------------------------------------------------------------------


def _checks(
    reader: RoundReader,
    consensus: Consensus,
    options: Gauntlet,
    view: View,
    plan: Plan,
    sent: Sequence[Submission],
    record: ScoreRecord,
    complete: bool,
    search: SampleSearch,
) -> Iterator[str]:
    """Every line that the same checks, made here, deny. `complete`: all norms are known."""
    job_id, number, nodes = view.job_id, view.round_id, view.snapshot.nodes
    network, before = reader.network, reader.before(view)
    samples = consensus.samples(job_id, number, view.round.opened_block)
    search.wait(SAMPLES_WAIT_S)
    search.end()
    found = check_nodes(
        Facts(
            nodes=nodes,
            committed=network.committed(job_id, number, nodes),
            samples=samples,
            invalid=(),
        ),
        reader.models.job(job_id),
        options,
        plan,
        before,
        sent,
        bytes.fromhex(record.audit_seed),
        step_size(before, earlier_model(reader.models, job_id, plan.step)),
        search,
    )
    invalid = network.found_invalid(job_id, number)
    for line in record.scores:
        own = found.get(line.node)
        if own is None:
            yield f"it rates node {line.node}, which is not in the round"
        elif not complete and IMPLAUSIBLE in (line.failure, own.failure):
            continue  # beside the norm that is not known it may be otherwise
        elif line.node not in invalid and (why := denied(line, own, options)):
            yield f"{why} node {line.node}"


def denied(line: NodeScore, own: Checked, options: Gauntlet) -> str:
    """What a line says of its node that the checks made here deny; ends before the node's name."""
    if own.failure.startswith(UNAVAILABLE):
        return ""
    if line.usable != own.usable:
        return f"it says {line.usable}, and not {own.usable}, of the payload's use of"
    if own.failure.startswith(SAMPLE_LOST):
        return ""
    if own.sync is not None and abs(own.sync - options.sync_limit) <= _CLOSE * options.sync_limit:
        return ""
    if own.failure and not line.failure:
        return f'it overlooks "{own.failure}" of'
    if line.failure.startswith(_LATE):
        return ""
    # A node may have failed by its loss, which is measured below.
    by_loss = line.evaluated and line.random is None
    if line.failure and not own.failure and not by_loss:
        return f'it says "{line.failure}", which is not so, of'
    return ""


# -- losses ----------------------------------------------------------------------------------------


def _losses(
    reader: RoundReader,
    options: Gauntlet,
    view: View,
    plan: Plan,
    there: Sequence[Submission],
    record: ScoreRecord,
    known: Measurements,
) -> Iterator[str]:
    """Every measurement that the payloads don't give, by far."""
    payloads = {s.reveal.node: s.gradient for s in there if s.gradient is not None}
    job, models = reader.models.job(view.job_id), reader.models
    due = due_losses(record, payloads.keys(), job)
    if not due.measurable:
        return

    def measure() -> _Found:
        return measure_due(
            due,
            record,
            payloads,
            job,
            options,
            plan,
            reader.before(view),
            merged_updates(models, view.job_id, view.round.prev_model, options.history),
            reader.device,
        )

    where = view.job_id, view.round_id, view.round.prev_model, record.audit_seed
    contents = tuple((s.reveal.node, s.reveal.content) for s in there if s.reveal.node in due.here)
    whom = tuple(line.node for line in due.lines), due.absent
    found = known.of((where, contents, whom), measure)
    for line in due.lines:
        yield from _differences(line, found[line.node], due.alone)


@dataclass(frozen=True)
class Due:
    """What of a record's losses can be measured again with the payloads that are here.

    `lines`: of the evaluated nodes whose payloads are here; `absent`: the other evaluated ones that
    had a payload. `here`: all nodes whose payloads the record calls usable and that are here, and
    `gone`: those that are not. `measurable`: False where lengths count and one of them is not here,
    since the median length is not known then.
    """

    lines: tuple[NodeScore, ...]
    absent: tuple[int, ...]
    here: tuple[int, ...]
    gone: tuple[int, ...]
    measurable: bool

    @property
    def alone(self) -> bool:
        """Whether only what does not depend on the other evaluated nodes can be judged."""
        return bool(self.absent)


def due_losses(record: ScoreRecord, payloads: Collection[int], job: JobContext) -> Due:
    """`payloads`: the nodes whose payloads are here."""
    usable = [line for line in record.scores if line.usable]
    gone = tuple(sorted(line.node for line in usable if line.node not in payloads))
    return Due(
        lines=tuple(line for line in usable if line.evaluated and line.node in payloads),
        absent=tuple(sorted(x.node for x in usable if x.evaluated and x.node not in payloads)),
        here=tuple(sorted(line.node for line in usable if line.node in payloads)),
        gone=gone,
        measurable=not gone or bool(getattr(job.merge, "signs", False)),
    )


def measure_due(
    due: Due,
    record: ScoreRecord,
    payloads: Mapping[int, State],
    job: JobContext,
    options: Gauntlet,
    plan: Plan,
    before: State,
    history: Sequence[State],
    device: str,
) -> dict[int, Measured]:
    """What the payloads of `due.lines` give, by node. `history`: the newest merged updates that led
    to `before`, newest first, at most `options.history`."""
    yardstick = Yardstick(
        job=job,
        options=options,
        plan=plan,
        before=before,
        length=median_norm(payloads[node] for node in due.here),
        seed=round_seed(bytes.fromhex(record.audit_seed)),
        device=device,
        history=history,
    )
    # All at once: what is expected of a node, and what it shows, depend on the others.
    sent = {line.node: payloads[line.node] for line in due.lines}
    return yardstick.measure(sent, absent=due.absent)


def losses_in(
    line: NodeScore, own: Measured, alone: bool
) -> Iterator[tuple[str, int | None, int | None]]:
    """The LossScores of a line that can be judged: which, as stated, as measured, in 1e-9 nats."""
    for name in ("assigned", "random") if alone else ("assigned", "random", "expected"):
        yield name, getattr(line, name), getattr(own, name)


def work_in(line: NodeScore, own: Measured, alone: bool) -> Iterator[tuple[str, int, int, int]]:
    """The same of the work that it shows; see `Measured.work`."""
    if not alone:
        yield from own.work(line.shown, line.extra)


def _differences(line: NodeScore, own: Measured, alone: bool) -> Iterator[str]:
    if (line.random is None) != (own.random is None):
        stated = "no loss" if line.random is None else "a loss"
        yield f"it states {stated} of node {line.node}" + (f": {own.reason}" if own.reason else "")
        return
    for name, said, due in losses_in(line, own, alone):
        if said is not None and due is not None and abs(said - due) > SURE * LOSS_TOLERANCE * NANO:
            yield (
                f"its {name} LossScore of node {line.node} is {said / NANO:.6f} nats, the payload "
                f"gives {due / NANO:.6f}"
            )
    for what, shown, given, unsure in work_in(line, own, alone):
        if abs(shown - given) > SURE * unsure:
            yield (
                f"it says that node {line.node} shows {shown / 1e6:.4f} of its {what}, the payload "
                f"shows {given / 1e6:.4f}"
            )
