# SPDX-License-Identifier: Apache-2.0
"""Whether rounding alone decides what a miner's entries give, and who sent what makes it so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.work import StageWork
from agents.training.slices import init_stage
from agents.training.state import State
from agents.verify import rounding
from agents.verify.rounding import decides_what_is_owed, excusers
from tests.stage.memory.pipeline_epoch import EPOCH, HYPER, IN_FLIGHT, SEQ, SLICES

MINER, STAGE = 21, 1
LIMIT = 0.005  # of an fp32 job, by default
BEFORE, ONE, OTHER = 11, 31, 32
SENDS_BACK = {40: ONE, 41: OTHER, 42: OTHER, 45: ONE}  # the samples that pass through the miner
ROWS = 3
F, B = Kind.FORWARD, Kind.BACKWARD


def batch(number: int) -> Tensor:
    """Rows that begin with one token."""
    draw = torch.Generator().manual_seed(number)
    tokens = torch.randint(0, 256, (ROWS, SEQ + 1), generator=draw)
    tokens[:, 0] = 32
    return tokens


def work(miner: int, stage: int, weights: State | None = None) -> StageWork:
    state = init_stage(SLICES, stage) if weights is None else weights
    return StageWork(SLICES, EPOCH, miner, state, HYPER, batch, IN_FLIGHT)


def came(sample: int, values: Tensor) -> list[Entry]:
    """The entries of a sample: the code of a miner before, and this gradient."""
    code = work(BEFORE, 0).do(Entry(F, sample)).message or b""
    gradient = SLICES.boundary.gradients.pack(values)
    return [
        Entry(F, sample, BEFORE, b"signed", code),
        Entry(B, sample, SENDS_BACK[sample], b"signed", gradient),
    ]


def honest(sample: int) -> list[Entry]:
    draw = torch.Generator().manual_seed(sample)
    return came(sample, torch.randn(SLICES.code_shape(ROWS, SEQ), generator=draw) * 1e-3)


def cancelling(sample: int) -> list[Entry]:
    """A gradient whose sums are zero in every weight, but for rounding."""
    values = torch.zeros(SLICES.code_shape(ROWS, SEQ))
    own = torch.tensor([1.0, -0.75, 0.625, 0.5]) * 2.0**16
    for row, share in enumerate((1.0, 0.5, -1.5)):
        values[row, 0] = share * own
    return came(sample, values)


def step(number: int) -> Entry:
    return Entry(Kind.STEP, number)


def asked(
    entries: Sequence[Entry], limit: float = LIMIT, off: float = 2 * LIMIT
) -> tuple[int, ...]:
    before = init_stage(SLICES, STAGE)
    start = partial(work, MINER, STAGE)
    return excusers(start, before, entries, off, limit, b"\7" * 32)


def test_honest_work_is_decided_by_more_than_rounding() -> None:
    entries = [*honest(40), *honest(41), step(0), *honest(42), *honest(45), step(1)]
    assert asked(entries) == () == asked(entries, 4 * 1e-4, 0.0), "a quarter of the limit counts"


def test_nothing_decides_nothing() -> None:
    assert asked([]) == ()


def test_those_are_asked_who_sent_anything_until_rounding_decides() -> None:
    """Who sent something afterwards is not."""
    entries = [*cancelling(40), step(0), *honest(41), step(1)]
    assert asked(entries) == (BEFORE, ONE)
    assert asked([*honest(41), step(0), *cancelling(40), step(1)]) == (BEFORE, ONE, OTHER)


def test_what_came_before_is_decided_by_more_than_rounding() -> None:
    """So a miner is judged by it."""
    entries = [*honest(41), step(0), *cancelling(40), step(1)]
    assert asked(entries[:-1]) == ()
    assert asked(entries) != ()


def test_among_honest_gradients_it_decides_as_well() -> None:
    assert asked([*honest(41), *cancelling(40), step(0)]) == (BEFORE, ONE, OTHER)


def test_what_machines_may_be_apart_by_is_the_jobs_to_say() -> None:
    assert asked([*cancelling(40), step(0)], limit=100.0) == ()


def test_who_is_off_by_more_than_rounding_makes_is_not_excused() -> None:
    """Where the last bits grow by themselves, as in a long epoch, left-out work is still found."""
    entries = [*cancelling(40), step(0)]
    assert asked(entries, off=0.01) == (BEFORE, ONE)
    assert asked(entries, off=5.0) == ()
    assert asked(entries, off=math.inf) == ()


def test_of_a_compressed_change_it_counts_how_far_apart_it_is_sent() -> None:
    """What a payload leaves out excuses nothing that is in it."""
    entries, before = [*cancelling(40), step(0)], init_stage(SLICES, STAGE)
    start, seen = partial(work, MINER, STAGE), list[tuple[Tensor, Tensor]]()

    def little(here: Tensor, there: Tensor) -> float:
        seen.append((here, there))
        return 0.004

    given = start, before, entries
    assert excusers(*given, 0.007, LIMIT, b"\7" * 32, little) == (BEFORE, ONE)
    assert excusers(*given, 0.009, LIMIT, b"\7" * 32, little) == ()
    numbers = sum(tensor.numel() for tensor in before.values())
    assert all(len(here) == len(there) == numbers for here, there in seen) and len(seen) == 2


def test_whoever_spoils_only_what_is_not_looked_at_on_the_way_excuses_nobody_the_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All numbers decide. Those on the way only say who is asked: here nobody is left out."""
    monkeypatch.setattr(rounding, "_some", lambda tensor: torch.empty(0))
    entries = [*honest(41), step(0), *cancelling(40), step(1)]
    assert asked(entries) == (BEFORE, ONE, OTHER)


def test_what_nobody_can_execute_is_no_rounding() -> None:
    first, second = honest(40)
    cut = Entry(B, 40, ONE, b"signed", second.message[:-1])
    assert asked([first, cut]) == ()


OWED, OWN = {"w": torch.tensor([3.0, 0.0])}, {"w": torch.tensor([0.0, 7.0])}


def decides(moved: float, off: float | None) -> bool:
    """Where the last bits move what is owed by so much."""
    other = {"w": torch.tensor([3.0, moved])}
    return decides_what_is_owed(OWED, other, OWN, LIMIT, off)


def test_what_is_owed_is_decided_where_the_last_bits_move_it_by_a_quarter_of_what_is_allowed() -> (
    None
):
    """As a share of the change that is made now and of what is owed, which are sent together."""
    allowed = LIMIT * (7.0 + 3.0)
    assert not decides(0.24 * allowed, 0.01) and decides(0.26 * allowed, 0.01)
    assert decides(math.nan, math.inf)


def test_a_payload_that_is_off_by_more_than_twice_that_is_not_excused_by_it() -> None:
    assert decides(1.0, 1.9) and not decides(1.0, 2.1) and not decides(1.0, math.inf)
    assert decides(1.0, None), "it could not be sent, so nobody can say by how much it is off"


def test_what_is_owed_or_not_by_the_last_bits_is_decided_by_them() -> None:
    assert decides_what_is_owed(OWED, None, OWN, LIMIT, 1.0)
    assert not decides_what_is_owed({"w": torch.zeros(2)}, None, OWN, LIMIT, 1.0)


def test_a_change_of_next_to_nothing_makes_nothing_of_what_is_owed_decided() -> None:
    """Who makes no step chooses the length of its change, and not what it owes."""
    still = {"w": torch.zeros(2)}
    other = {"w": torch.tensor([3.0, 1e-5])}
    assert not decides_what_is_owed(OWED, other, still, LIMIT, 1e-5)


def test_the_same_is_asked_each_time() -> None:
    entries = [*cancelling(40), step(0)]
    assert asked(entries) == asked(entries)
