# SPDX-License-Identifier: Apache-2.0
"""The loss is the training package's own, over the sequences that the spec names."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from torch.nn import functional

from agents.storage.canonical import loads
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.make import put_texts
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.model import build_model, init_state
from tests.stage.memory.task_inputs import LN_256, MODEL, TEXTS, TaskInputs, perform

STREAM = torch.tensor(list(b"".join(text.encode() + b"\0" for text in TEXTS)))


def sequence(number: int) -> torch.Tensor:
    return STREAM[16 * number : 16 * number + 17]


def test_the_loss_is_that_of_validation(inputs: TaskInputs) -> None:
    result = loads(perform(inputs.evaluate(first=3), inputs.store))
    parts = ([3, 4, 5, 6], [7, 8, 9, 10], [11, 12])
    batches = [torch.stack([sequence(number) for number in part]) for part in parts]
    loss = validation_loss(FlatModel(MODEL), init_state(MODEL), batches)
    model = build_model(MODEL)
    model.load_state_dict(init_state(MODEL))
    with torch.no_grad():
        last = b"".join(model(batch[:, :-1])[:, -1].numpy().tobytes() for batch in batches)
    assert result == {
        "kind": "evaluate",
        "loss": loss.hex(),
        "spec": "00" * 32,
        "tokens": 160,
        "witness": hashlib.sha256(last).hexdigest(),
    }
    assert float.fromhex(result["loss"]) == loss


def test_the_loss_is_the_mean_cross_entropy(inputs: TaskInputs) -> None:
    result = loads(perform(inputs.evaluate(batch_size=1), inputs.store))
    model = build_model(MODEL)
    model.load_state_dict(init_state(MODEL))
    with torch.no_grad():
        losses = [
            functional.cross_entropy(model(sequence(n)[None, :-1])[0].double(), sequence(n)[1:])
            for n in range(10)
        ]
    assert math.isclose(
        float.fromhex(result["loss"]), float(torch.stack(losses).mean()), rel_tol=1e-6
    )


def test_a_model_of_zeros_knows_nothing(inputs: TaskInputs) -> None:
    state = {name: torch.zeros_like(tensor) for name, tensor in init_state(MODEL).items()}
    result = loads(perform(inputs.evaluate(checkpoint=inputs.put_state(state)), inputs.store))
    assert math.isclose(float.fromhex(result["loss"]), LN_256, rel_tol=1e-7)


def test_the_last_sequence_is_the_last(inputs: TaskInputs) -> None:
    total = (len(STREAM) - 1) // 16
    perform(inputs.evaluate(first=total - 1, sequences=1), inputs.store)
    with pytest.raises(TaskError, match=f"asks for number {total}$") as caught:
        perform(inputs.evaluate(first=total - 1, sequences=2), inputs.store)
    assert caught.value.reason == "bad_data"


def test_two_sequences_are_enough_for_a_dataset(inputs: TaskInputs) -> None:
    data = put_texts(inputs.store, ["x" * 32])
    assert loads(perform(inputs.evaluate(data=data, sequences=2), inputs.store))["tokens"] == 32
