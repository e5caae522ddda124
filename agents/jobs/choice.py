# SPDX-License-Identifier: Apache-2.0
"""Which jobs a node works on: the rule alone, without chain, store or clock.

Rule: jobs are ranked by what an hour of the work that they are expected to take pays one node. The
work of a round is the time for which it holds a node, plus the time that the node then computes.
A round is expected to hold a node for as long as the job's last rounds did; the windows of its
terms count as one round more, in which nobody is early. Rounds that ended without a result were
work too, so they make the pay of the others less. Rounds that nobody came to change neither the pay
nor the pause after rounds without a result: anyone may open them. Who opened its job first, how
many rounds it promises and how much it says it will pay later counts for nothing.

A node leaves a job for a better one only if that pays a good part more, and never in the middle of
its own work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agents.protocol.numbers import ZOO

FLOP_PER_UNIT = 16 * 2 * 256**3
"""Operations of a unit of the nodes' benchmark: 16 products of 256 x 256 matrices."""

USUAL_SPEED = 1e11
"""Operations per second of a node that has no verified benchmark."""

PAST_ROUNDS = 8  # with work, of a job that its pay and progress are judged by, the newest
_STALLED = 3  # rounds in a row that ended without a result, and people had worked in
_NEW = 4  # one place in so many is for jobs that have yet to pay
_TRIES = 2  # rounds without a result, and a job that has not paid is no longer a new one
BETTER = 1.25  # times the pay, for a job to be left for another
_HOUR = 3_600


@dataclass(frozen=True)
class PastRound:
    """A round that is over. `lasted_s`: until it ended, or the next one opened. `paid`: it was
    finalized. `worked`: somebody committed in it."""

    opened_at: int
    lasted_s: int
    paid: bool
    worked: bool = True


@dataclass(frozen=True)
class Offer:
    """What a live job offers the nodes of one role.

    Attributes:
        pay: what a round pays all these nodes together, in 1e-18 ZOO.
        nodes: that may share pay and work; the same number for all jobs.
        windows_s: the four windows of a round together.
        flop: operations that a round takes, all these nodes together.
        past: rounds that are over, oldest first; up to `PAST_ROUNDS` of them had work.
        overdue_s: how long ago the running round should have left its phase, 0 if it is in time.
        refused: why the node can't or won't work on it whatever it pays; None if it may.
    """

    job_id: int
    pay: int
    nodes: int
    windows_s: int
    flop: float = 0.0
    past: tuple[PastRound, ...] = ()
    overdue_s: int = 0
    refused: str | None = None

    @property
    def worked(self) -> tuple[PastRound, ...]:
        """Its last rounds that somebody committed in."""
        return tuple(past for past in self.past if past.worked)

    @property
    def has_paid(self) -> bool:
        """Whether one of its last rounds was finalized."""
        return any(past.paid for past in self.past)

    @property
    def is_new(self) -> bool:
        """Whether it has yet to show that its rounds are paid, and nothing speaks against it."""
        return not self.has_paid and len(self.past) < _TRIES


def hourly(offer: Offer, speed: float) -> float:
    """ZOO for an hour of a node's expected work. `speed`: operations per second."""
    worked = offer.worked
    held = sum(min(past.lasted_s, offer.windows_s) for past in worked) + offer.windows_s
    computing = (len(worked) + 1) * offer.flop / offer.nodes / speed
    paid = sum(past.paid for past in worked) + 1
    return offer.pay / ZOO / offer.nodes * paid / (held + computing) * _HOUR


def refusal(offer: Offer, speed: float, least_pay: float, now: int) -> str | None:
    """Why a node does not work on a job, as a sentence without its subject; None if it may.

    `least_pay`: the operator's floor, in ZOO per hour; `now`: chain time, seconds.
    """
    if offer.refused is not None:
        return offer.refused
    lost = 0
    for past in reversed(offer.worked):
        if past.paid:
            break
        lost += 1
    if lost >= _STALLED:
        # Twice as long after each further loss: a network that had an outage comes back.
        again = offer.worked[-1].opened_at + (offer.windows_s << (lost - _STALLED + 1))
        if now < again:
            return (
                f"its last {lost} rounds with work ended without a result; the next one is tried "
                f"from {again} on (chain time)"
            )
    if offer.overdue_s > offer.windows_s:
        return "its running round is overdue by more than all its windows, and nobody ends it"
    if (pays := hourly(offer, speed)) < least_pay:
        return f"an hour of its work pays {pays:.4g} ZOO, and least_pay asks for {least_pay:g}"
    return None


@dataclass(frozen=True)
class Rated:
    """A job that a node may work on, and its `hourly` pay."""

    job_id: int
    pays: float

    def __str__(self) -> str:
        return f"job {self.job_id} pays {self.pays:.4g} ZOO for an hour of its expected work"


def lot(*numbers: int) -> bytes:
    """What a draw goes by; the same at any time."""
    return hashlib.sha256(repr(numbers).encode()).digest()


def looked_at(
    offers: Sequence[Offer], speed: float, keep: Collection[int], most: int, node: int, hour: int
) -> list[Offer]:
    """In which order a node that serves `most` jobs asks whether they suit it. `hour`: of chain
    time.

    Those of `keep` come first. Then those that have paid come before those that only say they will,
    whatever they say, but for one in `_NEW` places: a job that nobody has worked in costs who
    creates it nothing, and eight of them would hold every verifier. Each node draws anew in each
    hour which new jobs have these places: a promise costs as little. Jobs whose rounds got no
    result come last.
    """
    by_pay = sorted(offers, key=lambda one: (-hourly(one, speed), one.job_id))
    kept = [one for one in by_pay if one.job_id in keep]
    others = [one for one in by_pay if one.job_id not in keep]
    new = [one for one in others if one.is_new]
    new_in_turn = sorted(new, key=lambda one: lot(node, hour, one.job_id))
    drawn = new_in_turn[: _places(most, node, hour)]
    proven = [one for one in others if one.has_paid]
    rest = [one for one in new if one not in drawn]
    failed = [one for one in others if not one.has_paid and not one.is_new]
    return [*kept, *drawn, *proven, *rest, *failed]


def _places(most: int, node: int, hour: int) -> int:
    """How many of a node's places are for new jobs. Its only one is in one hour of `_NEW`."""
    if most > 1:
        return max(1, most // _NEW)
    return int(lot(node, hour)[0] % _NEW == 0)


def ranked(rated: Sequence[Rated]) -> list[Rated]:
    """The best pay first; among equals the older job."""
    return sorted(rated, key=lambda one: (-one.pays, one.job_id))


def choose(rated: Sequence[Rated], followed: int, busy: bool) -> tuple[int, str]:
    """The one job to train in, and why; job 0 if there is none.

    `followed`: the job so far, 0 if none. `busy`: the node has work of a running round there that
    it has yet to open, so it stays.
    """
    order = ranked(rated)
    if followed and busy:
        return followed, f"the node has yet to open its work of a running round of job {followed}"
    if not order:
        return 0, "no live job is worth working on"
    best = order[0]
    here = next((one for one in order if one.job_id == followed), None)
    if here is None:
        of = f", the most of {len(order)} jobs" if len(order) > 1 else ""
        return best.job_id, f"{best}{of}"
    if best.pays > BETTER * here.pays:
        return best.job_id, f"{best}, and job {followed} {here.pays:.4g} only"
    if best is here:
        return followed, f"{here}, and no job pays more"
    return followed, f"{here}, and no job pays {BETTER:g} times that"
