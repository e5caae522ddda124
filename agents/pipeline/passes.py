# SPDX-License-Identifier: Apache-2.0
"""Whose backward passes count in an epoch, from the miners' logs.

Rule: a sample counts if it went the way that the seed drew among the miners who were there: at each
stage, the first of its candidates that has a log with a step must have a BACKWARD of it that
entered a STEP. Then the pass of each of these miners counts. A sample that went another way counts
for nobody.

So who repeats what another did earns nothing by it, and who passes by a miner that is there loses
its own pass of the sample with the miner's. A miner that died in the epoch shows no log. What
others did in its place counts. One that was passed by while it was away and came back is there.

Limits: the pot of a round is fixed, so voiding samples shifts shares. Miners together that hold
more than one of every `stages` seats gain by dropping the samples of which they have few passes.
With ten of 25 seats at five stages they have 53 % of the pot instead of 40 %, and 60 % of the
samples count for nobody. A stage of which nobody shows a log voids the whole epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Kind, MinerLog


def counted(epoch: Epoch, logs: Mapping[int, MinerLog | None]) -> dict[int, tuple[int, ...]]:
    """The samples whose pass counts, ascending, by miner of `logs`, ascending.

    Args:
        epoch: its seats and samples; a sample that it doesn't hand out never counts.
        logs: by miner; None where it has none that can be used. They are only read here: whether
            what they say was executed is for re-execution to tell.

    Raises:
        ValueError: a log of another miner, stage or epoch than it is given for.
    """
    done: dict[int, set[int]] = {}
    for miner, log in logs.items():
        if log is not None and log.steps:
            _check(epoch, miner, log)
            done[miner] = entered(log)
    found: dict[int, list[int]] = {miner: [] for miner in sorted(logs)}
    for sample in epoch.samples:
        way = _way(epoch, sample, done.keys())
        if way and all(sample in done[miner] for miner in way):
            for miner in way:
                found[miner].append(sample)
    return {miner: tuple(samples) for miner, samples in found.items()}


def entered(log: MinerLog) -> set[int]:
    """The samples of a log whose BACKWARD entered a STEP."""
    last = log.steps[-1] if log.steps else 0
    return {event.number for event in log.events[:last] if event.kind is Kind.BACKWARD}


def _way(epoch: Epoch, sample: int, there: Collection[int]) -> tuple[int, ...]:
    """The first candidate of each stage that was there; none if a stage had nobody."""
    way = []
    for stage in range(epoch.last + 1):
        here = next((miner for miner in epoch.asked(sample, stage) if miner in there), None)
        if here is None:
            return ()
        way.append(here)
    return tuple(way)


def _check(epoch: Epoch, miner: int, log: MinerLog) -> None:
    stage = epoch.stage_of(miner)
    origin = log.origin
    if stage is None or (origin.miner, origin.epoch, origin.stage) != (miner, epoch.number, stage):
        raise ValueError(
            f"The log given for miner {miner} is one of miner {origin.miner}, stage "
            f"{origin.stage}, epoch {origin.epoch}; in epoch {epoch.number} the miner holds stage "
            f"{stage}."
        )
