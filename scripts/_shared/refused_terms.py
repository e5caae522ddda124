# SPDX-License-Identifier: Apache-2.0
"""Terms that `TrainingJobs.create_job` refuses, in the words of the options that chose them.

The contract decides, by a reason of a few words. Here it is said which option is meant and what
this network permits. The numbers are those of `contracts/TrainingJobs.vy`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from scripts._shared.operator import zoo

MAX_WINDOW_S = 30 * 86_400
WINDOWS_PER_UNBONDING = 20_000
_WINDOWS = ("commit", "reveal", "aggregate", "challenge", "appeal", "dispute")


def refused_terms(reason: str, terms: Any, bounds: Any, unbonding_s: int) -> str:
    """What of the terms is refused, and what the network permits.

    `bounds`: as `TrainingJobs.bounds` has them.
    """
    if "reward too low" in reason:
        least = zoo(bounds.least_reward)
        return f"--reward: {zoo(terms.reward_per_round)} a round; this network asks for {least}."
    if "bad bond" in reason:
        return (
            f"--bond: {zoo(terms.challenge_bond)}; this network permits "
            f"{zoo(bounds.least_bond)} to {zoo(bounds.most_bond)}."
        )
    if "bad retention" in reason:
        return (
            f"--retain-rounds: {terms.retain_rounds}; this network permits "
            f"{bounds.least_retained} to 32."
        )
    if "bad window" in reason:
        least_s = unbonding_s // WINDOWS_PER_UNBONDING + 1
        lengths = {name: getattr(terms, f"{name}_s") for name in _WINDOWS}
        wrong = ", ".join(
            f"--{name}-s {length}"
            for name, length in lengths.items()
            if not least_s <= length <= MAX_WINDOW_S
        )
        return f"{wrong}: this network permits windows of {least_s} to {MAX_WINDOW_S} seconds."
    if "windows exceed unbonding" in reason:
        longest = together_s(terms)
        return (
            f"The windows together last up to {timedelta(seconds=longest)}, longer than stakes "
            f"unbond on this network ({timedelta(seconds=unbonding_s)}). Choose shorter ones."
        )
    if "dispute window too short" in reason:
        return (
            f"--dispute-s: {terms.dispute_s}; the committee has to have two of its routine delays."
        )
    return f"The network refuses the terms: {reason}."


def together_s(terms: Any) -> int:
    """The longest that a round and a decision about it take, as `create_job` counts it."""
    round_s = terms.commit_s + terms.reveal_s + 2 * terms.aggregate_s
    challenged = terms.challenge_s + terms.challenge_s // 2 + terms.dispute_s
    return int(round_s + challenged + terms.appeal_s + terms.dispute_s)
