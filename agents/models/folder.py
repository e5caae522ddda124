# SPDX-License-Identifier: Apache-2.0
"""A model in a folder of plain files, and everything that is needed to run it without a network.

The folder holds `model.safetensors`, `provenance.json`, `spec.json`, the dataset's manifest
`dataset.json`, and where the job has them `config.json` and `tokenizer.json`. The weights are
hashed whenever the folder is opened: a folder whose files do not belong together is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agents.jobs.job import JobContext
from agents.jobs.model_files import hash_of
from agents.jobs.outer_step import weights_of
from agents.models.provenance import MAX_PROVENANCE_BYTES, Provenance, ProvenanceError
from agents.storage.cid import cid_of_bytes
from agents.storage.durable import write_atomic
from agents.storage.errors import NotFound
from agents.training.data import MAX_MANIFEST_BYTES, MAX_TOKENIZER_BYTES, Dataset
from agents.training.documents import DataError
from agents.training.spec import MAX_SPEC_BYTES, JobSpec, SpecError
from agents.training.state import PayloadError, State, file_bound, load_state, save_state

WEIGHTS, PROVENANCE = "model.safetensors", "provenance.json"
SPEC, DATASET, CONFIG, TOKENIZER = "spec.json", "dataset.json", "config.json", "tokenizer.json"
_BOUNDS = {
    PROVENANCE: MAX_PROVENANCE_BYTES,
    SPEC: MAX_SPEC_BYTES,
    DATASET: MAX_MANIFEST_BYTES,
    CONFIG: MAX_MANIFEST_BYTES,
    TOKENIZER: MAX_TOKENIZER_BYTES,
}


class FolderError(ValueError):
    """A folder that holds no model, or files that don't belong together; says what to do."""


class Files:
    """A few artefacts in memory, by their CIDs: what a job reads of its store."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        """`contents`: by the name of the file."""
        self.by_name = dict(contents)
        self._by_cid = {cid_of_bytes(raw): raw for raw in contents.values()}

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The content of this CID. Raises NotFound."""
        if cid not in self._by_cid:
            raise NotFound(f"{cid} is not among the model's files")
        return self._by_cid[cid]


@dataclass(frozen=True)
class ModelFolder:
    """A model that lies in a folder, its small files read and checked."""

    path: Path
    provenance: Provenance
    files: Files

    @classmethod
    def open(cls, path: Path) -> ModelFolder:
        """Read a folder. Raises FolderError."""
        if not (path / PROVENANCE).is_file():
            raise FolderError(
                f"{path} holds no model of a job: there is no {PROVENANCE}. Fetch one with "
                "`ape run model pull`."
            )
        contents = {
            name: raw for name in _BOUNDS if (raw := _read(path / name, _BOUNDS[name])) is not None
        }
        try:
            provenance = Provenance.from_bytes(contents.pop(PROVENANCE))
        except ProvenanceError as error:
            raise FolderError(f"{path / PROVENANCE}: {error}. {_AGAIN}.") from error
        if SPEC not in contents or cid_of_bytes(contents[SPEC]) != provenance.spec:
            raise FolderError(f"{path / SPEC} is not the spec {provenance.spec}. {_AGAIN}.")
        return cls(path, provenance, Files(contents))

    def save(self, state: State) -> None:
        """Write the folder; what says that the model is complete comes last."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / PROVENANCE).unlink(missing_ok=True)
        for name in (CONFIG, TOKENIZER):
            (self.path / name).unlink(missing_ok=True)
        for name, raw in self.files.by_name.items():
            write_atomic(self.path / name, raw, mode=0o644)
        write_atomic(self.path / WEIGHTS, save_state(state), mode=0o644)
        write_atomic(self.path / PROVENANCE, self.provenance.to_bytes(), mode=0o644)

    @cached_property
    def job(self) -> JobContext:
        """The job's fixed facts. Raises FolderError, SpecError."""
        try:
            return JobContext(JobSpec.from_bytes(self.files.by_name[SPEC]), self.files)
        except NotFound as error:
            raise FolderError(f"{self.path} is not complete: {error}. {_AGAIN}.") from error
        except SpecError as error:
            raise FolderError(f"{self.path / SPEC}: {error}") from error

    @cached_property
    def dataset(self) -> Dataset:
        """The manifest of the data that the job trains on."""
        try:
            return Dataset.from_bytes(self.files.get(self.job.spec.data, MAX_MANIFEST_BYTES))
        except (NotFound, DataError) as error:
            raise FolderError(f"{self.path / DATASET}: {error}. {_AGAIN}.") from error

    @property
    def config(self) -> bytes | None:
        """The model's config.json, of a job that has one."""
        cid = self.job.spec.model.config_cid
        return None if cid is None else self.files.get(cid, MAX_MANIFEST_BYTES)

    @property
    def tokenizer(self) -> bytes | None:
        """The data's tokenizer.json; None for bytes. Raises FolderError if it is missing."""
        cid = self.dataset.tokenizer
        if cid is None:
            return None
        try:
            return self.files.get(cid, MAX_TOKENIZER_BYTES)
        except NotFound as error:
            raise FolderError(f"{self.path / TOKENIZER}: {error}. {_AGAIN}.") from error

    def state(self) -> State:
        """The weights. Raises FolderError unless the file is the recorded model.

        The file of a job whose outer step has momentum holds the velocity, too: it is hashed, and
        nothing else is done with it here.
        """
        path, job = self.path / WEIGHTS, self.job
        shapes = job.kept_shapes()
        try:
            state = load_state(_read(path, file_bound(shapes)) or b"", shapes)
        except PayloadError as error:
            raise FolderError(f"{path}: {error}. {_AGAIN}.") from error
        found = hash_of(job, state).hex()
        if found != self.provenance.model:
            raise FolderError(
                f"{path} is the model {found}, and the ledger records {self.provenance.model}. "
                f"{_AGAIN}."
            )
        return weights_of(state, job.shapes)


_AGAIN = "Fetch it again with `ape run model pull`"


def _read(path: Path, most: int) -> bytes | None:
    """A file's content, None if there is no such file. Raises FolderError if it is too long."""
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(raw) > most:
        raise FolderError(f"{path} has more than {most} bytes. {_AGAIN}.")
    return raw
