# SPDX-License-Identifier: Apache-2.0
"""Deploy all contracts, check them on chain, and write the deployment file.

    ape run deploy --network ethereum:sepolia:node --account deployer \\
        --members 0x..,0x..,0x..,0x..,0x.. --holder 0x..

It can be stopped and started again: the same command goes on where the last one stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, account_option, network_option

from scripts._net.compiled import ROOT
from scripts._shared.operator import (
    ADDRESS,
    LOCAL_CHAINS,
    NUMBER,
    WORD,
    ZOO_AMOUNT,
    explained,
    zoo,
)
from scripts._shared.quorum import refuse_quorum
from scripts._shared.signing import signing, yes_option

DAY = 86_400
SECONDS = click.IntRange(0, WORD - 1)


@click.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--members", required=True, help="The committee's addresses, separated by commas.")
@click.option("--threshold", type=NUMBER, default=3, show_default=True, help="Approvals needed.")
@click.option("--holder", type=ADDRESS, required=True, help="Who receives the whole supply.")
@click.option("--supply", type=ZOO_AMOUNT, default="1000000000", show_default=True, help="In ZOO.")
@click.option("--routine-delay", type=SECONDS, default=DAY, show_default=True, help="Seconds.")
@click.option(
    "--governance-delay",
    type=SECONDS,
    default=21 * DAY,
    show_default=True,
    help="Seconds; longer than --unbonding, so that whoever dislikes a change can leave before it.",
)
@click.option("--grace-period", type=SECONDS, default=14 * DAY, show_default=True, help="Seconds.")
@click.option("--unbonding", type=SECONDS, default=14 * DAY, show_default=True, help="Seconds.")
@click.option("--trainer-stake", type=ZOO_AMOUNT, default="100", show_default=True, help="In ZOO.")
@click.option("--verifier-stake", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO.")
@click.option("--aggregator-stake", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO.")
@click.option("--benchmark-window", type=SECONDS, default=600, show_default=True, help="Seconds.")
@click.option(
    "--benchmark-quorum",
    type=NUMBER,
    default=2,
    show_default=True,
    help="Verdicts needed.",
)
@click.option(
    "--least-retained",
    type=click.IntRange(0, 32),
    default=0,
    show_default=True,
    help="Rounds' pay of a trainer that a job has to retain.",
)
@click.option("--appeal-bond", type=ZOO_AMOUNT, default="100", show_default=True, help="In ZOO.")
@click.option(
    "--pool",
    "pools",
    multiple=True,
    help="One more determinism class with a pool of executors, such as cuda:sm_89/76/13.0; those "
    "of CPUs and of common GPUs have one.",
)
@click.option("--random-source", type=ADDRESS, help="Randomness contract (default: blockhash).")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Deployment file (default: deployments/<chain id>.json; needed on a local chain).",
)
@yes_option
@explained
def cli(
    account: Any, provider: Any, members: str, out: Path | None, yes: bool, **given: Any
) -> None:
    """Deploy all contracts so that the committee owns everything and the deployer nothing."""
    from scripts._net import deployment
    from scripts._net.plan import carry_out, estimated, keep, planned, resumed

    if out is None and provider.chain_id in LOCAL_CHAINS:
        raise click.UsageError("Name a file with --out: a local chain's deployment is not kept.")
    if given["governance_delay"] <= given["unbonding"]:
        raise click.UsageError(
            f"--governance-delay is {given['governance_delay']:,} s and --unbonding "
            f"{given['unbonding']:,} s: a change of the rules would take effect before those who "
            "dislike it can withdraw their stakes. Make the delay longer than the unbonding period."
        )
    settings = _settings(members, given)
    refuse_quorum(len(settings.members), settings.threshold)
    path = out or ROOT / "deployments" / f"{provider.chain_id}.json"
    deployment.refuse_existing(path)
    w3, begun = provider.web3, path.with_name(f"{path.stem}.begun.json")
    plan = planned(w3, account.address, settings)
    if begun.exists():
        plan = resumed(plan, begun)
        click.echo(f"Going on with the deployment that {begun} tells of.")
    gas = estimated(w3, plan)
    fees = _fees(w3)
    cost = sum(gas.values()) * fees["likely"]
    held = w3.eth.get_balance(account.address)
    click.echo(
        f"{len(gas)} contracts on chain {plan.chain_id} cost about {_ether(cost)} (at most "
        f"{_ether(sum(gas.values()) * fees['most'])}); {account.address} holds {_ether(held)}."
    )
    if held < cost:
        raise click.ClickException("That is not enough; send it more, and run this again.")
    lines = [
        f"create {name:<17} at {plan.addresses[name]}  {amount:>10,} gas, "
        f"about {_ether(amount * fees['likely'])}"
        for name, amount in gas.items()
    ]
    send = _sender(provider, account)
    with signing(account, lines, yes):
        keep(plan, begun)
        try:
            deployed = carry_out(
                w3, plan, send, lambda name, address: click.echo(f"{name:<18}{address}")
            )
        except deployment.DeploymentError as error:
            raise click.ClickException(
                f"{error} {begun} tells how far it came: the same command goes on from there; "
                "remove the file to begin anew."
            ) from None
    deployment.write_deployment(path, deployed)
    begun.unlink()
    click.echo(
        f"Checked on chain: {settings.threshold} of {len(settings.members)} members own every "
        f"contract, {settings.holder} holds {zoo(settings.supply)}, the deployer has no right. "
        f"Written to {path}."
    )
    click.echo(_next_steps(path, settings))


def _settings(members: str, given: dict[str, Any]) -> Any:
    from scripts._net import deployment

    return deployment.DeploymentSettings(
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
        least_retained=given["least_retained"],
        random_source=given["random_source"] or deployment.ZERO,
        tasks=deployment.TaskTerms.fitting(given["unbonding"], given["pools"]),
    )


def _fees(w3: Any) -> dict[str, int]:
    """Return fees per gas in wei: `tip`, `most` (what is offered), and `likely` (what is paid)."""
    base = w3.eth.get_block("latest").get("baseFeePerGas")
    if base is None:  # a chain without EIP-1559
        price = int(w3.eth.gas_price)
        return {"tip": price, "most": price, "likely": price}
    tip = int(w3.eth.max_priority_fee)
    return {"tip": tip, "most": 2 * int(base) + tip, "likely": int(base) + tip}


def _sender(provider: Any, account: Any) -> Any:
    """Return how a contract's creation is signed by ACCOUNT and broadcast."""
    from hexbytes import HexBytes

    def send(tx: Any) -> HexBytes:
        # A creation has no receiver; ape would read an empty one as the zero address.
        fields = {name: value for name, value in tx.items() if name != "to"}
        fees = _fees(provider.web3)
        if "maxFeePerGas" in fields:
            fields |= {"maxFeePerGas": fees["most"], "maxPriorityFeePerGas": fees["tip"]}
        signed = account.sign_transaction(provider.network.ecosystem.create_transaction(**fields))
        if signed is None:
            raise click.Abort
        return HexBytes(provider.web3.eth.send_raw_transaction(signed.serialize_transaction()))

    return send


def _ether(wei: int) -> str:
    return f"{wei / 10**18:.4g} ether"


def _next_steps(path: Path, settings: Any) -> str:
    """Say what a network needs besides its contracts."""
    return f"""
What to do next:

1. Publish {path}: everybody who joins needs it (`--deployment`, and `deployment` in settings).
2. Each of the {len(settings.members)} members runs `ape run agent coordinator`, with the others'
   boards in `coordinator.peers`. `coordinator.trusted_owners` names the owners whose nodes they
   approve as verifiers and aggregators; {settings.threshold} members must name them.
3. {settings.holder} hands out ZOO: stakes ({zoo(settings.trainer_stake)} for a trainer,
   {zoo(settings.verifier_stake)} for a verifier, {zoo(settings.aggregator_stake)} for an
   aggregator), bonds for the operator keys of verifiers, and what sponsors pay with.
4. Owners register their nodes with `ape run node register` and run `ape run agent ROLE`. A round
   needs an aggregator, verifiers of two owners at least, and a trainer whose benchmark
   {settings.benchmark_quorum} of them have verified.
5. A sponsor creates the first job with `ape run job create`.
"""
