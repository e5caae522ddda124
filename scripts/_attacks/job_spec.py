# SPDX-License-Identifier: Apache-2.0
"""What of a job's spec the attacks are played at, besides merge and score: how many rounds it has,
how many trainers are drawn in any case, and what judging one of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from agents.jobs.verifying_pay import part_done_again
from agents.mechanisms import codec
from agents.training.spec import JobSpec, OptimizerSpec, PipelineSpec, SpecError, describe
from scripts._attacks.market import Numbers


def with_spec(numbers: Numbers, spec: Mapping[str, Any]) -> Numbers:
    """The same of a job with these fields of a spec. SpecError where one says what no spec may.

    What the fields leave out stays as it is.
    """
    return replace(
        numbers,
        spec=dict(spec),
        job_rounds=_number(spec, "rounds", numbers.job_rounds),
        sample=_number(spec, "audit_sample", numbers.sample),
        part=_part(spec, numbers.crowd),
        carried=_carried(spec),
    )


def _number(spec: Mapping[str, Any], name: str, otherwise: int | None = None) -> int:
    """A number of the spec, within its bounds. SpecError where it is none."""
    if name not in spec and otherwise is not None:
        return otherwise
    known = JobSpec.model_fields[name]
    value = spec.get(name, known.default)
    try:
        number: int = TypeAdapter(Annotated[known.annotation, *known.metadata]).validate_python(
            value
        )
    except ValidationError as error:
        raise SpecError(f"{name}: {error.errors()[0]['msg']}, got {value!r}") from error
    return number


def _part(spec: Mapping[str, Any], trainers: int) -> Fraction:
    """What of a drawn trainer's work is done again. SpecError where the spec does not say it."""
    try:
        pipeline = TypeAdapter(PipelineSpec | None).validate_python(spec.get("pipeline"))
    except ValidationError as error:
        raise SpecError(describe(error)) from error
    return part_done_again(pipeline, _number(spec, "batches_per_round"), trainers)


def _carried(spec: Mapping[str, Any]) -> int:
    """Rounds between resets of what nodes take from one into the next (`JobContext.looked_back`).
    SpecError where the spec does not say it."""
    try:
        pipeline = TypeAdapter(PipelineSpec | None).validate_python(spec.get("pipeline"))
        if pipeline is not None:
            sharing = pipeline.sharing
            if sharing is None or not _memory(sharing.codec, sharing.codec_options):
                return 0
            return sharing.full_every
        inner = TypeAdapter(OptimizerSpec).validate_python(spec.get("optimizer", {}))
        own = _memory(
            str(spec.get("codec", JobSpec.model_fields["codec"].default)),
            spec.get("codec_options", {}),
        )
    except ValidationError as error:
        raise SpecError(describe(error)) from error
    except (TypeError, ValueError) as error:
        raise SpecError(f"codec_options: {error}") from error
    return max(own, inner.inner_state_rounds if inner.inner_state == "kept" else 0)


def _memory(name: str, options: Mapping[str, Any]) -> int:
    """Rounds between resets of a codec's memory, 0 without one."""
    made = codec.get(name)(**options)
    return int(made.memory_rounds) if made.has_memory else 0
