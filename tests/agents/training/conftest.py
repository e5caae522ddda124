# SPDX-License-Identifier: Apache-2.0
"""A real embedded store, a small real corpus and a tiny job for the training tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.storage.embedded import EmbeddedStore
from agents.training.data import pack
from agents.training.spec import JobSpec
from tests.stage.memory.tiny_specs import tiny_model

TINY_MODEL = tiny_model(16, 24, 16, layers=2)
TINY_OPTIMIZER = {"batch_size": 4, "seq_len": 16}


def word_tokenizer(words: int) -> bytes:
    """A tokenizer.json that splits at spaces and knows w0, w1, ..."""
    vocabulary = {f"w{i}": i for i in range(words)} | {"[UNK]": words}
    fields = {
        "version": "1.0",
        **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder")),
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    return json.dumps(fields).encode()


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    """An empty folder store."""
    return EmbeddedStore(tmp_path / "store")


@pytest.fixture
def tiny_spec(store: EmbeddedStore) -> Callable[..., JobSpec]:
    """Builds a spec of a tiny model over about 40 kB of text in 4 kB shards."""
    text = b"".join(b"line %d of the tiny corpus, squared %d\n" % (i, i * i) for i in range(900))
    data = pack([text[:20_000], text[20_000:]], store, shard_bytes=4096)

    def build(**changes: object) -> JobSpec:
        fields: dict[str, object] = {
            "data": data,
            "model": TINY_MODEL,
            "optimizer": TINY_OPTIMIZER,
            "batches_per_round": 12,
        }
        return JobSpec.from_dict(fields | changes)

    return build
