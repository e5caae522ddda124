# SPDX-License-Identifier: Apache-2.0
"""Whether rounding alone decides what a miner's work gives, and whose messages made it so.

Rule: a miner of another determinism class may be far from replay because of what it was sent, such
as a gradient whose sums cancel, so that a weight's gradient is what the machine's rounding leaves
of it. So before a verifier finds one wrong by tolerances, it executes the miner's entries twice
more: from the epoch's weights, and from weights that differ from these in the last bits. If the two
come to be apart, by a quarter of what honest machines may be, and where the miner is off they are
at least half as far apart as it is off, then no machine of another class can tell whether it is
right. It is not found wrong. Who sent it what it worked with until the two came apart is looked at
in its stead.

Until then a miner is judged as ever, and so is by how much it is off. So of miners who excuse each
other in a circle, the one who sent the first such message is found by this message. And where the
last bits grow by themselves, as in a long epoch from the first weights, left-out work is found.

Which last bits are moved follows from the draw's seed, which nobody knew when messages were sent.
On the way some numbers are looked at, to say whose messages came before the two were apart. Where
the miner is off all are, since whoever knows which are looked at could spoil the others.

The weights that an epoch starts from are the ledger's. A segment starts from a state that its miner
published, and a false one could be made so that rounding decides all that follows. What a miner
owes of an earlier compressed round may have been decided by such a message, whose sender nobody can
look at any more. In both cases a miner is not found wrong either, and nobody need be found in its
stead: such jobs list their classes (`agents.jobs.combinations.pipelines`), so a verifier of the
miner's own class, which compares to the bit, judges it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from agents.mechanisms.boundary import WireError
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.work import StageWork
from agents.training import last_bits
from agents.training.norms import distance, norm
from agents.training.state import State

SHARE = 1 / 4  # of what honest machines may be apart by
MARGIN = 2.0  # times as far as the last bits lead
_LOOKED_AT = 1024  # numbers of a tensor, on the way

Start = Callable[[State], StageWork]
Apart = Callable[[Tensor, Tensor], float]
"""How far apart two entries' results are, as a share of the length of the first."""


def excusers(
    start: Start,
    before: State,
    entries: Sequence[Entry],
    off: float,
    limit: float,
    seed: bytes,
    apart: Apart | None = None,
) -> tuple[int, ...]:
    """Miners who sent what makes rounding decide what these entries give, ascending; empty where
    rounding does not decide it, or nobody sent anything.

    Args:
        start: the miner's work before the first of the entries, from given weights.
        before: the stage's weights there, at the start of the epoch or of the segment.
        entries: of the miner, to the one by which it would be found wrong.
        off: how far off it is there, as a share of the length of what this entry gives.
        limit: how far apart honest updates may be, as a share of their length.
        seed: of the draw, which was unknown when the messages were sent.
        apart: how `off` was measured, where it is of what a codec says of the last entry's change.
            A payload that says little of a change shows little of how far it is off.
    """
    plain = list(_trail(start(before), before, entries))
    moved = last_bits.moved(before, seed)
    first, far, there = None, 0.0, None
    for place, there in enumerate(_trail(start(moved), moved, entries)):
        far = _far(plain[place], there)
        if first is None and far > SHARE * limit:
            first = place
    if first is None:
        return ()
    last, moved_last = plain[-1], there
    if apart is not None and last is not None and moved_last is not None:
        far = apart(last, moved_last)
    if off > MARGIN * far:
        return ()
    return _senders(entries[: first + 1])


def decides_what_is_owed(
    owed: State, moved: State | None, own: State, limit: float, off: float | None
) -> bool:
    """Whether rounding decides what a miner owes of earlier rounds, and so what it sends.

    Args:
        owed: by replay of its work in those rounds.
        moved: the same by replay from weights that differ in the last bits; None for nothing.
        own: the change that its work in this round makes.
        limit: how far apart honest updates may be, as a share of their length.
        off: the length of what its payload is off by; None where that is not known.
    """
    far = norm(owed) if moved is None else distance(owed, moved)
    if far <= SHARE * limit * (norm(own) + norm(owed)):
        return False
    return off is None or not off > MARGIN * far  # not finite: decided, too


def _trail(work: StageWork, before: State, entries: Sequence[Entry]) -> Iterator[Tensor | None]:
    """What each entry gives: the loss, or some of the numbers that are handed on, or of the change
    of weights until then; all of them for the last entry. None, as the last one, where it can't be
    executed."""
    for place, entry in enumerate(entries):
        looked_at = _some if place < len(entries) - 1 else _all
        try:
            passed = work.do(entry)
        except (WireError, FloatingPointError):
            yield None
            return
        if entry.kind is Kind.STEP:
            now = work.state()
            changes = (looked_at(before[name]) - looked_at(now[name]) for name in sorted(now))
            yield torch.cat([*changes])
        elif passed.loss is not None:
            yield torch.tensor([passed.loss])
        else:
            yield torch.empty(0) if passed.values is None else looked_at(passed.values)


def _all(tensor: Tensor) -> Tensor:
    """All numbers of a tensor, fp32 [n]."""
    return tensor.detach().reshape(-1).float().cpu().clone()


def _some(tensor: Tensor) -> Tensor:
    """Up to so many of them, at equal distances."""
    flat = tensor.detach().reshape(-1)
    return _all(flat[:: max(1, math.ceil(flat.numel() / _LOOKED_AT))])


def _far(here: Tensor | None, there: Tensor | None) -> float:
    """As a share of the length; infinite where one of them can't be executed, or is not finite."""
    if here is None or there is None:
        return 0.0 if here is there else math.inf
    gap, length = float(torch.dist(here, there)), float(torch.linalg.vector_norm(here))
    far = gap / length if length else (0.0 if gap == 0 else math.inf)
    return math.inf if math.isnan(far) else far


def _senders(entries: Sequence[Entry]) -> tuple[int, ...]:
    return tuple(sorted({entry.sender for entry in entries if not entry.bare}))
