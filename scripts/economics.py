# SPDX-License-Identifier: Apache-2.0
"""Whether cheating costs more than it brings: at redundant tasks, and by every known attack.

ape run economics --table                        the article's eight rows, beside corrected bounds
ape run economics [--rpc URL] [--class C]        what the deployed numbers deter
ape run economics --stake 100 --fee 1 --nodes 9  the same for numbers of your own
ape run economics --plot bounds.svg              the bounds against the attacker's share
ape run economics attacks [--rpc URL] [--job N]  what every known attack brings, played out
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._shared.economics import article_table, parameters, read, verdict_table, watched
from scripts._shared.operator import ZOO_AMOUNT, deployment_option, explained

RPC = "http://127.0.0.1:8545"


@click.group(invoke_without_command=True)
@click.option("--table", is_flag=True, help="The article's table; needs no network.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the bounds into this file: .svg, .png or .pdf.",
)
@click.option("--rpc", help=f"An RPC node to read the numbers from (default: {RPC}).")
@click.option(
    "--class", "class_id", type=click.IntRange(0), default=0, show_default=True, help="Which pool."
)
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
@click.pass_context
@explained
def cli(
    context: click.Context,
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
    if context.invoked_subcommand is not None:
        return
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


@cli.command()
@click.option("--rpc", help="An RPC node to read the numbers from (default: none, usual numbers).")
@click.option(
    "--job", type=click.IntRange(1), help="With --rpc: a job whose terms and mechanisms count."
)
@click.option("--nodes", type=click.IntRange(3, 128), help="Trainers.")
@click.option("--stake", type=ZOO_AMOUNT, help="Of each trainer.")
@click.option("--verifiers", type=click.IntRange(2, 31), help="How many, of an owner each.")
@click.option("--verifier-stake", type=ZOO_AMOUNT, help="Of each verifier.")
@click.option("--reward", type=ZOO_AMOUNT, help="That a round pays.")
@click.option("--retain-rounds", type=click.IntRange(0, 32), help="Rounds' pay that is retained.")
@click.option(
    "--verifiers-cut",
    type=click.FloatRange(0, 50),
    help="Their part of the pay, in percent (default: what pays them for doing work again).",
)
@click.option(
    "--compute", type=click.FloatRange(0, 1), help="Cost of the work, as part of its pay."
)
@click.option("--fee", type=ZOO_AMOUNT, help="Of a task, the greatest.")
@click.option(
    "--judges", type=click.IntRange(0), help="Verifiers who declare the class of the tasks."
)
@click.option("--sample", type=click.IntRange(0), help="Trainers that are drawn in any case.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    help="Of nodes and of verifiers that are the attacker's (default: a third).",
)
@click.option(
    "--spec",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Fields of a job spec, YAML or JSON: codec, merge, score and verify count.",
)
@click.option("--family", "families", multiple=True, help="Only attacks of this family.")
@click.option("--full", is_flag=True, help="20 rounds and three seeds where a score is attacked.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw where deterrence ends into this file: .svg, .png or .pdf.",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write the tables as Markdown between the marks of this file; - prints them.",
)
@click.option("--store", help="With --job: where its spec is read (default: localnet's folder).")
@deployment_option
@explained
def attacks(**given: Any) -> None:
    """Play every known attack on the compiled contracts and say what it brings.

    Capital is what the attacker must own, profit what it has afterwards beyond what the same nodes
    would have without the attack. The contracts run on this machine, in up to four processes: no
    network is touched, and with --rpc one is only read. Takes a checkout, and a minute or two;
    --full takes longer.
    """
    from scripts._attacks.command import run

    run(**given)
