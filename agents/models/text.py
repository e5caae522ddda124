# SPDX-License-Identifier: Apache-2.0
"""Text in and out of a model: it goes on from a prompt, or says how well it expects a text."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.models.folder import ModelFolder
from agents.training.data import encoder, tokenizing
from agents.training.decode import drawn_by_reader, likeliest, written
from agents.training.documents import DataError
from agents.training.evaluate import token_losses
from agents.training.flat import FlatModel
from agents.training.state import State
from agents.training.tokenizing import Tokenizing

_ROWS = 16  # sequences of one forward pass


class Decoder(Protocol):
    """Turns tokens into text, one at a time."""

    def __call__(self, token: int) -> str: ...


@dataclass(frozen=True)
class Judgement:
    """How well a model expects a text. `loss`: mean nats a token. `bytes`: of the text in UTF-8."""

    loss: float
    tokens: int
    bytes: int

    @property
    def perplexity(self) -> float:
        """exp of the loss, infinite where that is no number of Python's."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Bits that the model needs for a byte of the text, by which unlike tokens compare."""
        return self.loss * self.tokens / math.log(2) / self.bytes


class Reader:
    """One model on a device, and its tokenizer. Raises FolderError, SpecError, DataError."""

    def __init__(self, folder: ModelFolder, device: str) -> None:
        self._folder, self._device = folder, device
        self._window = folder.job.spec.model.max_seq_len
        raw = folder.tokenizer
        self._tokens = None if raw is None else tokenizing(folder.dataset, raw)
        self._encode = self._tokens.encode if self._tokens else encoder(folder.dataset, None)
        self._state: State = folder.state()
        self._net: FlatModel = folder.job.net(device)

    def encode(self, text: bytes) -> list[int]:
        """The tokens of a text in UTF-8. Raises DataError for one that the model does not know."""
        return [int(token) for token in self._known(text)]

    def _known(self, text: bytes) -> NDArray[np.integer[Any]]:
        found = self._encode(text)
        limit = self._folder.job.spec.model.vocab_size
        if len(found) and int(found.max()) >= limit:
            raise DataError(
                f"token {int(found.max())} of the text is outside the model's vocabulary of {limit}"
            )
        return found

    def decoder(self) -> Decoder:
        """What turns tokens into text. Bytes of a character that is not complete wait for the rest.

        Bytes that are no UTF-8 become replacement characters.
        """
        if self._tokens is None:
            wait = codecs.getincrementaldecoder("utf-8")("replace")
            return lambda token: wait.decode(bytes([token]) if token < 256 else b"\xff")
        return _Pieces(self._tokens)

    def write(
        self, prompt: str, count: int, temperature: float = 0.0, seed: int = 0
    ) -> Iterator[str]:
        """At most `count` tokens that go on from a prompt, as text; ends after a separator.

        Without a prompt it begins after the separator, as a document does.
        """
        stop = self._folder.provenance.separator
        tokens = self.encode(prompt.encode()) or [stop or 0]
        self._net.load(self._state)
        decode = self.decoder()
        choose = drawn_by_reader(seed, temperature) if temperature > 0 else likeliest
        place = (self._net.model, tokens, self._window, self._device, choose)
        for token in islice(written(*place), count):
            if token == stop:
                return
            yield decode(token)

    def judge(
        self,
        documents: Iterable[bytes],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Judgement:
        """How well the model expects documents, each followed by the separator.

        The text is cut into sequences of the model's length, and each token is judged by those
        before it in its sequence; the very first one is not judged.

        Raises:
            DataError: not two tokens.
        """
        mark = self._folder.provenance.separator
        end = np.array([] if mark is None else [mark], np.int64)
        pieces: list[NDArray[np.int64]] = []
        size = 0
        for text in documents:
            pieces += [np.asarray(self._known(text), np.int64), end]
            size += len(text) + len(end)
        tokens = np.concatenate([end[:0], *pieces])
        if len(tokens) < 2:
            raise DataError("there are not two tokens to judge; name a file that is not empty")
        parts = token_losses(self._net, self._state, self._batches(tokens, progress))
        count = sum(part.numel() for part in parts)
        total = math.fsum(float(part.sum()) for part in parts)
        return Judgement(total / count, count, size)

    def _batches(
        self, row: NDArray[np.int64], progress: Callable[[int, int], None]
    ) -> Iterator[Tensor]:
        """The tokens as int64 [sequences, length + 1], the shorter last sequence alone.

        `progress`: hears after each batch how many tokens are judged, and how many there are.
        """
        length = self._window
        whole = (len(row) - 1) // length
        rows = [row[at * length : at * length + length + 1] for at in range(whole)]
        for first in range(0, whole, _ROWS):
            yield torch.from_numpy(np.stack(rows[first : first + _ROWS]))
            progress(min(first + _ROWS, whole) * length, len(row) - 1)
        if len(row) - 1 > whole * length:
            yield torch.from_numpy(row[whole * length :][None])


class _Pieces:
    """Text of a tokenizer's tokens. A piece may depend on those before it, so all are decoded."""

    def __init__(self, tokenizer: Tokenizing) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._told = ""

    def __call__(self, token: int) -> str:
        self._tokens.append(token)
        text = self._tokenizer.decode(self._tokens)
        if text.endswith("�") or not text.startswith(self._told):
            return ""  # a character that is not complete
        new, self._told = text[len(self._told) :], text
        return new
