# SPDX-License-Identifier: Apache-2.0
"""The task that options describe: what they leave out is a job's, then a file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from scripts._shared.operator import Contracts
from scripts._shared.spec_file import fields_of


def described(
    contracts: Contracts,
    store: Any,
    file: Path | None,
    kind: str | None,
    job_id: int | None,
    model_file: Path | None,
    checkpoint: str | None,
    data: tuple[str, ...],
    prompts: tuple[str, ...],
    options: tuple[str, ...],
    label: str | None,
) -> Any:
    """The spec that the options describe; what they leave out is the job's, then the file's."""
    from agents.tasks.compute.classes import CPU
    from scripts._task.specs import build, put_data

    fields: dict[str, Any] = {"determinism": CPU, **fields_of(file)}
    if job_id is not None:
        fields |= _of_job(contracts, store, job_id)
    if model_file is not None:
        fields["model"] = fields_of(model_file)
    if kind is not None:
        fields["kind"] = kind
    if label is not None:
        fields["determinism"] = label
    if checkpoint is not None:
        path = Path(checkpoint)
        fields["checkpoint"] = store.put_file(path) if path.is_file() else checkpoint
    if data or prompts:
        fields["data"] = put_data(store, str(fields.get("kind")), data, prompts)
    elif fields.get("kind") == "generate" and file is None:
        raise click.UsageError("Name the texts to go on from with --prompt.")
    missing = [name for name in ("kind", "model", "checkpoint", "data") if name not in fields]
    if missing:
        raise click.UsageError(
            f"The task has no {', '.join(missing)}; give --spec, --job or the option of that name."
        )
    return build(_with_defaults(fields), options)


def class_id_of(tasks: Any, label: str) -> int:
    """The id of a class; a sentence that lists those there are if there is none of that name."""
    found: dict[str, int] = tasks.class_ids()
    if label not in found:
        raise click.ClickException(
            f"The network has no determinism class {label!r}; it has {', '.join(found)}."
        )
    return found[label]


def _of_job(contracts: Contracts, store: Any, job_id: int) -> dict[str, Any]:
    """Model, newest state and data of a job with public data."""
    from agents.jobs.outer_step import weights_of
    from agents.rounds.models import Models
    from agents.training.state import save_state

    network = contracts.network()
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")
    models = Models(network, store)
    job = models.job(job_id)
    spec = job.spec
    if spec.pipeline is not None:
        raise click.ClickException(
            f"The model of job {job_id} is split into stages, and a task runs a whole model."
        )
    found: dict[str, Any] = {"model": spec.model.model_dump()}
    weights = weights_of(models.current(job_id), job.shapes)
    found["checkpoint"] = store.put_bytes(save_state(weights))
    if spec.access == "public":
        found["data"] = spec.data
    return found


def _with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with sequences as long as the model allows, and a first small size of a task."""
    options = dict(fields.get("options") or {})
    longest = int(dict(fields["model"]).get("max_seq_len", 64))
    if fields["kind"] == "generate":
        options.setdefault("max_new_tokens", max(1, longest // 2))
    else:
        options.setdefault("seq_len", longest)
        size = "sequences" if fields["kind"] == "evaluate" else "steps"
        options.setdefault(size, 32)
    return {**fields, "options": options}
