# SPDX-License-Identifier: Apache-2.0
"""Who is drawn for a task, and what its creator may do to those who are.

Where a rule says that nobody is drawn who came too late or belongs to the creator, the deed is
tried in `_BLOCKS` blocks, one draw each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import MAX_OPEN, ZOO, Role
from scripts._attacks.attack import Outcome
from scripts._attacks.embedded import BLOCK_S
from scripts._attacks.market import Market, Player
from scripts._attacks.task_endings import nothing, played, work
from scripts._attacks.task_pool import FAKE, RIGHT, SPEC, TaskNumbers, TaskPool

DEFAULTS = TaskNumbers()
_COOLDOWN = 260  # blocks after which a seat that was left is taken again
_BLOCKS = 150
_SUSPENSION_S = 8 * 86_400  # no shorter than what ABORT suspends for


def never_drawn(pool: TaskPool, request: Callable[[], Any], players: Sequence[Player]) -> None:
    """Try a request in many blocks. Raises AssertionError if one of the players is drawn."""
    task = int(pool.chain.read("RedundantTasks", "task_count")) + 1
    for _ in range(_BLOCKS):
        with pool.chain.undone():
            request()
            pool.chain.wait(2 * BLOCK_S, 2)
            if set(players) & set(pool.expected(task)):
                raise AssertionError("A node was drawn that no draw may mean.")
        pool.chain.wait(0)


def twins(market: Market, count: int) -> list[Player]:
    """More nodes of the owner of the attacker's first one."""
    owner = f"{market.evil[0].name} owner"
    stake = market.numbers.stake
    return [market.join(f"twin {i}", Role.TRAINER, stake, owner) for i in range(count)]


def grind_ids(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator tries ids and blocks until it likes a draw: it sees one when it has paid, and can't
    take a task back."""
    grinder, tries = market.stranger, 4

    def play(pool: TaskPool) -> None:
        for _ in range(tries):
            task = pool.create(grinder)
            if pool.expected(task):
                raise AssertionError("A draw was known in the block of its request.")
            pool.refused("tasks: too early", grinder, "draw", task)
            pool.chain.wait(2 * BLOCK_S, 2)
            work(pool, task)

    note = f"{tries} tries, a fee each"
    capital = tries * numbers.fee_of(market)
    return played(market, numbers, play, [grinder], capital, note, nothing)


def sit_in_ones_own_pool(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator sits in the pool, to have its fee back and see results: its own node is passed
    over, and its operator may not create."""
    own = market.evil[0]

    def play(pool: TaskPool) -> None:
        terms = (0, SPEC, pool.fee, numbers.run_s_of(market))
        pool.refused("tasks: operator", own.operator, "create_task", *terms)
        never_drawn(pool, lambda: pool.create(own.owner), [own])
        work(pool, pool.drawn(0, own.owner))

    capital = market.numbers.stake + numbers.fee_of(market)
    return played(market, numbers, play, [own], capital, "a fee, as for others", nothing)


def ask_for_two_lanes(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """One owner has several seats, to meet itself and fake: no two of them are drawn, and the one
    that is loses."""
    own = market.evil[0]
    with market.attack():
        mine = [own, *twins(market, max(1, len(market.evil) - 1))]

        def play(pool: TaskPool) -> None:
            for player in mine[1:]:
                pool.sit(player)
            pool.chain.wait()

            def one(drawn: list[Player]) -> bool:
                found = sum(player in mine for player in drawn)
                if found > 1:
                    raise AssertionError("Two nodes of one owner were drawn together.")
                return found == 1

            for _ in range(_BLOCKS):
                with pool.chain.undone():
                    pool.new(one)
                pool.chain.wait(0)
            task = pool.new(one)
            pool.run(task, lambda player: FAKE if player in mine else RIGHT, [False])
            pool.close(task)

        capital = market.numbers.stake * len(mine)
        return played(market, numbers, play, mine, capital)


def squat_a_class(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """One owner holds all seats of a class, to be asked alone: a task waits for others until its
    time is over, and the whole fee goes back."""
    with market.attack():
        market.decide("RedundantTasks", "add_class", b"another".ljust(32, b"\0"))
        known = len(market.chain.read("RedundantTasks", "classes")) - 1
        mine = twins(market, 3)

        def play(pool: TaskPool) -> None:
            for player in mine:
                pool.sit(player, known)
            pool.chain.wait()
            task = pool.create(class_id=known)
            pool.chain.wait(2 * BLOCK_S, 2)
            pool.refused("tasks: hands full", market.stranger, "draw", task)
            pool.chain.wait(market.settings.tasks.draw_s + 1)
            pool.draw(task)

        capital = market.numbers.stake * len(mine)
        note = "the fee goes back after a day" if market.settings.tasks.draw_s == 86_400 else ""
        return played(market, numbers, play, [market.evil[0], *mine], capital, note, nothing)


def join_after_the_request(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Sits down in the block of a request, behind it, in a seat that the draw covers: it is not
    meant."""
    late = market.evil[0]

    def play(pool: TaskPool) -> None:
        pool.chain.send(late.operator, "RedundantTasks", "leave", late.node)
        pool.chain.wait(_COOLDOWN + 1, _COOLDOWN + 1)

        def request() -> None:
            pool.create()
            pool.sit(late)

        never_drawn(pool, request, [late])
        work(pool, pool.drawn(0))

    note = "it is not in the draw"
    return played(
        market,
        numbers,
        play,
        market.evil,
        market.numbers.stake,
        note,
        lambda pool: work(pool, pool.drawn(0)),
    )


def add_stake_after_the_request(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Has lost a fifth of its stake before, and fills it up once it knows that a seed names it:
    what was bonded at the request counts."""

    def weak(pool: TaskPool) -> Player:
        task, cheat, _ = pool.beside_honest()
        pool.run(task, lambda player: None if player == cheat else RIGHT, [False])
        pool.chain.wait(_SUSPENSION_S)
        return cheat

    def play(pool: TaskPool) -> None:
        cheat = weak(pool)
        lost = market.numbers.stake - int(pool.chain.read("NodeRegistry", "bonded", cheat.node))
        more = max(ZOO, lost)  # the least that the registry takes

        def request() -> None:
            pool.create()
            pool.chain.send(cheat.owner, "NodeRegistry", "add_stake", cheat.node, more)

        never_drawn(pool, request, [cheat])
        work(pool, pool.drawn(0))

    def without(pool: TaskPool) -> None:
        weak(pool)
        work(pool, pool.drawn(0))

    note = "it comes too late"
    stake = market.numbers.stake
    return played(market, numbers, play, market.evil, stake, note, without)


def crowd_the_pool(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Takes seats and leaves them, so that draws find nobody: an empty one costs a draw one read,
    and is taken again before the pool grows."""

    def play(pool: TaskPool) -> None:
        for player in market.evil:
            pool.chain.send(player.operator, "RedundantTasks", "leave", player.node)
        pool.chain.wait()
        work(pool, pool.new())
        again = (market.evil[0].node, 0)
        pool.refused("executors: just left", market.evil[0].operator, "join", *again)

    stake = market.numbers.stake * len(market.evil)
    return played(market, numbers, play, market.evil, stake, "gas for each seat")


def jam_the_pool(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Buys tasks of the longest time, whose inputs nobody can get, until all hands are full: it
    pays the least fee of each, and an honest task waits and is run."""
    jammer, longest = market.stranger, market.settings.tasks.max_run_s
    lanes, least = MAX_OPEN * len(market.trainers), longest * market.settings.tasks.fee_per_s

    def play(pool: TaskPool) -> None:
        bought = []
        while sum(_open(pool, player) < MAX_OPEN for player in pool.members) >= 2:
            bought.append(pool.new(_two, jammer, fee=least, run_s=longest))
            pool.draw(bought[-1])
        victim = pool.create()
        pool.chain.wait(2 * BLOCK_S, 2)
        pool.refused("tasks: hands full", market.stranger, "draw", victim)
        for task in bought:
            pool.run(task, lambda player: UNAVAILABLE)
        work(pool, victim)

    note = f"{lanes} lanes for {longest / 60:.0f} minutes"
    return played(
        market,
        numbers,
        play,
        [jammer],
        lanes // 2 * least,
        note,
        lambda pool: work(pool, pool.new()),
    )


def _two(drawn: list[Player]) -> bool:
    return len(drawn) == 2


def _open(pool: TaskPool, player: Player) -> int:
    return int(pool.chain.read("RedundantTasks", "executor", player.node).open)


def withhold_inputs(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator names inputs that nobody has, so that executors can't answer: they say so, and it
    pays the rent of their lanes."""
    creator = market.stranger

    def play(pool: TaskPool) -> None:
        pool.run(pool.new(creator=creator), lambda player: UNAVAILABLE)

    capital = numbers.fee_of(market)
    return played(market, numbers, play, [creator], capital, "", nothing)


def give_no_time(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator asks for a task that nobody can run in time, so that all who are drawn are
    slashed: a minute is the least."""
    creator = market.stranger

    def play(pool: TaskPool) -> None:
        pool.refused("tasks: bad run time", creator, "create_task", 0, SPEC, pool.fee, 59)
        brief = TaskPool(market, replace(numbers, run_s=60), ())
        brief.members = pool.members
        work(brief, brief.new(creator=creator))

    def instead(pool: TaskPool) -> None:
        work(pool, pool.new(creator=creator))

    capital = numbers.fee_of(market)
    return played(market, numbers, play, [creator], capital, "a minute is the least", instead)


def take_a_fee_back(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator that has its result would rather not pay, is silent, and tries whatever there is
    to try."""
    creator = market.stranger

    def play(pool: TaskPool) -> None:
        task = pool.new(creator=creator)
        pool.draw(task)
        pool.refused("tasks: not over", creator, "advance", task)
        work(pool, task)
        pool.refused("tasks: not decided", creator, "finalize", task)
        pool.refused("tasks: not appeals", creator, "begin_appeal", task)
        pool.refused("tasks: not appeals", creator, "end_appeal", task, 5, True)
        pool.refused("bonds: nothing to withdraw", creator, "withdraw_bond")

    capital = numbers.fee_of(market)
    return played(
        market,
        numbers,
        play,
        [creator],
        capital,
        "it can do nothing once it has paid",
        lambda pool: work(pool, pool.new(creator=creator)),
    )


PLAYS = (
    ("grind task ids for a draw", grind_ids),
    ("sit in the pool of one's own tasks", sit_in_ones_own_pool),
    ("ask for two lanes under one owner", ask_for_two_lanes),
    ("squat all seats of a class", squat_a_class),
    ("join the pool after a request", join_after_the_request),
    ("add stake after a request", add_stake_after_the_request),
    ("crowd the pool with empty seats", crowd_the_pool),
    ("jam the pool with tasks nobody can run", jam_the_pool),
    ("withhold a task's inputs", withhold_inputs),
    ("give executors no time", give_no_time),
    ("take a task's fee back", take_a_fee_back),
)
