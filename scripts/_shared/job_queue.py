# SPDX-License-Identifier: Apache-2.0
"""Where a job stands among the live ones: trainers go where an hour of work pays best.

The rule is that of `agents.jobs.choice`, for a node of usual speed and without the work that the
specs ask for; an agent that knows its own speed may rank two jobs of nearly equal pay otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.jobs.choice import BETTER, USUAL_SPEED, Offer, hourly

if TYPE_CHECKING:
    from agents.jobs.publish import Terms


def offers(network: Any) -> list[tuple[Offer, float]]:
    """Return the live jobs and their pay in ZOO an hour of a node, the best first."""
    from agents.jobs.offers import Offers
    from agents.protocol.numbers import Role
    from agents.runtime.config import AgentSettings
    from agents.runtime.logs import open_log

    log = open_log("operator", "error", True, None)
    settings = AgentSettings.model_construct()

    def unread(which: Any) -> Any:
        raise AssertionError(f"spec {which} is not read")

    return Offers(network, settings, log, Role.TRAINER, unread, unread).by_pay(network.chain.head())


def standing(found: list[tuple[Offer, float]], job_id: int) -> str:
    """Say where a job stands: 'first of 2', 'queued behind job 1, which pays ...'."""
    pays = {offer.job_id: pay for offer, pay in found}
    if job_id not in pays:
        return "not live: it is over, or its escrow does not pay for a round"
    refused = next(offer.refused for offer, _ in found if offer.job_id == job_id)
    if refused:
        return f"no trainer works on it: {refused}"
    ahead = [
        offer.job_id
        for offer, pay in found
        if not offer.refused and (-pay, offer.job_id) < (-pays[job_id], job_id)
    ]
    if not ahead:
        return f"first of {len(found)} live jobs by pay"
    best = ahead[0]
    return (
        f"queued behind job {', '.join(map(str, ahead))}: an hour of job {best} pays a node "
        f"{pays[best]:.4g} ZOO, of this one {pays[job_id]:.4g}"
    )


def expected(found: list[tuple[Offer, float]], terms: Terms, nodes: int) -> str | None:
    """Say behind which job a new one would queue, and what it takes to be first; None if it is."""
    bps = 10_000 - terms.verifier_bps - terms.aggregator_bps
    windows = terms.commit_s + terms.reveal_s + terms.aggregate_s + terms.challenge_s
    pay = terms.reward_per_round * bps // 10_000
    own = hourly(Offer(0, pay, max(1, nodes), windows), USUAL_SPEED)
    rivals = [(offer.job_id, rival) for offer, rival in found if not offer.refused]
    if not rivals or own > BETTER * rivals[0][1]:
        return None
    best, rival = rivals[0]
    factor = BETTER * rival / own if own else 0.0
    enough = int(terms.reward_per_round / 10**18 * factor) + 1
    return (
        f"it queues behind job {best}, an hour of which pays a node {rival:.4g} ZOO; this one "
        f"would pay {own:.4g}, and trainers leave a job for one that pays {BETTER:g} times as "
        f"much. --reward {enough} would put it first."
    )
