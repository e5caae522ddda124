# SPDX-License-Identifier: Apache-2.0
"""The spec of a redundant task: everything that decides its result, named by CID or by value.

One task has one spelling: canonical JSON with every field written out, so equal tasks have equal
digests. Every number has a range and unknown keys are refused. What only one kind of task needs is
in its file in `agents/tasks/compute/kinds`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializeAsAny,
    StringConstraints,
    ValidationError,
    model_validator,
)

from agents.mechanisms.registry import UnknownMechanism
from agents.storage.canonical import dumps, loads
from agents.tasks.compute import options as kinds
from agents.tasks.compute.classes import LABEL
from agents.tasks.compute.errors import TaskError
from agents.tasks.compute.options import KindOptions
from agents.training.spec import Cid, Identifier, ModelSpec, describe

MAX_SPEC_BYTES: Final = 16 * 1024
MIN_HEAD_DIM: Final = 4

Label = Annotated[str, StringConstraints(pattern=LABEL)]


class TaskSpec(BaseModel):
    """One task.

    `kind` is what to do, a file of `agents/tasks/compute/kinds`, and `options` are that kind's own.
    `determinism` is the label of the class in which the result is defined. `checkpoint` is the CID
    of a state file of `model` (`agents.training.state`), as jobs publish them. `data` is the CID of
    what the kind reads: a dataset manifest (`agents.training.data`) or prompts.

    Only the built-in network is allowed: what a Hugging Face config builds depends on the version
    of a library that no determinism class names. And no heads of 2 numbers: torch's attention then
    takes a path that keeps every score, in time and memory that nobody would agree on beforehand.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1
    kind: Identifier
    determinism: Label
    model: ModelSpec
    checkpoint: Cid
    data: Cid
    options: SerializeAsAny[KindOptions]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.options.fits(self.model)
        return self

    def canonical(self) -> bytes:
        """Canonical JSON of every field, defaults included; `parse_spec` reads it back."""
        return dumps(self.model_dump(mode="json"))


def parse_spec(raw: bytes) -> TaskSpec:
    """Read the bytes that a spec's CID names.

    Raises:
        TaskError: anything else than `TaskSpec.canonical` of a spec in range. Nothing but TaskError
            leaves this function, whatever the bytes.
    """
    if len(raw) > MAX_SPEC_BYTES:
        raise TaskError(
            "bad_spec", f"the spec has {len(raw)} bytes, at most {MAX_SPEC_BYTES} are allowed"
        )
    try:
        fields = loads(raw)
    except ValueError as error:
        raise TaskError("bad_spec", f"the spec is not canonical JSON: {error}") from error
    spec = build_spec(fields)
    if spec.canonical() != raw:
        raise TaskError(
            "bad_spec",
            "the spec is not the canonical form of what it says; write every field, defaults too, "
            "and numbers with a fraction as such",
        )
    return spec


def build_spec(fields: Any) -> TaskSpec:
    """A spec from plain values; fields that are left out get their defaults.

    Raises:
        TaskError: lists every field that is wrong.
    """
    if not isinstance(fields, dict):
        raise TaskError("bad_spec", f"the spec is a {type(fields).__name__}, not an object")
    try:
        options = kinds.get(fields.get("kind"))
    except UnknownMechanism as error:
        raise TaskError("unknown_kind", str(error)) from error
    try:
        built = options.model_validate(fields.get("options", {}))
        spec = TaskSpec.model_validate({**fields, "options": built})
    except ValidationError as error:
        raise TaskError("bad_spec", f"the spec is wrong: {describe(error)}") from error
    except (OverflowError, json.JSONDecodeError) as error:
        raise TaskError("bad_spec", f"the spec holds a number out of range: {error}") from error
    if spec.model.kind != "llama":
        raise TaskError(
            "bad_model", f"model kind {spec.model.kind!r} has no deterministic result; use 'llama'"
        )
    if spec.model.d_model // spec.model.n_heads < MIN_HEAD_DIM:
        raise TaskError(
            "bad_model",
            f"d_model {spec.model.d_model} over n_heads {spec.model.n_heads} must be at least "
            f"{MIN_HEAD_DIM}",
        )
    return spec
