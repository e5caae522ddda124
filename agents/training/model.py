# SPDX-License-Identifier: Apache-2.0
"""The built-in Llama-style decoder and the one registry of model kinds.

RMSNorm, rotary positions, SwiGLU and grouped-query attention (arXiv 2302.13971, 2305.13245) in
plain torch. The weights at round 0 come from ``rng.bell`` with the spec's public seed, so every
machine starts from the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.training.on_meta import shapes_only
from agents.training.rng import bell, derive_key
from agents.training.spec import ModelSpec

MAX_PARAMETERS = 4_000_000_000
MAX_TABLE_BYTES = 256 << 20  # beside the parameters, which no count of a job's memory has
_INIT_STD = 0.02


class Rotary(nn.Module):
    """Rotary position tables, fp32 [max_seq_len, head_dim / 2]; not part of the state."""

    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, max_seq_len: int, theta: float) -> None:
        super().__init__()
        angles = torch.empty(max_seq_len, head_dim // 2)
        if angles.is_meta:  # there is nothing to compute: see agents/training/on_meta.py
            self._keep(angles, angles.clone())
            return
        steps = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), theta**-steps)
        self._keep(angles.cos().float(), angles.sin().float())

    def _keep(self, cos: Tensor, sin: Tensor) -> None:
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate [batch, heads, seq, head_dim] by the position of each row."""
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        left, right = x.float().chunk(2, dim=-1)
        turned = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
        return turned.to(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + 1e-5) * weight, computed in fp32."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension; shape and dtype are kept."""
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale * self.weight).to(x.dtype)


class Attention(nn.Module):
    """What grouped-query attention adds to the residual stream, its norm included."""

    def __init__(self, spec: ModelSpec, rotary: Rotary) -> None:
        super().__init__()
        self.heads, self.kv_heads = spec.n_heads, spec.n_kv_heads
        self.head_dim = spec.d_model // spec.n_heads
        self._rotary = (rotary,)  # shared by all blocks, registered once by the decoder
        kv = self.kv_heads * self.head_dim
        self.norm_attention = RMSNorm(spec.d_model)
        self.query = nn.Linear(spec.d_model, spec.d_model, bias=False)
        self.key_value = nn.Linear(spec.d_model, 2 * kv, bias=False)
        self.output = nn.Linear(spec.d_model, spec.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, d_model] -> the same shape, without the residual."""
        x = self.norm_attention(x)
        batch, seq, width = x.shape
        rotary = self._rotary[0]
        query = self.query(x).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        pair = self.key_value(x).view(batch, seq, 2, self.kv_heads, self.head_dim)
        key, value = pair.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(
            rotary(query),
            rotary(key),
            value,
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        )
        output: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, seq, width))
        return output


class FeedForward(nn.Module):
    """What SwiGLU adds to the residual stream, its norm included."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.norm_mlp = RMSNorm(spec.d_model)
        self.gate_up = nn.Linear(spec.d_model, 2 * spec.d_ff, bias=False)
        self.down = nn.Linear(spec.d_ff, spec.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, d_model] -> the same shape, without the residual."""
        gate, up = self.gate_up(self.norm_mlp(x)).chunk(2, dim=-1)
        added: Tensor = self.down(functional.silu(gate) * up)
        return added


class Block(nn.Module):
    """Pre-norm attention and SwiGLU, each with a residual."""

    def __init__(self, spec: ModelSpec, rotary: Rotary) -> None:
        super().__init__()
        # The halves are not registered themselves: their layers are, so that names stay flat.
        self._halves = (Attention(spec, rotary), FeedForward(spec))
        for half in self._halves:
            for name, layer in half.named_children():
                self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, d_model] -> the same shape."""
        for half in self._halves:
            x = x + half(x)
        return x


class Decoder(nn.Module):
    """Token ids int64 [batch, seq] -> logits [batch, seq, vocab_size]."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        head_dim = spec.d_model // spec.n_heads
        self.embedding = nn.Embedding(spec.vocab_size, spec.d_model)
        self.rotary = Rotary(head_dim, spec.max_seq_len, spec.rope_theta)
        self.blocks = nn.ModuleList(Block(spec, self.rotary) for _ in range(spec.n_layers))
        self.norm = RMSNorm(spec.d_model)
        self.head = None
        if not spec.tie_embeddings:
            self.head = nn.Linear(spec.d_model, spec.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        weight = self.embedding.weight if self.head is None else self.head.weight
        return functional.linear(self.norm(x), weight)


def _build_llama(spec: ModelSpec, config: bytes | None) -> nn.Module:
    return Decoder(spec)


def _build_transformers(spec: ModelSpec, config: bytes | None) -> nn.Module:
    from agents.training.transformers import build_causal_lm

    return build_causal_lm(spec, config)


MODEL_KINDS: dict[str, Callable[[ModelSpec, bytes | None], nn.Module]] = {
    "llama": _build_llama,
    "transformers": _build_transformers,
}


def check_size(model: nn.Module) -> None:
    """ValueError if a network, which may be on ``"meta"``, exceeds ``MAX_PARAMETERS``."""
    count = sum(p.numel() for p in model.parameters())
    if count > MAX_PARAMETERS:
        raise ValueError(f"the model has {count} parameters, at most {MAX_PARAMETERS} are allowed")


def check_tables(model: nn.Module, counted: int = 0) -> None:
    """ValueError if what a network of a job has beside its parameters, positions or masks, exceeds
    ``MAX_TABLE_BYTES``. Tasks count the tables of their models themselves.

    counted: bytes of them that a count of memory has.
    """
    beside = sum(b.numel() * b.element_size() for b in model.buffers()) - counted
    if beside > MAX_TABLE_BYTES:
        raise ValueError(
            f"the model has tables of {beside} bytes beside its parameters, at most "
            f"{MAX_TABLE_BYTES} are allowed; shorten its sequences or narrow its heads"
        )


def _llama_head(model: nn.Module) -> nn.Module | None:
    head: nn.Module | None = model.head  # type: ignore[assignment]
    return head


def _transformers_head(model: nn.Module) -> nn.Module | None:
    from agents.training.transformers import output_head

    return output_head(model)


OUTPUT_HEADS: dict[str, Callable[[nn.Module], nn.Module | None]] = {
    "llama": _llama_head,
    "transformers": _transformers_head,
}


def hidden_matrices(kind: str, model: nn.Module) -> tuple[str, ...]:
    """Names of the matrices between the embeddings and the output head, sorted.

    These are all parameters of two dimensions but the weights of embedding layers (of tokens or of
    positions) and those of the output head. A matrix that holds several, as a layer for queries,
    keys and values does, counts as one.

    Args:
        kind: of the model, a key of ``MODEL_KINDS``.
        model: a network of that kind, or one of its parts.
    """
    ends = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    outer = {id(parameter) for module in ends for parameter in module.parameters()}
    head = OUTPUT_HEADS[kind](model)
    if head is not None:
        outer |= {id(parameter) for parameter in head.parameters()}
    named = sorted(model.named_parameters())
    return tuple(name for name, p in named if p.dim() == 2 and id(p) not in outer)


def build_model(spec: ModelSpec, config: bytes | None = None, device: str = "cpu") -> nn.Module:
    """The network of a spec with fp32 parameters of no particular value, in eval mode.

    Args:
        spec: model part of a job spec.
        config: bytes behind ``spec.config_cid`` for kind ``transformers``.
        device: where parameters live; ``"meta"`` allocates nothing.

    Raises:
        ValueError: the network would have more than ``MAX_PARAMETERS`` parameters.
    """
    with shapes_only():
        shape_only = MODEL_KINDS[spec.kind](spec, config)
    check_size(shape_only)
    if device == "meta":
        return shape_only
    with torch.device(device):
        return MODEL_KINDS[spec.kind](spec, config).float().eval()


def template(spec: ModelSpec, config: bytes | None = None) -> dict[str, tuple[int, ...]]:
    """Name -> shape of each trained tensor, sorted by name; tied tensors appear once."""
    return _shapes(build_model(spec, config, device="meta"))


def template_of_job(spec: ModelSpec, config: bytes | None = None) -> dict[str, tuple[int, ...]]:
    """The same for a model of a job. ValueError as `check_tables` as well."""
    model = build_model(spec, config, device="meta")
    check_tables(model)
    return _shapes(model)


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in sorted(model.named_parameters())}


def hidden_names(spec: ModelSpec, config: bytes | None = None) -> tuple[str, ...]:
    """Names of the hidden matrices of a spec's network, in no memory."""
    return hidden_matrices(spec.kind, build_model(spec, config, device="meta"))


def init_tensor(spec: ModelSpec, name: str, shape: tuple[int, ...]) -> Tensor:
    """One tensor of the state at round 0: fp32 on the CPU, the same bits on every machine.

    Matrices draw from ``rng.bell`` with standard deviation 0.02, projections back into the
    residual stream (``output``, ``down``, ``o_proj``, ``down_proj``, ``c_proj``) with
    0.02 / sqrt(2 n_layers) as in GPT-2; biases are 0 and other vectors (norm scales) are 1.
    """
    residual = ("output.weight", "down.weight", "o_proj.weight", "down_proj.weight",
                "c_proj.weight")  # fmt: skip
    if name.endswith("bias"):
        return torch.zeros(shape)
    if len(shape) < 2:
        return torch.ones(shape)
    std = _INIT_STD / (2 * spec.n_layers) ** 0.5 if name.endswith(residual) else _INIT_STD
    return draw(spec, name, shape, std)


def draw(spec: ModelSpec, name: str, shape: tuple[int, ...], std: float) -> Tensor:
    """fp32 draws of mean 0 and standard deviation ``std`` that belong to a tensor's name."""
    size = int(torch.Size(shape).numel())
    draws = bell(derive_key("init", spec.init_seed, name), size, std)
    return torch.from_numpy(draws).reshape(shape)


def init_state(spec: ModelSpec, config: bytes | None = None) -> dict[str, Tensor]:
    """The state at round 0: each tensor of the network by ``init_tensor``."""
    shapes = template(spec, config)
    return {name: init_tensor(spec, name, shape) for name, shape in shapes.items()}


def next_token_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Mean cross-entropy in nats over int64 [batch, seq + 1], a scalar in fp32."""
    output = model(batch[:, :-1])
    logits = output if isinstance(output, Tensor) else output.logits
    return functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
