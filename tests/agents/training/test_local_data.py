# SPDX-License-Identifier: Apache-2.0
"""A node's own folder gives the job's tokens, each in one example, and only a salted digest."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from agents.training.data import DataSource, pack
from agents.training.documents import DataError
from agents.training.local_data import LocalData
from agents.training.order import shuffled
from agents.training.rng import derive_key
from agents.training.spec import JobSpec
from tests.agents.training.conftest import word_tokenizer

SpecBuilder = Callable[..., JobSpec]
SALT = bytes(range(32))


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def load(store: EmbeddedStore, tiny_spec: SpecBuilder) -> Callable[..., LocalData]:
    def build(folder: Path, **changes: object) -> LocalData:
        spec = tiny_spec(**changes)
        return LocalData(folder, spec, DataSource(store, spec))

    return build


def test_sequences_by_definition(tmp_path: Path, load: Callable[..., LocalData]) -> None:
    texts = ["".join(f"{k} of {n};" for n in range(60)) for k in "abc"]
    jsonl = "".join(json.dumps({"text": t}) + "\n" for t in texts[:2])
    folder = write(tmp_path / "own", {"b.txt": texts[2], "a/x.jsonl": jsonl, ".hidden.txt": "no",
                                      ".git/x.txt": "no"})  # fmt: skip
    data = load(folder, data_seed=7)
    tokens = np.frombuffer("".join(t + "\0" for t in texts).encode(), np.uint8)
    count = len(tokens) // 17
    assert data.examples == count
    rows = tokens[: count * 17].reshape(count, 17)
    assert np.array_equal(data.sequences(np.arange(count)).numpy(), rows), "no token is shared"
    per_epoch = count // 4
    assert data.batches_per_epoch == per_epoch
    for index in (0, per_epoch - 1, per_epoch):
        order = shuffled(derive_key("order", 7, index // per_epoch), count, np.arange(count))
        batch = data.batch(index)
        assert batch.dtype == torch.int64
        assert np.array_equal(batch.numpy(), rows[order[index % per_epoch * 4 :][:4]])


def test_a_commitment_binds_data_and_salt(tmp_path: Path, load: Callable[..., LocalData]) -> None:
    data = load(write(tmp_path / "one", {"a.txt": "x" * 100, "b.txt": "y" * 100}))
    inner = hashlib.sha256(b"menagerie/local-data/v1")
    for text in (b"x" * 100, b"y" * 100):
        inner.update(len(text).to_bytes(8, "big") + text)
    assert data.commitment(SALT) == hmac.digest(SALT, inner.digest(), "sha256")
    assert data.commitment(SALT) != data.commitment(SALT[::-1])
    same = load(write(tmp_path / "two", {"c.txt": "x" * 100, "d.txt": "y" * 100}))
    assert same.commitment(SALT) == data.commitment(SALT), "contents count, not names"
    moved = {"a.txt": "x" * 99, "b.txt": "x" + "y" * 100}
    other = load(write(tmp_path / "three", moved))
    assert other.commitment(SALT) != data.commitment(SALT), "where a document ends counts"
    with pytest.raises(ValueError, match="the salt must have 32 random bytes, got 0"):
        data.commitment(b"")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no file; add .jsonl, .parquet, .txt files"),
        ({".a.txt": "hidden"}, "holds no file"),
        ({"a.csv": "x"}, "the ending must be one of"),
        ({"a.txt": "x" * 66}, "67 tokens give 3 sequences of 17, too few for a batch of 4"),
    ],
)
def test_an_unusable_folder_is_named(
    tmp_path: Path, load: Callable[..., LocalData], files: dict[str, str], message: str
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    with pytest.raises(DataError, match=message) as caught:
        load(write(folder, files))
    assert str(folder) in str(caught.value)


def test_a_missing_folder_is_named(tmp_path: Path, load: Callable[..., LocalData]) -> None:
    with pytest.raises(DataError, match=r"gone: is no folder; name the folder"):
        load(tmp_path / "gone")


def test_the_datasets_separator_joins_texts(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    data = pack([b"a" * 1000], store, separator=9)
    encoded = DataSource(store, tiny_spec(data=data)).encode([b"xy", b"", b"z"])
    assert encoded.tolist() == [120, 121, 9, 9, 122, 9]
    assert DataSource(store, tiny_spec(data=data)).encode([]).tolist() == []


def test_tokens_beyond_the_manifest_are_refused(
    tmp_path: Path, store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    spec = tiny_spec()
    public = DataSource(store, spec)
    public.dataset = public.dataset.model_copy(update={"vocab_size": 128})
    small = spec.model_copy(update={"model": spec.model.model_copy(update={"vocab_size": 128})})
    folder = write(tmp_path / "own", {"a.txt": "é" * 100})
    with pytest.raises(DataError, match="token 195 is outside the model's vocabulary of 128"):
        LocalData(folder, small, public)


def test_the_datasets_tokenizer_encodes_texts(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    words = b" ".join(b"w%d" % (i % 40) for i in range(500))
    data = pack([words], store, tokenizer=word_tokenizer(40), separator=3)
    public = DataSource(store, tiny_spec(data=data))
    assert public.encode([b"w5 w39 what"]).tolist() == [5, 39, 40, 3]
    public.dataset = public.dataset.model_copy(update={"vocab_size": 40})
    with pytest.raises(DataError, match="has 41 tokens, its manifest says 40"):
        public.encode([b"w5"])


def test_a_number_that_the_data_cannot_hold_is_no_other_token(
    store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    """A tokenizer says itself which number a token has. 261 in one byte would be 5."""
    words = b" ".join(b"w%d" % (i % 40) for i in range(500))
    data = pack([words], store, tokenizer=word_tokenizer(40), separator=3)
    public = DataSource(store, tiny_spec(data=data))
    fields = json.loads(word_tokenizer(40))
    fields["model"]["vocab"]["w5"] = 261
    far = json.dumps(fields).encode()
    public.dataset = public.dataset.model_copy(update={"tokenizer": store.put_bytes(far)})
    assert public.encode([b"w6"]).tolist() == [6, 3]
    with pytest.raises(DataError, match="token 261 is outside the data's tokens, up to 255"):
        public.encode([b"w6 w5"])
    with pytest.raises(DataError, match="token 261 is outside the data's tokens, up to 255"):
        pack([b"w6 w5"], store, tokenizer=far, separator=3)
