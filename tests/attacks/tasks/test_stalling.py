# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks: silence, stalling, flight, and receivers that refuse.

Rule: whoever is drawn answers in time or pays what a lost comparison costs; every step that
somebody may be silent about is open to anyone; and stake that was drawn stays until the task is
over.
"""

from __future__ import annotations

import pytest

from agents.jobs.publish import ZOO
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import MAX_OPEN
from tests.attacks.test_accounting import REVERTING
from tests.stage.chain.chain import Refused
from tests.stage.chain.people import Node
from tests.stage.chain.tasks import (
    ABORT,
    AGREED,
    BOND,
    CLOSED,
    DECIDED,
    DRAWING,
    FAKE,
    FEE,
    FIFTH,
    HALF,
    HELD,
    MISMATCH,
    RIGHT,
    RUN_S,
    SPEC,
    Tasks,
)

SPARE_S = 60  # before a deadline: the clock runs on while transactions are sent


def test_last_to_reveal_keeps_silent__pays_as_if_it_had_lost(tasks: Tasks) -> None:
    """The cheat sees by the first tag that its fake will lose, and does not reveal. That costs what
    losing costs; another is drawn in its place, and the honest one is paid."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.started()
    tasks.commit(task, honest)
    tasks.commit(task, cheat, FAKE)
    tasks.reveal(task, honest)
    chain.refuse("tasks: not over", honest.operator, people.tasks, "advance", task)
    people.wait_until(int(tasks.state(task).time))
    late = tasks.opening(task, cheat, FAKE)
    chain.refuse("tasks: too late", cheat.operator, people.tasks, "reveal", *late)
    tasks.advance(task)
    assert tasks.status(task) == DRAWING
    winners = tasks.honest(task)
    assert honest in winners
    tasks.settle([cheat], winners, gain=-FIFTH, each=HALF)


def test_third_to_reveal_keeps_silent__saves_nobody(tasks: Tasks) -> None:
    """The tie-breaker is the cheat's friend: the right result would slash the cheat, so it stays
    silent. It pays as much itself, and the next one decides."""
    task, honest, cheat = tasks.played(RIGHT, FAKE)
    (friend,) = tasks.draw(task)
    tasks.commit(task, friend)
    tasks.advance(task)
    fourth = tasks.break_tie(task)
    tasks.settle([cheat, friend], [honest, fourth], gain=-2 * FIFTH, each=HALF)


def test_abort_made_cheaper_than_losing__is_refused_to_the_governance(tasks: Tasks) -> None:
    """Three bought members of the committee would make silence cheaper than a lost comparison, in
    any column, or losing dearer than silence. The table refuses; the cheat has paid for gas."""
    people, chain = tasks.people, tasks.chain
    eve = people.nodes["eve"]
    abort = tuple(chain.call(people.registry, "penalty", ABORT))
    mismatch = tuple(chain.call(people.registry, "penalty", MISMATCH))
    bps, escalation, suspension, strike, ban, reporter = abort
    rows = [
        (ABORT, (bps - 1, escalation, suspension, strike, ban, reporter)),
        (ABORT, (bps, escalation, suspension - 1, strike, ban, reporter)),
        (ABORT, (bps, escalation, suspension, False, ban, reporter)),
        (MISMATCH, (bps + 1, *mismatch[1:])),
        (MISMATCH, (bps, escalation + 1, *mismatch[2:])),
        (MISMATCH, (*mismatch[:4], True, mismatch[5])),
    ]
    ids = [people.propose((people.registry, "set_penalty", row)) for row in rows]
    for op_id in ids:
        for member in (1, 2):
            chain.send(people.members[member], people.coordinator, "approve", op_id)
    chain.warp(people.settings.governance_delay)
    for op_id in ids:
        reason = "penalties: abort below mismatch"
        chain.refuse(reason, eve.operator, people.coordinator, "execute", op_id)
    assert tuple(chain.call(people.registry, "penalty", ABORT)) == abort
    assert tuple(chain.call(people.registry, "penalty", MISMATCH)) == mismatch
    tasks.settle([eve])


def test_creator_is_never_seen_again__anyone_finalizes_and_the_nodes_are_paid(tasks: Tasks) -> None:
    """A creator that would rather not pay does nothing more, or tries whatever there is to try. Two
    who agree are paid at once; a decided task is ended by a stranger; and the money is there."""
    people, chain, creator = tasks.people, tasks.chain, tasks.creator
    task, first, second = tasks.started()
    chain.refuse("tasks: not over", creator, people.tasks, "advance", task)
    chain.refuse("tasks: not decided", creator, people.tasks, "finalize", task)
    chain.refuse("tasks: not appeals", creator, people.tasks, "begin_appeal", task)
    chain.refuse("tasks: not appeals", creator, people.tasks, "end_appeal", task, DECIDED, True)
    tasks.answer(task, {first: RIGHT, second: RIGHT})
    assert tasks.status(task) == AGREED
    for node in (first, second):
        chain.send(node.payout, people.tasks, "withdraw_bond")
    chain.refuse("bonds: nothing to withdraw", creator, people.tasks, "withdraw_bond")

    decided, cheat, two = tasks.outvoted()
    chain.refuse("tasks: appeal window open", creator, people.tasks, "finalize", decided)
    tasks.finalize(decided)
    chain.refuse("tasks: not decided", creator, people.tasks, "finalize", decided)
    tasks.settle(
        [creator], [node for node in {first, second, *two} if node != cheat], gain=-2 * FEE
    )


@pytest.mark.parametrize("run_s", [0, 1, 59])
def test_creator_gives_no_time_to_run__is_refused(tasks: Tasks, run_s: int) -> None:
    """A task of one second would cost a thousandth of a ZOO, and each of up to five executors a
    fifth of its stake, as none could commit in time; the fee would come back, as nobody agreed."""
    people, creator = tasks.people, tasks.creator
    args = (0, SPEC, FEE, run_s)
    tasks.chain.refuse("tasks: bad run time", creator, people.tasks, "create_task", *args)
    tasks.settle([creator])


def test_creator_gives_the_least_time__executors_still_make_it(tasks: Tasks) -> None:
    """The same with the minute that is allowed, for the least fee: whoever sees the draw answers,
    if only by the refusal that the task deserves, and is paid."""
    fee = 60 * tasks.people.settings.tasks.fee_per_s
    task = tasks.create(fee=fee, run_s=60)
    winners = tasks.draw(task)
    tasks.chain.warp(20)
    tasks.answer(task, dict.fromkeys(winners, RIGHT))
    tasks.settle([tasks.creator], winners, gain=-fee, each=fee // 2)


def test_creator_names_inputs_that_nobody_has__pays_the_rent_and_hurts_nobody(tasks: Tasks) -> None:
    """A spec whose inputs exist nowhere would cost every executor a fifth of its stake for its
    silence. They say that the inputs can't be had: two who agree end the task. The creator pays the
    treasury for the time, and has the rest of its fee back; nothing is left to appeal when the
    inputs turn up later."""
    people, creator = tasks.people, tasks.creator
    task, first, second = tasks.played(UNAVAILABLE, UNAVAILABLE)
    assert tasks.status(task) == CLOSED
    appeal = (creator, people.appeals, "appeal", task)
    tasks.chain.refuse("tasks: nothing to appeal", *appeal)
    people.assert_whole({first: 0, second: 0})
    tasks.settle([creator], gain=-RUN_S * people.settings.tasks.fee_per_s)


def test_cheat_says_that_inputs_cannot_be_had__earns_nothing_and_loses_alone(tasks: Tasks) -> None:
    """The lazy answer: it takes no work. Among friends it pays nobody; beside somebody who has the
    result it loses the comparison like any other."""
    pair, one, two = tasks.started()
    tasks.answer(pair, {one: UNAVAILABLE, two: UNAVAILABLE})
    assert tasks.gain(one, two) == 0

    task, honest, cheat, third = tasks.played(RIGHT, UNAVAILABLE, RIGHT)
    tasks.finalize(task)
    tasks.settle([cheat], [honest, third], gain=-FIFTH, each=HALF)


def test_two_say_so_against_a_result__end_the_task_and_win_nothing(tasks: Tasks) -> None:
    """Two of the first three are in league and say that the inputs can't be had, though the third
    has the result. The task ends as if they were right: nobody can know what could be had then.
    The honest executor is not paid and the creator pays the rent, which is what this attack can
    do; it is not slashed, the rest is the creator's again, and the two have won nothing."""
    task, honest, first, second = tasks.played(RIGHT, UNAVAILABLE, UNAVAILABLE)
    assert tasks.status(task) == CLOSED
    people = tasks.people
    people.assert_whole({honest: 0})
    rent = RUN_S * people.settings.tasks.fee_per_s
    tasks.settle([tasks.creator, first, second], gain=-rent)


def test_inputs_served_to_the_framers_only__an_appeal_finds_no_verdict_and_no_slash(
    tasks: Tasks,
) -> None:
    """The creator serves its two friends and not the victim, which says so and is outvoted. It
    appeals; the verifiers can't have the inputs either, and may not attest that. The appeal
    lapses: the victim keeps its stake and has its bond back. If the inputs turn up within the
    window it loses: what could be had, and by whom, no chain can say. Rests on: executors and
    verifiers pass on what they have."""
    people, chain = tasks.people, tasks.chain
    task, victim, first, second = tasks.played(UNAVAILABLE, FAKE, FAKE)
    tasks.appeal(task, victim.owner)
    vic = people.nodes["vic"]
    attestation = tasks.attestation(task, vic, UNAVAILABLE)
    chain.refuse("appeals: no result", vic.operator, people.appeals, "attest", *attestation)
    people.wait_until(int(chain.call(people.appeals, "appeal_of", task).deadline))
    chain.send(people.faucet, people.appeals, "lapse", task)
    people.assert_whole({victim: 0})
    tasks.settle([tasks.creator, first, second], gain=0)


def test_receiver_that_always_reverts__blocks_nobody(tasks: Tasks) -> None:
    """The cheat's rewards go to a contract that refuses everything, to stop the payment that would
    close the task. Nothing is pushed: the others are paid, its own half waits forever, and when
    it is found out the slash reaches it."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.started()
    trap = chain.transact(cheat.owner, None, REVERTING)["contractAddress"]
    assert int(chain.transact(cheat.owner, trap)["status"], 16) == 0
    chain.send(cheat.owner, people.registry, "set_payout", cheat.node_id, trap)
    tasks.answer(task, {honest: RIGHT, cheat: RIGHT})
    assert tasks.status(task) == AGREED
    assert chain.call(people.tasks, "bond_credit", trap) == HALF
    chain.send(honest.payout, people.tasks, "withdraw_bond")
    people.assert_whole({honest: HALF, cheat: 0})
    tasks.settle([cheat], [honest])


def test_framers_whose_receiver_reverts__are_slashed_all_the_same(tasks: Tasks) -> None:
    """The same in an appeal: two colluders with such receivers can stop neither the verdict nor
    what the victim is due."""
    people, chain = tasks.people, tasks.chain
    task, victim, first = tasks.played(RIGHT, FAKE)
    (second,) = tasks.draw(task)
    for node in (first, second):
        trap = chain.transact(node.owner, None, REVERTING)["contractAddress"]
        chain.send(node.owner, people.registry, "set_payout", node.node_id, trap)
    tasks.answer(task, {second: FAKE})
    tasks.appeal(task, victim.owner)
    tasks.judge(task)
    chain.send(victim.owner, people.appeals, "withdraw_bond")
    chain.send(victim.payout, people.appeals, "withdraw_bond")
    tasks.settle([first, second], [victim], gain=-2 * HELD)


@pytest.mark.parametrize("trap", ["TaskAppeals", "RedundantTasks"])
def test_framers_paid_to_a_contract_of_ours__leave_the_verdict_its_money(
    tasks: Tasks, trap: str
) -> None:
    """No reporter's share is paid on a slash of the reporter's own node. So the framers name
    TaskAppeals itself their payout, to leave it nothing that could make the victim whole. A
    slasher that reports for itself is nobody's own."""
    people, chain = tasks.people, tasks.chain
    task, victim, first = tasks.played(RIGHT, FAKE)
    (second,) = tasks.draw(task)
    address = people.contracts[trap].address
    for node in (first, second):
        chain.send(node.owner, people.registry, "set_payout", node.node_id, address)
    tasks.answer(task, {second: FAKE})
    tasks.appeal(task, victim.owner)
    tasks.judge(task)
    assert tasks.gain(first, second) == -2 * HELD
    assert people.gain(victim) == HELD - BOND
    tasks.settle([first, second], [victim, people.nodes["vic"], people.nodes["vera"]])


def test_exit_after_the_fake__the_slash_reaches_the_unbonding_stake(tasks: Tasks) -> None:
    """The cheat fakes, exits the registry in the next block and waits for its stake. The slash
    comes first: all windows of a task together are at most half of the unbonding period."""
    people, chain = tasks.people, tasks.chain
    task, cheat, honest = tasks.started()
    tasks.commit(task, cheat, FAKE)
    chain.send(cheat.owner, people.registry, "begin_exit", cheat.node_id)
    tasks.commit(task, honest)
    tasks.reveal(task, cheat, FAKE)
    tasks.reveal(task, honest)
    (third,) = tasks.draw(task)
    tasks.answer(task, {third: RIGHT})
    withdraw = (cheat.owner, people.registry, "withdraw", cheat.node_id)
    chain.refuse("registry: still unbonding", *withdraw)
    tasks.finalize(task)
    chain.warp(people.settings.unbonding_period)
    chain.send(*withdraw)
    assert people.bonded(cheat) == 0
    tasks.settle([cheat], [honest, third], gain=-FIFTH, each=HALF)


def test_every_step_as_late_as_can_be__is_still_before_the_stake_leaves(tasks: Tasks) -> None:
    """The cheats begin to exit when they are drawn, and their friends use up every window: silent
    lanes to the end, an appeal in its last minute, a verdict in its last. Both pay all the same.
    The withdrawal comes days later."""
    people, chain = tasks.people, tasks.chain
    task, victim, first = tasks.started()
    began = chain.now
    chain.send(first.owner, people.registry, "begin_exit", first.node_id)
    tasks.commit(task, victim)
    people.wait_until(int(tasks.state(task).time) - SPARE_S)
    tasks.commit(task, first, FAKE)
    people.wait_until(int(tasks.state(task).time) - SPARE_S)
    tasks.reveal(task, victim)
    tasks.reveal(task, first, FAKE)
    silent = []
    for _ in range(2):
        silent += tasks.draw(task)
        tasks.advance(task)
    (second,) = tasks.draw(task)
    chain.send(second.owner, people.registry, "begin_exit", second.node_id)
    people.wait_until(int(tasks.state(task).time) - SPARE_S)
    tasks.commit(task, second, FAKE)
    tasks.reveal(task, second, FAKE)
    people.wait_until(int(tasks.state(task).time) - SPARE_S)
    tasks.appeal(task, victim.owner)
    people.wait_until(int(chain.call(people.appeals, "appeal_of", task).deadline) - SPARE_S)
    tasks.judge(task)
    assert chain.now - began < people.settings.unbonding_period // 2
    tasks.settle([first, second, *silent], [victim], gain=-2 * HELD - 2 * FIFTH)


def test_stake_on_its_way_out__is_not_drawn(tasks: Tasks) -> None:
    """A cheat wants to fake with stake that leaves before a verdict can come. It exits and keeps
    its seat until there is less than a task's length left; the seed names its seat first, and the
    draw passes it over. It has no way back to a seat."""
    people, chain = tasks.people, tasks.chain
    cheat = tasks.executors[0]
    chain.send(cheat.owner, people.registry, "begin_exit", cheat.node_id)
    chain.warp(people.settings.unbonding_period - 3_600)
    size, place = tasks.size(), tasks.seat(cheat)
    task = tasks.wait_for(tasks.create, lambda new: tasks.places(new, size)[0] == place)
    winners = tasks.honest(task)
    assert cheat not in winners
    chain.send(people.faucet, people.tasks, "evict", cheat.node_id)
    chain.mine(300)
    join = (cheat.operator, people.tasks, "join", cheat.node_id, 0)
    chain.refuse("executors: too little stake", *join)
    tasks.settle([cheat], winners, gain=0, each=HALF)


def test_key_changed_between_commitment_and_slash__the_slash_finds_the_node(tasks: Tasks) -> None:
    """The cheat changes operator and payout and rests its node after it faked."""
    people, chain = tasks.people, tasks.chain
    fresh = people.person("fresh")
    tasks.watch(fresh)
    task, cheat, two = tasks.outvoted()
    signed = people.consent(fresh, cheat.owner)
    chain.send(cheat.owner, people.registry, "set_operator", cheat.node_id, fresh.address, signed)
    chain.send(cheat.owner, people.registry, "set_payout", cheat.node_id, fresh.address)
    chain.send(cheat.owner, people.registry, "set_active", cheat.node_id, False)
    tasks.finalize(task)
    tasks.settle([cheat, fresh], two, gain=-FIFTH, each=HALF)


def test_stake_added_after_the_fake__neither_dilutes_nor_hides_it(tasks: Tasks) -> None:
    """The cheat adds stake between fake and slash, to be slashed by a share of more, or less."""
    people, chain = tasks.people, tasks.chain
    task, cheat, two = tasks.outvoted()
    chain.warp(60)
    for _ in range(3):
        chain.send(cheat.owner, people.registry, "add_stake", cheat.node_id, ZOO)
    tasks.finalize(task)
    tasks.settle([cheat], two, gain=-FIFTH, each=HALF)


def test_leaving_all_at_once__costs_a_fifth_each_and_the_seat(tasks: Tasks) -> None:
    """A node that leaves whenever it has no friend in the task has two tasks at most to leave. That
    costs a fifth of what it has, twice; then it is suspended, has too little stake to be drawn, and
    one strike is left before the rest goes."""
    people = tasks.people
    cheat = tasks.executors[0]
    running = []
    for _ in range(MAX_OPEN):
        task = tasks.wait_for(tasks.create, lambda new: cheat in tasks.expected(new))
        for node in tasks.draw(task):
            if node != cheat:
                tasks.commit(task, node)
        running.append(task)
    paid: set[Node] = set()
    for task in running:
        tasks.advance(task)
        paid |= set(tasks.honest(task))
    state = tasks.chain.call(people.registry, "node", cheat.node_id)
    assert (state.strikes, state.banned) == (MAX_OPEN, False)
    assert people.bonded(cheat) * 25 == cheat.stake * 16
    tasks.chain.send(people.faucet, people.tasks, "evict", cheat.node_id)
    tasks.settle(
        [cheat],
        sorted(paid, key=lambda node: node.node_id),
        gain=people.bonded(cheat) - cheat.stake,
    )


def test_paused_creation__holds_up_no_money(tasks: Tasks) -> None:
    """Bought members of the committee pause what can be paused while a task waits for its end:
    creating new ones, and nothing else. The task ends, its executors draw their pay and leave."""
    people, chain = tasks.people, tasks.chain
    bought = people.members[0]
    tasks.watch(bought)
    task, cheat, two = tasks.outvoted()
    people.decide((people.tasks, "set_paused", (1,)))
    with pytest.raises(Refused, match="pausing: unknown bit"):
        people.decide((people.tasks, "set_paused", (2,)))
    args = (0, SPEC, FEE, RUN_S)
    chain.refuse("pausing: paused", tasks.creator, people.tasks, "create_task", *args)
    tasks.finalize(task)
    for node in two:
        chain.send(node.payout, people.tasks, "withdraw_bond")
        tasks.leave(node)
    tasks.settle([cheat, bought], two, each=HALF)
