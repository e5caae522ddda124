# SPDX-License-Identifier: Apache-2.0
"""Check how a job's model came to be, from nothing but an RPC node and a store.

ape run audit --job 1 --rpc http://... --store ... [--round R] [--deep] [--json FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from scripts._shared.operator import (
    deployment_option,
    deployment_path,
    explained,
    store_to_read,
)


@click.command()
@click.option("--job", "job_id", type=click.IntRange(1), required=True, help="The job.")
@click.option("--round", "round_id", type=click.IntRange(1), help="Audit this round only.")
@click.option("--deep", is_flag=True, help="Do every node's training and every task again, too.")
@click.option("--rpc", default="http://127.0.0.1:8545", show_default=True, help="An RPC node.")
@click.option("--store", help="A folder, or the URL of a Kubo node (default: localnet's folder).")
@click.option("--device", default="cpu", show_default=True, help="Where to compute: cpu, cuda.")
@click.option(
    "--random-source",
    is_flag=True,
    help="The deployment draws its seeds from a contract, not from block hashes.",
)
@click.option(
    "--data-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Key file of encrypted data (`ape run keys new`); without it losses are believed.",
)
@click.option(
    "--passphrase-env", help="Environment variable with the key file's passphrase (default: ask)."
)
@click.option("--no-receipts", is_flag=True, help="Believe the node's logs; half the requests.")
@click.option(
    "--json",
    "out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result here, machine-readable.",
)
@deployment_option
@explained
def cli(
    job_id: int,
    round_id: int | None,
    deep: bool,
    rpc: str,
    store: str | None,
    device: str,
    random_source: bool,
    data_key: Path | None,
    passphrase_env: str | None,
    no_receipts: bool,
    out: Path | None,
    deployment: Path | None,
) -> None:
    """Audit a job: exit status 0 only if everything holds."""
    from agents.training.determinism import pin_environment

    pin_environment()  # before torch is loaded

    from rich.console import Console

    from agents.audit.replay import audit_job
    from agents.audit.show import print_audit, progress_bar
    from agents.protocol.network import Network
    from agents.runtime.chain import ChainClient
    from agents.runtime.contracts import load_deployment
    from agents.runtime.logs import open_log
    from agents.storage.content_store import open_store
    from agents.storage.durable import write_atomic
    from agents.training.determinism import pin_torch

    pin_torch()
    chain = ChainClient(rpc, open_log("audit", "error", True, None))
    chain_id = chain.chain_id()
    store = store_to_read(store, chain_id)
    contracts = load_deployment(deployment_path(deployment, chain_id), chain_id)
    chain.check(contracts)
    key = None if data_key is None else _read_key(data_key, passphrase_env)
    console = Console()
    with progress_bar(Console(stderr=True)) as bar:
        task = bar.add_task("reading the chain", total=None)

        def progress(text: str, done: int, total: int) -> None:
            bar.update(task, description=text, completed=done, total=total or None)

        audit = audit_job(
            Network(chain, contracts),
            open_store(store),
            job_id,
            round_id=round_id,
            deep=deep,
            device=device,
            random_source=random_source,
            receipts=not no_receipts,
            data_key=key,
            progress=progress,
        )
    print_audit(audit, console)
    if out is not None:
        write_atomic(out, json.dumps(audit.to_json(), indent=1).encode(), mode=0o644)
    sys.exit(0 if audit.holds else 1)


def _read_key(path: Path, variable: str | None) -> bytes:
    from agents.runtime.wallet import read_keystore, read_passphrase

    return read_keystore(str(path), read_passphrase(variable, str(path)))
