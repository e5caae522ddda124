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
    REVEAL,
    STAKES,
    TERMS,
    VOID,
    Node,
    World,
    share,
)
from tests.stage.memory.honest_round import TinyJob, noise

BOND = TERMS.challenge_bond
AGGREGATOR_CUT = TERMS.reward_per_round * TERMS.aggregator_bps // 10_000


def challenge(world: World, account) -> bytes:
    result = bytes(world.state.result_hash)
    world.chain.send(account, world.rounds, "challenge", world.job, world.round, result, EVIDENCE)
    return result


def reject(world: World, result: bytes, salt: bytes) -> None:
    args = (world.job, world.round, result, False)
    world.decide((world.rounds, "resolve_challenge", args), salt=salt)


def test_7_abort_unless_the_draw_suits__earns_nothing_and_loses_weight_and_seat(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 7: eve commits only in rounds that suit her; here none of three does.

    Not committing is not slashed in this version: it earns nothing, each time takes from the weight
    that her batches follow, and after three rounds the job stops waiting for her.
    """
    weights = []
    for _ in range(3):
        opened = world.open()
        weights.append(dict(zip(opened["nodes"], opened["weights"], strict=True))[eve.node_id])
        for node in (ann, bob):
            world.commit(node)
        world.pass_phase(COMMIT)
        for node in (ann, bob):
            world.reveal(node)
        world.finish({ann: 1, bob: 1})
    assert weights[0] > weights[1] > weights[2] > 0
    world.chain.send(bob.operator, world.rounds, "mark_absent", world.job, eve.node_id)
    assert eve.node_id not in world.open()["nodes"]
    assert world.gain(eve) == 0 < 3 * share(1, 3)
    world.assert_whole({ann: 3 * share(1, 2), bob: 3 * share(1, 2)})


def test_7_two_sybils_abort_after_committing__each_time_costs_both_more(
    world: World, ann: Node
) -> None:
    """Attack 7: two sybils commit always, and reveal only if a draw they wait for favours both; it
    never does. The balance falls every round, by more each time."""
    sybils = [world.enlist(f"sybil {i}", stake=300 * ZOO) for i in (1, 2)]
    for sybil in sybils:
        world.benchmark(sybil)
    losses = []
    for _ in range(3):
        before = world.wealth(*sybils)
        world.open()
        for node in (ann, *sybils):
            world.commit(node)
        world.pass_phase(COMMIT)
        world.reveal(ann)
        world.pass_phase(REVEAL)
        for sybil in sybils:
            args = (world.job, world.round, sybil.node_id)
            world.chain.send(ann.operator, world.rounds, "slash_unrevealed", *args)
        world.finish({ann: 1})
        losses.append(before - world.wealth(*sybils))
    first, second, third = losses
    assert 0 < first < second < third
    assert world.gain(*sybils) == -sum(losses)
    world.assert_whole({ann: 3 * share(1, 1) + sum(losses) // 10})


def test_16_aggregator_on_duty_is_silent__another_node_takes_its_cut(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 16: the aggregator whose turn it is never proposes, nor does the other one."""
    world.train(ann, bob)
    idle = world.on_duty
    early = (world.job, world.round, ann.node_id, EVIDENCE, EVIDENCE, EVIDENCE, [], [])
    world.chain.refuse("rounds: not on duty", ann.operator, world.rounds, "propose_result", *early)
    world.pass_phase(AGGREGATE)
    arrays = world.offer({ann: 1, bob: 1}, by=ann)
    world.attest("vic", "vera")
    world.finalize(arrays)
    assert world.gain(idle) == 0
    world.assert_whole({ann: share(1, 2) + AGGREGATOR_CUT, bob: share(1, 2)})


def test_16_nobody_in_the_network_finalizes__a_passer_by_does(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 16: sponsor, nodes and verifiers leave the round hanging, without one attestation."""
    world.train(ann, bob)
    arrays = world.offer({ann: 3, bob: 1})
    passer_by = world.person("passer-by")
    finalize = (passer_by, world.rounds, "finalize", world.job, *arrays)
    world.chain.refuse("rounds: not finalizable", *finalize)
    world.wait_until(int(world.state.deadline))
    world.chain.send(*finalize)
    assert world.phase == FINALIZED
    pool = TERMS.reward_per_round - AGGREGATOR_CUT  # no attester, no verifiers' cut
    world.assert_whole({ann: pool * 3 // 4, bob: pool // 4})


def test_16_frivolous_challenges__cost_a_bond_each_and_only_delay(
    world: World, ann: Node, bob: Node
) -> None:
    """Attacks 16 and 18: eve's friend disputes a right result, twice."""
    crank = world.person("crank", 1_000 * ZOO)
    world.train(ann, bob)
    arrays = world.offer({ann: 1, bob: 1})
    world.attest("vic", "vera")
    for number in (1, 2):
        result = challenge(world, crank)
        world.chain.refuse(
            "rounds: not in challenge",
            crank,
            world.rounds,
            "challenge",
            *(world.job, world.round, result, EVIDENCE),
        )
        reject(world, result, salt=number.to_bytes(32, "big"))
        assert world.phase == CHALLENGE
        assert world.gain(crank) == -number * BOND
    world.chain.refuse("bonds: nothing to withdraw", crank, world.rounds, "withdraw_bond")
    world.finalize(arrays)
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_16_committee_is_silent__round_is_void_and_everybody_keeps_what_it_had(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 16: a challenge that the committee never decides ends the round for all: the bond
    comes back, the pool goes back to the escrow, no stake is touched."""
    crank = world.person("crank", 1_000 * ZOO)
    world.train(ann, bob)
    world.offer({ann: 1, bob: 1})
    challenge(world, crank)
    world.pass_phase(DISPUTED)
    assert world.phase == VOID
    assert world.gain(crank) == world.gain(world.sponsor) == 0
    world.assert_whole({ann: 0, bob: 0, world.nodes["abe"]: 0, world.nodes["ada"]: 0})
    world.train(ann, bob)
    world.finish({ann: 1, bob: 1})
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_18_payload_withheld__is_left_out_unpaid_and_stops_nobody(
    world: World, tiny: TinyJob
) -> None:
    """Attack 18: eve commits to a payload and reveals its digest, and publishes nothing. Nobody
    can tell whether the store or she is at fault, so there is no slash; her work is worth nothing
    and her batches are handed out again."""
    plan = plan_of(tiny, world)
    ann, bob, eve = (world.nodes[name] for name in ("ann", "bob", "eve"))
    works = [publish_work(tiny, plan, node) for node in (ann, bob)]
    fake = noise(tiny.before, seed=18)
    works.append(publish_work(tiny, plan, eve, gradient=fake, publish=False))
    assert works[-1].submission.unavailable
    for work in works:
        world.commit(work.node, work.committed)
    world.pass_phase(COMMIT)
    for work in works:
        world.reveal(work.node, work.committed)
    outcome = outcome_of(tiny, plan, works)
    assert eve.node_id not in outcome.nodes
    pay = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    total = sum(pay.values())
    world.finish({node: pay[node.node_id] for node in (ann, bob) if node.node_id in pay})
    assert world.gain(eve) == 0
    world.assert_whole(
        {node: share(pay.get(node.node_id, 0), total) for node in (ann, bob) if total}
    )


def test_18_result_whose_report_is_withheld__costs_the_aggregator_a_fifth(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 18: the aggregator proposes digests of a model and report that it never publishes.
    Nobody can recompute them; the challenge is upheld, and another aggregator does the work."""
    watcher = world.person("watcher", 1_000 * ZOO)
    world.train(ann, bob)
    duty = world.on_duty
    world.offer({ann: 1, bob: 1}, label="withheld")
    result = challenge(world, watcher)
    world.decide(
        (world.rounds, "resolve_challenge", (world.job, world.round, result, True)), salt=result
    )
    other = next(n for n in (world.nodes["abe"], world.nodes["ada"]) if n != duty)
    arrays = world.offer({ann: 1, bob: 1}, by=other)
    world.attest("vic", "vera")
    world.finalize(arrays)
    fifth = STAKES[AGGREGATOR] // 5
    assert world.gain(duty) == -fifth
    assert world.gain(watcher) == fifth // 2
    world.assert_whole({ann: share(1, 2), bob: share(1, 2), other: AGGREGATOR_CUT})
