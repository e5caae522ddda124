# SPDX-License-Identifier: Apache-2.0
"""What an executor may do with a task beside an honest one: copy, replay, be silent, run away.

Each deed is on a task of which one of the first two is the attacker's, and the others honest.
"""

from __future__ import annotations

from eth_utils import keccak

from scripts._attacks.attack import Outcome
from scripts._attacks.embedded import BLOCK_S
from scripts._attacks.market import EMPTY, Market, Player
from scripts._attacks.refusal import refused
from scripts._attacks.task_endings import no_pair, played, work
from scripts._attacks.task_pool import FAKE, RIGHT, TaskNumbers, TaskPool
from scripts._attacks.task_strategies import gives

DEFAULTS = TaskNumbers()
_FORGOTTEN = 257  # blocks after which the chain knows a hash no more


def one_stake(market: Market) -> int:
    """What one of the attacker's executors has bonded."""
    return market.numbers.stake


def copy_a_commitment(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Commits what the honest executor's commitment said, seen in the mempool: it can't be
    opened."""

    def play(pool: TaskPool) -> None:
        task, thief, victim = pool.beside_honest()
        pool.commit(task, thief, digest=pool.digest(task, victim, pool.tag(task, RIGHT)))
        pool.commit(task, victim)
        pool.reveal(task, victim)
        tag, salt = pool.tag(task, RIGHT), pool.salt(task, victim)
        opening = (task, pool.lane(task, thief), tag, RIGHT, salt)
        pool.refused(
            "tasks: bad opening",
            thief.operator,
            "reveal",
            *opening,
        )
        pool.run(task, lambda player: None if player == thief else RIGHT, [False])

    note = "it can't be opened"
    return played(market, numbers, play, market.evil, one_stake(market), note)


def replay_a_commitment(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Commits what was good for another task: it can't be opened in this one."""

    def play(pool: TaskPool) -> None:
        task, cheat, honest = pool.beside_honest()
        other = pool.digest(task + 1, cheat, pool.tag(task + 1, RIGHT))
        pool.commit(task, cheat, digest=other)
        pool.commit(task, honest)
        pool.reveal(task, honest)
        opening = pool.opening(task, cheat, RIGHT)
        pool.refused(
            "tasks: bad opening",
            cheat.operator,
            "reveal",
            *opening,
        )
        pool.run(task, lambda player: None if player == cheat else RIGHT, [False])

    note = "it can't be opened"
    return played(market, numbers, play, market.evil, one_stake(market), note)


def copy_a_revealed_tag(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """The second executor commits to something, waits for the first tag and wants to show that
    one: its commitment binds another."""

    def play(pool: TaskPool) -> None:
        task, lazy, honest = pool.beside_honest()
        for player, result in ((honest, RIGHT), (lazy, FAKE)):
            pool.commit(task, player, result)
        pool.reveal(task, honest)
        opening = (task, pool.lane(task, lazy), pool.tag(task, RIGHT), EMPTY)
        pool.refused(
            "tasks: bad opening",
            lazy.operator,
            "reveal",
            *opening,
            pool.salt(task, lazy),
        )
        pool.run(task, lambda player: FAKE if player == lazy else RIGHT, [False])
        pool.close(task)

    return played(market, numbers, play, market.evil, one_stake(market))


def copy_a_tag_as_the_third(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Two results differ, so the third executor reads the honest tag, commits to it and can't show
    the result behind it. The fake that differed is the attacker's too."""

    def play(pool: TaskPool) -> None:
        task, cheat, honest = pool.beside_honest()
        for player, result in ((honest, RIGHT), (cheat, FAKE)):
            pool.commit(task, player, result)
        pool.reveal(task, honest)
        pool.requested(
            lambda: pool.reveal(task, cheat, FAKE),
            lambda drawn: any(player in pool.evil for player in drawn),
            task,
        )
        lazy = pool.draw(task)[2]
        tag, salt = pool.tag(task, RIGHT), pool.salt(task, lazy)
        pool.commit(task, lazy, digest=pool.digest(task, lazy, tag))
        for guess in (EMPTY, tag, keccak(text="a guess")):
            pool.refused(
                "tasks: show the result",
                lazy.operator,
                "reveal",
                *(task, 2, tag, guess, salt),
            )
        pool.run(task, lambda player: None if player == lazy else RIGHT, [True, False])
        pool.close(task)

    capital = 2 * one_stake(market)
    return no_pair(market) or played(market, numbers, play, market.evil, capital)


def hold_the_last_reveal_back(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Sees by the honest tag that its fake loses, and does not reveal it."""

    def play(pool: TaskPool) -> None:
        task, cheat, honest = pool.beside_honest()
        for player, result in ((honest, RIGHT), (cheat, FAKE)):
            pool.commit(task, player, result)
        pool.reveal(task, honest)
        pool.refused(
            "tasks: not over",
            honest.operator,
            "advance",
            task,
        )
        pool.run(task, lambda player: None if player == cheat else RIGHT, [False])

    note = "silence costs what losing costs"
    return played(market, numbers, play, market.evil, one_stake(market), note)


def exit_after_the_fake(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Fakes, leaves the registry in the next block and waits for its stake: the slash comes
    first."""

    def play(pool: TaskPool) -> None:
        task, cheat, _ = pool.beside_honest()
        pool.commit(task, cheat, FAKE)
        pool.chain.send(cheat.owner, "NodeRegistry", "begin_exit", cheat.node)
        pool.run(task, gives(market, FAKE), [False])
        refused(
            pool.chain,
            "registry: still unbonding",
            cheat.owner,
            "NodeRegistry",
            "withdraw",
            cheat.node,
        )
        pool.close(task)
        pool.chain.wait(market.settings.unbonding_period + 1)
        pool.chain.send(cheat.owner, "NodeRegistry", "withdraw", cheat.node)

    return played(market, numbers, play, market.evil, one_stake(market))


def leave_when_drawn(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Sees itself drawn beside an honest node, and leaves seat and registry before anybody
    captures the draw: it is drawn all the same."""

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1)
        (cheat,) = [player for player in pool.expected(task) if player in pool.evil]
        pool.chain.send(cheat.operator, "RedundantTasks", "leave", cheat.node)
        pool.refused(
            "executors: just left",
            cheat.operator,
            "join",
            cheat.node,
            0,
        )
        pool.chain.send(cheat.owner, "NodeRegistry", "begin_exit", cheat.node)
        if cheat not in pool.draw(task):
            raise AssertionError("A node left a draw that it had seen.")
        pool.run(task, lambda player: None if player == cheat else RIGHT, [False])

    return played(market, numbers, play, market.evil, one_stake(market))


def let_a_draw_lapse(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Dislikes a draw and captures it only when the chain has forgotten its seed: the next one is
    pinned to a block to come. It takes the silence of everybody else."""

    def one(drawn: list[Player]) -> bool:
        return sum(player in market.evil for player in drawn) == 1

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1)
        (cheat,) = [player for player in pool.expected(task) if player in pool.evil]
        # In half the time to draw at most: blocks are faster in networks of brief terms.
        pool.chain.wait(min(_FORGOTTEN * BLOCK_S, market.settings.tasks.draw_s // 2), _FORGOTTEN)
        capture = (cheat.operator, "RedundantTasks", "draw", task)
        with pool.chain.undone():
            pool.chain.send(*capture)
            pool.refused("tasks: too early", cheat.operator, "draw", task)
        pool.requested(lambda: pool.chain.send(*capture), one, task)
        work(pool, task)

    note = "the next draw is as random"
    stake = one_stake(market)
    return played(
        market, numbers, play, market.evil, stake, note, lambda pool: work(pool, pool.drawn(1))
    )


PLAYS = (
    ("copy a task's commitment from the mempool", copy_a_commitment),
    ("replay a commitment of another task", replay_a_commitment),
    ("copy the first tag that is revealed", copy_a_revealed_tag),
    ("copy a tag as the third executor", copy_a_tag_as_the_third),
    ("hold the last reveal of a task back", hold_the_last_reveal_back),
    ("exit after a fake", exit_after_the_fake),
    ("leave the pool when the draw is known", leave_when_drawn),
    ("let a draw lapse", let_a_draw_lapse),
)
