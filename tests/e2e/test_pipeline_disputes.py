# SPDX-License-Identifier: Apache-2.0
"""A pipeline round whose result is a lie, and who is killed while the committee decides on it.

An aggregator proposes twice the merge. The verifiers challenge the result, the committee's members
do the merge again and uphold the challenge, and the other aggregator proposes. On this way members
are killed at each point between two effects of a ruling, and whole roles are killed in DISPUTED.
Each time the liar alone is slashed, the round is paid, and every token is where it belongs.

Where the members are away until the dispute's time is over, the round is void and nobody is
slashed. Where a stranger challenges a right result, or two verifiers frame a miner and it appeals,
members are killed too: who is honest keeps its stake and is paid.

One network: an aggregator that is slashed is suspended for a week, so each test has a liar of its
own, which rests before its test. (Verifiers can't rest so: their stake counts for quorums.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from agents.protocol.numbers import BPS, Phase, ReportStatus, Violation
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENT_ROLES, AGENTS
from tests.e2e.framing import FRAMED
from tests.e2e.test_pipeline import SPEC, TIMES, wait_attested
from tests.stage.network import TERMS, LocalNetwork

HONEST = "aggregator-1"
LIE = ("tests.e2e.dishonest", "aggregator", "tests.e2e.liar")
FRAMING = ("tests.e2e.dishonest", "verifier", "tests.e2e.framing")
POINTS = ("coordinator-before-propose", "coordinator-after-sign", "coordinator-before-execute")
ROLES = (*AGENT_ROLES, "coordinator")
KILLED = [*([role] for role in ROLES), ROLES]
LIARS = 1 + len(POINTS) + len(KILLED) + 1  # one for each test of a lie
# All members may die twice and load torch again, on a busy machine, before the time is over.
LONG_DISPUTE = replace(TERMS, dispute_s=600, appeal_s=600)
BAD_RESULT_BPS = 2_000
VERIFIERS, VICTIM = ("verifier-1", "verifier-2"), "trainer-1"
MEMBERS = ("coordinator-1", "coordinator-2", "coordinator-3")
SETTINGS = LocalnetSettings(
    trainers=4,
    verifiers=len(VERIFIERS),
    aggregators=1 + LIARS,
    members=len(MEMBERS),
    threshold=2,
    agent={**AGENTS, "trainer": TIMES},
)


def rest(pipeline: LocalNetwork, names: Iterable[str], resting: bool) -> None:
    """Their owners take these nodes out of new rounds, or bring them back."""
    registry, batch = pipeline.net.contract("NodeRegistry"), pipeline.net.batch()
    for name in names:
        seat = pipeline.net.seats[name]
        batch.add(seat.owner, registry.functions.set_active(seat.node_id, not resting))
    batch.settle()


@pytest.fixture(scope="module")
def network(build: Callable[[LocalnetSettings], LocalNetwork]) -> LocalNetwork:
    local = build(SETTINGS)
    rest(local, local.names("aggregator")[1:], resting=True)
    workers = (*local.names("trainer", "verifier"), HONEST)
    local.start(*workers, *MEMBERS)
    local.wait_eligible(workers)
    return local


@pytest.fixture
def pipeline(network: LocalNetwork) -> LocalNetwork:
    """All agents honest and running, the committee too."""
    network.settle(*network.names("trainer"), *VERIFIERS, HONEST, *MEMBERS)
    return network


@pytest.fixture
def liar(pipeline: LocalNetwork) -> Iterator[str]:
    """An aggregator that was never slashed, and lies."""
    unpunished = (
        name
        for name in pipeline.names("aggregator")
        if name != HONEST and not pipeline.network.node(pipeline.node_id(name)).suspended_until
    )
    name = next(unpunished)
    rest(pipeline, [name], resting=False)
    pipeline.start(name, program=LIE)
    yield name
    pipeline.stop(name)
    rest(pipeline, [name], resting=True)


def disputed(pipeline: LocalNetwork, rounds: int = 1) -> int:
    """A job whose first round has a false result, which is challenged.

    The honest aggregator's time stands still until then. If the seed draws it, its window passes.
    """
    with pipeline.frozen(HONEST):
        job = pipeline.job(funded_rounds=rounds, terms=LONG_DISPUTE, **SPEC)
        pipeline.until_reached(job, Phase.AGGREGATE)
        if pipeline.network.on_duty(job, 1) == pipeline.node_id(HONEST):
            pipeline.skip_deadline(job)
        pipeline.until_reached(job, Phase.CHALLENGE)
        pipeline.until_phase(job, Phase.DISPUTED)
    return job


def kill(pipeline: LocalNetwork, names: Iterable[str], liar: str = "") -> None:
    """Kill them together and start them again as what they were."""
    names = list(names)
    pipeline.stop(*names)
    for name in names:
        pipeline.net.start_agent(name, LIE if name == liar else None)


def at_work(pipeline: LocalNetwork, roles: Iterable[str], liar: str = "") -> list[str]:
    """All agents of these roles that run."""
    resting = {*pipeline.names("aggregator")} - {HONEST, liar}
    return [name for name in pipeline.names(*roles) if name not in resting]


def rulings(pipeline: LocalNetwork, job: int) -> list[bool]:
    """The committee's decisions on challenges of the job: whether each was upheld."""
    chain, results = pipeline.network.chain, pipeline.network.results
    where = pipeline.network.deployment.block, chain.head().number, {"job_id": job}
    events = chain.events(results, "ChallengeResolved", *where)
    return [event.args["upheld"] for event in events]


def assert_punished(pipeline: LocalNetwork, job: int, liar: str) -> None:
    """The liar loses a fifth of its stake, once. Another's result is paid, and the committee
    attests the model that it leads to."""
    pipeline.finish(job)
    assert rulings(pipeline, job) == [True], "one ruling, for the challenger"
    history = pipeline.assert_whole(job, slashed={liar: Violation.BAD_RESULT})
    seat = pipeline.net.seats[liar]
    assert history.slashes[-1].amount == seat.stake * BAD_RESULT_BPS // BPS
    assert int(pipeline.round(job).proposer) != seat.node_id
    wait_attested(pipeline, job)


def test_a_lie_is_punished_though_members_die_at_the_ruling_and_all_others_in_the_dispute(
    pipeline: LocalNetwork, liar: str
) -> None:
    pipeline.arm({"coordinator-after-sign": MEMBERS})
    job = disputed(pipeline)
    kill(pipeline, at_work(pipeline, AGENT_ROLES, liar), liar)
    pipeline.until(lambda: bool(rulings(pipeline, job)), "the committee has decided")
    assert pipeline.crashed, "somebody should have died after it signed"
    assert_punished(pipeline, job, liar)


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_members_die_at_any_point_of_a_ruling(
    pipeline: LocalNetwork, liar: str, point: str
) -> None:
    """All three die there, when they come to it."""
    pipeline.arm({point: MEMBERS})
    job = disputed(pipeline)
    pipeline.until(lambda: bool(rulings(pipeline, job)), "the committee has decided")
    assert pipeline.crashed, f"somebody should have died at {point}"
    assert_punished(pipeline, job, liar)


@pytest.mark.chaos
@pytest.mark.parametrize("roles", KILLED, ids="+".join)
def test_whole_roles_are_killed_in_a_dispute(
    pipeline: LocalNetwork, liar: str, roles: list[str]
) -> None:
    job = disputed(pipeline)
    kill(pipeline, at_work(pipeline, roles, liar), liar)
    assert_punished(pipeline, job, liar)


@pytest.mark.chaos
def test_a_round_is_void_where_all_are_killed_and_the_members_stay_away(
    pipeline: LocalNetwork, liar: str
) -> None:
    """The next round is paid. The liar, which was not judged, is not slashed."""
    pipeline.stop(*MEMBERS)
    job = disputed(pipeline, rounds=2)  # the void round costs a reward
    slashes = list(pipeline.history(job).slashes)  # of the tests before
    kill(pipeline, at_work(pipeline, AGENT_ROLES, liar), liar)
    pipeline.stop(liar)
    pipeline.skip_deadline(job)
    pipeline.until(lambda: pipeline.phase(job) == Phase.VOID, "the round is void")
    passed: list[bool] = []

    def the_liar_is_gone() -> None:
        if not passed and pipeline.network.on_duty(job, 2) == pipeline.node_id(liar):
            passed.append(True)
            pipeline.skip_deadline(job, 2)

    history = pipeline.finish(job, the_liar_is_gone)
    assert [story.phase for _, story in sorted(history.rounds.items())] == [
        Phase.VOID,
        Phase.FINALIZED,
    ]
    assert rulings(pipeline, job) == [] and history.slashes == slashes
    assert [check.sentence for check in pipeline.books(job) if not check.holds] == []


def challenge(pipeline: LocalNetwork, job: int) -> None:
    """The sponsor, who need not be right, challenges the first round's result."""
    token, results = pipeline.net.contract("ZooToken"), pipeline.net.contract("TrainingResults")
    sponsor, bond = pipeline.net.sponsor, TERMS.challenge_bond
    wrong = (job, 1, pipeline.round(job).result_hash, b"\1" * 32)
    for sender, call in (
        (pipeline.net.faucet, token.functions.transfer(sponsor.address, bond)),
        (sponsor, token.functions.approve(results.address, bond)),
        (sponsor, results.functions.challenge(*wrong)),
    ):
        batch = pipeline.net.batch()
        batch.add(sender, call)
        batch.settle()


@pytest.mark.chaos
def test_a_right_result_that_is_challenged_is_paid_though_all_are_killed(
    pipeline: LocalNetwork,
) -> None:
    """Verifiers' time stands still until the challenge, or the round would be over before it."""
    with pipeline.frozen(*VERIFIERS):
        job = pipeline.job(terms=LONG_DISPUTE, **SPEC)
        pipeline.until_phase(job, Phase.CHALLENGE)
        challenge(pipeline, job)
    kill(pipeline, at_work(pipeline, ROLES))
    pipeline.finish(job)
    assert rulings(pipeline, job) == [False]
    pipeline.assert_whole(job)
    wait_attested(pipeline, job)


@pytest.mark.chaos
def test_members_die_while_they_rule_on_a_framed_miners_appeal(pipeline: LocalNetwork) -> None:
    """Each at another point. The miner is killed before it appeals; both verifiers, who lie, pay.

    This is the last test of the network: nobody verifies in it any more. The miner is away until
    the members have attested the round's model, so that the appeal is what they die at.
    """
    victim = pipeline.net.seats[VICTIM]
    pipeline.stop(*VERIFIERS)
    for name in VERIFIERS:
        pipeline.net.start_agent(name, FRAMING, {FRAMED: str(victim.node_id)})
    with pipeline.frozen(*VERIFIERS):
        job = pipeline.job(terms=LONG_DISPUTE, **SPEC)
        pipeline.until_phase(job, Phase.CHALLENGE)
        pipeline.stop(VICTIM)
    wait_attested(pipeline, job)
    points = {point: (name,) for point, name in zip(POINTS, MEMBERS, strict=True)}
    pipeline.arm({**points, "trainer-before-appeal": (VICTIM,)})
    network = pipeline.network
    (report_id,) = network.reported(job, network.deployment.block, network.chain.head().number)

    def cleared() -> bool:
        return network.report(report_id).status == ReportStatus.DISMISSED

    pipeline.until(cleared, "the committee has cleared the miner")
    assert VICTIM in pipeline.crashed and set(pipeline.crashed) & set(MEMBERS)
    pipeline.finish(job)
    pipeline.assert_whole(job, slashed=dict.fromkeys(VERIFIERS, Violation.FALSE_REPORT))
    assert network.node(victim.node_id).stake == victim.stake
    assert pipeline.history(job).nodes[victim.node_id].earned > 0
