# SPDX-License-Identifier: Apache-2.0
"""A node's own folder of text: read and trained on here; only a commitment to it leaves.

Files are taken in the order of their paths and become tokens as the job's public dataset does it.
Sequence i covers tokens i*(seq_len+1) .. i*(seq_len+1)+seq_len: unlike those of the public data,
sequences share no token, so that each token belongs to exactly one example of differential privacy.
Other nodes know the dataset by its ``commitment`` only.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.training.data import DataSource
from agents.training.documents import DataError, read_documents
from agents.training.order import BatchOrder
from agents.training.spec import JobSpec

ENDINGS = (".jsonl", ".parquet", ".txt")
SALT_BYTES = 32
_DOMAIN = b"menagerie/local-data/v1"


class LocalData:
    """Sequences of one folder; all of them are for training, since validation is public.

    Attributes:
        folder: where the text is.
        batch_size: sequences of a batch.
        examples: number of sequences, the unit of ``privacy: dp_sgd``.
        batches_per_epoch: batches of one shuffle.
    """

    def __init__(self, folder: Path, spec: JobSpec, public: DataSource) -> None:
        """Read the whole folder into memory, subfolders included.

        Args:
            folder: holds .txt, .jsonl (key ``text``) or .parquet (column ``text``) files; files
                and folders whose name starts with a dot are skipped.
            spec: the job; its ``seq_len``, ``batch_size`` and ``data_seed`` are used.
            public: the job's public dataset, which says how text becomes tokens.

        Raises:
            DataError: no such folder, no such file in it, a file of another kind or one that
                cannot be read, or too little text for one batch.
        """
        self.folder = folder
        self._length, self.batch_size = spec.optimizer.seq_len + 1, spec.optimizer.batch_size
        digest = hashlib.sha256(_DOMAIN)
        tokens = public.encode(_hashed(read_documents(_files(folder)), digest))
        self._inner = digest.digest()
        self.examples = len(tokens) // self._length
        if self.examples < self.batch_size:
            raise DataError(
                f"{folder}: {len(tokens)} tokens give {self.examples} sequences of "
                f"{self._length}, too few for a batch of {self.batch_size}; add text"
            )
        self._tokens = tokens[: self.examples * self._length].reshape(-1, self._length)
        limit = spec.model.vocab_size
        if int(self._tokens.max()) >= limit:
            raise DataError(
                f"{folder}: token {int(self._tokens.max())} is outside the model's vocabulary of "
                f"{limit}"
            )
        self._order = BatchOrder(self.examples, self.batch_size, spec.data_seed)
        self.batches_per_epoch = self._order.batches_per_epoch

    def batch(self, index: int) -> Tensor:
        """Batch ``index`` >= 0 as int64 [batch_size, seq_len + 1], in the job's public order."""
        return self.sequences(self._order.rows(index))

    def sequences(self, rows: NDArray[np.int64]) -> Tensor:
        """The sequences of these numbers, 0..examples-1, as int64 [len(rows), seq_len + 1]."""
        return torch.from_numpy(self._tokens[rows].astype(np.int64))

    def commitment(self, salt: bytes) -> bytes:
        """Which dataset this is, 32 bytes, opened by showing the salt and the documents.

        HMAC-SHA256, keyed by the salt, of the SHA-256 of every document's length and content in
        order. It binds to the documents; as long as the salt is secret it confirms no guess.

        Args:
            salt: 32 secret random bytes that the node keeps.

        Raises:
            ValueError: another length of salt.
        """
        if len(salt) != SALT_BYTES:
            raise ValueError(f"the salt must have {SALT_BYTES} random bytes, got {len(salt)}")
        return hmac.digest(salt, self._inner, "sha256")


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataError(f"{folder}: is no folder; name the folder that holds your text files")
    inside = {path: path.relative_to(folder) for path in folder.rglob("*")}
    shown = [p for p, own in inside.items() if not any(part[0] == "." for part in own.parts)]
    found = sorted((p for p in shown if p.is_file()), key=lambda p: inside[p].as_posix())
    if not found:
        raise DataError(f"{folder}: holds no file; add {', '.join(ENDINGS)} files")
    return found


def _hashed(documents: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for document in documents:
        digest.update(len(document).to_bytes(8, "big"))
        digest.update(document)
        yield document
