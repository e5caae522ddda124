# SPDX-License-Identifier: Apache-2.0
"""Whether rounding alone decides what a miner's work gives, and whose messages made it so.

Rule: a miner of another determinism class may be far from replay because of what it was sent, such
as a gradient whose sums cancel, so that a weight's gradient is what the machine's rounding leaves
of it. So before a verifier finds one wrong by tolerances, it executes the miner's entries twice
more: from the epoch's weights, and from weights that differ from these in the last bits. If the two
are apart, by a quarter of what honest machines may be, at the miner's difference or before it, then
no machine of another class can tell whether the miner is right. It is not found wrong. Who sent it
what it worked with up to the first such place is looked at in its stead.

Up to that place a miner is judged as ever. So of miners who excuse each other in a circle, the one
who sent the first such message is found by this message.

The weights that an epoch starts from are the ledger's. A segment starts from a state that its miner
published, and a false one could be made so that rounding decides all that follows. So who is judged
by a segment is not excused.
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
from agents.training.state import State

_SHARE = 1 / 4  # of what honest machines may be apart by
_LOOKED_AT = 1024  # numbers of a tensor
_LAST_BITS = 2.0**-22  # of a weight, which is fp32 in every job

Start = Callable[[State], StageWork]


def excusers(
    start: Start, before: State, entries: Sequence[Entry], limit: float
) -> tuple[int, ...]:
    """Miners who sent what makes rounding decide what these entries give, ascending; empty where
    rounding does not decide it, or nobody sent anything.

    Args:
        start: the miner's work before its first entry, from given weights.
        before: the stage's weights at the epoch's start.
        entries: of the miner, from the first to the one by which it would be found wrong.
        limit: how far apart honest updates may be, as a share of their length.
    """
    plain = list(_trail(start(before), before, entries))
    moved = _shaken(before, _LAST_BITS)
    for place, there in enumerate(_trail(start(moved), moved, entries)):
        if _apart(plain[place], there, _SHARE * limit):
            return _senders(entries[: place + 1])
    return ()


def _trail(work: StageWork, before: State, entries: Sequence[Entry]) -> Iterator[Tensor | None]:
    """What each entry gives: some of the numbers that are handed on, the loss, or of the change of
    weights until then. None, as the last one, where it can't be executed."""
    for entry in entries:
        try:
            passed = work.do(entry)
        except (WireError, FloatingPointError):
            yield None
            return
        if entry.kind is Kind.STEP:
            now = work.state()
            yield torch.cat([_some(before[name]) - _some(now[name]) for name in sorted(now)])
        elif passed.loss is not None:
            yield torch.tensor([passed.loss])
        else:
            yield torch.empty(0) if passed.values is None else _some(passed.values)


def _some(tensor: Tensor) -> Tensor:
    """Up to so many numbers of a tensor, at equal distances, fp32 [n]."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, math.ceil(flat.numel() / _LOOKED_AT))].float().cpu().clone()


def _shaken(state: State, share: float) -> State:
    """The same numbers, each larger or smaller by up to this share of itself. Everybody draws the
    same."""
    source = torch.Generator().manual_seed(0)
    drawn = {name: torch.rand(state[name].shape, generator=source) for name in sorted(state)}
    return {
        name: tensor * (1 + share * (2 * drawn[name].to(tensor.device) - 1))
        for name, tensor in state.items()
    }


def _apart(here: Tensor | None, there: Tensor | None, limit: float) -> bool:
    if here is None or there is None:
        return here is not there
    gap, length = torch.linalg.vector_norm(here - there), torch.linalg.vector_norm(here)
    return not gap <= limit * length


def _senders(entries: Sequence[Entry]) -> tuple[int, ...]:
    return tuple(sorted({entry.sender for entry in entries if not entry.bare}))
