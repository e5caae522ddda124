# SPDX-License-Identifier: Apache-2.0
"""Models from a real chain and signed updates: no checkpoint is due in the rounds replayed.

Of the scored job five rounds are final, and a checkpoint comes every fifty. What is lost or altered
on the way is the subject of `tests/agents/rounds/test_models.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from agents.rounds.data_access import DataAccess
from agents.rounds.models import CaughtUp, Models
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.runtime.wallet import Wallet
from agents.training.state import model_hash
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.finished_scored_job import FREE_JOB, ROUNDS, FinishedScoredJob


def on_chain(scored: FinishedJob) -> bytes:
    """The job's model as the chain records it."""
    return bytes(scored.network.job(JOB).model)


def test_a_late_joiner_replays_every_update(scored: FinishedScoredJob) -> None:
    """From genesis, through rounds whose outer rate changed, to the chain's hash."""
    assert FREE_JOB["checkpoint_every"] > ROUNDS
    told: list[CaughtUp] = []
    state = Models(scored.network, scored.store, tell=told.append).current(JOB)
    assert model_hash(state) == on_chain(scored) == scored.outcomes[JOB, ROUNDS].model
    assert told == [CaughtUp(JOB, on_chain(scored), 0, ROUNDS, ())]


def test_signed_updates_take_little_more_than_a_bit_a_parameter(scored: FinishedScoredJob) -> None:
    """Tensors of a few numbers have 7 bytes each on top, in this tiny model most of it."""
    for number in range(1, ROUNDS + 1):
        outcome = scored.outcomes[JOB, number]
        count = sum(tensor.numel() for tensor in outcome.merged.values())
        assert outcome.report.checkpoint is None
        assert len(outcome.update) <= 8 + len(outcome.merged) * 8 + 1.25 * count / 8


def test_an_agent_that_is_desynchronised_says_so_and_resyncs(
    scored: FinishedScoredJob, tmp_path: Path
) -> None:
    """As agents hold their models: one number of the kept copy is off by one unit in its last
    place; the model of the next use is the chain's, with a line in the log and a count."""
    metrics = Metrics("trainer")
    context: Any = SimpleNamespace(
        wallet=Wallet(scored.people.nodes["ann"].operator),
        log=open_log("trainer", "info", path=tmp_path / "log"),
        metrics=metrics,
        journal=None,
        settings=SimpleNamespace(memory=None),
    )
    models = DataAccess(scored.network, scored.store, context).models
    kept = models.current(JOB)
    next(iter(kept.values())).view(torch.int32).view(-1)[0] ^= 1
    assert model_hash(models.current(JOB)) == on_chain(scored)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["caught_up", "resynced"]
    assert lines[1]["damaged"] == [on_chain(scored).hex()]
    assert lines[1]["rounds_replayed"] == ROUNDS
    assert metrics.registry.get_sample_value("menagerie_resyncs_total") == 1
