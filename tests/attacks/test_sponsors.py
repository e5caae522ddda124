# SPDX-License-Identifier: Apache-2.0
"""Own attacks: sponsors whose terms are a trap.

Rule: terms that leave a node no time to reveal, or the committee none to decide, must not be
possible; a sponsor pays for the work it gets.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount

from scripts._jobs import ZOO
from tests.attacks.chain import Refused
from tests.attacks.lab import Lab
from tests.attacks.world import (
    CHALLENGE,
    COMMIT,
    DISPUTED,
    EVIDENCE,
    FINALIZED,
    REVEAL,
    TERMS,
    Node,
    World,
    share,
)

FUNDS = 2 * TERMS.reward_per_round


def trap(world: World, lab: Lab, **terms: int) -> LocalAccount | None:
    """A second sponsor's job with these terms, made the world's job; None if they are refused,
    which is as good as making them harmless."""
    mallory = world.person("mallory", FUNDS + 1_000 * ZOO)
    try:
        world.job = world.create_job(mallory, replace(TERMS, **terms).encode(lab.published), FUNDS)
    except Refused:
        return None
    return mallory


def test_escrow_of_another_job__is_out_of_reach(world: World, ann: Node, lab: Lab) -> None:
    """Mallory's own job has no money; the pool holds that of others."""
    mallory = world.person("mallory")
    job = world.create_job(mallory, TERMS.encode(lab.published), 0)
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
    world: World, ann: Node, bob: Node, lab: Lab
) -> None:
    """Mallory has the gradients, and tries to talk the round away before it is paid."""
    mallory = trap(world, lab)
    assert mallory is not None
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


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="OPEN HOLE: create_job takes a dispute window shorter than the committee's delay, so "
    "any challenge makes the round void, gives the bond back, and leaves the trainers unpaid",
)
def test_sponsor_whose_dispute_window_no_committee_can_meet__still_pays(
    world: World, ann: Node, bob: Node, lab: Lab
) -> None:
    """Mallory's jobs give the committee a minute, of a delay of a day; she challenges every result
    when the gradients are public, and takes her escrow back."""
    mallory = trap(world, lab, dispute_s=60)
    if mallory is None:
        return
    world.train(ann, bob)
    arrays = world.offer({ann: 1, bob: 1})
    result = bytes(world.state.result_hash)
    world.chain.send(mallory, world.rounds, "challenge", world.job, world.round, result, EVIDENCE)
    call = (world.rounds, "resolve_challenge", (world.job, world.round, result, False))
    op_id = world.propose(call)
    for member in (1, 2):
        world.chain.send(world.members[member], world.coordinator, "approve", op_id)
    world.pass_phase(DISPUTED)
    if world.phase == CHALLENGE:
        world.wait_until(int(world.state.deadline))
        world.finalize(arrays)
    assert world.phase == FINALIZED, "the round is void, and the work was free"
    assert world.gain(mallory) < 0
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="OPEN HOLE: create_job takes a reveal window of one second, so every honest node that "
    "commits is slashed, and the sponsor's second address takes the bounties",
)
def test_sponsor_whose_reveal_window_nobody_can_meet__farms_no_bounties(
    world: World, ann: Node, bob: Node, cat: Node, lab: Lab
) -> None:
    """Mallory's round pays nothing in the end; its reveal window is shorter than a block takes."""
    mallory = trap(world, lab, reveal_s=1)
    if mallory is None:
        return
    world.open()
    honest = (ann, bob, cat, world.nodes["eve"])
    for node in honest:
        world.commit(node)
    assert world.phase == REVEAL != COMMIT
    world.chain.warp(12)  # the next block
    for node in honest:
        args = (world.job, world.round, node.node_id)
        world.chain.send(mallory, world.rounds, "slash_unrevealed", *args)
    assert world.gain(mallory) <= 0
    world.assert_whole(dict.fromkeys(honest, 0))
