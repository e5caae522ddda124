# SPDX-License-Identifier: Apache-2.0
"""`make bench`: every figure the project has a goal for, measured here and now, in one table.

Nothing is asserted: timings depend on the machine, so they are given beside something measured in
the same run (plain sha256, torch.median) and under the table stands how busy the machine was. Gas
does not depend on it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from scripts._net.compiled import ROOT
from scripts._net.processes import Supervisor, terminate_as_exit
from tests.measure import (
    bench_agents,
    bench_cid,
    bench_codecs,
    bench_gas,
    bench_inner,
    bench_memory,
    bench_merge,
    bench_pipeline,
    bench_privacy,
    bench_quality,
    bench_rpc,
    bench_scores,
    bench_start,
    bench_store,
    bench_tasks,
    bench_trainer,
    bench_web,
)
from tests.measure.rows import Row

GROUPS = (
    "gas",
    "scores",
    "tasks",
    "ready",
    "start",
    "cid",
    "store",
    "codecs",
    "inner",
    "memory",
    "trainer",
    "merge",
    "pipeline",
    "privacy",
    "quality",
    "rpc",
    "web",
    "demo",
)


def cid_rows() -> list[Row]:
    """Hashing speed, beside plain sha256."""
    speeds = bench_cid.bench()
    plain = speeds.pop("plain sha256")
    rows = [
        Row(name, f"{speed:.2f} GB/s, {speed / plain:.2f} of sha256", ">= 1 GB/s", speed >= 1)
        for name, speed in speeds.items()
    ]
    return [*rows, Row("plain sha256 (the ceiling)", f"{plain:.2f} GB/s")]


def chain_rows(wanted: set[str], say: Callable[[str], None]) -> Iterator[Row]:
    """What needs a network."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        terminate_as_exit(),
        Supervisor(Path(folder) / "logs", ROOT) as supervisor,
    ):
        say(f"a local network with {bench_gas.TRAINERS} trainers")
        network = bench_gas.build(supervisor, Path(folder) / "net")
        if "ready" in wanted:
            say("starting a trainer three times")
            yield bench_agents.bench_ready(network.net)
        if "gas" in wanted:
            say(f"{2 * bench_gas.HISTORY + 2} rounds for the gas figures")
            yield from bench_gas.bench(network)


@click.command()
@click.option("--only", multiple=True, type=click.Choice(GROUPS), help="Repeatable. Default: all.")
@click.option(
    "--full",
    is_flag=True,
    help="Of quality: first run what is not recorded, and draw curves. Of merge: scores of 128 "
    "payloads of 1e8 numbers, too (ten minutes of one core).",
)
def main(only: tuple[str, ...], full: bool) -> None:
    console = Console(width=None if Console().is_terminal else 140)
    wanted = set(only or GROUPS)

    def say(text: str) -> None:
        console.print(f"[dim]{text} ...[/dim]")

    rows: list[Row] = []
    if "cid" in wanted:
        say("hashing")
        rows += cid_rows()
    if "start" in wanted:
        say("starting every command")
        rows += bench_start.rows()
    if "store" in wanted:
        say("a large file from an IPFS daemon")
        rows += bench_store.bench()
    if "codecs" in wanted:
        say("encoding and decoding")
        rows += bench_codecs.rows()
        rows += bench_codecs.beside()
    if "inner" in wanted:
        say("steps of the inner optimizers")
        rows += bench_inner.rows()
    if "memory" in wanted:
        rows += bench_memory.rows(say)
    if "trainer" in wanted:
        say("a trainer's inner loop")
        rows += bench_trainer.rows()
    if "merge" in wanted:
        say("merging")
        rows += bench_merge.rows(full=full)
    if "pipeline" in wanted:
        say("a pipeline's memory, passes and modelled epochs")
        rows += bench_pipeline.rows()
    if "privacy" in wanted:
        say("privacy accounts, clipping and noise")
        rows += bench_privacy.rows()
    if "quality" in wanted:
        say("training quality by codec")
        rows += bench_quality.rows(say, full)
    if wanted & {"gas", "ready"}:
        rows += chain_rows(wanted, say)
    if "scores" in wanted:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, terminate_as_exit():
            rows += bench_scores.rows(Path(folder), say)
    if "tasks" in wanted:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, terminate_as_exit():
            rows += bench_tasks.rows(Path(folder), say)
    if "rpc" in wanted:
        rows += bench_rpc.rows(say)
    if "web" in wanted:
        rows += bench_web.rows(say)
    if "demo" in wanted:
        say("the demo's report")
        rows.append(bench_agents.bench_utilisation())
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    table = Table("figure", "measured", "goal", "met", "peers, same operation", caption=load)
    for row in rows:
        met = "" if row.met is None else "[green]yes[/green]" if row.met else "[bold red]NO[/]"
        table.add_row(row.figure, row.measured, row.goal, met, row.peer)
    console.print(table)


if __name__ == "__main__":
    main()
