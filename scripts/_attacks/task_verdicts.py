# SPDX-License-Identifier: Apache-2.0
"""Wrong results that two agree on, and appeals, votes and objections as weapons."""

from __future__ import annotations

from fractions import Fraction

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import Role, TaskStatus
from scripts._attacks.attack import Outcome
from scripts._attacks.market import EMPTY, Market, Player
from scripts._attacks.refusal import refused
from scripts._attacks.task_endings import Ending, no_pair, nothing, played, weighed, work
from scripts._attacks.task_pool import FAKE, OTHER_FAKE, RIGHT, TaskNumbers, TaskPool
from scripts._attacks.task_strategies import gives

DEFAULTS = TaskNumbers()


def two_stakes(market: Market) -> int:
    """What two of the attacker's executors have bonded."""
    return 2 * market.numbers.stake


def frame(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Two executors return the same fake in a task of their own friend's, so that the honest one
    is slashed: it appeals."""
    creator = market.stranger

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1, creator)
        pool.run(task, gives(market, FAKE), [True])
        pool.close(task)

    gang: list[Player | str] = [*market.evil, creator]
    capital = two_stakes(market) + numbers.fee_of(market)
    return no_pair(market) or played(market, numbers, play, gang, capital, "", nothing)


def frame_with_a_verifier(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """The same, and the attacker's verifiers vote for the fake at once: it takes two thirds of the
    weight."""
    creator, friends = market.stranger, market.evil_verifiers

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1, creator)
        pool.run(task, gives(market, FAKE), [True])
        pool.close(task, lies=dict.fromkeys(friends, FAKE))

    gang: list[Player | str] = [*market.evil, *friends, creator]
    capital = two_stakes(market) + numbers.fee_of(market)
    capital += market.numbers.verifier_stake * len(friends)
    return no_pair(market) or played(market, numbers, play, gang, capital, "", nothing)


def hide_behind_a_payout(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Framers name TaskAppeals their payout, so that no share of their slash is paid to it and it
    has nothing to make the victim whole with."""
    creator = market.stranger
    at = market.chain["TaskAppeals"].address

    def play(pool: TaskPool) -> None:
        for player in market.evil:
            pool.chain.send(player.owner, "NodeRegistry", "set_payout", player.node, at)
        task = pool.drawn(1, creator)
        pool.run(task, gives(market, FAKE), [True])
        pool.close(task)

    gang: list[Player | str] = [*market.evil, creator]
    capital = two_stakes(market) + numbers.fee_of(market)
    return no_pair(market) or played(market, numbers, play, gang, capital, "", nothing)


def serve_friends_only(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A creator serves its inputs to two friends and not to the third, which is outvoted and
    appeals; verifiers can't have them either, and there is no verdict."""
    creator = market.stranger

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1, creator)
        pool.run(task, lambda player: FAKE if player in market.evil else UNAVAILABLE, [True])
        (victim,) = [player for player in pool.runners(task) if player not in market.evil]
        voters = pool.appeal(task, victim.owner)
        for judge in pool.judges:
            place = voters[0].index(judge.node)
            vote = (task, place, *voters, UNAVAILABLE)
            reason = "appeals: no result"
            refused(pool.chain, reason, judge.operator, "TaskAppeals", "attest", *vote)
        pool.end_appeal(task)

    gang: list[Player | str] = [*market.evil, creator]
    capital = two_stakes(market) + numbers.fee_of(market)
    note = "nobody is slashed without a verdict"
    return no_pair(market) or played(market, numbers, play, gang, capital, note, nothing)


def save_a_friend_by_garbage(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A fake has lost to an honest result, and the third executor is its friend: it shows another
    fake, so that nobody agrees. The honest one appeals."""

    def play(pool: TaskPool) -> None:
        task = pool.drawn(1)
        cheat = next(player for player in pool.draw(task) if player in market.evil)

        def answer(player: Player) -> bytes:
            if player not in market.evil:
                return RIGHT
            return FAKE if player == cheat else OTHER_FAKE

        pool.run(task, answer, [True])
        pool.close(task)

    return no_pair(market) or played(market, numbers, play, market.evil, two_stakes(market))


def appeal_a_right_result(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """Appeals two honest executors' result; the attacker's verifiers name the right one first, for
    a share of the bond."""
    gang: list[Player | str] = [market.stranger, *market.evil_verifiers]

    def play(pool: TaskPool) -> None:
        task = pool.drawn(0)
        work(pool, task)
        pool.review(task, market.stranger, dict.fromkeys(market.evil_verifiers, RIGHT))

    capital = market.settings.tasks.appeal_bond
    return played(market, numbers, play, gang, capital, "", lambda pool: work(pool, pool.drawn(0)))


def appeal_ones_own_defeat(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A fake that was outvoted is appealed by its own node, to win time or a mistake."""

    def play(pool: TaskPool) -> None:
        task, cheat, _ = pool.beside_honest()
        pool.run(task, gives(market, FAKE), [False])
        pool.review(task, cheat.owner)
        pool.close(task)

    capital = market.numbers.stake + market.settings.tasks.appeal_bond
    return played(market, numbers, play, market.evil, capital)


def object_to_a_true_verdict(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A pair fakes, which saves two computations, and is found; it objects to the verdict, and the
    committee names the result."""

    def play(pool: TaskPool) -> None:
        task = pool.drawn(2)
        pool.run(task, gives(market, FAKE))
        cheat = pool.runners(task)[0]
        if not pool.judges:
            return
        if pool.judged(task, pool.judges[0].operator) != EMPTY:
            pool.chain.send(cheat.owner, "TaskAppeals", "contest", task)
            market.decide("TaskAppeals", "resolve", task, RIGHT)
        else:
            pool.end_appeal(task)

    capital = two_stakes(market) + market.settings.tasks.appeal_bond
    saved = 2 * numbers.compute_of(market)
    ending = Ending(Fraction(1), play, lambda pool: work(pool, pool.drawn(2)), saved)
    return no_pair(market) or weighed(market, numbers, [ending], market.evil, capital)


def decide_alone(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """The attacker's verifiers appeal an honest task, add stake in the block of their vote and
    name a fake, while all others are silent: there is no verdict."""
    gang = market.evil_verifiers

    def play(pool: TaskPool) -> None:
        task = pool.drawn(0)
        work(pool, task)
        for player in gang:
            more = market.numbers.verifier_stake
            pool.chain.send(player.owner, "NodeRegistry", "add_stake", player.node, more)
        if pool.judged(task, market.stranger, dict.fromkeys(gang, FAKE), ()) != EMPTY:
            raise AssertionError("A third of the verifiers gave a verdict.")
        pool.end_appeal(task)
        if pool.status(task) != TaskStatus.CLOSED:
            raise AssertionError("An appeal without a verdict did not end.")

    capital = 2 * market.numbers.verifier_stake * len(gang) + market.settings.tasks.appeal_bond
    with market.attack():
        for player in gang:
            market.give(player.owner, market.numbers.verifier_stake)
        return played(
            market,
            numbers,
            play,
            [*gang, market.stranger],
            capital,
            "no verdict",
            lambda pool: work(pool, pool.drawn(0)),
        )


def judge_ones_own_task(market: Market, numbers: TaskNumbers = DEFAULTS) -> Outcome:
    """A framer's owner has a verifier too, which would vote on the task; all others are honest."""
    framer, creator = market.evil[0], market.stranger
    if few := no_pair(market):
        return few
    with market.attack():
        stake = market.numbers.verifier_stake
        own = market.join("own verifier", Role.VERIFIER, stake, f"{framer.name} owner")
        market.decide("NodeRegistry", "approve_role", own.node, int(Role.VERIFIER), True)
        market.chain.wait(int(market.chain.read("NodeRegistry", "maturity")) + 1)

        def play(pool: TaskPool) -> None:
            def wanted(drawn: list[Player]) -> bool:
                return framer in drawn and sum(p in market.evil for p in drawn) == 1

            task = pool.new(wanted, creator)
            pool.run(task, gives(market, FAKE), [True])
            (victim,) = [p for p in pool.runners(task) if p not in market.evil]
            voters = pool.appeal(task, victim.owner)
            vote = (task, voters[0].index(own.node), *voters, FAKE)
            reason = "appeals: own task"
            refused(pool.chain, reason, own.operator, "TaskAppeals", "attest", *vote)
            for judge in market.verifiers:
                if pool.verdict(task) == EMPTY:
                    pool.attest(task, voters, judge, RIGHT)
            pool.end_appeal(task)

        gang: list[Player | str] = [*market.evil, own, creator]
        capital = two_stakes(market) + numbers.fee_of(market) + stake
        return played(market, numbers, play, gang, capital, "", nothing)


PLAYS = (
    ("frame an honest third with the creator", frame),
    ("frame it with a verifier's vote", frame_with_a_verifier),
    ("frame it and hide behind a payout", hide_behind_a_payout),
    ("serve inputs to two friends only", serve_friends_only),
    ("save a friend's fake by garbage", save_a_friend_by_garbage),
    ("appeal a right result", appeal_a_right_result),
    ("appeal one's own defeat", appeal_ones_own_defeat),
    ("object to a true verdict", object_to_a_true_verdict),
    ("decide an appeal alone", decide_alone),
    ("judge one's own task", judge_ones_own_task),
)
