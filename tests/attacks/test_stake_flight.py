# SPDX-License-Identifier: Apache-2.0
"""Attack 15: stake that tries to be elsewhere when the slash comes.

Rule: what was at stake when the work was done can be slashed until the work is judged, wherever its
owner moves it; what was added afterwards dilutes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from agents.jobs.publish import ZOO
from tests.stage.chain.people import INVALID, TERMS, TRAINER, Node, People, share

FIFTH = 20 * ZOO


def test_15_exit_between_work_and_verdict__slash_reaches_the_unbonding_stake(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 15: eve exits at the moment the round opens, works badly, and waits for her money."""
    people.open()
    people.chain.send(eve.owner, people.registry, "begin_exit", eve.node_id)
    for node in (ann, eve):
        people.commit(node)
    people.pass_phase(1)
    for node in (ann, eve):
        people.reveal(node)
    arrays = people.offer({ann: 1, eve: 1})
    report = people.report(eve, INVALID, "vic", "vera")
    people.confirm(arrays)
    withdraw = (eve.owner, people.registry, "withdraw", eve.node_id)
    people.chain.refuse("registry: still unbonding", *withdraw)
    people.chain.warp(people.settings.unbonding_period)
    people.chain.refuse("registry: stake locked", *withdraw)
    people.execute(report)
    people.chain.send(*withdraw)
    people.chain.refuse("registry: closed", *withdraw)
    assert people.bonded(eve) == 0
    assert people.gain(eve) == -FIFTH
    people.assert_whole({ann: share(1, 2)})


def test_15_exit_between_report_and_execution__changes_nothing(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 15: eve exits when she sees the confirmed report."""
    report = people.convict(eve, ann)
    people.chain.send(eve.owner, people.registry, "begin_exit", eve.node_id)
    people.execute(report)
    people.chain.warp(people.settings.unbonding_period)
    people.chain.send(eve.owner, people.registry, "withdraw", eve.node_id)
    assert people.gain(eve) == -FIFTH
    people.assert_whole({ann: share(1, 2)})


def test_15_exit_first__no_seat_in_the_round(people: People, ann: Node, eve: Node) -> None:
    """Attack 15: eve wants to work with stake that is already on its way out."""
    people.chain.send(eve.owner, people.registry, "begin_exit", eve.node_id)
    opened = people.open()
    assert eve.node_id not in opened["nodes"]
    args = (*people.place, eve.node_id, b"\1" * 32)
    people.chain.refuse("rounds: not expected", eve.operator, people.rounds, "commit", *args)
    assert people.gain(eve) == 0


def test_15_job_longer_than_unbonding__is_refused(people: People, eve: Node, tiny) -> None:
    """Attack 15: eve sponsors a job whose judgement comes after her stake has left."""
    day = 86_400
    slow = replace(TERMS, appeal_s=8 * day).encode(tiny.published)
    people.chain.refuse(
        "jobs: windows exceed unbonding", eve.owner, people.jobs, "create_job", slow
    )
    assert people.gain(eve) == 0


def test_15_stake_added_after_the_offence__neither_dilutes_nor_hides_it(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 15: eve floods the ring of remembered additions between offence and slash. A 17th
    addition is refused, so none is forgotten, and none is at risk."""
    report = people.convict(eve, ann)
    add = (eve.owner, people.registry, "add_stake", eve.node_id, ZOO)
    for _ in range(16):
        people.chain.send(*add)
    people.chain.refuse("registry: too many additions", *add)
    people.execute(report)
    assert people.gain(eve) == -FIFTH
    people.assert_whole({ann: share(1, 2)})


def test_15_new_operator_and_payout__the_slash_still_finds_the_node(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 15: eve changes every address she can between work and verdict."""
    report = people.convict(eve, ann)
    fresh = people.person("fresh")
    people.chain.send(
        eve.owner,
        people.registry,
        "set_operator",
        eve.node_id,
        fresh.address,
        people.consent(fresh, eve.owner),
    )
    people.chain.send(eve.owner, people.registry, "set_payout", eve.node_id, fresh.address)
    people.chain.send(eve.owner, people.registry, "set_active", eve.node_id, False)
    people.execute(report)
    assert people.gain(eve, fresh) == -FIFTH
    people.assert_whole({ann: share(1, 2)})


def test_15_slashed_node_registers_again__starts_without_benchmark_and_has_lost_its_stake(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 15: eve throws the marked node away and takes a new one. She waits out the unbonding
    period, and needs a new stake and a new benchmark before anything is earned."""
    report = people.convict(eve, ann)
    people.execute(report)
    again = people.enlist("again")
    assert not people.chain.call(people.registry, "is_eligible", again.node_id, TRAINER)
    assert people.gain(eve, again) == -FIFTH
