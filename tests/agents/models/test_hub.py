# SPDX-License-Identifier: Apache-2.0
"""A job starts from the weights of a Hugging Face folder, which the real library wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.jobs.publish import publish_job
from agents.models.hub import FolderError, read_folder
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import SpecError
from scripts._job.packing import begun

VOCABULARY = 300
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
          "intermediate_size": 24, "max_position_embeddings": 32}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "llama": {"model_type": "llama", **LAYERS, "tie_word_embeddings": True},
    "llama, untied": {"model_type": "llama", **LAYERS, "tie_word_embeddings": False},
    "qwen3": {"model_type": "qwen3", **LAYERS, "num_key_value_heads": 1, "head_dim": 8},
}
TEXT = [f"line {n} of the text, and {n * n}".encode() for n in range(400)]
FIELDS: dict[str, Any] = {"optimizer": {"batch_size": 2, "seq_len": 16}, "batches_per_round": 8}


def saved(
    folder: Path, kind: str = "llama", dtype: torch.dtype = torch.float32, **how: Any
) -> Path:
    """A folder that the library wrote, of a model whose weights are nobody else's."""
    fields = {**CONFIGS[kind], "vocab_size": VOCABULARY}
    config = AutoConfig.for_model(**fields)
    torch.manual_seed(7)
    AutoModelForCausalLM.from_config(config).to(dtype).save_pretrained(folder, **how)
    return folder


def published(tmp_path: Path, folder: Path, **changes: Any) -> tuple[JobContext, dict[str, Tensor]]:
    """The job of a folder, and its genesis model as a node reads it from the store."""
    found = read_folder(folder)
    store = EmbeddedStore(tmp_path / "store")
    made = publish_job(
        store,
        TEXT,
        {**FIELDS, **changes, "model": found.fields},
        model_config=found.config,
        weights=found.weights,
    )
    job = JobContext(made.spec, store)
    return job, read_model(job, store, digest_of(made.checkpoint_cid), made.model)


def logits(job: JobContext, state: dict[str, Tensor], tokens: Tensor) -> Tensor:
    from torch.func import functional_call

    from agents.training.model import build_model

    net = build_model(job.spec.model, job._config)
    return functional_call(net, state, (tokens,)).logits


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_a_job_starts_from_a_folder_s_weights(
    tmp_path: Path, kind: str, dtype: torch.dtype
) -> None:
    """What the ledger names computes what the library computes with the folder."""
    folder = saved(tmp_path / "model", kind, dtype)
    job, state = published(tmp_path, folder)
    tokens = torch.arange(4 * 16).reshape(4, 16) * 37 % VOCABULARY
    known = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )
    with torch.no_grad():
        theirs, mine = known(tokens).logits, logits(job, state, tokens)
    assert float(theirs.std()) > 0.01
    assert float((theirs - mine).abs().max()) <= 1e-5
    fresh = logits(job, job.genesis(), tokens)
    assert float((theirs - fresh).abs().max()) > 1e-2, "the spec's own beginning is another"


def test_weights_in_several_files_are_one_model(tmp_path: Path) -> None:
    one = read_folder(saved(tmp_path / "one"))
    folder = saved(tmp_path / "many", max_shard_size="4KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    many = read_folder(folder)
    assert one.weights.keys() == many.weights.keys()
    assert all(torch.equal(one.weights[name], many.weights[name]) for name in one.weights)
    assert many.parameters == one.parameters == sum(t.numel() for t in one.weights.values())


def test_a_trunk_that_was_saved_without_its_name_is_found(tmp_path: Path) -> None:
    """As the oldest models of the hub are."""
    folder = saved(tmp_path / "model", "gpt2")
    before = read_folder(folder).weights
    _rewrite(folder, lambda held: {n.removeprefix("transformer."): t for n, t in held.items()})
    after = read_folder(folder).weights
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_copy_of_a_tied_weight_is_taken_once(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    embedding = "model.embed_tokens.weight"
    before = read_folder(folder).weights
    assert "lm_head.weight" not in before
    _rewrite(folder, lambda held: {**held, "lm_head.weight": held[embedding].clone()})
    assert read_folder(folder).weights.keys() == before.keys()
    _rewrite(folder, lambda held: {n: t for n, t in held.items() if n != embedding})
    assert torch.equal(read_folder(folder).weights[embedding], before[embedding])


def _rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


NORM = "model.norm.weight"
WRONG: dict[str, tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]] = {
    "one is missing": (lambda h: {n: t for n, t in h.items() if n != NORM}, "lack 'model.norm"),
    "one too many": (lambda h: {**h, "extra.weight": torch.ones(2)}, "hold 'extra.weight'"),
    "another shape": (lambda h: {**h, NORM: torch.ones(17)}, r"expected float32 \[16\]"),
    "not a number": (lambda h: {**h, NORM: torch.full((16,), float("nan"))}, "NaN or infinity"),
    "too large for fp32": (
        lambda h: {**h, NORM: torch.full((16,), 1e300, dtype=torch.float64)}, "NaN or infinity",
    ),
    "integers": (lambda h: {**h, NORM: torch.ones(16, dtype=torch.int64)}, "trains floats"),
    "tied, and different": (
        lambda h: {**h, "lm_head.weight": torch.ones(VOCABULARY, 16)}, "differs from it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_weights_that_are_not_the_config_s_are_refused(tmp_path: Path, wrong: str) -> None:
    change, sentence = WRONG[wrong]
    folder = saved(tmp_path / "model")
    _rewrite(folder, change)
    with pytest.raises(FolderError, match=sentence):
        read_folder(folder)


def _config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def _escape(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"weight_map": {NORM: "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "There is no"),
    "a config that is none": (lambda f: (f / "config.json").write_text("[" * 10_000), "not JSON"),
    "another's code": (lambda f: _config(f, auto_map={"AutoModel": "x--y"}), "auto_map"),
    "numbers in codes": (lambda f: _config(f, quantization_config={}), "quantization_config"),
    "an unknown kind": (lambda f: _config(f, model_type="none such"), "no model type"),
    "a vocabulary of words": (lambda f: _config(f, vocab_size="many"), "no vocab_size"),
    "half a file": (_cut, "cannot be read"),
    "files elsewhere": (_escape, "not in its folder"),
    "a pickle alone": (_pickled, "are not opened"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_folder_that_is_broken_is_refused_in_a_sentence(tmp_path: Path, broken: str) -> None:
    change, sentence = BROKEN[broken]
    folder = saved(tmp_path / "model")
    change(folder)
    with pytest.raises(FolderError, match=sentence) as found:
        read_folder(folder)
    assert str(found.value).endswith(".")


def test_weights_of_another_model_are_not_published(tmp_path: Path) -> None:
    one, other = read_folder(saved(tmp_path / "one")), read_folder(saved(tmp_path / "o", "gpt2"))
    store = EmbeddedStore(tmp_path / "store")
    given: dict[str, Any] = {"model_config": one.config, "weights": other.weights}
    with pytest.raises(SpecError, match="the weights are not this model's"):
        publish_job(store, TEXT, {**FIELDS, "model": one.fields}, **given)


def test_the_command_takes_a_folder(tmp_path: Path) -> None:
    """What the spec's file says of the model, and a tokenizer that is named, come first."""
    folder = saved(tmp_path / "model")
    (folder / "tokenizer.json").write_text("{}")
    fields, read = begun(folder, {"rounds": 3, "model": {"max_seq_len": 24}}, {})
    wanted = {"vocab_size": VOCABULARY, "n_layers": 2, "max_seq_len": 24}
    assert fields == {"rounds": 3, "model": wanted}
    assert set(read) == {"model_config", "weights", "tokenizer", "separator"}
    assert read["tokenizer"] == b"{}" and read["separator"] == 2, "what ends a Llama's text"
    mine = begun(folder, {}, {"tokenizer": b"mine"})[1]
    assert mine["tokenizer"] == b"mine" and "separator" not in mine
    for ends, wanted in (([7, 8], 7), (VOCABULARY, None), (None, None)):
        _config(folder, eos_token_id=ends)
        assert begun(folder, {}, {})[1]["separator"] == wanted
    assert begun(None, {"rounds": 3}, {}) == ({"rounds": 3}, {})
    with pytest.raises(click.UsageError, match="leave out --model-config"):
        begun(folder, {}, {"model_config": b"{}"})
    (folder / "config.json").unlink()
    with pytest.raises(click.ClickException, match="There is no"):
        begun(folder, {}, {})
