# SPDX-License-Identifier: Apache-2.0
"""One task and its neighbours: each differs from it in one bit of one input or in one option."""

from __future__ import annotations

import math

from agents.storage.canonical import dumps, loads
from agents.tasks.compute.spec import TaskSpec, build_spec
from agents.training.data import MAX_MANIFEST_BYTES, Dataset
from agents.training.order import BatchOrder
from tests.stage.memory.task_inputs import TaskInputs

_OPTIONS = {
    "evaluate": {"first": 1, "sequences": 11, "seq_len": 15},
    "train": {
        "first": 1, "steps": 4, "seq_len": 15, "batch_size": 5, "seed": 1, "val_fraction": 0.5,
        "lr": 0.0011, "beta1": 0.91, "beta2": 0.96, "eps": 1e-7, "weight_decay": 0.02,
        "grad_clip": 0.5,
    },
    "generate": {"max_new_tokens": 7},
}  # fmt: skip


def changed(inputs: TaskInputs, kind: str) -> dict[str, TaskSpec]:
    """The task itself, then its neighbours by what is different."""
    base: TaskSpec = getattr(inputs, kind)()
    found = {"itself": base}
    for place in (1, 1001, 4001):  # low mantissa bits of three weights
        found[f"weight {place}"] = _with(base, checkpoint=_weight(inputs, place))
    if kind == "generate":
        found["prompt"] = _with(base, data=_prompt(inputs))
    else:
        found["token"] = _with(base, data=_token(inputs, base))
    for name, value in _OPTIONS[kind].items():
        found[name] = _with(base, options=base.options.model_dump() | {name: value})
    return found


def _with(base: TaskSpec, **fields: object) -> TaskSpec:
    return build_spec(loads(base.canonical()) | fields)


def _flip(raw: bytes, place: int) -> bytes:
    flipped = bytearray(raw)
    flipped[place] ^= 1
    return bytes(flipped)


def _weight(inputs: TaskInputs, number: int) -> str:
    raw = inputs.store.get(inputs.checkpoint, 2**20)
    return inputs.store.put_bytes(_flip(raw, len(raw) - 4 * number))


def _token(inputs: TaskInputs, base: TaskSpec) -> str:
    """A dataset that differs in the fifth token of the first sequence that the task reads."""
    store = inputs.store
    dataset = Dataset.from_bytes(store.get(inputs.data, MAX_MANIFEST_BYTES))
    sequence = 0
    if base.kind == "train_steps":
        left = (dataset.tokens - 1) // 16
        sequence = int(BatchOrder(left - math.ceil(left * 0.05), 4, seed=0).rows(0)[0])
    shard = dataset.shards[0]
    raw = store.get(shard.cid, shard.tokens)
    fields = dataset.model_dump(mode="json")
    fields["shards"][0]["cid"] = store.put_bytes(_flip(raw, 16 * sequence + 4))
    return store.put_bytes(dumps(fields))


def _prompt(inputs: TaskInputs) -> str:
    fields = loads(inputs.store.get(inputs.prompts, 2**20))
    fields["prompts"][0][0] ^= 1
    return inputs.store.put_bytes(dumps(fields))
