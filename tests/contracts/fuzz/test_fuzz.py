# SPDX-License-Identifier: Apache-2.0
"""Hostile people who may call anything win nothing, and nobody honest loses by them.

The search itself, what it counts as a loss and how to let it run for long: see README.md."""

from __future__ import annotations

from random import Random

import pytest

from tests.contracts.fuzz.books import Books
from tests.contracts.fuzz.honest import EVIDENCE, Honest
from tests.contracts.fuzz.hostile import Hostile, gaps
from tests.contracts.fuzz.known import KNOWN
from tests.contracts.fuzz.machine import Machine, copied
from tests.contracts.fuzz.run import (
    PLAIN,
    WRONG,
    Person,
    Run,
    Stage,
    coalition,
    peopled,
    set_stage,
)
from tests.contracts.fuzz.search import Play, Search, perform, wind_up
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import CHALLENGE, INVALID, REWARD, ZOO, Codes, System
from tests.stage.contracts.tasks import AGREED

ACTIONS, SEED = 10_000, 1


@pytest.fixture(scope="module")
def on_boa(codes: Codes) -> tuple[System, tuple[Person, ...]]:
    return peopled(codes)


@pytest.fixture(scope="module")
def stage(on_boa: tuple[System, tuple[Person, ...]]) -> Stage:
    system, people = on_boa
    return set_stage(copied(system), people)


def test_every_external_function_can_be_called_by_hostile_people(stage: Stage) -> None:
    """A new function with a parameter that nothing makes fails here: give it a maker."""
    assert gaps(stage.machine.functions) == []
    run = Run(stage, coalition(stage, Random(1)))
    search = Search(stage, 1)
    assert set(search.titles) == {t for t, f in stage.machine.functions.items() if not f.view}
    assert Hostile(run, Honest(run)).senders()


def test_the_machine_answers_as_titanoboa(on_boa: tuple[System, tuple[Person, ...]]) -> None:
    system, people = on_boa
    machine = Machine(copied(system))
    sponsor = next(p for p in people if p.name == "sponsor").owner
    assert machine.ask("registry.total_stake") == system.registry.total_stake()
    system.fund(PLAIN, REWARD, sponsor)
    funded = (PLAIN, *system.jobs.origin_of(PLAIN), REWARD)
    assert machine.send(sponsor, "pool.fund", funded).ok
    opened = machine.send(sponsor, "rounds.open_round", (1,))
    assert opened.answer == (system.rounds.open_round(1),)
    machine.mine(2, 24)
    mine(2)
    mine_, theirs = machine.ask("rounds.round", 1, 1), system.rounds.round(1, 1)
    assert [mine_[name] for name in mine_] == list(theirs)
    refused = machine.send(sponsor, "rounds.open_round", (1,))
    assert (refused.ok, refused.reason) == (False, "jobs: round open")


@pytest.mark.parametrize("seed", range(6))
def test_nobody_loses_where_hostile_people_do_nothing(stage: Stage, seed: int) -> None:
    verdict = perform(stage, Play(seed, ())).verdict
    assert (verdict.losers, verdict.causes, verdict.is_finding) == ((), frozenset(), False)


def test_a_theft_is_seen_on_both_sides(stage: Stage) -> None:
    point = stage.machine.snapshot()
    run = Run(stage, frozenset({"stranger 0"}))
    books = Books(run)
    thief, victim = run.bad[0].owner, run.role("trainer")[0]
    run.send(victim.owner, "token.transfer", thief, 5 * ZOO)
    verdict = books.verdict()
    stage.machine.revert(point)
    assert (verdict.profit, verdict.losers) == (5 * ZOO, ((victim.name, 5 * ZOO),))


@pytest.mark.parametrize("lie", ["a task's result", "a trainer's guilt"])
def test_honest_people_undo_a_lie_of_more_than_two_thirds(stage: Stage, lie: str) -> None:
    """Three verifiers of four lie: whom it hurts objects, and the committee decides."""
    point = stage.machine.snapshot()
    liars = frozenset(p.name for p in stage.roles["verifier"][1:])
    run = Run(stage, liars | {"stranger 0"})
    honest, books = Honest(run), Books(run)
    if lie == "a task's result":
        while not (run.tasks and run.ask("tasks.task", 1).status == AGREED):
            honest.turn()
        assert run.send(run.role("stranger", True)[0].owner, "appeals.appeal", 1).ok
        nodes, weights = run.verdicts[1]
        for p in run.role("verifier", True):
            vote = (1, nodes.index(p.node), nodes, weights, WRONG)
            assert run.send(p.operator, "appeals.attest", *vote).ok
    else:
        while not (run.rounds and run.ask("rounds.round", 1, 1).phase == CHALLENGE):
            honest.turn()
        victim = run.rounds[1, 1].nodes[0]
        for p in run.role("verifier", True):
            said = (1, 1, p.node, victim, INVALID, EVIDENCE)
            assert run.send(p.operator, "reports.report", *said).ok
    wind_up(honest)
    verdict = books.verdict()
    stage.machine.revert(point)
    assert verdict.losers == () and verdict.profit <= -600 * ZOO


@pytest.mark.slow
def test_no_coalition_profits_and_nobody_honest_loses(stage: Stage) -> None:
    """Ten thousand actions from a fixed seed. What is known stands in known.py, with its item."""
    search = Search(stage, SEED)
    search.run(ACTIONS, print, KNOWN)
    new = [f.words() for cause, f in search.findings.items() if cause not in KNOWN]
    assert not new, "\n".join(new)
