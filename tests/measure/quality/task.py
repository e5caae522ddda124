# SPDX-License-Identifier: Apache-2.0
"""The task of the quality study: one seed fixes model and batches, the same for every method.

Bytes of Python's own source, eight peers with a contiguous eighth of them each, 4 x 128 bytes per
peer and step. The last twentieth is never trained on: 256 fixed windows of it are the validation.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import torch
from torch import Tensor

from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.model import MODEL_KINDS, OUTPUT_HEADS, init_state
from agents.training.spec import ModelSpec
from agents.training.state import State
from scripts._figures.text import corpus
from tests.measure.quality import model

PEERS, BATCH, SEQ = 8, 4, 128
WIDTH = 128
TOKENS_A_STEP = PEERS * BATCH * SEQ
CORPUS_SHA256 = "9a71e6ca4b7c0417c2509602de8bac021365a14489dc022483cf896e4f559d9b"
_HELD_OUT = 20  # the last of so many parts
_WINDOWS = 256

MODEL_KINDS["anchor"] = model.build
OUTPUT_HEADS["anchor"] = model.head


class Task:
    """Text, model and batches of one seed."""

    def __init__(
        self,
        seed: int,
        kind: Literal["anchor", "llama"] = "anchor",
        width: int = WIDTH,
        device: str = "cpu",
    ) -> None:
        """`kind`: the anchors' network or the project's own, both of 869,504 parameters at the
        study's width. `device`: where the network is; states and payloads stay on the CPU."""
        raw = corpus()
        self.seed, self.kind = seed, kind
        self.sha256 = hashlib.sha256(raw).hexdigest()
        data = torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()
        cut = len(raw) - len(raw) // _HELD_OUT
        self.shards = data[: cut // PEERS * PEERS].view(PEERS, -1)
        fixed = torch.Generator().manual_seed(0)
        starts = torch.randint(len(raw) - cut - SEQ - 1, (_WINDOWS,), generator=fixed)
        self.held_out = list(_windows(data[cut:], starts).split(64))
        llama = ModelSpec(
            d_model=width, n_layers=4, n_heads=4, n_kv_heads=4, d_ff=352, max_seq_len=SEQ,
            tie_embeddings=False, init_seed=seed,
        )  # fmt: skip
        anchor = llama.model_copy(update={"kind": "anchor", "d_ff": 4 * width})
        self.spec = llama if kind == "llama" else anchor
        self.net = FlatModel(self.spec, device=device)
        self.genesis = init_state(llama) if kind == "llama" else model.genesis(anchor)
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.genesis.items()}
        self.parameters = sum(tensor.numel() for tensor in self.genesis.values())

    def batch(self, step: int, peer: int) -> Tensor:
        """int64 [4, 129], on the CPU: the peer's windows of a step."""
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + step * PEERS + peer)
        shard = self.shards[peer]
        return _windows(shard, torch.randint(shard.numel() - SEQ, (BATCH,), generator=draw))

    def loss(self, state: State) -> float:
        return validation_loss(self.net, state, self.held_out)


def _windows(data: Tensor, starts: Tensor) -> Tensor:
    return data[starts[:, None] + torch.arange(SEQ + 1)]
