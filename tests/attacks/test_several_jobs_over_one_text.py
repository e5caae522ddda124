# SPDX-License-Identifier: Apache-2.0
"""Own attacks: a sponsor that would have a node spend its privacy more than once.

Ann brings her own text and bounds her loss (`trainer.max_epsilon`). Each of Mallory's jobs costs
less than that, and each has an account of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.jobs.publish import Published
from agents.mechanisms.privacy import Accountant, Charge
from tests.attacks.test_free_jobs import create
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import TERMS, Node, People
from tests.stage.memory.honest_round import TinyJob, make_tiny_job

NOISE = {"noise_multiplier": 4.0, "max_epsilon": 1.5}
ROUND = Charge("node", 4.0)  # costs 1.06 at delta 1e-6


@pytest.fixture
def noisy(tiny: TinyJob) -> Published:
    """A job on the nodes' own text that costs each of them one round's epsilon."""
    fields = {"access": "local", "verify": "screening", "merge": "mean", "privacy": "gaussian"}
    return make_tiny_job(tiny.store, **fields, privacy_options=NOISE).published


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    """Ann's settings, with her text."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_text("my own words\n" * 400)
    return {"local_data": tmp_path / "own", "accept_riders": True}


def committed(crowd: Crowd) -> int:
    """In how many rounds Ann committed."""
    return sum(who == "ann" and did.startswith("committed") for who, did in crowd.did)


def epsilon(rounds: int) -> float:
    """What so many rounds cost a node."""
    account = Accountant(max_epsilon=100.0)
    account.record_participation(replace(ROUND, steps=rounds))
    return account.epsilon()


@pytest.mark.parametrize(("bound", "most"), [(None, 3), (1.5, 1), (2.5, 2)])
def test_three_jobs_each_within_the_bound__the_node_keeps_to_it_in_all_together(
    crowd: Crowd,
    people: People,
    ann: Node,
    noisy: Published,
    own: dict[str, Any],
    bound: float | None,
    most: int,
) -> None:
    """Until 2026-12-01 a node with any bound worked in all three, one after the other."""
    for _ in range(3):
        create(people, "mallory", TERMS, noisy, 100_000)
    crowd.join("ann", "trainer", trainer={**own, "max_epsilon": bound})
    crowd.until(lambda: any(who == "ann" and "resting: " in did for who, did in crowd.did))
    assert committed(crowd) == most
    assert most * epsilon(1) <= (math.inf if bound is None else bound)
