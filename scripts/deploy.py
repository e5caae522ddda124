# SPDX-License-Identifier: Apache-2.0
"""Deploy all contracts, check them on chain, and write the deployment file.

    ape run deploy --network ethereum:sepolia:node --account deployer \\
        --members 0x..,0x..,0x..,0x..,0x.. --holder 0x..
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, account_option, network_option

from scripts._net.compiled import ROOT
from scripts._shared.operator import ADDRESS, LOCAL_CHAINS, ZOO_AMOUNT, explained, zoo

DAY = 86_400


@click.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--members", required=True, help="The committee's addresses, separated by commas.")
@click.option("--threshold", type=int, default=3, show_default=True, help="Approvals needed.")
@click.option("--holder", type=ADDRESS, required=True, help="Who receives the whole supply.")
@click.option("--supply", type=ZOO_AMOUNT, default="1000000000", show_default=True, help="In ZOO.")
@click.option("--routine-delay", type=int, default=DAY, show_default=True, help="Seconds.")
@click.option("--governance-delay", type=int, default=21 * DAY, show_default=True, help="Seconds.")
@click.option("--grace-period", type=int, default=14 * DAY, show_default=True, help="Seconds.")
@click.option("--unbonding", type=int, default=14 * DAY, show_default=True, help="Seconds.")
@click.option("--trainer-stake", type=ZOO_AMOUNT, default="100", show_default=True, help="In ZOO.")
@click.option("--verifier-stake", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO.")
@click.option("--aggregator-stake", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO.")
@click.option("--benchmark-window", type=int, default=600, show_default=True, help="Seconds.")
@click.option("--benchmark-quorum", type=int, default=2, show_default=True, help="Verdicts needed.")
@click.option("--appeal-bond", type=ZOO_AMOUNT, default="100", show_default=True, help="In ZOO.")
@click.option("--random-source", type=ADDRESS, help="Randomness contract (default: blockhash).")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Deployment file (default: deployments/<chain id>.json; needed on a local chain).",
)
@explained
def cli(account: Any, provider: Any, members: str, out: Path | None, **given: Any) -> None:
    """Deploy all contracts so that the committee owns everything and the deployer nothing."""
    from hexbytes import HexBytes
    from web3.types import TxParams

    from scripts._net import deployment

    if out is None and provider.chain_id in LOCAL_CHAINS:
        raise click.UsageError("Name a file with --out: a local chain's deployment is not kept.")
    path = out or ROOT / "deployments" / f"{provider.chain_id}.json"
    deployment.refuse_existing(path)
    settings = deployment.DeploymentSettings(
        members=tuple(ADDRESS.convert(m.strip(), None, None) for m in members.split(",")),
        holder=given["holder"],
        threshold=given["threshold"],
        supply=given["supply"],
        routine_delay=given["routine_delay"],
        governance_delay=given["governance_delay"],
        grace_period=given["grace_period"],
        unbonding_period=given["unbonding"],
        trainer_stake=given["trainer_stake"],
        verifier_stake=given["verifier_stake"],
        aggregator_stake=given["aggregator_stake"],
        benchmark_window=given["benchmark_window"],
        benchmark_quorum=given["benchmark_quorum"],
        appeal_bond=given["appeal_bond"],
        random_source=given["random_source"] or deployment.ZERO,
    )

    def send(tx: TxParams) -> HexBytes:
        signable = provider.network.ecosystem.create_transaction(**tx)
        return HexBytes(account.call(signable).txn_hash)

    deployed = deployment.deploy(
        provider.web3,
        account.address,
        send,
        settings,
        progress=lambda name, address: click.echo(f"{name:<18}{address}"),
    )
    deployment.write_deployment(path, deployed)
    click.echo(
        f"Checked on chain: {settings.threshold} of {len(settings.members)} members own every "
        f"contract, {settings.holder} holds {zoo(settings.supply)}, the deployer has no right. "
        f"Written to {path}."
    )
