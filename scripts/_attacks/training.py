# SPDX-License-Identifier: Apache-2.0
"""Attacks of trainers on a round of training: lies, copies, commitments, absence, flight."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from agents.protocol.draw_chance import FINDINGS
from agents.protocol.numbers import ZOO, Phase, Role, Violation
from scripts._attacks.attack import Attack, Deed, Outcome, gains, outcome
from scripts._attacks.deeds import without_evil
from scripts._attacks.market import Market, Player, Work
from scripts._attacks.plays import (
    challenge,
    impossible,
    is_convicted,
    paid_round,
    refuse,
    refused,
    rule,
)
from scripts._attacks.spot_checks import drawn

_HONEST_ROUNDS = 3  # of four, for whoever lies now and then
_ABORTS = 3
_ADDITIONS = 16  # of stake that the registry remembers


def _others(market: Market, cheat: Player) -> list[Player]:
    """All trainers but one."""
    return [p for p in market.trainers if p != cheat]


def _without(absent: Player) -> Deed:
    """One trainer stays away, and all others work."""
    return lambda market: paid_round(market, _others(market, absent))


# -- lies --------------------------------------------------------------------------------------


def _lie(market: Market, honest_rounds: int = 0, friends: bool = False) -> Outcome:
    """The attacker's trainers work in some rounds and lie in the next one. `friends`: the
    attacker's verifiers announce them before anybody else can, and earn the reporter's share."""
    judges = market.evil_verifiers if friends else []
    deposit = max(1, market.bounty(Violation.INVALID))

    def before(market: Market) -> None:
        for _ in range(honest_rounds):
            market.ordinary_round()

    def told(market: Market, number: int) -> None:
        for cheat in market.evil:
            for judge in judges[:1]:
                market.announce(number, cheat, judge, deposit)

    def unseen(market: Market) -> None:
        before(market)
        number = market.train()
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        told(market, number)
        market.attest(number)
        market.finalize(number, arrays)

    def caught(market: Market) -> None:
        before(market)
        number = market.train()
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        told(market, number)
        reports = [
            market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
            for cheat in market.evil
        ]
        for cheat, report in zip(market.evil, reports, strict=True):
            for judge in judges[:1] if is_convicted(market, report) else ():
                market.open_announcement(number, cheat, judge)
        market.attest(number)
        market.finalize(number, arrays)
        for report in reports:
            market.execute(report)

    def stay_away(market: Market) -> None:
        before(market)
        without_evil(market)

    with market.attack():
        before(market)
        liar = market.evil[0]
        kept = market.chain.read("RewardPool", "retained", market.job, liar.node)
        chance = drawn(market, liar, retained=int(kept))
    stakes = market.numbers.stake * len(market.evil)
    return outcome(
        market,
        deed=unseen,
        instead=stay_away,
        attackers=[*market.evil, *judges],
        capital=stakes + (market.numbers.verifier_stake + deposit * len(market.evil)) * len(judges),
        found=caught,
        chance=chance,
        note=f"drawn in {float(chance):.1%} of rounds",
    )


def lie(market: Market) -> Outcome:
    """All of the attacker's trainers send noise, which nobody can tell from work unless it redoes
    it."""
    return _lie(market)


def lie_now_and_then(market: Market) -> Outcome:
    """The attacker's trainers work in three rounds and send noise in the fourth, all together."""
    return _lie(market, _HONEST_ROUNDS)


def lie_with_a_friend(market: Market) -> Outcome:
    """The attacker's trainers send noise, and its verifier has announced them in time, so that the
    reporter's share stays with the attacker if they are found."""
    return _lie(market, friends=True)


def lie_under_new_names(market: Market) -> Outcome:
    """One node sends noise, leaves with all that it has, and the next one does the same under a
    new name. It rests until then, so that both need one seat, however few a round has."""
    with market.attack():
        newcomer = market.join("newcomer", Role.TRAINER, market.numbers.stake)
        market.benchmark(newcomer)
        liars = [market.evil[0], newcomer]
        _set_active(market, newcomer, False)

        def played(caught: bool) -> Deed:
            def deed(market: Market) -> None:
                for liar in liars:
                    if liar is newcomer:
                        _set_active(market, liar, True)
                    players = [*_others(market, liars[0]), liar]
                    number = market.train(players)
                    arrays = market.propose(number, dict.fromkeys(players, 1))
                    judges = market.honest_verifiers
                    if caught:
                        report = market.report(number, liar, Violation.INVALID, judges)
                    market.attest(number)
                    market.finalize(number, arrays)
                    market.chain.send(liar.owner, "NodeRegistry", "begin_exit", liar.node)
                    if caught:
                        market.execute(report)
                    _take_out(market, liar)

            return deed

        def stay_away(market: Market) -> None:
            for _ in liars:
                paid_round(market, _others(market, liars[0]))

        return outcome(
            market,
            deed=played(caught=False),
            instead=stay_away,
            attackers=liars,
            capital=market.numbers.stake * len(liars),
            found=played(caught=True),
            chance=drawn(market, market.evil[0]),
        )


def _set_active(market: Market, player: Player, active: bool) -> None:
    """A node rests, or takes part again."""
    market.chain.send(player.operator, "NodeRegistry", "set_active", player.node, active)


def _take_out(market: Market, leaver: Player) -> None:
    """A node that is leaving waits, and takes out its stake and the pay that was retained."""
    chain = market.chain
    chain.wait(market.settings.unbonding_period + 1)
    chain.send(leaver.owner, "NodeRegistry", "withdraw", leaver.node)
    if chain.read("RewardPool", "retained", market.job, leaver.node):
        chain.send(leaver.owner, "RewardPool", "release_retained", market.job, leaver.node)


def lie_in_jobs(market: Market, jobs: int) -> Outcome:
    """One node sends noise in so many jobs at a time, where one stake answers for all, and a
    friendly verifier has announced each lie in time, with a deposit for the third strike's bounty.
    Lies are drawn independently."""
    liar, friends = market.evil[0], market.evil_verifiers[:1]
    attackers = [liar, *friends]
    others = [one for one in market.everybody if one not in attackers]
    deposit = max(1, market.bounty(Violation.INVALID, Violation.REPEATED))

    def played(players: list[Player], caught: int) -> Deed:
        def deed(market: Market) -> None:
            usual, rounds = market.job, []
            for _ in range(jobs):
                market.job = market.create_job(market.sponsor, 2, 1)
                rounds.append((market.job, market.open()))
            results, reports = [], []
            for market.job, number in rounds:
                market.hand_in(number, players)
                results.append(market.propose(number, dict.fromkeys(players, 1)))
            for place, (market.job, number) in enumerate(rounds):
                for friend in friends if liar in players else ():
                    market.announce(number, liar, friend, deposit)
                if place < caught:
                    reports.append(_found(market, number, liar, friends))
                market.attest(number)
            # A report that nobody confirms holds its round up to the end of the window.
            for place, (market.job, number) in enumerate(rounds):
                market.finalize(number, results[place])
            for report in reports:
                market.execute(report)
            market.job = usual

        return deed

    kept = market.job
    try:
        chance = drawn(market, liar, rounds=jobs)
        won, hurt = gains(market, played(_others(market, liar), 0), attackers, others)
        profit, loss = Fraction(0), Fraction(0)
        for caught in range(jobs + 1):
            weight = comb(jobs, caught) * chance**caught * (1 - chance) ** (jobs - caught)
            own, their = gains(market, played(market.trainers, caught), attackers, others)
            profit += weight * (own - won)
            loss += weight * (hurt - their)
    finally:
        market.job = kept
    each = market.numbers.verifier_stake + deposit * jobs
    capital = market.numbers.stake + each * len(friends)
    return Outcome(profit, loss, capital, f"in {jobs} jobs")


def _found(market: Market, number: int, liar: Player, friends: list[Player]) -> bytes:
    """Honest verifiers find a liar, and friends who have announced it open that; the report's
    id."""
    report = market.report(number, liar, Violation.INVALID, market.honest_verifiers)
    for friend in friends if is_convicted(market, report) else ():
        market.open_announcement(number, liar, friend)
    return report


def lie_in_many_jobs(market: Market) -> Outcome:
    """One node sends noise in five jobs at a time, and a friendly verifier announces each lie in
    time."""
    return lie_in_jobs(market, FINDINGS)


def take_retained_pay_out(market: Market) -> Outcome:
    """A node that has worked takes out the pay that is retained of it, before it lies."""
    liar, stake = market.evil[0], market.numbers.stake

    def deed(market: Market) -> None:
        market.ordinary_round()
        number = market.open()
        assert market.phase(number) == Phase.COMMIT
        args = (market.job, liar.node)
        market.chain.send(liar.owner, "RewardPool", "release_retained", *args)

    if not market.numbers.terms.retain_rounds:
        return refused(market, deed, "pool: nothing retained", stake)
    return refused(market, deed, "pool: still working", stake)


# -- copies ------------------------------------------------------------------------------------


def _copied(market: Market, author: Player, copier: Player) -> Deed:
    """The copier sends its author's payload, commits it first, and both are redone."""

    def deed(market: Market) -> None:
        number = market.open()
        own = f"{author.name} {number}"
        copy = Work.of(f"{copier.name} {number}", content=own)
        order = [copier, *_others(market, copier)]
        market.hand_in(number, order, {copier.name: copy})
        for player in (author, copier):
            assert market.chain.read(
                "TrainingRounds", "is_flagged", market.job, number, player.node
            )
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        report = market.report(number, copier, Violation.COPIED, market.honest_verifiers)
        market.attest(number)
        market.finalize(number, arrays)
        market.execute(report)

    return deed


def share_a_payload(market: Market) -> Outcome:
    """One node of the attacker works and another one sends the same payload: the chain flags both,
    and the one whose batches don't give it is the copier."""
    if len(market.evil) < 2:
        return impossible("second trainer")
    author, copier = market.evil[:2]
    deed = _copied(market, author, copier)
    return outcome(market, deed, _without(copier), [author, copier], 2 * market.numbers.stake)


def steal_a_payload(market: Market) -> Outcome:
    """A node gets hold of an honest trainer's payload and commits to it before its author."""
    author, thief = market.honest[0], market.evil[0]
    deed = _copied(market, author, thief)
    return outcome(market, deed, _without(thief), [thief], market.numbers.stake)


# -- commitments -------------------------------------------------------------------------------


def _unopened(market: Market, cheat: Player, digest: bytes, opening: Work, number: int) -> None:
    """A node commits to a digest that it can't open. A stranger tells of its silence."""
    place = (market.job, number, cheat.node)
    market.chain.send(cheat.operator, "TrainingRounds", "commit", *place, digest)
    others = _others(market, cheat)
    for player in others:
        market.commit(number, player)
    market.pass_phase(number, Phase.COMMIT)
    for player in others:
        market.reveal(number, player)
    refuse("rounds: bad opening", lambda: market.reveal(number, cheat, opening))
    market.pass_phase(number, Phase.REVEAL)
    market.chain.send(market.stranger, "TrainingRounds", "slash_unrevealed", *place)
    market.finish(number, dict.fromkeys(others, 1))


def copy_a_commitment(market: Market) -> Outcome:
    """Commits what an honest trainer's commitment said, seen in the mempool: it can't be opened."""
    thief, victim = market.evil[0], market.honest[0]

    def deed(market: Market) -> None:
        number = market.open()
        stolen = market.work(victim, number)
        _unopened(market, thief, market.digest(number, victim, stolen), stolen, number)

    stake = market.numbers.stake
    return outcome(market, deed, _without(thief), [thief], stake, note="it can't be opened")


def replay_a_commitment(market: Market) -> Outcome:
    """Works once, and commits the same again in the next round."""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        market.ordinary_round()
        number = market.open()
        old = market.work(cheat, number - 1)
        _unopened(market, cheat, market.digest(number - 1, cheat, old), old, number)

    def instead(market: Market) -> None:
        market.ordinary_round()
        _without(cheat)(market)

    stake = market.numbers.stake
    return outcome(market, deed, instead, [cheat], stake, note="it can't be opened")


def commit_twice(market: Market) -> Outcome:
    """Commits, and commits to something better when it has seen what others do."""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        number = market.open()
        market.commit(number, cheat)
        market.commit(number, cheat, Work.of("something better"))

    return refused(market, deed, "rounds: already committed", market.numbers.stake)


def commit_late(market: Market) -> Outcome:
    """Commits after the deadline, before anybody has moved the round on."""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        number = market.open()
        market.commit(number, market.honest[0])
        market.chain.wait(int(market.state(number).deadline) + 1 - market.chain.now)
        market.commit(number, cheat)

    return refused(market, deed, "rounds: too late", market.numbers.stake)


def _silent(times: int, friend: str) -> Deed:
    """The first of the attacker's nodes commits and does not reveal, and a friend earns what is
    paid for telling; then it makes up for the stake that is gone."""

    def deed(market: Market) -> None:
        cheat = market.evil[0]
        others = _others(market, cheat)
        for _ in range(times):
            number = market.train(others, silent=[cheat])
            place = (market.job, number, cheat.node)
            market.chain.send(friend, "TrainingRounds", "slash_unrevealed", *place)
            market.finish(number, dict.fromkeys(others, 1))
            bonded = int(market.chain.read("NodeRegistry", "bonded", cheat.node))
            if bonded < market.numbers.stake:
                missing = max(ZOO, market.numbers.stake - bonded)
                market.chain.send(cheat.owner, "NodeRegistry", "add_stake", cheat.node, missing)

    return deed


def withhold_the_reveal(market: Market) -> Outcome:
    """Commits to bad work and keeps it to itself; a friend tells, and earns the reporter's part."""
    attackers: list[Player | str] = [market.evil[0], market.stranger]
    deed = _silent(1, market.stranger)
    return outcome(market, deed, _without(market.evil[0]), attackers, market.numbers.stake)


def abort_repeatedly(market: Market) -> Outcome:
    """Commits in each round and reveals in none that doesn't suit it, with a friend who tells."""

    def instead(market: Market) -> None:
        for _ in range(_ABORTS):
            _without(market.evil[0])(market)

    attackers: list[Player | str] = [market.evil[0], market.stranger]
    deed = _silent(_ABORTS, market.stranger)
    return outcome(market, deed, instead, attackers, market.numbers.stake)


# -- payloads ----------------------------------------------------------------------------------


def _left_out(market: Market, cheat: Player) -> tuple[int, tuple[list[int], list[int]]]:
    """A node has revealed what nobody can get, and the result is proposed without it."""
    number = market.train()
    others = _others(market, cheat)
    return number, market.propose(number, dict.fromkeys(others, 1), unclaimed=1)


def withhold_a_payload(market: Market) -> Outcome:
    """Reveals the digest of a payload that it never publishes: the result leaves it out."""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        number, arrays = _left_out(market, cheat)
        market.attest(number)
        market.finalize(number, arrays)

    return outcome(market, deed, _without(cheat), [cheat], market.numbers.stake)


def publish_late(market: Market) -> Outcome:
    """Publishes a payload once a result without it is proposed, and a friend challenges that
    result: it was right when it was made."""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        number, arrays = _left_out(market, cheat)
        challenge(market, number, market.stranger)
        rule(market, number, False)
        market.attest(number)
        market.finalize(number, arrays)

    capital = market.numbers.stake + market.numbers.terms.challenge_bond
    return outcome(market, deed, _without(cheat), [cheat, market.stranger], capital)


# -- flight ------------------------------------------------------------------------------------


def _fleeing(market: Market, caught: bool, add_stake: bool = False) -> Deed:
    """The first of the attacker's nodes lies, and begins its exit or adds stake meanwhile."""
    liar = market.evil[0]

    def deed(market: Market) -> None:
        chain = market.chain
        number = market.open()
        if not add_stake:
            chain.send(liar.owner, "NodeRegistry", "begin_exit", liar.node)
        market.hand_in(number)
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        withdraw = (liar.owner, "NodeRegistry", "withdraw", liar.node)
        add = (liar.owner, "NodeRegistry", "add_stake", liar.node, ZOO)
        if caught:
            report = market.report(number, liar, Violation.INVALID, market.honest_verifiers)
        market.attest(number)
        market.finalize(number, arrays)
        if add_stake:
            for _ in range(_ADDITIONS):
                chain.send(*add)
            refuse("registry: too many additions", lambda: chain.send(*add))
        else:
            refuse("registry: still unbonding", lambda: chain.send(*withdraw))
            chain.wait(market.settings.unbonding_period + 1)
            if caught and is_convicted(market, report):
                refuse("registry: stake locked", lambda: chain.send(*withdraw))
        if caught:
            market.execute(report)
        if not add_stake:
            _take_out(market, liar)

    return deed


def _flight(market: Market, add_stake: bool) -> Outcome:
    return outcome(
        market,
        deed=_fleeing(market, False, add_stake),
        instead=_without(market.evil[0]),
        attackers=[market.evil[0]],
        capital=market.numbers.stake + add_stake * _ADDITIONS * ZOO,
        found=_fleeing(market, True, add_stake),
        chance=drawn(market, market.evil[0]),
    )


def flee_with_the_stake(market: Market) -> Outcome:
    """Begins its exit as the round opens, sends noise, and withdraws its stake before the slash."""
    return _flight(market, add_stake=False)


def dilute_the_slash(market: Market) -> Outcome:
    """Sends noise and adds stake afterwards, until the registry forgets what is old."""
    return _flight(market, add_stake=True)


def work_on_after_a_conviction(market: Market) -> Outcome:
    """Was found, and goes on working until its appeal window has passed: it is in no new round."""
    cheat = market.evil[0]

    def convicted(market: Market) -> bytes:
        number = market.train()
        arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
        report = market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
        market.attest(number)
        market.finalize(number, arrays)
        return report

    def deed(market: Market) -> None:
        report = convicted(market)
        number = market.open()
        if is_convicted(market, report):
            refuse("rounds: not expected", lambda: market.commit(number, cheat))
        others = _others(market, cheat)
        market.hand_in(number, others)
        market.finish(number, dict.fromkeys(others, 1))
        market.execute(report)

    def instead(market: Market) -> None:
        report = convicted(market)
        _without(cheat)(market)
        market.execute(report)

    return outcome(market, deed, instead, [cheat], market.numbers.stake)


ATTACKS = (
    Attack("send noise instead of work", "training", lie),
    Attack("send noise in one round of four", "training", lie_now_and_then, _HONEST_ROUNDS + 1),
    Attack("send noise, found by a friend", "training", lie_with_a_friend),
    Attack("send noise under a new name each time", "training", lie_under_new_names, 2),
    Attack("send noise in five jobs at once", "training", lie_in_many_jobs),
    Attack("take retained pay out before a lie", "training", take_retained_pay_out),
    Attack("share one payload among two nodes", "training", share_a_payload),
    Attack("steal a payload and commit first", "training", steal_a_payload),
    Attack("copy a commitment from the mempool", "training", copy_a_commitment),
    Attack("replay an old commitment", "training", replay_a_commitment, 2),
    Attack("commit twice", "training", commit_twice),
    Attack("commit late", "training", commit_late),
    Attack("withhold the reveal", "training", withhold_the_reveal),
    Attack("commit and abort three times", "training", abort_repeatedly, _ABORTS),
    Attack("withhold a payload", "training", withhold_a_payload),
    Attack("publish a payload late", "training", publish_late),
    Attack("flee with the stake before the slash", "training", flee_with_the_stake),
    Attack("dilute the slash with new stake", "training", dilute_the_slash),
    Attack("work on after a conviction", "training", work_on_after_a_conviction),
)
