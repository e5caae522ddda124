# SPDX-License-Identifier: Apache-2.0
"""A sponsor's commands: create a job from text files, fund it, cancel it, look at it.

ape run job create --network ... --account sponsor --data a.txt --data b.jsonl --rounds 100
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, account_option, network_option

from agents.runtime.files import SPEC_BYTES, read_yaml
from scripts._shared.operator import (
    LOCAL_CHAINS,
    LOCALNET,
    ZOO_AMOUNT,
    Contracts,
    allow,
    deployment_option,
    explained,
    zoo,
)

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SCORE_COMMIT = "Verifiers' time to commit scores (score gauntlet)."
SCORE_REVEAL = "Verifiers' time to reveal them."


@click.group()
def cli() -> None:
    """A sponsor's commands."""


def _spec_fields(path: Path | None, rounds: int | None) -> dict[str, Any]:
    """Return the spec's fields from a YAML or JSON file, with `rounds` set over it."""
    try:
        fields = read_yaml(path, SPEC_BYTES) if path else {}
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be used: {error}.") from None
    if not isinstance(fields, dict):
        raise click.ClickException(f"{path} must hold the spec's fields by name.")
    return fields if rounds is None else {**fields, "rounds": rounds}


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--data", "files", type=FILE, multiple=True, help=".txt, .jsonl or .parquet file.")
@click.option("--field", default="text", show_default=True, help="Key or column with the text.")
@click.option("--spec", type=FILE, help="Fields of the job spec, YAML or JSON.")
@click.option("--model-config", type=FILE, help="A Hugging Face config.json (extra: hf).")
@click.option("--tokenizer", type=FILE, help="A Hugging Face tokenizer.json (extra: hf).")
@click.option("--separator", type=int, help="Token between documents, with --tokenizer.")
@click.option("--rounds", type=int, help="Rounds until the job is complete.")
@click.option("--reward", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO per round.")
@click.option("--fund-rounds", type=int, help="Rounds to pay into escrow now (default: all).")
@click.option("--max-nodes", type=int, default=64, show_default=True)
@click.option("--commit-s", type=int, default=600, show_default=True, help="Commit window.")
@click.option("--reveal-s", type=int, default=300, show_default=True, help="Reveal window.")
@click.option("--aggregate-s", type=int, default=300, show_default=True, help="Duty window.")
@click.option("--challenge-s", type=int, default=1_800, show_default=True, help="Challenge window.")
@click.option("--appeal-s", type=int, default=86_400, show_default=True, help="Appeal window.")
@click.option("--dispute-s", type=int, default=259_200, show_default=True, help="Committee's time.")
@click.option("--score-commit-s", type=int, default=600, show_default=True, help=SCORE_COMMIT)
@click.option("--score-reveal-s", type=int, default=300, show_default=True, help=SCORE_REVEAL)
@click.option("--bond", type=ZOO_AMOUNT, default="100", show_default=True, help="A challenge's.")
@click.option("--store", help="A folder, or the URL of a Kubo node (default: localnet's folder).")
@click.option("--data-key", type=FILE, help="Encrypt the data with this file of `keys new`.")
@click.option("--passphrase-env", help="Variable with that file's passphrase (default: ask).")
@deployment_option
@explained
def create(account: Any, deployment: Path | None, store: str | None, **given: Any) -> None:
    """Pack the data, publish spec and genesis model, create the job and fund it."""
    from agents.jobs.publish import Terms, publish_job
    from agents.runtime.wallet import read_keystore, read_passphrase
    from agents.storage.content_store import open_store
    from agents.storage.sealed import key_id_of
    from agents.training.documents import DataError, read_documents, stdlib_corpus
    from agents.training.spec import SpecError

    contracts = Contracts(deployment)
    if store is None:
        if contracts.chain_id not in LOCAL_CHAINS:
            raise click.UsageError("Name a store with --store: a folder, or a Kubo node's URL.")
        store = str(LOCALNET / "store")
    key, key_file = None, given["data_key"]
    if key_file is not None:
        passphrase = read_passphrase(given["passphrase_env"], str(key_file))
        key = read_keystore(str(key_file), passphrase)
    files = given["files"]
    documents = read_documents(files, given["field"]) if files else stdlib_corpus()
    read = {key: given[key].read_bytes() for key in ("model_config", "tokenizer") if given[key]}
    try:
        published = publish_job(
            open_store(store),
            documents,
            _spec_fields(given["spec"], given["rounds"]),
            separator=given["separator"],
            data_key=key,
            **read,
        )
    except (SpecError, DataError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"Published a model of {published.parameters:,} parameters and {published.tokens:,} "
        f"tokens of data; spec {published.spec_cid}"
    )
    for warning in published.warnings:
        click.echo(f"Warning: {warning}", err=True)
    terms = Terms(
        reward_per_round=given["reward"],
        max_nodes=given["max_nodes"],
        commit_s=given["commit_s"],
        reveal_s=given["reveal_s"],
        aggregate_s=given["aggregate_s"],
        challenge_s=given["challenge_s"],
        appeal_s=given["appeal_s"],
        dispute_s=given["dispute_s"],
        challenge_bond=given["bond"],
        score_commit_s=given["score_commit_s"],
        score_reveal_s=given["score_reveal_s"],
    )
    rounds = published.spec.rounds if given["fund_rounds"] is None else given["fund_rounds"]
    amount = rounds * terms.reward_per_round
    allow(contracts, account, contracts.RewardPool, amount)
    encoded = terms.encode(published)
    receipt = contracts.TrainingJobs.create_job(encoded, sender=account)
    # From the mined event: a count may be that of somebody else's job by now.
    job_id = receipt.decode_logs([contracts.TrainingJobs.JobCreated])[0].job_id
    if published.by_consensus:
        contracts.ScoreConsensus.adopt(job_id, *terms.score_windows, sender=account)
    if amount:
        contracts.RewardPool.fund(job_id, account.address, encoded[0], amount, sender=account)
    click.echo(f"Job {job_id}: {published.spec.rounds} rounds, {zoo(amount)} in escrow.")
    if key is not None:
        contracts.DataKeys.set_key(job_id, key_id_of(key), sender=account)
        click.echo(f"Its data is encrypted. Release the key with `ape run keys serve {job_id}`.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=int)
@click.argument("amount", type=ZOO_AMOUNT)
@deployment_option
@explained
def fund(account: Any, job_id: int, amount: int, deployment: Path | None) -> None:
    """Pay AMOUNT of ZOO into the escrow of JOB_ID, of which only its sponsor gets any back.

    The payment holds for the job of that id, sponsor and spec alone, as shown before it is made.
    """
    from agents.storage.cid import cid_from_digest

    contracts = Contracts(deployment)
    sponsor, spec = contracts.TrainingJobs.origin_of(job_id)
    if not any(spec):
        raise click.ClickException(f"There is no job {job_id}.")
    whose = "you" if sponsor == account.address else sponsor
    click.echo(f"Job {job_id} is sponsored by {whose}; its spec is {cid_from_digest(spec)}.")
    allow(contracts, account, contracts.RewardPool, amount)
    contracts.RewardPool.fund(job_id, sponsor, spec, amount, sender=account)
    click.echo(f"Job {job_id} has {zoo(contracts.RewardPool.escrow(job_id))} in escrow.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=int)
@deployment_option
@explained
def cancel(account: Any, job_id: int, deployment: Path | None) -> None:
    """End JOB_ID after its running round; `job refund` then returns what is left."""
    jobs = Contracts(deployment).TrainingJobs
    jobs.cancel_job(job_id, sender=account)
    ended = jobs.job_ended(job_id)
    click.echo(f"Job {job_id} is cancelled{'' if ended else ' once its running round is over'}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=int)
@deployment_option
@explained
def refund(account: Any, job_id: int, deployment: Path | None) -> None:
    """Return the unspent escrow of an ended job to its sponsor."""
    pool = Contracts(deployment).RewardPool
    amount = pool.escrow(job_id)
    pool.refund(job_id, sender=account)
    click.echo(f"{zoo(amount)} went back to the sponsor of job {job_id}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@click.argument("job_id", type=int)
@deployment_option
@explained
def show(job_id: int, deployment: Path | None) -> None:
    """Show the terms of JOB_ID, its newest round and its money."""
    from rich.console import Console
    from rich.table import Table

    from agents.protocol.numbers import JobStatus, Phase
    from agents.storage.cid import cid_from_digest

    contracts = Contracts(deployment)
    network = contracts.network()
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")
    job = network.job(job_id)
    terms = job.terms
    table = Table(show_header=False, title=f"Job {job_id}")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("status", JobStatus(job.status).name.lower())
    table.add_row("sponsor", job.sponsor)
    table.add_row("rounds", f"{job.rounds_done} of {terms.rounds} done")
    if job.rounds_opened:
        round_ = network.round(job_id, job.rounds_opened)
        table.add_row("newest round", f"{job.rounds_opened}, {Phase(round_.phase).name.lower()}")
    table.add_row("reward per round", zoo(terms.reward_per_round))
    table.add_row("escrow", zoo(contracts.RewardPool.escrow(job_id)))
    cuts = f"verifiers {terms.verifier_bps / 100:g} %, aggregator {terms.aggregator_bps / 100:g} %"
    table.add_row("cuts", cuts)
    windows = ("commit", "reveal", "aggregate", "challenge", "appeal", "dispute")
    times = (f"{w} {timedelta(seconds=getattr(terms, f'{w}_s'))}" for w in windows)
    table.add_row("windows", ", ".join(times))
    commit_s, reveal_s = contracts.ScoreConsensus.windows_of(job_id)
    if commit_s:
        pair = (timedelta(seconds=commit_s), timedelta(seconds=reveal_s))
        table.add_row("paid by", "verifiers' scores: commit {}, reveal {}".format(*pair))
    table.add_row("spec", cid_from_digest(terms.spec))
    table.add_row("model", "0x" + job.model.hex())
    Console().print(table)
