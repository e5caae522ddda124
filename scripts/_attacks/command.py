# SPDX-License-Identifier: Apache-2.0
"""`ape run economics attacks`: numbers from options, from a network, or the usual ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from agents.jobs.publish import retained_by_default
from agents.mechanisms import verify
from agents.runtime.files import SPEC_BYTES, read_yaml
from agents.storage.durable import write_atomic
from agents.tasks.contract import Tasks
from agents.training.spec import SpecError
from scripts._attacks.attack import Attack
from scripts._attacks.catalogue import FAMILIES, attacks, honest_rows, play
from scripts._attacks.deployed import deployed, with_terms
from scripts._attacks.embedded import WHERE_PLAYED, Refused, lacking
from scripts._attacks.honest import fairly_paid
from scripts._attacks.job_spec import with_spec
from scripts._attacks.market import Numbers
from scripts._attacks.table import honest_table, printed, said, verdict
from scripts._attacks.table import page as as_page
from scripts._attacks.task_pool import TaskNumbers
from scripts._net.deployment import DeploymentSettings
from scripts._shared.operator import reading, store_of

FULL_ROUNDS, FULL_SEEDS = 20, 3
_MOST_WORKERS = 4  # half a GB each
_HONEST = 2  # trainers
_FEW = 40  # attacks, which one process has played before others have begun
# Of a page, around what is written into it.
BEGIN, END = "<!-- attacks -->", "<!-- end -->"
# Options that replace a number of the same name.
_NUMBERS = ("nodes", "stake", "verifiers", "verifier_stake", "compute", "sample", "share")


def run(
    *,
    rpc: str | None,
    job: int | None,
    spec: Path | None,
    families: Sequence[str],
    full: bool,
    plot: Path | None,
    page: Path | None,
    store: str | None,
    deployment: Path | None,
    **given: Any,
) -> None:
    """Play, with progress on standard error, and print. Raises click.ClickException."""
    if (why := lacking()) is not None:
        raise click.ClickException(f"Attacks can't be played, because {why}. {WHERE_PLAYED}")
    unknown = set(families) - set(FAMILIES)
    if unknown:
        raise click.UsageError(f"--family: {min(unknown)!r} is none of {', '.join(FAMILIES)}.")
    if page is not None and str(page) != "-":
        _around_marks(page)  # it is refused before the attacks are played, not after
    numbers, of_tasks = _read(rpc, job, store, deployment)
    seats = numbers.terms.max_nodes
    if job is not None and (given.get("nodes") or 0) > seats:
        raise click.UsageError(f"--nodes: job {job} has seats for {seats} trainers.")
    scored = None
    try:
        numbers = chosen(numbers, spec, full, given)
        if job is None:
            numbers, scored = usual(numbers, given), usual(numbers, given, by_scores=True)
    except ValueError as error:  # of the spec, among them mechanisms that there are not
        raise click.ClickException(f"No such job can be played: {error}.") from None
    _somebody_honest(numbers)
    if given.get("judges") is not None:
        of_tasks = replace(of_tasks, judges=given["judges"])
    steps = Console(stderr=True)
    due = [one for one in attacks(of_tasks) if one.family in (families or FAMILIES)]
    with steps.status("Deploying the contracts") as status:
        places = count(1)

        def begun(attack: Attack) -> None:
            status.update(f"{next(places)} of {len(due)}, {attack.full_name}")

        try:
            workers = min(_MOST_WORKERS, os.cpu_count() or 1) if len(due) > _FEW else 1
            found = list(play(numbers, families or FAMILIES, begun, of_tasks, workers, scored))
            status.update("honest work")
            honest = honest_rows(numbers, of_tasks, scored)
        except Refused as error:
            raise click.ClickException(f"The contracts refuse these numbers: {error}.") from None
        except SpecError as error:
            raise click.ClickException(f"No such job can be played: {error}.") from None
        if plot is not None:
            status.update("Drawing")
            from scripts._attacks.plot import write_plot

            try:
                write_plot(plot, numbers)
            except ValueError as error:
                raise click.ClickException(f"{plot}: {error}") from None
    told = verdict(found)
    if page is not None:
        text = f"{said(numbers, scored)} {told}\n\n{as_page(found, honest)}"
        if str(page) == "-":
            click.echo(text, nl=False)
        else:
            write_page(page, text)
            click.echo(f"Written: {page}")
        return
    console = Console()
    console.print(honest_table(honest))
    console.print()
    console.print(printed(found))
    click.echo(said(numbers, scored))
    click.echo(told)
    if plot is not None:
        click.echo(f"Drawn: {plot}")


def write_page(path: Path, text: str) -> None:
    """Put text between the marks of a file. Raises click.ClickException where it has none."""
    before, after = _around_marks(path)
    page = f"{before}{BEGIN}\n\n{text}\n{END}{after}"
    write_atomic(path, page.encode(), mode=0o644)


def _around_marks(path: Path) -> tuple[str, str]:
    """What a page has before its first mark and after its last one. Raises as `write_page`."""
    try:
        before, begin, rest = path.read_text().partition(BEGIN)
    except OSError as error:
        raise click.ClickException(f"{path} can't be read: {error.strerror}.") from None
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise click.ClickException(f"{path} has no lines {BEGIN} and {END} to write between.")
    return before, after


def chosen(numbers: Numbers, spec: Path | None, full: bool, given: Mapping[str, Any]) -> Numbers:
    """The numbers with what was given in their place."""
    changes = {name: given[name] for name in _NUMBERS if given.get(name) is not None}
    terms = numbers.terms
    if given.get("reward") is not None:
        terms = replace(terms, reward_per_round=given["reward"])
    if given.get("retain_rounds") is not None:
        terms = replace(terms, retain_rounds=given["retain_rounds"])
    if given.get("verifiers_cut") is not None:
        terms = replace(terms, verifier_bps=round(100 * given["verifiers_cut"]))
    if full:
        changes |= {"rounds": FULL_ROUNDS, "seeds": FULL_SEEDS}
    if "nodes" not in changes:
        changes["nodes"] = min(numbers.nodes, terms.max_nodes)
        changes["trainers"] = min(numbers.crowd, terms.max_nodes)
    else:
        changes["trainers"] = 0
        terms = replace(terms, max_nodes=max(terms.max_nodes, changes["nodes"]))
    numbers = replace(numbers, terms=terms, **changes)
    if spec is not None:
        numbers = with_spec(numbers, read_yaml(spec, SPEC_BYTES))
        if given.get("sample") is not None:
            numbers = replace(numbers, sample=given["sample"])
    return _admitted(numbers, given.get("fee"))


def _somebody_honest(numbers: Numbers) -> None:
    """UsageError where an attacker has more than the attacks can be played with: two trainers are
    honest, and most of the verifiers."""
    evil, judges = numbers.evil_nodes, numbers.evil_verifiers
    if numbers.nodes - evil >= _HONEST and 2 * judges < numbers.verifiers:
        return
    raise click.UsageError(
        f"--share {numbers.share:.3g} gives the attacker {evil} of {numbers.nodes} trainers and "
        f"{judges} of {numbers.verifiers} verifiers. The attacks are played where two trainers and "
        "more than half of the verifiers are honest."
    )


def usual(numbers: Numbers, given: Mapping[str, Any], by_scores: bool = False) -> Numbers:
    """The numbers with what `job create` chooses where nothing was: rounds whose pay is retained,
    and a verifiers' cut that pays for doing work again at the cost of computing. Where nothing is
    done again, the cut is a job's without that: `by_scores`, a job that verifiers' scores pay, or
    a spec that says so."""
    if given.get("retain_rounds") is None:
        least = numbers.settings.least_retained if numbers.settings else 0
        retained = max(least, retained_by_default(numbers.job_rounds))
        terms = replace(numbers.terms, retain_rounds=retained)
        numbers = replace(numbers, terms=terms)
    if given.get("verifiers_cut") is None:
        redone = verify.get(str(numbers.spec.get("verify", "reexecution"))).redone
        return fairly_paid(numbers) if redone and not by_scores else numbers
    cut = round(100 * given["verifiers_cut"])
    return replace(numbers, terms=replace(numbers.terms, verifier_bps=cut))


def _admitted(numbers: Numbers, fee: int | None) -> Numbers:
    """The same in a deployment that asks for no more stake than the nodes have, and whose tasks
    cost at most `fee`."""
    settings = numbers.settings or DeploymentSettings(members=(), holder="")
    tasks = replace(settings.tasks, task_stake=min(settings.tasks.task_stake, numbers.stake))
    if fee is not None:
        tasks = replace(tasks, max_fee=fee)
    settings = replace(
        settings,
        trainer_stake=min(settings.trainer_stake, numbers.stake),
        verifier_stake=min(settings.verifier_stake, numbers.verifier_stake),
        tasks=tasks,
    )
    return replace(numbers, settings=settings)


def _read(
    rpc: str | None, job: int | None, store: str | None, deployment: Path | None
) -> tuple[Numbers, TaskNumbers]:
    if rpc is None:
        if job is not None:
            raise click.UsageError("--job takes --rpc, the node that has it.")
        return Numbers(), TaskNumbers()
    network = reading(rpc, deployment)
    able = Tasks(network).recheckers()[0]
    numbers, of_tasks = deployed(network), TaskNumbers(judges=able.count)
    if job is None:
        return numbers, of_tasks
    if not 1 <= job <= network.job_count():
        raise click.ClickException(f"There is no job {job}; there are {network.job_count()}.")
    from agents.jobs.job import JobContexts
    from agents.storage.content_store import open_store

    opened = open_store(store_of(store, network.chain.chain_id()))
    read = JobContexts(network, opened).context(job).spec
    terms = network.job(job).terms
    numbers = with_terms(numbers, terms)
    numbers = replace(numbers, trainers=min(numbers.crowd, terms.max_nodes))
    return with_spec(numbers, read.model_dump(mode="json")), of_tasks
