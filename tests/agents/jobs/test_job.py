# SPDX-License-Identifier: Apache-2.0
"""A job whose model is split: its shapes, its genesis and its network are those of all stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest
import torch

from agents.jobs import job as module
from agents.jobs.job import JobContext, JobContexts
from agents.jobs.model_files import hash_of, read_model
from agents.jobs.publish import publish_job
from agents.mechanisms import boundary
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.data import Dataset, Shard
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.model import init_state
from agents.training.slices import init_stage
from agents.training.spec import JobSpec, SpecError
from agents.training.state import State, model_hash
from tests.stage.memory.honest_round import HonestRound
from tests.stage.memory.tiny_specs import tiny_model


def fields(tiny: HonestRound, name: str = "none", layers: tuple[int, ...] = (1, 2, 1)) -> Any:
    model = {**tiny_model(16, 24, 16, layers=4), "tie_embeddings": False}
    return {
        **tiny.job.spec.model_dump(mode="json"),
        "mode": "pipeline",
        "score": "backward_passes",
        "model": model,
        "pipeline": {"layers": layers, "boundary": name},
    }


def job_of(tiny: HonestRound, name: str = "none", memory: int | None = None) -> JobContext:
    return JobContext(JobSpec.from_dict(fields(tiny, name)), tiny.store, memory=memory)


def moved(state: State) -> State:
    """Another state, so that no loss is that of an untrained model."""
    generator = torch.Generator().manual_seed(1)
    return {name: t + torch.randn(t.shape, generator=generator) / 8 for name, t in state.items()}


def test_the_validation_loss_of_the_stages_is_that_of_the_unsplit_decoder(
    tiny: HonestRound,
) -> None:
    job = job_of(tiny)
    batches, state = job.data.val_batches(2), moved(job.genesis())
    whole = validation_loss(FlatModel(job.spec.model), state, batches)
    assert validation_loss(job.net("cpu"), state, batches) == whole


@pytest.mark.parametrize("name", boundary.names())
def test_shapes_and_genesis_are_those_of_all_stages_together(tiny: HonestRound, name: str) -> None:
    job, genesis = job_of(tiny, name), {}
    assert job.slices is not None
    for index in range(3):
        part = init_stage(job.slices, index)
        assert job.stage_shapes(index) == {name: tuple(t.shape) for name, t in part.items()}
        assert not genesis.keys() & part.keys()
        genesis |= part
    assert job.shapes == {name: tuple(t.shape) for name, t in sorted(genesis.items())}
    assert model_hash(job.genesis()) == model_hash(genesis)
    state = moved(genesis)
    net = job.net("cpu")
    net.load(state)
    assert model_hash(net.split(net.values)) == model_hash(state)


def test_a_split_job_is_published_with_a_genesis_of_its_stages(
    tiny: HonestRound, tmp_path: Path
) -> None:
    store = EmbeddedStore(tmp_path)
    given = {key: value for key, value in fields(tiny, "residual").items() if key != "data"}
    published = publish_job(store, [b"a line of the corpus\n" * 400], given)
    job = JobContext(published.spec, store)
    found = read_model(job, store, digest_of(published.checkpoint_cid), published.model)
    assert hash_of(job, found) == published.model == hash_of(job, job.genesis())


def test_a_whole_model_starts_as_before_and_has_no_stages(tiny: HonestRound) -> None:
    assert tiny.job.slices is None
    assert model_hash(tiny.job.genesis()) == model_hash(init_state(tiny.job.spec.model))
    with pytest.raises(ValueError, match="0 stages; there is no 0"):
        tiny.job.stage_shapes(0)


def test_the_hidden_matrices_of_the_stages_are_the_decoders(tiny: HonestRound) -> None:
    job = job_of(tiny)
    assert job.net("cpu").hidden == FlatModel(job.spec.model).hidden


def test_a_machine_that_holds_a_stage_only_may_join_and_may_not_evaluate(
    tiny: HonestRound,
) -> None:
    with pytest.raises(SpecError, match=r"training stage 2 takes about .* `max_memory_gib`"):
        job_of(tiny, memory=2**16)
    big = fields(tiny)
    big["model"] = {**big["model"], "d_model": 512, "d_ff": 2048, "n_layers": 16}
    big["pipeline"] = {"layers": [1] * 16, "local_batch": 1}
    job = JobContext(JobSpec.from_dict(big), tiny.store, memory=2**27)
    with pytest.raises(SpecError, match="evaluating all stages together takes about"):
        job.net("cpu")


@pytest.mark.parametrize(("most", "shards"), [(3, 10**6), (100, 3)])
def test_contexts_of_strangers_jobs_are_forgotten(
    tiny: HonestRound, monkeypatch: pytest.MonkeyPatch, most: int, shards: int
) -> None:
    """Those that were not asked for lately; a job that is computed in stays. Data of one shard
    each, so three jobs fit by either bound."""
    monkeypatch.setattr(module, "_MOST", most)
    monkeypatch.setattr(module, "_MOST_SHARDS", shards * tiny.job.shards)
    digest = digest_of(tiny.store.put_bytes(tiny.job.spec.to_bytes()))
    network: Any = Stub(job=lambda _: Stub(terms=Stub(spec=digest)))
    contexts = JobContexts(network, tiny.store)
    first = contexts.context(1)
    first.net("cpu")
    second = contexts.context(2)
    for other in range(3, 20):
        contexts.context(other)
        assert contexts.context(2) is second
        assert len(contexts._contexts) <= 3
    assert contexts.context(1) is first
    assert contexts.context(19) is contexts.context(19)


@pytest.mark.parametrize(
    ("tokens", "more", "why"),
    [
        (10, {}, "data: 10 tokens give 0 sequences"),
        (100_000, {"dtype": "uint32", "vocab_size": 70_000}, "data: the data has 70000 tokens"),
    ],
)
def test_data_that_no_batch_can_be_made_of_is_refused_by_its_manifest(
    tiny: HonestRound, tmp_path: Path, tokens: int, more: Mapping[str, Any], why: str
) -> None:
    """Before anybody joins, and where the text is encrypted as well."""
    store = EmbeddedStore(tmp_path)
    shards = (Shard(cid=cid_of_bytes(b"published nowhere"), tokens=tokens),)
    data = store.put_bytes(Dataset(shards=shards, **more).to_bytes())
    spec = tiny.job.spec.model_copy(update={"data": data})
    for access in ("public", "encrypted"):
        with pytest.raises(SpecError, match=why):
            JobContext(spec.model_copy(update={"access": access}), store)


@pytest.mark.parametrize("config", [b"no config", b"{}", b'{"model_type": "gpt2", "n_embd": -1}'])
def test_a_model_that_can_t_be_built_is_a_wrong_spec(
    tiny: HonestRound, tmp_path: Path, config: bytes
) -> None:
    store = EmbeddedStore(tmp_path)
    model = {"kind": "transformers", "config_cid": store.put_bytes(config)}
    spec = tiny.job.spec
    spec = spec.model_copy(update={"model": spec.model.model_copy(update=model)})
    with pytest.raises(SpecError, match="model: ModelConfigError"):
        JobContext(spec, store)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "in stages"])
def test_a_model_of_wide_tables_is_a_wrong_spec(tiny: HonestRound, cut: bool) -> None:
    """No count of a job's memory has them: sequences of 131,072 by 1,024 numbers are 512 MiB."""
    given = fields(tiny) if cut else tiny.job.spec.model_dump(mode="json")
    wide = {"d_model": 1024, "n_heads": 1, "n_kv_heads": 1, "max_seq_len": 131_072}
    spec = JobSpec.from_dict({**given, "model": {**given["model"], **wide}})
    with pytest.raises(SpecError, match="bytes beside its parameters"):
        JobContext(spec, tiny.store, memory=1 << 40)
