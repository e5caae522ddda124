# SPDX-License-Identifier: Apache-2.0
"""Packed, content-addressed tokens, and the one order in which every node reads them.

Shards are plain little-endian arrays of uint8 (bytes), uint16 or uint32 tokens, named by CID in
a dataset manifest. Sequence i covers tokens i*seq_len .. i*seq_len+seq_len of the concatenated
shards; the last ``val_fraction`` of the sequences is validation and is never trained on. Batch
b belongs to epoch b // batches_per_epoch, whose order is a shuffle of the training sequences; the
rest that fills no batch is left out of that epoch. Where each shard has a key of its own, sequences
lie within shards and an epoch goes shard by shard (``agents.training.layout``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)
from torch import Tensor

from agents.storage.canonical import dumps, loads
from agents.training.documents import DataError
from agents.training.layout import Across, Layout, Within
from agents.training.sharding import plain_size
from agents.training.spec import Cid, JobSpec, describe, is_none
from agents.training.tokenizing import Tokenizing

MAX_MANIFEST_BYTES = 16 * 1024 * 1024
MAX_SHARD_BYTES = 256 * 1024 * 1024
MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
_CACHE_BYTES = 512 * 1024 * 1024
SEPARATOR = 0  # the byte between documents of a byte-level dataset

Count = Annotated[int, Strict(), Field(ge=1, le=2**62)]
Salt = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Reader(Protocol):
    """The part of a content store that reading data needs."""

    def get(self, cid: str, max_bytes: int) -> bytes: ...


class Store(Reader, Protocol):
    """The part of a content store that packing data needs."""

    def put_bytes(self, data: bytes, /) -> str: ...


class Batches(Protocol):
    """Where a task's batches come from: the job's data, or a node's own."""

    def batch(self, index: int, /) -> Tensor: ...


class Shard(BaseModel):
    """One array of ``tokens`` tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    cid: Cid
    tokens: Count


class Dataset(BaseModel):
    """The dataset manifest. ``tokenizer`` is the CID of a tokenizer.json, None for bytes.

    ``key_salt``: the public salt that keys of single shards are derived with, where each sealed
    shard has one. Without it the field is left out of the canonical bytes, so manifests from before
    it keep theirs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: Literal[1] = 1
    dtype: Literal["uint8", "uint16", "uint32"] = "uint8"
    vocab_size: Annotated[int, Strict(), Field(ge=2, le=1_000_000)] = 256
    tokenizer: Cid | None = None
    # The first wrong shard is enough: a stranger's manifest has room for millions.
    shards: Annotated[tuple[Shard, ...], Field(min_length=1, max_length=100_000, fail_fast=True)]
    key_salt: Salt | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _bounded(self) -> Dataset:
        limit = MAX_SHARD_BYTES // np.dtype(self.dtype).itemsize
        for index, shard in enumerate(self.shards):
            if shard.tokens > limit:
                raise ValueError(f"shard {index} has {shard.tokens} tokens, at most {limit}")
        first: dict[str, int] = {}
        for index, shard in enumerate(self.shards):
            if first.setdefault(shard.cid, index) != index:
                raise ValueError(
                    f"shard {index} is shard {first[shard.cid]} again: the data repeats itself"
                )
        return self

    @property
    def tokens(self) -> int:
        """Tokens of all shards together."""
        return sum(shard.tokens for shard in self.shards)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Dataset:
        """Read a manifest; DataError if it is not canonical JSON or a field is wrong."""
        try:
            return cls.model_validate(loads(raw, MAX_MANIFEST_BYTES))
        except ValidationError as error:
            raise DataError(f"the dataset manifest is wrong: {describe(error)}") from error
        except ValueError as error:
            raise DataError(f"the dataset manifest cannot be read: {error}") from error


def pack(
    documents: Iterable[bytes],
    store: Store,
    shard_bytes: int | Callable[[int], int] = plain_size,
    tokenizer: bytes | None = None,
    separator: int | None = None,
) -> str:
    """Write documents as shards and their manifest; returns the manifest's CID.

    Args:
        documents: UTF-8 texts; a separator token follows each.
        store: where shards, tokenizer and manifest go.
        shard_bytes: length of each shard but the last, or what gives it from the bytes of all;
            then these are in a temporary file that only this process can open meanwhile.
        tokenizer: content of a Hugging Face ``tokenizer.json``; None packs bytes.
        separator: token between documents; 0 for bytes, required for a tokenizer.

    Raises:
        DataError: no documents, two shards of the same content, too many shards, a bad shard size,
            or a tokenizer that cannot be used.
    """
    vocab_size = 256
    encode: Callable[[bytes], NDArray[np.integer[Any]]] = _bytes_to_tokens
    if tokenizer is not None:
        file = Tokenizing(tokenizer)
        vocab_size, encode = file.size, file.encode
    mark = SEPARATOR if separator is None and tokenizer is None else separator
    if mark is None or not 0 <= mark < vocab_size:
        raise DataError(f"separator must be a token from 0 to {vocab_size - 1}, got {separator}")
    dtype = np.dtype("u1" if vocab_size <= 2**8 else "<u2" if vocab_size <= 2**16 else "<u4")
    tail = np.array([mark], dtype).tobytes()
    shards = []
    pieces = (within(encode(d), dtype).tobytes() + tail for d in documents)
    for chunk in _cut(pieces, shard_bytes):
        shards.append(Shard(cid=store.put_bytes(chunk), tokens=len(chunk) // dtype.itemsize))
    if not shards:
        raise DataError("there is no text to pack; name at least one file that is not empty")
    try:
        dataset = Dataset(
            dtype=dtype.name,
            vocab_size=vocab_size,
            tokenizer=None if tokenizer is None else store.put_bytes(tokenizer),
            shards=tuple(shards),
        )
    except ValidationError as error:
        raise DataError(f"these documents make no dataset: {describe(error)}") from error
    return store.put_bytes(dataset.to_bytes())


def _chunks(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def _cut(pieces: Iterable[bytes], size: int | Callable[[int], int]) -> Iterator[bytes]:
    if not callable(size):
        if not 4 <= size <= MAX_SHARD_BYTES or size % 4:
            raise DataError(f"shard_bytes must be a multiple of 4 up to {MAX_SHARD_BYTES}")
        yield from _chunks(pieces, size)
        return
    with TemporaryFile() as file:
        for piece in pieces:
            file.write(piece)
        length = min(size(file.tell()), MAX_SHARD_BYTES)
        file.seek(0)
        while chunk := file.read(length):
            yield chunk


def _bytes_to_tokens(document: bytes) -> NDArray[np.integer[Any]]:
    return np.frombuffer(document, np.uint8)


def tokenizing(dataset: Dataset, tokenizer: bytes) -> Tokenizing:
    """A dataset's tokenizer.json at work.

    Raises:
        DataError: it cannot be used or has another vocabulary.
    """
    found = Tokenizing(tokenizer, f"the dataset's tokenizer {dataset.tokenizer}")
    if found.size > dataset.vocab_size:
        raise DataError(
            f"the dataset's tokenizer {dataset.tokenizer} has {found.size} tokens, its manifest "
            f"says {dataset.vocab_size}"
        )
    return found


def encoder(
    dataset: Dataset, tokenizer: bytes | None
) -> Callable[[bytes], NDArray[np.integer[Any]]]:
    """What turns UTF-8 text into a dataset's tokens. ``tokenizer``: content of its tokenizer.json.

    Raises:
        DataError: as `tokenizing`, also from what is returned.
    """
    return _bytes_to_tokens if tokenizer is None else tokenizing(dataset, tokenizer).encode


def within(tokens: NDArray[np.integer[Any]], dtype: np.dtype[Any]) -> NDArray[np.integer[Any]]:
    """Tokens in another dtype. Raises DataError for one that it does not hold: a tokenizer.json may
    number its tokens as it likes, and a greater number would become another token."""
    most = np.iinfo(dtype).max
    if len(tokens) and int(tokens.max()) > most:
        raise DataError(f"token {int(tokens.max())} is outside the data's tokens, up to {most}")
    return tokens.astype(dtype)


def layout_of(dataset: Dataset, spec: JobSpec) -> Layout:
    """Where the sequences of a job lie in its data, by the manifest alone.

    Raises:
        DataError: the data does not fit the model's vocabulary, or holds too few sequences for one
            batch and one validation sequence.
    """
    if dataset.vocab_size > spec.model.vocab_size:
        raise DataError(
            f"the data has {dataset.vocab_size} tokens but the model's vocab_size is "
            f"{spec.model.vocab_size}"
        )
    length, batch = spec.optimizer.seq_len, spec.optimizer.batch_size
    counts = [shard.tokens for shard in dataset.shards]
    kind = Across if dataset.key_salt is None else Within
    found: Layout = kind(counts, length, spec.val_fraction)
    if found.train < batch or found.val < 1:
        whole = (
            ""
            if kind is Across
            else (
                f" (shards with keys of their own are validated on whole, and there are "
                f"{len(counts)}: smaller ones may help, with --shard-bytes)"
            )
        )
        raise DataError(
            f"{dataset.tokens} tokens give {found.train + found.val} sequences of {length}, too "
            f"few for a batch of {batch} and validation; add data or shrink them{whole}"
        )
    return found


class DataSource:
    """Batches of a job, read from the store on demand; each shard is verified by its CID.

    Attributes:
        dataset: the manifest.
        batch_size: sequences of a batch.
        train_sequences, val_sequences: how many there are.
        batches_per_epoch: batches of one shuffle.
    """

    def __init__(self, store: Reader, spec: JobSpec) -> None:
        """Fetch the manifest of ``spec.data``.

        Raises:
            DataError: the manifest is malformed, or as `layout_of`.
        """
        self._store = store
        self.dataset = Dataset.from_bytes(store.get(spec.data, MAX_MANIFEST_BYTES))
        self._layout = layout_of(self.dataset, spec)
        self._seq, self.batch_size = spec.optimizer.seq_len, spec.optimizer.batch_size
        counts = [shard.tokens for shard in self.dataset.shards]
        self.train_sequences, self.val_sequences = self._layout.train, self._layout.val
        self._order = self._layout.order(self.batch_size, spec.data_seed)
        self.batches_per_epoch = self._order.batches_per_epoch
        self._starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._cache: OrderedDict[int, NDArray[np.integer[Any]]] = OrderedDict()

    def batch(self, index: int) -> Tensor:
        """Training batch ``index`` >= 0 as int64 [batch_size, seq_len + 1]."""
        return self.sequences(self.rows(index))

    def val_batches(self, count: int) -> list[Tensor]:
        """At most ``count`` validation batches, spread evenly over the validation split."""
        rows = self._val_rows(count)
        return [
            self.sequences(part)
            for part in np.split(rows, range(self.batch_size, len(rows), self.batch_size))
        ]

    def shards_of(self, ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Places of the shards that the batches of these half-open ranges lie in."""
        rows = [self.rows_of(first, last).reshape(-1) for first, last in ranges]
        return self._shards(np.concatenate([np.empty(0, np.int64), *rows]))

    def shards_measured(self, count: int) -> frozenset[int]:
        """Places of the shards that ``val_batches(count)`` lie in."""
        return self._shards(self._val_rows(count))

    def encode(self, documents: Iterable[bytes]) -> NDArray[np.integer[Any]]:
        """Other texts as this dataset's tokens, in its dtype, one separator after each.

        Raises:
            DataError: the dataset's tokenizer cannot be used or has another vocabulary.
        """
        cid = self.dataset.tokenizer
        raw = None if cid is None else self._store.get(cid, MAX_TOKENIZER_BYTES)
        encode = encoder(self.dataset, raw)
        dtype = np.dtype(self.dataset.dtype).newbyteorder("<")
        mark = np.array([self.separator], dtype)
        pieces = [part for text in documents for part in (within(encode(text), dtype), mark)]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype)

    @property
    def separator(self) -> int:
        """The token between documents: the last one, since ``pack`` ends every document with it."""
        return int(self._read(self.dataset.tokens - 1, 1)[0])

    def rows(self, index: int) -> NDArray[np.int64]:
        """Numbers of the sequences of training batch ``index`` >= 0, int64 [batch_size]."""
        return self._order.rows(index)

    def rows_of(self, first: int, last: int) -> NDArray[np.int64]:
        """The `rows` of batches ``first`` to ``last`` - 1, int64 [last - first, batch_size]."""
        return self._order.rows_of(first, last)

    def sequences(self, rows: NDArray[np.int64]) -> Tensor:
        """The sequences of these numbers, at least one, as int64 [len(rows), seq_len + 1].

        Numbers from ``train_sequences`` on are of the validation split.
        """
        starts = self._layout.starts(rows)
        sequences = np.stack([self._read(int(start), self._seq + 1) for start in starts])
        if int(sequences.max()) >= self.dataset.vocab_size:
            raise DataError(
                f"token {int(sequences.max())} is outside the dataset's vocabulary of "
                f"{self.dataset.vocab_size}"
            )
        return torch.from_numpy(sequences)

    def _val_rows(self, count: int) -> NDArray[np.int64]:
        wanted = min(self.val_sequences, count * self.batch_size)
        rows: NDArray[np.int64] = np.arange(wanted) * self.val_sequences // wanted
        return self.train_sequences + rows

    def _shards(self, rows: NDArray[np.int64]) -> frozenset[int]:
        starts = self._layout.starts(rows)
        ends = starts + self._seq
        first, last = (np.searchsorted(self._starts, at, "right") - 1 for at in (starts, ends))
        pairs = np.unique(np.stack([first, last], axis=1), axis=0).tolist()
        return frozenset(shard for low, high in pairs for shard in range(low, high + 1))

    def _read(self, start: int, length: int) -> NDArray[np.int64]:
        out = np.empty(length, np.int64)
        done = 0
        shard = int(np.searchsorted(self._starts, start, "right")) - 1
        while done < length:
            offset = start + done - int(self._starts[shard])
            piece = self._shard(shard)[offset : offset + length - done]
            out[done : done + len(piece)] = piece
            done += len(piece)
            shard += 1
        return out

    def _shard(self, index: int) -> NDArray[np.integer[Any]]:
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        shard, dtype = self.dataset.shards[index], np.dtype(self.dataset.dtype).newbyteorder("<")
        size = shard.tokens * dtype.itemsize
        raw = self._store.get(shard.cid, size)
        if len(raw) != size:
            raise DataError(f"shard {shard.cid} has {len(raw)} bytes, the manifest says {size}")
        while self._cache and sum(a.nbytes for a in self._cache.values()) + size > _CACHE_BYTES:
            self._cache.popitem(last=False)
        self._cache[index] = np.frombuffer(raw, dtype)
        return self._cache[index]
