# SPDX-License-Identifier: Apache-2.0
"""Decoding takes the greatest logit each time, and of equal ones the lowest token."""

from __future__ import annotations

import hashlib

import pytest
import torch

from agents.storage.canonical import loads
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.prompts import MAX_PROMPT_BYTES, Prompts, text_of
from agents.training.model import build_model, init_state, template
from agents.training.spec import ModelSpec
from agents.training.state import State, load_state, save_state
from tests.stage.memory.task_inputs import MODEL, PROMPTS, TaskInputs, perform


def trained(inputs: TaskInputs) -> str:
    return inputs.store.put_bytes(perform(inputs.train(steps=60, lr=0.02), inputs.store))


def outputs(payload: bytes) -> list[dict[str, object]]:
    found: list[dict[str, object]] = loads(payload)["outputs"]
    return found


def test_the_tokens_are_those_of_a_plain_loop(inputs: TaskInputs) -> None:
    checkpoint = trained(inputs)
    model = build_model(MODEL)
    raw = inputs.store.get(checkpoint, 2**20)
    model.load_state_dict(load_state(raw, template(MODEL)))
    wanted, seen = [], b""
    for prompt in PROMPTS:
        tokens = list(prompt.encode())
        for _ in range(6):
            with torch.no_grad():
                logits = model(torch.tensor([tokens]))[0, -1]
            seen += logits.numpy().tobytes()
            tokens.append(int(logits.argmax()))
        new = tokens[len(prompt) :]
        wanted.append({"tokens": new, "text": bytes(new).decode("utf-8", "replace")})
    payload = perform(inputs.generate(checkpoint=checkpoint), inputs.store)
    assert loads(payload) == {
        "kind": "generate",
        "spec": "00" * 32,
        "outputs": wanted,
        "witness": hashlib.sha256(seen).hexdigest(),
    }
    assert len({token for row in wanted for token in row["tokens"]}) > 2, "it must have learned"


def zeros() -> State:
    return {name: torch.zeros_like(tensor) for name, tensor in init_state(MODEL).items()}


def test_all_equal_gives_the_first_token(inputs: TaskInputs) -> None:
    found = outputs(perform(inputs.generate(checkpoint=inputs.put_state(zeros())), inputs.store))
    assert found == [{"tokens": [0] * 6, "text": "\0" * 6}] * 2


@pytest.mark.parametrize(("low", "high"), [(7, 200), (3, 255)])
def test_two_equal_ones_give_the_lower(inputs: TaskInputs, low: int, high: int) -> None:
    # Every embedding is e0 times something positive, so each position's state is e0: the logits are
    # the embeddings' own sizes.
    state = zeros()
    state["embedding.weight"][:, 0] = 1.0
    state["embedding.weight"][[low, high], 0] = 2.0
    state["norm.weight"] = torch.ones_like(state["norm.weight"])
    spec = inputs.generate(checkpoint=inputs.put_state(state))
    assert [row["tokens"] for row in outputs(perform(spec, inputs.store))] == [[low] * 6] * 2
    state["embedding.weight"][high, 0] = 2.0000002
    spec = inputs.generate(checkpoint=inputs.put_state(state))
    assert [row["tokens"] for row in outputs(perform(spec, inputs.store))] == [[high] * 6] * 2


def test_decoding_ends_after_the_stop_token(inputs: TaskInputs) -> None:
    spec = inputs.generate(checkpoint=inputs.put_state(zeros()), stop_token=0)
    assert [row["tokens"] for row in outputs(perform(spec, inputs.store))] == [[0], [0]]


def test_a_prompt_is_decoded_as_if_it_were_alone(inputs: TaskInputs) -> None:
    checkpoint = trained(inputs)
    together = outputs(perform(inputs.generate(checkpoint=checkpoint), inputs.store))
    for place, prompt in enumerate(PROMPTS):
        alone = inputs.store.put_bytes(Prompts.of_texts([prompt]).to_bytes())
        spec = inputs.generate(checkpoint=checkpoint, prompts=alone)
        assert outputs(perform(spec, inputs.store)) == [together[place]]


def test_only_a_byte_level_model_has_text(inputs: TaskInputs) -> None:
    small = ModelSpec.model_validate(MODEL.model_dump() | {"vocab_size": 255})
    checkpoint = inputs.store.put_bytes(save_state(init_state(small)))
    found = outputs(perform(inputs.generate(checkpoint=checkpoint, model=small), inputs.store))
    assert [row["text"] for row in found] == [None, None]
    assert text_of([72, 105, 0xC3], 256) == "Hi�"


def with_prompt_of(inputs: TaskInputs, length: int) -> bytes:
    prompts = inputs.store.put_bytes(Prompts.of_texts(["x" * length]).to_bytes())
    return perform(inputs.generate(prompts=prompts), inputs.store)


def test_prompts_fill_the_models_positions_and_no_more(inputs: TaskInputs) -> None:
    assert len(outputs(with_prompt_of(inputs, 10))) == 1
    with pytest.raises(TaskError) as caught:
        with_prompt_of(inputs, 11)
    assert caught.value.reason == "bad_prompts"


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"null", b'{"prompts":[[1]]}\n', b'{"prompts":[[1]],"version":2}',
        b'{"prompts":[[-1]],"version":1}', b'{"prompts":[[1.0]],"version":1}',
        b'{"prompts":[[true]],"version":1}', b'{"prompts":["ab"],"version":1}', b"\xff",
        b'{"prompts":[[' + b"9" * 5000 + b']],"version":1}',
    ],
)  # fmt: skip
def test_malformed_prompts_are_refused(raw: bytes) -> None:
    with pytest.raises(TaskError) as caught:
        Prompts.from_bytes(raw)
    assert caught.value.reason == "bad_prompts"


def test_prompts_are_read_back(inputs: TaskInputs) -> None:
    assert Prompts.from_bytes(
        inputs.store.get(inputs.prompts, MAX_PROMPT_BYTES)
    ) == Prompts.of_texts(PROMPTS)
