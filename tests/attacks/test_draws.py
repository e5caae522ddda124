# SPDX-License-Identifier: Apache-2.0
"""Attacks 13 and 14: choosing the draw instead of being drawn.

Rule: who takes part is fixed before the seed exists, and a seed that somebody has captured stays.
"""

from __future__ import annotations

from agents.jobs.publish import ZOO
from tests.stage.chain.people import (
    COMMIT,
    EMPTY,
    INVALID,
    REVEAL,
    TRAINER,
    CommittedWork,
    Node,
    World,
    share,
)

FORGOTTEN = 257  # blocks after which the chain no longer knows a hash


def test_13_node_registered_after_the_draw__is_not_in_the_round(world: World, ann: Node) -> None:
    """Attack 13: a node is made to fit a seed that is known already."""
    world.open()
    world.chain.send(world.faucet, world.rounds, "capture_seed", world.job)
    late = world.enlist("late")
    world.benchmark(late)
    assert world.chain.call(world.registry, "is_eligible", late.node_id, TRAINER)
    args = (world.job, world.round, late.node_id, b"\1" * 32)
    # The benchmark took a minute; the round waits ten.
    world.chain.refuse("rounds: not expected", late.operator, world.rounds, "commit", *args)
    world.commit(ann)
    world.pass_phase(COMMIT)
    world.reveal(ann)
    propose = (world.job, world.round, late.node_id, *[b"\1" * 32] * 3, [], [])
    world.pass_phase(REVEAL)
    world.chain.refuse(
        "rounds: not on duty", late.operator, world.rounds, "propose_result", *propose
    )
    world.finish({ann: 1})
    assert world.gain(late) == 0
    world.assert_whole({ann: share(1, 1)})


def test_13_stake_added_after_the_draw__does_not_vote(world: World, ann: Node, bob: Node) -> None:
    """Attack 13: vito sees that he can decide this round if only he had more stake, and adds it."""
    vito = world.nodes["vito"]
    world.train(ann, bob)
    world.give(vito.owner, 9_000 * ZOO)
    world.chain.send(vito.owner, world.registry, "add_stake", vito.node_id, 9_000 * ZOO)
    arrays = world.offer({ann: 1, bob: 1})
    report = world.report(bob, INVALID, "vito")
    assert world.chain.call(world.reports, "report_of", report).status == 1
    world.attest("vito")
    finalize = (world.faucet, world.rounds, "finalize", world.job, *arrays)
    world.chain.refuse("rounds: not finalizable", *finalize)
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    world.chain.send(world.faucet, world.reports, "lapse", report)
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_13_seed_taken_early_or_twice__reverts(world: World, ann: Node, eve: Node) -> None:
    """Attack 13: eve wants the seed before it is due, or another one after she has seen it."""
    receipt = world.chain.send(eve.operator, world.rounds, "open_round", world.job)
    world.round = int(world.chain.event(receipt, world.rounds, "RoundOpened")["round_id"])
    capture = (eve.operator, world.rounds, "capture_seed", world.job)
    world.chain.refuse("randomness: too early", *capture)
    world.chain.send(*capture)
    seed = bytes(world.state.seed)
    assert seed != EMPTY
    world.chain.refuse("randomness: not requested", *capture)
    world.chain.refuse("rounds: round open", eve.operator, world.rounds, "open_round", world.job)
    world.chain.mine(FORGOTTEN)
    world.chain.refuse("randomness: not requested", *capture)
    assert bytes(world.state.seed) == seed
    assert world.gain(eve) == 0
    world.assert_whole({ann: 0})


def test_14_seed_nobody_captured__is_drawn_anew_in_a_future_block_only(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 14: everybody is silent until the chain has forgotten the seed's block. The next
    capture pins a block that does not exist yet; the old draw can't be had, nor a second one."""
    world.open()
    old = int(world.state.seed_block)
    world.chain.mine(FORGOTTEN)
    digest = world.commitment(eve, CommittedWork.of("eve"))
    commit = (eve.operator, world.rounds, "commit", world.job, world.round, eve.node_id, digest)
    world.chain.refuse("rounds: seed expired", *commit)
    world.chain.send(eve.operator, world.rounds, "capture_seed", world.job)
    latest = int(world.chain.rpc("eth_blockNumber"), 16)
    assert int(world.state.seed_block) == latest + 1 > old
    assert bytes(world.state.seed) == EMPTY
    world.chain.refuse("randomness: too early", *commit)
    world.commit(ann)
    assert bytes(world.state.seed) != EMPTY
    world.pass_phase(COMMIT)
    world.reveal(ann)
    world.pass_phase(REVEAL)
    world.finish({ann: 1})
    assert world.gain(eve) == 0
    world.assert_whole({ann: share(1, 1)})


def test_14_last_revealer_picks_its_moment__the_audit_is_drawn_after_it(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 14: eve holds her reveal back to choose the audit's seed; its block is the one after
    hers, whenever she comes."""
    world.open()
    for node in (ann, eve):
        world.commit(node)
    world.pass_phase(COMMIT)
    world.reveal(ann)
    assert int(world.state.audit_block) == 0
    receipt = world.reveal(eve)
    assert int(world.state.audit_block) == int(receipt["blockNumber"], 16) + 1
    assert bytes(world.state.audit_seed) == EMPTY
    world.chain.refuse(
        "randomness: too early", eve.operator, world.rounds, "capture_seed", world.job
    )
