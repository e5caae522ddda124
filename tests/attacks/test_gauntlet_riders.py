# SPDX-License-Identifier: Apache-2.0
"""Riders of a gauntlet job do a quarter of the work, adapt what they send, and keep what they earn.

Six nodes train a small model for real, three validators score them by the round's own functions
(`scripts/_attacks/gauntlet_swarm.py`), 20 rounds. One of the six, or two, ride: each tries every
way of making much of little work that is known, then goes on with what earned most. Three seeds,
and jobs with more data: `python -m tests.measure.studies.gauntlet_pay --cases "adapting,adapting
third"`, whose figures are in docs/scoring.md.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.strategies import (
    adapts,
    masked_history,
    rides,
    rides_by_tensor,
    skims,
    trains,
)

torch.set_num_threads(1)

NODES, ROUNDS, WORK = 6, 20, 0.25
WAYS = (rides(WORK), rides_by_tensor(WORK), masked_history(WORK), skims(WORK), trains(WORK))
FEW = {"evaluated": 16, "eval_batches": 2}


@pytest.mark.parametrize("riders", [1, 2])
def test_who_adapts_a_quarter_of_the_work_earns_no_more_than_its_share(
    tmp_path: Path, riders: int
) -> None:
    people = {n: adapts(*WAYS) if n <= riders else trains() for n in range(1, NODES + 1)}
    fields = fields_of(SIGNS, NODES) | {"score_options": FEW}
    swarm = GauntletSwarm.open(EmbeddedStore(tmp_path / "store"), people, **fields)
    for _ in range(ROUNDS):
        swarm.round()
    pay = [swarm.pay[node] for node in swarm.nodes]
    honest = pay[riders:]
    assert statistics.mean(pay[:riders]) < 1.1 * WORK * statistics.mean(honest)
    assert statistics.pstdev(honest) < 0.25 * statistics.mean(honest)
