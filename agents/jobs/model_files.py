# SPDX-License-Identifier: Apache-2.0
"""How a job's model is kept: as one file, or as one file a stage under an index.

Rule: a model that is trained whole is one safetensors file, named by `model_hash`. A model that is
split is never needed whole by those who train it. So each stage has a file of its own, the index
names these files with the hash of each stage, and the model's hash is sha2-256 over the stages'
hashes. A miner reads the index and its own stage, and has checked both against the chain.

An update of a split model has an index too. It names the hash of each stage after the update, so
whoever follows one stage can check it without the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from torch import Tensor

from agents.jobs.job import JobContext
from agents.jobs.outer_step import kept_shapes, stepped, weights_of
from agents.storage.canonical import dumps, loads
from agents.storage.cid import cid_of_bytes
from agents.training.spec import MAX_STAGES, Cid, describe
from agents.training.state import (
    PayloadError,
    Shapes,
    State,
    file_bound,
    load_state,
    model_hash,
    save_state,
)
from agents.training.update import pack_update, read_update

MAX_INDEX_BYTES = 16 * 1024
_DOMAIN = b"menagerie stages 1\0"


class Reader(Protocol):
    """Where the files are: bytes that have been checked against their name."""

    def get(self, cid: str, max_bytes: int) -> bytes: ...

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes: ...


class WrongModel(PayloadError):
    """Files that hold, or lead to, the model `found`, and `wanted` is recorded; 32 bytes each."""

    def __init__(self, what: str, found: bytes, wanted: bytes) -> None:
        super().__init__(f"{what} is {found.hex()}, and {wanted.hex()} is recorded")
        self.found, self.wanted = found, wanted


@dataclass(frozen=True)
class Packed:
    """Files of a model or an update. `parts` are named in `main`."""

    main: bytes
    parts: tuple[bytes, ...] = ()


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Stage(_Frozen):
    model: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    file: Cid


class Index(_Frozen):
    """What names the files of all stages, first to last. `model`: the hash of a stage's state."""

    version: Literal[1] = 1
    stages: Annotated[tuple[_Stage, ...], Field(min_length=1, max_length=MAX_STAGES)]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, raw: bytes, stages: int) -> Index:
        """Read the index of a model of so many stages. Raises PayloadError."""
        try:
            found = cls.model_validate(loads(raw))
        except ValidationError as error:
            raise PayloadError(f"the index of stages is wrong: {describe(error)[:300]}") from error
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the index of stages cannot be read: {error}") from error
        if len(found.stages) != stages or found.to_bytes() != raw:
            raise PayloadError(f"the index of stages is not the one spelling of {stages} stages")
        return found

    def hashes(self) -> list[bytes]:
        """Of the stages' states."""
        return [bytes.fromhex(stage.model) for stage in self.stages]


def hash_of(job: JobContext, state: Mapping[str, Tensor]) -> bytes:
    """The hash of a job's whole model, 32 bytes."""
    if job.slices is None:
        return model_hash(state)
    return _joined([model_hash(part) for part in parts_of(job, state)])


def parts_of(job: JobContext, state: Mapping[str, Tensor]) -> list[State]:
    """A whole state, or an update, cut into those of the stages; one part for a model that is not
    split."""
    if job.slices is None:
        return [dict(state)]
    stages = range(job.slices.last + 1)
    return [{n: state[n] for n in job.kept_shapes(i) if n in state} for i in stages]


def stage_of(job: JobContext, state: Mapping[str, Tensor], index: int) -> State:
    """The weights of one stage. `state`: of the whole model, or of that stage."""
    return weights_of(state, job.stage_shapes(index))


def pack_model(job: JobContext, state: Mapping[str, Tensor]) -> Packed:
    """The files of a model. PayloadError if a tensor is not fp32 or not finite."""
    return _pack(job, state, state, save_state)


def pack_change(
    job: JobContext, update: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> Packed:
    """The files of an update. `after`: the model that it leads to."""
    return _pack(job, update, after, pack_update)


def update_bound(job: JobContext) -> int:
    """Bytes that the file which the chain names as a round's update has at most."""
    return file_bound(job.shapes) if job.slices is None else MAX_INDEX_BYTES


def read_model(
    job: JobContext, store: Reader, digest: bytes, wanted: bytes, stage: int | None = None
) -> State:
    """The model of hash `wanted`, or one stage of it, from the files that `digest` names.

    Raises:
        WrongModel: the files hold another model.
        PayloadError: they can't be read.
        StoreError: the store doesn't have them.
    """
    if job.slices is None:
        shapes = job.kept_shapes()
        state = load_state(store.get_digest(digest, file_bound(shapes)), shapes)
        _same(model_hash(state), wanted)
        return state
    index = _index(job, store.get_digest(digest, MAX_INDEX_BYTES), wanted)
    return _by_stage(store, index, stage, job.kept_shapes, load_state)


def changed(
    job: JobContext,
    store: Reader,
    update: str,
    state: Mapping[str, Tensor],
    rate: float,
    wanted: bytes,
    stage: int | None = None,
) -> State:
    """The model of hash `wanted`, or one stage of it, from the one before and an update by CID.

    `rate`: the outer rate. Raises as `read_model`.
    """
    if job.slices is None:
        change = read_update(store.get(update, file_bound(job.shapes)), job.shapes)
        after = stepped(job.spec, state, change, rate)
        _same(model_hash(after), wanted)
        return after

    def after_update(raw: bytes, shapes: Shapes) -> State:
        own = {name: state[name] for name in kept_shapes(job.spec, shapes)}
        return stepped(job.spec, own, read_update(raw, shapes), rate)

    index = _index(job, store.get(update, MAX_INDEX_BYTES), wanted)
    return _by_stage(store, index, stage, job.stage_shapes, after_update)


def _pack(
    job: JobContext,
    content: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    pack: Callable[[Mapping[str, Tensor]], bytes],
) -> Packed:
    if job.slices is None:
        return Packed(pack(content))
    files = tuple(pack(part) for part in parts_of(job, content))
    lines = [
        _Stage(model=model_hash(part).hex(), file=cid_of_bytes(file))
        for part, file in zip(parts_of(job, after), files, strict=True)
    ]
    return Packed(Index(stages=tuple(lines)).to_bytes(), files)


def _by_stage(
    store: Reader,
    index: Index,
    stage: int | None,
    shapes_of: Callable[[int], Shapes],
    read: Callable[[bytes, Shapes], State],
) -> State:
    """What `read` makes of the file of one stage, or of each, checked against the index.

    `shapes_of`: the tensors that the file of a stage has.
    """
    found: State = {}
    for number in range(len(index.stages)) if stage is None else [stage]:
        shapes, entry = shapes_of(number), index.stages[number]
        part = read(store.get(entry.file, file_bound(shapes)), shapes)
        _same(model_hash(part), bytes.fromhex(entry.model), number)
        found |= part
    return found


def _index(job: JobContext, raw: bytes, wanted: bytes) -> Index:
    assert job.slices is not None
    index = Index.from_bytes(raw, job.slices.last + 1)
    _same(_joined(index.hashes()), wanted)
    return index


def _joined(hashes: Sequence[bytes]) -> bytes:
    return hashlib.sha256(_DOMAIN + b"".join(hashes)).digest()


def _same(found: bytes, wanted: bytes, stage: int | None = None) -> None:
    if found != wanted:
        what = "the model" if stage is None else f"stage {stage} of the model"
        raise WrongModel(what, found, wanted)
