# SPDX-License-Identifier: Apache-2.0
"""The built-in decoder cut into stages, each of which is built and started alone.

A stage's tensors have names of their own kind: the embedding, blocks, norm and head are called as
in the unsplit decoder, ``anchors.1.weight`` is the table of tokens of stage 1, and
``boundaries.0.sender.*`` and ``boundaries.0.receiver.*`` are the sides of the boundary between
stages 0 and 1. So the states of all stages together are one state without a name twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import Boundary, Parts, Shape, Side, cross
from agents.training.model import (
    Attention,
    Block,
    FeedForward,
    RMSNorm,
    Rotary,
    check_size,
    check_tables,
    draw,
    hidden_matrices,
    init_tensor,
)
from agents.training.on_meta import shapes_only
from agents.training.recompute import Part, recomputed
from agents.training.spec import MAX_STAGES, ModelSpec, PipelineSpec
from agents.training.state import State

_EMBEDDING = "embedding.weight"
_TENSORS_A_WEIGHT = 4  # weights, gradients and AdamW's two moments, fp32 each


@dataclass(frozen=True)
class Slices:
    """A model, where it is cut, and what crosses there.

    Attributes:
        spec: of kind ``llama``.
        layers: blocks of each stage, first to last.
        boundary: one for all cuts.

    Raises:
        ValueError: the layers don't add up, or the model can't be cut like that.
    """

    spec: ModelSpec
    layers: tuple[int, ...]
    boundary: Boundary

    def __post_init__(self) -> None:
        if self.spec.kind != "llama":
            raise ValueError(f'only models of kind "llama" are cut, not "{self.spec.kind}"')
        if not 1 <= len(self.layers) <= MAX_STAGES or min(self.layers) < 1:
            raise ValueError(
                f"layers must name 1 to {MAX_STAGES} stages of at least one block each, "
                f"not {list(self.layers)[: MAX_STAGES + 1]}"
            )
        if sum(self.layers) != self.spec.n_layers:
            raise ValueError(
                f"layers {list(self.layers)} are {sum(self.layers)} blocks, "
                f"but the model has {self.spec.n_layers}"
            )
        if self.spec.tie_embeddings and len(self.layers) > 1:
            raise ValueError(
                "tie_embeddings must be false: the first stage holds the embedding and the last "
                "one the head, so one tensor can't be both"
            )
        self.boundary.code_width(self.spec.d_model)

    @classmethod
    def of(cls, model: ModelSpec, pipeline: PipelineSpec) -> Slices:
        """From the parts of a spec; ValueError for an unknown boundary or a wrong option too."""
        try:
            boundary = boundaries.get(pipeline.boundary)(**pipeline.boundary_options)
        except TypeError as error:  # an option the boundary doesn't have
            raise ValueError(f"boundary_options: {error}"[:500]) from error
        return cls(model, pipeline.layers, boundary)

    @property
    def last(self) -> int:
        """Index of the last stage; the first is 0."""
        return len(self.layers) - 1

    def blocks(self, index: int) -> range:
        """The unsplit model's blocks that belong to a stage."""
        first = sum(self.layers[:index])
        return range(first, first + self.layers[index])

    def code_shape(self, batch: int, seq: int) -> Shape:
        """Shape of the code, and of its gradient, of one sample."""
        return batch, seq, self.boundary.code_width(self.spec.d_model)

    def message_bytes(self, batch: int, seq: int) -> int:
        """Bytes of a message of one sample: of its code or its gradient, whichever is longer."""
        return boundaries.message_bytes(self.boundary, self.spec.d_model, batch * seq)


class Stage(nn.Module):
    """Token ids int64 [batch, seq] and the code before -> the code after, or the logits.

    The first stage takes no code, the last one gives logits [batch, seq, vocab_size]. Codes are
    fp32 [batch, seq, width], not yet rounded.

    Attributes:
        recompute: keep what goes into a block alone between forward and backward, and do the block
            again when its gradient comes. It changes no bit.
    """

    fixed: Tensor | None

    def __init__(self, slices: Slices, index: int) -> None:
        super().__init__()
        spec, boundary = slices.spec, slices.boundary
        self.first, self.final = index == 0, index == slices.last
        self.recompute = False
        self.rotary = Rotary(spec.d_model // spec.n_heads, spec.max_seq_len, spec.rope_theta)
        parts = Parts(spec.d_model, lambda: Attention(spec, self.rotary), lambda: FeedForward(spec))
        self.embedding = nn.Embedding(spec.vocab_size, spec.d_model) if self.first else None
        self.anchors, self.boundaries = nn.ModuleDict(), nn.ModuleDict()
        self._anchor = boundary.table if slices.last else "none"
        if self._anchor == "own" and not self.first:
            self.anchors[str(index)] = nn.Embedding(spec.vocab_size, spec.d_model)
        fixed = torch.zeros(spec.vocab_size, spec.d_model) if self._anchor == "fixed" else None
        self.register_buffer("fixed", fixed, persistent=False)
        self.sides: dict[str, Side] = {}
        if not self.first:
            self._add_side(index - 1, "receiver", boundary.receiver(parts))
        if not self.final:
            self._add_side(index, "sender", boundary.sender(parts))
        self.blocks = nn.ModuleDict()
        own = slices.blocks(index)
        for number in own:
            ours = [
                not (boundary.takes_halves and number == own[0] and not self.first),
                not (boundary.takes_halves and number == own[-1] and not self.final),
            ]
            if all(ours):
                self.blocks[str(number)] = Block(spec, self.rotary)
            elif any(ours):
                self.blocks[str(number)] = parts.attention() if ours[0] else parts.feed_forward()
        self.norm = self.head = None
        if self.final:
            self.norm = RMSNorm(spec.d_model)
            if not spec.tie_embeddings:
                self.head = nn.Linear(spec.d_model, spec.vocab_size, bias=False)

    def _add_side(self, cut: int, name: str, side: Side) -> None:
        self.boundaries[str(cut)] = nn.ModuleDict({name: side})
        self.sides[name] = side

    def base(self, tokens: Tensor) -> Tensor | None:
        """Rows of the stage's own table, [batch, seq, d_model]; None if there is no such table."""
        if self._anchor == "fixed" and self.fixed is not None:
            return functional.embedding(tokens, self.fixed)
        for table in self.anchors.values():
            rows: Tensor = table(tokens)
            return rows
        return None

    def forward(self, tokens: Tensor, code: Tensor | None = None) -> Tensor:
        """One stage's work; ValueError if a code is missing, or given to the first stage."""
        if self.first != (code is None):
            raise ValueError("every stage but the first one needs the code of the stage before")
        base = self.base(tokens)
        if self.embedding is not None:
            x: Tensor = self.embedding(tokens)
            base = x if self._anchor == "own" else base
        else:
            x = self.sides["receiver"](code, base)
        for block in self.blocks.values():
            x = self._done(block if isinstance(block, Block) else _Added(block), x)
        if self.norm is None:
            narrow: Tensor = self.sides["sender"](x, base)
            return narrow.float()
        return self._done(self._logits, x)

    def _done(self, part: Part, x: Tensor) -> Tensor:
        return recomputed(part, x) if self.recompute else part(x)

    def _logits(self, x: Tensor) -> Tensor:
        source = self.embedding if self.head is None else self.head  # tied only in one stage
        assert source is not None and self.norm is not None
        return functional.linear(self.norm(x), source.weight)


@dataclass(frozen=True)
class _Added:
    """Half a block, added to the stream."""

    half: nn.Module

    def __call__(self, x: Tensor) -> Tensor:
        added: Tensor = self.half(x)
        return x + added


def build_stage(slices: Slices, index: int, device: str = "cpu") -> Stage:
    """Stage 0.. of a model, with fp32 parameters of no particular value, in eval mode.

    Its fixed table, if it has one, is drawn. Nothing of another stage is allocated.

    Raises:
        ValueError: as `check_size` and `check_tables` of the stage alone.
    """
    with shapes_only():
        _check_size(Stage(slices, index))
    with torch.device(device):
        stage = Stage(slices, index).float().eval()
    if stage.fixed is not None:
        stage.fixed.copy_(init_tensor(slices.spec, _EMBEDDING, tuple(stage.fixed.shape)))
    return stage


def stage_template(slices: Slices, index: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of each trained tensor of a stage, sorted by name.

    Raises:
        ValueError: as `check_size` and `check_tables` of the stage alone.
    """
    with shapes_only():
        stage = Stage(slices, index)
    _check_size(stage)
    return {name: tuple(p.shape) for name, p in sorted(stage.named_parameters())}


def hidden_of(slices: Slices, index: int) -> tuple[str, ...]:
    """Names of the hidden matrices of a stage, in no memory."""
    with shapes_only():
        return hidden_matrices(slices.spec.kind, Stage(slices, index))


def init_stages(slices: Slices) -> State:
    """The state of all stages together at round 0, sorted by name; see ``init_stage``."""
    parts = [init_stage(slices, index) for index in range(slices.last + 1)]
    return dict(sorted((name, tensor) for part in parts for name, tensor in part.items()))


def init_stage(slices: Slices, index: int) -> State:
    """A stage's part of the state at round 0: fp32 CPU tensors, the same bits on every machine.

    What the unsplit decoder has too starts with the bits that ``model.init_state`` gives it. A
    table of tokens starts with those of the embedding. What a boundary adds is drawn by its name,
    with the standard deviation that the boundary states, or as the decoder's own matrices.
    """
    with shapes_only():
        stage = Stage(slices, index)
    _check_size(stage)
    stds = {
        f"{path}.{name}": std
        for path, module in stage.named_modules()
        if isinstance(module, Side)
        for name, std in module.stds.items()
    }
    state = {}
    for name, parameter in sorted(stage.named_parameters()):
        shape = tuple(parameter.shape)
        if name in stds:
            state[name] = draw(slices.spec, name, shape, stds[name])
        else:
            source = _EMBEDDING if name.startswith("anchors.") else name
            state[name] = init_tensor(slices.spec, source, shape)
    return state


def training_bytes(slices: Slices, index: int) -> int:
    """Bytes a stage keeps between samples: weights, gradients, two moments, and a fixed table."""
    with shapes_only():
        stage = Stage(slices, index)
    return 4 * (_TENSORS_A_WEIGHT * sum(p.numel() for p in stage.parameters()) + _fixed(stage))


def _fixed(stage: Stage) -> int:
    """Numbers of a stage's fixed table."""
    return 0 if stage.fixed is None else stage.fixed.numel()


def _check_size(stage: Stage) -> None:
    check_size(stage)
    check_tables(stage, 4 * _fixed(stage))


def products(slices: Slices, index: int, length: int) -> int:
    """Multiplications that a token takes on its way through a stage: by each number of its
    matrices, and in each attention with half of the `length` tokens of a row, twice."""
    with shapes_only():
        stage = Stage(slices, index)
    attention = length * slices.spec.d_model
    return sum(
        part.weight.numel() if isinstance(part, nn.Linear) else attention
        for part in stage.modules()
        if isinstance(part, nn.Linear | Block | Attention)
    )


class Chain(nn.Module):
    """All stages in one process, without bytes: token ids -> logits, like the decoder.

    Codes and their gradients are rounded as the bytes would round them, so losses and gradients
    are those of the pipeline. Stage i's tensors are named ``stages.i.*`` here.
    """

    def __init__(self, slices: Slices, device: str = "cpu") -> None:
        super().__init__()
        self._boundary = slices.boundary
        stages = [build_stage(slices, index, device) for index in range(slices.last + 1)]
        self.stages = nn.ModuleList(stages)

    def named(self) -> dict[str, nn.Parameter]:
        """The parameters by the names that they have in the stages' states."""
        return {name: p for stage in self.stages for name, p in stage.named_parameters()}

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, seq, vocab_size] of int64 [batch, seq]."""
        code: Tensor | None = None
        boundary = self._boundary
        for stage in self.stages[:-1]:
            code = cross(stage(tokens, code), boundary.codes.rounded, boundary.gradients.rounded)
        logits: Tensor = self.stages[-1](tokens, code)
        return logits
