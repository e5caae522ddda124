# SPDX-License-Identifier: Apache-2.0
"""Fakes by the hundred before the first of them costs anything.

A draw passes over who has its hands full. An honest executor has them full while it computes, one
that fakes answers in the next block. So while more tasks wait than honest nodes can run, the draw
finds the attacker's nodes together, however few they are. An agreed task is paid at once and frees
its lanes, and what was found is taken when nobody has objected for hours: until then one stake
answers for all fakes. So a draw passes over who has more pay at risk than half of its stake. What
the attack takes is tasks that wait; one's own don't count, since their fee is one's own.
"""

from __future__ import annotations

from dataclasses import replace

from agents.protocol.numbers import MAX_OPEN
from scripts._attacks.attack import Outcome
from scripts._attacks.embedded import BLOCK_S
from scripts._attacks.market import Market, Player
from scripts._attacks.task_endings import no_pair, played
from scripts._attacks.task_pool import FAKE, RIGHT, TaskNumbers, TaskPool

DEFAULTS = TaskNumbers()
WAITING = 200
"""Tasks of the greatest fee and the longest time that wait for an executor."""
_ANSWER_S = 6  # that an honest pair needs to answer in time, when it has the result


def fake_what_waits(
    market: Market, numbers: TaskNumbers = DEFAULTS, waiting: int = WAITING
) -> Outcome:
    """While honest hands are full, for the longest time a task may take, the attacker's nodes are
    drawn together and fake what waits. Verifiers find as many as their samples have on average,
    and all of those are slashed for."""
    longest = replace(numbers, run_s=market.settings.tasks.max_run_s)

    def busy(pool: TaskPool) -> list[int]:
        """Honest nodes take two tasks each, those that have fewest first."""
        return [_taken_by_the_idlest(pool) for _ in market.honest]

    def play(pool: TaskPool) -> None:
        taken = busy(pool)
        tasks, faked, found = [pool.create() for _ in range(waiting)], 0, list[int]()
        pool.chain.wait(2 * BLOCK_S, 2)
        until = min(int(pool.state(task).time) for task in taken)
        until -= len(taken) * _ANSWER_S + 2 * BLOCK_S
        while pool.chain.now < until and (mine := _taken(pool, tasks)):
            pool.chain.wait()
            for task in mine:
                for player in pool.runners(task):
                    pool.reveal(task, player, FAKE)
                faked += 1
                if pool.judges and int(faked * numbers.found_of(market)) > len(found):
                    pool.judged(task, pool.judges[0].operator)
                    found.append(task)
            pool.chain.wait()
            tasks = [task for task in tasks if task not in mine]
        for task in taken:
            pool.run(task, lambda player: RIGHT)
        for task in found:
            pool.end_appeal(task)

    def instead(pool: TaskPool) -> None:
        """The attacker's nodes stay away, and what waits goes back to its creator."""
        for task in busy(pool):
            pool.run(task, lambda player: RIGHT)

    capital = market.numbers.stake * len(market.evil)
    note = f"{waiting} tasks wait"
    return no_pair(market) or played(market, longest, play, market.evil, capital, note, instead)


def _open(pool: TaskPool, player: Player) -> int:
    return int(pool.chain.read("RedundantTasks", "executor", player.node).open)


def _taken_by_the_idlest(pool: TaskPool) -> int:
    """A new task that two honest nodes with the fewest open lanes are drawn for, captured."""
    lanes = {player: _open(pool, player) for player in pool.market.honest}
    idlest, second = sorted(lanes, key=lambda player: lanes[player])[:2]

    def wanted(drawn: list[Player]) -> bool:
        if lanes[idlest] < lanes[second] and idlest not in drawn:
            return False
        return bool(drawn) and all(lanes.get(p, MAX_OPEN) <= lanes[second] for p in drawn)

    task = pool.new(wanted)
    pool.draw(task)
    return task


def _taken(pool: TaskPool, tasks: list[int]) -> list[int]:
    """Of these tasks, those whose draws name two of the attacker's nodes: it captures them and
    commits to fakes in one block, as long as it has two hands free."""
    mine: list[int] = []
    for task in tasks:
        if sum(_open(pool, player) < MAX_OPEN for player in pool.evil) < 2:
            break
        drawn = pool.expected(task)
        if drawn and all(player in pool.evil for player in drawn):
            pool.draw(task)
            for player in drawn:
                pool.commit(task, player, FAKE)
            mine.append(task)
    return mine


PLAYS = (("fake what waits while honest hands are full", fake_what_waits),)
