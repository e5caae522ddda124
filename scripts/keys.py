# SPDX-License-Identifier: Apache-2.0
"""A sponsor's commands for encrypted data: make a key, announce it, release it to nodes, list.

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
)
from scripts._shared.operator import (
    ADDRESS,
    Contracts,
    deployment_option,
    explained,
    read_network_option,
    reading,
    rehearse,
)
from scripts._shared.signing import signing, yes_option

KEY_FILE = click.Path(dir_okay=False, path_type=Path)
passphrase_option = click.option(
    "--passphrase-env", help="Environment variable with the key file's passphrase (default: ask)."
)
key_option = click.option(
    "--key", "key_file", type=KEY_FILE, required=True, help="The key file that `new` made."
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
@click.argument("job_id", type=int)
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
@click.argument("job_id", type=int)
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
@click.argument("job_id", type=int)
@key_option
@passphrase_option
@click.option("--once", is_flag=True, help="Answer what is open now and end.")
@click.option("--every", type=float, default=5.0, show_default=True, help="Seconds between looks.")
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
    yes: bool,
    deployment: Path | None,
) -> None:
    """Release the key of JOB_ID to every eligible node that asks, until Ctrl-C.

    A key that is not announced yet is announced first, when ACCOUNT is the sponsor.
    """
    from agents.runtime.errors import RpcDown

    key = _read_key(key_file, passphrase_env)
    holder = _keyholder(Contracts(deployment), account, job_id, key)
    holder.check_releaser()
    lines = [f"release the key of job {job_id} to every eligible node that asks, until you stop it"]
    with signing(account, lines, yes):
        if holder.announce():
            click.echo(f"Key {holder.key_id.hex()} is announced for job {job_id}.")
        while True:
            try:
                holder.step()
            except RpcDown as error:
                if once:
                    raise
                click.echo(f"{error} Trying again.")
            if once:
                return
            time.sleep(every)


@cli.command("list")
@read_network_option
@click.argument("job_id", type=int)
@deployment_option
@explained
def show(choice: str, job_id: int, deployment: Path | None) -> None:
    """List who asked for the key of JOB_ID, and who received which key, as the chain has it."""
    from rich.console import Console
    from rich.table import Table

    from scripts._shared.keyholder import record

    network = reading(choice, deployment)
    _check_job(network, job_id)
    table = Table(title=f"Job {job_id}: who received which key")
    for column in ("node", "as", "asked in block", "key", "released in block", "by"):
        table.add_column(column, overflow="fold")
    for entry in record(network, job_id):
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
