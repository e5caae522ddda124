# SPDX-License-Identifier: Apache-2.0
"""Work is counted in whole numbers, by hand here, and refused from one above the limit on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from agents.tasks.compute.budget import (
    AT_ONCE,
    SMALLEST_READ,
    Budget,
    Cost,
    forward_work,
    training_work,
)
from agents.tasks.compute.classes import CPU, Limits, limits_of
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.spec import MIN_HEAD_DIM
from agents.training.model import build_model
from agents.training.spec import ModelSpec
from tests.stage.memory.task_inputs import TaskInputs, perform

MODEL = ModelSpec(
    d_model=8, n_layers=3, n_heads=2, n_kv_heads=1, d_ff=12, vocab_size=10, max_seq_len=20
)
LIMITS = Limits(
    flops=1_000, copied=500, fetched=2**20, layer_us=7, row_us=3, memory=10_000,
    keeps_scores=True, inputs=3 * 2**20,
)  # fmt: skip


def test_a_forward_pass_counts_two_per_weight_and_attention() -> None:
    work = forward_work(MODEL, parameters=100, batches=5, rows=2, length=4, tokens=37)
    # Per layer: 4 positions of 4 * 8 operations and 2 exponentials, 24 * 8 + 12 * 12 numbers.
    layer = 4 * (4 * 8 + 32 * 2) + 8 * (24 * 8 + 12 * 12)
    assert work.flops == 37 * (2 * 100 + 3 * layer + 32 * 10)
    # 3 layers and the head; 8 copies of a file, 2 of 10 last logits of 10 sequences, and the tables
    # of 20 positions of 4 numbers, 16 bytes each.
    copied = 8 * 4 * 100 + 2 * 4 * 10 * 10 + 16 * 20 * 4
    assert (work.layers, work.rows, work.copied) == (5 * 4, 10, copied)


def test_training_counts_three_times_a_forward_pass() -> None:
    work = training_work(MODEL, parameters=100, steps=5, rows=2, length=4)
    assert work.flops == 3 * forward_work(MODEL, 100, 5, 2, 4, tokens=40).flops
    assert (work.layers, work.rows) == (3 * 5 * 4, 10)
    assert work.copied == 4 * 100 * (8 + 24 * 5) + 16 * 20 * 4


def test_memory_is_weights_activations_logits_and_tables() -> None:
    forward = forward_work(MODEL, parameters=100, batches=5, rows=2, length=4, tokens=37)
    # 4 copies of the weights; 8 tokens in 2 layers and before 4 copies of 10 logits; 20 positions.
    assert forward.memory == 64 * 2**20 + 4 * (400 + 8 * (2 * 336 + 40) + 4 * 20 * 4) + 16 * 37
    training = training_work(MODEL, parameters=100, steps=5, rows=2, length=4)
    assert training.memory == (
        64 * 2**20 + 4 * (1_600 + 8 * (3 * 336 + 40) + 4 * 20 * 4) + 16 * (40 + 10)
    )
    # Three matrices of 4 x 4 for each of 2 heads and 2 rows, kept by all 3 layers for backward.
    assert (forward.scores, training.scores) == (3 * 4 * 2 * 2 * 16, 3 * 4 * 3 * 2 * 2 * 16)


def test_time_is_the_sum_of_its_parts_rounded_up() -> None:
    work = Cost(flops=1_001, copied=1, layers=10, rows=10, memory=0, scores=0)
    # 1 s to start; 1.001 s; 0.002 s; 70 us; 30 us.
    assert work.microseconds(LIMITS) == 1_000_000 + 1_001_000 + 2_000 + 70 + 30
    assert (
        Cost(1, 0, 0, 0, 0, 0).microseconds(Limits(3, 1, 1, 1, 1, 1, True, 1))
        == 1_000_000 + 333_334
    )


def reason(budget: Budget, work: Cost) -> str | None:
    try:
        budget.allow(work)
    except TaskError as error:
        return error.reason
    return None


def test_it_is_shared_by_as_many_tasks_as_the_contract_lets_a_node_have() -> None:
    source = (Path(__file__).parents[4] / "contracts/modules/executors.vy").read_text("utf-8")
    assert f"MAX_OPEN: constant(uint256) = {AT_ONCE}\n" in source


def test_position_tables_are_paid_for_whatever_is_computed() -> None:
    """Making them for 110,000 positions takes longer than all that a task of one token has else."""
    short = MODEL.model_copy(update={"max_seq_len": 2, "d_model": 2_048, "n_heads": 1})
    long = short.model_copy(update={"max_seq_len": 110_000})
    for count in (
        lambda model: forward_work(model, 10**7, batches=1, rows=1, length=1, tokens=1),
        lambda model: training_work(model, 10**7, steps=1, rows=1, length=1),
    ):
        apart = count(long).copied - count(short).copied
        assert apart == count(long).memory - count(short).memory == 16 * 2_048 * 109_998


def test_half_of_the_time_is_for_computing() -> None:
    for flops, found in ((1_000, None), (1_001, "too_long")):
        assert reason(Budget(LIMITS, 4 * AT_ONCE), Cost(flops, 0, 0, 0, 0, 0)) == found
    assert reason(Budget(LIMITS, 0), Cost(0, 0, 0, 0, 0, 0)) == "too_long"
    assert reason(Budget(LIMITS, -5), Cost(0, 0, 0, 0, 0, 0)) == "too_long"


def test_memory_is_the_classs_whatever_is_paid() -> None:
    for memory, found in ((10_000, None), (10_001, "too_large")):
        assert reason(Budget(LIMITS, 10**9), Cost(0, 0, 0, 0, memory, 0)) == found
        assert reason(Budget(LIMITS, 10**9), Cost(0, 0, 0, 0, 9_000, memory - 9_000)) == found
    other = replace(LIMITS, keeps_scores=False)
    assert reason(Budget(other, 10**9), Cost(0, 0, 0, 0, 10_000, 10**9)) is None


def test_half_of_the_time_is_for_reading_and_small_files_count_too() -> None:
    budget = Budget(LIMITS, 4 * AT_ONCE)  # 2 s at 1 MiB a second
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


@pytest.mark.parametrize(("heads", "width"), [(1, 4), (2, 4), (3, 6), (16, 4), (4, 64)])
@pytest.mark.parametrize("rows", [1, 3])
def test_attention_on_the_cpu_keeps_no_scores(heads: int, width: int, rows: int) -> None:
    """Or `Limits.keeps_scores` is wrong, and an honest node runs out of memory."""
    assert not limits_of(CPU).keeps_scores
    assert width >= MIN_HEAD_DIM
    spec = ModelSpec(
        d_model=heads * width, n_layers=1, n_heads=heads, n_kv_heads=1, d_ff=4, max_seq_len=300
    )
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    model = build_model(spec)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(torch.zeros(rows, 300, dtype=torch.int64)).sum().backward()
    assert max(kept) < rows * heads * 300 * 300


def test_a_task_passes_from_a_number_of_seconds_on_and_is_refused_below(inputs: TaskInputs) -> None:
    assert isinstance(inputs.store, EmbeddedStore)
    for spec in (inputs.evaluate(), inputs.train(), inputs.generate()):
        found = []
        for run_s in range(8 * AT_ONCE):
            try:
                found.append(len(perform(spec, inputs.store, run_s)) > 0)
            except TaskError as error:
                assert error.reason in ("too_long", "too_large")
                found.append(False)
        assert found == sorted(found)
        assert found[0] is False
        assert found[-1] is True
