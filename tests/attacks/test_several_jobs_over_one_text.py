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

TEXT = "my own words\n" * 400
LOCAL: dict[str, Any] = {"access": "local", "verify": "screening", "merge": "mean"}
NOISE = {"noise_multiplier": 4.0, "max_epsilon": 1.5}
ROUND = Charge("node", 4.0)  # costs 1.06 at delta 1e-6


@pytest.fixture
def noisy(tiny: TinyJob) -> Published:
    """A job on the nodes' own text that costs each of them one round's epsilon."""
    fields = LOCAL | {"privacy": "gaussian", "privacy_options": NOISE}
    return make_tiny_job(tiny.store, **fields).published


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    """Ann's settings, with her text."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_text(TEXT)
    return {"local_data": tmp_path / "own", "accept_riders": True}


def committed(crowd: Crowd, deed: str = "committed") -> int:
    """In how many rounds Ann committed, or revealed."""
    return sum(who == "ann" and did.startswith(deed) for who, did in crowd.did)


def rests(crowd: Crowd) -> bool:
    """Whether Ann has stopped by herself."""
    return any(who == "ann" and "resting: " in did for who, did in crowd.did)


def epsilon(rounds: int, cost: Charge = ROUND) -> float:
    """What so many rounds cost a node."""
    account = Accountant(max_epsilon=100.0)
    account.record_participation(replace(cost, steps=rounds * cost.steps))
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
    crowd.until(lambda: rests(crowd))
    assert committed(crowd) == most
    assert most * epsilon(1) <= (math.inf if bound is None else bound)


@pytest.mark.parametrize("kept", ["nothing", "a copy of before"])
@pytest.mark.parametrize("unit", ["node", "example"])
def test_a_journal_is_lost__the_account_goes_on_from_the_chain(
    crowd: Crowd,
    people: People,
    ann: Node,
    tiny: TinyJob,
    own: dict[str, Any],
    unit: str,
    kept: str,
) -> None:
    """A new machine, a new operator key and a restored copy each began at zero, or at what the copy
    said, until 2026-12-01. Three rounds are paid for; four would cost more."""
    fields = LOCAL | {"privacy": "gaussian", "privacy_options": {"noise_multiplier": 4.0}}
    cost = ROUND
    if unit == "example":
        fields |= {"privacy": "dp_sgd", "privacy_options": {"noise_multiplier": 1.0}}
        job = tiny.job.spec
        examples = (len(TEXT) + 1) // (job.optimizer.seq_len + 1)
        rate = job.optimizer.batch_size / examples
        cost = Charge("example", 1.0, rate, job.batches_per_round)
    fields["privacy_options"]["max_epsilon"] = (epsilon(3, cost) + epsilon(4, cost)) / 2
    published = make_tiny_job(tiny.store, **fields).published
    create(people, "mallory", TERMS, published, 100_000)
    crowd.join("ann", "trainer", trainer=own)
    crowd.until(lambda: committed(crowd, "revealed") == 1)
    crowd.running["ann"].close()
    (journal,) = (crowd.folder / "ann").glob("trainer-*.journal")
    copy = journal.read_bytes()
    crowd.join("ann", "trainer", trainer=own)
    crowd.until(lambda: committed(crowd, "revealed") == 2)
    crowd.running["ann"].close()
    if kept == "nothing":
        journal.unlink()
    else:
        journal.write_bytes(copy)
    crowd.join("ann", "trainer", trainer=own)
    crowd.until(lambda: rests(crowd))
    assert committed(crowd) == 3
