# SPDX-License-Identifier: Apache-2.0
"""What an attacker's executors may do in every task that they are drawn for.

They know who runs with them. Beside the played figures stand the closed forms of
`agents.tasks.deterrence`, which leave out what honest people do about a fake; here whoever is
outvoted appeals, and verifiers run a share of the agreed tasks again, as `TaskNumbers` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from agents.protocol.formulas import UNAVAILABLE
from scripts._attacks.attack import Outcome
from scripts._attacks.deeds import double_the_verifiers
from scripts._attacks.market import Market
from scripts._attacks.task_endings import Ending, chances, leaving, weighed, work
from scripts._attacks.task_pool import FAKE, RIGHT, Answer, TaskNumbers, TaskPool

DEFAULTS = TaskNumbers()


def gives(market: Market, result: bytes) -> Answer:
    """The attacker's nodes give this result, all others the right one."""
    return lambda player: result if player in market.evil else RIGHT


def all_stakes(market: Market) -> int:
    """What the attacker's executors have bonded."""
    return market.numbers.stake * len(market.evil)


def _pairs(market: Market, numbers: TaskNumbers, honest_else: bool = False) -> Iterator[Ending]:
    """Both of the first two are the attacker's and fake: unseen, or in a verifier's sample."""

    def faked(audited: bool) -> Ending:
        def play(pool: TaskPool) -> None:
            task = pool.drawn(2)
            pool.run(task, gives(market, FAKE))
            pool.close(task, audited)

        found = numbers.found_of(market)
        chance = chances(market).pair * (found if audited else 1 - found)
        if not honest_else:
            return Ending(chance, play)
        saved = 2 * numbers.compute_of(market)
        return Ending(chance, play, lambda pool: work(pool, pool.drawn(2)), saved)

    yield faked(False)
    yield faked(True)


def fake(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """All of the attacker's executors return the same fake in every task."""
    draw, found = chances(market), numbers.found_of(market)

    def compared(third: bool, audited: bool, chance: Fraction) -> Ending:
        def play(pool: TaskPool) -> None:
            task = pool.drawn(1)
            pool.run(task, gives(market, FAKE), [third])
            pool.close(task, audited)

        return Ending(chance, play)

    endings = (
        *_pairs(market, numbers),
        compared(True, False, draw.framed * (1 - found)),
        compared(True, True, draw.framed * found),
        compared(False, False, draw.loses),
        Ending(draw.none + draw.one / 3, lambda pool: work(pool, pool.drawn(0))),
    )
    return weighed(market, numbers, endings, market.evil, all_stakes(market))


def leave(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """The attacker's executors fake where both of the first two are its own, and never commit
    else."""
    draw = chances(market)

    def left(count: int, chance: Fraction) -> Ending:
        def play(pool: TaskPool) -> None:
            task = pool.drawn(1)
            pool.run(
                task,
                lambda player: None if player in market.evil else RIGHT,
                [True] * (count - 1) + [False],
            )
            pool.close(task)

        return Ending(chance, play)

    endings = (
        *_pairs(market, numbers),
        *(left(count, draw.split * chance) for count, chance in leaving(market)),
        Ending(draw.none + draw.one / 3, lambda pool: work(pool, pool.drawn(0))),
    )
    return weighed(market, numbers, endings, market.evil, all_stakes(market))


def pair(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """They fake where both of the first two are the attacker's, which saves two computations, and
    work honestly else."""
    endings = _pairs(market, numbers, honest_else=True)
    note = "" if numbers.honest_judges(market) else "nobody can judge the class"
    return weighed(market, numbers, endings, market.evil, all_stakes(market), note)


def block_verdicts(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """They fake in own pairs, and the attacker's verifiers, whose stake it has doubled, are silent:
    a third of them with twice the others' stake is half of the weight, and a verdict takes two
    thirds."""
    with market.attack():
        double_the_verifiers(market)
        found = pair(market, numbers)
    staked = 2 * market.numbers.verifier_stake * len(market.evil_verifiers)
    return replace(found, capital=found.capital + staked, note="no appeal finds two thirds")


def appeal_ones_own_pair(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """The same, and before a verifier finds the fake a friend appeals it, to get what is seized."""
    friend = market.stranger

    def play(pool: TaskPool) -> None:
        task = pool.drawn(2)
        pool.run(task, gives(market, FAKE))
        pool.review(task, friend)

    ending = Ending(
        chances(market).pair,
        play,
        lambda pool: work(pool, pool.drawn(2)),
        2 * numbers.compute_of(market),
    )
    capital = all_stakes(market) + market.settings.tasks.appeal_bond
    return weighed(market, numbers, [ending], [*market.evil, friend], capital)


def compute_once(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Where both of the first two are the attacker's, it runs the task once for both. The result is
    right, so nobody can object; nobody has compared it either."""
    ending = Ending(
        chances(market).pair,
        lambda pool: work(pool, pool.drawn(2)),
        lambda pool: work(pool, pool.drawn(2)),
        numbers.compute_of(market),
    )
    note = "the result is right"
    return weighed(market, numbers, [ending], market.evil, all_stakes(market), note)


def deny_inputs(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """They always say that the inputs can't be had, which takes no work."""
    draw = chances(market)

    def said(first: int, third: list[bool], chance: Fraction) -> Ending:
        def play(pool: TaskPool) -> None:
            task = pool.drawn(first)
            pool.run(task, gives(market, UNAVAILABLE), third)
            pool.close(task)

        return Ending(chance, play)

    endings = (
        said(2, [], draw.pair),
        said(1, [True], draw.framed),
        said(1, [False], draw.loses),
        Ending(draw.none + draw.one / 3, lambda pool: work(pool, pool.drawn(0))),
    )
    return weighed(market, numbers, endings, market.evil, all_stakes(market))


def deny_in_own_pairs(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """They say so only where both of the first two are the attacker's: it saves two computations
    and costs the fee."""

    def play(pool: TaskPool) -> None:
        pool.run(pool.drawn(2), gives(market, UNAVAILABLE))

    ending = Ending(
        chances(market).pair,
        play,
        lambda pool: work(pool, pool.drawn(2)),
        2 * numbers.compute_of(market),
    )
    return weighed(market, numbers, [ending], market.evil, all_stakes(market))


PLAYS = (
    ("fake every task", fake),
    ("leave a task unless its own pair can fake it", leave),
    ("fake in own pairs, and work else", pair),
    ("appeal the fakes of own pairs before anybody else", appeal_ones_own_pair),
    ("fake in own pairs and block verdicts with stake", block_verdicts),
    ("run a task once for both lanes of own pairs", compute_once),
    ("deny the inputs of every task", deny_inputs),
    ("deny the inputs in own pairs, and work else", deny_in_own_pairs),
)
