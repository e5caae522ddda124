# SPDX-License-Identifier: Apache-2.0
"""What the miners of a pot are paid by what their logs say they did."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from eth_utils import keccak

from agents.pipeline.clasp import PPM
from agents.pipeline.credit import payouts
from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.pipeline.passes import counted
from agents.pipeline.unclaimed import with_unclaimed
from tests.stage.memory.miners_pot import MINERS, POT, SEED, STAGES

CLIQUE = tuple(miner for stage in STAGES for miner in stage[:2])
GRIEFER = STAGES[2][0]
EPOCH = Epoch(0, 0, SEED, tuple(map(tuple, STAGES)), range(400))


def log_of(miner: int, samples: Collection[int]) -> MinerLog:
    """All samples in one step. Only which they are is read."""
    stage, start = EPOCH.stage_of(miner), keccak(b"start")
    assert stage is not None
    events = [
        Event(kind, sample, bytes(32), bytes(32))
        for sample in samples
        for kind in (Kind.FORWARD, Kind.BACKWARD)
    ]
    events.append(Event(Kind.STEP, 0, start, keccak(start)))
    return MinerLog(Origin(miner, 0, stage, start), tuple(events))


ASKED = [
    [EPOCH.candidates(sample, stage) for stage in range(len(STAGES))] for sample in EPOCH.samples
]
Does = Callable[[int, tuple[int, ...]], Collection[int]]  # a sample, its drawn way -> who does it


def drawn(sample: int, way: tuple[int, ...]) -> Collection[int]:
    return way


@cache
def each_paid(
    does: Does, rule: bool = True, late: int | None = None, fixed: bool = False, dead: bool = False
) -> dict[int, float]:
    """Pay by miner. `rule`: that of `passes.py`; else each log's own count is paid. `late`: a miner
    whose payload and log are left out, though it revealed; if `dead`, as if it had not. `fixed`:
    without `unclaimed.py`, so those whose passes count share all of the pot."""
    done: dict[int, set[int]] = {m: set() for m in MINERS}
    for sample, asked in enumerate(ASKED):
        for miner in does(sample, tuple(order[0] for order in asked)):
            done[miner].add(sample)
    if late is not None:
        done[late].clear()
    logs = {miner: log_of(miner, samples) if samples else None for miner, samples in done.items()}
    found = counted(EPOCH, logs, () if late is None or dead else (late,))
    worth = {m: len(found[m]) if rule else log.backward_passes for m, log in logs.items() if log}
    parts = {miner + 1: PPM * number for miner, number in worth.items()}  # the chain counts from 1
    if rule and not fixed:
        parts = with_unclaimed(parts, len(EPOCH.samples) * len(STAGES))
    paid = payouts(int(POT) * PPM, parts)
    return {miner: paid.get(miner + 1, 0) / PPM for miner in MINERS}


def paid_by_logs(
    does: Does, friends: Collection[int] = CLIQUE, rule: bool = True, fixed: bool = False
) -> float:
    return sum(each_paid(does, rule, fixed=fixed)[miner] for miner in friends)
