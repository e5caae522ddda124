# SPDX-License-Identifier: Apache-2.0
"""What a kind computes with: a spec's inputs, checked, and the network they belong to.

Rule: an input that exists and is wrong is a refusal, equal on every node; an input that cannot be
had is an error of the store, on which the caller waits.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

from agents.storage.content_store import ContentStore
from agents.storage.errors import InvalidCid, TooLarge
from agents.tasks.compute.budget import Budget, Cost
from agents.tasks.compute.errors import TaskError
from agents.training.data import Dataset, DataSource
from agents.training.documents import DataError
from agents.training.flat import FlatModel
from agents.training.model import template
from agents.training.spec import JobSpec, ModelSpec
from agents.training.state import PayloadError, State, file_bound, load_state

MAX_SEQUENCES = 2**22
"""Of a dataset that is read in a drawn order."""

MAX_DATA_BYTES = 2**20
"""Of the document that `data` names: to parse it is not counted, and takes longer than to copy it.
A manifest of so many bytes lists more than 12,000 shards."""


def refuse_keys(dataset: Dataset) -> None:
    """Raise TaskError for a dataset whose shards have keys of their own: its order shuffles all
    shards in each epoch, which may be as short as one batch."""
    if dataset.key_salt is not None:
        raise TaskError(
            "bad_data",
            "the dataset is for shards with keys of their own (key_salt); a task's input is "
            "public, so leave the salt out",
        )


class Inputs(Protocol):
    """What a kind computes from: a `TaskSpec` names it."""

    @property
    def model(self) -> ModelSpec: ...

    @property
    def checkpoint(self) -> str: ...

    @property
    def data(self) -> str: ...


class Execution:
    """One task on one node.

    Attributes:
        spec: the task.
        spec_digest: sha2-256 of its CID's content, as on chain, in hex.
        device: where to compute, a torch device.
    """

    def __init__(
        self, spec: Inputs, spec_digest: str, store: ContentStore, budget: Budget, device: str
    ) -> None:
        self.spec, self.spec_digest, self.device = spec, spec_digest, device
        self._store, self._budget = store, budget

    def get(self, cid: str, max_bytes: int) -> bytes:
        """An input's verified bytes (so `DataSource` can read through this object).

        Raises:
            TaskError: not a CID, longer than `max_bytes`, or more than the task may read.
            StoreError: it cannot be had now.
        """
        most = min(max_bytes, self._budget.readable())
        if cid == self.spec.data:
            most = min(most, MAX_DATA_BYTES)
        try:
            data = self._store.get(cid, most)
        except InvalidCid as error:
            raise TaskError("bad_input", str(error)) from error
        except TooLarge as error:
            raise TaskError("too_large", str(error)) from error
        self._budget.read(len(data))
        return data

    def allow(self, work: Cost) -> None:
        """Raise TaskError unless the work fits into the time and the class; call it first."""
        self._budget.allow(work)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of the model's tensors; TaskError for a network beyond all bounds."""
        try:
            return template(self.spec.model)
        except ValueError as error:
            raise TaskError("too_large", str(error)) from error

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def state(self) -> State:
        """The checkpoint, fp32 CPU tensors; TaskError unless it is a finite state of the model."""
        raw = self.get(self.spec.checkpoint, file_bound(self.shapes))
        try:
            return load_state(raw, self.shapes)
        except PayloadError as error:
            raise TaskError("bad_checkpoint", str(error)) from error

    def network(self) -> FlatModel:
        """The network, its weights of no particular value."""
        return FlatModel(self.spec.model, device=self.device)

    def source(
        self, seq_len: int, batch_size: int, seed: int = 0, val_fraction: float = 1e-6
    ) -> DataSource:
        """The dataset, cut as a job with these settings cuts it.

        Raises:
            TaskError: malformed, of another vocabulary, too short, too many sequences to order, or
                one whose shards have keys of their own.
        """
        job = JobSpec.from_dict(
            {
                "data": self.spec.data,
                "model": self.spec.model.model_dump(),
                "optimizer": {"seq_len": seq_len, "batch_size": batch_size},
                "data_seed": seed,
                "val_fraction": val_fraction,
            }
        )
        try:
            source = DataSource(self, job)
        except DataError as error:
            raise TaskError("bad_data", str(error)) from error
        refuse_keys(source.dataset)
        if source.train_sequences > MAX_SEQUENCES:
            raise TaskError(
                "too_large",
                f"the dataset has {source.train_sequences} sequences of {seq_len}, at most "
                f"{MAX_SEQUENCES} are allowed",
            )
        return source
