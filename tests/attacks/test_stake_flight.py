# SPDX-License-Identifier: Apache-2.0
"""Attack 15: stake that tries to be elsewhere when the slash comes.

Rule: what was at stake when the work was done can be slashed until the work is judged, wherever its
owner moves it; what was added afterwards dilutes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from agents.jobs.publish import ZOO
from tests.stage.chain.people import (
    INVALID,
    TERMS,
    TRAINER,
    Node,
    World,
    share,
)

FIFTH = 20 * ZOO


def bad_round(world: World, eve: Node, *honest: Node) -> bytes:
    """A finalized round in which eve's work was found invalid; her report, not executed yet."""
    world.train(*honest, eve)
    arrays = world.offer(dict.fromkeys((*honest, eve), 1))
    report = world.report(eve, INVALID, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    return report


def test_15_exit_between_work_and_verdict__slash_reaches_the_unbonding_stake(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 15: eve exits at the moment the round opens, works badly, and waits for her money."""
    world.open()
    world.chain.send(eve.owner, world.registry, "begin_exit", eve.node_id)
    for node in (ann, eve):
        world.commit(node)
    world.pass_phase(1)
    for node in (ann, eve):
        world.reveal(node)
    arrays = world.offer({ann: 1, eve: 1})
    report = world.report(eve, INVALID, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    withdraw = (eve.owner, world.registry, "withdraw", eve.node_id)
    world.chain.refuse("registry: still unbonding", *withdraw)
    world.chain.warp(world.settings.unbonding_period)
    world.chain.refuse("registry: stake locked", *withdraw)
    world.execute(report)
    world.chain.send(*withdraw)
    world.chain.refuse("registry: closed", *withdraw)
    assert world.bonded(eve) == 0
    assert world.gain(eve) == -FIFTH
    world.assert_whole({ann: share(1, 1)})


def test_15_exit_between_report_and_execution__changes_nothing(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 15: eve exits when she sees the confirmed report."""
    report = bad_round(world, eve, ann)
    world.chain.send(eve.owner, world.registry, "begin_exit", eve.node_id)
    world.execute(report)
    world.chain.warp(world.settings.unbonding_period)
    world.chain.send(eve.owner, world.registry, "withdraw", eve.node_id)
    assert world.gain(eve) == -FIFTH
    world.assert_whole({ann: share(1, 1)})


def test_15_exit_first__no_seat_in_the_round(world: World, ann: Node, eve: Node) -> None:
    """Attack 15: eve wants to work with stake that is already on its way out."""
    world.chain.send(eve.owner, world.registry, "begin_exit", eve.node_id)
    opened = world.open()
    assert eve.node_id not in opened["nodes"]
    args = (world.job, world.round, eve.node_id, b"\1" * 32)
    world.chain.refuse("rounds: not expected", eve.operator, world.rounds, "commit", *args)
    assert world.gain(eve) == 0


def test_15_job_longer_than_unbonding__is_refused(world: World, eve: Node, tiny) -> None:
    """Attack 15: eve sponsors a job whose judgement comes after her stake has left."""
    day = 86_400
    slow = replace(TERMS, appeal_s=8 * day).encode(tiny.published)
    world.chain.refuse(
        "rounds: windows exceed unbonding", eve.owner, world.rounds, "create_job", slow
    )
    assert world.gain(eve) == 0


def test_15_stake_added_after_the_offence__neither_dilutes_nor_hides_it(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 15: eve floods the ring of remembered additions between offence and slash. What the
    ring forgets counts as if it had been there all along: the flood only costs her."""
    world.train(ann, eve)
    arrays = world.offer({ann: 1, eve: 1})
    report = world.report(eve, INVALID, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    forgotten = 4
    for _ in range(16 + forgotten):
        world.chain.send(eve.owner, world.registry, "add_stake", eve.node_id, ZOO)
    world.execute(report)
    assert world.gain(eve) == -FIFTH - forgotten * ZOO // 5
    world.assert_whole({ann: share(1, 1)})


def test_15_new_operator_and_payout__the_slash_still_finds_the_node(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 15: eve changes every address she can between work and verdict."""
    report = bad_round(world, eve, ann)
    fresh = world.person("fresh")
    world.chain.send(eve.owner, world.registry, "set_operator", eve.node_id, fresh.address)
    world.chain.send(eve.owner, world.registry, "set_payout", eve.node_id, fresh.address)
    world.chain.send(eve.owner, world.registry, "set_active", eve.node_id, False)
    world.execute(report)
    assert world.gain(eve, fresh) == -FIFTH
    world.assert_whole({ann: share(1, 1)})


def test_15_slashed_node_registers_again__starts_without_benchmark_and_has_lost_its_stake(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 15: eve throws the marked node away and takes a new one. She waits out the unbonding
    period, and needs a new stake and a new benchmark before anything is earned."""
    report = bad_round(world, eve, ann)
    world.execute(report)
    again = world.enlist("again")
    assert not world.chain.call(world.registry, "is_eligible", again.node_id, TRAINER)
    assert world.gain(eve, again) == -FIFTH
