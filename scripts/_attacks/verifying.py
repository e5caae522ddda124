# SPDX-License-Identifier: Apache-2.0
"""Attacks of verifiers, aggregators and challengers: false verdicts, stolen bounties, wrong
results, delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from agents.mechanisms import verify
from agents.protocol import formulas
from agents.protocol.numbers import ZOO, Phase, ReportStatus, Role, Violation
from scripts._attacks.attack import Attack, Deed, Outcome, outcome
from scripts._attacks.embedded import CHAIN_ID
from scripts._attacks.honest import duty
from scripts._attacks.market import EVIDENCE, Market, Player
from scripts._attacks.plays import (
    announce_challenge,
    answer,
    challenge,
    close,
    everybody_works,
    impossible,
    is_convicted,
    overturn,
    proposed,
    refuse,
    refused,
    report_status,
    rule,
    watcher,
)
from scripts._attacks.spot_checks import drawn

_MORE_STAKE = 9_000 * ZOO


def _with_a_verifier(play: Callable[[Market, Player], Outcome]) -> Callable[[Market], Outcome]:
    """An attack that takes a verifier: the first of the attacker's, if its share is one at all."""

    def played(market: Market) -> Outcome:
        if not market.evil_verifiers:
            return impossible("verifier")
        return play(market, market.evil_verifiers[0])

    played.__doc__ = play.__doc__
    return played


def _voices(market: Market) -> int:
    """What the attacker's verifiers have bonded, in 1e-18 ZOO."""
    return market.numbers.verifier_stake * len(market.evil_verifiers)


# -- false reports -----------------------------------------------------------------------------


def _accuse(market: Market, number: int, victim: Player) -> bytes:
    """The attacker's verifiers report a node that did nothing wrong; the report's id."""
    judges = market.evil_verifiers
    return market.report(number, victim, Violation.INVALID, judges, announced=False)


def frame(market: Market) -> Outcome:
    """The attacker's verifiers report an honest node, so that its share falls to others or it is
    slashed; the node appeals if they are enough to convict it."""
    if not market.evil_verifiers:
        return impossible("verifier")
    victim = market.honest[0]

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        report = _accuse(market, number, victim)
        close(market, number, arrays)
        answer(market, report, victim)

    return outcome(market, deed, everybody_works, market.evil_verifiers, _voices(market))


@_with_a_verifier
def add_stake_to_convict(market: Market, judge: Player) -> Outcome:
    """A verifier adds nine times its stake in the block in which it opens a round, to be the two
    thirds that convict and finalize: what is that young has no weight."""
    victim = market.honest[0]
    with market.attack():
        market.person(f"{judge.name} owner", _MORE_STAKE)

        def deed(market: Market) -> None:
            args = (judge.node, _MORE_STAKE)
            market.chain.send(judge.owner, "NodeRegistry", "add_stake", *args)
            _framed_alone(market, judge, victim)

        return outcome(
            market, deed, everybody_works, [judge], market.numbers.verifier_stake + _MORE_STAKE
        )


def _framed_alone(market: Market, judge: Player, victim: Player) -> None:
    """One verifier reports an honest node and attests: neither decides anything by itself."""
    number, arrays = proposed(market)
    report = market.report(number, victim, Violation.INVALID, [judge], announced=False)
    market.attest(number, [judge])
    assert report_status(market, report) == ReportStatus.OPEN
    assert not market.chain.read("TrainingResults", "can_finalize", market.job, number)
    market.attest(number, [v for v in market.verifiers if v != judge])
    market.finalize(number, arrays)
    answer(market, report, victim)


@_with_a_verifier
def convict_while_others_rest(market: Market, judge: Player) -> Outcome:
    """All other verifiers rest; the one that is left convicts an honest node and wants to finalize
    alone: who rests still counts."""
    victim, others = market.honest[0], [v for v in market.verifiers if v != judge]

    def rest(market: Market) -> tuple[int, tuple[list[int], list[int]]]:
        for other in others:
            market.chain.send(other.operator, "NodeRegistry", "set_active", other.node, False)
        number, arrays = proposed(market)
        market.attest(number, [judge])
        assert not market.chain.read("TrainingResults", "can_finalize", market.job, number)
        return number, arrays

    def deed(market: Market) -> None:
        number, arrays = rest(market)
        report = market.report(number, victim, Violation.INVALID, [judge], announced=False)
        assert report_status(market, report) == ReportStatus.OPEN
        market.finalize(number, arrays)
        answer(market, report, victim)

    def instead(market: Market) -> None:
        number, arrays = rest(market)
        market.finalize(number, arrays)

    return outcome(market, deed, instead, [judge], market.numbers.verifier_stake)


@_with_a_verifier
def report_everybody(market: Market, judge: Player) -> Outcome:
    """A verifier checks nothing, and announces and reports every trainer before the others can; one
    of them has cheated."""
    cheat = market.honest[0]

    def played(blind: bool) -> Deed:
        def deed(market: Market) -> None:
            number, arrays = proposed(market)
            for node in market.trainers if blind else ():
                market.report(number, node, Violation.INVALID, [judge])
            report = market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
            close(market, number, arrays)
            market.execute(report)

        return deed

    note = "the finder loses its bounty, and the reporter its deposits"
    stake = market.numbers.verifier_stake
    return outcome(market, played(True), played(False), [judge], stake, note=note)


@_with_a_verifier
def guess_a_cheat(market: Market, judge: Player) -> Outcome:
    """A verifier checks nothing and announces one node by guess, before anybody else can, with a
    deposit that lets it earn the whole bounty; one of the trainers has cheated. A right guess
    brings the deposit's worth at most, and a wrong one costs it."""
    cheats = market.trainers
    right = Fraction(1, len(cheats))
    cheat = market.honest[0]
    other = next(p for p in reversed(cheats) if p != cheat)
    deposit = max(1, market.bounty(Violation.INVALID))

    def played(guess: Player | None) -> Deed:
        def deed(market: Market) -> None:
            number, arrays = proposed(market)
            if guess is not None:
                market.announce(number, guess, judge, deposit)
            report = market.report(number, cheat, Violation.INVALID, market.honest_verifiers)
            if guess is cheat and is_convicted(market, report):
                market.open_announcement(number, cheat, judge)
            close(market, number, arrays)
            market.execute(report)

        return deed

    return outcome(
        market,
        deed=played(other),
        instead=played(None),
        attackers=[judge],
        capital=market.numbers.verifier_stake + deposit,
        found=played(cheat),
        chance=right,
        note="in a round in which a cheat is found",
    )


@_with_a_verifier
def delay_by_false_reports(market: Market, judge: Player) -> Outcome:
    """A verifier reports an honest node in each round, so that no result is final before its
    window has passed."""
    victim = market.honest[-1]

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        report = market.report(number, victim, Violation.INVALID, [judge], announced=False)
        close(market, number, arrays)
        answer(market, report, victim)

    stake = market.numbers.verifier_stake
    note = f"delays a round by {market.numbers.terms.challenge_s:,} s at most"
    return outcome(market, deed, everybody_works, [judge], stake, note=note)


# -- voices ------------------------------------------------------------------------------------


@_with_a_verifier
def split_the_stake(market: Market, judge: Player) -> Outcome:
    """A verifier splits its stake over two nodes, of another owner if it must be: each has less
    than the minimum, or where it has enough for two, nobody has approved the second one."""
    half = market.numbers.verifier_stake // 2

    def deed(market: Market) -> None:
        second = market.join("half a verifier", Role.VERIFIER, half)
        market.chain.wait(int(market.chain.read("NodeRegistry", "maturity")) + 1)
        number, _ = proposed(market)
        market.attest(number, [second])

    enough = half >= market.settings.verifier_stake
    reason = "results: not a verifier" if enough else "registry: stake too low"
    return refused(market, deed, reason, 2 * half)


@_with_a_verifier
def vote_with_a_second_node(market: Market, judge: Player) -> Outcome:
    """A verifier's owner has a second one approved: an owner has one voice."""

    def deed(market: Market) -> None:
        second = _second(market, judge)
        number, _ = proposed(market)
        market.attest(number, [judge, second])

    capital = 2 * market.numbers.verifier_stake
    return refused(market, deed, "results: not a verifier", capital)


def _second(market: Market, of: Player, name: str = "second") -> Player:
    """One more verifier of a node's owner, approved and mature."""
    owner = f"{of.name} owner"
    second = market.join(name, Role.VERIFIER, market.numbers.verifier_stake, owner=owner)
    market.decide("NodeRegistry", "approve_role", second.node, int(Role.VERIFIER), True)
    market.chain.wait(int(market.chain.read("NodeRegistry", "maturity")) + 1)
    return second


def vote_without_approval(market: Market) -> Outcome:
    """Somebody bonds a verifier's stake and votes before the committee has approved it."""

    def deed(market: Market) -> None:
        crowd = market.join("crowd", Role.VERIFIER, market.numbers.verifier_stake)
        market.chain.wait(int(market.chain.read("NodeRegistry", "maturity")) + 1)
        number, _ = proposed(market)
        market.attest(number, [crowd])

    return refused(market, deed, "results: not a verifier", market.numbers.verifier_stake)


def judge_its_own_node(market: Market) -> Outcome:
    """The owner of a trainer has a verifier too, and lets it report its own node as the finder."""
    own = market.evil[0]

    def deed(market: Market) -> None:
        second = _second(market, own, "own judge")
        number, _ = proposed(market)
        market.report(number, own, Violation.INVALID, [second])

    capital = market.numbers.stake + market.numbers.verifier_stake
    return refused(market, deed, "reports: own node", capital)


@_with_a_verifier
def finalize_before_others_attest(market: Market, judge: Player) -> Outcome:
    """A verifier attests without a look, and tries to make the result final as soon as two thirds
    have attested, so that the slower ones have no part of the verifiers' cut. They have half of the
    challenge window."""

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        place = (market.job, number, *arrays)
        for voice in (judge, *(v for v in market.verifiers if v != judge)):
            refuse(
                "results: not finalizable",
                lambda: market.chain.send(judge.operator, "TrainingResults", "finalize", *place),
            )
            market.attest(number, [voice])
        market.finalize(number, arrays)

    return outcome(market, deed, everybody_works, [judge], market.numbers.verifier_stake)


def attest_without_a_look(market: Market) -> Outcome:
    """The attacker's verifiers do nobody's work again and attest what the others have attested:
    they are paid like who looked, and save what looking costs."""
    if not market.evil_verifiers:
        return impossible("verifier")
    numbers = market.numbers

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        market.attest(number)
        market.attest(number, market.evil_verifiers)
        market.finalize(number, arrays)

    found = outcome(market, deed, everybody_works, market.evil_verifiers, _voices(market))
    if not verify.get(str(numbers.spec.get("verify", "reexecution"))).redone:
        return replace(found, note="nothing is done again")
    asked = duty(numbers)
    looking = asked.redone * asked.trainer_pay * Fraction(str(numbers.compute))
    return replace(found, profit=found.profit + looking * len(market.evil_verifiers))


# -- stolen findings ---------------------------------------------------------------------------


@_with_a_verifier
def copy_a_report(market: Market, copier: Player) -> Outcome:
    """A verifier sees the finder's report wait for its block, announces and sends the same before
    it: the bounty is the oldest announcement's."""
    cheat, judges = market.honest[0], market.honest_verifiers

    def played(copied: bool) -> Deed:
        def deed(market: Market) -> None:
            number, arrays = proposed(market)
            market.announce(number, cheat, judges[0])
            first = [copier] if copied else []
            report = market.report(number, cheat, Violation.INVALID, first)
            args = (market.job, number, judges[0].node, cheat.node, int(Violation.INVALID))
            call = (judges[0].operator, "ViolationReports", "report", *args, EVIDENCE)
            market.chain.send(*call)
            if not is_convicted(market, report):
                market.report(number, cheat, Violation.INVALID, judges[1:])
            close(market, number, arrays)
            market.execute(report)

        return deed

    return outcome(market, played(True), played(False), [copier], market.numbers.verifier_stake)


@_with_a_verifier
def copy_an_announcement(market: Market, copier: Player) -> Outcome:
    """A verifier announces the finder's own digest before it: it opens for nobody else."""
    cheat, finder = market.honest[0], market.honest_verifiers[0]

    def deed(market: Market) -> None:
        number, _ = proposed(market)
        place = (market.job, number)
        at = market.chain["ViolationReports"].address
        digest = formulas.announcement(CHAIN_ID, at, place, cheat.node, finder.node, EVIDENCE)
        args = (*place, copier.node, digest, market.bounty(Violation.INVALID))
        market.chain.send(copier.operator, "ViolationReports", "announce_report", *args)
        market.chain.wait()
        market.report(
            number, cheat, Violation.INVALID, [v for v in market.verifiers if v != copier]
        )
        market.open_announcement(number, cheat, copier)

    return refused(market, deed, "reports: not announced", market.numbers.verifier_stake)


def _wrong(market: Market, pay: dict[Player, int]) -> tuple[int, Player]:
    """A round in which everybody has worked, and the aggregator on duty proposes a wrong result;
    its number, and who that is."""
    number = market.train()
    duty = market.on_duty(number)
    market.propose(number, pay, by=duty, label="wrong")
    return number, duty


def _put_right(market: Market, number: int, barred: Player) -> None:
    """Another aggregator proposes the right result, and the round ends."""
    other = next(p for p in market.aggregators if p != barred)
    close(market, number, market.propose(number, dict.fromkeys(market.trainers, 1), by=other))


def copy_a_challenge(market: Market) -> Outcome:
    """A stranger sees the finder's challenge of a wrong result wait, announces and sends the same
    before it."""
    copier = market.stranger

    def played(copied: bool) -> Deed:
        def deed(market: Market) -> None:
            number, duty = _wrong(market, {market.honest[0]: 1})
            announce_challenge(market, number, watcher(market))
            if copied:
                announce_challenge(market, number, copier)
                challenge(market, number, copier)
            challenge(market, number, watcher(market))
            rule(market, number, True)
            _put_right(market, number, duty)

        return deed

    capital = market.numbers.terms.challenge_bond + market.settings.least_challenge_bond
    return outcome(market, played(True), played(False), [copier], capital)


def announce_every_result(market: Market) -> Outcome:
    """A stranger checks nothing and announces each result, in case that somebody challenges it."""

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        digest = announce_challenge(market, number, market.stranger)
        close(market, number, arrays)
        market.chain.wait(market.settings.unbonding_period + 1)
        expire = ("TrainingResults", "expire_announcement", market.stranger, digest)
        market.chain.send(market.stranger_address, *expire)

    deposit = market.settings.least_challenge_bond
    return outcome(market, deed, everybody_works, [market.stranger], deposit)


# -- wrong results -----------------------------------------------------------------------------


def _duty(market: Market) -> Player:
    """The aggregator whose turn it will be in the next round."""
    with market.attack():
        return market.on_duty(market.train())


def pay_oneself(market: Market) -> Outcome:
    """The aggregator on duty proposes a result that pays the attacker's trainers alone, and the
    attacker's verifiers attest it; somebody recomputes it and challenges, unless they are enough
    to make it final at once."""
    duty = _duty(market)

    def deed(market: Market) -> None:
        number = market.train()
        arrays = market.propose(number, dict.fromkeys(market.evil, 1), by=duty, label="wrong")
        market.attest(number, market.evil_verifiers)
        if market.chain.read("TrainingResults", "can_finalize", market.job, number):
            market.finalize(number, arrays)
            return
        overturn(market, number, watcher(market))
        _put_right(market, number, duty)

    attackers = [duty, *market.evil, *market.evil_verifiers]
    numbers = market.numbers
    stakes = numbers.aggregator_stake + numbers.stake * len(market.evil) + _voices(market)
    return outcome(market, deed, everybody_works, attackers, stakes)


def pay_oneself_by_a_trainer(market: Market) -> Outcome:
    """The attacker's aggregator is silent, and its trainer, whose stake is less, proposes in the
    fallback window a result that pays the attacker alone."""
    duty, proxy = _duty(market), market.evil[0]

    def deed(market: Market) -> None:
        number = market.train()
        market.pass_phase(number, Phase.AGGREGATE)
        market.propose(number, dict.fromkeys(market.evil, 1), by=proxy, label="wrong")
        overturn(market, number, watcher(market))
        _put_right(market, number, duty)

    attackers = [duty, *market.evil]
    numbers = market.numbers
    stakes = numbers.aggregator_stake + numbers.stake * len(market.evil)
    return outcome(market, deed, everybody_works, attackers, stakes)


def leave_others_out(market: Market) -> Outcome:
    """The aggregator on duty leaves out all payloads but the attacker's, as if they could not be
    had. Nobody can prove that they could, so the result stands; verifiers who had them attest it
    late in the window."""
    return _others_left_out(market, attested=True)


def _others_left_out(market: Market, attested: bool) -> Outcome:
    """`attested`: by honest verifiers too, in the end."""
    duty = _duty(market)

    def deed(market: Market) -> None:
        number = market.train()
        ours = dict.fromkeys(market.evil, 1)
        arrays = market.propose(number, ours, by=duty, unclaimed=len(market.honest))
        market.attest(number, market.evil_verifiers)
        if attested:
            market.attest(number)
        market.finalize(number, arrays)

    attackers = [duty, *market.evil, *market.evil_verifiers]
    numbers = market.numbers
    stakes = numbers.aggregator_stake + numbers.stake * len(market.evil) + _voices(market)
    return outcome(market, deed, everybody_works, attackers, stakes)


def challenge_ones_own_result(market: Market) -> Outcome:
    """The aggregator on duty proposes a wrong result, and its friend has announced it before
    anybody else can, for the finder's share of the slash."""
    duty = _duty(market)

    def deed(market: Market) -> None:
        number, _ = _wrong(market, {market.honest[0]: 1})
        overturn(market, number, market.stranger)
        _put_right(market, number, duty)

    bonds = market.numbers.terms.challenge_bond + market.settings.least_challenge_bond
    capital = market.numbers.aggregator_stake + bonds
    return outcome(market, deed, everybody_works, [duty, market.stranger], capital)


def stay_silent_on_duty(market: Market) -> Outcome:
    """The aggregator on duty proposes nothing: another one does, and has its cut."""
    duty = _duty(market)

    def deed(market: Market) -> None:
        number = market.train()
        market.pass_phase(number, Phase.AGGREGATE)
        _put_right(market, number, duty)

    return outcome(market, deed, everybody_works, [duty], market.numbers.aggregator_stake)


# -- challenges of right results ---------------------------------------------------------------


def challenge_a_right_result(market: Market) -> Outcome:
    """A stranger challenges a right result, is rejected, and challenges it again."""

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        challenge(market, number, market.stranger)
        rule(market, number, False)
        again = "results: already challenged"
        refuse(again, lambda: challenge(market, number, market.stranger))
        close(market, number, arrays)

    bond = market.numbers.terms.challenge_bond
    return outcome(market, deed, everybody_works, [market.stranger], bond)


def challenge_while_the_committee_sleeps(market: Market) -> Outcome:
    """A stranger challenges a right result and nobody decides; the attacker's verifiers are silent.
    The others have attested it."""

    def deed(market: Market) -> None:
        number, arrays = proposed(market)
        challenge(market, number, market.stranger)
        market.attest(number)
        market.pass_phase(number, Phase.DISPUTED)
        if market.phase(number) == Phase.CHALLENGE:
            market.finalize(number, arrays)

    def instead(market: Market) -> None:
        number, arrays = proposed(market)
        market.attest(number)
        market.finalize(number, arrays)

    attackers: list[Player | str] = [market.stranger, *market.evil_verifiers]
    capital = market.numbers.terms.challenge_bond + _voices(market)
    return outcome(market, deed, instead, attackers, capital)


def shield_a_lie_by_a_challenge(market: Market) -> Outcome:
    """A trainer leaves as the round opens and sends noise; its friend challenges the result, so
    that the round outlasts the stake and nobody reports meanwhile."""
    liar = market.evil[0]

    def played(caught: bool) -> Deed:
        def deed(market: Market) -> None:
            chain = market.chain
            number = market.open()
            chain.send(liar.owner, "NodeRegistry", "begin_exit", liar.node)
            market.hand_in(number)
            arrays = market.propose(number, dict.fromkeys(market.trainers, 1))
            challenge(market, number, market.stranger)
            rule(market, number, False)
            withdraw = (liar.owner, "NodeRegistry", "withdraw", liar.node)
            refuse("registry: still unbonding", lambda: chain.send(*withdraw))
            judges = market.honest_verifiers
            if caught:
                report = market.report(number, liar, Violation.INVALID, judges)
            market.attest(number)
            market.finalize(number, arrays)
            if caught:
                market.execute(report)

        return deed

    def instead(market: Market) -> None:
        others = [p for p in market.trainers if p != liar]
        number = market.train(others)
        market.finish(number, dict.fromkeys(others, 1))

    return outcome(
        market,
        deed=played(False),
        instead=instead,
        attackers=[liar, market.stranger],
        capital=market.numbers.stake + market.numbers.terms.challenge_bond,
        found=played(True),
        chance=drawn(market, liar),
    )


ATTACKS = (
    Attack("frame an honest node", "verifying", frame),
    Attack("add stake to convict alone", "verifying", add_stake_to_convict),
    Attack("convict while the others rest", "verifying", convict_while_others_rest),
    Attack("report everybody blindly", "verifying", report_everybody),
    Attack("announce a node by guess", "verifying", guess_a_cheat),
    Attack("delay rounds by false reports", "verifying", delay_by_false_reports),
    Attack("split stake over two verifiers", "verifying", split_the_stake),
    Attack("vote with a second node", "verifying", vote_with_a_second_node),
    Attack("vote without an approval", "verifying", vote_without_approval),
    Attack("judge one's own node", "verifying", judge_its_own_node),
    Attack("finalize before others attest", "verifying", finalize_before_others_attest),
    Attack("attest without a look", "verifying", attest_without_a_look),
    Attack("copy a report from the mempool", "verifying", copy_a_report),
    Attack("copy an announcement", "verifying", copy_an_announcement),
    Attack("copy a challenge from the mempool", "verifying", copy_a_challenge),
    Attack("announce every result", "verifying", announce_every_result),
    Attack("propose a result that pays oneself", "verifying", pay_oneself),
    Attack("leave all but one's own out of the result", "verifying", leave_others_out),
    Attack("have a trainer propose it", "verifying", pay_oneself_by_a_trainer),
    Attack("have a friend challenge one's result", "verifying", challenge_ones_own_result),
    Attack("stay silent on duty", "verifying", stay_silent_on_duty),
    Attack("challenge a right result twice", "verifying", challenge_a_right_result),
    Attack(
        "challenge while the committee sleeps", "verifying", challenge_while_the_committee_sleeps
    ),
    Attack("shield a lie by a challenge", "verifying", shield_a_lie_by_a_challenge),
)
