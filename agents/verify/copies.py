# SPDX-License-Identifier: Apache-2.0
"""Near copies in a job whose nodes train as they like: who is alike, and whose data it came from.

In such a job there is no one right answer to compare a node's work with. Only payloads that are
alike (equal contents, or a large overlap) are looked at: the assigned batches of all who are alike
are trained on by the book, from the round's model and without any memory, and each payload's
leaning to one or the other decides (`agents.verify.provenance`). What is unclear condemns nobody.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.jobs.job import JobContext
from agents.mechanisms.codec import SupportCodec
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.payload import max_payload_bytes
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.assignment import work_order
from agents.training.determinism import determinism_class
from agents.training.replay import run_task
from agents.training.state import State, model_hash
from agents.verify.overlap import overlap, pairs
from agents.verify.provenance import Origin, provenance

_KEPT = 2  # rounds


@dataclass(frozen=True)
class LookAlikes:
    """Whom a node's payload is like. `value`: its largest corrected overlap, 1 for equal bytes."""

    others: tuple[int, ...]
    value: float
    identical: bool

    @property
    def reason(self) -> str:
        """For logs."""
        return "identical content" if self.identical else f"OVERLAP {self.value:.4f}"


@dataclass(frozen=True)
class CopyOrigin:
    """`source`: the node whose work this is a copy of, None if that wasn't found. `settled`: it was
    found whose data the work comes from; on another machine it may be unclear, and not otherwise.
    """

    source: int | None
    reason: str
    details: dict[str, Any]
    settled: bool = False


@dataclass
class _Round:
    """What all judgements of one round share: each support is found once."""

    revealed: dict[int, Support]
    alike: dict[int, LookAlikes]
    redone: dict[tuple[int, str], Support | None] = field(default_factory=dict)


_rounds: OrderedDict[bytes, _Round] = OrderedDict()


class Copies:
    """The near copies of one round of one job."""

    def __init__(
        self,
        job: JobContext,
        job_id: int,
        plan: Plan,
        before: State,
        submissions: Sequence[Submission],
        store: ContentStore,
        patient: bool = True,
    ) -> None:
        """Reads the payloads again. Raises StoreUnavailable; StoreError if one is gone.

        `before`: the round's model. `patient`: otherwise a payload that is gone is left out, so
        that whoever takes one down can't keep others from being looked at. TypeError for a job that
        is not of this kind.
        """
        if not isinstance(job.score, Gauntlet) or not isinstance(job.codec, SupportCodec):
            raise TypeError("copies are looked for in gauntlet jobs only; the job's rules say so")
        self._job, self._codec, self._options = job, job.codec, job.score
        self._job_id, self._plan, self._before = job_id, plan, before
        readable = [s for s in submissions if s.gradient is not None]
        self._whole = patient and not any(s.unavailable for s in submissions)
        key = self._key(readable)
        if key not in _rounds:
            revealed = self._read_all(readable, store, patient)
            readable = [s for s in readable if s.reveal.node in revealed]
            key = self._key(readable)
            if key not in _rounds:
                _rounds[key] = _Round(revealed, self._find(readable, revealed))
            while len(_rounds) > _KEPT:
                _rounds.popitem(last=False)
        self._round = _rounds[key]

    def _key(self, readable: Sequence[Submission]) -> bytes:
        """Names all that the judgements of a round depend on."""
        plan, spec = self._plan, self._job.spec
        marks = hashlib.sha256(model_hash(self._before) + plan.manifest.hash() + spec.to_bytes())
        for submission in readable:
            marks.update(submission.reveal.node.to_bytes(32, "big") + submission.reveal.content)
        return marks.digest()

    @property
    def alike(self) -> dict[int, LookAlikes]:
        """Every node whose payload is like another's, ascending."""
        return self._round.alike

    def judge(self, node: int, device: str) -> CopyOrigin:
        """Where the payload of `node` comes from. Raises StoreError for data that can't be had."""
        look = self.alike.get(node)
        if look is None:
            alone = "No other payload of the round is like it."
            return CopyOrigin(None, alone, {}, settled=self._whole)
        details: dict[str, Any] = {
            "look_alikes": list(look.others),
            "identical": look.identical,
            "overlap": look.value,
            "margin": self._options.overlap_margin,
            "determinism_class": determinism_class(device),
        }
        redone = {n: self._redo(n, device) for n in (node, *look.others)}
        known = {n: support for n, support in redone.items() if support is not None}
        others = [n for n in look.others if n in known]
        if node not in known or not others:
            return CopyOrigin(None, "It has no data, or data that training fails on.", details)
        revealed = self._round.revealed
        # Look-alikes without data of their own are no controls: they may be copies as well.
        rest = {n: s for n, s in revealed.items() if n in known or n not in look.others}
        found = provenance(node, others, rest, known, self._options.overlap_margin)
        details |= {
            "origin": found.origin.value,
            "source": found.source,
            "lean": found.lean,
            "threshold": found.threshold if math.isfinite(found.threshold) else None,
            "overlap_with_data_of": {
                str(n): overlap(revealed[node], support) for n, support in known.items()
            },
        }
        figures = f"(lean {found.lean:+.4f}, threshold {found.threshold:.4f})"
        if found.origin == Origin.COPIED:
            whose = f"the assigned data of node {found.source}, whose payload is alike"
            return CopyOrigin(found.source, f"It comes from {whose} {figures}.", details, True)
        if found.origin == Origin.OWN:
            own = f"It comes from its own assigned data {figures}."
            return CopyOrigin(None, own, details, settled=True)
        return CopyOrigin(None, f"Whose data it comes from is unclear {figures}.", details)

    def _find(
        self, readable: Sequence[Submission], revealed: dict[int, Support]
    ) -> dict[int, LookAlikes]:
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for submission in readable:
            groups[submission.reveal.content].append(submission.reveal.node)
        same = {
            node: {other for other in group if other != node}
            for group in groups.values()
            for node in group
        }
        near = {flag.node_id: flag for flag in pairs(revealed, self._options.overlap)}
        found = {}
        for node in sorted(revealed):
            others = same[node] | set(near[node].others if node in near else ())
            if others:
                value = 1.0 if same[node] else near[node].value
                found[node] = LookAlikes(tuple(sorted(others)), value, bool(same[node]))
        return found

    def _read_all(
        self, readable: Sequence[Submission], store: ContentStore, patient: bool
    ) -> dict[int, Support]:
        """Supports by node."""
        found = {}
        for submission in readable:
            try:
                found[submission.reveal.node] = self._read(submission, store)
            except StoreUnavailable:
                raise
            except StoreError:
                if patient:
                    raise
        return found

    def _read(self, submission: Submission, store: ContentStore) -> Support:
        job, node = self._job, submission.reveal.node
        bound = max_payload_bytes(job.codec, job.shapes)
        raw = store.get_digest(submission.reveal.content, bound)
        return self._codec.support(raw, job.shapes, self._plan.codec_seed(job.codec, node))

    def _redo(self, node: int, device: str) -> Support | None:
        """What a node's assigned batches give by the book; None if they give nothing."""
        redone = self._round.redone
        if (node, device) not in redone:
            redone[node, device] = self._train(node, device)
        return redone[node, device]

    def _train(self, node: int, device: str) -> Support | None:
        job, plan, before = self._job, self._plan, self._before
        task = work_order(
            plan.manifest, node, job.spec, self._job_id, plan.step, model_hash(before)
        )
        if not task.steps:
            return None
        try:
            gradient = run_task(job.net(device), task, before, job.data).pseudo_gradient
        except FloatingPointError:
            return None
        seed = plan.codec_seed(job.codec, node)
        support = self._codec.support(job.codec.encode(gradient, None, seed), job.shapes, seed)
        return support if support.size else None
