# SPDX-License-Identifier: Apache-2.0
"""Aggregate noise: drawn once, published, and accepted only if it is noise and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.jobs.job import JobContext
from agents.rounds.outcome import compute, disagreements
from agents.rounds.release import draw, plain, published
from agents.rounds.submissions import Submission
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from agents.training.update import pack_update
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    ROUND,
    HonestRound,
    make_honest_round,
    proposal_of,
)
from tests.stage.memory.payloads import same_bits as same

AGGREGATE = {
    "privacy": "aggregate",
    "privacy_options": {"clip": 0.05, "noise_multiplier": 2.0},
    "merge": "mean",
    "score": "batches",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("store")), **AGGREGATE)


@pytest.fixture
def job(tiny: HonestRound) -> JobContext:
    return tiny.job


def merged(job: JobContext) -> State:
    """A merged update shorter than the bound C of its privacy."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(shape, generator=generator) * 1e-4 for name, shape in job.shapes.items()
    }


def test_noise_is_drawn_once_and_survives_a_restart(job: JobContext, tmp_path: Path) -> None:
    first, _ = draw(job, tmp_path, "noised-1-7-a")(merged(job), 4)
    again, _ = draw(job, tmp_path, "noised-1-7-a")(merged(job), 4)
    other, _ = draw(job, tmp_path, "noised-1-7-b")(merged(job), 4)
    assert same(first, again) and not same(first, other) and not same(first, merged(job))


def verdict(tiny: HonestRound, update: State, clean: State) -> str:
    cid = tiny.store.put_bytes(pack_update(update))
    found, doubt = published(tiny.job, tiny.store, cid)(clean, 4)
    assert doubt or same(found, update)
    return doubt


def test_honest_noise_is_accepted_by_those_who_did_not_draw_it(tiny: HonestRound) -> None:
    clean = merged(tiny.job)
    for _ in range(5):
        assert verdict(tiny, draw(tiny.job, None, "")(clean, 4)[0], clean) == ""


def test_where_the_noise_points_is_its_senders_choice(tiny: HonestRound) -> None:
    """The check sees its length and its component along the merge, and no more: a known limit
    (docs/privacy.md). All of the length may go into a few numbers, or where somebody wants it."""
    clean = merged(tiny.job)
    noised, _ = draw(tiny.job, None, "")(clean, 4)
    names = sorted(clean)
    whole, noise = (
        torch.cat([state[name].reshape(-1).double() for name in names])
        for state in (clean, {name: noised[name] - clean[name] for name in names})
    )
    for wanted in (torch.arange(len(whole)) < 16, noise.sign()):
        chosen = wanted.double()
        chosen -= whole * (chosen @ whole) / (whole @ whole)
        chosen *= noise.norm() / chosen.norm()
        parts = (whole + chosen).float().split([clean[name].numel() for name in names])
        update = {n: part.view_as(clean[n]) for n, part in zip(names, parts, strict=True)}
        assert verdict(tiny, update, clean) == ""
        longer = {n: clean[n] + 2 * (update[n] - clean[n]) for n in names}
        assert "deviates" in verdict(tiny, longer, clean)


@pytest.mark.parametrize(
    ("cheat", "words"),
    [
        (lambda clean, noised: clean, "noise is missing"),
        (lambda clean, noised: noised * 1.2, "not merge and noise"),
        (lambda clean, noised: noised + 0.03, "not merge and noise"),
        (lambda clean, noised: noised * 0.5, "noise is missing"),
    ],
)
def test_an_aggregator_cannot_publish_something_else(tiny: HonestRound, cheat, words: str) -> None:
    clean = merged(tiny.job)
    noised, _ = draw(tiny.job, None, "")(clean, 4)
    published_ = {name: cheat(clean[name], noised[name]) for name in clean}
    assert words in verdict(tiny, published_, clean)


def test_an_update_that_is_gone_or_broken_is_a_sentence(tiny: HonestRound) -> None:
    """And the merge without noise doesn't take its place: a challenge would publish its hash."""
    clean = merged(tiny.job)
    for cid in (cid_of_bytes(b"nowhere"), tiny.store.put_bytes(b"junk")):
        instead, doubt = published(tiny.job, tiny.store, cid)(clean, 4)
        assert "can't be used" in doubt
        assert all(not tensor.any() for tensor in instead.values())


def test_other_jobs_publish_the_merge_itself(tmp_path: Path) -> None:
    ordinary = make_honest_round(EmbeddedStore(tmp_path / "store")).job
    assert draw(ordinary, tmp_path, "noised-1-7-a") is plain
    assert published(ordinary, EmbeddedStore(tmp_path / "store"), "") is plain


def test_a_verifier_agrees_with_a_noised_result_and_not_with_a_forged_one(
    tiny: HonestRound, job: JobContext
) -> None:
    """Submissions as aggregators and verifiers read them: opened, clipped, without noise."""
    submissions = []
    for node in NODES:
        work = tiny.works[node]
        gradient = job.codec.decode(work.payload, job.shapes, tiny.plan.manifest.seed)
        submissions.append(Submission(tiny.reveal(node), gradient, ""))
    arguments = (job, JOB, ROUND, tiny.plan, tiny.before, submissions, DEVICE)
    theirs = compute(*arguments, release=draw(job, None, ""))
    tiny.store.put_bytes(theirs.update)
    mine = compute(*arguments, release=published(job, tiny.store, theirs.report.update))
    assert mine.model == theirs.model
    assert disagreements(mine, proposal_of(theirs), theirs.report) == []
    assert {line.quality_ppm for line in theirs.report.nodes} == {1_000_000}
    forged = pack_update({name: tensor + 0.05 for name, tensor in theirs.merged.items()})
    report = theirs.report.model_copy(update={"update": tiny.store.put_bytes(forged)})
    mine = compute(*arguments, release=published(job, tiny.store, report.update))
    wrong = disagreements(mine, replace(proposal_of(theirs), model=mine.model), report)
    (sentence,) = wrong  # no hash and no loss that follow from the merge without noise
    assert "not merge and noise" in sentence


def test_noise_of_old_rounds_is_removed(job: JobContext, tmp_path: Path) -> None:
    for number in (1, 2, 5):
        draw(job, tmp_path, f"noised-1-{number}-aa")(merged(job), 4)
    draw(job, tmp_path, "noised-2-1-aa")(merged(job), 4)
    left = sorted(path.stem for path in tmp_path.iterdir())
    assert left == ["noised-1-5-aa", "noised-2-1-aa"]


def test_each_round_is_charged_for_the_noise_of_a_fallback_too(job: JobContext) -> None:
    charge = job.privacy.charge()
    assert charge is not None and charge.steps == 2
