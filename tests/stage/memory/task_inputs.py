# SPDX-License-Identifier: Apache-2.0
"""A tiny model, its inputs in a real store, and every way a task can be right or wrong.

`cases` is the one list that fresh processes are compared on: name -> what to run, and the reason
for which every honest node refuses it (None: it gives a result).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from agents.storage.canonical import dumps, loads
from agents.storage.content_store import ContentStore
from agents.tasks.compute.budget import Budget
from agents.tasks.compute.classes import CPU, limits_of
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.make import (
    evaluate_spec,
    generate_spec,
    put_prompts,
    put_texts,
    train_spec,
)
from agents.tasks.compute.prompts import Prompts
from agents.tasks.compute.spec import TaskSpec
from agents.training.data import Dataset, Shard
from agents.training.model import init_state
from agents.training.spec import ModelSpec
from agents.training.state import State, save_state

MODEL = ModelSpec(
    d_model=16, n_layers=2, n_heads=2, n_kv_heads=1, d_ff=24, max_seq_len=16, init_seed=5
)
RUN_S = 60
LN_256 = math.log(256.0)
TEXTS = tuple(f"Line {i} of a small corpus, squared {i * i}." for i in range(120))
PROMPTS = ("Line 1", "a")


@dataclass(frozen=True)
class TaskInputs:
    """A store with a checkpoint, a dataset and prompts, by CID."""

    store: ContentStore
    checkpoint: str
    data: str
    prompts: str

    @classmethod
    def build(cls, store: ContentStore) -> TaskInputs:
        return cls(
            store,
            store.put_bytes(save_state(init_state(MODEL))),
            put_texts(store, TEXTS),
            put_prompts(store, PROMPTS),
        )

    def put_state(self, state: State) -> str:
        return self.store.put_bytes(save_state(state))

    def evaluate(self, **changes: Any) -> TaskSpec:
        fields = {"checkpoint": self.checkpoint, "model": MODEL, "data": self.data}
        return evaluate_spec(**(fields | {"sequences": 10, "batch_size": 4} | changes))

    def train(self, **changes: Any) -> TaskSpec:
        fields = {"checkpoint": self.checkpoint, "model": MODEL, "data": self.data}
        return train_spec(**(fields | {"steps": 3, "batch_size": 4} | changes))

    def generate(self, **changes: Any) -> TaskSpec:
        fields = {"checkpoint": self.checkpoint, "model": MODEL, "prompts": self.prompts}
        return generate_spec(**(fields | {"max_new_tokens": 6} | changes))


def perform(spec: TaskSpec, store: ContentStore, run_s: int = RUN_S) -> bytes:
    """The payload computed in this process, whatever its class; raises as the kind does."""
    budget = Budget(limits_of(CPU), run_s)
    return spec.options.run(Execution(spec, "00" * 32, store, budget, "cpu"))


@dataclass(frozen=True)
class Case:
    """`raw` spec, paid seconds, the class on chain, and the reason of the refusal."""

    raw: bytes
    refusal: str | None
    run_s: int = RUN_S
    label: str = CPU


def cases(inputs: TaskInputs) -> dict[str, Case]:
    """All of them; the inputs they name are put in the store."""
    return _right(inputs) | _specs(inputs) | _inputs(inputs) | _sizes(inputs) | _numbers(inputs)


def _right(inputs: TaskInputs) -> dict[str, Case]:
    return {
        "evaluate": Case(inputs.evaluate().canonical(), None),
        "train_steps": Case(inputs.train().canonical(), None),
        "generate": Case(inputs.generate().canonical(), None),
    }


def _edited(spec: TaskSpec, **changes: Any) -> bytes:
    return dumps(loads(spec.canonical()) | changes)


def _with_options(spec: TaskSpec, **changes: Any) -> bytes:
    fields = loads(spec.canonical())
    return dumps(fields | {"options": fields["options"] | changes})


def _specs(inputs: TaskInputs) -> dict[str, Case]:
    good, train = inputs.evaluate(), inputs.train()
    fields = loads(good.canonical())
    del fields["version"]
    hugging = MODEL.model_dump() | {"kind": "transformers", "config_cid": inputs.data}
    return {
        "empty": Case(b"", "bad_spec"),
        "noise": Case(bytes(range(256)), "bad_spec"),
        "list": Case(b"[]", "bad_spec"),
        "spaces": Case(good.canonical().replace(b":", b": "), "bad_spec"),
        "default left out": Case(dumps(fields), "bad_spec"),
        "too long a spec": Case(_edited(good, determinism="x" * 20_000), "bad_spec"),
        "key": Case(_edited(good, tip=1), "bad_spec"),
        "option": Case(_with_options(good, tip=1), "bad_spec"),
        "no steps": Case(_with_options(train, steps=0), "bad_spec"),
        "whole rate": Case(_with_options(train, lr=1), "bad_spec"),
        "huge rate": Case(_with_options(train, lr=10**400), "bad_spec"),
        "beyond positions": Case(_with_options(good, seq_len=17), "bad_spec"),
        "stop": Case(_with_options(inputs.generate(), stop_token=256), "bad_spec"),
        "kind": Case(_edited(good, kind="mine_coins"), "unknown_kind"),
        "kind is a module": Case(_edited(good, kind="options"), "unknown_kind"),
        "kind is a path": Case(_edited(good, kind="../run"), "unknown_kind"),
        "kind is a list": Case(_edited(good, kind=["evaluate"]), "unknown_kind"),
        "class": Case(
            inputs.evaluate(determinism="cuda:sm_90/132/13.0").canonical(), "other_class"
        ),
        "model": Case(_edited(good, model=hugging), "bad_model"),
    }


def _inputs(inputs: TaskInputs) -> dict[str, Case]:
    put = inputs.store.put_bytes
    state = init_state(MODEL)
    wide = init_state(MODEL.model_copy(update={"d_ff": 26}))
    whole = save_state(state)
    text = put_texts(inputs.store, ["too short"])
    shard, other = put(bytes(range(200))), put(bytes(range(1, 201)))
    poisoned = bytearray(whole)
    poisoned[-4:] = b"\0\0\xc0\x7f"  # NaN

    def data(**fields: Any) -> Case:
        known = {"shards": (Shard(cid=shard, tokens=200),)}
        return Case(
            inputs.evaluate(data=put(Dataset(**(known | fields)).to_bytes())).canonical(),
            "bad_data",
        )

    def prompts(raw: bytes) -> Case:
        return Case(inputs.generate(prompts=put(raw)).canonical(), "bad_prompts")

    def checkpoint(raw: bytes) -> Case:
        return Case(inputs.evaluate(checkpoint=put(raw)).canonical(), "bad_checkpoint")

    return {
        "no cid": Case(inputs.evaluate(checkpoint="b" + "a" * 58).canonical(), "bad_input"),
        "noise as checkpoint": checkpoint(b"noise"),
        "half a checkpoint": checkpoint(whole[: len(whole) // 2]),
        "another model's": checkpoint(save_state(wide)),
        "poisoned": checkpoint(bytes(poisoned)),
        "noise as manifest": Case(inputs.evaluate(data=put(b"noise")).canonical(), "bad_data"),
        "another vocabulary": data(vocab_size=300, dtype="uint16"),
        "tokens out of vocabulary": data(vocab_size=100),
        "shorter shard": data(shards=(Shard(cid=shard, tokens=201),)),
        "keys of single shards": data(
            shards=(Shard(cid=shard, tokens=200), Shard(cid=other, tokens=200)), key_salt="00" * 32
        ),
        "short data": Case(inputs.train(data=text).canonical(), "bad_data"),
        "range beyond the data": Case(inputs.evaluate(first=10**9).canonical(), "bad_data"),
        "noise as prompts": prompts(b"noise"),
        "no prompts": prompts(dumps({"prompts": [], "version": 1})),
        "empty prompt": prompts(dumps({"prompts": [[]], "version": 1})),
        "long prompt": prompts(Prompts.of_texts(["x" * 11]).to_bytes()),
        "no token": prompts(Prompts(prompts=((256,),)).to_bytes()),
    }


def _sizes(inputs: TaskInputs) -> dict[str, Case]:
    shard = inputs.store.put_bytes(bytes(300))
    longer = Dataset(shards=(Shard(cid=shard, tokens=200),))
    sparse = Dataset(shards=(Shard(cid=shard, tokens=2**28),))
    wide = MODEL.model_copy(update={"d_model": 32_768, "n_layers": 256, "d_ff": 100_000})
    heavy = MODEL.model_copy(update={"d_model": 4_096, "n_layers": 8, "d_ff": 16_384})
    many = Prompts(prompts=((1,),) * 4_096)
    put = inputs.store.put_bytes
    return {
        "longer manifest": Case(
            inputs.evaluate(data=put(bytes(2**20 + 1))).canonical(), "too_large"
        ),
        "longer shard": Case(inputs.evaluate(data=put(longer.to_bytes())).canonical(), "too_large"),
        "sequences": Case(
            inputs.train(data=put(sparse.to_bytes()), seq_len=1).canonical(), "too_large"
        ),
        "billions of weights": Case(inputs.evaluate(model=wide).canonical(), "too_large"),
        "memory": Case(inputs.train(model=heavy).canonical(), "too_large", run_s=10**9),
        "tokens": Case(
            inputs.generate(
                prompts=put(many.to_bytes()),
                model=MODEL.model_copy(update={"max_seq_len": 64}),
                max_new_tokens=17,
            ).canonical(),
            "too_large",
            run_s=10**9,
        ),
        "no time to read": Case(inputs.generate().canonical(), "too_large", run_s=0),
        "steps": Case(inputs.train(steps=10_000).canonical(), "too_long"),
        "no time": Case(inputs.evaluate().canonical(), "too_long", run_s=0),
        "little time": Case(inputs.generate().canonical(), "too_long", run_s=1),
    }


def _numbers(inputs: TaskInputs) -> dict[str, Case]:
    state = init_state(MODEL)
    state["norm.weight"] = torch.full_like(state["norm.weight"], 3e38)
    huge = inputs.put_state(state)
    return {
        "infinite loss": Case(inputs.evaluate(checkpoint=huge).canonical(), "not_finite"),
        "infinite logit": Case(inputs.generate(checkpoint=huge).canonical(), "not_finite"),
        "infinite gradient": Case(inputs.train(checkpoint=huge).canonical(), "not_finite"),
    }
