# SPDX-License-Identifier: Apache-2.0
"""A job's data, model and spec are packed and published, and what a sponsor should know is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._job.judged import (
    checking,
    few_looked_at,
    refuse_any_size,
    refuse_attacked,
    refuse_riders,
    shown,
    too_few,
    trainers_leave,
)
from scripts._shared.operator import Contracts


def publish(
    contracts: Contracts, terms: Any, fields: dict[str, Any], store: str, given: dict[str, Any]
) -> tuple[Any, bytes | None]:
    """Play the attacks, pack and publish; the artefacts and the data's key, None without one.

    What a sponsor should know is said on the error stream.
    """
    from agents.jobs.job import JobContext
    from agents.jobs.judgeable import unjudgeable
    from agents.jobs.publish import USUAL_NODES, publish_job
    from agents.runtime.wallet import read_keystore, read_passphrase
    from agents.storage.content_store import open_store
    from agents.training.documents import DataError, read_documents, stdlib_corpus
    from agents.training.spec import SpecError
    from scripts._shared.job_classes import check_classes
    from scripts._shared.job_queue import expected, offers

    network = contracts.network()
    trainers = int(network.chain.call(network.registry, "role_count", 1))
    if queued := expected(offers(network), terms, trainers):
        click.echo(f"Note: {queued}", err=True)

    seated = min(max(trainers, 2), terms.max_nodes)
    refuse_attacked(network, terms, fields, given["though_attacks_pay"])

    key, key_file = None, given["data_key"]
    if key_file is not None:
        passphrase = read_passphrase(given["passphrase_env"], str(key_file))
        key = read_keystore(str(key_file), passphrase)
    elif given["one_key"]:
        raise click.UsageError("--one-key says how --data-key is used; name that too.")
    files = given["files"]
    documents = read_documents(files, given["field"]) if files else stdlib_corpus()
    read: dict[str, Any] = {
        key: given[key].read_bytes() for key in ("model_config", "tokenizer") if given[key]
    }
    fields, read = begun(given["model"], fields, read)
    if given["separator"] is not None:
        read["separator"] = given["separator"]
    try:
        published = publish_job(
            open_store(store),
            documents,
            fields,
            data_key=key,
            one_key=given["one_key"],
            shard_bytes=given["shard_bytes"],
            nodes=max(seated, USUAL_NODES),
            **read,
        )
    except (SpecError, DataError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"Published a model of {published.parameters:,} parameters and {published.tokens:,} "
        f"tokens of data; spec {published.spec_cid}",
        err=True,
    )
    pipeline = published.spec.pipeline
    stages = 1 if pipeline is None else len(pipeline.layers)
    check_classes(network, published.spec.classes, given["few_verifiers"])
    few = few_looked_at(published.spec, seated)
    job = JobContext(published.spec, open_store(store), lambda: key)
    if too_long := unjudgeable(job, terms):
        raise click.ClickException(f"The job is refused: {too_long}.")
    refuse_riders(job, given["though_attacks_pay"])
    refuse_any_size(job, given["though_attacks_pay"])
    seen = shown(job, seated)
    for sentence in (*checking(network, terms, published), *seen):
        click.echo(f"Note: {sentence}.", err=True)
    for warning in (
        *published.warnings,
        *too_few(stages, trainers),
        *few,
        *trainers_leave(job),
    ):
        click.echo(f"Warning: {warning}", err=True)
    return published, key


def begun(
    folder: Path | None, fields: dict[str, Any], read: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec's fields and what is published, with a model folder's where there is one. What the
    spec says of the model comes first, and so does a tokenizer that was named."""
    if folder is None:
        return fields, read
    from agents.models.hub import FolderError, read_folder

    if "model_config" in read:
        raise click.UsageError("--model has a config.json of its own; leave out --model-config.")
    try:
        found = read_folder(folder)
    except FolderError as error:
        raise click.ClickException(str(error)) from None
    read = {"model_config": found.config, "weights": found.weights, **read}
    if found.tokenizer is not None and "tokenizer" not in read:
        read |= {"tokenizer": found.tokenizer, "separator": found.separator}
    click.echo(f"It starts from the {found.parameters:,} weights in {folder}.", err=True)
    return {**fields, "model": {**found.fields, **fields.get("model", {})}}, read
