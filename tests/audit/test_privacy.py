# SPDX-License-Identifier: Apache-2.0
"""Privacy charges replayed over real commitments: every commit counts, revealed or not."""

from __future__ import annotations

from typing import Any

from agents.audit.findings import Part
from agents.audit.privacy import Charges
from agents.audit.record import Record
from agents.privacy import Accountant
from agents.rounds.jobs import JobContext
from tests.audit.doctor import lying_network
from tests.audit.scene import JOB, Scene


def charged(scene: Scene, **options: Any) -> tuple[JobContext, list[Part]]:
    """The parts of all rounds of job 1 as if its spec had asked for noise."""
    fields = scene.published.spec.model_dump(mode="json")
    changes = {"privacy": "gaussian", "privacy_options": options, "merge": "mean"}
    job = JobContext(scene.published.spec.from_dict({**fields, **changes}), scene.store)
    record = Record(lying_network(scene.provider, scene.network.deployment), JOB)
    charges, parts = Charges(job), []
    for number in record.current:
        parts.append(Part(number))
        charges.replay(record, parts[-1], None, {})
    return job, parts


def test_spent(scene: Scene) -> None:
    """bob is charged for round 3, where he kept silent; eve for 3 rounds, nobody for the void."""
    job, parts = charged(scene, noise_multiplier=4.0)
    assert all(part.holds for part in parts)
    spent = parts[-1].figures["privacy"]
    for name, rounds in {"ann": 4, "bob": 4, "cat": 4, "eve": 3}.items():
        account = Accountant(job.privacy.max_epsilon, job.privacy.delta)
        for _ in range(rounds):
            charge = job.privacy.charge()
            assert charge is not None
            account.record_participation(charge)
        assert spent[str(scene.node(name))] == account.summary()
    assert [part.counts.get("privacy", 0) for part in parts] == [4, 4, 4, 0, 3]


def test_beyond_the_budget(scene: Scene) -> None:
    """The first commitment that the budget doesn't allow is named, with node and figures."""
    _, parts = charged(scene, noise_multiplier=4.0, max_epsilon=1.9)
    over = {part.round_id: [d.subject for d in part.differences] for part in parts}
    assert over[1] == [] and over[4] == []
    first = next(number for number, found in over.items() if found)
    assert over[first] == [f"node {scene.node(name)}" for name in ("ann", "bob", "cat", "eve")]
    assert "it committed beyond its budget" in parts[first - 1].differences[0].sentence
    assert "the budget is 1.9" in parts[first - 1].differences[0].sentence


def test_no_privacy_no_charge(scene: Scene) -> None:
    """A job that promises nothing has no such check."""
    record = Record(lying_network(scene.provider, scene.network.deployment), JOB)
    part = Part(1)
    Charges(JobContext(scene.published.spec, scene.store)).replay(record, part, None, {})
    assert part.counts == {} and part.figures == {}
