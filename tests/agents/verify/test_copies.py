# SPDX-License-Identifier: Apache-2.0
"""In a free job a copier is found by whose data its payload comes from; nobody else is blamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.protocol.numbers import Violation
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.storage.canonical import loads
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.training.assignment import unassigned, work_order
from agents.training.replay import run_task
from agents.training.state import State, model_hash
from agents.verify import copies
from agents.verify.copies import Copies
from agents.verify.spot_checks import Finding, reexecute, suspects
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    HonestRound,
    make_honest_round,
    scaled,
)
from tests.stage.memory.tiny_specs import EIGHTH, signed_steps

JOBS: dict[str, dict[str, Any]] = {
    "demo": {
        "codec": "demo",
        "codec_options": EIGHTH,
        "merge": "demo_sign",
        "optimizer": signed_steps(2, 16, 0.002, outer_decay=True),
    },
    "sparse": {
        "codec": "sparse",
        "codec_options": {"per_chunk": 400},
        "merge": "norm_clip",
        "optimizer": {"batch_size": 2, "seq_len": 16, "inner": "gradient"},
    },
}


@pytest.fixture(scope="module", params=JOBS)
def free(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    """A round of four honest nodes in a gauntlet job."""
    store = EmbeddedStore(tmp_path_factory.mktemp("free") / "store")
    # Four nodes of a model with 300 numbers to send: honest ones are more alike than in earnest.
    changes = {"score": "gauntlet", "verify": "gauntlet", "score_options": {"overlap": 0.7}}
    return make_honest_round(store, batches_per_round=16, **changes, **JOBS[request.param])


def with_others(tiny: HonestRound, *others: Submission) -> list[Submission]:
    changed = {other.reveal.node: other for other in others}
    return [changed.get(s.reveal.node, s) for s in tiny.honest()]


def findings(
    tiny: HonestRound, submissions: Sequence[Submission], flagged: tuple[int, ...] = ()
) -> dict[int, Finding]:
    """Of everybody who is suspect. `flagged`: whose contents the chain knows to be identical."""
    work = tiny.inputs(submissions, sample=4, flagged=flagged)
    due = suspects(work, tiny.store)
    return {node: reexecute(work, node, DEVICE, tiny.store) for node in due}


def test_nobody_honest_is_suspect_and_nobody_is_drawn(free: HonestRound) -> None:
    assert findings(free, free.honest()) == {}


@pytest.mark.parametrize(("victim", "thief"), [(3, 5), (5, 3), (8, 9)])
def test_a_rescaled_copy_is_found_and_its_victim_is_not_blamed(
    free: HonestRound, victim: int, thief: int
) -> None:
    copy = free.submit(thief, scaled(free.works[victim].gradient, 1.7))
    found = findings(free, with_others(free, copy))
    assert found.keys() == {victim, thief}
    assert (found[victim].violation, found[victim].unsure) == (None, "")
    assert found[thief].violation == Violation.INVALID, "the chain takes COPIED for equal bytes"
    said = loads(found[thief].evidence)
    assert (said["node"], said["source"], said["origin"]) == (thief, victim, "copied")
    assert said["look_alikes"] == [victim] and said["violation"] == "INVALID"
    assert said["lean"] < 0 < said["threshold"] <= -said["lean"]
    overlaps = said["overlap_with_data_of"]
    assert overlaps[str(victim)] > overlaps[str(thief)]


def test_identical_bytes_are_asked_where_they_come_from(free: HonestRound) -> None:
    """Also where the copier has the lower id, and whatever came first."""
    submissions = with_others(free, free.submit(3, free.works[8].gradient))
    assert suspects(free.inputs(submissions, flagged=(3, 8)), free.store) == {
        3: ["identical content"],
        8: ["identical content"],
    }
    found = findings(free, submissions, flagged=(3, 8))
    assert found[8].violation is None and found[3].violation == Violation.COPIED
    assert loads(found[3].evidence)["identical"] is True


def test_two_copies_of_one_payload_name_its_owner(free: HonestRound) -> None:
    submissions = with_others(
        free,
        free.submit(5, free.works[3].gradient),
        free.submit(8, scaled(free.works[3].gradient, 0.5)),
    )
    found = findings(free, submissions, flagged=(3, 5))
    assert {node: finding.violation for node, finding in found.items()} == {
        3: None,
        5: Violation.COPIED,
        8: Violation.INVALID,
    }
    assert {loads(found[node].evidence)["source"] for node in (5, 8)} == {3}


def test_without_anyone_to_compare_with_nobody_is_condemned(free: HonestRound) -> None:
    pair = [free.submit(3), free.submit(5, scaled(free.works[3].gradient, 1.7))]
    work = free.inputs(pair)
    for node in (3, 5):
        found = reexecute(work, node, DEVICE, free.store)
        assert found.violation is None and "is unclear" in found.unsure


def more_than_assigned(tiny: HonestRound, node: int) -> State:
    """What a node finds that trains on as many batches again."""
    plan, job = tiny.plan, tiny.job
    task = work_order(plan.manifest, node, job.spec, JOB, plan.step, model_hash(tiny.before))
    extra = unassigned(plan.manifest, node, task.steps)
    task = replace(task, batch_ranges=(*extra, *task.batch_ranges))
    return run_task(job.net(DEVICE), task, tiny.before, job.data).pseudo_gradient


def test_who_trains_on_twice_the_data_is_no_suspect(free: HonestRound) -> None:
    submissions = with_others(free, free.submit(5, more_than_assigned(free, 5)))
    assert findings(free, submissions) == {}
    finding = reexecute(free.inputs(submissions), 5, DEVICE, free.store)
    assert finding.violation is None and "No other payload" in finding.reason
    assert finding.unsure == ""


def test_who_is_like_nobody_is_sure_to_be_only_where_all_can_be_read(free: HonestRound) -> None:
    """Whom it is a copy of may be the one whose payload is gone."""
    gone = replace(free.submit(9), gradient=None, reason=UNAVAILABLE)
    finding = reexecute(free.inputs(with_others(free, gone)), 5, DEVICE, free.store)
    assert finding.violation is None and "No other payload" in finding.unsure


def test_a_copy_of_twice_the_data_never_falls_on_its_victim(free: HonestRound) -> None:
    """With the few numbers of this model it may stay unclear; both are asked all the same."""
    work = more_than_assigned(free, 3)
    found = findings(free, with_others(free, free.submit(3, work), free.submit(5, scaled(work, 2))))
    assert found.keys() == {3, 5}
    assert found[3].violation is None
    assert found[5].violation in (None, Violation.INVALID)


def test_proofs_of_computation_make_nobody_suspect(free: HonestRound) -> None:
    """Time, steps and start are the node's own affair."""
    bare = replace(free.submit(5), reveal=replace(free.submit(5).reveal, proof=b"\7" * 32))
    odd = free.submit(8)
    odd = replace(odd, reveal=replace(odd.reveal, proof=free.reveal(8, steps=999).proof))
    assert findings(free, with_others(free, bare, odd)) == {}


def test_each_task_is_redone_once(free: HonestRound) -> None:
    copies._rounds.clear()
    submissions = with_others(free, free.submit(5, scaled(free.works[3].gradient, 1.7)))
    findings(free, submissions)
    (kept,) = copies._rounds.values()
    assert kept.redone.keys() == {(3, DEVICE), (5, DEVICE)}
    assert kept.revealed.keys() == set(NODES)


def test_a_payload_taken_down_hides_nobody_else(free: HonestRound) -> None:
    """Everybody has read it; then it is gone, and whoever looks for copies must read it again."""
    copies._rounds.clear()
    gone = free.submit(9)
    gone = replace(gone, reveal=replace(gone.reveal, content=b"\7" * 32))
    copy = free.submit(5, scaled(free.works[3].gradient, 1.7))
    work = free.inputs(with_others(free, gone, copy))
    with pytest.raises(NotFound):
        suspects(work, free.store)
    hasty = replace(work, patient=False)
    assert suspects(hasty, free.store).keys() == {3, 5}
    assert reexecute(hasty, 3, DEVICE, free.store).violation is None
    assert reexecute(hasty, 5, DEVICE, free.store).violation == Violation.INVALID
    (kept,) = copies._rounds.values()
    assert kept.redone.keys() == {(3, DEVICE), (5, DEVICE)}, "each task is redone once all the same"


def test_other_jobs_are_not_looked_at_this_way(tiny: HonestRound) -> None:
    with pytest.raises(TypeError, match="gauntlet jobs only"):
        Copies(tiny.job, JOB, tiny.plan, tiny.before, tiny.honest(), tiny.store)
