# SPDX-License-Identifier: Apache-2.0
"""What a job's rounds did not pay and its next round does.

Rule: a round's pool is the reward of the job's terms and everything carried until then. Carried is
what a spoiled round did not pay, what another round was brought and did not pay, and the share that
a convicted node did not get. A round is spoiled when somebody's work in it was invalid as its pool
was closed, or when it is void although a result was proposed. A void round carries its pool as it
was; what a round with a result carries, and a convict's share, is for trainers alone, without cuts.
When the job has ended, the treasury may be given what is left.
"""

from __future__ import annotations

from agents.audit.sources.record import Record, place
from agents.runtime.contracts import Event

_MOVES = ("PoolReserved", "PayCarried", "ShareSettled", "CarriedForfeited")


def carried(record: Record, until: Event | None = None) -> tuple[int, int]:
    """What was carried just before an event of the job, or after all of them, and the part of it
    that is for trainers alone; in 1e-18 ZOO."""
    found = alone = 0
    for event in record.all(*_MOVES):
        if until is not None and place(event) >= place(until):
            break
        args = event.args
        if args["job_id"] != record.job_id:
            continue
        if event.name in ("PoolReserved", "CarriedForfeited"):
            found = alone = 0
        elif event.name == "PayCarried":
            found += args["amount"]
            alone += args["for_trainers"]
        elif args["guilty"]:
            found += args["amount"]
            alone += args["amount"]
    return found, alone


def pool_of(record: Record, round_id: int) -> tuple[int, int]:
    """What the pool of a round must hold when it opens, and the part of it that is for trainers
    alone; in 1e-18 ZOO."""
    reward = record.job.terms.reward_per_round
    opened = record.of("PoolReserved", round_id)
    if not opened:
        return reward, 0
    found, alone = carried(record, opened[0])
    return reward + found, alone
