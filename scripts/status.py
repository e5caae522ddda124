# SPDX-License-Identifier: Apache-2.0
"""The network at a glance: jobs, their rounds, nodes with stake, state and rewards.

ape run status --network ...
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, network_option

from scripts._operator import Contracts, deployment_option, explained, zoo


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--watch", is_flag=True, help="Repeat every two seconds until Ctrl-C.")
@deployment_option
@explained
def cli(watch: bool, deployment: Path | None) -> None:
    """Show jobs, rounds, nodes, stakes and rewards."""
    from rich.console import Console
    from rich.live import Live

    network = Contracts(deployment).network()
    if not watch:
        Console().print(view(network))
        return
    with Live(view(network), auto_refresh=False) as live:
        while True:
            time.sleep(2)
            live.update(view(network), refresh=True)


def view(network: Any) -> Any:
    """Return what `status` prints, from an `agents.rounds.network.Network`."""
    from rich.console import Group

    head = network.chain.head()
    return Group(
        f"Chain {network.deployment.chain_id}, block {head.number}", jobs(network), nodes(network)
    )


def jobs(network: Any) -> Any:
    """Return the table of jobs and their newest rounds."""
    from rich.table import Table

    from agents.rounds.network import JobStatus, Phase

    table = Table(
        "job", "status", "done", "round", "phase", "left", "acted", "escrow", title="Jobs"
    )
    now = network.chain.head().timestamp
    for job_id in range(1, network.job_count() + 1):
        job = network.job(job_id)
        row = [str(job_id), JobStatus(job.status).name.lower()]
        row.append(f"{job.rounds_done}/{job.terms.rounds}")
        if job.rounds_opened:
            round_ = network.round(job_id, job.rounds_opened)
            phase = Phase(round_.phase)
            running = phase not in (Phase.FINALIZED, Phase.VOID)
            left = f"{max(0, round_.deadline - now)} s" if running else "-"
            acted = {
                Phase.COMMIT: f"{round_.n_committed}/{round_.n_eligible} committed",
                Phase.REVEAL: f"{round_.n_revealed}/{round_.n_committed} revealed",
            }.get(phase, f"{round_.n_revealed} revealed, {round_.n_invalid} invalid")
            row += [str(job.rounds_opened), phase.name.lower(), left, acted]
        else:
            row += ["-", "-", "-", "-"]
        row.append(zoo(network.chain.call(network.pool, "escrow", job_id), 2))
        table.add_row(*row)
    return table


def nodes(network: Any) -> Any:
    """Return the table of nodes."""
    from rich.table import Table

    from agents.rounds.network import Role

    table = Table(
        "node", "roles", "state", "stake", "strikes", "benchmark", "rewards", title="Nodes"
    )
    now = network.chain.head().timestamp
    for node_id in range(1, int(network.chain.call(network.registry, "node_count")) + 1):
        node = network.node(node_id)
        roles = [role for role in Role if node.roles & role]
        eligible = [
            role.name.lower()
            for role in roles
            if network.chain.call(network.registry, "is_eligible", node_id, int(role))
        ]
        pending = network.chain.call(network.pool, "pending", node.payout)
        table.add_row(
            str(node_id),
            ", ".join(role.name.lower() for role in roles),
            state(node, now) or (f"ready as {', '.join(eligible)}" if eligible else "waiting"),
            zoo(node.stake or node.unbonding, 2),
            str(node.strikes),
            f"{node.benchmark_score:,}" if node.benchmark_score else "-",
            zoo(pending, 2),
        )
    return table


def state(node: Any, now: int) -> str:
    """Return why a node does not work, or nothing."""
    if node.banned:
        return "banned"
    if node.unlock_at:
        return "exiting"
    if node.suspended_until > now:
        return f"suspended for {node.suspended_until - now:,} s"
    return "" if node.active else "paused by its owner"
