# SPDX-License-Identifier: Apache-2.0
"""Token ids beside the codes: a later stage needs them for its own table, the last for the loss.

Two bytes an id, little-endian, up to a vocabulary of 65,536, four above.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agents.mechanisms.boundary.parts.wire import MAX_VALUES, WireError

_SHORT_VOCABULARY = 65_536


def id_bytes(vocab_size: int) -> int:
    """Bytes of one id."""
    return 2 if vocab_size <= _SHORT_VOCABULARY else 4


def pack_tokens(tokens: Tensor, vocab_size: int) -> bytes:
    """The bytes of int64 [batch, seq]; WireError for an id outside the vocabulary."""
    _check(tokens, vocab_size, "The ids to be sent")
    ids = tokens.cpu().contiguous().numpy()
    return ids.astype(f"<u{id_bytes(vocab_size)}").tobytes()


def unpack_tokens(data: bytes, shape: tuple[int, int], vocab_size: int) -> Tensor:
    """int64 [batch, seq]; WireError for a wrong length or an id outside the vocabulary."""
    count = shape[0] * shape[1]
    width = id_bytes(vocab_size)
    if count > MAX_VALUES or len(data) != count * width:
        raise WireError(f"The ids have {len(data)} bytes, not {count * width}.")
    ids = torch.from_numpy(np.frombuffer(data, f"<u{width}").astype(np.int64)).view(shape)
    _check(ids, vocab_size, "The message")
    return ids


def _check(ids: Tensor, vocab_size: int, what: str) -> None:
    if bool(((ids < 0) | (ids >= vocab_size)).any()):
        raise WireError(f"{what} holds a token id outside the vocabulary of {vocab_size}.")
