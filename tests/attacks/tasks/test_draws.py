# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks: choosing who runs a task instead of being drawn.

Rule: the pool is taken as it was before the request, the seed is a block that did not exist then,
and no two executors of a task have one owner, nor the creator's.
"""

from __future__ import annotations

import pytest

from tests.stage.chain.people import Node
from tests.stage.chain.tasks import (
    AGREED,
    DRAWING,
    FAKE,
    FEE,
    FIFTH,
    HALF,
    HELD,
    RIGHT,
    RUN_S,
    SPEC,
    UNDECIDED,
    Tasks,
)

COOLDOWN = 260
DAY = 86_400
FORGOTTEN = 257  # blocks after which the chain no longer knows a hash
MAX_OPEN = 2


def test_creator_grinds_for_two_sybils_and_a_victim__learns_the_draw_when_it_has_paid(
    tasks: Tasks,
) -> None:
    """Crynux's defect 1: the creator tries ids and times until two sybils and a victim come out.
    Here neither a call nor a simulated transaction tells the draw before the fee is in and a
    further block is mined; what came out wrong can't be cancelled, and honest nodes are paid."""
    people, chain = tasks.people, tasks.chain
    grinder = people.person("grinder", 4 * FEE)
    tasks.watch(grinder)
    draws, paid = [], []
    for attempt in range(4):
        chain.warp(attempt)
        task = tasks.create(grinder)
        assert tasks.expected(task) == []
        chain.refuse("tasks: too early", grinder, people.tasks, "draw", task)
        draws.append([node.name for node in tasks.draw(task)])
        chain.refuse("tasks: not drawing", grinder, people.tasks, "draw", task)
        chain.refuse("tasks: not over", grinder, people.tasks, "advance", task)
        paid += tasks.honest(task)
    assert len(paid) == 8
    tasks.settle([grinder], list(set(paid)), gain=-4 * FEE)


def test_task_ids_of_one_block__have_draws_of_their_own(tasks: Tasks) -> None:
    """The grinder orders many tasks at once, so that one seed block serves them all. Each id has
    its own seed: the draws are as independent as those of different blocks, at a fee each."""
    people, chain = tasks.people, tasks.chain
    grinder = people.person("grinder", 8 * FEE)
    tasks.watch(grinder)
    create = people.tasks.function("create_task", 4).encode((0, SPEC, FEE, RUN_S))
    with tasks.mempool():
        for _ in range(8):
            chain.submit(grinder, people.tasks.address, create)
    chain.mine(2)
    count = int(chain.call(people.tasks, "task_count"))
    fresh = range(count - 7, count + 1)
    assert len({tasks.state(task).seed_block for task in fresh}) == 1
    orders = [tuple(tasks.places(task, len(tasks.executors), 8)) for task in fresh]
    assert len(set(orders)) == 8
    paid = [node for task in fresh for node in tasks.honest(task)]
    tasks.settle([grinder], list(set(paid)), gain=-8 * FEE)


def test_creator_owns_seats__its_nodes_are_never_drawn(tasks: Tasks) -> None:
    """The creator sits in its own pool, to earn its fee back and see the others' results. The seed
    names its seat first, and it is passed over; its operator key may not create at all."""
    people, chain = tasks.people, tasks.chain
    own = tasks.executors[0]
    args = (0, SPEC, FEE, RUN_S)
    people.give(own.operator, FEE)
    tasks.watch(own)
    chain.refuse("tasks: operator", own.operator, people.tasks, "create_task", *args)
    size, place = tasks.size(), tasks.seat(own)
    task = tasks.wait_for(
        lambda: tasks.create(own.owner), lambda new: tasks.places(new, size)[0] == place
    )
    winners = tasks.honest(task)
    assert own not in winners
    tasks.settle([own], winners, gain=-FEE, each=HALF)


def test_one_owner_with_three_seats__never_meets_itself(tasks: Tasks) -> None:
    """Eve runs three nodes under one owner key, a third of the pool. The seed names two of them
    first: one is taken. She fakes; the tie-break's seed names another one of hers: not taken."""
    eve = tasks.people.nodes["eve"]
    mine = [eve, *(tasks.enlist(name, owner=eve.owner) for name in ("eve two", "eve three"))]
    for node in mine:
        tasks.join(node)
    tasks.watch(*mine)
    seats, size = {tasks.seat(node) for node in mine}, tasks.size()

    def two_of_mine(new: int) -> bool:
        first, second = tasks.places(new, size)[:2]
        return first != second and {first, second} <= seats

    task = tasks.wait_for(tasks.create, two_of_mine)
    cheat, honest = tasks.draw(task)
    assert cheat in mine and honest not in mine

    def differ() -> int:
        tasks.answer(task, {cheat: FAKE, honest: RIGHT})
        return task

    tasks.wait_for(differ, lambda _: tasks.places(task, size)[0] in seats)
    (third,) = tasks.draw(task)
    assert third not in mine
    tasks.answer(task, {third: RIGHT})
    tasks.finalize(task)
    tasks.settle(mine, [honest, third], gain=-FIFTH, each=HALF)


def test_class_whose_seats_one_owner_holds__gives_no_agreement(tasks: Tasks) -> None:
    """Eve squats the three seats of a new class, to be asked alone. No two of hers are drawn, so
    the task waits for others until its time is over, and the creator has its whole fee back."""
    people, chain = tasks.people, tasks.chain
    people.decide((people.tasks, "add_class", (b"cuda:sm_90".ljust(32, b"\0"),)))
    eve = people.nodes["eve"]
    mine = [eve, *(tasks.enlist(name, owner=eve.owner) for name in ("eve two", "eve three"))]
    tasks.watch(*mine)
    for node in mine:
        chain.send(node.operator, people.tasks, "join", node.node_id, 1)
    chain.send(tasks.creator, people.tasks, "create_task", 1, SPEC, FEE, RUN_S)
    task = int(chain.call(people.tasks, "task_count"))
    tasks.await_seed(task)
    chain.refuse("tasks: hands full", people.faucet, people.tasks, "draw", task)
    people.wait_until(int(tasks.state(task).draw_until))
    chain.send(people.faucet, people.tasks, "draw", task)
    assert tasks.status(task) == UNDECIDED
    assert people.gain(tasks.creator) == 0
    tasks.settle(mine, gain=0)


def test_seat_taken_after_the_request__is_not_in_the_draw(tasks: Tasks) -> None:
    """Eve joins in the request's own block, behind it, in a seat that the seed's range covers: it
    was empty for longer than any draw remembers. The seed names her seat first; the draw takes
    whoever is next. Her second node comes later and has a seat beyond the range."""
    people, chain = tasks.people, tasks.chain
    eve, gus = people.nodes["eve"], people.nodes["gus"]
    late = tasks.enlist("late")
    place = tasks.seat(gus)
    tasks.leave(gus)
    chain.mine(COOLDOWN + 1)
    size = tasks.size()
    create = people.tasks.function("create_task", 4).encode((0, SPEC, FEE, RUN_S))
    join = people.tasks.function("join", 2).encode((eve.node_id, 0))

    def request() -> int:
        with tasks.mempool():
            first = chain.submit(tasks.creator, people.tasks.address, create, tip=3 * 10**9)
            second = chain.submit(eve.operator, people.tasks.address, join)
        assert chain.receipt(first)["blockNumber"] == chain.receipt(second)["blockNumber"]
        return int(chain.call(people.tasks, "task_count"))

    task = tasks.wait_for(request, lambda new: tasks.places(new, size)[0] == place)
    assert tasks.seat(eve) == place
    tasks.join(late)
    assert tasks.seat(late) == size
    winners = tasks.honest(task)
    assert not {eve, late, gus} & set(winners)
    people.assert_whole({**dict.fromkeys(winners, HALF), eve: 0, late: 0})
    tasks.settle([eve, late], winners)


@pytest.mark.parametrize("left", ["its seat", "the registry"])
def test_leaving_when_the_seed_is_known__does_not_leave_the_task(tasks: Tasks, left: str) -> None:
    """A cheat that sees itself drawn beside an honest node gives its seat up, or leaves the
    registry, before anybody captures the draw. It is drawn all the same, and answers for its
    silence: the stake that unbonds stays longer than any task lasts."""
    people, chain = tasks.people, tasks.chain
    task = tasks.create()
    chain.mine(2)
    cheat, honest = tasks.expected(task)
    if left == "its seat":
        tasks.leave(cheat)
        chain.refuse("executors: just left", cheat.operator, people.tasks, "join", cheat.node_id, 0)
    else:
        chain.send(cheat.owner, people.registry, "begin_exit", cheat.node_id)
    assert tasks.draw(task) == [cheat, honest]
    tasks.commit(task, honest)
    tasks.advance(task)
    winners = tasks.honest(task)
    if left == "the registry":
        chain.warp(people.settings.unbonding_period)
        chain.send(cheat.owner, people.registry, "withdraw", cheat.node_id)
    tasks.settle([cheat], winners, gain=-FIFTH, each=HALF)


def test_stake_added_when_the_seed_is_known__comes_too_late(tasks: Tasks) -> None:
    """Eve lost a fifth of her stake and kept her seat. A seed names it first, and she fills her
    stake up to be drawn. What counts is what was bonded at the request: others run the task."""
    people, chain = tasks.people, tasks.chain
    first, other, eve = tasks.started()
    tasks.commit(first, other)
    tasks.advance(first)
    tasks.honest(first)
    chain.warp(8 * DAY)
    assert people.bonded(eve) == eve.stake - FIFTH
    size, place = tasks.size(), tasks.seat(eve)
    task = tasks.wait_for(tasks.create, lambda new: tasks.places(new, size)[0] == place)
    chain.send(eve.owner, people.registry, "add_stake", eve.node_id, FIFTH)
    assert people.bonded(eve) == eve.stake
    winners = tasks.honest(task)
    assert eve not in tasks.nodes(task)
    tasks.settle([eve], winners, gain=-FIFTH)


def test_draw_that_only_the_cheat_saw__stays_for_256_blocks(tasks: Tasks) -> None:
    """The cheat dislikes a draw and doesn't capture it, hoping for another. As long as one other
    party captures it within 256 blocks it stands; a redraw takes the silence of everybody."""
    chain = tasks.chain
    task = tasks.create()
    chain.mine(2)
    drawn = tasks.expected(task)
    cheat = drawn[0]
    chain.mine(250)
    assert tasks.draw(task) == drawn
    tasks.commit(task, drawn[1])
    tasks.advance(task)
    winners = tasks.honest(task)
    tasks.settle([cheat], winners, gain=-FIFTH)


def test_draw_that_everybody_let_lapse__is_pinned_to_a_block_to_come(tasks: Tasks) -> None:
    """Everybody is silent until the chain has forgotten the seed. Neither the old draw nor one of
    the cheat's choice can be had: the capture pins a new block, and the next draw is as random."""
    people, chain = tasks.people, tasks.chain
    task = tasks.create()
    old, eve = int(tasks.state(task).seed_block), people.nodes["eve"]
    capture = (eve.operator, people.tasks, "draw", task)
    chain.mine(FORGOTTEN + 1)
    assert tasks.expected(task) == []
    chain.send(*capture)
    state = tasks.state(task)
    assert state.seed_block == int(chain.rpc("eth_blockNumber"), 16) + 1 > old
    assert state.status == DRAWING
    chain.refuse("tasks: too early", *capture)
    winners = tasks.honest(task)
    assert tasks.status(task) == AGREED

    tasks.settle([eve], winners)


def test_last_revealer_picks_its_moment__the_tie_break_is_drawn_after_it(tasks: Tasks) -> None:
    """The cheat's fake differs, and its reveal requests the third executor: it holds the reveal
    back to choose the block. The seed is the block after, whenever it comes."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.started()
    before = int(tasks.state(task).seed_block)
    tasks.commit(task, honest)
    tasks.commit(task, cheat, FAKE)
    tasks.reveal(task, honest)
    chain.mine(7)
    tasks.reveal(task, cheat, FAKE)
    latest = int(chain.rpc("eth_blockNumber"), 16)
    assert int(tasks.state(task).seed_block) == latest + 1 > before
    assert tasks.expected(task) == []
    chain.refuse("tasks: too early", cheat.operator, people.tasks, "draw", task)
    third = tasks.break_tie(task)
    tasks.settle([cheat], [honest, third], gain=-FIFTH)


def test_order_of_the_captures__chooses_between_two_tasks_at_most(tasks: Tasks) -> None:
    """A node with its hands full is passed over, so whoever captures two draws that both name it
    says which one gets it. The cheat uses that: with one lane left it captures the one it shares
    with its friend first, and is spared the one beside an honest node. There the next node is
    taken as ever, and the pair answers for its fake like any other: a verifier runs the task
    again. Keeping hands full takes work, and the cheat's honest work is counted here too."""
    people, chain = tasks.people, tasks.chain
    cheat, friend = tasks.executors[:2]
    busy = []
    for _ in range(MAX_OPEN - 1):
        task = tasks.wait_for(tasks.create, lambda new: cheat in tasks.expected(new))
        tasks.draw(task)
        busy.append(task)
    beside_honest = tasks.wait_for(
        tasks.create, lambda new: cheat in tasks.expected(new) and friend not in tasks.expected(new)
    )
    with_friend = tasks.wait_for(
        tasks.create, lambda new: {cheat, friend} == set(tasks.expected(new))
    )
    assert cheat in tasks.expected(beside_honest)
    chain.send(cheat.operator, people.tasks, "draw", with_friend)
    assert tasks.open_lanes(cheat) == MAX_OPEN
    winners = tasks.honest(beside_honest)
    assert cheat not in winners
    tasks.answer(with_friend, dict.fromkeys(tasks.nodes(with_friend), FAKE))
    for task in busy:
        tasks.honest(task)
    auditor = people.nodes["vito"]
    tasks.appeal(with_friend, auditor.operator)
    tasks.judge(with_friend)
    assert people.bonded(cheat) == cheat.stake - HELD
    paid = [node for node in winners if node != friend]
    tasks.settle([cheat, friend], [*paid, auditor])


def test_everybodys_hands_filled__the_task_waits_and_the_third_finds_the_cheat(
    tasks: Tasks,
) -> None:
    """The cheat is about to lose a comparison. Before it reveals it buys cheap tasks until all who
    could break the tie have their hands full. The task waits for them, so that all that the
    cheat buys is the time that it pays for."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.started()
    tasks.commit(task, honest)
    tasks.commit(task, cheat, FAKE)
    tasks.reveal(task, honest)
    others = [node for node in tasks.executors if node not in (honest, cheat)]
    fee = RUN_S * people.settings.tasks.fee_per_s
    bought: list[int] = []
    while any(tasks.open_lanes(node) < MAX_OPEN for node in others):
        idlest = min(others, key=tasks.open_lanes)

        def fills(new: int, idlest: Node = idlest) -> bool:
            drawn = tasks.expected(new)
            return idlest in drawn and set(drawn) <= set(others)

        bought.append(tasks.wait_for(lambda: tasks.create(cheat.owner, fee), fills))
        tasks.draw(bought[-1])
    tasks.reveal(task, cheat, FAKE)
    tasks.await_seed(task)
    chain.refuse("tasks: hands full", cheat.operator, people.tasks, "draw", task)
    for other in bought:
        tasks.honest(other)
    third = tasks.break_tie(task)
    assert third in others
    assert people.gain(cheat) == -len(bought) * fee - FIFTH
    assert people.gain(honest) == HALF
    tasks.settle([cheat], [honest, *others])


def test_seats_spammed__cost_the_spammer_and_not_the_draw(tasks: Tasks) -> None:
    """Eve fills the pool with seats and leaves them, to make draws dear or let them find nobody. A
    seat needs a stake; an empty one costs a draw one read where its seed names it; and it is
    taken again before the pool grows, so one node can't leave a trail of them."""
    people, chain = tasks.people, tasks.chain
    eve = people.nodes["eve"]
    spam = [
        people.enlist(f"spam {i}", owner=eve.owner, payout=eve.payout)
        for i in range(2 * len(tasks.executors))
    ]
    plain = tasks.create()
    chain.mine()
    before = chain.send(people.faucet, people.tasks, "draw", plain)
    for node in spam:
        tasks.join(node)
    for node in spam:
        tasks.leave(node)
    tasks.watch(eve, *spam)
    size = tasks.size()
    assert size == 3 * len(tasks.executors)
    alive = {tasks.seat(node) for node in tasks.executors}

    def looked_at(new: int) -> int:
        """Seats that the draw reads until it has two different nodes."""
        found: set[int] = set()
        for count, place in enumerate(tasks.places(new, size), 1):
            found |= {place} & alive
            if len(found) == 2:
                return count
        return 64

    task = tasks.wait_for(tasks.create, lambda new: looked_at(new) >= 10)
    seats = looked_at(task)
    after = chain.send(people.faucet, people.tasks, "draw", task)
    costs = [int(receipt["gasUsed"], 16) for receipt in (before, after)]
    print(f"\ndraw: {costs[0]} gas; {costs[1]} with {seats} seats looked at of {size}")
    assert costs[1] - costs[0] < 5_000 * seats

    chain.mine(COOLDOWN + 1)
    tasks.join(spam[0])
    tasks.leave(spam[0])
    assert tasks.size() == size
    chain.refuse("executors: just left", spam[0].operator, people.tasks, "join", spam[0].node_id, 0)
    winners = tasks.honest(task)
    tasks.settle([eve, *spam], winners, gain=0)
