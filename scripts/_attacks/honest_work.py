# SPDX-License-Identifier: Apache-2.0
"""What honest work on tasks and scores is paid on the contracts, and what it costs to compute.

Verifiers are paid for a verdict, for a fake that they find, and for scores. For running right tasks
again they are paid where creators audit theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from agents.tasks.rechecking_pay import least_share
from scripts._attacks.attack import Deed, gains
from scripts._attacks.honest import HonestWork
from scripts._attacks.market import Market, Player
from scripts._attacks.scoring_round import scored
from scripts._attacks.task_endings import chances, work
from scripts._attacks.task_pool import FAKE, RIGHT, TaskNumbers, TaskPool
from scripts._attacks.task_strategies import gives


def honest_work(market: Market, numbers: TaskNumbers | None = None) -> tuple[HonestWork, ...]:
    """The rows of tasks, at the numbers of a market and of its tasks."""
    numbers = numbers or TaskNumbers()
    compute = Fraction(numbers.compute_of(market))
    rows = [
        HonestWork("executor: a task among honest ones", _among_honest(market, numbers), compute),
        HonestWork(
            "executor: a task where cheats fake every one", _among_cheats(market, numbers), compute
        ),
    ]
    judges = numbers.honest_judges(market)
    if judges:
        rate, pairs = numbers.audit_rate, chances(market).pair
        found = _auditor_of_a_fake(market, numbers, judges[0])
        vote = _vote(market, numbers, judges)
        rows += [
            HonestWork(
                "verifier: its sample, by the task, where cheats fake own pairs",
                rate * pairs * found,
                rate * compute,
            ),
            HonestWork(
                "verifier: its sample, by the task, where nobody cheats and no creator audits",
                Fraction(0),
                rate * compute,
            ),
            HonestWork("verifier: a vote on an appeal", vote, compute),
        ]
        share = _audited(market, numbers)
        if share is not None:
            name = "verifier: its sample and votes, by the task, where creators audit"
            name += f" {float(share):.1%} and nobody cheats"
            rows.append(HonestWork(name, share * vote, (share + rate) * compute))
    return tuple(rows)


def scored_work(market: Market) -> tuple[HonestWork, ...]:
    """The rows of a job that its verifiers' scores pay; none where no honest one scores."""
    share = Fraction(str(market.numbers.compute))

    def row(name: str, players: list[Player]) -> HonestWork:
        pay = Fraction(_won(market, scored, players), len(players))
        return HonestWork(name, pay, share * pay)

    if not market.honest_verifiers:
        return ()
    return (
        row("verifier: a round's scores", market.honest_verifiers),
        row("trainer: a scored round", market.honest),
    )


def _audited(market: Market, numbers: TaskNumbers) -> Fraction | None:
    """The share of its tasks that a creator audits, if it goes by what its command says."""
    able = len(market.verifiers) if numbers.judges is None else numbers.judges
    bond, fee = market.settings.tasks.appeal_bond, numbers.fee_of(market)
    return least_share(bond, fee, able, numbers.audit_rate)


def _won(market: Market, deed: Deed, players: Sequence[Player]) -> int:
    return gains(market, deed, players, [])[0]


def _on_pool(numbers: TaskNumbers, play: Callable[[TaskPool], None]) -> Deed:
    return lambda market: play(TaskPool(market, numbers))


def _among_honest(market: Market, numbers: TaskNumbers) -> Fraction:
    """Half the fee, by the odd unit."""
    won = _won(market, _on_pool(numbers, lambda pool: work(pool, pool.drawn(0))), market.honest)
    return Fraction(won, 2)


def _among_cheats(market: Market, numbers: TaskNumbers) -> Fraction:
    """By the task that it is drawn for, where the attacker's nodes fake every one."""
    draw = chances(market)
    # Of the first two, whether the third is the attacker's, its chance, and how many are honest.
    cases: tuple[tuple[int, list[bool], Fraction, int], ...] = (
        (0, [], draw.none + draw.one / 3, 2),
        (1, [False], draw.loses, 2),
        (1, [True], draw.framed, 1),
    )
    won, lanes = Fraction(0), Fraction(0)
    for first, third, chance, honest in cases:
        if not chance:
            continue

        def play(pool: TaskPool, first: int = first, third: Sequence[bool] = third) -> None:
            task = pool.drawn(first)
            pool.run(task, gives(market, FAKE), third)
            pool.close(task)

        won += chance * _won(market, _on_pool(numbers, play), market.honest)
        lanes += chance * honest
    return won / lanes


def _auditor_of_a_fake(market: Market, numbers: TaskNumbers, judge: Player) -> int:
    """What the verifier wins that finds a faked pair; 0 where the attacker has none."""

    def play(pool: TaskPool) -> None:
        task = pool.drawn(2)
        pool.run(task, gives(market, FAKE))
        pool.close(task, audited=True)

    return _won(market, _on_pool(numbers, play), [judge]) if chances(market).pair else 0


def _vote(market: Market, numbers: TaskNumbers, judges: Sequence[Player]) -> Fraction:
    """By the voter, where a stranger appeals a right result."""
    voters: list[int] = []

    def play(pool: TaskPool) -> None:
        task = pool.drawn(0)
        work(pool, task)
        pool.review(task, market.stranger)
        voters.extend(pool.chain.read("TaskAppeals", "attesters", task, RIGHT))

    won = _won(market, _on_pool(numbers, play), judges)
    return Fraction(won, len(voters) or 1)
