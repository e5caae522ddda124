# SPDX-License-Identifier: Apache-2.0
"""A task's result is fetched, verified against the chain and shown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import TaskStatus
from scripts._task.sentences import sentences
from scripts._task.standing import decision, tasks_of

MAX_PAYLOAD = 1 << 30
LOOK_S = 1.0  # between two looks at a task


def show_result(network: Any, store: Any, task_id: int, wait: bool, out: Path | None) -> None:
    """Show the result of a task, verified, once there is one."""
    from agents.protocol.formulas import UNAVAILABLE
    from agents.storage.durable import write_atomic
    from agents.storage.errors import NotFound
    from agents.tasks.compute.spec import MAX_SPEC_BYTES
    from scripts._shared.task_words import NoAnswer, result_lines, sentence

    tasks = tasks_of(network, task_id)
    told = ""
    while True:
        task, appeal = tasks.task(task_id), tasks.appeal(task_id)
        expected, decided = tasks.expected(task_id), decision(network, task, appeal)
        text = sentence(task, appeal, network.chain.chain_time(), expected, decided=decided)
        # What verifiers found stands for good; what executors agreed on may still be appealed.
        verdict = appeal.result
        digest = verdict if any(verdict) else task.result
        digest, payload = None if digest == UNAVAILABLE else digest, None
        if digest is not None:
            try:
                payload = store.get_digest(digest, MAX_PAYLOAD)
            except NotFound:
                text = f"{text} The store does not have the result yet."
        ended = task.status in (TaskStatus.UNDECIDED, TaskStatus.CLOSED) and digest is None
        if payload is not None or ended or not wait:
            break
        if text.split(",")[0] != told:
            told = text.split(",")[0]
            click.echo(text)
        time.sleep(LOOK_S)
    if payload is None:
        raise click.ClickException(f"Task {task_id} has no result to show. {text}")
    if out is not None:
        write_atomic(out, payload, mode=0o644)
        click.echo(f"Written to {out}.")
    with sentences():
        raw = store.get_digest(task.spec, MAX_SPEC_BYTES)
    kind, shapes = _kind(raw)
    try:
        lines = result_lines(kind, payload, task.spec, shapes)
    except NoAnswer as error:
        click.echo(text)
        raise click.ClickException(
            f"This is no answer to a task of this kind: {error}. "
            f"{_against(task, appeal, network.chain.chain_time())}"
        ) from None
    for line in lines:
        click.echo(line)
    click.echo(text)


def _kind(raw_spec: bytes) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A task's kind, and the shapes of the model whose checkpoint it gives; nothing where the
    spec is none: the answer to that is a refusal."""
    from agents.tasks.compute.errors import TaskError
    from agents.tasks.compute.spec import parse_spec
    from agents.training.model import template

    try:
        spec = parse_spec(raw_spec)
    except TaskError:
        return "", {}
    try:
        return spec.kind, template(spec.model) if spec.kind == "train_steps" else {}
    except ValueError:  # a network beyond all bounds, which nodes refuse
        return spec.kind, {}


def _against(task: Any, appeal: Any, now: int) -> str:
    """What can be done against a wrong result."""
    number = task.task_id
    if task.appealable(now):
        return f"`ape run task appeal {number}` has verifiers run the task again, for a bond."
    if appeal.deadline:
        return f"It is appealed; `ape run task status {number}` says until when verifiers decide."
    return "It can't be appealed, or not any more."
