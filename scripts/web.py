# SPDX-License-Identifier: Apache-2.0
"""Serve the network's page: what runs, who was paid what and why, and everything a wallet signs.

ape run web --network http://127.0.0.1:8545        # the same as: python -m scripts.web
"""

from __future__ import annotations

from pathlib import Path

import click

from scripts._shared.connecting import rpc_url_of
from scripts._shared.operator import (
    deployment_option,
    deployment_path,
    explained,
    is_localnet,
    read_network_option,
    store_of,
)

PORT = 8700


@click.command()
@read_network_option
@deployment_option
@click.option("--store", help="A folder, or the URL of a Kubo node (default: localnet's folder).")
@click.option(
    "--database",
    envvar="MENAGERIE_WEB_DATABASE",
    help="The index's database: sqlite:///FILE or postgresql://USER@HOST/NAME (default: a file in "
    "the cache folder). Also read from MENAGERIE_WEB_DATABASE, where a password is hidden.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve at.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True)
@click.option(
    "--browser-rpc",
    help="RPC node that browsers may ask (default: --network where that is on this machine; else "
    "the wallet's own).",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="Name under which the page may be asked for, such as page.example; once for each. "
    "Addresses of machines and localhost always are.",
)
@explained
def cli(
    choice: str,
    deployment: Path | None,
    store: str | None,
    database: str | None,
    host: str,
    port: int,
    browser_rpc: str | None,
    names: tuple[str, ...],
) -> None:
    """Serve the page of a network until Ctrl-C.

    The index is a cache: deleting its database loses nothing. The server holds no key, and every
    transaction is signed by the reader's own wallet.
    """
    from agents.runtime.chain import ChainClient
    from agents.runtime.contracts import load_deployment
    from agents.runtime.logs import open_log
    from scripts._web.serve import Wishes, is_local, serve

    log = open_log("web", "info", True, None)
    url = rpc_url_of(choice)
    if deployment is None:
        deployment = deployment_path(None, ChainClient(url, log).chain_id())
    chain_id = load_deployment(deployment).chain_id
    if store is None and is_localnet(chain_id):
        store = store_of(None, chain_id)
    if browser_rpc is None and is_local(url):
        browser_rpc = url
    wishes = Wishes(url, deployment, store, database, host, port, browser_rpc, names)
    serve(wishes, log, lambda address: click.echo(f"Open {address}"))


if __name__ == "__main__":
    cli()
