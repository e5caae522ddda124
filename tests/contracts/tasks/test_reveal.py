# SPDX-License-Identifier: Apache-2.0
"""reveal: opens exactly what was committed; the first of a pair shows a tag, the second the result
behind it; the outcome follows at once."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.tasks.test_settings import create
from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.system import EMPTY, STAKE, Codes, System, events_of, refuses
from tests.stage.contracts.tasks import (
    AGREED,
    APPEAL_S,
    DECIDED,
    DRAWING,
    FEE,
    HALF,
    LANE_AGREED,
    LANE_COMMITTED,
    LANE_OPENED,
    LANE_REVEALED,
    NO_COMMIT,
    NO_REVEAL,
    OTHER,
    REST,
    REVEAL_S,
    REVEALING,
    RIGHT,
    RUNNING,
    UNDECIDED,
    WRONG,
    Player,
    TaskWorld,
    make_tasks,
    slashed,
)


def revealing(world: TaskWorld, first: bytes = RIGHT, second: bytes = RIGHT, **terms: Any) -> int:
    """A task whose two executors committed to these results."""
    task_id = world.started(**terms)
    world.commit_all(task_id, {0: first, 1: second})
    return task_id


def told(world: TaskWorld, task_id: int, lane: int, result: bytes) -> tuple[str, dict[str, Any]]:
    player = world.runners(task_id)[lane]
    fields = {"task_id": task_id, "node_id": player.node_id, "lane": lane}
    return "ResultRevealed", fields | {"tag": world.tag(task_id, result)}


def send(
    world: TaskWorld,
    task_id: int,
    lane: int,
    tag: bytes,
    result: bytes = EMPTY,
    salt: bytes | None = None,
    sender: str | None = None,
) -> None:
    """A reveal of exactly these values; the events stay those of the call."""
    salt = world.salt(task_id, lane) if salt is None else salt
    sender = sender or world.runners(task_id)[lane].operator
    world.tasks.reveal(task_id, lane, tag, result, salt, sender=sender)


# What follows


def test_reveal__of_the_first__shows_a_tag_and_no_result(world: TaskWorld, tasks: Any) -> None:
    task_id = revealing(world)
    tag = world.tag(task_id, RIGHT)
    assert tasks.tag_of(task_id, RIGHT) == tag
    with world.moves() as moved:
        # A result given without need is not looked at.
        send(world, task_id, 0, tag, WRONG)
        events = events_of(tasks)
    assert moved == {}
    assert events == [told(world, task_id, 0, RIGHT)]
    state = world.state(task_id)
    assert (state.status, state.states) == (REVEALING, [LANE_REVEALED, LANE_COMMITTED])
    assert state.answers[0] == tag
    assert tasks.result_of(task_id) == EMPTY


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_reveal__of_the_same_by_both__is_agreement_and_pays(
    world: TaskWorld, tasks: Any, order: tuple[int, int]
) -> None:
    task_id = revealing(world)
    first, second = order
    world.reveal(task_id, first, RIGHT)
    runners = world.runners(task_id)
    with world.moves() as moved:
        send(world, task_id, second, world.tag(task_id, RIGHT), RIGHT)
        events = events_of(tasks)
    deadline = now() + APPEAL_S
    # The one who showed the result has the odd unit.
    pay = {first: HALF, second: REST}
    assert moved == {("open", "tasks"): -FEE} | {
        ("tasks", runners[lane].name): amount for lane, amount in pay.items()
    }
    assert events == [
        told(world, task_id, second, RIGHT),
        (
            "TaskAgreed",
            {
                "task_id": task_id,
                "result": RIGHT,
                "lanes": [first, second],
                "contested": False,
                "appeal_deadline": deadline,
            },
        ),
        *(
            ("BondCredited", {"account": runners[lane].payout, "amount": pay[lane]})
            for lane in (second, first)
        ),
    ]
    state = world.state(task_id)
    assert (state.status, state.time) == (AGREED, deadline)
    assert state.states == [LANE_AGREED if lane == first else LANE_OPENED for lane in (0, 1)]
    assert state.answers[first] == world.tag(task_id, RIGHT)
    assert state.answers[second] == tasks.result_of(task_id) == RIGHT
    assert [world.open_lanes(p) for p in runners] == [0, 0]


def test_reveal__pay_goes_where_the_node_says(world: TaskWorld, tasks: Any) -> None:
    """And waits there: whoever cannot receive tokens blocks nobody."""
    task_id = revealing(world)
    player = world.runners(task_id)[0]
    world.registry.set_payout(player.node_id, world.appellant, sender=player.owner)
    with world.moves() as moved:
        world.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    assert moved["tasks", "appellant"] == HALF
    before = world.system.token.balanceOf(world.appellant)
    assert tasks.withdraw_bond(sender=world.appellant) == HALF
    assert events_of(tasks) == [("BondWithdrawn", {"account": world.appellant, "amount": HALF})]
    assert world.system.token.balanceOf(world.appellant) == before + HALF
    for account in (world.appellant, player.payout):
        with refuses("bonds: nothing to withdraw"):
            tasks.withdraw_bond(sender=account)


def test_reveal__of_two_different__asks_for_a_third(world: TaskWorld, tasks: Any) -> None:
    task_id = revealing(world, RIGHT, WRONG)
    world.reveal(task_id, 0, RIGHT)
    with world.moves() as moved:
        send(world, task_id, 1, world.tag(task_id, WRONG))
        events = events_of(tasks)
    assert moved == {}
    assert events == [
        told(world, task_id, 1, WRONG),
        ("DrawRequested", {"task_id": task_id, "wanted": 1, "seed_block": block() + 1}),
    ]
    state = world.state(task_id)
    assert (state.status, state.wanted, state.redraws) == (DRAWING, 1, 0)
    assert state.states == [LANE_REVEALED] * 2
    assert [world.open_lanes(p) for p in world.runners(task_id)] == [1, 1]


@pytest.mark.parametrize("agreeing", [0, 1])
def test_reveal__of_a_third_like_one__decides_but_pays_nobody_yet(
    world: TaskWorld, tasks: Any, agreeing: int
) -> None:
    results = [RIGHT, WRONG]
    task_id = revealing(world, *results)
    world.reveal_all(task_id, dict(enumerate(results)))
    world.draw(task_id)
    result = results[agreeing]
    world.commit(task_id, 2, result)
    with world.moves() as moved:
        send(world, task_id, 2, world.tag(task_id, result), result)
        events = events_of(tasks)
    assert moved == {}
    deadline = now() + APPEAL_S
    assert events == [
        told(world, task_id, 2, result),
        (
            "TaskAgreed",
            {
                "task_id": task_id,
                "result": result,
                "lanes": [agreeing, 2],
                "contested": True,
                "appeal_deadline": deadline,
            },
        ),
    ]
    state = world.state(task_id)
    assert (state.status, state.time) == (DECIDED, deadline)
    assert state.states[agreeing] == LANE_AGREED
    assert state.states[1 - agreeing] == LANE_REVEALED
    assert state.states[2] == LANE_OPENED
    assert tasks.result_of(task_id) == result
    assert [world.open_lanes(p) for p in world.runners(task_id)] == [1, 1, 1]


def test_reveal__of_three_different__returns_the_fee(world: TaskWorld, tasks: Any) -> None:
    """All of it: a reveal that closes a task earns no bounty, or a wrong result would."""
    task_id = revealing(world, RIGHT, WRONG)
    world.reveal_all(task_id, {0: RIGHT, 1: WRONG})
    world.draw(task_id)
    world.commit(task_id, 2, OTHER)
    with world.moves() as moved:
        send(world, task_id, 2, world.tag(task_id, OTHER))
        events = events_of(tasks)
    assert moved == {("open", "tasks"): -FEE, ("tasks", "creator"): FEE}
    deadline = now() + APPEAL_S
    assert events == [
        told(world, task_id, 2, OTHER),
        (
            "TaskUndecided",
            {
                "task_id": task_id,
                "refund": FEE,
                "bounty": 0,
                "closer": "0x" + "00" * 20,
                "appeal_deadline": deadline,
            },
        ),
        ("BondCredited", {"account": world.creator, "amount": FEE}),
    ]
    state = world.state(task_id)
    assert (state.status, state.time, state.states) == (UNDECIDED, deadline, [LANE_REVEALED] * 3)
    assert [world.open_lanes(p) for p in world.runners(task_id)] == [0, 0, 0]
    assert tasks.result_of(task_id) == EMPTY


def test_reveal__after_an_abort__two_of_the_same_are_uncontested(world: TaskWorld) -> None:
    """Who stayed silent did not dissent: the two are paid at once."""
    with world.moves() as moved:
        task_id = world.play(RIGHT, NO_REVEAL, RIGHT)
    runners = world.runners(task_id)
    assert world.status(task_id) == AGREED
    assert moved["tasks", runners[0].name] == HALF
    assert moved["tasks", runners[2].name] == REST


def test_reveal__fee_of_one_unit(codes: Codes, system: System) -> None:
    """The smallest fee, where the terms ask no price per second: half of it is nothing, and that is
    no error."""
    system.tasks = create(codes, system, fee_per_s=0)
    world = make_tasks(system)
    task_id = revealing(world, fee=1)
    with world.moves() as moved:
        world.reveal_all(task_id, {0: RIGHT, 1: RIGHT})
    second = world.runners(task_id)[1]
    assert moved == {("open", "tasks"): -1, ("tasks", second.name): 1}


# Refused


def test_reveal__when_not_revealing__reverts(world: TaskWorld, tasks: Any) -> None:
    drawing, running = world.create(), world.started()
    world.commit(running, 0, RIGHT)
    agreed, undecided = world.play(RIGHT, RIGHT), world.play(RIGHT, WRONG, OTHER)
    assert world.status(running) == RUNNING
    for task_id in (0, drawing, running, agreed, undecided, 99):
        with refuses("tasks: not revealing"):
            send(world, task_id, 0, EMPTY, salt=EMPTY, sender=world.stranger)


def test_reveal__at_the_deadline_and_after(world: TaskWorld) -> None:
    task_id = revealing(world)
    mine(1, REVEAL_S)
    world.reveal(task_id, 0, RIGHT)
    mine(1, 1)
    with refuses("tasks: too late"):
        world.reveal(task_id, 1, RIGHT)


@pytest.mark.parametrize("lane", [2, 4, 5, 2**256 - 1])
def test_reveal__no_such_lane__reverts(world: TaskWorld, lane: int) -> None:
    task_id = revealing(world)
    with refuses("tasks: not expected"):
        send(world, task_id, lane, world.tag(task_id, RIGHT), sender=world.nodes[0].operator)


def test_reveal__twice__reverts(world: TaskWorld) -> None:
    task_id = revealing(world)
    world.reveal(task_id, 0, RIGHT)
    with refuses("tasks: not expected"):
        world.reveal(task_id, 0, RIGHT)


def test_reveal__lane_that_aborted__reverts(world: TaskWorld) -> None:
    task_id = world.started()
    for answers in ((RIGHT, NO_COMMIT), (), (RIGHT, NO_COMMIT, RIGHT)):
        world.step(task_id, answers)
    assert world.status(task_id) == REVEALING
    with refuses("tasks: not expected"):
        world.reveal(task_id, 1, RIGHT)


def test_reveal__other_values_than_committed__reverts(world: TaskWorld) -> None:
    task_id = revealing(world)
    tag = world.tag(task_id, RIGHT)
    for other in (world.tag(task_id, WRONG), RIGHT, EMPTY):
        with refuses("tasks: bad opening"):
            send(world, task_id, 0, other, RIGHT)
    for salt in (world.salt(task_id, 1), EMPTY):
        with refuses("tasks: bad opening"):
            send(world, task_id, 0, tag, RIGHT, salt)


def test_reveal__by_another_sender__reverts(world: TaskWorld) -> None:
    """Nobody reveals for another, not even who learned the salt."""
    task_id = revealing(world)
    first, second = world.runners(task_id)
    for sender in (second.operator, first.owner, first.payout, world.creator, world.owner):
        with refuses("tasks: bad opening"):
            world.reveal(task_id, 0, RIGHT, sender=sender)


def test_reveal__operator_changed__the_old_key_reveals(world: TaskWorld) -> None:
    task_id = revealing(world)
    player = world.runners(task_id)[0]
    world.registry.set_operator(player.node_id, world.stranger, sender=player.owner)
    with refuses("tasks: bad opening"):
        world.reveal(task_id, 0, RIGHT, sender=world.stranger)
    world.reveal(task_id, 0, RIGHT)


def copied(world: TaskWorld, task_id: int, commitment: bytes) -> Player:
    """Lane 1 commits to somebody else's 32 bytes."""
    player = world.runners(task_id)[1]
    world.tasks.commit(task_id, 1, commitment, sender=player.operator)
    return player


def test_reveal__copied_commitment__reverts(world: TaskWorld) -> None:
    """From the mempool or the chain: it binds the node and the sender."""
    task_id = world.started()
    world.commit(task_id, 0, RIGHT)
    copy = copied(world, task_id, world.state(task_id).answers[0])
    world.reveal(task_id, 0, RIGHT)
    with refuses("tasks: bad opening"):
        send(world, task_id, 1, world.tag(task_id, RIGHT), RIGHT, world.salt(task_id, 0))
    with refuses("tasks: bad opening"):
        send(world, task_id, 1, world.tag(task_id, RIGHT), RIGHT, sender=copy.operator)


@pytest.mark.parametrize(
    "what", ["task", "node", "operator", "spec", "domain", "chain", "contract"]
)
def test_reveal__commitment_to_something_else__reverts(
    world: TaskWorld, tasks: Any, what: str
) -> None:
    """Each field is bound, so no commitment opens for another task, chain or contract."""
    task_id = world.started()
    me, other = world.runners(task_id)[1], world.runners(task_id)[0]
    world.commit(task_id, 0, RIGHT)
    tag, salt = world.tag(task_id, RIGHT), world.salt(task_id, 1)
    chain = boa.env.evm.patch.chain_id
    digest = {
        "task": lambda: world.digest(task_id + 1, me, tag, salt),
        "node": lambda: world.digest(task_id, other, tag, salt, operator=me.operator),
        "operator": lambda: world.digest(task_id, me, tag, salt, operator=me.owner),
        "spec": lambda: world.digest(task_id, me, tag, salt, spec=keccak(text="another")),
        "domain": lambda: keccak(tag + salt),
        "chain": lambda: world.digest(task_id, me, tag, salt),
        "contract": lambda: world.digest(task_id, me, tag, salt),
    }
    if what == "chain":
        boa.env.evm.patch.chain_id = chain + 1
        commitment = digest[what]()
        boa.env.evm.patch.chain_id = chain
    elif what == "contract":
        world.system.tasks = world.appeals
        commitment = digest[what]()
        world.system.tasks = tasks
    else:
        commitment = digest[what]()
    tasks.commit(task_id, 1, commitment, sender=me.operator)
    with refuses("tasks: bad opening"):
        send(world, task_id, 1, tag, RIGHT, salt)


def test_reveal__on_a_fork__reverts(world: TaskWorld) -> None:
    """After a split of the chain nothing that was committed opens on the other side."""
    task_id = revealing(world)
    tag = world.tag(task_id, RIGHT)
    boa.env.evm.patch.chain_id += 1
    with refuses("tasks: bad opening"):
        send(world, task_id, 0, tag)


def test_reveal__tag_of_another_task__shows_nothing_there(world: TaskWorld) -> None:
    """Equal results of two tasks have different tags: one task tells nothing of another."""
    first, second = revealing(world), revealing(world)
    assert world.tag(first, RIGHT) != world.tag(second, RIGHT)
    world.reveal(first, 0, RIGHT)
    with refuses("tasks: bad opening"):
        send(world, second, 0, world.tag(first, RIGHT))


def test_reveal__copied_tag_without_the_result__reverts(world: TaskWorld) -> None:
    """A third sees two tags. It may commit to one of them, but opening takes the result."""
    task_id = revealing(world, RIGHT, WRONG)
    world.reveal_all(task_id, {0: RIGHT, 1: WRONG})
    parrot = world.draw(task_id)[2]
    tag = world.state(task_id).answers[0]
    salt = world.salt(task_id, 2)
    world.tasks.commit(task_id, 2, world.digest(task_id, parrot, tag, salt), sender=parrot.operator)
    for guess in (EMPTY, tag, WRONG, world.tag(task_id, EMPTY)):
        with refuses("tasks: show the result"):
            send(world, task_id, 2, tag, guess)
    world.wait_out(task_id)
    world.tasks.advance(task_id)
    assert world.registry.bonded(parrot.node_id) == STAKE - slashed(2_000)


# Views


def test_views__digests_are_as_defined(world: TaskWorld, tasks: Any) -> None:
    player = world.nodes[2]
    tag, salt, spec = keccak(text="a"), keccak(text="b"), keccak(text="c")
    for task_id in (0, 7, 2**256 - 1):
        assert tasks.tag_of(task_id, RIGHT) == world.tag(task_id, RIGHT)
        assert tasks.commitment_digest(
            task_id, player.node_id, player.operator, spec, tag, salt
        ) == world.digest(task_id, player, tag, salt, spec)
