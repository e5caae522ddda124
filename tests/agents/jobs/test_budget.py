# SPDX-License-Identifier: Apache-2.0
"""A job that asks for more than a machine has is refused with a sentence; nothing is built."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from agents.jobs.budget import (
    MAX_ROUND_ROWS,
    check_data,
    check_spec,
    memory_here,
    needs,
    stage_needs,
)
from agents.jobs.job import JobContext, cut
from agents.storage.cid import cid_of_bytes
from agents.training.data import Dataset, Shard
from agents.training.flat import FlatModel
from agents.training.model import init_state, next_token_loss, template
from agents.training.spec import JobSpec, PipelineSpec, SpecError

GIB = 2**30
CID = cid_of_bytes(b"data")


def spec_of(**changes: Any) -> JobSpec:
    return JobSpec.from_dict({"data": CID, **changes})


def dataset_of(shards: int, tokens: int, dtype: str = "uint8") -> Dataset:
    named = (Shard(cid=cid_of_bytes(b"%d" % n), tokens=tokens) for n in range(shards))
    return Dataset(dtype=dtype, shards=tuple(named))


@pytest.fixture
def frugal() -> Iterator[None]:
    """Fails if the test takes more than 64 MiB of Python's and numpy's memory, or 10 s of CPU."""
    tracemalloc.start()
    began = time.process_time()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    assert time.process_time() - began < 10


def test_weights_and_a_batch_by_hand() -> None:
    shapes = {"a": (10, 20), "b": (20,)}
    spec = spec_of(optimizer={"batch_size": 2, "seq_len": 3})
    asked = needs(spec, shapes)
    assert asked.weights == 4 * 5 * 220
    assert asked.activations == 4 * 2 * 3 * (3 * 30 + 4 * 256)
    assert asked.batches == 8 * 2 * 4 * (96 + 2)
    assert asked.memory == asked.weights + asked.activations + asked.batches
    assert needs(spec, shapes, per_example=True).weights == 4 * (5 + 64) * 220
    muon = spec_of(optimizer={"inner": "muon"})
    assert needs(muon, shapes).weights == 4 * (5 * 220 + 5 * 200)
    large = {"a": (2**12, 2**13), "b": (2**12, 2**12)}  # the larger one is a batch by itself
    assert needs(muon, large).weights == 4 * (5 * 3 * 2**24 + 5 * 2 * 2**24)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"optimizer": {"batch_size": 65_536, "seq_len": 64}},
            r"training takes about 132 GiB .* setting `max_memory_gib`",
        ),
        ({"model": {"d_model": 2048, "d_ff": 8192, "n_layers": 64, "n_heads": 16}}, "model and"),
        (
            {"batches_per_round": 10**6, "optimizer": {"batch_size": 32, "seq_len": 2}},
            "32000000 sequences",
        ),
    ],
    ids=["activations", "model", "round"],
)
def test_a_spec_beyond_the_machine_is_refused(changes: dict[str, Any], words: str) -> None:
    spec = spec_of(**changes)
    with pytest.raises(SpecError, match=words):
        check_spec(spec, needs(spec, template(spec.model)), 8 * GIB)


def test_the_limit_is_the_last_byte() -> None:
    spec = spec_of()
    asked = needs(spec, template(spec.model))
    check_spec(spec, asked, asked.memory)
    with pytest.raises(SpecError, match="training takes about"):
        check_spec(spec, asked, asked.memory - 1)
    rows = spec_of(
        batches_per_round=MAX_ROUND_ROWS // 32, optimizer={"batch_size": 32, "seq_len": 2}
    )
    check_spec(rows, asked, 8 * GIB)


def test_a_batch_may_not_ask_for_more_shards_than_are_fetched() -> None:
    small = spec_of(optimizer={"batch_size": 8})
    check_data(small, dataset_of(70_000, 2**18))
    large = spec_of(optimizer={"batch_size": 60_000})
    with pytest.raises(SpecError, match=r"60000 sequences may lie in 70000 shards with 17.1 GiB"):
        check_data(large, dataset_of(70_000, 2**18))


class OneFile:
    """A store of one file."""

    def __init__(self, raw: bytes) -> None:
        self.cid, self._raw = cid_of_bytes(raw), raw

    def get(self, cid: str, max_bytes: int) -> bytes:
        assert cid == self.cid and len(self._raw) <= max_bytes
        return self._raw


@pytest.mark.usefixtures("frugal")
@pytest.mark.parametrize("shards", [1, 100])
def test_a_manifest_of_a_few_bytes_that_claims_much_is_read_at_once(shards: int) -> None:
    """One that claimed 2**28 tokens took an agent 438 s and 4.6 GB, a hundred shards 200 GiB."""
    store: Any = OneFile(dataset_of(shards, 2**28).to_bytes())
    job = JobContext(spec_of(data=store.cid), store, memory=GIB)
    assert job.data.rows(10**6).shape == (8,)


@pytest.mark.parametrize(
    ("optimizer", "shards", "words"),
    [
        ({"batch_size": 65_536, "seq_len": 2}, 70_000, "one batch of 65536 sequences"),
        ({}, 0, "data: the dataset manifest is wrong: shards"),
    ],
    ids=["fetches 17 GiB", "no shard"],
)
def test_a_job_with_a_manifest_that_asks_too_much_is_refused(
    optimizer: dict[str, Any], shards: int, words: str
) -> None:
    raw = dataset_of(shards, 2**18).to_bytes() if shards else b'{"shards":[],"version":1}'
    store: Any = OneFile(raw)
    with pytest.raises(SpecError, match=words):
        JobContext(spec_of(data=store.cid, optimizer=optimizer), store, memory=64 * GIB)


@pytest.mark.parametrize("layers", [1, 4])
def test_what_the_backward_pass_keeps_is_within_the_count(layers: int) -> None:
    """Counted in a real step: what autograd saves, and what it does not know of is small."""
    spec = spec_of(model={"n_layers": layers}, optimizer={"batch_size": 4, "seq_len": 32})
    net, kept = FlatModel(spec.model), {}
    net.load(init_state(spec.model))

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    weights = net.values.untyped_storage().data_ptr()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = next_token_loss(net.model, torch.zeros(4, 33, dtype=torch.int64))
    loss.backward()
    kept.pop(weights, None)
    counted = needs(spec, template(spec.model)).activations
    assert sum(kept.values()) <= counted <= 8 * sum(kept.values())


def test_a_stage_is_counted_by_hand() -> None:
    """Two samples wait; the last stage has logits, every stage codes of four channels."""
    model = {"n_layers": 2, "tie_embeddings": False}
    block = {"layers": [1, 1], "boundary_options": {"width": 4}, "local_batch": 2}
    spec = spec_of(model=model, mode="pipeline", pipeline=block)
    slices, shapes = cut(spec), {"a": (10, 20), "b": (20,)}
    assert slices is not None
    first, last = (stage_needs(spec, slices, index, shapes) for index in (0, 1))
    assert first.weights == last.weights == 4 * 5 * 220
    assert first.activations == 2 * 4 * 8 * 64 * (3 * 30 + 6 * 4)
    assert last.activations == 2 * 4 * 8 * 64 * (3 * 30 + 6 * 4 + 4 * 256)
    fixed = spec.model_copy(update={"pipeline": PipelineSpec(layers=(1, 1), boundary="subspace")})
    table = cut(fixed)
    assert table is not None
    assert stage_needs(fixed, table, 0, shapes).weights == 4 * (5 * 220 + 256 * 64)
    # A verifier has a published state as a file and as tensors, three numbers of each weight.
    parts = spec_of(model=model, mode="pipeline", pipeline={**block, "segment": 2})
    assert stage_needs(parts, slices, 0, shapes).weights == 4 * (5 + 6) * 220


def test_the_machine_has_memory() -> None:
    assert GIB // 4 < memory_here() < 2**50
