# SPDX-License-Identifier: Apache-2.0
"""Own attacks: sponsors whose terms are a trap.

Rule: terms that leave a node no time to reveal, or the committee none to decide, must not be
possible; a sponsor pays for the work it gets.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount

from agents.jobs.publish import ZOO
from tests.stage.chain.people import (
    AGGREGATE,
    CHALLENGE,
    EVIDENCE,
    FINALIZED,
    REVEAL,
    TERMS,
    Node,
    World,
    share,
)
from tests.stage.memory.honest_round import TinyJob

FUNDS = 2 * TERMS.reward_per_round


def trap(world: World, tiny: TinyJob, **terms: int) -> LocalAccount:
    """The owner of a second job with these terms, which becomes the world's job."""
    mallory = world.person("mallory", FUNDS + 1_000 * ZOO)
    world.job = world.create_job(mallory, replace(TERMS, **terms).encode(tiny.published), FUNDS)
    return mallory


def refused(world: World, tiny: TinyJob, reason: str, **terms: int) -> None:
    """Nobody can create a job with these terms."""
    encoded = replace(TERMS, **terms).encode(tiny.published)
    world.chain.refuse(reason, world.person("mallory"), world.rounds, "create_job", encoded)


def test_escrow_of_another_job__is_out_of_reach(world: World, ann: Node, tiny: TinyJob) -> None:
    """Mallory's own job has no money; the pool holds that of others."""
    mallory = world.person("mallory")
    job = world.create_job(mallory, TERMS.encode(tiny.published), 0)
    world.chain.refuse("pool: escrow too low", mallory, world.rounds, "open_round", job)
    world.chain.send(mallory, world.rounds, "cancel_job", job)
    world.chain.refuse("pool: nothing to refund", mallory, world.pool, "refund", job)
    world.chain.refuse("pool: not sponsor", mallory, world.pool, "refund", world.job)
    assert world.gain(mallory) == 0
    world.train(ann)
    world.finish({ann: 1})
    world.assert_whole({ann: share(1, 1)})


def test_sponsor_trains_with_itself__gets_back_less_than_it_paid(world: World, eve: Node) -> None:
    """Reward farming: eve is the sponsor's only trainer. There is no emission: what she earns is
    what the sponsor paid, less the cuts."""
    for node in ("ann", "bob", "cat"):
        world.chain.send(
            world.nodes[node].operator,
            world.registry,
            "set_active",
            *(world.nodes[node].node_id, False),
        )
    world.train(eve)
    world.finish({eve: 1})
    cuts = TERMS.reward_per_round - share(1, 1)
    assert world.gain(eve, world.sponsor) == -cuts < 0


def test_sponsor_challenges_right_results__loses_its_bonds_and_pays_all_the_same(
    world: World, ann: Node, bob: Node, tiny: TinyJob
) -> None:
    """Mallory has the gradients, and tries to talk the round away before it is paid."""
    mallory = trap(world, tiny)
    world.train(ann, bob)
    arrays = world.offer({ann: 1, bob: 1})
    world.attest("vic", "vera")
    result = bytes(world.state.result_hash)
    world.chain.send(mallory, world.rounds, "challenge", world.job, world.round, result, EVIDENCE)
    args = (world.job, world.round, result, False)
    world.decide((world.rounds, "resolve_challenge", args))
    world.finalize(arrays)
    assert world.gain(mallory) == -TERMS.challenge_bond - TERMS.reward_per_round
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_sponsor_whose_dispute_window_no_committee_can_meet__is_refused(
    world: World, tiny: TinyJob
) -> None:
    """In a window shorter than the committee's delay every challenge would win by default: the
    round void, the bond back, the trainers unpaid. Both decisions, on the challenge and after it
    on an appeal, must fit."""
    reason = "rounds: dispute window too short"
    for seconds in (3_600, world.settings.routine_delay, 2 * world.settings.routine_delay - 1):
        refused(world, tiny, reason, dispute_s=seconds)


def test_sponsor_with_the_shortest_dispute_window__still_pays(
    world: World, ann: Node, bob: Node, tiny: TinyJob
) -> None:
    """Mallory's job gives the committee the least time possible; she challenges the result when
    the gradients are public, and wants her escrow back."""
    mallory = trap(world, tiny, dispute_s=2 * world.settings.routine_delay)
    world.train(ann, bob)
    arrays = world.offer({ann: 1, bob: 1})
    result = bytes(world.state.result_hash)
    world.chain.send(mallory, world.rounds, "challenge", world.job, world.round, result, EVIDENCE)
    world.chain.warp(world.settings.routine_delay - 60)  # the members take almost a day to look
    world.decide((world.rounds, "resolve_challenge", (world.job, world.round, result, False)))
    assert world.phase == CHALLENGE
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    assert world.phase == FINALIZED
    assert world.gain(mallory) < -TERMS.challenge_bond
    unclaimed = TERMS.reward_per_round * TERMS.verifier_bps // 10_000  # nobody attested
    half = (share(1, 1) + unclaimed) // 2
    world.assert_whole({ann: half, bob: half})


@pytest.mark.parametrize(
    "window", ["commit_s", "reveal_s", "aggregate_s", "challenge_s", "appeal_s", "dispute_s"]
)
def test_sponsor_whose_window_nobody_can_meet__is_refused(
    world: World, tiny: TinyJob, window: str
) -> None:
    """A reveal window shorter than a block takes would slash every honest node that commits, for
    bounties of the sponsor's second address; one of no time to appeal would let reports stand."""
    shortest = world.settings.unbonding_period // 20_000
    for seconds in (0, 1, shortest):
        refused(world, tiny, "rounds: bad window", **{window: seconds})


def test_sponsor_with_the_shortest_reveal_window__farms_no_bounties(
    world: World, ann: Node, bob: Node, cat: Node, tiny: TinyJob
) -> None:
    """The shortest window still holds several blocks of 12 s: who reveals at once is safe."""
    mallory = trap(world, tiny, reveal_s=world.settings.unbonding_period // 20_000 + 1)
    world.open()
    honest = (ann, bob, cat, world.nodes["eve"])
    for node in honest:
        world.commit(node)
    assert world.phase == REVEAL
    for node in honest:
        world.chain.warp(12)  # a block each
        world.reveal(node)
    assert world.phase == AGGREGATE
    for node in honest:
        args = (world.job, world.round, node.node_id)
        world.chain.refuse("rounds: revealed", mallory, world.rounds, "slash_unrevealed", *args)
    assert world.gain(mallory) == -TERMS.reward_per_round  # set aside for the round
    world.assert_whole(dict.fromkeys(honest, 0))
