# SPDX-License-Identifier: Apache-2.0
"""Attacks 1, 2 and 6: copied commitments, replayed commitments, withheld reveals.

Rule: a commitment is worth something to its author, in its round, and to nobody and nowhere else.
"""

from __future__ import annotations

import pytest

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import COMMIT, NO_REVEAL, REVEAL, CommittedWork, Node, World, share

SILENCE = 5 * ZOO  # 5 % of the least stake
BOUNTY = SILENCE // 10


def slash_silent(world: World, node: Node, name: str = "watcher") -> None:
    """An outsider makes the node pay for its silence."""
    watcher = world.person(name)
    world.chain.send(
        watcher, world.rounds, "slash_unrevealed", world.job, world.round, node.node_id
    )
    assert world.gain(watcher) > 0


def test_1_copied_commitment__cannot_be_opened_and_costs_the_copier(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 1: eve copies ann's commitment out of the mempool, and her opening too."""
    world.open()
    stolen = world.commitment(ann, CommittedWork.of("ann"))
    world.commit(eve, digest=stolen)
    world.commit(ann)
    world.commit(bob)
    world.pass_phase(COMMIT)
    opening = (world.job, world.round, eve.node_id, *world.opening(ann)[3:])
    world.chain.refuse("rounds: bad opening", eve.operator, world.rounds, "reveal", *opening)
    for thief in (eve.operator, eve.owner):
        world.chain.refuse(
            "rounds: bad opening", thief, world.rounds, "reveal", *world.opening(ann)
        )
    world.reveal(ann)
    world.reveal(bob)
    world.chain.refuse("rounds: bad opening", eve.operator, world.rounds, "reveal", *opening)
    world.pass_phase(REVEAL)
    slash_silent(world, eve)
    world.finish({ann: 4, bob: 4})

    assert world.gain(eve) == -SILENCE
    world.assert_whole({ann: share(4, 8), bob: share(4, 8)})


def test_1_commitment_in_the_victims_name__reverts(world: World, ann: Node, eve: Node) -> None:
    """Attack 1: eve commits for ann, so that ann has to answer for it."""
    world.open()
    stolen = world.commitment(ann, CommittedWork.of("ann"))
    args = (world.job, world.round, ann.node_id, stolen)
    world.chain.refuse("rounds: not operator", eve.operator, world.rounds, "commit", *args)
    assert world.gain(eve) == 0
    world.assert_whole({ann: 0})


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"round": 1},
        {"job": 2},
        {"chain": 1},
        {"rounds": "0x" + "77" * 20},
        {"node": 1},
        {"operator": "0x" + "88" * 20},
    ],
    ids=lambda change: next(iter(change)),
)
def test_2_work_replayed_from_elsewhere__cannot_be_opened_and_costs_its_stake(
    world: World, ann: Node, eve: Node, elsewhere: dict[str, object]
) -> None:
    """Attack 2: eve did the work once and commits to it again in another round, job, chain,
    contract, node or key."""
    world.train(ann, eve)
    world.finish({ann: 1, eve: 1})
    before = world.wealth(eve)
    paid = world.gain(ann)

    world.open()
    world.commit(ann)
    world.commit(eve, digest=world.commitment(eve, CommittedWork.of("eve"), **elsewhere))
    world.pass_phase(COMMIT)
    world.reveal(ann)
    world.chain.refuse(
        "rounds: bad opening", eve.operator, world.rounds, "reveal", *world.opening(eve)
    )
    world.pass_phase(REVEAL)
    slash_silent(world, eve)
    world.finish({ann: 1})

    assert world.wealth(eve) - before == -SILENCE
    world.assert_whole({ann: paid + share(1, 1)})


def test_2_second_or_late_commitment__reverts(world: World, ann: Node, eve: Node) -> None:
    """Attack 2: eve waits for what others do, or changes her mind."""
    world.open()
    world.commit(ann)
    world.commit(eve)
    digest = world.commitment(eve, CommittedWork.of("something better"))
    args = (world.job, world.round, eve.node_id, digest)
    world.chain.refuse("rounds: already committed", eve.operator, world.rounds, "commit", *args)
    world.pass_phase(COMMIT)
    world.chain.refuse("rounds: not in commit", eve.operator, world.rounds, "commit", *args)
    world.reveal(ann)
    world.pass_phase(REVEAL)
    world.chain.refuse(
        "rounds: not in reveal", eve.operator, world.rounds, "reveal", *world.opening(eve)
    )
    slash_silent(world, eve)
    world.finish({ann: 1})
    assert world.gain(eve) == -SILENCE
    world.assert_whole({ann: share(1, 1)})


def test_2_commitment_after_the_deadline_before_anyone_moved_on__reverts(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 2: the phase is COMMIT in storage, but its time is over."""
    world.open()
    world.commit(ann)
    world.wait_until(int(world.state.deadline))
    args = (world.job, world.round, eve.node_id, world.commitment(eve, CommittedWork.of("eve")))
    world.chain.refuse("rounds: too late", eve.operator, world.rounds, "commit", *args)
    assert world.gain(eve) == 0


def test_6_bad_work_withheld__is_worse_than_not_taking_part(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 6: eve commits to bad work and keeps silent when the audit worries her.

    The audit is drawn only after REVEAL, so silence never answers a draw: it always costs 5 %, more
    each time, where not committing costs nothing and the share of honest work was there to be had.
    Her second address takes the bounty of telling on herself: she still loses.
    """
    accomplice = key_of("accomplice of eve")
    world.person("accomplice of eve")
    losses = []
    for _ in range(2):
        before = world.wealth(eve, accomplice)
        paid = world.wealth(ann)
        world.open()
        for node in (ann, bob, eve):
            if world.chain.call(world.rounds, "is_expected", world.job, world.round, node.node_id):
                world.commit(node)
        world.pass_phase(COMMIT)
        assert bytes(world.state.audit_seed) == bytes(32) and world.state.audit_block == 0
        world.reveal(ann)
        world.reveal(bob)
        world.pass_phase(REVEAL)
        args = (world.job, world.round, eve.node_id)
        world.chain.send(accomplice, world.rounds, "slash_unrevealed", *args)
        world.chain.refuse(
            "rounds: already slashed", accomplice, world.rounds, "slash_unrevealed", *args
        )
        world.finish({ann: 1, bob: 1})
        losses.append(world.wealth(eve, accomplice) - before)
        assert world.wealth(ann) - paid == share(1, 2)
        world.give(eve.owner, 100 * ZOO)
        world.chain.send(eve.owner, world.registry, "add_stake", eve.node_id, 100 * ZOO)

    assert losses[0] == -(SILENCE - BOUNTY)
    assert losses[1] < losses[0] < 0
    assert world.chain.call(world.registry, "offences", eve.node_id, NO_REVEAL) == 2
    assert world.bonded(ann) == ann.stake and world.bonded(bob) == bob.stake
