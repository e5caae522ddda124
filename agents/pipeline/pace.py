# SPDX-License-Identifier: Apache-2.0
"""How likely a miner is to be drawn, by what earlier epochs showed of it: its weight.

Everybody who has the logs and proofs of a round, and the weights of the round before, gets the same
weights, in whole numbers. Of each round's miners:

    pace        = (forwards + 2 * backwards in its log) / milliseconds that its proof says it worked
    throughput  = the square of 3/2 pace / the pace that is usual in its stage, at most 1
    usual pace  = the lower of the stage's median, and of all miners' median there
    reliability = 1 - samples that failed beside it / samples whose way led through it
    weight      = 3/4 weight before + 1/4 throughput * reliability, at least FLOOR

- A median is the lower one of an even number. So one false pace makes nobody look slower than it
  is beside an honest miner of its stage, and in a stage of two it changes nothing.
- All miners' median is of pace times cost, where a sample's cost differs from stage to stage, over
  the cost of the stage. So most of one stage can't make the others of it look slow: that takes most
  of all miners. Costs are reckoned from the model's form (`agents.training.slices.products`). Where
  a stage costs more than is reckoned, by half or more, most of it can make the others look slow.
  Being the lower of two, the usual pace is never above the stage's own median, so nobody is slow
  for its stage's cost, nor where all machines of a stage are slow.
- Whoever has two thirds of the usual pace has a throughput of 1. No statement can be checked, and a
  higher one then buys nothing: neither whoever makes it, nor its friends by making it usual.
- Slower miners get fewer samples, which is what shortens an epoch. The square makes that about
  their pace: with half of the usual pace 0.56 of the samples, with a third of it 0.25.
- A backward pass takes about twice as long as a forward pass (141 and 72 ms where it was measured).
  The log counts, and not what is paid: others can't lower a miner's pace by losing its samples.
- A sample failed where its way broke: those beside a break (`agents.pipeline.passes.broken`) lose
  their pass of it, and answer for it here. So who drops a rival's samples loses as much reliability
  as the rival, beside its own pass. A backward that entered no step is its miner's own failure.
- A miner that revealed and of whom something can't be had answers alone, though who handed it a
  sample has lost that pass. Else a proposer that calls a payload late would lower both.
- A miner without a step in its log, whose samples others did, has reliability 0, and one that
  shows no log as well. A miner that was drawn for nothing keeps its weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Kind, MinerLog
from agents.pipeline.passes import broken, entered, logged

FULL = 1_000_000
"""The weight of a miner that is as fast as is usual in its stage and fails nobody."""
FLOOR = FULL // 4
"""The least weight. Who has it is still drawn, so that it can show that it is better by now. A
lower one gives more to whoever makes others look slow, a higher one lets who drops samples drop
more of them (`tests/attacks/test_measured_paths.py` has both)."""
START = FULL // 2
"""The weight of a miner that is new. One that is as good as the others is at 90 % of theirs after
six rounds; who comes back under a new name begins below them."""
MOST = Fraction(1)
"""The highest throughput. A higher one would pay whoever states a pace that it doesn't have."""
SLACK = Fraction(3, 2)
"""How much slower than usual a miner may be for nothing. Without it a third of all miners would
win by stating a high pace: others, whose machines are not the fastest, would look slow."""
_KEPT, _OF = 3, 4  # parts of the weight before
_FORGOTTEN = FULL // 64


@dataclass(frozen=True)
class Showed:
    """What a miner's log and proof show of an epoch.

    Attributes:
        forwards: samples that it has a FORWARD of.
        entered: samples whose BACKWARD entered a STEP.
        busy_ms: in executing; None if it stated none, which counts as the usual pace.
        dropped: samples whose BACKWARD entered none.
    """

    forwards: Collection[int]
    entered: Collection[int]
    busy_ms: int | None = None
    dropped: Collection[int] = ()

    @classmethod
    def of(cls, log: MinerLog, busy_ms: int | None) -> Showed:
        """What a log shows; `busy_ms`: of the proof beside it."""
        done = entered(log)
        return cls(logged(log, Kind.FORWARD), done, busy_ms, logged(log, Kind.BACKWARD) - done)

    @property
    def pace(self) -> Fraction | None:
        """Work a millisecond; None where nothing is known of it."""
        work = len(self.forwards) + 2 * len(self.entered)
        return Fraction(work, max(1, self.busy_ms)) if work and self.busy_ms is not None else None


def weights_after(
    epoch: Epoch, before: Mapping[int, int], showed: Mapping[int, Showed], costs: Sequence[int]
) -> dict[int, int]:
    """The weights for the next epoch, by miner, ascending.

    Args:
        before: those for this epoch; who is not in it is new.
        showed: by miner whose artefacts are good.
        costs: what a sample costs a miner of each stage, in any unit.
    """
    found = dict[int, int]()
    for miner, weight in before.items():
        if epoch.stage_of(miner) is None:  # it was away, and is as one that is new in time
            nearer = _moved(weight, START)
            if abs(nearer - START) > _FORGOTTEN:
                found[miner] = nearer
    throughput, reliability = _throughput(epoch, showed, costs), _reliability(epoch, showed)
    for miner in (one for stage in epoch.stages for one in stage):
        weight = before.get(miner, START)
        if miner in reliability:
            weight = _moved(weight, int(FULL * throughput.get(miner, 1) * reliability[miner]))
        found[miner] = max(FLOOR, weight)
    return dict(sorted(found.items()))


def weights_of(miners: Iterable[int], known: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """`Epoch.weights` of these miners."""
    return tuple((miner, known.get(miner, START)) for miner in sorted(miners))


def _moved(weight: int, to: int) -> int:
    return (_KEPT * weight + (_OF - _KEPT) * to) // _OF


def _throughput(
    epoch: Epoch, showed: Mapping[int, Showed], costs: Sequence[int]
) -> dict[int, Fraction]:
    """Of miners whose pace is known: relative to what is usual in their stage, at most 1."""
    paces = [
        {m: pace for m in stage if m in showed and (pace := showed[m].pace) is not None}
        for stage in epoch.stages
    ]
    everywhere = [
        pace * cost for of, cost in zip(paces, costs, strict=True) for pace in of.values()
    ]
    found = dict[int, Fraction]()
    for of, cost in zip(paces, costs, strict=True):
        if of:
            usual = min(_median(of.values()), _median(everywhere) / cost)
            found |= {miner: min(MOST, (SLACK * pace / usual) ** 2) for miner, pace in of.items()}
    return found


def _median(paces: Collection[Fraction]) -> Fraction:
    """The lower one of an even number."""
    return sorted(paces)[(len(paces) - 1) // 2]


def _reliability(epoch: Epoch, showed: Mapping[int, Showed]) -> dict[int, Fraction]:
    """Of miners that were drawn for something."""
    there = {miner for miner, one in showed.items() if one.entered}
    forward = {miner: showed[miner].forwards for miner in there}
    backward = {miner: {*showed[miner].entered, *showed[miner].dropped} for miner in there}
    asked, failed = Counter[int](), Counter[int]()
    for sample in epoch.samples:
        way = list[int]()
        for stage in range(epoch.last + 1):
            for miner in epoch.asked(sample, stage):
                asked[miner] += 1
                if miner in there:
                    way.append(miner)
                    break
                failed[miner] += 1
        if len(way) > epoch.last:
            own = {miner for miner in way if sample in showed[miner].dropped}
            failed.update(own | broken(sample, way, forward, backward))
    return {miner: 1 - Fraction(failed[miner], number) for miner, number in asked.items()}
