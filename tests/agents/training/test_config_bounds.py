# SPDX-License-Identifier: Apache-2.0
"""A stranger's model config has nobody build more than a model of bounded size."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from torch import nn

from agents.training.config_bounds import MOST, at_most, excess
from agents.training.model import build_model, template, template_of_job
from agents.training.on_meta import shapes_only
from agents.training.spec import ModelSpec
from agents.training.transformers import ModelConfigError, read_config

SPEC = ModelSpec(kind="transformers", config_cid="b" + "a" * 58, vocab_size=50)
LLAMA = {"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 2}  # fmt: skip
NEO = {"model_type": "gpt_neo", "vocab_size": 50, "hidden_size": 16, "num_heads": 2,
       "num_layers": 2, "max_position_embeddings": 32}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (LLAMA | {"num_labels": MOST + 1}, r"config\.num_labels must be at most 1024"),
        (LLAMA | {"text_config": {"num_labels": 10**8}}, r"text_config\.num_labels must be"),
        (LLAMA | {"later": [[10**8]]}, r"config\.later must be at most 1024"),
        (LLAMA | {"num_experts": 1 << 17}, r"config\.num_experts must be at most 65536"),
        (NEO | {"attention_types": [[["global"], 10**12]]}, "at most 1024"),
        (NEO | {"attention_types": [[["global"] * 1025, 1]]}, "make at most 1024 layers"),
        (NEO | {"attention_types": [[["global"], 600], [["local"], 600]]}, "at most 1024 layers"),
    ],
    ids=["labels", "nested", "in a list", "experts", "times", "kinds", "in all"],
)
def test_numbers_of_things_are_bounded(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelConfigError, match=message):
        read_config(json.dumps(change).encode())


@pytest.mark.parametrize(
    "key",
    ["vocab_size", "max_position_embeddings", "eos_token_id", "d_model", "n_positions", "n_ctx",
     "rope_theta", "sliding_window", "ffn_dim", "q_lora_rank", "begin_suppress_tokens"],
)  # fmt: skip
def test_widths_lengths_and_tokens_are_not(key: str) -> None:
    assert not excess(key, 200_000)


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        (SPEC, NEO | {"attention_types": [[["global"], 2]], "max_position_embeddings": 20_000}),
        (ModelSpec(d_model=8192, n_heads=1, n_kv_heads=1, d_ff=4, max_seq_len=32_768), None),
    ],
    ids=["masks", "positions"],
)
def test_tables_beside_the_parameters_are_bounded(
    spec: ModelSpec, config: dict[str, Any] | None
) -> None:
    """A model of 6 MB took 3.8 GB to build, by masks of 20,000 times 20,000 in each layer."""
    raw = None if config is None else json.dumps(config).encode()
    with pytest.raises(ValueError, match="bytes beside its parameters"):
        template_of_job(spec, raw)
    template(spec, raw)  # a task counts them itself, and its result must not depend on this bound


def test_a_usual_config_is_built() -> None:
    for config in (LLAMA, NEO | {"attention_types": [[["global", "local"], 1]]}):
        build_model(SPEC, json.dumps(config).encode(), device="meta")


def test_a_network_has_so_many_parts() -> None:
    with shapes_only(), at_most(4):
        nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        with pytest.raises(ValueError, match="more than 4 modules and parameters"):
            nn.Linear(2, 2, bias=False)
    with shapes_only(), pytest.raises(ValueError, match="more than 9 modules"), at_most(9):
        [nn.Linear(2, 2) for _ in range(10**9)]
    nn.Linear(2, 2)


def test_the_parts_of_other_threads_do_not_count() -> None:
    with shapes_only(), at_most(2):
        other = threading.Thread(target=lambda: [nn.Linear(2, 2) for _ in range(3)])
        other.start()
        other.join()
        nn.Linear(2, 2)
