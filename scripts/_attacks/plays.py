# SPDX-License-Identifier: Apache-2.0
"""What many attacks are made of: rounds, verdicts, challenges, and calls that must be refused.

Rule: whoever is honest does here what its agent would: redoes the work that is drawn, reports and
announces what it found, appeals, decides. A refusal is played: if the contract lets the call pass,
or refuses it for another reason, the play fails, so no table can say what did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from agents.protocol import formulas
from agents.protocol.numbers import ReportStatus
from scripts._attacks.attack import Deed, Outcome
from scripts._attacks.embedded import CHAIN_ID, Refused
from scripts._attacks.market import EVIDENCE, Market, Player

NOTHING = Fraction(0)
_ROUNDS = 50  # of a job


# -- refusals ----------------------------------------------------------------------------------


def refuse(reason: str, deed: Callable[[], Any]) -> None:
    """Play what a contract must refuse with this reason. Raises AssertionError if it does not."""
    try:
        deed()
    except Refused as refusal:
        if str(refusal) != reason:
            raise AssertionError(f"Refused with {str(refusal)!r}, not with {reason!r}.") from None
        return
    raise AssertionError(f"This was not refused: {reason}.")


def refused(market: Market, deed: Deed, reason: str, capital: int) -> Outcome:
    """Outcome of a deed whose last call a contract refuses: nothing is won and nothing lost.

    `capital`: what the attacker has to own to try. Raises AssertionError if the deed passes, or is
    refused for another reason.
    """
    with market.attack():
        refuse(reason, lambda: deed(market))
    return Outcome(NOTHING, NOTHING, capital, f"refused: {reason}")


def all_refused(market: Market, tries: Iterable[tuple[str, Deed]], capital: int) -> Outcome:
    """As `refused`, of several deeds: reasons and deeds, each played by itself."""
    ended = [refused(market, deed, reason, capital) for reason, deed in tries]
    others = f", and {len(ended) - 1} more" if len(ended) > 1 else ""
    return Outcome(NOTHING, NOTHING, capital, ended[0].note + others)


def impossible(missing: str) -> Outcome:
    """Outcome of an attack for which the attacker's share is too small. `missing`: what it lacks.

    It wins nothing because it can't be tried.
    """
    return Outcome(NOTHING, NOTHING, 0, f"the attacker has no {missing}")


# -- rounds ------------------------------------------------------------------------------------


def paid_round(market: Market, players: Sequence[Player]) -> None:
    """A round in which these trainers work and nobody else comes."""
    number = market.train(players)
    market.finish(number, dict.fromkeys(players, 1))


def everybody_works(market: Market) -> None:
    """The attacker does its duty in every role."""
    market.ordinary_round()


def proposed(market: Market) -> tuple[int, tuple[list[int], list[int]]]:
    """A round in which everybody has worked and a right result is proposed; its number, arrays."""
    number = market.train()
    return number, market.propose(number, dict.fromkeys(market.trainers, 1))


def close(market: Market, number: int, arrays: tuple[list[int], list[int]]) -> None:
    """Every verifier attests, and the result is made final."""
    market.attest(number, market.verifiers)
    market.finalize(number, arrays)


def report_status(market: Market, report: bytes) -> ReportStatus:
    """Where a report stands."""
    return ReportStatus(int(market.chain.read("ViolationReports", "report_of", report).status))


def is_convicted(market: Market, report: bytes) -> bool:
    """Whether a report is confirmed and waits for its end."""
    return report_status(market, report) == ReportStatus.CONFIRMED


def answer(market: Market, report: bytes, victim: Player) -> None:
    """The end of a false report: it lapses, or the node appeals with its bond and the committee
    finds that it is right."""
    if not is_convicted(market, report):
        market.execute(report)
        return
    market.chain.send(victim.owner, "ViolationReports", "appeal", report, EVIDENCE)
    market.decide("ViolationReports", "resolve_appeal", report, True)


@contextmanager
def hired(market: Market, sponsor: str, funded: int, **terms: Any) -> Iterator[None]:
    """While this holds, the market's job is a new one of a sponsor with this name, and may be
    played; afterwards nothing of it has happened.

    Args:
        funded: rounds that the escrow pays for.
        terms: that differ from the market's.
    """
    kept = market.job, market.sponsor
    with market.attack():
        try:
            market.sponsor = market.person(sponsor, _ROUNDS * market.numbers.terms.reward_per_round)
            market.job = market.create_job(market.sponsor, _ROUNDS, funded, **terms)
            yield
        finally:
            market.job, market.sponsor = kept


# -- disputes ----------------------------------------------------------------------------------


def announce_challenge(market: Market, number: int, who: str) -> bytes:
    """Somebody announces, with the deposit, that it has found the proposed result; the digest."""
    result = int.from_bytes(bytes(market.state(number).result_hash), "big")
    at = market.chain["TrainingResults"].address
    place = (market.job, number)
    digest = formulas.announcement(CHAIN_ID, at, place, result, int(who, 16), EVIDENCE)
    market.chain.send(who, "TrainingResults", "announce_challenge", digest)
    market.chain.wait()
    return digest


def challenge(market: Market, number: int, who: str) -> None:
    """Somebody challenges the proposed result, with the bond. Raises Refused."""
    args = (market.job, number, bytes(market.state(number).result_hash), EVIDENCE)
    market.chain.send(who, "TrainingResults", "challenge", *args)


def rule(market: Market, number: int, upheld: bool) -> None:
    """The committee decides the challenge of the proposed result."""
    args = (market.job, number, bytes(market.state(number).result_hash), upheld)
    market.decide("TrainingResults", "resolve_challenge", *args)


def watcher(market: Market) -> str:
    """Who recomputes results and challenges wrong ones: an honest verifier, by its operator."""
    return market.honest_verifiers[0].operator


def overturn(market: Market, number: int, finder: str) -> None:
    """Somebody announces and challenges a wrong result, and the committee upholds it."""
    announce_challenge(market, number, finder)
    challenge(market, number, finder)
    rule(market, number, True)
