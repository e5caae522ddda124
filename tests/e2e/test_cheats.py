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

from agents.protocol.numbers import ZOO, JobStatus, Phase, Violation
from agents.runtime.event_cursor import EventCursor, EventLog
from scripts._demo.cheats.copier import PARTNER
from scripts._net.localnet import LocalnetSettings
from scripts._report.verdict import check_cheats
from tests.e2e.conftest import AGENTS
from tests.stage.network import TERMS, LocalNetwork

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

    local: LocalNetwork
    job: int


@pytest.fixture(scope="module")
def caught(build: Callable[[LocalnetSettings], LocalNetwork]) -> Story:
    """Part 1, to its end: every cheat has been slashed."""
    local = build(LocalnetSettings(trainers=5, verifiers=3, aggregators=1, agent=AGENTS))
    for name in (*local.names("verifier", "aggregator"), *HONEST):
        local.net.start_agent(name)
    partner = str(local.net.directory / "agents" / HONEST[0])
    for kind, name in CHEATS.items():
        local.net.start_agent(name, ("scripts._demo.cheats", kind), env={PARTNER: partner})
    local.wait_eligible(local.names("trainer", "verifier", "aggregator"))
    job = local.job()

    def only_silent_is_missing() -> None:
        now = local.round(job)
        if now.phase == Phase.REVEAL and now.n_revealed == now.n_committed - 1 == 4:
            local.skip_deadline(job)

    local.finish(job, only_silent_is_missing)
    local.skip(TERMS.appeal_s)
    local.until(lambda: len(local.history(job).slashes) == len(CHEATS), "the cheats are slashed")
    return Story(local, job)


@pytest.fixture(scope="module")
def disputed(caught: Story) -> Story:
    """Part 2, until two members have approved what three would have to."""
    local = caught.local
    local.stop(LIAR, *CHEATS.values())
    local.start(LIAR, program=("tests.e2e.dishonest", "aggregator", "tests.e2e.liar"))
    local.start("coordinator-1", "coordinator-2")
    job = local.job(funded_rounds=2)  # the void round costs a reward
    local.until_phase(job, Phase.DISPUTED)
    network = local.network
    first = int(local.round(job).opened_block)

    def two_approve() -> bool:
        head = network.chain.head().number
        events = network.chain.events(network.coordinator, "OperationApproved", first, head)
        return max((e.args["approvals"] for e in events), default=0) == 2

    local.until(two_approve, "two members approved")
    return Story(local, job)


@pytest.fixture(scope="module")
def voided(disputed: Story) -> Story:
    """The end of part 2: the time for a decision is over."""
    local, job = disputed.local, disputed.job
    local.skip_deadline(job)
    local.until(lambda: local.phase(job) == Phase.VOID, "the round is void")
    return disputed


@pytest.fixture(scope="module")
def upheld(voided: Story) -> Story:
    """Part 3, to its end: the job is complete."""
    local, job = voided.local, voided.job
    local.start("coordinator-3")
    skipped: list[bool] = []

    def fallback() -> None:
        number = int(local.network.job(job).rounds_opened)
        if number == 2 and local.phase(job, 2) == Phase.AGGREGATE and _barred(local, job):
            if not skipped:  # half of the window is left to aggregators: there is no other
                local.skip_deadline(job, 2, share=0.6)
            skipped.append(True)

    local.finish(job, fallback)
    return voided


def _barred(local: LocalNetwork, job: int) -> bool:
    head = local.network.chain.head().number
    first = int(local.round(job, 2).opened_block)
    where = {"job_id": job, "round_id": 2}
    events = local.network.chain.events(
        local.network.results, "ChallengeResolved", first, head, where
    )
    return any(event.args["upheld"] for event in events)


def _bond_credit(local: LocalNetwork) -> int:
    """What verifiers have back of their bonds, beside the deposits of opened announcements: in the
    contract, or taken out by their agents."""
    network = local.network
    results, chain = network.results, network.chain
    accounts = [local.net.seats[name].operator.address for name in local.names("verifier")]
    credit = sum(int(chain.call(results, "bond_credit", account)) for account in accounts)
    own = {account.lower() for account in accounts}
    taken = EventLog(EventCursor(chain, results, ("BondWithdrawn",), 0)).read()
    credit += sum(int(e.args["amount"]) for e in taken if e.args["account"].lower() in own)
    opened = EventLog(EventCursor(chain, results, ("AnnouncementOpened",), 0)).read()
    return credit - len(opened) * network.bounds().least_bond


def _broken(local: LocalNetwork, job: int) -> list[str]:
    return [check.sentence for check in local.books(job) if not check.holds]


def test_cheats_are_punished_exactly(caught: Story) -> None:
    """Each for what it did, by the table to the last unit, once; nobody else is."""
    history = caught.local.history(caught.job)
    checks = check_cheats(history, BLAME)
    assert [check.sentence for check in checks if not check.holds] == []
    assert len(history.slashes) == len(CHEATS)


def test_honest_trainers_share_the_whole_pool(caught: Story) -> None:
    """A cheat's share goes to nobody; the honest have theirs, and their stake is untouched."""
    local, history = caught.local, caught.local.history(caught.job)
    ids = [local.node_id(name) for name in HONEST]
    share = BPS - TERMS.verifier_bps - TERMS.aggregator_bps
    pool = TERMS.reward_per_round * share // BPS
    assert 0 < sum(history.nodes[node].earned for node in ids) <= pool
    for name in CHEATS.values():
        assert history.nodes[local.node_id(name)].earned == 0
    for name in (*HONEST, *local.names("verifier", "aggregator")):
        seat = local.net.seats[name]
        assert local.network.node(seat.node_id).stake == seat.stake


def test_books_balance_after_the_cheats(caught: Story) -> None:
    """Every token is in one place, slashes and bounties included."""
    assert _broken(caught.local, caught.job) == []


def test_three_members_offline_nothing_moves(disputed: Story) -> None:
    """Two approvals of five decide nothing; what was earned before can be claimed all the same."""
    local, job = disputed.local, disputed.job
    slashes = len(local.history(job).slashes)
    assert local.phase(job) == Phase.DISPUTED
    owed, received = local.claim(HONEST[0])
    assert owed == received > 0
    assert local.phase(job) == Phase.DISPUTED
    assert len(local.history(job).slashes) == slashes == len(CHEATS)
    assert [c.sentence for c in local.books(job)[:-1] if not c.holds] == []


def test_undecided_challenge_costs_its_bond(voided: Story) -> None:
    """The round is void: rewards are back, the bond is not; the liar has not been slashed yet."""
    local, job = voided.local, voided.job
    assert _bond_credit(local) == 0
    assert len(local.history(job).slashes) == len(CHEATS)
    assert local.network.job(job).status == JobStatus.ACTIVE


def test_two_members_offline_the_lie_is_punished(upheld: Story) -> None:
    """Three of five uphold the challenge: the aggregator loses a fifth of its stake."""
    local, history = upheld.local, upheld.local.history(upheld.job)
    liar = local.net.seats[LIAR]
    mine = [s for s in history.slashes if s.node_id == liar.node_id]
    assert [s.violation for s in mine] == [Violation.BAD_RESULT]
    assert mine[0].amount == liar.stake * BAD_RESULT_BPS // BPS == 200 * ZOO
    assert len(history.slashes) == len(CHEATS) + 1  # nobody else
    assert _bond_credit(local) == TERMS.challenge_bond  # of the challenge that was decided


def test_another_proposes_and_the_round_is_final(upheld: Story) -> None:
    """A verifier's result stands; the ledger and the books agree with it."""
    local, job = upheld.local, upheld.job
    assert local.phase(job, 2) == Phase.FINALIZED
    proposer = int(local.round(job, 2).proposer)
    assert proposer in {local.node_id(name) for name in local.names("verifier")}
    assert _broken(local, job) == []
