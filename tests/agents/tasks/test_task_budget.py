# SPDX-License-Identifier: Apache-2.0
"""Work is counted in whole numbers, by hand here, and refused from one above the limit on."""

from __future__ import annotations

import pytest

from agents.storage.embedded import EmbeddedStore
from agents.tasks.budget import SMALLEST_READ, Budget, Work, forward_work, training_work
from agents.tasks.classes import Limits
from agents.tasks.errors import TaskError
from agents.training.spec import ModelSpec
from tests.agents.tasks.world import World, perform

MODEL = ModelSpec(
    d_model=8, n_layers=3, n_heads=2, n_kv_heads=1, d_ff=12, vocab_size=10, max_seq_len=20
)
LIMITS = Limits(
    flops=1_000, copied=500, fetched=2**20, layer_us=7, row_us=3, memory=10_000, inputs=3 * 2**20
)


def test_a_forward_pass_counts_two_per_weight_and_attention() -> None:
    work = forward_work(MODEL, parameters=100, batches=5, rows=2, length=4, tokens=37)
    # 2 * 100, and 4 * 3 layers * 4 positions * 8 wide; 3 layers and the head; 8 copies of a file.
    assert work.flops == 37 * (200 + 384)
    assert (work.layers, work.rows, work.copied) == (5 * 4, 10, 8 * 4 * 100)


def test_training_counts_three_times_a_forward_pass() -> None:
    work = training_work(MODEL, parameters=100, steps=5, rows=2, length=4)
    assert work.flops == 3 * forward_work(MODEL, 100, 5, 2, 4, tokens=40).flops
    assert (work.layers, work.rows) == (3 * 5 * 4, 10)
    assert work.copied == 4 * 100 * (8 + 24 * 5)


def test_time_is_the_sum_of_its_parts_rounded_up() -> None:
    work = Work(flops=1_001, copied=1, layers=10, rows=10, memory=0)
    # 1 s to start; 1.001 s; 0.002 s; 70 us; 30 us.
    assert work.microseconds(LIMITS) == 1_000_000 + 1_001_000 + 2_000 + 70 + 30
    assert Work(1, 0, 0, 0, 0).microseconds(Limits(3, 1, 1, 1, 1, 1, 1)) == 1_000_000 + 333_334


def reason(budget: Budget, work: Work) -> str | None:
    try:
        budget.allow(work)
    except TaskError as error:
        return error.reason
    return None


def test_half_of_the_time_is_for_computing() -> None:
    for flops, found in ((1_000, None), (1_001, "too_long")):
        assert reason(Budget(LIMITS, 4), Work(flops, 0, 0, 0, 0)) == found
    assert reason(Budget(LIMITS, 0), Work(0, 0, 0, 0, 0)) == "too_long"
    assert reason(Budget(LIMITS, -5), Work(0, 0, 0, 0, 0)) == "too_long"


def test_memory_is_the_classs_whatever_is_paid() -> None:
    for memory, found in ((10_000, None), (10_001, "too_large")):
        assert reason(Budget(LIMITS, 10**9), Work(0, 0, 0, 0, memory)) == found


def test_half_of_the_time_is_for_reading_and_small_files_count_too() -> None:
    budget = Budget(LIMITS, 4)  # 2 s at 1 MiB a second
    assert budget.readable() == 2 * 2**20
    budget.read(2**20)
    budget.read(1)
    assert budget.readable() == 2**20 - SMALLEST_READ
    for _ in range(3):
        budget.read(0)
    with pytest.raises(TaskError) as caught:
        budget.readable()
    assert caught.value.reason == "too_large"
    assert Budget(LIMITS, 10**9).readable() == LIMITS.inputs


def test_a_task_passes_from_a_number_of_seconds_on_and_is_refused_below(world: World) -> None:
    assert isinstance(world.store, EmbeddedStore)
    for spec in (world.evaluate(), world.train(), world.generate()):
        found = []
        for run_s in range(8):
            try:
                found.append(len(perform(spec, world.store, run_s)) > 0)
            except TaskError as error:
                assert error.reason in ("too_long", "too_large")
                found.append(False)
        assert found == sorted(found)
        assert found[0] is False
        assert found[-1] is True
