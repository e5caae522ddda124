# SPDX-License-Identifier: Apache-2.0
"""kill -9 at the worst moments, then a restart: nobody is slashed and the round completes.

Crash points lie between two effects whose order matters (agents/runtime/faults.py); the other
kills come from outside, in a phase that the test observes. The handful here runs always, the full
matrix with `-m chaos`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.protocol.network import Phase, Violation
from scripts._net.localnet import LocalnetSettings
from scripts._report.verdict import check_cheats
from tests.e2e.conftest import AGENTS
from tests.stage.network import TERMS, World

TRAINER_POINTS = (
    "trainer-training",
    "trainer-before-journal",
    "trainer-before-commit",
    "trainer-after-commit",
    "trainer-before-reveal",
    "trainer-after-reveal",
)
AGGREGATOR_POINTS = ("aggregator-before-propose", "aggregator-after-propose")
VERIFIER_POINTS = ("verifier-auditing", "verifier-before-attest", "verifier-after-attest")
KILLED_IN = (Phase.COMMIT, Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE)


def _survives(world: World, arms: dict[str, tuple[str, ...]]) -> None:
    """Run one round with processes armed by point; every point must be hit by one of its own."""
    world.arm(arms)
    job = world.job()
    world.finish(job)
    # The last one may have died after the deed that completed the job.
    world.until(
        lambda: all(set(names) & set(world.crashed) for names in arms.values()),
        f"somebody died at each of {', '.join(arms)}",
    )
    world.assert_whole(job)


def test_every_role_dies_once_in_one_round(world: World) -> None:
    """Three trainers, two verifiers and whoever aggregates die in the same round."""
    _survives(
        world,
        {
            "trainer-before-journal": ("trainer-1",),
            "trainer-after-commit": ("trainer-2",),
            "trainer-before-reveal": ("trainer-3",),
            "aggregator-after-propose": ("aggregator-1", "aggregator-2"),
            "verifier-before-attest": ("verifier-1", "verifier-2"),
        },
    )


@pytest.mark.chaos
@pytest.mark.parametrize("point", TRAINER_POINTS)
def test_a_trainer_dies_at(world: World, point: str) -> None:
    _survives(world, {point: ("trainer-1",)})


@pytest.mark.chaos
@pytest.mark.parametrize("point", TRAINER_POINTS)
def test_all_trainers_die_at(world: World, point: str) -> None:
    _survives(world, {point: tuple(world.names("trainer"))})


@pytest.mark.chaos
@pytest.mark.parametrize("point", AGGREGATOR_POINTS)
def test_the_aggregator_dies_at(world: World, point: str) -> None:
    _survives(world, {point: tuple(world.names("aggregator"))})


@pytest.mark.chaos
@pytest.mark.parametrize("point", VERIFIER_POINTS)
def test_two_verifiers_die_at(world: World, point: str) -> None:
    """Two of three are needed for the quorum, so at least one of them gets there."""
    _survives(world, {point: ("verifier-1", "verifier-2")})


def _kill_in(world: World, plan: dict[Phase, tuple[str, ...]]) -> None:
    """Run one round; kill and restart these processes as soon as it is seen in a phase."""
    job = world.job()
    for phase, names in plan.items():
        world.until_reached(job, phase)
        world.stop(*names)
        for name in names:
            world.net.start_agent(name)
    world.finish(job)
    world.assert_whole(job)


def test_killed_from_outside_in_every_phase(world: World) -> None:
    """In each phase those that have work in it are killed."""
    _kill_in(
        world,
        {
            Phase.COMMIT: ("trainer-1",),
            Phase.REVEAL: ("trainer-2", "trainer-3"),
            Phase.AGGREGATE: ("aggregator-1", "aggregator-2"),
            Phase.CHALLENGE: ("verifier-1", "verifier-2"),
        },
    )


@pytest.mark.chaos
@pytest.mark.parametrize("phase", KILLED_IN)
@pytest.mark.parametrize("role", ["trainer", "aggregator", "verifier"])
def test_a_whole_role_is_killed_in(world: World, role: str, phase: Phase) -> None:
    _kill_in(world, {phase: tuple(world.names(role))})


@pytest.mark.chaos
@pytest.mark.parametrize("phase", KILLED_IN)
def test_everybody_is_killed_in(world: World, phase: Phase) -> None:
    _kill_in(world, {phase: tuple(world.names("trainer", "aggregator", "verifier"))})


@pytest.mark.chaos
def test_a_trainer_dies_before_it_answers_its_benchmark(
    build: Callable[[LocalnetSettings], World],
) -> None:
    """The restarted trainer does the benchmark again, or asks for a new one."""
    settings = LocalnetSettings(trainers=1, verifiers=2, aggregators=1, agent=AGENTS)
    world = build(settings)
    names = world.names("trainer", "verifier", "aggregator")
    world.start(*names[1:])
    world.start(names[0], crash_at="trainer-before-benchmark")
    world.wait_eligible(names)
    assert world.crashed == [names[0]]
    job = world.job()
    world.finish(job)
    world.assert_whole(job)


@pytest.mark.chaos
def test_verifiers_die_before_they_report(build: Callable[[LocalnetSettings], World]) -> None:
    """The finding is made again after the restart; the cheat is reported and slashed once."""
    settings = LocalnetSettings(trainers=3, verifiers=3, aggregators=1, agent=AGENTS)
    world = build(settings)
    world.start("verifier-3", "aggregator-1", "trainer-1", "trainer-2")
    world.start("verifier-1", "verifier-2", crash_at="verifier-before-report")
    world.start("trainer-3", program=("scripts._demo.cheats", "noise"))
    world.wait_eligible(world.names("trainer", "verifier", "aggregator"))
    job = world.job()
    world.finish(job)
    world.skip(TERMS.appeal_s)
    world.until(lambda: len(world.history(job).slashes) > 0, "the cheat is slashed")
    assert world.crashed
    checks = [*check_cheats(world.history(job), {"trainer-3": Violation.INVALID})]
    checks += world.books(job)
    assert [check.sentence for check in checks if not check.holds] == []
