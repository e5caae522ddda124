# SPDX-License-Identifier: Apache-2.0
"""What a job starts from: its spec, its genesis model, and every shard of its data.

Rule: each artefact against the digest that the chain or the spec names, and against what it says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agents.audit.sources.artefacts import Artefacts, guarded
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.runtime.errors import ConfigError
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.sealed import sealed_size
from agents.training.data import MAX_MANIFEST_BYTES, MAX_SHARD_BYTES, Dataset
from agents.training.spec import MAX_SPEC_BYTES, JobSpec, SpecError
from agents.training.state import State

_ANY_MEMORY = 1 << 62


def read_job(
    record: Record,
    artefacts: Artefacts,
    part: Part,
    progress: Callable[[str], None],
    data_key: bytes | None,
) -> tuple[JobContext | None, State | None]:
    """The job and its genesis model, None for what can't be had; differences go into `part`.

    `data_key`: of encrypted data, if the auditor was given it.
    """
    terms = record.job.terms
    artefacts.name(terms.spec, "job spec")
    artefacts.name(terms.genesis_checkpoint, "genesis checkpoint")
    digest = terms.spec
    job = guarded(part, "job", "job spec", lambda: _load_spec(artefacts, digest, data_key))
    if job is None:
        return None, None
    part.same("job", "job spec", "rounds", job.spec.rounds, terms.rounds)
    checkpoint, wanted = terms.genesis_checkpoint, terms.genesis_model
    state = guarded(
        part,
        "job",
        "genesis checkpoint",
        lambda: read_model(job, artefacts, checkpoint, wanted),
    )
    guarded(part, "job", "dataset", lambda: _read_data(artefacts, job, part, progress))
    return job, state


def _load_spec(artefacts: Artefacts, digest: bytes, data_key: bytes | None) -> JobContext:
    spec = JobSpec.from_bytes(artefacts.get_digest(digest, MAX_SPEC_BYTES))
    artefacts.name(spec.data, "dataset manifest")
    if spec.model.config_cid is not None:
        artefacts.name(spec.model.config_cid, "model config")
    try:
        return JobContext(spec, artefacts, lambda: data_key)
    except SpecError as error:
        JobContext(spec, artefacts, lambda: data_key, _ANY_MEMORY)  # else the spec itself is wrong
        raise ConfigError(f"This machine is too small to audit the job: {error}") from None


def _read_data(
    artefacts: Artefacts, job: JobContext, part: Part, progress: Callable[[str], None]
) -> None:
    """Every shard of the dataset, each against its CID and its length."""
    raw = artefacts.get(job.spec.data, MAX_MANIFEST_BYTES)
    dataset = Dataset.from_bytes(raw)
    itemsize = np.dtype(dataset.dtype).itemsize
    tokenizer = dataset.tokenizer
    if tokenizer is not None:
        artefacts.name(tokenizer, "tokenizer")
        guarded(part, "job", "tokenizer", lambda: artefacts.get(tokenizer, MAX_SHARD_BYTES))
    for index, shard in enumerate(dataset.shards):
        progress(f"shard {index + 1} of {len(dataset.shards)}")
        artefacts.name(shard.cid, f"shard {index}")
        size = shard.tokens * itemsize
        if job.spec.access == "encrypted":
            size = sealed_size(size)
        try:
            # One byte more: of a shard that is too long, its length is told.
            found = len(artefacts.get(shard.cid, size + 1))
        except StoreUnavailable:
            raise
        except StoreError:
            continue  # waits in `failures`
        part.same("job", f"shard {index}", "its length", found, size)
