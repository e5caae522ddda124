# SPDX-License-Identifier: Apache-2.0
"""Own attacks: jobs that pay next to nothing, or only promise to, and keep others' agents busy.

Mallory wants work for nothing. Her job is always the older one, it is live for 100,000 rounds, and
an honest sponsor's job pays a thousand times as much. The agents are whole ones: a trainer, two
verifiers and two aggregators, none with a job in its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agents.jobs.publish import Published, Terms
from scripts._net.deployment import ZOO
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import TERMS, Node, People, share
from tests.stage.memory.honest_round import TinyJob

ROUNDS = 2
FREE = replace(TERMS, reward_per_round=ZOO)  # the least that a round may pay
CHECKERS = {"vic": "verifier", "vera": "verifier", "abe": "aggregator", "ada": "aggregator"}


def create(people: People, sponsor: str, terms: Terms, published: Published, rounds: int) -> int:
    """A job of a new sponsor, funded for two rounds more than are played."""
    funds = (ROUNDS + 2) * terms.reward_per_round
    encoded = list(terms.encode(published))
    encoded[3] = rounds
    return people.create_job(people.person(sponsor, funds), tuple(encoded), funds)


@pytest.fixture
def crowd(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Crowd]:
    """Ann trains and nobody else does; the checkers check. No job is live yet."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    people.chain.send(people.sponsor, people.jobs, "cancel_job", people.job)
    for name in ("bob", "cat", "eve"):
        node = people.nodes[name]
        people.chain.send(node.operator, people.registry, "set_active", node.node_id, False)
    with ExitStack() as stack:
        crowd = Crowd(people, tiny.store, tmp_path, stack)
        yield crowd


def all_work(crowd: Crowd) -> None:
    crowd.join("ann", "trainer")
    for name, role in CHECKERS.items():
        crowd.join(name, role)


def test_free_job_is_older_and_never_ends__the_trainer_works_for_the_one_that_pays(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    free = create(people, "mallory", FREE, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    all_work(crowd)
    crowd.until(lambda: crowd.finalized(free) + crowd.finalized(paying) >= ROUNDS)
    print("ann earned", people.gain(ann) / ZOO)
    assert people.gain(ann) == ROUNDS * share(1, 1)
    assert crowd.finalized(paying) == ROUNDS
