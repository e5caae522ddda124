# SPDX-License-Identifier: Apache-2.0
"""A sponsor's commands: create a job from text files, fund it, cancel it, look at it.

ape run job create --network ... --account sponsor --data a.txt --data b.jsonl --rounds 100
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agents.runtime.errors import Reverted, TxRefused
from scripts._job.options import WINDOWS, packing_options, store_option, window_option
from scripts._job.packing import publish
from scripts._job.steps import (
    Step,
    adopting,
    funding,
    pays_scores,
    refuse_unadopted,
    take,
)
from scripts._job.terms import funded, rounds_of, terms_of
from scripts._shared.connecting import (
    ConnectedProviderCommand,
    account_option,
    network_option,
    reverting,
)
from scripts._shared.operator import (
    ZOO_AMOUNT,
    Contracts,
    afford,
    allow,
    deployment_option,
    explained,
    read_network_option,
    reading,
    rehearse,
    store_of,
    store_to_read,
    zoo,
)
from scripts._shared.signing import signing, yes_option
from scripts._shared.spec_file import spec_fields


@click.group()
def cli() -> None:
    """A sponsor's commands."""


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@packing_options
@click.option(
    "--fund-rounds", type=click.IntRange(0), help="Rounds to pay into escrow now (default: all)."
)
@yes_option
@deployment_option
@explained
def create(
    account: Any, deployment: Path | None, store: str | None, yes: bool, **given: Any
) -> None:
    """Pack the data, publish spec and genesis model, create the job and fund it.

    Terms and money are checked before anything is published or signed, and the known attacks are
    played on the job in this process, which takes a checkout and some seconds, or a minute or two
    where validators score. Where stakes unbond within hours, as on a local network, the default
    windows are a minute or two.
    """
    contracts = Contracts(deployment)
    store = store_of(store, contracts.chain_id)
    fields = spec_fields(given["spec"], given["rounds"])
    rounds = rounds_of(fields)
    terms = terms_of(contracts, account, fields, given)
    amount = funded(rounds, given["fund_rounds"]) * terms.reward_per_round
    afford(contracts, account, amount)
    published, key = publish(contracts, terms, fields, store, given)
    encoded = terms.encode(published)
    rehearse(contracts.TrainingJobs.create_job, encoded, sender=account)
    lines = [
        f"let the reward pool take {zoo(amount)}",
        f"create a job of {rounds} rounds, {zoo(terms.reward_per_round)} each",
        *(["have its verifiers' scores pay for the work"] * published.by_consensus),
        f"pay {zoo(amount)} into its escrow; what no round has taken comes back at the job's end",
        *(["announce the key of its data"] * (key is not None)),
    ]
    with signing(account, lines, yes):
        allow(contracts, account, contracts.RewardPool, amount)
        job_id = _created(contracts, account, encoded)
        click.echo(f"Job {job_id} is created.")
        take(job_id, _steps(contracts, account, job_id, terms, published, amount, key, given))
    click.echo(f"Job {job_id}: {published.spec.rounds} rounds, {zoo(amount)} in escrow.")
    click.echo(f"Follow it with `ape run job show {job_id}`.")
    if key is not None:
        click.echo(f"Its data is encrypted. Give its keys with `ape run keys serve {job_id}`.")


def _created(contracts: Contracts, account: Any, encoded: tuple[Any, ...]) -> int:
    """Send `create_job`; the new job's number, from the mined event: a count may be that of
    somebody else's job by now."""
    jobs = contracts.TrainingJobs
    try:
        with reverting():
            receipt = jobs.create_job(encoded, sender=account)
        return int(receipt.decode_logs([jobs.JobCreated])[0].job_id)
    except (Reverted, TxRefused):
        raise
    except BaseException:
        click.echo(
            "Whether the job was created is not known. Before you create it again, which may pay "
            "for a second one, look for it with `ape run status`.",
            err=True,
        )
        raise


def _steps(
    contracts: Contracts,
    account: Any,
    job_id: int,
    terms: Any,
    published: Any,
    amount: int,
    key: bytes | None,
    given: dict[str, Any],
) -> list[Step]:
    """What a job takes once it is created, in order: scores are adopted before there is money to
    open a round."""
    from agents.storage.cid import digest_of
    from agents.storage.sealed import key_id_of

    steps = []
    if published.by_consensus:
        adopt_scores, windows = contracts.ScoreConsensus.adopt, terms.score_windows
        command = adopting(job_id, windows)
        steps.append(Step(command, lambda: adopt_scores(job_id, *windows, sender=account)))
    if amount:
        paid = (job_id, account.address, digest_of(published.spec_cid), amount)
        pay = contracts.RewardPool.fund
        steps.append(Step(funding(job_id, amount), lambda: pay(*paid, sender=account)))
    if key is not None:
        announce, key_id = contracts.DataKeys.set_key, key_id_of(key)
        command = f"ape run keys announce {job_id} --key {given['data_key']}"
        steps.append(Step(command, lambda: announce(job_id, key_id, sender=account)))
    return steps


@cli.command("pack", cls=ConnectedProviderCommand)
@network_option()
@packing_options
@deployment_option
@explained
def pack(deployment: Path | None, store: str | None, **given: Any) -> None:
    """Pack the data and publish spec and genesis model; print what the web page creates a job of.

    Nothing is signed and nothing is paid: what is printed is pasted into the page, whose reader
    signs with a wallet. The terms are checked as `job create` checks them.
    """
    import json

    from agents.storage.sealed import key_id_of

    contracts = Contracts(deployment)
    store = store_of(store, contracts.chain_id)
    fields = spec_fields(given["spec"], given["rounds"])
    terms = terms_of(contracts, None, fields, given)
    published, key = publish(contracts, terms, fields, store, given)
    create_job = next(
        item for item in contracts.abi("TrainingJobs") if item.get("name") == "create_job"
    )
    names = [part["name"] for part in create_job["inputs"][0]["components"]]
    values = zip(names, terms.encode(published), strict=True)
    packed = {
        "chain_id": contracts.chain_id,
        "spec_cid": published.spec_cid,
        "terms": {name: _text(value) for name, value in values},
        "scores": list(map(str, terms.score_windows)) if published.by_consensus else None,
        "key_id": None if key is None else _text(key_id_of(key)),
    }
    click.echo(json.dumps(packed, indent=1))


def _text(value: bytes | int) -> str:
    """A value for JSON: bytes in hexadecimal, numbers in full."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@window_option("score-commit", "Verifiers' time to commit scores", "the job's commit window")
@window_option("score-reveal", "Verifiers' time to reveal them", "the job's reveal window")
@store_option
@yes_option
@deployment_option
@explained
def adopt(
    account: Any,
    job_id: int,
    score_commit_s: int | None,
    score_reveal_s: int | None,
    store: str | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Have the scores of verifiers pay for the work of JOB_ID, before its first round.

    ACCOUNT is the job's sponsor. `job create` does this for a job that needs it; what is left of a
    creation that stopped half-way is done with this. It can't be undone.
    """
    from agents.storage.content_store import open_store
    from agents.training.spec import SpecError

    contracts = Contracts(deployment)
    network = contracts.network()
    _check_job(network, job_id)
    terms = network.job(job_id).terms
    try:
        needed = pays_scores(open_store(store_to_read(store, contracts.chain_id)), terms.spec)
    except SpecError as error:
        raise click.ClickException(f"The spec of job {job_id} can't be used: {error}.") from None
    if not needed:
        raise click.ClickException(
            f"The spec of job {job_id} has no verifiers score its work: adopted, it would be paid "
            "by scores that no rule gives, and agents leave such a job."
        )
    windows = (score_commit_s or terms.commit_s, score_reveal_s or terms.reveal_s)
    scores = contracts.ScoreConsensus
    rehearse(scores.adopt, job_id, *windows, sender=account)
    with signing(account, [f"have verifiers' scores pay for the work of job {job_id}"], yes):
        scores.adopt(job_id, *windows, sender=account)
    click.echo(
        f"Job {job_id} is paid by scores: {windows[0]} s to commit, {windows[1]} s to reveal."
    )
    click.echo(f"`ape run job fund {job_id} AMOUNT` pays for its rounds.")


def _known_store(chosen: str | None, chain_id: int) -> str | None:
    """The store meant, None where none was named and there is no localnet's."""
    try:
        return store_to_read(chosen, chain_id)
    except click.ClickException:
        if chosen is not None:
            raise
        return None


def _check_job(network: Any, job_id: int) -> None:
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@click.argument("amount", type=ZOO_AMOUNT)
@store_option
@yes_option
@deployment_option
@explained
def fund(
    account: Any, job_id: int, amount: int, store: str | None, yes: bool, deployment: Path | None
) -> None:
    """Pay AMOUNT of ZOO into the escrow of JOB_ID, of which only its sponsor gets any back.

    The payment holds for the job of that id, sponsor and spec alone, as shown before it is made.
    Nothing is paid into a job that agents refuse, because scores are to pay for its work and its
    sponsor has not adopted them: its spec in the store tells.
    """
    from agents.storage.cid import cid_from_digest

    contracts = Contracts(deployment)
    sponsor, spec = contracts.TrainingJobs.origin_of(job_id)
    if not any(spec):
        raise click.ClickException(f"There is no job {job_id}.")
    whose = "you" if sponsor == account.address else sponsor
    click.echo(f"Job {job_id} is sponsored by {whose}; its spec is {cid_from_digest(spec)}.")
    refuse_unadopted(contracts.network(), job_id, _known_store(store, contracts.chain_id))
    pool = contracts.RewardPool
    afford(contracts, account, amount)
    rehearse(pool.fund, job_id, sponsor, spec, amount, sender=account)
    lines = [f"let the reward pool take {zoo(amount)}", f"pay it into the escrow of job {job_id}"]
    with signing(account, lines, yes):
        allow(contracts, account, pool, amount)
        pool.fund(job_id, sponsor, spec, amount, sender=account)
    click.echo(f"Job {job_id} has {zoo(contracts.RewardPool.escrow(job_id))} in escrow.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def cancel(account: Any, job_id: int, yes: bool, deployment: Path | None) -> None:
    """End JOB_ID after its running round; `job refund` then returns what is left in its escrow.

    What earlier rounds did not pay and the next one would have goes to the treasury.
    """
    contracts = Contracts(deployment)
    jobs = contracts.TrainingJobs
    rehearse(jobs.cancel_job, job_id, sender=account)
    actions = [f"end job {job_id} after its running round"]
    if carried := contracts.RewardPool.carried(job_id):
        actions.append(f"lose {zoo(carried)} of earlier rounds, which the next one would have paid")
    with signing(account, actions, yes):
        jobs.cancel_job(job_id, sender=account)
    ended = jobs.job_ended(job_id)
    click.echo(f"Job {job_id} is cancelled{'' if ended else ' once its running round is over'}.")
    click.echo(f"Then `ape run job refund {job_id}` returns what is left in its escrow.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def refund(account: Any, job_id: int, yes: bool, deployment: Path | None) -> None:
    """Return the unspent escrow of an ended job to its sponsor."""
    pool = Contracts(deployment).RewardPool
    amount = pool.escrow(job_id)
    rehearse(pool.refund, job_id, sender=account)
    with signing(account, [f"return {zoo(amount)} of job {job_id} to its sponsor"], yes):
        pool.refund(job_id, sender=account)
    click.echo(f"{zoo(amount)} went back to the sponsor of job {job_id}.")


@cli.command()
@read_network_option
@click.argument("job_id", type=click.IntRange(1))
@deployment_option
@explained
def show(choice: str, job_id: int, deployment: Path | None) -> None:
    """Show the terms of JOB_ID, its newest round and its money."""
    from rich.console import Console
    from rich.table import Table

    from agents.protocol.numbers import JobStatus, Phase
    from agents.protocol.scores import Consensus
    from agents.storage.cid import cid_from_digest
    from scripts._shared.job_queue import offers, standing

    network = reading(choice, deployment)
    _check_job(network, job_id)
    job = network.job(job_id)
    terms = job.terms
    table = Table(show_header=False, title=f"Job {job_id}")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    ending = job.status == JobStatus.ACTIVE and job.cancel_requested
    until = ", to be cancelled once its running round is over" if ending else ""
    table.add_row("status", JobStatus(job.status).name.lower() + until)
    table.add_row("sponsor", job.sponsor)
    table.add_row("rounds", f"{job.rounds_done} of {terms.rounds} done")
    if job.rounds_opened:
        round_ = network.round(job_id, job.rounds_opened)
        table.add_row("newest round", f"{job.rounds_opened}, {Phase(round_.phase).name.lower()}")
    table.add_row("reward per round", zoo(terms.reward_per_round))
    table.add_row("escrow", zoo(network.chain.call(network.pool, "escrow", job_id)))
    if carried := network.chain.call(network.pool, "carried", job_id):
        table.add_row("carried", f"{zoo(carried)} of earlier rounds, which the next one pays")
    cuts = f"verifiers {terms.verifier_bps / 100:g} %, aggregator {terms.aggregator_bps / 100:g} %"
    table.add_row("cuts", cuts)
    table.add_row("retained", f"{terms.retain_rounds} rounds' pay of a trainer")
    table.add_row("trainers", standing(offers(network), job_id))
    times = (f"{w} {timedelta(seconds=getattr(terms, f'{w}_s'))}" for w in WINDOWS)
    table.add_row("windows", ", ".join(times))
    commit_s, reveal_s = Consensus(network).windows(job_id)
    if commit_s:
        pair = (timedelta(seconds=commit_s), timedelta(seconds=reveal_s))
        table.add_row("paid by", "verifiers' scores: commit {}, reveal {}".format(*pair))
    table.add_row("spec", cid_from_digest(terms.spec))
    table.add_row("model", "0x" + job.model.hex())
    Console().print(table)
