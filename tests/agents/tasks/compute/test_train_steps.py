# SPDX-License-Identifier: Apache-2.0
"""The new checkpoint is what a round's own steps make of the same batches, to the bit. That those
are torch's AdamW is the subject of `tests/agents/training/test_local.py`."""

from __future__ import annotations

import pytest
import torch

from agents.storage.canonical import loads
from agents.storage.cid import cid_of_bytes
from agents.tasks.compute.errors import TaskError
from agents.training.data import DataSource
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state, template
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import load_state, save_state
from tests.stage.memory.task_inputs import MODEL, TaskInputs, perform


def batches(inputs: TaskInputs, numbers: range) -> list[torch.Tensor]:
    """What a job on this dataset calls these batches."""
    job = JobSpec.from_dict(
        {
            "data": inputs.data, "model": MODEL.model_dump(), "data_seed": 9, "val_fraction": 0.2,
            "optimizer": {"seq_len": 16, "batch_size": 4},
        }
    )  # fmt: skip
    source = DataSource(inputs.store, job)
    return [source.batch(number) for number in numbers]


OPTIONS = {
    "first": 2, "steps": 5, "seed": 9, "val_fraction": 0.2, "lr": 0.01, "weight_decay": 0.3,
    "grad_clip": 0.5, "beta2": 0.99,
}  # fmt: skip


def test_the_steps_are_those_of_a_round_to_the_bit(inputs: TaskInputs) -> None:
    hyper = Hyperparameters(
        lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.3, grad_clip=0.5, precision="fp32"
    )
    result = train_local(
        FlatModel(MODEL), init_state(MODEL), batches(inputs, range(2, 7)), hyper, bytes(32)
    )
    assert perform(inputs.train(**OPTIONS), inputs.store) == save_state(result.state)


def test_the_result_is_the_next_tasks_checkpoint_and_a_better_one(inputs: TaskInputs) -> None:
    def loss(checkpoint: str) -> float:
        spec = inputs.evaluate(checkpoint=checkpoint, sequences=40)
        return float.fromhex(loads(perform(spec, inputs.store))["loss"])

    payload = perform(inputs.train(steps=30, lr=0.01), inputs.store)
    trained = inputs.store.put_bytes(payload)
    assert trained == cid_of_bytes(payload)
    assert loss(trained) < 0.7 * loss(inputs.checkpoint)
    again = perform(inputs.train(checkpoint=trained, first=30, lr=0.01), inputs.store)
    assert loss(inputs.store.put_bytes(again)) < loss(trained)


def test_a_range_of_steps_reaches_into_the_next_epoch(inputs: TaskInputs) -> None:
    far = perform(inputs.train(first=2**40), inputs.store)
    assert far != perform(inputs.train(), inputs.store)
    assert load_state(far, template(MODEL)).keys() == template(MODEL).keys()


def test_training_that_diverges_is_a_refusal(inputs: TaskInputs) -> None:
    state = init_state(MODEL)
    state["norm.weight"] = torch.full_like(state["norm.weight"], 3e38)
    with pytest.raises(TaskError) as caught:
        perform(inputs.train(checkpoint=inputs.put_state(state)), inputs.store)
    assert caught.value.reason == "not_finite"
