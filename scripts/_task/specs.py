# SPDX-License-Identifier: Apache-2.0
"""Makes a task on chain of a creator's files and wishes, and checks it before anything is paid.

Rule: whatever can be found wrong with a task without computing it is found here. A spec that honest
nodes refuse costs its creator the fee.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.storage.content_store import ContentStore
from agents.tasks.compute.budget import SHARES, SMALLEST_READ, Budget, Cost
from agents.tasks.compute.classes import Limits, limits_of
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.execution import MAX_DATA_BYTES, Execution, refuse_keys
from agents.tasks.compute.make import put_prompts
from agents.tasks.compute.spec import TaskSpec, build_spec
from agents.training.data import Dataset, pack
from agents.training.documents import DataError, read_documents
from agents.training.state import file_bound

_ANY_TIME_S = 10**6
_LEAST_S = 60  # to see the draw, and to get a transaction into a block


class _Measured(Exception):
    """Ends a probe where the work is known; nothing has been computed yet."""

    def __init__(self, work: Cost) -> None:
        super().__init__("measured")
        self.work = work


class _Meter(Budget):
    """A budget that counts what is read and stops at the work."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, _ANY_TIME_S)
        self.bytes = 0

    def read(self, count: int) -> None:
        """Count a file as a real budget does."""
        super().read(count)
        self.bytes += max(count, SMALLEST_READ)

    def allow(self, work: Cost) -> None:
        """Stop."""
        raise _Measured(work)


def seconds_needed(spec: TaskSpec, store: ContentStore) -> int:
    """Seconds of `run_s` with which no node of the class refuses the task, and at least a minute.

    Everything the task may read is counted, so it may do with less.

    Raises:
        TaskError: nodes will refuse it, however long they are paid for.
        StoreError: an input is not in the store.
    """
    limits = limits_of(spec.determinism)
    meter = _Meter(limits)
    execution = Execution(spec, "", store, meter, "cpu")
    try:
        spec.options.run(execution)
    except _Measured as measured:
        work = measured.work
    else:
        raise TypeError(f"the kind {spec.kind!r} computes without saying how much")
    count = meter.bytes + max(file_bound(execution.shapes), SMALLEST_READ)
    if spec.kind != "generate":  # whose prompts are read by now
        dataset = Dataset.from_bytes(store.get(spec.data, MAX_DATA_BYTES))
        refuse_keys(dataset)
        width = int(dataset.dtype.removeprefix("uint")) // 8
        count += sum(max(shard.tokens * width, SMALLEST_READ) for shard in dataset.shards)
    reading = -(-min(count, limits.inputs) * 1_000_000 // limits.fetched)
    longest = max(work.microseconds(limits), reading)
    seconds = max(_LEAST_S, -(-SHARES * longest // 1_000_000) + 1)
    Budget(limits, seconds).allow(work)
    return seconds


def put_data(store: ContentStore, kind: str, given: Sequence[str], prompts: Sequence[str]) -> str:
    """The CID of a task's data: a CID as it is, or the content of text files, or prompts.

    Raises DataError for what does not go together, StoreError.
    """
    files = [Path(item) for item in given if Path(item).is_file()]
    if prompts or kind == "generate":
        texts = [*prompts, *(raw.decode() for raw in read_documents(files))]
        if texts and len(files) == len(given):
            return put_prompts(store, texts)
    elif files and len(files) == len(given):
        return pack(read_documents(files), store)
    if len(given) == 1 and not files and not prompts:
        return given[0]
    raise DataError(
        "name the data: text files, prompts for a task that generates, or one CID of either"
    )


def build(fields: Mapping[str, Any], options: Sequence[str]) -> TaskSpec:
    """The spec of fields and of NAME=VALUE texts for the kind's options.

    Raises TaskError that lists what is wrong.
    """
    chosen = dict(fields.get("options") or {})
    for text in options:
        name, found, value = text.partition("=")
        if not found:
            raise TaskError("bad_spec", f"{text!r} is not NAME=VALUE")
        try:
            chosen[name] = json.loads(value)
        except ValueError:
            chosen[name] = value
    return build_spec({**fields, "options": chosen})
