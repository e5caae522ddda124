# SPDX-License-Identifier: Apache-2.0
"""Jobs with other mechanisms than the default, by real processes: memory, noise, budgets."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.audit.replay import audit_job
from agents.jobs.publish import publish_job
from agents.mechanisms.privacy.none import NoPrivacy
from agents.protocol.numbers import Phase
from agents.rounds.models import Models
from agents.rounds.privacy_budget import Budget
from agents.rounds.submissions import fetch
from agents.runtime.journal import Journal
from agents.storage.cid import digest_of
from agents.storage.content_store import open_store
from agents.training.norms import norm
from agents.training.state import file_bound
from agents.training.update import read_update
from scripts._report.story import losses
from tests.stage.network import SPEC, TERMS, LocalNetwork

NOISE = {"clip": 1.0, "noise_multiplier": 4.0, "max_epsilon": 8.0}


def job_of(local: LocalNetwork, rounds: int, **fields: Any) -> int:
    """Create a small job with these fields in its spec."""
    text = [inspect.getsource(module).encode() for module in (textwrap, json)]
    published = publish_job(local.store, text, {**SPEC, "rounds": rounds, **fields})
    job = local.net.create_job(published, TERMS, rounds)
    local.jobs.append(job)
    return job


def assert_audited(local: LocalNetwork, job: int, deep: bool) -> None:
    """A stranger finds nothing wrong."""
    found = audit_job(local.network, open_store(str(local.net.store)), job, deep=deep)
    assert [str(difference) for difference in found.differences] == []


def test_error_feedback_is_followed_by_every_verifier(local: LocalNetwork) -> None:
    """Everyone is re-executed in every round: what a node kept from the first, its verifiers find
    again in the second and third, and after the reset in the third, nothing."""
    job = job_of(
        local,
        3,
        codec="sparse",
        codec_options={"memory_rounds": 2},
        merge="geometric_median",
        score="alignment",
    )
    history = local.finish(job)
    local.assert_whole(job)
    curve = losses(history)
    assert curve[-1] < curve[0]
    assert_audited(local, job, deep=True)


def test_updates_that_only_aggregators_and_verifiers_read(local: LocalNetwork) -> None:
    """The noised update is final, attested by those who could read what it was made of; nobody
    else can read a payload, and the update is longer than anything a node may send. Who proposes
    it dies before it is published, and publishes it when it is back."""
    local.arm({"aggregator-after-propose": tuple(local.names("aggregator"))})
    job = job_of(
        local, 1, merge="mean", score="batches", privacy="aggregate", privacy_options=NOISE
    )
    history = local.finish(job)
    assert set(local.crashed) & set(local.names("aggregator"))
    local.assert_whole(job)
    (story,) = (r for r in history.rounds.values() if r.phase == Phase.FINALIZED)
    assert story.report is not None
    models = Models(local.network, local.store)
    context = models.job(job)
    reveals = local.network.reveals(job, 1, int(local.round(job).opened_block))
    assert len(reveals) == 3
    for reveal in reveals.values():
        closed = fetch(reveal, context, local.store)
        assert closed.gradient is None and "sealed for" in closed.reason
    raw = local.store.get_digest(digest_of(story.report.update), file_bound(context.shapes))
    update = read_update(raw, context.shapes)
    assert norm(update) > 10 * NOISE["clip"]
    assert {line.quality_ppm for line in story.report.nodes} == {1_000_000}
    assert_audited(local, job, deep=False)


@pytest.fixture
def owners(local: LocalNetwork, tmp_path: Path) -> Iterator[list[str]]:
    """All trainers, with text of their own, and all but the last accept riders; afterwards as they
    were."""
    names = local.names("trainer")
    local.stop(*names)
    for name in names:
        own = tmp_path / name
        own.mkdir()
        (own / "a.txt").write_text(f"text that only {name} has\n" * 400)
        accepts = str(name != names[-1]).lower()
        env = {"MENAGERIE_TRAINER__LOCAL_DATA": str(own)}
        env["MENAGERIE_TRAINER__ACCEPT_NO_PRIVACY"] = "true"
        local.net.start_agent(name, env={**env, "MENAGERIE_TRAINER__ACCEPT_RIDERS": accepts})
    yield names
    local.stop(*names)
    local.start(*names)


def test_on_data_that_never_leaves_its_node_those_train_who_accept_riders(
    local: LocalNetwork, owners: list[str]
) -> None:
    """Nobody's work is done again. The node that does not accept it is waited for until the window
    ends, says why, and is not slashed."""
    job = job_of(local, 1, access="local", verify="screening", merge="mean", score="alignment")
    *willing, other = owners
    local.until(lambda: local.round(job).n_committed == len(willing), "the willing committed")
    local.skip_deadline(job)
    history = local.finish(job)
    took_part = {local.node_id(name) for name in willing}
    assert set(history.rounds[1].committed) == took_part
    local.assert_whole(job, willing)
    assert "set trainer.accept_riders: true" in local.net.supervisor[other].log.read_text()
    assert_audited(local, job, deep=False)


@pytest.fixture
def frugal(local: LocalNetwork) -> Any:
    """The first trainer, with a budget for one round more than it has spent in other jobs, while
    all accept that the noise hides riders; afterwards as they were."""
    names = local.names("trainer")
    name, *others = names
    local.stop(*names)
    accepts = {"MENAGERIE_TRAINER__ACCEPT_RIDERS": "true"}
    (kept,) = (local.net.directory / "agents" / name).glob("trainer-*.journal")
    with Journal(kept) as journal:
        bound = str(1.2 + Budget(journal, 0, NoPrivacy()).elsewhere())
    local.net.start_agent(name, env={**accepts, "MENAGERIE_TRAINER__MAX_EPSILON": bound})
    for other in others:
        local.net.start_agent(other, env=accepts)
    yield name
    local.stop(*names)
    batch = local.net.batch()
    seat = local.net.seats[name]
    registry = local.net.contract("NodeRegistry")
    batch.add(seat.owner, registry.functions.set_active(seat.node_id, True))
    batch.settle()
    local.start(*names)
    local.wait_eligible([name])


def test_a_node_stops_by_itself_when_its_budget_is_spent(local: LocalNetwork, frugal: str) -> None:
    """Noise on every update, checked without being known. One round costs epsilon 1.06 (sigma 4);
    the node that allows 1.2 more is in no later round, is not waited for and is not slashed."""
    job = job_of(
        local,
        2,
        codec="semantic",
        codec_options={"dimension": 1024},
        merge="mean",
        score="shares",
        privacy="gaussian",
        privacy_options=NOISE,
    )
    history = local.finish(job)
    assert history.slashes[local._slashes_before :] == []
    node = local.node_id(frugal)
    took_part = [n for n, story in sorted(history.rounds.items()) if node in story.committed]
    assert took_part == [1]
    assert node not in history.rounds[2].nodes, "it left before the next round opened"
    assert history.rounds[2].phase == Phase.FINALIZED
    assert not local.network.node(node).active
    assert_audited(local, job, deep=False)
