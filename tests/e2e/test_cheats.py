# SPDX-License-Identifier: Apache-2.0
"""Trainers that cheat, an aggregator that lies, and a committee that is short of members.

One network, one story, in this order:
1. A job of one round: trainers 3, 4, 5 send noise, copy trainer 1, and never reveal. No member of
   the committee is online; none is needed.
2. A second job. The only aggregator lies, a verifier challenges it, and three of five members are
   offline: nothing moves until the dispute's deadline voids the round, and nothing is lost.
3. A third member comes back. In the next round the lie is punished and a verifier proposes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from agents.protocol.network import JobStatus, Phase, Violation
from scripts._demo.cheats.copier import PARTNER
from scripts._net.localnet import LocalnetSettings
from scripts._report.history import ZOO
from scripts._report.verdict import check_cheats
from tests.e2e.conftest import AGENTS
from tests.stage.network import TERMS, World

HONEST = ("trainer-1", "trainer-2")
CHEATS = {"noise": "trainer-3", "copier": "trainer-4", "silent": "trainer-5"}
BLAME = {
    "trainer-3": Violation.INVALID,
    "trainer-4": Violation.COPIED,
    "trainer-5": Violation.NO_REVEAL,
}
BPS = 10_000
BAD_RESULT_BPS = 2_000  # ZIP-407 section 6
LIAR = "aggregator-1"


@dataclass(frozen=True)
class Story:
    """The network and the job of one part of the story."""

    world: World
    job: int


@pytest.fixture(scope="module")
def caught(build: Callable[[LocalnetSettings], World]) -> Story:
    """Part 1, to its end: every cheat has been slashed."""
    world = build(LocalnetSettings(trainers=5, verifiers=3, aggregators=1, agent=AGENTS))
    for name in (*world.names("verifier", "aggregator"), *HONEST):
        world.net.start_agent(name)
    partner = str(world.net.directory / "agents" / HONEST[0])
    for kind, name in CHEATS.items():
        world.net.start_agent(name, ("scripts._demo.cheats", kind), env={PARTNER: partner})
    world.wait_eligible(world.names("trainer", "verifier", "aggregator"))
    job = world.job()

    def only_silent_is_missing() -> None:
        now = world.round(job)
        if now.phase == Phase.REVEAL and now.n_revealed == now.n_committed - 1 == 4:
            world.skip_deadline(job)

    world.finish(job, only_silent_is_missing)
    world.skip(TERMS.appeal_s)
    world.until(lambda: len(world.history(job).slashes) == len(CHEATS), "the cheats are slashed")
    return Story(world, job)


@pytest.fixture(scope="module")
def disputed(caught: Story) -> Story:
    """Part 2, until two members have approved what three would have to."""
    world = caught.world
    world.stop(LIAR, *CHEATS.values())
    world.start(LIAR, program=("tests.e2e.dishonest", "aggregator", "tests.e2e.liar"))
    world.start("coordinator-1", "coordinator-2")
    job = world.job()
    world.until_phase(job, Phase.DISPUTED)
    network = world.network
    first = int(world.round(job).opened_block)

    def two_approve() -> bool:
        head = network.chain.head().number
        events = network.chain.events(network.coordinator, "OperationApproved", first, head)
        return max((e.args["approvals"] for e in events), default=0) == 2

    world.until(two_approve, "two members approved")
    return Story(world, job)


@pytest.fixture(scope="module")
def voided(disputed: Story) -> Story:
    """The end of part 2: the time for a decision is over."""
    world, job = disputed.world, disputed.job
    world.skip_deadline(job)
    world.until(lambda: world.phase(job) == Phase.VOID, "the round is void")
    return disputed


@pytest.fixture(scope="module")
def upheld(voided: Story) -> Story:
    """Part 3, to its end: the job is complete."""
    world, job = voided.world, voided.job
    world.start("coordinator-3")
    skipped: list[bool] = []

    def fallback() -> None:
        number = int(world.network.job(job).rounds_opened)
        if number == 2 and world.phase(job, 2) == Phase.AGGREGATE and _barred(world, job):
            if not skipped:  # half of the window is left to aggregators: there is no other
                world.skip_deadline(job, 2, share=0.6)
            skipped.append(True)

    world.finish(job, fallback)
    return voided


def _barred(world: World, job: int) -> bool:
    head = world.network.chain.head().number
    first = int(world.round(job, 2).opened_block)
    where = {"job_id": job, "round_id": 2}
    events = world.network.chain.events(
        world.network.rounds, "ChallengeResolved", first, head, where
    )
    return any(event.args["upheld"] for event in events)


def _bond_credit(world: World) -> int:
    rounds, chain = world.network.rounds, world.network.chain
    accounts = [world.net.seats[name].operator.address for name in world.names("verifier")]
    return sum(int(chain.call(rounds, "bond_credit", account)) for account in accounts)


def _broken(world: World, job: int) -> list[str]:
    return [check.sentence for check in world.books(job) if not check.holds]


def test_cheats_are_punished_exactly(caught: Story) -> None:
    """Each for what it did, by the table to the last unit, once; nobody else is."""
    history = caught.world.history(caught.job)
    checks = check_cheats(history, BLAME)
    assert [check.sentence for check in checks if not check.holds] == []
    assert len(history.slashes) == len(CHEATS)


def test_honest_trainers_share_the_whole_pool(caught: Story) -> None:
    """A cheat's share goes to the honest, whose stake is untouched."""
    world, history = caught.world, caught.world.history(caught.job)
    ids = [world.node_id(name) for name in HONEST]
    share = BPS - TERMS.verifier_bps - TERMS.aggregator_bps
    pool = TERMS.reward_per_round * share // BPS
    assert pool - len(ids) <= sum(history.nodes[node].earned for node in ids) <= pool
    for name in CHEATS.values():
        assert history.nodes[world.node_id(name)].earned == 0
    for name in (*HONEST, *world.names("verifier", "aggregator")):
        seat = world.net.seats[name]
        assert world.network.node(seat.node_id).stake == seat.stake


def test_books_balance_after_the_cheats(caught: Story) -> None:
    """Every token is in one place, slashes and bounties included."""
    assert _broken(caught.world, caught.job) == []


def test_three_members_offline_nothing_moves(disputed: Story) -> None:
    """Two approvals of five decide nothing; what was earned before can be claimed all the same."""
    world, job = disputed.world, disputed.job
    slashes = len(world.history(job).slashes)
    assert world.phase(job) == Phase.DISPUTED
    owed, received = world.claim(HONEST[0])
    assert owed == received > 0
    assert world.phase(job) == Phase.DISPUTED
    assert len(world.history(job).slashes) == slashes == len(CHEATS)
    assert [c.sentence for c in world.books(job)[:-1] if not c.holds] == []


def test_undecided_challenge_costs_nobody(voided: Story) -> None:
    """The round is void: bond and rewards are back, the liar has not been slashed yet."""
    world, job = voided.world, voided.job
    assert _bond_credit(world) == TERMS.challenge_bond
    assert len(world.history(job).slashes) == len(CHEATS)
    assert world.network.job(job).status == JobStatus.ACTIVE


def test_two_members_offline_the_lie_is_punished(upheld: Story) -> None:
    """Three of five uphold the challenge: the aggregator loses a fifth of its stake."""
    world, history = upheld.world, upheld.world.history(upheld.job)
    liar = world.net.seats[LIAR]
    mine = [s for s in history.slashes if s.node_id == liar.node_id]
    assert [s.violation for s in mine] == [Violation.BAD_RESULT]
    assert mine[0].amount == liar.stake * BAD_RESULT_BPS // BPS == 200 * ZOO
    assert len(history.slashes) == len(CHEATS) + 1  # nobody else
    assert _bond_credit(world) == 2 * TERMS.challenge_bond  # of both challenges


def test_another_proposes_and_the_round_is_final(upheld: Story) -> None:
    """A verifier's result stands; the ledger and the books agree with it."""
    world, job = upheld.world, upheld.job
    assert world.phase(job, 2) == Phase.FINALIZED
    proposer = int(world.round(job, 2).proposer)
    assert proposer in {world.node_id(name) for name in world.names("verifier")}
    assert _broken(world, job) == []
