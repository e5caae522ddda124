# SPDX-License-Identifier: Apache-2.0
"""What miners win and lose by a lie: five stages of five share 1,000 ZOO an epoch, 40 each.

A miner has 1,000 ZOO at stake; INVALID takes a fifth. Half of a miner's pay is what its work costs.
Amounts are in ZOO; `pytest -s` prints them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from eth_utils import keccak

from agents.pipeline.clasp import PPM
from agents.pipeline.credit import payouts
from agents.pipeline.routes import route
from agents.protocol.numbers import Violation
from agents.protocol.slashing import DEFAULTS, slash_amount

SEED = bytes(range(32))
STAGES = [list(range(10 * stage, 10 * stage + 5)) for stage in range(5)]
MINERS = [miner for stage in STAGES for miner in stage]
POT, PAY, COST, STAKE = 1000.0, 40.0, 20.0, 1000
SLASH = slash_amount(STAKE, 0, DEFAULTS[Violation.INVALID].bps)
SAMPLES = 2000
POISON_WORTH = PAY  # what a poisoned shard, or a stage, is worth to an attacker: a guess
RIDER, MATE = 3, 7  # both of the middle stage of a round with three stages


def seeds(count: int) -> list[bytes]:
    return [keccak(number.to_bytes(4, "big")) for number in range(count)]


def won(attack: str, profit: float) -> float:
    """The profit, printed."""
    print(f"{attack}: {profit:+.1f} ZOO")
    return profit


def pay(worth: dict[int, int], friends: Collection[int]) -> float:
    """What the attacker's miners are paid of the pot. `worth`: of all, nobody's as well."""
    paid = payouts(int(POT) * PPM, worth)
    return sum(paid[miner] for miner in friends if miner in paid) / PPM


@cache
def paths() -> list[tuple[int, ...]]:
    return [route(SEED, sample, STAGES) for sample in range(SAMPLES)]
