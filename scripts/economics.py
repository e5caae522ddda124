# SPDX-License-Identifier: Apache-2.0
"""Whether cheating at redundant tasks costs more than it brings: in the article, and in a network.

ape run economics --table                        the article's eight rows, beside corrected bounds
ape run economics [--rpc URL] [--class C]        what the deployed numbers deter
ape run economics --stake 100 --fee 1 --nodes 9  the same for numbers of your own
ape run economics --plot bounds.svg              the bounds against the attacker's share
"""

from __future__ import annotations

from pathlib import Path

import click

from scripts._shared.economics import article_table, parameters, read, verdict_table, watched
from scripts._shared.operator import ZOO_AMOUNT, deployment_option, explained

RPC = "http://127.0.0.1:8545"


@click.command()
@click.option("--table", is_flag=True, help="The article's table; needs no network.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the bounds into this file: .svg, .png or .pdf.",
)
@click.option("--rpc", help=f"An RPC node to read the numbers from (default: {RPC}).")
@click.option("--class", "class_id", type=int, default=0, show_default=True, help="Which pool.")
@click.option("--stake", type=ZOO_AMOUNT, help="Stake of a node, instead of the deployment's.")
@click.option("--fee", type=ZOO_AMOUNT, help="Fee of a task (default: the largest allowed).")
@click.option("--nodes", type=click.IntRange(3), help="Nodes in the pool, instead of the pool's.")
@click.option(
    "--compute", type=ZOO_AMOUNT, help="What a task costs a node (default: half the fee, the most)."
)
@click.option(
    "--audit-rate",
    type=click.FloatRange(0, 1),
    help="Share of outcomes that a verifier runs again (default: that of the agents' settings).",
)
@click.option(
    "--verifiers",
    type=click.IntRange(0),
    help="How many draw a sample, each its own (default: those who declare the class, none where "
    "they can't give a verdict; one without a network).",
)
@deployment_option
@explained
def cli(
    table: bool,
    plot: Path | None,
    rpc: str | None,
    class_id: int,
    stake: int | None,
    fee: int | None,
    nodes: int | None,
    compute: int | None,
    audit_rate: float | None,
    verifiers: int | None,
    deployment: Path | None,
) -> None:
    """Say up to which attacker share redundant tasks are safe.

    Numbers are read from the network unless --stake and --fee are both given. --table and --plot
    ask no network unless --rpc names one; what they aren't told is then the default deployment's.
    """
    from rich.console import Console

    from agents.tasks.deterrence import deterrence

    console = Console()
    if table:
        console.print(article_table())
    alone = table or plot is not None
    if alone and plot is None:
        return
    own = stake is not None and fee is not None
    given = {"stake": stake, "fee": fee, "nodes": nodes, "compute": compute, "verifiers": verifiers}
    live = {} if rpc is None and (alone or own) else read(rpc or RPC, deployment, class_id)
    found = deterrence(parameters(live, given, audit_rate))
    if not alone:
        console.print(verdict_table(found))
    for label, who in live.get("recheckers", {}).items():
        click.echo(watched(label, who))
    for sentence in found.sentences():
        click.echo(sentence)
    if plot is not None:
        from scripts._report.economics_plot import write_plot

        try:
            write_plot(plot, found)
        except ValueError as error:
            raise click.ClickException(f"{plot}: {error}") from None
        click.echo(f"Drawn: {plot}")
