# SPDX-License-Identifier: Apache-2.0
"""A record is wrong about a round exactly where its public bytes deny it, whoever lacks some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.gauntlet import remeasure
from agents.gauntlet.draw import round_seed
from agents.gauntlet.fast_evaluation import NO_SAMPLE, Facts, check_nodes
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import follow, scores_of
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import open_samples
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.norms import norm
from agents.training.state import model_hash
from tests.stage.memory.honest_round import (
    AUDIT_SEED,
    DEVICE,
    JOB,
    NODES,
    ROUND,
    HonestRound,
    make_honest_round,
    scaled,
)
from tests.stage.memory.tiny_specs import GAUNTLET

GONE = "unavailable: not found"
NAT = 10**9
STEPS = {"batch_size": 2, "seq_len": 16, "inner": "gradient", "outer_lr": 1e-3}
Submissions = Sequence[Submission]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    store = EmbeddedStore(tmp_path_factory.mktemp("remeasured") / "store")
    return make_honest_round(store, **{**GAUNTLET, "optimizer": STEPS})


@dataclass
class Again:
    """A round, records of it, and what a member says of one.

    `invalid`: nodes that are marked as validators look. `found`: those that were at any time.
    """

    tiny: HonestRound
    samples: dict[int, bytes]
    invalid: set[int] = field(default_factory=set)
    found: set[int] = field(default_factory=set)

    def record(self, sent: Submissions, **changes: dict[str, Any]) -> ScoreRecord:
        """An honest validator's, who had `sent`; `changes`: of lines, by "node_3" and so on."""
        tiny, options = self.tiny, self.tiny.job.score
        found = check_nodes(
            Facts(NODES, NODES, self.samples, self.invalid),
            *(tiny.job, options, tiny.plan, tiny.before, sent, AUDIT_SEED, 0.0, tiny.store),
        )
        usable = {s.reveal.node: s.gradient for s in sent if found[s.reveal.node].usable}
        shown = Yardstick(
            job=tiny.job,
            options=options,
            plan=tiny.plan,
            before=tiny.before,
            length=median_norm(usable.values()),
            seed=round_seed(AUDIT_SEED),
            device=DEVICE,
        ).measure(usable)
        lines = []
        for node, checked in found.items():
            own = shown.get(node, Measured(None, None, None))
            line = NodeScore(
                node=node,
                failure=checked.failure,
                usable=checked.usable,
                sync=None if checked.sync is None else 0,
                evaluated=True,
                assigned=own.assigned,
                random=own.random,
                expected=own.expected,
                shown=own.shown,
                extra=own.extra,
                score=0,
            )
            lines.append(line.model_copy(update=changes.get(f"node_{node}", {})))
        ratings = follow(None, lines, options)
        scores = scores_of(lines, ratings, options)
        return ScoreRecord(
            job=JOB,
            round=ROUND,
            verifier=21,
            position=0,
            previous=None,
            audit_seed=AUDIT_SEED.hex(),
            model=model_hash(tiny.before).hex(),
            scores=[
                line.model_copy(update={"score": score})
                for line, score in zip(lines, scores, strict=True)
            ],
            ratings=ratings,
        )

    def reader(self, sent: Submissions) -> Any:
        tiny = self.tiny
        return SimpleNamespace(
            plans=SimpleNamespace(of=lambda view: tiny.plan),
            submissions=lambda view: sent,
            models=SimpleNamespace(job=lambda job: tiny.job),
            network=SimpleNamespace(
                committed=lambda *a: set(NODES), found_invalid=lambda *a: self.found
            ),
            before=lambda view: tiny.before,
            store=tiny.store,
            device=DEVICE,
        )

    def errors(
        self,
        record: ScoreRecord,
        sent: Submissions,
        known: remeasure.Measurements | None = None,
    ) -> list[str]:
        """What a member who has `sent` finds wrong."""
        consensus: Any = SimpleNamespace(samples=lambda *a: self.samples)
        facts = consensus, self.tiny.job.score, self.view, record
        return list(remeasure.errors(self.reader(sent), *facts, known=known))

    def lacking(self, record: ScoreRecord, sent: Submissions) -> list[int]:
        return remeasure.lacking(self.reader(sent), self.view, record)

    @property
    def view(self) -> Any:
        round_ = SimpleNamespace(opened_block=1, prev_model=b"")
        snapshot = SimpleNamespace(nodes=NODES)
        return SimpleNamespace(job_id=JOB, round_id=ROUND, round=round_, snapshot=snapshot)


@pytest.fixture
def again(tiny: HonestRound, monkeypatch: pytest.MonkeyPatch) -> Again:
    monkeypatch.setattr(remeasure, "earlier_model", lambda *a: None)
    monkeypatch.setattr(remeasure, "merged_updates", lambda *a: [])
    raw = open_samples(tiny.before, AUDIT_SEED, tiny.job.score.samples)  # type: ignore[attr-defined]
    return Again(tiny, dict.fromkeys(NODES, digest_of(tiny.store.put_bytes(raw))))


def without(sent: Submissions, node: int) -> list[Submission]:
    """The same once a payload can't be had."""
    return [replace(s, gradient=None, reason=GONE) if s.reveal.node == node else s for s in sent]


def test_an_honest_record__is_right(again: Again) -> None:
    sent = again.tiny.honest()
    record = again.record(sent)
    assert all(line.random is not None for line in record.scores)
    assert again.errors(record, sent) == [] and again.lacking(record, sent) == []


@pytest.mark.parametrize("failure", ["", NO_SAMPLE, "not revealed in time"])
def test_a_payload_that_nobody_revealed__is_not_usable(again: Again, failure: str) -> None:
    sent = [s for s in again.tiny.honest() if s.reveal.node != 3]
    record = again.record(sent, node_3={"failure": failure, "usable": True})
    assert any("node 3" in said for said in again.errors(record, sent))
    assert again.errors(again.record(sent), sent) == []


def test_who_was_found_invalid__is_rated_as_its_validator_saw_it(again: Again) -> None:
    """Before the verdict, after it, or after the appeal that cleared the node."""
    sent = again.tiny.honest()
    innocent = again.record(sent)
    again.invalid = {3}
    convicted = again.record(sent)
    (said,) = again.errors(convicted, sent)
    assert said == "it says False, and not True, of the payload's use of node 3"
    again.found = {3}
    assert again.errors(innocent, sent) == again.errors(convicted, sent) == []


def test_a_payload_that_was_in_time__can_be_said_to_be_late_but_not_useless(again: Again) -> None:
    sent = again.tiny.honest()
    late = again.record(without(sent, 3))
    assert again.errors(late, sent) == []
    unshown = {"failure": NO_SAMPLE, "usable": False} | dict.fromkeys(
        ("assigned", "random", "expected", "shown", "extra")
    )
    (said,) = again.errors(again.record(sent, node_3=unshown), sent)
    assert said == "it says False, and not True, of the payload's use of node 3"


@pytest.mark.parametrize("figure", ["assigned", "random"])
def test_a_payload_that_is_gone__hides_no_other_nodes_losses(again: Again, figure: str) -> None:
    sent = again.tiny.honest()
    later = without(sent, 3)
    honest = again.record(sent)
    assert again.errors(honest, later) == [] and again.lacking(honest, later) == [3]
    (said,) = again.errors(again.record(sent, node_9={figure: NAT}), later)
    assert said.startswith(f"its {figure} LossScore of node 9 is 1.000000 nats")


def test_a_payload_that_was_read__is_missed(again: Again) -> None:
    """Whatever the record says of it then; not where it says that nothing could be read."""
    sent = again.tiny.honest()
    long = [
        replace(s, gradient=scaled(s.gradient, 100.0))
        if s.reveal.node == 3 and s.gradient is not None
        else s
        for s in sent
    ]
    assert again.lacking(again.record(long), without(sent, 3)) == [3]
    bad = [
        replace(s, gradient=None, reason="bad payload: cut off") if s.reveal.node == 3 else s
        for s in sent
    ]
    assert again.lacking(again.record(bad), without(sent, 3)) == []
    assert again.lacking(again.record(without(sent, 3)), without(sent, 3)) == []


def test_a_payload_that_is_gone__makes_no_norm_implausible(again: Again) -> None:
    """Node 3's is short, but not beside the median of all four; beside that of three it is."""
    sent = again.tiny.honest()
    norms = {s.reveal.node: norm(s.gradient) for s in sent if s.gradient is not None}
    ordered = sorted(norms[node] for node in NODES if node != 3)
    ratio = again.tiny.job.score.norm_ratio  # type: ignore[attr-defined]
    assert ordered[0] < ordered[1], "the two medians differ"
    factor = (ordered[0] + ordered[1]) / 2 / ratio / norms[3]
    short = [
        replace(s, gradient=scaled(s.gradient, factor))
        if s.reveal.node == 3 and s.gradient is not None
        else s
        for s in sent
    ]
    least = next(node for node in NODES if norms[node] == ordered[0])
    greatest = next(node for node in NODES if norms[node] == ordered[2])
    honest = again.record(short)
    assert [line.failure for line in honest.scores] == [""] * 4
    assert again.errors(honest, short) == []
    unrevealed = [s for s in short if s.reveal.node != least]
    assert any("node 3" in said for said in again.errors(honest, unrevealed)), "it matters"
    assert again.errors(honest, without(short, least)) == []
    assert again.errors(honest, without(short, greatest)) == []


def test_no_norm_is_judged_but_all_else_is(again: Again) -> None:
    """Who lies of another line is found beside one whose norm is not known to be right."""
    sent = again.tiny.honest()
    said = {"failure": "out of sync by 9 steps, at most 2"}
    found = again.errors(again.record(sent, node_9=said), without(sent, 3))
    assert found == ['it says "out of sync by 9 steps, at most 2", which is not so, of node 9']


@pytest.mark.parametrize(("rate", "free"), [(1e-3, False), (1e-4, True)])
def test_steps_so_small_that_losses_differ_by_less_than_machines__leave_a_record_free(
    again: Again, tmp_path: Path, rate: float, free: bool
) -> None:
    """Known, and not defended: one node gets everything by figures that nobody measured."""
    store = EmbeddedStore(tmp_path / "store")
    own = {"codec_options": {"chunk": 8, "per_chunk": 8}, "optimizer": {**STEPS, "outer_lr": rate}}
    tiny = make_honest_round(store, **{**GAUNTLET, **own})
    raw = open_samples(tiny.before, AUDIT_SEED, tiny.job.score.samples)  # type: ignore[attr-defined]
    small = Again(tiny, dict.fromkeys(NODES, digest_of(store.put_bytes(raw))))
    sent = tiny.honest()
    figures = {"assigned": 100_000, "expected": 0, "random": 60_000, "shown": 1, "extra": 0}
    favoured = {**figures, "random": 100_000, "shown": 1_000_000}
    lies = {f"node_{node}": favoured if node == 5 else figures for node in NODES}
    invented = small.record(sent, **lies)
    honest = dict(zip(NODES, small.record(sent).vector(), strict=True))
    assert dict(zip(NODES, invented.vector(), strict=True))[5] > 10 * honest[5]
    assert (small.errors(invented, sent) == []) is free


def test_records_that_agree_on_whom_to_measure__cost_one_measurement(
    again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lie about a figure is found by it too, and one about who is measured has its own."""
    sent = again.tiny.honest()
    honest = again.record(sent)
    liar = again.record(sent, node_9={"random": NAT})
    unmeasured = dict.fromkeys(("assigned", "random", "expected", "shown", "extra"))
    fewer = again.record(sent, node_5={"evaluated": False, **unmeasured})
    measured: list[tuple[int, ...]] = []

    class Counting(Yardstick):
        def measure(self, sent: Any, *rest: Any, **more: Any) -> dict[int, Measured]:
            measured.append(tuple(sent))
            return super().measure(sent, *rest, **more)

    monkeypatch.setattr(remeasure, "Yardstick", Counting)
    known = remeasure.Measurements()
    assert [again.errors(honest, sent, known) for _ in range(3)] == [[], [], []]
    (said,) = again.errors(liar, sent, known)
    assert "LossScore of node 9" in said and measured == [tuple(NODES)]
    again.errors(fewer, sent, known)
    later = without(sent, 3)
    assert again.errors(honest, later, known) == []
    without_5, without_3 = ([node for node in NODES if node != gone] for gone in (5, 3))
    assert measured[1:] == [tuple(without_5), tuple(without_3)]


def test_measurements__the_newest_few_are_kept() -> None:
    known, made = remeasure.Measurements(), []
    for number in [*range(20), 19, 12, 11]:
        known.of(number, lambda number=number: made.append(number) or {})  # type: ignore[misc]
    assert made == [*range(20), 11]
