# SPDX-License-Identifier: Apache-2.0
"""A stranger's model config builds a model or a clear error, and never runs anything it names."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state, template
from agents.training.spec import Hyperparameters, JobSpec, ModelSpec
from agents.training.state import load_state, model_hash, save_state
from agents.training.transformers import (
    VERSION,
    ModelConfigError,
    build_causal_lm,
    read_config,
)

CID = "b" + "a" * 58
SPEC = ModelSpec(kind="transformers", config_cid=CID, vocab_size=50, n_layers=2)
GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2,
        "n_positions": 32}  # fmt: skip
LLAMA = {"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 2, "torch_dtype": "bfloat16",
         "max_position_embeddings": 32, "tie_word_embeddings": True}  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "needs the bytes behind config_cid"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nests deeper"),
        (b"[]", "with a model_type"),
        (b'{"model_type": 3}', "with a model_type"),
        (b" " * 300_000, "at most 262144"),
        (json.dumps(GPT2 | {"auto_map": {"AutoConfig": "x--y"}}).encode(), "config.auto_map"),
        (json.dumps(GPT2 | {"_attn_implementation": "a/b"}).encode(), "_attn_implementation is"),
        (json.dumps(GPT2 | {"attn_implementation": "a/b"}).encode(), "attn_implementation is"),
        (json.dumps(GPT2 | {"sub": {"quantization_config": {}}}).encode(), "config.sub.quant"),
        (json.dumps(GPT2 | {"n_layer": 10**9}).encode(), "n_layer must be from 0 to 1024"),
        (json.dumps(GPT2 | {"num_labels": 10**9}).encode(), "num_labels must be at most 1024"),
    ],
)
def test_bad_configs_are_refused(raw: bytes | None, message: str) -> None:
    with pytest.raises(ModelConfigError, match=message):
        read_config(raw)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_config_errors(raw: bytes) -> None:
    with pytest.raises(ModelConfigError):
        read_config(raw)


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class, other bits: Bloom and Cohere differ between 4.57.6 and 5.17.0."""
    import transformers

    for other in ("4.57.6", "5.18.0"):
        monkeypatch.setattr(transformers, "__version__", other)
        with pytest.raises(ModelConfigError, match=f"defined on transformers {VERSION}, .*{other}"):
            build_causal_lm(SPEC, json.dumps(GPT2).encode())


def test_the_extra_is_the_release_that_models_are_defined_on() -> None:
    with (Path(__file__).parents[3] / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert f"transformers=={VERSION}" in project["optional-dependencies"]["hf"]


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelConfigError, match='needs the extra "hf"'):
        build_causal_lm(SPEC, json.dumps(GPT2).encode())


@pytest.mark.parametrize("fields", [GPT2, LLAMA])
def test_a_config_trains_and_round_trips(fields: dict[str, object]) -> None:
    config = json.dumps(fields).encode()
    state = init_state(SPEC, config)
    assert model_hash(init_state(SPEC, config)) == model_hash(state)
    net = FlatModel(SPEC, config)
    hyper = Hyperparameters.of(JobSpec.from_dict({"data": CID, "optimizer": {"lr": 0.01}}), 0)
    batches = [torch.arange(4 * 17).reshape(4, 17) * 7 % 50 for _ in range(8)]
    result = train_local(net, state, batches, hyper, bytes(32))
    again = train_local(FlatModel(SPEC, config), state, batches, hyper, bytes(32))
    assert again.hashes == result.hashes
    assert validation_loss(net, result.state, batches) < validation_loss(net, state, batches) - 0.5
    raw = save_state(result.state)
    assert model_hash(load_state(raw, template(SPEC, config))) == result.hashes[-2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (GPT2, ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")),
        (LLAMA, ("mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "self_attn.k_proj",
                 "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj")),
        (LLAMA | {"tie_word_embeddings": False}, ("mlp.down_proj", "mlp.gate_proj", "mlp.up_proj",
         "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj")),
    ],
    ids=["gpt2", "llama", "llama with a head"],
)  # fmt: skip
def test_hidden_matrices_are_those_of_the_layers(
    fields: dict[str, object], expected: tuple[str, ...]
) -> None:
    """Neither embeddings, of tokens or of positions, nor the head."""
    hidden = FlatModel(SPEC, json.dumps(fields).encode()).hidden
    assert [name.partition(".0.")[2] for name in hidden if ".0." in name] == [
        f"{part}.weight" for part in expected
    ]
    assert len(hidden) == 2 * len(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no_such_model"}, "has no model type 'no_such_model'"),
        ({"model_type": "vit"}, "cannot be built"),
        ({"n_head": 3}, "cannot be built"),
        ({"n_embd": "wide"}, "cannot be built"),
        ({"vocab_size": 51}, "vocab_size 51, the spec 50"),
    ],
)
def test_configs_that_make_no_model_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelConfigError, match=message):
        FlatModel(SPEC, json.dumps(GPT2 | change).encode())
