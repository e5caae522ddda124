# SPDX-License-Identifier: Apache-2.0
"""What the tokens before a token add to its row in a stage's table of tokens.

A stage knows all ids of a sample, so what follows from the last few of them need not cross. Each
channel has a weight for each of the tokens before: a causal convolution of every channel alone,
written as sums, so that it gives the same bits with any number of threads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

MAX_CONTEXT = 64


class Context(nn.Module):
    """Rows of a table, fp32 [batch, seq, d_model] -> the same with those of `reach` tokens before.

    Attributes:
        weight: [reach, 1, d_model], for the token just before first. No matrix, so Muon leaves it
            to AdamW.
    """

    def __init__(self, d_model: int, reach: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(reach, 1, d_model))

    def forward(self, rows: Tensor) -> Tensor:
        reach, seq = len(self.weight), rows.shape[1]
        before = functional.pad(rows, (0, 0, reach, 0))
        for back in range(1, reach + 1):
            rows = rows + self.weight[back - 1] * before[:, reach - back : reach - back + seq]
        return rows
