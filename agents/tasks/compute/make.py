# SPDX-License-Identifier: Apache-2.0
"""Makes and publishes specs: what a creator needs before a task goes on chain.

Each function checks all that can be checked without reading the inputs, so a spec made here is
refused only for what its inputs hold or for too little time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.prompts import Prompts
from agents.tasks.compute.spec import TaskSpec, build_spec
from agents.training.data import pack
from agents.training.spec import ModelSpec


def put_texts(store: ContentStore, texts: Iterable[str]) -> str:
    """Keep texts as a byte-level dataset and return its manifest's CID: `data` of `evaluate` and
    `train_steps`. Raises DataError, StoreError."""
    return pack([text.encode() for text in texts], store)


def put_prompts(store: ContentStore, texts: Iterable[str]) -> str:
    """Keep texts as a byte-level model's prompts and return their CID: `data` of `generate`."""
    return store.put_bytes(Prompts.of_texts(texts).to_bytes())


def evaluate_spec(
    checkpoint: str,
    model: ModelSpec,
    data: str,
    *,
    sequences: int,
    determinism: str = CPU,
    **options: Any,
) -> TaskSpec:
    """The loss of a checkpoint over `sequences` sequences of the dataset `data`.

    `options`: fields of `kinds.evaluate.Evaluate`; `seq_len` is the model's greatest if left out.
    Raises TaskError.
    """
    options = {"seq_len": model.max_seq_len, "sequences": sequences, **options}
    return _build("evaluate", checkpoint, model, data, determinism, options)


def train_spec(
    checkpoint: str,
    model: ModelSpec,
    data: str,
    *,
    steps: int,
    determinism: str = CPU,
    **options: Any,
) -> TaskSpec:
    """`steps` AdamW steps from a checkpoint on the dataset `data`.

    `options`: fields of `kinds.train_steps.TrainSteps`; `seq_len` is the model's greatest if left
    out. Raises TaskError.
    """
    options = {"seq_len": model.max_seq_len, "steps": steps, **options}
    return _build("train_steps", checkpoint, model, data, determinism, options)


def generate_spec(
    checkpoint: str,
    model: ModelSpec,
    prompts: str,
    *,
    max_new_tokens: int,
    determinism: str = CPU,
    **options: Any,
) -> TaskSpec:
    """Greedy decoding of the prompts that the CID `prompts` names.

    `options`: fields of `kinds.generate.Generate`. Raises TaskError.
    """
    options = {"max_new_tokens": max_new_tokens, **options}
    return _build("generate", checkpoint, model, prompts, determinism, options)


def publish(spec: TaskSpec, store: ContentStore) -> bytes:
    """Keep the spec and return the 32 bytes that `create_task` takes. Raises StoreError."""
    return digest_of(store.put_bytes(spec.canonical()))


def _build(
    kind: str, checkpoint: str, model: ModelSpec, data: str, determinism: str, options: Any
) -> TaskSpec:
    return build_spec(
        {
            "kind": kind,
            "determinism": determinism,
            "model": model.model_dump(),
            "checkpoint": checkpoint,
            "data": data,
            "options": options,
        }
    )
