# SPDX-License-Identifier: Apache-2.0
"""A sponsor's commands for encrypted data: make a key, announce it, give keys to nodes, list.

ape run keys new crane.key
ape run keys serve --network ... --account sponsor 3 --key crane.key
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from scripts._shared.connecting import (
    ConnectedProviderCommand,
    account_option,
    network_option,
    reverting,
    unsigned_errors,
)
from scripts._shared.operator import (
    ADDRESS,
    Contracts,
    deployment_option,
    explained,
    is_localnet,
    read_network_option,
    reading,
    rehearse,
    store_of,
    store_to_read,
)
from scripts._shared.signing import signing, yes_option

KEY_FILE = click.Path(dir_okay=False, path_type=Path)
passphrase_option = click.option(
    "--passphrase-env", help="Environment variable with the key file's passphrase (default: ask)."
)
key_option = click.option(
    "--key", "key_file", type=KEY_FILE, required=True, help="The key file that `new` made."
)
store_option = click.option(
    "--store", help="A folder, or the URL of a Kubo node (default: localnet's folder)."
)


@click.group()
def cli() -> None:
    """A sponsor's commands for encrypted data."""


def _read_key(path: Path, variable: str | None) -> bytes:
    from agents.runtime import logs
    from agents.runtime.wallet import read_keystore, read_passphrase

    key = read_keystore(str(path), read_passphrase(variable, str(path)))
    logs.redact(key.hex())
    return key


def _keyholder(contracts: Contracts, account: Any, job_id: int, key: bytes) -> Any:
    from scripts._shared.keyholder import Keyholder

    network = contracts.network()
    _check_job(network, job_id)
    send = _sender(contracts, account)
    return Keyholder(network, job_id, key, account.address, send, click.echo)


def _check_job(network: Any, job_id: int) -> None:
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")


def _sender(contracts: Contracts, account: Any) -> Callable[[Any, str, tuple[Any, ...]], Any]:
    """Return how a call is sent from an account."""

    def send(contract: Any, function: str, args: tuple[Any, ...]) -> Any:
        with reverting(f"{contract.name}.{function}"):
            return getattr(getattr(contracts, contract.name), function)(*args, sender=account)

    return send


@cli.command()
@click.argument("path", type=KEY_FILE)
@passphrase_option
@explained
def new(path: Path, passphrase_env: str | None) -> None:
    """Make a key for one job's data and write it, encrypted, to PATH."""
    from agents.runtime.errors import WalletError
    from agents.runtime.wallet import create_keystore, read_passphrase
    from agents.storage.sealed import key_id_of, new_key

    if path.exists():
        raise click.ClickException(f"{path} exists already; a key file is never overwritten.")
    passphrase = read_passphrase(passphrase_env, str(path))
    if passphrase_env is None and read_passphrase(None, f"{path}, again") != passphrase:
        raise WalletError("The two passphrases differ; nothing was written.")
    key = new_key()
    create_keystore(path, passphrase, key)
    click.echo(f"Key {key_id_of(key).hex()} is in {path}.")
    click.echo("Back it up: without it, what it seals is lost.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@key_option
@passphrase_option
@yes_option
@deployment_option
@explained
def announce(
    account: Any,
    job_id: int,
    key_file: Path,
    passphrase_env: str | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Announce the key of JOB_ID's data; ACCOUNT is the job's sponsor."""
    key = _read_key(key_file, passphrase_env)
    holder = _keyholder(Contracts(deployment), account, job_id, key)
    with signing(account, [f"announce key {holder.key_id.hex()} for job {job_id}"], yes):
        done = holder.announce()
    word = "is announced for" if done else "is already the one of"
    click.echo(f"Key {holder.key_id.hex()} {word} job {job_id}.")
    click.echo(
        f"Next: `ape run keys serve {job_id} --key {key_file}` releases it to nodes that ask."
    )


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@click.argument("releaser", type=ADDRESS)
@yes_option
@deployment_option
@explained
def delegate(account: Any, job_id: int, releaser: str, yes: bool, deployment: Path | None) -> None:
    """Let RELEASER, and nobody else, release the key of JOB_ID; zero takes it back."""
    keys = Contracts(deployment).DataKeys
    rehearse(keys.set_releaser, job_id, releaser, sender=account)
    with signing(account, [f"let {releaser} release the key of job {job_id}"], yes):
        keys.set_releaser(job_id, releaser, sender=account)
    click.echo(f"{keys.releaser_of(job_id)} may release the key of job {job_id}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@key_option
@passphrase_option
@click.option("--once", is_flag=True, help="Answer what is open now and end.")
@click.option(
    "--every",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds between looks.",
)
@store_option
@yes_option
@deployment_option
@explained
def serve(
    account: Any,
    job_id: int,
    key_file: Path,
    passphrase_env: str | None,
    once: bool,
    every: float,
    store: str | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Give nodes the keys of JOB_ID's data, until Ctrl-C.

    Each round its trainers get the keys of the shards that they were assigned, verifiers those of
    the nodes that were drawn, and committee members those that an open case takes. Of a job with
    one key every eligible node that asks gets it. A key that is not announced yet is announced
    first, when ACCOUNT is the sponsor. A node or a store that fails is waited for, and so is ether
    for gas.
    """
    from agents.storage.content_store import open_store
    from scripts._shared.key_server import KeyServer, Patience

    key = _read_key(key_file, passphrase_env)
    contracts = Contracts(deployment)
    network = contracts.network()
    _check_job(network, job_id)
    server = KeyServer(
        network,
        open_store(store_of(store, contracts.chain_id)),
        job_id,
        key,
        account.address,
        _sender(contracts, account),
        click.echo,
    )
    server.holder.check_releaser()
    lines = [f"give nodes the keys of job {job_id} that are due to them, until you stop it"]
    with signing(account, lines, yes):
        if once:
            server.step()
            return
        patience = Patience(click.echo, unsigned_errors())
        while True:
            patience.look(server.step)
            time.sleep(every)


@cli.command("list")
@read_network_option
@click.argument("job_id", type=click.IntRange(1))
@store_option
@deployment_option
@explained
def show(choice: str, job_id: int, store: str | None, deployment: Path | None) -> None:
    """List who was given which keys of JOB_ID, as the chain has it.

    Of files of keys the store is asked, which --store names.
    """
    from rich.console import Console
    from rich.table import Table

    from agents.jobs.disclosed import Disclosures
    from agents.storage.content_store import open_store
    from scripts._shared.keyholder import record

    network = reading(choice, deployment)
    _check_job(network, job_id)
    found, asked = None, list(record(network, job_id))
    if store is not None or is_localnet(network.deployment.chain_id):
        opened = open_store(store_of(store, network.deployment.chain_id))
        found = Disclosures(network, opened, job_id).read()
        if found:
            files = Table(title=f"Job {job_id}: keys that were disclosed")
            for column in ("round", "to", "keys of", "in block", "by"):
                files.add_column(column, overflow="fold")
            for one in found:
                for given in one.release.readers:
                    what = f"{one.release.kind} {', '.join(map(str, given.items))}"
                    place = (str(one.release.round), given.reader, what, str(one.block), one.by)
                    files.add_row(*place)
            Console().print(files)
    if not asked:
        if found is None:
            click.echo(f"Nobody has asked for a key of job {job_id}. Files of keys: name --store.")
        elif not found:
            click.echo(f"Nobody was given a key of job {job_id} yet.")
        return
    table = Table(title=f"Job {job_id}: who received which key")
    for column in ("node", "as", "asked in block", "key", "released in block", "by"):
        table.add_column(column, overflow="fold")
    for entry in asked:
        answered = entry.released_block
        table.add_row(
            str(entry.node),
            entry.role.name.lower(),
            str(entry.asked_block),
            entry.key_id.hex()[:16],
            "not yet" if answered is None else str(answered),
            entry.by or "",
        )
    Console().print(table)


@cli.command("leaked")
@read_network_option
@click.argument("job_id", type=click.IntRange(1))
@click.argument("shown", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@deployment_option
@explained
def name_leak(
    choice: str, job_id: int, shown: Path, store: str | None, deployment: Path | None
) -> None:
    """Say who had been given all of the shards' keys in the file SHOWN, one in hex on a line."""
    from agents.jobs.disclosed import Disclosures
    from agents.rounds.models import Models
    from agents.storage.content_store import open_store
    from agents.training.data import MAX_MANIFEST_BYTES, Dataset
    from scripts._shared.leaks import places_of, receivers, suspects_of

    network = reading(choice, deployment)
    _check_job(network, job_id)
    opened = open_store(store_to_read(store, network.deployment.chain_id))
    try:
        keys = [bytes.fromhex(line) for line in shown.read_text().split()]
    except ValueError:
        raise click.ClickException(f"{shown} must hold keys in hex, one on a line.") from None
    if not all(len(key) == 32 for key in keys):
        raise click.ClickException(f"{shown} holds something else than keys of 32 bytes.")
    manifest = Models(network, opened).spec(job_id).data
    dataset = Dataset.from_bytes(opened.get(manifest, MAX_MANIFEST_BYTES))
    places = places_of(opened, dataset, keys)
    if not places:
        click.echo(f"None of these {len(keys)} keys opens a shard of job {job_id}.")
        return
    click.echo(f"They open shards {', '.join(map(str, sorted(places)))} of job {job_id}.")
    found = suspects_of(receivers(Disclosures(network, opened, job_id).read()), places)
    if found:
        click.echo(f"Who had been given all of them: {', '.join(found)}; and the sponsor.")
    else:
        click.echo("No single node had been given all of them: several put theirs together.")
