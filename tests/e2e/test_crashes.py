# SPDX-License-Identifier: Apache-2.0
"""kill -9 at the worst moments, then a restart: nobody is slashed and the round completes.

Crash points lie between two effects whose order matters (agents/runtime/faults.py); the other
kills come from outside, in a phase that the test observes. The handful here runs always, the full
matrix with `-m chaos`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.protocol import formulas
from agents.protocol.numbers import Phase, Violation
from scripts._net.localnet import LocalnetSettings
from scripts._report.verdict import check_cheats
from tests.e2e.conftest import AGENT_ROLES, AGENTS
from tests.stage.network import TERMS, LocalNetwork

TRAINER_POINTS = (
    "trainer-training",
    "trainer-before-journal",
    "trainer-before-commit",
    "trainer-after-commit",
    "trainer-before-reveal",
    "trainer-after-reveal",
)
# Two verifiers die where they announce and report a cheat.
REPORT_POINTS = ("verifier-before-journal", "verifier-announced", "verifier-before-report")
# Who dies, and at which points. Two verifiers of three are needed for the quorum, so at least one
# of them gets there.
DYING = {
    ("trainer-1",): TRAINER_POINTS,
    ("trainer-1", "trainer-2", "trainer-3"): TRAINER_POINTS,
    ("aggregator-1", "aggregator-2"): ("aggregator-before-propose", "aggregator-after-propose"),
    ("verifier-1", "verifier-2"): (
        "verifier-auditing",
        "verifier-before-attest",
        "verifier-after-attest",
    ),
}
KILLED_IN = (Phase.COMMIT, Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE)


def _survives(local: LocalNetwork, arms: dict[str, tuple[str, ...]]) -> None:
    """Run one round with processes armed by point; every point must be hit by one of its own."""
    local.arm(arms)
    job = local.job()
    local.finish(job)
    # The last one may have died after the deed that completed the job.
    local.until(
        lambda: all(set(names) & set(local.crashed) for names in arms.values()),
        f"somebody died at each of {', '.join(arms)}",
    )
    local.assert_whole(job)


def test_every_role_dies_once_in_one_round(local: LocalNetwork) -> None:
    """Three trainers, two verifiers and whoever aggregates die in the same round."""
    _survives(
        local,
        {
            "trainer-before-journal": ("trainer-1",),
            "trainer-after-commit": ("trainer-2",),
            "trainer-before-reveal": ("trainer-3",),
            "aggregator-after-propose": ("aggregator-1", "aggregator-2"),
            "verifier-before-attest": ("verifier-1", "verifier-2"),
        },
    )


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("names", "point"),
    [(names, point) for names, points in DYING.items() for point in points],
    ids=lambda part: part if isinstance(part, str) else "+".join(part),
)
def test_all_of_these_die_at(local: LocalNetwork, names: tuple[str, ...], point: str) -> None:
    _survives(local, {point: names})


def _kill_in(local: LocalNetwork, plan: dict[Phase, tuple[str, ...]]) -> None:
    """Run one round in which these processes are killed and restarted."""
    job = local.job()
    local.kill_in(job, plan)
    local.finish(job)
    local.assert_whole(job)


def test_killed_from_outside_in_every_phase(local: LocalNetwork) -> None:
    """In each phase those that have work in it are killed."""
    _kill_in(
        local,
        {
            Phase.COMMIT: ("trainer-1",),
            Phase.REVEAL: ("trainer-2", "trainer-3"),
            Phase.AGGREGATE: ("aggregator-1", "aggregator-2"),
            Phase.CHALLENGE: ("verifier-1", "verifier-2"),
        },
    )


@pytest.mark.chaos
@pytest.mark.parametrize("phase", KILLED_IN)
@pytest.mark.parametrize("roles", [*([role] for role in AGENT_ROLES), AGENT_ROLES], ids="+".join)
def test_whole_roles_are_killed_in(local: LocalNetwork, roles: list[str], phase: Phase) -> None:
    _kill_in(local, {phase: tuple(local.names(*roles))})


@pytest.mark.chaos
def test_a_trainer_dies_before_it_answers_its_benchmark(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    """The restarted trainer does the benchmark again, or asks for a new one."""
    settings = LocalnetSettings(trainers=1, verifiers=2, aggregators=1, agent=AGENTS)
    local = build(settings)
    names = local.names("trainer", "verifier", "aggregator")
    local.start(*names[1:])
    local.start(names[0], crash_at="trainer-before-benchmark")
    local.wait_eligible(names)
    assert local.crashed == [names[0]]
    job = local.job()
    local.finish(job)
    local.assert_whole(job)


@pytest.mark.chaos
@pytest.mark.parametrize("point", REPORT_POINTS)
def test_verifiers_die_while_they_report_a_cheat(
    build: Callable[[LocalnetSettings], LocalNetwork], point: str
) -> None:
    """What was announced before the death is opened after the restart: nobody announces twice, the
    cheat is slashed once, and its finder is one who announced."""
    settings = LocalnetSettings(trainers=3, verifiers=3, aggregators=1, agent=AGENTS)
    local = build(settings)
    local.start("verifier-3", "aggregator-1", "trainer-1", "trainer-2")
    local.start("verifier-1", "verifier-2", crash_at=point)
    local.start("trainer-3", program=("scripts._demo.cheats", "noise"))
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    job = local.job()
    local.finish(job)
    local.skip(TERMS.appeal_s)
    local.until(lambda: len(local.history(job).slashes) > 0, "the cheat is slashed")
    assert local.crashed
    checks = [*check_cheats(local.history(job), {"trainer-3": Violation.INVALID})]
    checks += local.books(job)
    assert [check.sentence for check in checks if not check.holds] == []
    network, last = local.network, local.network.chain.head().number
    announced = network.chain.events(network.reports, "Announced", network.deployment.block, last)
    scopes = [event.args["scope"] for event in announced]
    assert len(scopes) == len(set(scopes))
    finder = network.chain.call(network.reports, "finder_of", job, 1, local.node_id("trainer-3"))
    assert formulas.announcement_key(job, 1, finder) in scopes
