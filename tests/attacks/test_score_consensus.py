# SPDX-License-Identifier: Apache-2.0
"""A job paid by scores, on a real chain: what a lying verifier, a hasty proposer and a copier win,
and what the agents' reader and upkeep make of it.

Verifiers vic, vera and vito have a third of the stake each; eve is the liar's friend."""

from __future__ import annotations

import pytest
from eth_utils import keccak

from agents.protocol.numbers import BPS, SCALE, ScorePhase
from agents.protocol.scores import Scoring, Vector
from tests.stage.chain.adopted_job import (
    EQUAL,
    LIE,
    RECORD,
    REST,
    SALT,
    TRUTH,
    VERIFIERS,
    AdoptedJob,
    adopt,
)
from tests.stage.chain.people import TERMS, VOID, People, trainer_pool, verifier_cut


@pytest.fixture
def adopted(people: People) -> AdoptedJob:
    return adopt(people)


def test_reader__follows_a_round_from_samples_to_shares(adopted: AdoptedJob) -> None:
    """Everything an agent reads, beside what was sent."""
    people, consensus = adopted.people, adopted.consensus
    job = people.job
    assert consensus.adopted(job) and not consensus.adopted(job + 1)
    assert consensus.windows(job) == TERMS.score_windows
    adopted.train()
    round_id, opened = people.round, int(people.state.opened_block)
    by = people.chain.now + TERMS.aggregate_s + TERMS.score_commit_s
    assert adopted.scoring == Scoring(ScorePhase.COMMIT, by, 0, 0, 0, 0, False, False)
    for name in ("eve", "ann"):
        node = adopted.node(name)
        place = (job, round_id, node.node_id)
        digest = keccak(text=name)
        people.chain.send(node.operator, people.scores, "post_samples", *place, digest)
    assert consensus.samples(job, round_id, opened) == {
        adopted.node(name).node_id: keccak(text=name) for name in ("ann", "eve")
    }
    vic, vera = adopted.node("vic").node_id, adopted.node("vera").node_id
    assert consensus.committed(job, round_id, vic) == bytes(32)
    adopted.commit("vic", adopted.digest("vic", TRUTH))
    assert consensus.committed(job, round_id, vic) == adopted.digest("vic", TRUTH)
    # As the contract computes it, which an agent never asks for.
    node = adopted.node("vic")
    arguments = (job, round_id, vic, node.operator.address, adopted.row(TRUTH), RECORD, SALT)
    asked = bytes(people.chain.call(people.scores, "scores_digest", *arguments))
    assert asked == adopted.digest("vic", TRUTH)
    assert adopted.scoring.phase == ScorePhase.COMMIT
    assert consensus.vectors(job, round_id, opened, adopted.snapshot) == {}
    adopted.commit("vera", adopted.digest("vera", TRUTH))
    adopted.commit("vito", adopted.digest("vito", LIE))
    assert adopted.scoring.phase == ScorePhase.REVEAL and not adopted.scoring.closable
    adopted.reveal("vera", TRUTH)
    assert consensus.record(job, round_id, vic) == bytes(32)
    adopted.reveal("vic", TRUTH)
    by_node = {adopted.node(name).node_id: score for name, score in TRUTH.items()}
    assert consensus.vectors(job, round_id, opened, adopted.snapshot) == {
        verifier: Vector(verifier, by_node, RECORD) for verifier in sorted((vic, vera))
    }
    assert consensus.record(job, round_id, vic) == RECORD
    adopted.reveal("vito", LIE)
    assert adopted.scoring.closable
    assert consensus.standing(job, round_id + 1) == {}
    assert adopted.upkeep() == "close_scoring"
    shares = {node: score for node, score in by_node.items() if score}
    found = adopted.scoring
    assert (found.phase, found.total, found.scored) == (ScorePhase.CLOSED, SCALE, True)
    assert consensus.shares(job, round_id) == shares
    assert consensus.last_scored(job) == round_id
    assert consensus.standing(job, round_id + 1) == shares
    # The round itself is not standing on its own scores.
    assert consensus.standing(job, round_id) == {}
    assert [consensus.trust(job, adopted.node(name).node_id) for name in VERIFIERS] == [BPS, BPS, 0]


def test_standing__of_an_old_round__is_what_it_was_then(adopted: AdoptedJob) -> None:
    """An auditor asks later and gets the same answer, also across a round without scores."""
    people, consensus = adopted.people, adopted.consensus
    other = {"ann": 0, "bob": 0, "cat": SCALE, "eve": 0}
    wanted = [{}]
    for scores in (TRUTH, None, other):
        adopted.train()
        if scores is None:
            people.wait_until(adopted.scoring.commit_deadline)
        else:
            adopted.score(dict.fromkeys(VERIFIERS, scores))
            assert adopted.upkeep() == "close_scoring"
        people.confirm(adopted.offer(), *VERIFIERS)
        got = scores and {adopted.node(n).node_id: score for n, score in scores.items() if score}
        wanted.append(got if got is not None else wanted[-1])
        assert consensus.standing(people.job, people.round + 1) == wanted[-1]
    assert [consensus.standing(people.job, place) for place in (1, 2, 3, 4)] == wanted
    assert wanted[2] == wanted[1] != wanted[3]


def test_upkeep__leaves_the_result_alone_while_scores_are_open(adopted: AdoptedJob) -> None:
    people = adopted.people
    adopted.train()
    adopted.commit("vic", adopted.digest("vic", TRUTH))
    adopted.offer()
    people.attest(*VERIFIERS)
    assert adopted.upkeep() is None
    people.wait_until(adopted.scoring.commit_deadline)
    adopted.reveal("vic", TRUTH)
    assert adopted.upkeep() == "close_scoring"
    assert adopted.upkeep() == "finalize"
    assert not adopted.scoring.scored


def test_upkeep__closes_what_nobody_revealed(adopted: AdoptedJob) -> None:
    adopted.train()
    adopted.commit("vito", adopted.digest("vito", LIE))
    adopted.people.wait_until(adopted.scoring.reveal_deadline)
    assert adopted.upkeep() == "close_scoring"
    assert adopted.scoring.total == 0


def test_upkeep__closes_before_it_lets_a_round_go_void(adopted: AdoptedJob) -> None:
    """Nobody proposes: what was scored still says who stands best."""
    people = adopted.people
    adopted.train()
    adopted.score(dict.fromkeys(VERIFIERS, TRUTH))
    people.wait_until(int(people.state.deadline))
    people.chain.send(people.faucet, people.results, "advance", *people.place)
    people.wait_until(int(people.state.deadline))
    assert adopted.upkeep() == "close_scoring"
    assert adopted.upkeep() == "advance"
    assert people.phase == VOID
    assert len(adopted.consensus.standing(people.job, people.round + 1)) == 3


def test_hasty_opening__leaves_the_others_their_time(adopted: AdoptedJob) -> None:
    """vito commits in the first second; the others need longer than a commit window. It ended
    their time, and with it the round: eve won 229.17 ZOO of nothing, vic and vera lost their cuts
    of 33.33."""
    people = adopted.people
    adopted.train()
    adopted.commit("vito", adopted.digest("vito", LIE))
    people.chain.warp(TERMS.score_commit_s + 1)
    adopted.commit("vic", adopted.digest("vic", TRUTH))
    adopted.commit("vera", adopted.digest("vera", TRUTH))
    for name, scores in {"vic": TRUTH, "vera": TRUTH, "vito": LIE}.items():
        adopted.reveal(name, scores)
    assert adopted.upkeep() == "close_scoring"
    people.confirm(adopted.offer(), *VERIFIERS)
    assert people.gain(adopted.node("eve")) == people.gain(adopted.node("vito")) == 0
    for name in ("vic", "vera"):
        assert people.gain(adopted.node(name)) == verifier_cut(3)
    for name in ("ann", "bob", "cat"):
        rest = REST - 2 * verifier_cut(3)
        assert people.gain(adopted.node(name)) == rest * TRUTH[name] // SCALE


def test_proposer_that_omits_a_node__pays_it_all_the_same(adopted: AdoptedJob) -> None:
    """ann has the most to get, and the sponsor's friend proposes: its 389.11 ZOO went back to the
    sponsor."""
    people = adopted.people
    adopted.train()
    adopted.score(dict.fromkeys(VERIFIERS, TRUTH))
    assert adopted.upkeep() == "close_scoring"
    arrays = people.offer({adopted.node(name): EQUAL for name in TRUTH if name != "ann"})
    people.confirm(arrays, *VERIFIERS)
    assert {name: people.gain(adopted.node(name)) for name in TRUTH} == adopted.pay()
    dust = len(TRUTH) + len(VERIFIERS)
    assert 0 <= people.gain(people.sponsor) + TERMS.reward_per_round <= dust


def test_half_of_the_weight__neither_dictates_nor_gains_by_a_tie(adopted: AdoptedJob) -> None:
    """vito has 2,000 of 4,000 ZOO. Its word alone gave eve half of what trainers get, 425 ZOO a
    round; now it only keeps the round from having a consensus, and the newest one pays."""
    people = adopted.people
    vito = adopted.node("vito")
    people.give(vito.owner, vito.stake)
    people.chain.send(vito.owner, people.registry, "add_stake", vito.node_id, vito.stake)
    people.chain.warp(int(people.chain.call(people.registry, "maturity")) + 1)
    started = {name: people.gain(adopted.node(name)) for name in (*TRUTH, *VERIFIERS)}
    for row in (TRUTH, LIE, LIE):
        adopted.train()
        adopted.score({"vic": TRUTH, "vera": TRUTH, "vito": row})
        assert adopted.upkeep() == "close_scoring"
        people.confirm(adopted.offer(), *VERIFIERS)
    found = {name: people.gain(adopted.node(name)) - old for name, old in started.items()}
    cut = TERMS.reward_per_round // 10
    for name in TRUTH:
        assert found[name] == 3 * ((REST - cut) * TRUTH[name] // SCALE)
    assert [found[name] for name in VERIFIERS] == [3 * cut // 4, 3 * cut // 4, 3 * cut // 2]


def test_lying_verifier__its_friend_gains_nothing_and_it_loses_its_cut(adopted: AdoptedJob) -> None:
    """vito gives everything to eve, round after round, and even attests."""
    people = adopted.people
    for _ in range(2):
        adopted.train()
        adopted.score({"vic": TRUTH, "vera": TRUTH, "vito": LIE})
        assert adopted.upkeep() == "close_scoring"
        people.confirm(adopted.offer(), *VERIFIERS)
    eve, vito = adopted.node("eve"), adopted.node("vito")
    assert people.gain(eve) == people.gain(vito) == 0
    assert people.gain(adopted.node("vic")) == 2 * verifier_cut(3)
    paid = adopted.pay()
    # What vito lost went to those that the truth pays.
    for name in ("ann", "bob", "cat"):
        rest = REST - 2 * verifier_cut(3)
        assert people.gain(adopted.node(name)) == 2 * (rest * TRUTH[name] // SCALE) > 2 * paid[name]


def test_copied_commitment__wins_nothing(adopted: AdoptedJob) -> None:
    """vito sends vic's commitment from the mempool, and then its opening."""
    people = adopted.people
    adopted.train()
    stolen = adopted.digest("vic", TRUTH)
    adopted.commit("vito", stolen)
    adopted.commit("vic", stolen)
    adopted.commit("vera", adopted.digest("vera", TRUTH))
    adopted.reveal("vic", TRUTH)
    adopted.reveal("vera", TRUTH)
    opening = adopted.opening("vito", TRUTH)
    vito = adopted.node("vito").operator
    people.chain.refuse("scores: bad opening", vito, people.scores, "reveal_scores", *opening)
    people.wait_until(adopted.scoring.reveal_deadline)
    assert adopted.upkeep() == "close_scoring"
    people.confirm(adopted.offer(), *VERIFIERS)
    assert people.gain(adopted.node("vito")) == 0


def test_proposer_that_favours_a_friend__moves_no_money(adopted: AdoptedJob) -> None:
    people = adopted.people
    adopted.train()
    adopted.score(dict.fromkeys(VERIFIERS, TRUTH))
    assert adopted.upkeep() == "close_scoring"
    pay = {adopted.node(name): 1 for name in TRUTH} | {adopted.node("eve"): 2**127}
    arrays = people.offer(pay)
    people.confirm(arrays, *VERIFIERS)
    assert {name: people.gain(adopted.node(name)) for name in TRUTH} == adopted.pay()


def test_last_second_commitment__holds_the_round_for_the_reveal_window_only(
    adopted: AdoptedJob,
) -> None:
    """vito waits for the end of the time to commit and says nothing; the round ends unscored,
    without its cut."""
    people = adopted.people
    adopted.train()
    arrays = adopted.offer()
    people.attest("vic", "vera", "vito")
    by = adopted.scoring.commit_deadline
    people.chain.warp(by - people.chain.now - 1)
    adopted.commit("vito", adopted.digest("vito", LIE))
    people.chain.refuse(
        "scores: open", people.faucet, people.results, "finalize", *people.place, *arrays
    )
    people.wait_until(adopted.scoring.reveal_deadline)
    assert adopted.scoring.reveal_deadline <= by + TERMS.score_reveal_s
    assert adopted.upkeep() == "close_scoring"
    assert adopted.upkeep() == "finalize"
    assert people.gain(adopted.node("vito")) == 0
    # Nobody scored: everybody that was accepted is paid alike, the verifiers nothing.
    assert people.gain(adopted.node("eve")) == REST // 4
    assert trainer_pool() < REST
