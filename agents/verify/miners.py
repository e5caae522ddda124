# SPDX-License-Identifier: Apache-2.0
"""Whether a miner of a split model did what its log says, and handed on what it logged.

Rule: a miner's entries are executed again from its stage's weights at the epoch's start. Each entry
from a neighbour must bear that neighbour's signature, so a miner can't have invented what it worked
on. Within one determinism class the log must be the same to the bit, and so must the payload.
Across classes the digests of what went out and of weights differ. Then the order of the log and the
digests of what came in must be the same, and the payload, the stated losses and what the miner's
neighbours received of it must be near (`agents.verify.handed_on`), unless what it was sent makes
rounding alone decide them (`agents.verify.rounding`).

Where rounding decides and nobody may be asked in the miner's stead, its own class judges it: such
jobs list their classes.

Where epochs are audited by segments, it is the entries, events and losses of the drawn one, from
the published state before it. Whoever read the miner's artefacts has looked at the rest of what its
log binds: states, and that the payload is the change to the last weights (`agents.rounds.mined`).

What all miners are looked at for without doing anything again is in `agents.verify.denials`.
Signatures are checked for those drawn only, but where logs disagree. One takes about a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.mechanisms.boundary import WireError
from agents.mechanisms.codec import EdgedCodec
from agents.pipeline.clasp import stated
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage, Signed
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Event, Kind, Segment
from agents.pipeline.shards import unflat
from agents.pipeline.stage import StageError
from agents.pipeline.trail import broken
from agents.pipeline.work import StageWork, change
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, read_inbox, read_state
from agents.rounds.outcome import LOSS_TOLERANCE
from agents.rounds.proof import ProofOfComputation
from agents.rounds.stage_memory import begun
from agents.rounds.stage_payload import as_sent, packed
from agents.storage.content_store import ContentStore
from agents.training.determinism import determinism_class
from agents.training.norms import distance, norm
from agents.training.spec import EDGE_FLOOR, update_limit, update_tolerances
from agents.training.state import PayloadError, State
from agents.verify.denials import misfit
from agents.verify.handed_on import HandedOn, handed_on
from agents.verify.reexecution import (
    Comparison,
    Encoding,
    Tolerances,
    compare,
    compare_encoded,
    unlike,
)
from agents.verify.rounding import Apart, decides_what_is_owed, excusers
from agents.verify.segments import compare_ends

# In 1e-6 nats: fp32 rounds what a loss near 0 is the difference of that coarsely.
_NEAR_ZERO = 10


@dataclass(frozen=True)
class Verdict:
    """`right`: nothing is wrong with the miner's work. `details`: for the evidence. `unsure`,
    `ask`: as in `agents.verify.spot_checks.Finding`. `off`: where the miner is off, if rounding may
    have made it so; None where it can't have."""

    right: bool
    reason: str
    details: dict[str, Any]
    unsure: str = ""
    ask: tuple[int, ...] = ()
    off: Off | None = None


@dataclass(frozen=True)
class Off:
    """At which entry a miner is off, and by which share of the length of what the entry gives.
    `apart`: as `agents.verify.rounding.excusers` takes it."""

    place: int
    share: float
    apart: Apart | None = None


def check_miner(inputs: RoundInputs, mined: Mined, device: str, store: ContentStore) -> Verdict:
    """Do a miner's epoch again, or its drawn segment. Raises StoreError for data that can't be had,
    PayloadError for a state that changed since it was read."""
    epoch, job = inputs.plan.epoch, inputs.job
    assert epoch is not None
    assert mined.log is not None and mined.gradient is not None and mined.proof is not None
    part = mined.segment or mined.log.part(0, max(1, len(mined.log.steps)))
    if mined.segment is not None and (wrong := misfit(epoch, mined)):
        return Verdict(False, wrong, {})  # so an entry is at its event's place
    first, last = part.first_event, part.first_event + len(part.events)
    with read_inbox(mined, job, epoch, store) as received:
        entries = received if mined.segment is None else received[first:last]
        return _checked(inputs, mined, part, entries, device, store)


def _checked(
    inputs: RoundInputs,
    mined: Mined,
    part: Segment,
    entries: Sequence[Entry],
    device: str,
    store: ContentStore,
) -> Verdict:
    """As `check_miner`, of a part of the log. `entries`: of that part."""
    epoch, job, node = inputs.plan.epoch, inputs.job, mined.reveal.node
    assert epoch is not None and mined.proof is not None
    for place, entry in enumerate(entries, part.first_event):
        wrong = _unsigned(epoch, node, mined.stage, entry, inputs.signed)
        if wrong:
            return Verdict(False, f"Entry {place}: {wrong}", {})
    before = stage_of(job, inputs.before, mined.stage)
    work, start = begun(job, inputs.plan, node, before, device), before
    if part.index:
        start, optimizer = read_state(mined, job, store, part.index - 1)
        try:
            work.go_on(start, optimizer, part.first_step)
        except PayloadError as error:
            return Verdict(False, f"The state before segment {part.index} is none: {error}.", {})
        del optimizer  # large, and in `work`
    same_class = mined.proof.determinism_class == determinism_class(device)
    found = _judged(inputs, mined, work, start, entries, part, same_class, store)
    del work  # used up, and large
    if found.off is None or same_class:
        return found

    def again(weights: State) -> StageWork:
        fresh = begun(job, inputs.plan, node, before if part.index else weights, device)
        if part.index:
            _, optimizer = read_state(mined, job, store, part.index - 1)
            fresh.go_on(weights, optimizer, part.first_step)
        return fresh

    asked = excusers(
        again,
        start,
        entries[: found.off.place + 1],
        found.off.share,
        update_limit(job.spec),
        inputs.draw_seed,
        found.off.apart,
    )
    return _excused(found, asked) if asked else found


def _judged(
    inputs: RoundInputs,
    mined: Mined,
    work: StageWork,
    start: State,
    entries: Sequence[Entry],
    part: Segment,
    same_class: bool,
    store: ContentStore,
) -> Verdict:
    """What executing the entries of a part of the log finds. `work`: before them, with the weights
    `start`; it is used up. Raises as `check_miner`."""
    job, first = inputs.job, part.first_event
    assert mined.proof is not None
    sent = None if same_class else handed_on(inputs, mined, store)
    found = _redo(work, entries, first, sent)
    if found is not None:
        return found
    odd = _first_difference(work.events, part.events, same_class)
    if odd is not None:
        odd += first
        return Verdict(False, f"The log differs from replay at event {odd}.", {"event": odd})
    false = _false_loss(work.losses, mined.proof, same_class)
    if false is not None:
        reason = f"The loss of sample {false} is not what replay gives."
        off = Off(_forward(work.events, false), _loss_share(work.losses, mined.proof, false))
        return Verdict(False, reason, {"loss": false}, off=off)
    if mined.segment is not None:
        if same_class:
            return Verdict(True, "Replay gives the same bits.", _details(1.0, True, mined.segment))
        verdict = compare_ends(work, start, mined, job, store, _tolerances(job))
    else:
        own = change(start, work.state())
        verdict = _compare_payload(inputs, mined, own, same_class, store)
    details = _details(verdict.cosine, same_class, mined.segment)
    if not verdict.ok:
        last = _last_step(work.events)
        if mined.segment is not None:
            # Of the optimizer's buffers nobody can say how far off weights are by them.
            share = 0.0 if verdict.change is None else verdict.rel_l2
            return Verdict(False, verdict.reason, details, off=Off(last, share))
        if not same_class and _owes_by_rounding(inputs, mined.reveal.node, own, verdict.change):
            why = "rounding alone decides what it owes of earlier rounds"
            return _not_judged(Verdict(False, verdict.reason, details), why)
        at_end = _payload_off(inputs, mined, verdict, own, last)
        return Verdict(False, verdict.reason, details, off=at_end)
    known = _first_difference(work.events, part.events, exact=True) is None
    known &= _false_loss(work.losses, mined.proof, exact=True) is None
    unsure = "" if verdict.exact and known else unlike(mined.proof.determinism_class)
    return Verdict(True, verdict.reason, details, unsure)


def _excused(found: Verdict, asked: Sequence[int]) -> Verdict:
    """No word on a miner that would be wrong by tolerances, and whom to look at in its stead."""
    who = ", ".join(str(node) for node in asked)
    why = f"rounding alone decides what comes of what it was sent, by some of the nodes {who}"
    return replace(_not_judged(found, why), ask=tuple(asked))


def _not_judged(found: Verdict, why: str) -> Verdict:
    reason = f"Not judged by a machine of another class: {why}. ({found.reason})"
    return Verdict(True, reason, found.details, why)


def _owes_by_rounding(inputs: RoundInputs, node: int, own: State, off: float | None) -> bool:
    """Whether rounding decides what a miner owes of earlier rounds, which its payload says too.
    `own`: the change that replay of this round gives. `off`: by which length the payload is off.
    Raises as `check_miner`."""
    owed = inputs.memory(node)
    if owed is None:
        return False
    moved = inputs.moved_memory(node, inputs.draw_seed)
    return decides_what_is_owed(owed, moved, own, update_limit(inputs.job.spec), off)


def _forward(events: Sequence[Event], sample: int) -> int:
    """The place of a sample's forward. `events`: one of each entry that was executed."""
    passes = ((event.kind, event.number) for event in events)
    return next(p for p, what in enumerate(passes) if what == (Kind.FORWARD, sample))


def _last_step(events: Sequence[Event]) -> int:
    """The place of the last step, after which no weight changes; -1 where there is none."""
    return max((p for p, event in enumerate(events) if event.kind is Kind.STEP), default=-1)


def _redo(
    work: StageWork, entries: Sequence[Entry], first: int, sent: HandedOn | None
) -> Verdict | None:
    """Execute the entries, event `first` and those after it; what is wrong of one of them, None if
    nothing is. `sent`: what to hold the messages against that come of them."""
    for place, entry in enumerate(entries, first):
        try:
            passed = work.do(entry)
        except (StageError, WireError, FloatingPointError) as error:
            off = None if isinstance(error, StageError) else Off(place - first, math.inf)
            reason = f"Entry {place} can't be executed: {error}."
            return Verdict(False, reason, {"entry": place}, off=off)
        wrong = None if sent is None else sent.wrong(work.events[-1], passed)
        if wrong is not None:
            off = Off(place - first, wrong.share)
            return Verdict(False, wrong.reason, {"event": place}, off=off)
    return None


def _compare_payload(
    inputs: RoundInputs, mined: Mined, own: State, same_class: bool, store: ContentStore
) -> Comparison:
    """Whether a miner's payload says its stage's change. A compressed one of another class is held
    against the change before the codec's choices, which a rounding may have turned."""
    job, plan, node = inputs.job, inputs.plan, mined.reveal.node
    assert mined.gradient is not None
    codec, owed = job.codec_at(plan.step), inputs.memory(node)
    try:
        sent = as_sent(job, plan, node, own, owed)
    except ValueError as error:  # what it sent before left something owed that nobody can send
        return Comparison(False, False, 0.0, math.inf, f"Replay can't be sent: {error}")
    found = compare(sent, mined.gradient, same_class, _tolerances(job))
    if codec.lossless:
        return replace(found, change=distance(sent, mined.gradient))
    if found.exact or same_class or not isinstance(codec, EdgedCodec):
        return found
    limits = update_limit(job.spec), EDGE_FLOOR[job.spec.precision]
    how = Encoding(codec, owed, plan.codec_seed(codec, node), *limits)
    raw = store.get_digest(mined.reveal.content, codec.wire_size(job.stage_shapes(mined.stage)))
    return compare_encoded(own, raw, how, found)


def _payload_off(
    inputs: RoundInputs, mined: Mined, found: Comparison, own: State, place: int
) -> Off | None:
    """How far off a payload is of the change that replay gives at the last step, which is entry
    `place`; what was owed before does not make that change longer. None where it is not known what
    the payload was before a codec's choices.

    A compressed payload says a part of a change. So how far the last bits lead is measured by what
    the change that they lead to would be sent as.
    """
    if found.change is None:
        return None
    job, plan, node = inputs.job, inputs.plan, mined.reveal.node
    codec, length = job.codec_at(plan.step), norm(own)
    share = found.change / length if length else math.inf
    off = Off(place, share if math.isfinite(share) else math.inf)
    if codec.lossless or not isinstance(codec, EdgedCodec):
        return off
    edged, owed, shapes = codec, inputs.memory(node), job.stage_shapes(mined.stage)

    def apart(here: Tensor, there: Tensor) -> float:
        mine, other = unflat(here, shapes), unflat(there, shapes)
        try:
            raw, _ = packed(job, plan, node, other, owed)
        except ValueError:  # too large to be sent, so nobody's rounding led there
            return 0.0
        seed = plan.codec_seed(edged, node)
        return edged.least_change(mine, owed, raw, seed) / length if length else math.inf

    return replace(off, apart=apart)


def _tolerances(job: JobContext) -> Tolerances:
    """For numbers that no codec has chosen from."""
    limits = update_tolerances(job.spec)
    return Tolerances(limits.cosine_min, limits.rel_l2_max)


def _details(cosine: float, same_class: bool, segment: Segment | None) -> dict[str, Any]:
    found: dict[str, Any] = {"cosine": cosine, "same_class": same_class}
    return found if segment is None else {**found, "segment": segment.index}


def _unsigned(epoch: Epoch, node: int, stage: int, entry: Entry, signed: Signed) -> str:
    """What is wrong with where an entry comes from; empty if nothing is."""
    source = None if entry.kind is Kind.STEP else epoch.source_of(stage, entry.kind)
    if source is None:
        return ""  # that it comes from nobody shows when it is executed
    if epoch.stage_of(entry.sender) != source:
        return f"miner {entry.sender} does not hold the stage that sample {entry.sample} came from."
    passage = Passage.of(epoch, entry.sample, entry.kind, entry.sender, node)
    if not signed(passage, entry.digest, entry.signature):
        return f"miner {entry.sender} did not sign what came in of sample {entry.sample}."
    return broken(epoch, passage, entry.trail, signed)


def _first_difference(own: Sequence[Event], told: Sequence[Event], exact: bool) -> int | None:
    """Place of the first event that replay gives otherwise. `exact`: compare what rounding decides
    too: digests of what went out, and of weights."""
    for place, (mine, theirs) in enumerate(zip(own, told, strict=False)):
        if mine != theirs if exact else _fixed(mine) != _fixed(theirs):
            return place
    shorter = min(len(own), len(told))
    return None if len(own) == len(told) else shorter


def _false_loss(own: Mapping[int, float], proof: ProofOfComputation, exact: bool) -> int | None:
    """The first sample whose stated loss replay gives otherwise. `exact`: to the last 1e-6.

    Of a segment only the samples in it are known here.
    """
    true = dict(stated(own))
    near = (0.0, 0) if exact else (LOSS_TOLERANCE, _NEAR_ZERO)
    for sample, loss in proof.losses:
        if sample in true and not math.isclose(
            loss, true[sample], rel_tol=near[0], abs_tol=near[1]
        ):
            return sample
    return None


def _loss_share(own: Mapping[int, float], proof: ProofOfComputation, sample: int) -> float:
    """How far off a stated loss is, as a share of what replay gives."""
    true, told = dict(stated(own))[sample], dict(proof.losses)[sample]
    return abs(told - true) / true if true else math.inf


def _fixed(event: Event) -> tuple[Kind, int, bytes]:
    """What the entries decide of an event, on whatever hardware."""
    came_in = b"" if event.kind is Kind.STEP else event.digest_in
    return event.kind, event.number, came_in
