# SPDX-License-Identifier: Apache-2.0
"""Attacks 7, 16 and 18: not acting, acting only when it suits, withholding, and crying wolf.

Rule: every phase has a deadline and a successor, so whoever stalls is passed over and unpaid; a
challenge costs its bond unless it is right.
"""

from __future__ import annotations

from agents.jobs.publish import ZOO
from tests.attacks.conftest import outcome_of, plan_of, publish_work
from tests.stage.chain.people import (
    AGGREGATE,
    AGGREGATOR,
    CHALLENGE,
    COMMIT,
    DISPUTED,
    EVIDENCE,
    FINALIZED,
    STAKES,
    TERMS,
    VOID,
    Node,
    People,
    share,
)
from tests.stage.memory.honest_round import TinyJob, noise

BOND = TERMS.challenge_bond
AGGREGATOR_CUT = TERMS.reward_per_round * TERMS.aggregator_bps // 10_000


def test_7_abort_unless_the_draw_suits__earns_nothing_and_loses_weight_and_seat(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 7: eve commits only in rounds that suit her; here none of three does.

    Not committing is not slashed in this version: it earns nothing, each time takes from the weight
    that her batches follow, and after three rounds the job stops waiting for her.
    """
    weights = []
    for _ in range(3):
        opened = people.open()
        weights.append(dict(zip(opened["nodes"], opened["weights"], strict=True))[eve.node_id])
        for node in (ann, bob):
            people.commit(node)
        people.pass_phase(COMMIT)
        for node in (ann, bob):
            people.reveal(node)
        people.finish({ann: 1, bob: 1})
    assert weights[0] > weights[1] > weights[2] > 0
    people.chain.send(bob.operator, people.rounds, "mark_absent", people.job, eve.node_id)
    assert eve.node_id not in people.open()["nodes"]
    assert people.gain(eve) == 0 < 3 * share(1, 3)
    people.assert_whole({ann: 3 * share(1, 2), bob: 3 * share(1, 2)})


def test_7_two_sybils_abort_after_committing__each_time_costs_both_more(
    people: People, ann: Node
) -> None:
    """Attack 7: two sybils commit always, and reveal only if a draw they wait for favours both; it
    never does. The balance falls every round, by more each time."""
    sybils = [people.enlist(f"sybil {i}", stake=300 * ZOO) for i in (1, 2)]
    for sybil in sybils:
        people.benchmark(sybil)
    losses = []
    for _ in range(3):
        before = people.wealth(*sybils)
        people.train(ann, silent=sybils)
        for sybil in sybils:
            args = (*people.place, sybil.node_id)
            people.chain.send(ann.operator, people.rounds, "slash_unrevealed", *args)
        people.finish({ann: 1})
        losses.append(before - people.wealth(*sybils))
    first, second, third = losses
    assert 0 < first < second < third
    assert people.gain(*sybils) == -sum(losses)
    people.assert_whole({ann: 3 * share(1, 1) + sum(losses) // 10})


def test_16_aggregator_on_duty_is_silent__another_node_takes_its_cut(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 16: the aggregator whose turn it is never proposes, nor does the other one."""
    people.train(ann, bob)
    idle = people.on_duty
    early = (*people.place, ann.node_id, EVIDENCE, EVIDENCE, EVIDENCE, [], [])
    people.chain.refuse(
        "results: not on duty", ann.operator, people.results, "propose_result", *early
    )
    people.pass_phase(AGGREGATE)
    arrays = people.offer({ann: 1, bob: 1}, by=ann)
    people.confirm(arrays)
    assert people.gain(idle) == 0
    people.assert_whole({ann: share(1, 2) + AGGREGATOR_CUT, bob: share(1, 2)})


def test_16_nobody_in_the_network_finalizes__a_passer_by_does(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 16: sponsor, nodes and verifiers leave the round hanging, without one attestation."""
    people.train(ann, bob)
    arrays = people.offer({ann: 3, bob: 1})
    passer_by = people.person("passer-by")
    finalize = (passer_by, people.results, "finalize", *people.place, *arrays)
    people.chain.refuse("results: not finalizable", *finalize)
    people.wait_until(int(people.state.deadline))
    people.chain.send(*finalize)
    assert people.phase == FINALIZED
    pool = TERMS.reward_per_round - AGGREGATOR_CUT  # no attester, no verifiers' cut
    people.assert_whole({ann: pool * 3 // 4, bob: pool // 4})


def test_16_frivolous_challenge__costs_its_bond_and_only_delays_once(
    people: People, ann: Node, bob: Node
) -> None:
    """Attacks 16 and 18: eve's friend disputes a right result, and would dispute it again."""
    crank = people.person("crank", 1_000 * ZOO)
    people.train(ann, bob)
    arrays = people.offer({ann: 1, bob: 1})
    people.attest("vic", "vera")
    result = people.challenge(crank)
    again = (crank, people.results, "challenge", *people.place, result, EVIDENCE)
    people.chain.refuse("results: already challenged", *again)
    people.resolve(result, False, salt=EVIDENCE)
    assert people.phase == CHALLENGE
    people.chain.refuse("results: already challenged", *again)
    assert people.gain(crank) == -BOND
    people.chain.refuse("bonds: nothing to withdraw", crank, people.results, "withdraw_bond")
    people.finalize(arrays)
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_16_committee_is_silent__round_is_void_and_the_next_one_pays_its_pool(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 16: a challenge that the committee never decides ends a round that nobody attested.
    The bond is lost, the pool is carried to the next round, no stake is touched."""
    crank = people.person("crank", 1_000 * ZOO)
    people.train(ann, bob)
    people.offer({ann: 1, bob: 1})
    people.challenge(crank)
    people.pass_phase(DISPUTED)
    assert people.phase == VOID
    assert people.gain(crank) == -BOND
    assert people.gain(people.sponsor) == -TERMS.reward_per_round
    people.assert_whole({ann: 0, bob: 0, people.nodes["abe"]: 0, people.nodes["ada"]: 0})
    people.train(ann, bob)
    people.finish({ann: 1, bob: 1})
    people.assert_whole({ann: 2 * share(1, 2), bob: 2 * share(1, 2)})


def test_18_payload_withheld__is_left_out_unpaid_and_stops_nobody(
    people: People, tiny: TinyJob
) -> None:
    """Attack 18: eve commits to a payload and reveals its digest, and publishes nothing. Nobody
    can tell whether the store or she is at fault, so there is no slash; her work is worth nothing
    and her batches are handed out again."""
    plan = plan_of(tiny, people)
    ann, bob, eve = (people.nodes[name] for name in ("ann", "bob", "eve"))
    works = [publish_work(tiny, plan, node) for node in (ann, bob)]
    fake = noise(tiny.before, seed=18)
    works.append(publish_work(tiny, plan, eve, gradient=fake, publish=False))
    assert works[-1].submission.unavailable
    for work in works:
        people.commit(work.node, work.committed)
    people.pass_phase(COMMIT)
    for work in works:
        people.reveal(work.node, work.committed)
    outcome = outcome_of(tiny, plan, works)
    assert eve.node_id not in outcome.nodes
    pay = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    total = sum(pay.get(node.node_id, 0) for node in (ann, bob))
    people.finish({node: pay[node.node_id] for node in (ann, bob) if node.node_id in pay})
    assert people.gain(eve) == 0
    people.assert_whole(
        {node: share(pay.get(node.node_id, 0), total) for node in (ann, bob) if total}
    )


def test_18_result_whose_report_is_withheld__costs_the_aggregator_a_fifth(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 18: the aggregator proposes digests of a model and report that it never publishes.
    Nobody can recompute them; the challenge is upheld, and another aggregator does the work."""
    watcher = people.person("watcher", 1_000 * ZOO)
    people.train(ann, bob)
    duty = people.on_duty
    people.offer({ann: 1, bob: 1}, label="withheld")
    people.announce_challenge(watcher)
    result = people.challenge(watcher)
    people.resolve(result, True, salt=result)
    other = people.other_aggregator(duty)
    people.confirm(people.offer({ann: 1, bob: 1}, by=other))
    fifth = STAKES[AGGREGATOR] // 5
    assert people.gain(duty) == -fifth
    assert people.gain(watcher) == fifth // 2
    people.assert_whole({ann: share(1, 2), bob: share(1, 2), other: AGGREGATOR_CUT})
