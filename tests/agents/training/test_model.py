# SPDX-License-Identifier: Apache-2.0
"""The decoder computes what its formula says and starts from the same bits everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.model import Rotary, build_model, init_state, next_token_loss, template
from agents.training.rng import bell, derive_key
from agents.training.spec import ModelSpec
from agents.training.state import model_hash

SMALL = ModelSpec(
    vocab_size=11, d_model=12, n_layers=2, n_heads=6, n_kv_heads=2, d_ff=7, max_seq_len=9
)


def reference(state: dict[str, np.ndarray], spec: ModelSpec, tokens: np.ndarray) -> np.ndarray:
    """One sequence, loops and float64; int64 [seq] -> logits [seq, vocab]."""
    seq, dim = len(tokens), spec.d_model // spec.n_heads

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * state[name]

    def rotate(v: np.ndarray, place: int) -> np.ndarray:
        half = dim // 2
        out = np.empty(dim)
        for i in range(half):
            angle = place * spec.rope_theta ** (-2 * i / dim)
            c, s = math.cos(angle), math.sin(angle)
            out[i] = v[i] * c - v[i + half] * s
            out[i + half] = v[i + half] * c + v[i] * s
        return out

    x = state["embedding.weight"][tokens]
    for layer in range(spec.n_layers):
        p = f"blocks.{layer}."
        h = norm(x, p + "norm_attention.weight")
        query = (h @ state[p + "query.weight"].T).reshape(seq, spec.n_heads, dim)
        kv = (h @ state[p + "key_value.weight"].T).reshape(seq, 2, spec.n_kv_heads, dim)
        mixed = np.zeros((seq, spec.n_heads, dim))
        for head in range(spec.n_heads):
            shared = head // (spec.n_heads // spec.n_kv_heads)
            for i in range(seq):
                q = rotate(query[i, head], i)
                scores = [q @ rotate(kv[j, 0, shared], j) / math.sqrt(dim) for j in range(i + 1)]
                weights = np.exp(scores) / np.exp(scores).sum()
                mixed[i, head] = sum(w * kv[j, 1, shared] for j, w in enumerate(weights))
        x = x + mixed.reshape(seq, -1) @ state[p + "output.weight"].T
        h = norm(x, p + "norm_mlp.weight") @ state[p + "gate_up.weight"].T
        gate, up = h[:, : spec.d_ff], h[:, spec.d_ff :]
        x = x + (gate / (1 + np.exp(-gate)) * up) @ state[p + "down.weight"].T
    head_weight = state.get("head.weight", state["embedding.weight"])
    return norm(x, "norm.weight") @ head_weight.T


@pytest.mark.parametrize("tied", [True, False])
def test_logits_match_the_reference(tied: bool) -> None:
    spec = SMALL.model_copy(update={"tie_embeddings": tied})
    state = {k: v * 20 if v.dim() == 2 else v for k, v in init_state(spec).items()}
    net = FlatModel(spec)
    net.load(state)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 10]])
    with torch.no_grad():
        logits = net.model(tokens).numpy()
    wide = {k: v.double().numpy() for k, v in state.items()}
    for row in range(2):
        np.testing.assert_allclose(
            logits[row], reference(wide, spec, tokens[row].numpy()), rtol=2e-4, atol=2e-4
        )


@pytest.mark.parametrize("tied", [True, False])
def test_hidden_matrices_are_those_of_the_blocks(tied: bool) -> None:
    net = FlatModel(SMALL.model_copy(update={"tie_embeddings": tied, "n_layers": 1}))
    parts = ("down", "gate_up", "key_value", "output", "query")
    assert net.hidden == tuple(f"blocks.0.{part}.weight" for part in parts)
    assert ("head.weight" in net.split(net.values)) is not tied


def test_the_future_does_not_change_the_past() -> None:
    net = FlatModel(SMALL)
    net.load(init_state(SMALL))
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    changed = torch.tensor([[1, 2, 3, 9, 5]])
    with torch.no_grad():
        before, after = net.model(tokens), net.model(changed)
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_rotary_depends_on_distance_only() -> None:
    rotary = Rotary(8, 32, 10_000.0)
    q, k = torch.randn(8), torch.randn(8)
    turned_q = rotary(q.expand(1, 1, 32, 8))[0, 0]
    turned_k = rotary(k.expand(1, 1, 32, 8))[0, 0]
    near, far = turned_q[5] @ turned_k[3], turned_q[25] @ turned_k[23]
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-5)


def test_first_state_has_the_same_bits_everywhere() -> None:
    state = init_state(ModelSpec())
    assert model_hash(state).hex() == (
        "4aef2895810527c284eedc136a492feab9e2445cd47460e78a9d6ab32ee0ce20"
    )
    assert sum(t.numel() for t in state.values()) == 108_864
    draws = bell(derive_key("init", 0, "blocks.1.down.weight"), 64 * 176, 0.02 / math.sqrt(4))
    assert np.array_equal(state["blocks.1.down.weight"].numpy().ravel(), draws)
    assert torch.equal(state["norm.weight"], torch.ones(64))
    assert model_hash(init_state(ModelSpec(init_seed=1))) != model_hash(state)


def test_state_and_model_agree_on_names() -> None:
    shapes = template(SMALL)
    assert list(shapes) == sorted(shapes)
    assert {k: tuple(v.shape) for k, v in init_state(SMALL).items()} == shapes
    assert "head.weight" not in shapes
    net = FlatModel(SMALL)
    with pytest.raises(KeyError, match="tensor names"):
        net.load({"x": torch.zeros(1)})


def test_zero_weights_predict_nothing() -> None:
    net = FlatModel(SMALL)
    state = {name: torch.zeros(shape) for name, shape in template(SMALL).items()}
    batches = [torch.randint(0, 11, (3, 9)), torch.randint(0, 11, (1, 9))]
    assert validation_loss(net, state, batches) == pytest.approx(math.log(11), abs=1e-6)
    with pytest.raises(ValueError, match="at least one batch"):
        validation_loss(net, state, [])


def test_validation_weighs_tokens_not_batches() -> None:
    net, state = FlatModel(SMALL), init_state(SMALL)
    batches = [torch.randint(0, 11, (3, 9)), torch.randint(0, 11, (1, 5))]
    loss = validation_loss(net, state, batches)
    with torch.no_grad():
        parts = [float(next_token_loss(net.model, b)) for b in batches]
    assert loss == pytest.approx((parts[0] * 24 + parts[1] * 4) / 28, rel=1e-6)


def test_absurd_sizes_are_refused_before_memory_is_taken() -> None:
    huge = ModelSpec(vocab_size=1_000_000, d_model=32_768, n_heads=512, n_kv_heads=512)
    with pytest.raises(ValueError, match="at most 4000000000 are allowed"):
        build_model(huge)
