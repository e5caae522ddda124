# SPDX-License-Identifier: Apache-2.0
"""The network of the peers' anchors: GPT's block, 869,504 parameters at the study's shape.

Learned positions, LayerNorm without bias, a GELU MLP of four times the width, linear maps without
bias, an untied head. The project's own decoder (rotary positions, SwiGLU) learns this text faster
by itself, which would flatter every codec beside figures measured on this one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.training.spec import ModelSpec
from agents.training.state import State


class Norm(nn.Module):
    """LayerNorm with a scale and no bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension; the shape is kept."""
        return functional.layer_norm(x, x.shape[-1:], self.weight)


class Block(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        width = spec.d_model
        self.heads = spec.n_heads
        self.norm_attention, self.norm_mlp = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, spec.d_ff, bias=False)
        self.down = nn.Linear(spec.d_ff, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, width] -> the same shape."""
        batch, seq, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, seq, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class AnchorModel(nn.Module):
    """Token ids int64 [batch, seq] -> logits [batch, seq, vocab_size]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.embedding = nn.Embedding(spec.vocab_size, spec.d_model)
        self.position = nn.Embedding(spec.max_seq_len, spec.d_model)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.n_layers))
        self.norm = Norm(spec.d_model)
        self.head = nn.Linear(spec.d_model, spec.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position."""
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def build(spec: ModelSpec, config: bytes | None) -> nn.Module:
    """An entry of the registry of model kinds (`agents.training.model.MODEL_KINDS`)."""
    return AnchorModel(spec)


def head(net: nn.Module) -> nn.Module | None:
    """Its output head, as `agents.training.model.OUTPUT_HEADS` asks for it."""
    return net.head if isinstance(net, AnchorModel) else None


def genesis(spec: ModelSpec) -> State:
    """The state at round 0: torch's own initialisation of its layers, seeded by the spec."""
    torch.manual_seed(spec.init_seed)
    named = sorted(AnchorModel(spec).named_parameters())
    return {name: parameter.detach().clone() for name, parameter in named}
