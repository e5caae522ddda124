# SPDX-License-Identifier: Apache-2.0
"""`make demo`, `ape run demo`: a whole network on this machine trains, punishes and pays."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from scripts._net.compiled import ROOT
from scripts._shared.node_options import node_of, node_options


@click.command()
@click.option(
    "--job",
    type=click.Choice(("plain", "dso", "gauntlet", "pipeline", "encrypted")),
    default="plain",
    show_default=True,
    help="plain: public data, re-execution. dso: private data, robust merging, a budget. "
    "gauntlet: nodes are paid by what their updates do to the loss. pipeline: each node holds one "
    "stage of the model. encrypted: nodes read what they were assigned, and nothing else.",
)
@click.option(
    "--codec",
    type=click.Choice(("polytope", "semantic")),
    help="How updates travel in the job dso: polytope (its own), or semantic, ZIP-400's.",
)
@click.option(
    "--trainers",
    type=click.IntRange(1),
    help="Trainers, the job's cheats included (default: 8; 10; 11; 12; 6).",
)
@click.option(
    "--rounds", type=click.IntRange(1), help="Rounds of the job (default: 10; 10; 12; 6; 3)."
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .txt or .jsonl file to train on (repeatable). Default: Python's standard library.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=900.0,
    show_default=True,
    help="Give up after this long, s; longer where blocks are slow.",
)
@click.option(
    "--report",
    default=ROOT / "report",
    show_default="report/",
    type=click.Path(path_type=Path),
    help="Folder for the report; what it holds is replaced.",
)
@click.option(
    "--store",
    default="folder",
    show_default=True,
    help="folder: all agents share one. ipfs: each has a store of its own and bytes travel over "
    "IPFS, by the daemon at IPFS_API or 127.0.0.1:5001, else by stubs, one for each node. Or the "
    "address of a daemon's API.",
)
@node_options
def cli(
    job: str,
    codec: str | None,
    trainers: int | None,
    rounds: int | None,
    data: tuple[Path, ...],
    time_limit: float,
    report: Path,
    store: str,
    rpc: str | None,
    keystore: str | None,
) -> None:
    """Run a whole network on this machine and judge it.

    A chain, the contracts, five committee members, three verifiers, two aggregators and the
    trainers, each its own process. With --rpc the chain is one that runs already. The exit code
    says whether all that must hold held.
    """
    # `ape run` imports every command to list them; torch is only needed by this one.
    from scripts._demo.demo import Options, run
    from scripts._demo.dso import DSO, by_semantic_gradients
    from scripts._demo.encrypted import ENCRYPTED
    from scripts._demo.gauntlet import GAUNTLET
    from scripts._demo.pipeline import PIPELINE
    from scripts._demo.scenario import PLAIN
    from scripts._net.ipfs_nodes import find_ipfs

    scenario = {
        "plain": PLAIN,
        "dso": DSO,
        "gauntlet": GAUNTLET,
        "pipeline": PIPELINE,
        "encrypted": ENCRYPTED,
    }[job]
    if codec is not None and job != "dso":
        raise click.BadParameter(
            "only the job dso offers a choice: --job dso", param_hint="--codec"
        )
    if codec == "semantic":
        scenario = by_semantic_gradients(scenario)
    trainers = trainers or scenario.trainers
    if trainers < scenario.fewest:
        raise click.BadParameter(f"at least {scenario.fewest} trainers, cheats included")
    rounds = scenario.rounds if rounds is None else rounds
    if rounds < 1:
        raise click.BadParameter("at least 1 round")
    if store != "folder" and job == "encrypted":
        raise click.BadParameter(
            "the job encrypted looks for text in the store's files, so it needs a folder",
            param_hint="--store",
        )
    chain = partial(node_of, rpc, keystore)
    ipfs = partial(find_ipfs, store, os.environ.get("IPFS_API", ""))
    sys.exit(run(Options(scenario, trainers, rounds, data, time_limit, report, chain, ipfs)))


if __name__ == "__main__":
    cli()
