# SPDX-License-Identifier: Apache-2.0
"""A model as a folder that Hugging Face's transformers loads.

Rule: nothing is computed. The built-in decoder is a Llama by another name: its tensors are renamed
and the two that hold several are cut, so the weights keep their bits. A model that a job took from
a config.json keeps its names.

A model that is split is a Llama if what crosses between its stages is the whole residual stream in
fp32. Other boundaries change the network, and transformers has none like it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from agents.models.card import model_card
from agents.models.folder import PROVENANCE, WEIGHTS, ModelFolder
from agents.storage.durable import write_atomic
from agents.training.spec import JobSpec, ModelSpec
from agents.training.state import State

LLAMA = "LlamaForCausalLM"
_NORM_EPS = 1e-5  # of agents.training.model.RMSNorm


class ExportError(ValueError):
    """A model that can't be exported, or a folder that is taken; says why."""


def export(folder: ModelFolder, out: Path) -> str:
    """Write the model to `out`, a folder that is new or empty; returns its architecture.

    Raises ExportError, and what `ModelFolder` raises.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} exists already; name a new folder with --out.")
    spec = folder.job.spec
    _check(spec)
    state = folder.state()
    config = _config(folder)
    weights = llama_state(spec.model, state) if spec.model.kind == "llama" else state
    architecture = str(config["architectures"][0])
    separator = folder.provenance.separator
    files: dict[str, bytes] = {
        "config.json": _json(config),
        "generation_config.json": _json({"eos_token_id": separator, "do_sample": False}),
        "tokenizer.json": folder.tokenizer or _json(byte_tokenizer()),
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": spec.model.max_seq_len,
                "clean_up_tokenization_spaces": False,
            }
        ),
        PROVENANCE: folder.provenance.to_bytes(),
        "README.md": model_card(folder, architecture).encode(),
        # transformers asks for the mark of who wrote the file
        WEIGHTS: save({name: weights[name] for name in sorted(weights)}, {"format": "pt"}),
    }
    for name, raw in files.items():
        write_atomic(out / name, raw, mode=0o644)
    return architecture


def llama_config(spec: ModelSpec) -> dict[str, Any]:
    """The fields of a LlamaConfig that is the built-in decoder of a spec."""
    return {
        "architectures": [LLAMA],
        "model_type": "llama",
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.d_model,
        "intermediate_size": spec.d_ff,
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.n_kv_heads,
        "head_dim": spec.d_model // spec.n_heads,
        "max_position_embeddings": spec.max_seq_len,
        "rms_norm_eps": _NORM_EPS,
        "rope_theta": spec.rope_theta,  # where transformers 4 looks
        "rope_parameters": {"rope_type": "default", "rope_theta": spec.rope_theta},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": spec.tie_embeddings,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": "float32",
    }


def llama_state(spec: ModelSpec, state: Mapping[str, Tensor]) -> State:
    """The tensors of the built-in decoder by the names that transformers gives them."""
    found: State = {
        "model.embed_tokens.weight": state["embedding.weight"],
        "model.norm.weight": state["norm.weight"],
    }
    if not spec.tie_embeddings:
        found["lm_head.weight"] = state["head.weight"]
    for index in range(spec.n_layers):
        own, theirs = f"blocks.{index}.", f"model.layers.{index}."
        key, value = state[own + "key_value.weight"].chunk(2)
        gate, up = state[own + "gate_up.weight"].chunk(2)
        for name, tensor in (
            ("input_layernorm", state[own + "norm_attention.weight"]),
            ("self_attn.q_proj", state[own + "query.weight"]),
            ("self_attn.k_proj", key),
            ("self_attn.v_proj", value),
            ("self_attn.o_proj", state[own + "output.weight"]),
            ("post_attention_layernorm", state[own + "norm_mlp.weight"]),
            ("mlp.gate_proj", gate),
            ("mlp.up_proj", up),
            ("mlp.down_proj", state[own + "down.weight"]),
        ):
            found[f"{theirs}{name}.weight"] = tensor.contiguous()
    return found


def byte_tokenizer() -> dict[str, Any]:
    """A tokenizer.json whose tokens are the bytes of UTF-8 text, each under its own number."""
    sides = {"add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", **sides},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", **sides},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in enumerate(_letters())},
            "merges": [],
        },
    }


def _letters() -> list[str]:
    """The letter that a ByteLevel tokenizer writes for each byte: visible ones for themselves."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(spare)) for byte in range(256)]


def _check(spec: JobSpec) -> None:
    """Raise ExportError for a network that transformers does not have."""
    pipeline = spec.pipeline
    if pipeline is None or len(pipeline.layers) == 1:
        return
    if pipeline.boundary == "none" and pipeline.boundary_options.get("code", "fp32") == "fp32":
        return
    raise ExportError(
        f"This model is cut into {len(pipeline.layers)} stages, and its boundary "
        f"{pipeline.boundary} is part of the network: transformers has none like it. `ape run "
        "model generate` and `ape run model evaluate` run it."
    )


def _config(folder: ModelFolder) -> dict[str, Any]:
    spec = folder.job.spec.model
    raw = folder.config
    if raw is None:
        config = llama_config(spec)
        config["eos_token_id"] = folder.provenance.separator
        return config
    from agents.training.transformers import build_causal_lm, read_config

    name = type(build_causal_lm(spec, raw)).__name__
    return {**read_config(raw), "architectures": [name], "dtype": "float32"}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode()


__all__ = ["ExportError", "byte_tokenizer", "export", "llama_config", "llama_state"]
