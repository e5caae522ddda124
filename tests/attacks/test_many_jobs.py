# SPDX-License-Identifier: Apache-2.0
"""Attack 19: noise in many jobs at once, where one stake answers for all of them.

Rule: the draw counts a stake for as many findings as its node has rounds running, of whatever jobs,
and all verifiers count the same ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.jobs.publish import ZOO
from agents.protocol.structs import Round, read
from scripts._attacks import training
from scripts._attacks.market import Market, Numbers
from scripts._attacks.spot_checks import drawn
from tests.attacks.test_draws import network_of
from tests.stage.chain.people import COMMIT, Node, People

JOBS = 24


@pytest.fixture(scope="module")
def market() -> Market:
    """One trainer of nine is the attacker's, and no verifier."""
    return Market(Numbers(share=1 / 9))


def test_noise_in_many_jobs__costs_most_of_the_stake(market: Market) -> None:
    found = training.lie_in_jobs(market, JOBS)
    assert found.capital == 100 * ZOO
    assert found.profit < -60 * ZOO


def test_control__by_five_findings_at_a_time_it_paid(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was drawn until 2026-11-28, in however many jobs it lied."""
    monkeypatch.setattr(training, "drawn", lambda market, liar, rounds: drawn(market, liar))
    found = training.lie_in_jobs(market, JOBS)
    assert found.profit > 12 * ZOO and found.loss > 60 * ZOO


def count(people: People, node: Node) -> int:
    """As a verifier counts that comes now, for the job's newest round."""
    state = read(Round, people.state)
    return network_of(people).rounds_at_once(*people.place, state)[node.node_id]


def another_job(people: People) -> People:
    """The same people at a job of the same terms."""
    terms = people.chain.call(people.jobs, "job", people.job).terms
    funds = 2 * int(terms.reward_per_round)
    sponsor = people.person("grace")
    people.give(sponsor, funds)
    return replace(people, job=people.create_job(sponsor, tuple(terms), funds), round=0)


def test_rounds_at_once__are_those_of_all_jobs_up_to_the_proposal(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Eve works in four jobs. A round of one is over before this job's is opened, another ends
    while verifiers look, and a third is open still. In a fourth she commits once she can know
    whether she is drawn: that moves no draw, or only some of the verifiers would find her."""
    earlier, ending, lasting, late = (another_job(people) for _ in range(4))
    earlier.train(ann, eve)
    earlier.finish({ann: 1, eve: 1})
    for other in (ending, lasting):
        other.open()
        other.commit(eve)
    ending.commit(ann)
    people.train(ann, bob, eve)
    late.open()
    ending.pass_phase(COMMIT)
    ending.reveal(ann)
    ending.reveal(eve)
    people.offer({ann: 1, bob: 1, eve: 1})
    assert [count(people, node) for node in (ann, bob, eve)] == [2, 1, 3]
    late.commit(eve)
    ending.finish({ann: 1, eve: 1})
    assert [count(people, node) for node in (ann, bob, eve)] == [2, 1, 3]


def test_rounds_at_once__of_many_jobs__are_asked_for_once(
    people: People, ann: Node, eve: Node
) -> None:
    """Each look at a result asked for the commitments of each round that ran beside it, and rounds
    of 1 ZOO are cheap."""
    for _ in range(8):
        other = another_job(people)
        other.open()
        other.commit(eve)
    people.train(ann, eve)
    people.offer({ann: 1, eve: 1})
    network, state = network_of(people), read(Round, people.state)

    def asked() -> int:
        before = sum(network.chain.traffic.calls().values())
        assert network.rounds_at_once(*people.place, state) == {ann.node_id: 1, eve.node_id: 9}
        return sum(network.chain.traffic.calls().values()) - before

    first, again = asked(), asked()
    assert first > 8 > again
