# SPDX-License-Identifier: Apache-2.0
"""Attacks on money: a job's escrow, its terms, retained pay, the books, other people's names."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agents.protocol.numbers import ZERO_DIGEST, ZOO, Phase, Role, Violation
from scripts._attacks.attack import Attack, Outcome, outcome
from scripts._attacks.deeds import round_of, without_evil
from scripts._attacks.market import SPEC, Market, Player
from scripts._attacks.plays import (
    all_refused,
    announce_challenge,
    answer,
    challenge,
    close,
    everybody_works,
    hired,
    impossible,
    proposed,
    refuse,
    refused,
    rule,
)
from scripts._attacks.spot_checks import drawn

_RETAINED = 2  # rounds' pay, where the market's job retains none


# -- jobs --------------------------------------------------------------------------------------


def be_funded_in_anothers_place(market: Market) -> Outcome:
    """A thief creates a job right after the victim's, whose money is sent to the newest job."""
    thief = market.stranger

    def deed(market: Market) -> None:
        market.create_job(market.sponsor, 1, 0)
        newest = market.create_job(thief, 1, 0)
        amount = market.numbers.terms.reward_per_round
        args = (newest, market.sponsor, SPEC, amount)
        market.chain.send(market.sponsor, "RewardPool", "fund", *args)

    return refused(market, deed, "pool: another job", 0)


def spend_anothers_escrow(market: Market) -> Outcome:
    """A job without money opens a round, to be paid from the escrow of others."""

    def deed(market: Market) -> None:
        job = market.create_job(market.stranger, 1, 0)
        market.chain.send(market.stranger, "TrainingRounds", "open_round", job)

    return refused(market, deed, "pool: escrow too low", 0)


def offer_impossible_terms(market: Market) -> Outcome:
    """A sponsor asks for a bond that nobody can pay, or of nothing, pays nothing, or leaves nobody
    the time to reveal or to decide."""
    settings = market.settings
    traps: tuple[tuple[str, dict[str, Any]], ...] = (
        ("jobs: bad bond", {"challenge_bond": settings.least_challenge_bond - 1}),
        ("jobs: bad bond", {"challenge_bond": settings.most_challenge_bond + 1}),
        ("jobs: reward too low", {"reward_per_round": settings.least_reward - 1}),
        ("jobs: bad window", {"reveal_s": settings.unbonding_period // 20_000}),
        ("jobs: bad window", {"appeal_s": settings.unbonding_period // 20_000}),
        ("jobs: dispute window too short", {"dispute_s": 2 * settings.routine_delay - 1}),
    )
    tries = ((reason, partial(_create, terms=terms)) for reason, terms in traps)
    return all_refused(market, tries, 0)


def _create(market: Market, terms: dict[str, Any]) -> None:
    market.create_job(market.stranger, 1, 0, **terms)


def pay_the_first_round(market: Market) -> Outcome:
    """A stranger pays for a job's first round and opens it, so that its sponsor can't adopt the
    consensus any more: the sponsor cancels, and has what the stranger paid."""
    stranger, reward = market.stranger, market.numbers.terms.reward_per_round
    with hired(market, "victim", 0):

        def cancel(market: Market) -> None:
            market.chain.send(market.sponsor, "TrainingJobs", "cancel_job", market.job)

        def deed(market: Market) -> None:
            chain, job, sponsor = market.chain, market.job, market.sponsor
            chain.send(stranger, "RewardPool", "fund", job, sponsor, SPEC, reward)
            number = market.open()
            adopt = (sponsor, "ScoreConsensus", "adopt", job, *market.numbers.terms.score_windows)
            refuse("scores: round opened", lambda: chain.send(*adopt))
            cancel(market)
            market.pass_phase(number, Phase.COMMIT)
            chain.send(sponsor, "RewardPool", "refund", job)

        return outcome(market, deed, cancel, [stranger], reward)


def cancel_while_a_round_runs(market: Market) -> Outcome:
    """A sponsor takes the revealed work, cancels the job and asks for its money back."""

    def deed(market: Market) -> None:
        chain, job, sponsor = market.chain, market.job, market.sponsor
        number, arrays = proposed(market)
        chain.send(sponsor, "TrainingJobs", "cancel_job", job)
        refuse("pool: job not ended", lambda: chain.send(sponsor, "RewardPool", "refund", job))
        close(market, number, arrays)
        chain.send(sponsor, "RewardPool", "refund", job)

    return outcome(market, deed, everybody_works, [market.sponsor], 0)


def fill_ones_own_job(market: Market) -> Outcome:
    """A sponsor's own trainers send noise in its job. Paid, their shares are the sponsor's again;
    found, the trainers of the next round have them."""
    shares = dict.fromkeys(market.trainers, 1)
    return outcome(
        market,
        deed=round_of(shares),
        instead=without_evil,
        attackers=[market.sponsor, *market.evil],
        capital=market.numbers.stake * len(market.evil),
        found=round_of(shares, market.evil),
        chance=drawn(market, market.evil[0]),
    )


# -- results that are rejected until there is no time left ----------------------------------------


def _longest_dispute(market: Market) -> int:
    """The longest dispute window that TrainingJobs takes beside the market's other windows."""
    terms = market.numbers.terms
    course = terms.commit_s + terms.reveal_s + 2 * terms.aggregate_s
    course += terms.challenge_s + terms.challenge_s // 2 + terms.appeal_s
    return (market.settings.unbonding_period - course) // 2


def _use_up_the_time(market: Market, dispute_s: int) -> Outcome:
    """A sponsor has a round's work without a right result, because none can be settled in time.

    The attacker is the sponsor of a job with this dispute window, the aggregator on duty, trainers
    and a verifier within its share, and a friend. The aggregator is silent. In the fallback window,
    first the trainers and then the others propose a wrong result, each as soon as the one before is
    rejected, and the friend has announced and challenges it at once: the bond comes back, and half
    of the slash. The committee is right each time, and takes its routine delay. A rejected result
    gives way to another one only if that could still be challenged and decided before `settle_by`
    (TrainingResults `_fits`). Else the round is void ("no time left"), though its payloads are
    public. Its pool is carried: the next round pays it too, so the sponsor saves nothing.
    """
    terms, settings = market.numbers.terms, market.settings
    with hired(market, "mallory", 2, dispute_s=dispute_s):
        with market.attack():
            duty = market.on_duty(market.train())
        # Of the trainers one may, before any result was thrown out.
        proposers = [market.evil[0], *market.evil_verifiers, duty]
        ends = []

        def deed(market: Market) -> None:
            friend, number = market.stranger, market.train()
            market.pass_phase(number, Phase.AGGREGATE)
            for proposer in proposers:
                if market.phase(number) == Phase.AGGREGATE:
                    market.propose(number, {market.evil[0]: 1}, by=proposer, label="wrong")
                    announce_challenge(market, number, friend)
                    challenge(market, number, friend)
                    rule(market, number, True)
            if market.phase(number) == Phase.AGGREGATE:
                other = next(p for p in market.aggregators if p != duty)
                pay = dict.fromkeys(market.trainers, 1)
                arrays = market.propose(number, pay, by=other)
                market.attest(number)
                market.finalize(number, arrays)
            ends.append(market.phase(number))

        people = [*market.evil, *market.evil_verifiers, duty]
        attackers: list[Player | str] = [market.sponsor, market.stranger, *people]
        stakes = len(market.evil) * market.numbers.stake + market.numbers.aggregator_stake
        stakes += len(market.evil_verifiers) * market.numbers.verifier_stake
        bonds = terms.challenge_bond + settings.least_challenge_bond
        found = outcome(market, deed, everybody_works, attackers, stakes + bonds)
        void = "the round is void" if ends[0] == Phase.VOID else "the round is paid all the same"
        return replace(found, note=void)


def use_up_the_time(market: Market) -> Outcome:
    """A sponsor's friends propose wrong results at the market's terms, one after the other, until
    there is no time for a right one: see `_use_up_the_time`."""
    return _use_up_the_time(market, market.numbers.terms.dispute_s)


def leave_no_time_for_a_second_result(market: Market) -> Outcome:
    """A sponsor chooses the longest dispute window, so that one wrong result is enough: see
    `_use_up_the_time`."""
    return _use_up_the_time(market, _longest_dispute(market))


# -- retained pay ------------------------------------------------------------------------------


def _retaining(market: Market) -> Market:
    """The market, or where its job retains nothing another one whose job does."""
    numbers = market.numbers
    if numbers.terms.retain_rounds:
        return market
    return Market(replace(numbers, terms=replace(numbers.terms, retain_rounds=_RETAINED)))


def convict_for_retained_pay(market: Market) -> Outcome:
    """A sponsor and its verifiers report a node that has worked for long, to have the pay back
    that is retained of it."""
    if not market.evil_verifiers:
        return impossible("verifier")
    market = _retaining(market)
    victim, retain = market.honest[0], market.numbers.terms.retain_rounds

    def deed(market: Market) -> None:
        for _ in range(retain):
            market.ordinary_round()
        number, arrays = proposed(market)
        judges = market.evil_verifiers
        report = market.report(number, victim, Violation.INVALID, judges, announced=False)
        close(market, number, arrays)
        answer(market, report, victim)

    def instead(market: Market) -> None:
        for _ in range(retain + 1):
            market.ordinary_round()

    attackers: list[Player | str] = [market.sponsor, *market.evil_verifiers]
    capital = market.numbers.verifier_stake * len(market.evil_verifiers)
    note = f"of {retain} rounds"
    return outcome(market, deed, instead, attackers, capital, note=note)


def let_a_job_rest(market: Market) -> Outcome:
    """A sponsor neither ends its job nor pays for another round, so that nobody gets what was
    retained: it is free after an unbonding period."""
    market = _retaining(market)

    def deed(market: Market) -> None:
        chain = market.chain
        market.ordinary_round()
        chain.wait(market.settings.unbonding_period + market.numbers.terms.dispute_s)
        for player in market.trainers:
            assert chain.read("RewardPool", "retained", market.job, player.node)
            args = ("RewardPool", "release_retained", market.job, player.node)
            chain.send(market.stranger_address, *args)

    return outcome(market, deed, everybody_works, [market.sponsor], 0)


# -- books -------------------------------------------------------------------------------------


def claim_twice(market: Market) -> Outcome:
    """Takes out its pay, and takes it out again."""
    player = market.evil[0]

    def deed(market: Market) -> None:
        for _ in range(1 + market.numbers.terms.retain_rounds):
            market.ordinary_round()
        for _ in range(2):
            market.chain.send(player.payout, "RewardPool", "claim")

    return refused(market, deed, "pool: nothing to claim", market.numbers.stake)


def settle_twice(market: Market) -> Outcome:
    """Has a round that is paid settled again, or finalized with other figures."""
    player = market.evil[0]

    def deed(market: Market) -> None:
        chain = market.chain
        number, arrays = proposed(market)
        market.attest(number, market.verifiers)
        finalize = (player.operator, "TrainingResults", "finalize", market.job, number)
        other = ([player.node], [1])
        refuse("results: wrong contributions", lambda: chain.send(*finalize, *other))
        chain.send(*finalize, *arrays)
        refuse("results: not finalizable", lambda: chain.send(*finalize, *arrays))
        settle = (player.operator, "TrainingResults", "settle", market.job, number)
        chain.send(*settle, *arrays)

    return refused(market, deed, "results: nothing to settle", market.numbers.stake)


def occupy_an_operator(market: Market) -> Outcome:
    """Registers a node with an operator that serves somebody else, or with the consent that a
    newcomer has sent for its own owner."""
    victim, stake = market.honest[0], market.numbers.stake

    def taken(market: Market) -> None:
        args = (victim.operator, market.stranger, int(Role.TRAINER), stake, ZERO_DIGEST, b"")
        market.chain.send(market.stranger, "NodeRegistry", "register_node", *args)

    def seen(market: Market) -> None:
        operator, consent = market.consent("newcomer", market.person("owner of a newcomer"))
        args = (operator, market.stranger, int(Role.TRAINER), stake, ZERO_DIGEST, consent)
        market.chain.send(market.stranger, "NodeRegistry", "register_node", *args)

    tries = (("registry: operator in use", taken), ("registry: no consent", seen))
    return all_refused(market, tries, stake)


def rob_by_privileged_calls(market: Market) -> Outcome:
    """A stranger calls what only other contracts may: slash a node, pay a round, end one, name
    another payout."""
    victim, me = market.honest[0], market.stranger
    calls: tuple[tuple[str, str, str, tuple[Any, ...]], ...] = (
        ("registry: not a slasher", "NodeRegistry", "slash", (victim.node, 2, 0, me)),
        ("registry: not the owner", "NodeRegistry", "set_payout", (victim.node, me)),
        ("registry: not the owner", "NodeRegistry", "begin_exit", (victim.node,)),
        ("pool: not reports", "RewardPool", "settle_share", (market.job, 1, victim.node, True)),
        ("pool: not sponsor", "RewardPool", "refund", (market.job,)),
        ("results: not reports", "TrainingResults", "invalidate", (market.job, 1, victim.node)),
        ("jobs: not sponsor", "TrainingJobs", "cancel_job", (market.job,)),
        ("pool: not results", "RewardPool", "reserve", (market.job, 99, ZOO)),
    )
    tries = ((call[0], partial(_send, call=(me, *call[1:]))) for call in calls)
    return all_refused(market, tries, 0)


def _send(market: Market, call: tuple[str, str, str, tuple[Any, ...]]) -> None:
    sender, name, function, args = call
    market.chain.send(sender, name, function, *args)


ATTACKS = (
    Attack("be funded in another's place", "training", be_funded_in_anothers_place),
    Attack("spend another job's escrow", "training", spend_anothers_escrow),
    Attack("offer impossible terms", "training", offer_impossible_terms),
    Attack("pay the first round of another's job", "training", pay_the_first_round),
    Attack("cancel while a round runs", "training", cancel_while_a_round_runs),
    Attack("fill one's own job with noise", "training", fill_ones_own_job),
    Attack("use up the time by wrong results", "training", use_up_the_time),
    Attack("leave no time for a second result", "training", leave_no_time_for_a_second_result),
    Attack("convict for retained pay", "training", convict_for_retained_pay, _RETAINED + 1),
    Attack("let a job rest with retained pay", "training", let_a_job_rest),
    Attack("claim twice", "training", claim_twice),
    Attack("settle twice", "training", settle_twice),
    Attack("occupy an operator's address", "training", occupy_an_operator),
    Attack("call what only contracts may", "training", rob_by_privileged_calls),
)
