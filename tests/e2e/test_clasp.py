# SPDX-License-Identifier: Apache-2.0
"""A careless miner of a first stage is found by the losses that others state of its samples.

Six miners hold two stages, three each. The job's score is `clasp`, and nobody is drawn by
`audit_sample`. A miner of the first stage states no losses. Those of the last stage do, and each of
them has samples of the careless one and of its mates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.audit.replay import audit_job
from agents.mechanisms.score.backward_passes import PPM
from agents.protocol.numbers import Violation
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from scripts._net.localnet import LocalnetSettings
from tests.e2e.careless import careless_of
from tests.e2e.conftest import AGENTS, SHORT_BENCHMARK
from tests.stage.memory.tiny_specs import tiny_model
from tests.stage.network import TERMS, LocalNetwork

STAGES = 2
# The steps are short, since losses that fall while an epoch goes on count as chance. Samples
# are many, since each miner of the last stage compares those alone that it had itself.
SPEC: dict[str, Any] = {
    "mode": "pipeline",
    "score": "clasp",
    "merge": "mean",
    "audit_sample": 0,
    "batches_per_round": 72,
    "model": {**tiny_model(64, 128, 16, layers=STAGES), "tie_embeddings": False},
    "optimizer": {"batch_size": 8, "seq_len": 16, "lr": 2e-4},
    "pipeline": {"layers": [1] * STAGES, "boundary": "none", "local_batch": 2},
}
# Nobody dies here, and nobody may be passed by: a miner of the last stage that takes the samples of
# two others has so many of the careless one that its losses are usual there.
TIMES = {**SHORT_BENCHMARK, "answer_s": 40.0, "gather_s": 60.0, "linger_s": 60.0}
SETTINGS = LocalnetSettings(
    trainers=3 * STAGES, verifiers=2, aggregators=1, agent={**AGENTS, "trainer": TIMES}
)
CARELESS = ("tests.e2e.dishonest", "trainer", "tests.e2e.careless")


@pytest.fixture
def pipeline(build: Callable[[LocalnetSettings], LocalNetwork]) -> LocalNetwork:
    local = build(SETTINGS)
    local.start(*local.names("verifier", "aggregator"))
    local.start(*local.names("trainer"), program=CARELESS)
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    return local


def audits(pipeline: LocalNetwork, seat: str) -> list[dict[str, Any]]:
    """Whom a verifier looked at, in order, with the reasons."""
    log = (pipeline.net.directory.parent / "logs" / f"{seat}.log").read_bytes()
    return [line for line in map(loads_line, log.splitlines()) if line.get("event") == "audit"]


def loads_line(line: bytes) -> dict[str, Any]:
    """A line of a log; empty for what is none, such as a warning of a library."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def test_a_miner_whose_samples_lose_more_is_looked_at_first_paid_less_and_slashed(
    pipeline: LocalNetwork,
) -> None:
    """Its mates are paid in full: their samples went to the same miners of the last stage."""
    job = pipeline.job(**SPEC)
    history = pipeline.finish(job)
    (story,) = history.rounds.values()
    assert story.report is not None
    lines = {line.node: line for line in story.report.nodes}
    print(f"part of pay left, in ppm: { {n: line.quality_ppm for n, line in lines.items()} }")
    epoch = Plans(pipeline.network, Models(pipeline.network, pipeline.store)).past(job, 1).epoch
    assert epoch is not None and [len(stage) for stage in epoch.stages] == [3, 3]
    node = careless_of(epoch)
    assert lines[node].accepted and lines[node].batches
    assert lines[node].quality_ppm < PPM and lines[node].contribution < lines[node].batches * PPM
    for mate in {*epoch.stages[0]} - {node}:
        assert lines[mate].contribution == lines[mate].batches * PPM > 0
    for seat in pipeline.names("verifier"):
        looked = audits(pipeline, seat)
        assert looked[0]["of_node"] == node, f"{seat} looked at {looked}"
        assert "its samples lose more than others'" in looked[0]["why"]
        print(f"{seat} looked at {[(look['of_node'], look['why']) for look in looked]}")
    pipeline.skip(TERMS.appeal_s)
    pipeline.until(lambda: len(pipeline.history(job).slashes) > 0, "it is slashed")
    (slash,) = pipeline.history(job).slashes
    assert (slash.node_id, slash.violation) == (node, Violation.INVALID)
    found = audit_job(pipeline.network, pipeline.store, job, deep=True)
    assert [str(difference) for difference in found.differences] == [] and found.holds
