# SPDX-License-Identifier: Apache-2.0
"""More trainers than seats: real trainers open a round, draw its seats, and those seated work.

Attacks on the draw are in tests/attacks/contracts/rounds/test_seat_grinding.py.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agents.protocol.view import View, observe
from agents.rounds.upkeep import Upkeep
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import AGGREGATE, TERMS, TRAINERS, People, share
from tests.stage.memory.honest_round import TinyJob


def test_four_trainers_and_two_seats__those_drawn_work_and_are_paid(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    terms = replace(TERMS, max_nodes=2)
    people.give(people.sponsor, terms.reward_per_round)
    people.job = people.create_job(
        people.sponsor, terms.encode(tiny.published), terms.reward_per_round
    )
    with ExitStack() as stack:
        agents = RunningAgents(people, tmp_path, stack)
        trainers = {name: begin(agents, name, tiny) for name in TRAINERS}
        view = seen = look(trainers["ann"], people.job)
        did: list[str | None] = []
        for _ in range(10):
            for trainer in trainers.values():
                did.append(trainer.step(trainer.context.chain.head()))
                view = look(trainer, people.job)
                seen = view if view.unseated else seen
            if view.phase == AGGREGATE:
                break
            people.chain.mine()
        assert seen.unseated and seen.snapshot.nodes == ()
        assert did.count("open_round") == did.count("seat") == 1
        assert len(view.snapshot.nodes) == view.round.n_eligible == view.round.n_revealed == 2
        people.round = 1
        team = [people.nodes[n] for n in TRAINERS if people.nodes[n].node_id in view.snapshot.nodes]
        reveals = trainers["ann"].network.reveals(people.job, 1, view.round.opened_block)
        assert sorted(reveals) == sorted(node.node_id for node in team)
    people.finish(dict.fromkeys(team, 1))
    for name in TRAINERS:
        node = people.nodes[name]
        assert people.gain(node) == (share(1, 2) if node in team else 0)


def begin(agents: RunningAgents, name: str, tiny: TinyJob) -> Trainer:
    """A trainer that leaves no time to others."""
    node, store = agents.people.nodes[name], str(tiny.store.root)
    context = agents.begin(node, "trainer", store=store, job_id=agents.people.job, device="cpu")
    trainer = Trainer(context, EmbeddedStore(Path(store)))
    trainer.upkeep = lambda job_id: Upkeep(trainer.network, context.sender, 0, 0)
    return trainer


def look(trainer: Trainer, job: int) -> View:
    return observe(trainer.network, job, trainer.context.chain.head())
