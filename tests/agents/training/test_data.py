# SPDX-License-Identifier: Apache-2.0
"""Every node reads the same verified tokens in the same order, validation apart."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from agents.training.data import Dataset, DataSource, pack
from agents.training.documents import DataError, read_documents, stdlib_corpus
from agents.training.order import shuffled
from agents.training.rng import derive_key
from agents.training.spec import JobSpec
from tests.agents.training.conftest import word_tokenizer

SpecBuilder = Callable[..., JobSpec]


def all_tokens(store: EmbeddedStore, data: str) -> np.ndarray:
    dataset = Dataset.from_bytes(store.get(data, 10**6))
    return np.frombuffer(b"".join(store.get(s.cid, 10**7) for s in dataset.shards), np.uint8)


def test_pack_by_hand(store: EmbeddedStore) -> None:
    cid = pack([b"abcde", b"", b"fg"], store, shard_bytes=4)
    dataset = Dataset.from_bytes(store.get(cid, 10**6))
    assert [s.tokens for s in dataset.shards] == [4, 4, 2]
    assert [store.get(s.cid, 4) for s in dataset.shards] == [b"abcd", b"e\0\0f", b"g\0"]
    assert (dataset.dtype, dataset.vocab_size, dataset.tokens) == ("uint8", 256, 10)
    assert pack(iter([b"abcde", b"", b"fg"]), store, shard_bytes=4) == cid


def test_batches_by_definition(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec(data_seed=7)
    data, tokens = DataSource(store, spec), all_tokens(store, spec.data)
    total = (len(tokens) - 1) // 16
    val = math.ceil(total * spec.val_fraction)
    assert (data.train_sequences, data.val_sequences) == (total - val, val)
    per_epoch = (total - val) // 4
    assert data.batches_per_epoch == per_epoch
    for index in (0, 1, per_epoch - 1, per_epoch, 3 * per_epoch + 2):
        places = index % per_epoch * 4 + np.arange(4)
        rows = shuffled(derive_key("order", 7, index // per_epoch), total - val, places)
        expected = np.stack([tokens[r * 16 : r * 16 + 17] for r in rows])
        batch = data.batch(index)
        assert batch.dtype == torch.int64
        assert np.array_equal(batch.numpy(), expected)


def test_an_epoch_repeats_nothing_and_spares_validation(
    store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    data = DataSource(store, tiny_spec())
    rows = np.concatenate([data.rows(i) for i in range(data.batches_per_epoch)])
    assert len(set(rows.tolist())) == len(rows)
    assert rows.max() < data.train_sequences
    assert not np.array_equal(data.rows(0), data.rows(data.batches_per_epoch))


def test_a_shard_named_twice_is_refused(store: EmbeddedStore) -> None:
    """A manifest that names one file 70,000 times would ask a batch for 70,000 times its bytes."""
    dataset = Dataset.from_bytes(store.get(pack([b"abcdefgh"], store, shard_bytes=4), 2**20))
    shards = (*dataset.shards, dataset.shards[0])
    with pytest.raises(ValueError, match="shard 3 is shard 0 again"):
        Dataset(shards=shards)
    with pytest.raises(DataError, match="shard 1 is shard 0 again: the data repeats itself"):
        pack([b"abcdabcd"], store, shard_bytes=4)


def test_validation_is_the_end_of_the_text(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec(val_fraction=0.5)
    data, tokens = DataSource(store, spec), all_tokens(store, spec.data)
    batches = data.val_batches(3)
    assert [tuple(b.shape) for b in batches] == [(4, 17)] * 3
    first = data.train_sequences * 16
    assert np.array_equal(batches[0][0].numpy(), tokens[first : first + 17])
    everything = data.val_batches(10**6)
    assert sum(len(b) for b in everything) == data.val_sequences


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [(5000, DataError, "has 4096 bytes, the manifest says 5000"), (4000, StoreError, None)],
)
def test_a_shard_of_another_size_never_becomes_data(
    store: EmbeddedStore, tiny_spec: SpecBuilder, tokens: int, error: Any, message: str | None
) -> None:
    spec = tiny_spec()
    dataset = Dataset.from_bytes(store.get(spec.data, 10**6))
    wrong = dataset.shards[0].model_copy(update={"tokens": tokens})
    lying = dataset.model_copy(update={"shards": (wrong, *dataset.shards[1:])})
    changed = spec.model_copy(update={"data": store.put_bytes(lying.to_bytes())})
    with pytest.raises(error, match=message):
        DataSource(store, changed)._shard(0)


def test_tokens_outside_the_vocabulary_are_refused(
    store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    spec = tiny_spec()
    dataset = Dataset.from_bytes(store.get(spec.data, 10**6))
    small = dataset.model_copy(update={"vocab_size": 60})
    changed = spec.model_copy(update={"data": store.put_bytes(small.to_bytes())})
    with pytest.raises(DataError, match="outside the dataset's vocabulary of 60"):
        DataSource(store, changed).batch(0)
    model = spec.model.model_copy(update={"vocab_size": 100})
    with pytest.raises(DataError, match="256 tokens but the model's vocab_size is 100"):
        DataSource(store, spec.model_copy(update={"model": model}))


def test_too_little_text_is_refused(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    cid = pack([b"x" * 70], store)
    with pytest.raises(DataError, match="71 tokens give 4 sequences of 16, too few"):
        DataSource(store, tiny_spec(data=cid))
    with pytest.raises(DataError, match="no text to pack"):
        pack([], store)


@given(st.binary(max_size=80))
def test_arbitrary_manifests_raise_only_data_errors(raw: bytes) -> None:
    with pytest.raises(DataError):
        Dataset.from_bytes(raw)


def test_of_many_wrong_shards_the_first_is_named() -> None:
    """Of a megabyte of zeros, half a million wrong shards, all used to be: 5 seconds of computing
    and a gigabyte of memory."""
    with pytest.raises(DataError) as caught:
        Dataset.from_bytes(b'{"shards":[0,0,0]}')
    assert str(caught.value).count("shards.") == 1
    assert "shards.0: " in str(caught.value)


def test_manifest_fields_are_bounded() -> None:
    shard = {"cid": "b" + "a" * 58, "tokens": 2**40}
    fields = {"version": 1, "dtype": "uint8", "vocab_size": 256, "tokenizer": None}
    raw = json.dumps(fields | {"shards": [shard]}, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DataError, match="shard 0 has 1099511627776 tokens"):
        Dataset.from_bytes(raw)
    raw = json.dumps(fields | {"shards": []}, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DataError, match="shards"):
        Dataset.from_bytes(raw)


def test_text_and_jsonl_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("zoë", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n\n{"text": "two", "n": 1}\n')
    documents = list(read_documents([tmp_path / "a.txt", tmp_path / "b.jsonl"]))
    assert documents == ["zoë".encode(), b"one", b"two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"ok\xff", "is not UTF-8 at byte 2"),
        ("a.csv", b"", "the ending must be one of .txt, .jsonl, .parquet"),
        ("a.jsonl", b'{"text": "x"}\n{oops\n', "line 2 is not JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON: it nests deeper than 64"),
        ("a.jsonl", b'["\\"[' * 100_000, "line 1 is not JSON"),
        ("a.jsonl", b'{"body": "x"}\n', "line 1 has no text under 'text'"),
        ("a.jsonl", b"[1]\n", "line 1 has no text"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', "lone surrogate"),
    ],
)
def test_a_bad_user_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_documents([path]))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt: cannot be read: No such file"):
        list(read_documents([tmp_path / "gone.txt"]))


def test_parquet_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(DataError, match="is not a parquet file"):
        list(read_documents([path]))
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        parquet.write_table(pa.table({"text": pa.array(["one", "zwei é"], kind)}), path)
        assert list(read_documents([path])) == [b"one", "zwei é".encode()]
    many = [f"document {i}" for i in range(1_000)]
    for options in ({"row_group_size": 7}, {"compression": "zstd"}, {"use_dictionary": False}):
        parquet.write_table(pa.table({"body": many, "id": range(1_000)}), path, **options)
        assert list(read_documents([path], "body")) == [text.encode() for text in many]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"other": ["a"]}, "row 1 has no text under 'text'"),
        ({"text": ["a", None]}, "row 2 has no text under 'text'"),
        ({"text": [1]}, "row 1 has no text under 'text'"),
        ({"text": [b"\xff"]}, "row 1 has no text under 'text'"),
        ({"text": [["a"]]}, "row 1 has no text under 'text'"),
    ],
    ids=["column", "null", "number", "bytes", "list"],
)
def test_parquet_rows_without_text_are_named(
    tmp_path: Path, columns: dict[str, list[object]], words: str
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=words):
        list(read_documents([tmp_path / "a.parquet"]))


def test_damaged_parquet_files_raise_only_data_errors(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    table = pa.table({"text": [f"{i} " * 40 for i in range(300)]})
    parquet.write_table(table, whole, compression="zstd")
    raw, refused = whole.read_bytes(), 0
    for seed in range(60):
        draws, damaged = random.Random(seed), bytearray(raw)
        for _ in range(3):
            damaged[draws.randrange(4, len(raw))] ^= 1 << draws.randrange(8)
        if seed % 5 == 0:
            del damaged[draws.randrange(len(raw)) :]
        path = tmp_path / "a.parquet"
        path.write_bytes(damaged)
        try:
            list(read_documents([path]))
        except DataError:
            refused += 1
    assert refused > 20


def test_the_missing_parquet_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match="install the extra 'parquet'"):
        list(read_documents([tmp_path / "a.parquet"]))


def test_stdlib_corpus_is_bounded_sorted_and_distinct(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "test").mkdir()
    for name, text in {"b.py": "bb\n", "a.py": "a\n", "c.py": "a\n", "sub/d.py": "d1\nd2\n",
                       "test/x.py": "no\n", "e.txt": "no\n"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    assert list(stdlib_corpus(100, tmp_path)) == [b"a\n", b"bb\n", b"d1\nd2\n"]
    assert list(stdlib_corpus(9, tmp_path)) == [b"a\n", b"bb\n", b"d1\n"]
    with pytest.raises(DataError, match="no Python source"):
        list(stdlib_corpus(9, tmp_path / "test" / "none"))


def test_the_running_library_gives_real_text() -> None:
    documents = list(stdlib_corpus(200_000))
    assert 190_000 < sum(map(len, documents)) <= 200_000
    assert sum(b"def " in d for d in documents) > len(documents) // 2


def test_a_tokenizer_file_is_used_or_refused(store: EmbeddedStore) -> None:
    raw = word_tokenizer(300)
    cid = pack([b"w1 w299 what", b"w2"], store, tokenizer=raw, separator=7)
    dataset = Dataset.from_bytes(store.get(cid, 10**6))
    assert (dataset.dtype, dataset.vocab_size) == ("uint16", 301)
    assert dataset.tokenizer is not None
    assert store.get(dataset.tokenizer, 10**6) == raw
    tokens = np.frombuffer(store.get(dataset.shards[0].cid, 100), "<u2")
    assert tokens.tolist() == [1, 299, 300, 7, 2, 7]
    large = pack([b"w70000"], store, tokenizer=word_tokenizer(70_001), separator=0)
    assert Dataset.from_bytes(store.get(large, 10**6)).dtype == "uint32"
    with pytest.raises(DataError, match="separator must be a token from 0 to 300, got None"):
        pack([b"w1"], store, tokenizer=raw)
    with pytest.raises(DataError, match="tokenizer file cannot be used"):
        pack([b"w1"], store, tokenizer=b"{}", separator=0)


@pytest.mark.parametrize(
    "setting",
    [
        {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                        "stride": 0}},
        {"padding": {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0,
                     "pad_to_multiple_of": None, "pad_type_id": 0, "pad_token": "w0"}},
    ],
    ids=["truncation", "padding"],
)  # fmt: skip
def test_a_tokenizer_neither_cuts_nor_pads(
    store: EmbeddedStore, setting: dict[str, object]
) -> None:
    """The hub's files often cut texts to the length of the model that they came with."""
    raw = json.dumps(json.loads(word_tokenizer(300)) | setting).encode()
    cid = pack([b"w1 w2 w3 w4"], store, tokenizer=raw, separator=7)
    assert Dataset.from_bytes(store.get(cid, 10**6)).tokens == 5


def test_the_missing_tokenizer_extra_is_named(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(DataError, match="needs the extra 'hf'"):
        pack([b"w1"], store, tokenizer=word_tokenizer(3), separator=0)


def test_pack_refuses_bad_settings(store: EmbeddedStore) -> None:
    with pytest.raises(DataError, match="multiple of 4"):
        pack([b"x"], store, shard_bytes=5)
    with pytest.raises(DataError, match="from 0 to 255, got 256"):
        pack([b"x"], store, separator=256)
