# SPDX-License-Identifier: Apache-2.0
"""Whose backward passes count in an epoch, from the miners' logs.

Rule: at each stage the first of a sample's candidates that was there is to do the sample: one that
has a log with a step, or that revealed and of whom something can't be had. Its pass counts if a
BACKWARD of the sample entered a STEP of its log, and the sample's way did not break beside it. The
way breaks before a miner that has no FORWARD of the sample, and behind one that has it and no
BACKWARD (`broken`, which `pace.py` asks as well). A BACKWARD that entered no STEP is no break: it
costs its miner alone. One of the two beside the break did not hand the sample over, or the other
did not take it, and nobody else knows which. So neither's pass counts, and those of all others do.
For example, the second of four stages refuses a sample that another miner then does: the first and
the second are not paid for it, the third and the fourth are.

If the miner before one without a BACKWARD has one, it took the gradient from somebody else. Then
the way broke on both sides, and nobody else knows who began it: the sender may have had all of the
next stage take the sample from another, the receiver may have kept the gradient back, and the miner
itself may have let the time pass. So none of the three passes counts. Were one side alone blamed,
the other could starve a rival of its friend for nothing.

So who repeats what another did earns nothing by it, and who passes by a miner that is there loses
its own pass of the sample with the miner's. A miner that died in the epoch shows no log. What
others did in its place counts. One that was passed by while it was away and came back is there.
So is one that revealed and whose log or payload is not in the store, and it did nothing: nobody can
say what it did, nor that it did nothing. Were it not there, a proposer that calls a rival's payload
late could pay a friend for the rival's samples, if senders had handed them to that friend.

What was handed out and counts for nobody is nobody's (`unclaimed.py`), so no share grows by it. A
stage of which nobody shows a log voids the whole epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Kind, MinerLog


def counted(
    epoch: Epoch, logs: Mapping[int, MinerLog | None], unread: Collection[int] = ()
) -> dict[int, tuple[int, ...]]:
    """The samples whose pass counts, ascending, by miner of `logs`, ascending.

    Args:
        epoch: its seats and samples; a sample that it doesn't hand out never counts.
        logs: by miner; None where it has none that can be used. They are only read here: whether
            what they say was executed is for re-execution to tell.
        unread: miners that revealed and of whom something can't be had.

    Raises:
        ValueError: a log of another miner, stage or epoch than it is given for.
    """
    there: dict[int, MinerLog] = {}
    for miner, log in logs.items():
        if log is not None and log.steps:
            _check(epoch, miner, log)
            there[miner] = log
    forward = {miner: logged(log, Kind.FORWARD) for miner, log in there.items()}
    backward = {miner: logged(log, Kind.BACKWARD) for miner, log in there.items()}
    done = {miner: entered(log) for miner, log in there.items()}
    for miner in {*unread} - {*there}:
        forward[miner] = backward[miner] = done[miner] = set()
    found: dict[int, list[int]] = {miner: [] for miner in sorted(logs)}
    staffed = all(not there.keys().isdisjoint(stage) for stage in epoch.stages)
    for sample in epoch.samples if staffed else ():
        way = _way(epoch, sample, done)
        for miner in unbroken(sample, way, forward, backward):
            if sample in done[miner]:
                found[miner].append(sample)
    return {miner: tuple(samples) for miner, samples in found.items()}


def logged(log: MinerLog, kind: Kind) -> set[int]:
    """The samples that a log has a FORWARD, or a BACKWARD, of."""
    return {event.number for event in log.events if event.kind is kind}


def entered(log: MinerLog) -> set[int]:
    """The samples of a log whose BACKWARD entered a STEP."""
    last = log.steps[-1] if log.steps else 0
    return {event.number for event in log.events[:last] if event.kind is Kind.BACKWARD}


def _way(epoch: Epoch, sample: int, there: Collection[int]) -> tuple[int, ...]:
    """The first candidate of each stage that was there; every stage has one."""
    return tuple(
        next(miner for miner in epoch.asked(sample, stage) if miner in there)
        for stage in range(epoch.last + 1)
    )


def beside_missing(stage: int, elsewhere: bool) -> range:
    """The stages beside a miner that has a FORWARD and no BACKWARD. `elsewhere`: the miner before
    it has one, which it took from somebody else."""
    return range(stage - elsewhere, stage + 2)


def unbroken(
    sample: int,
    way: Sequence[int],
    forward: Mapping[int, Collection[int]],
    backward: Mapping[int, Collection[int]],
) -> list[int]:
    """The miners of a sample's way beside whom it did not break. As `broken`."""
    beside = broken(sample, way, forward, backward)
    return [miner for miner in way if miner not in beside]


def broken(
    sample: int,
    way: Sequence[int],
    forward: Mapping[int, Collection[int]],
    backward: Mapping[int, Collection[int]],
) -> set[int]:
    """The miners of a sample's way beside whom it broke, which it may have done more than once.

    Whom nobody handed the sample or a gradient, because the way had broken before, is beside no
    break for that, and has no pass of it either. `forward`, `backward`: by miner, the samples that
    its log has one of.
    """
    beside = set[int]()
    had = [sample in forward[miner] for miner in way]
    back = [sample in backward[miner] for miner in way]
    for stage in range(len(way)):
        if not had[stage]:
            beside |= {stage - 1, stage} if stage == 0 or had[stage - 1] else set()
        elif not back[stage]:
            elsewhere = stage > 0 and back[stage - 1]
            if elsewhere or stage == len(way) - 1 or back[stage + 1]:
                beside |= {*beside_missing(stage, elsewhere)}
    return {miner for stage, miner in enumerate(way) if stage in beside}


def _check(epoch: Epoch, miner: int, log: MinerLog) -> None:
    stage = epoch.stage_of(miner)
    origin = log.origin
    if stage is None or (origin.miner, origin.epoch, origin.stage) != (miner, epoch.number, stage):
        raise ValueError(
            f"The log given for miner {miner} is one of miner {origin.miner}, stage "
            f"{origin.stage}, epoch {origin.epoch}; in epoch {epoch.number} the miner holds stage "
            f"{stage}."
        )
