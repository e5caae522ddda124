# SPDX-License-Identifier: Apache-2.0
"""The network at a glance: jobs, their rounds, nodes with stake, state and rewards.

ape run status --network ... [--job J] shows also what the job's nodes have spent of their privacy
budgets, which anybody can derive from the chain and the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._shared.operator import (
    deployment_option,
    explained,
    read_network_option,
    reading,
    store_to_read,
    zoo,
)

_LOOK_S = 2.0


@click.command()
@read_network_option
@click.option("--watch", is_flag=True, help="Repeat every two seconds until Ctrl-C.")
@click.option(
    "--job", "job_id", type=click.IntRange(1), help="Show the privacy spent in this job, too."
)
@click.option(
    "--store",
    help="With --job: a folder, or the URL of a Kubo node (default: localnet's folder).",
)
@deployment_option
@explained
def cli(
    choice: str, watch: bool, job_id: int | None, store: str | None, deployment: Path | None
) -> None:
    """Show jobs, rounds, nodes, stakes and rewards."""
    from scripts._shared.watching import show

    network = reading(choice, deployment)
    opened = None if job_id is None else _open(store, network.deployment.chain_id)
    show(lambda: view(network, job_id, opened), _LOOK_S if watch else None)


def _open(store: str | None, chain_id: int) -> Any:
    from agents.storage.content_store import open_store

    return open_store(store_to_read(store, chain_id))


def view(network: Any, job_id: int | None = None, store: Any = None) -> Any:
    """Return what `status` prints, from an `agents.protocol.network.Network`.

    `job_id`, `store`: of which job to show the privacy spent, and where its artefacts are.
    """
    from rich.console import Group

    head = network.chain.head()
    parts = [
        f"Chain {network.deployment.chain_id}, block {head.number}",
        jobs(network),
        nodes(network),
        validators(network),
    ]
    if job_id is not None:
        parts.append(privacy(network, store, job_id))
    return Group(*parts)


def privacy(network: Any, store: Any, job_id: int) -> Any:
    """Return the table of what a job's nodes have spent, or a sentence if there is none."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from agents.audit.work.privacy import spent
    from agents.mechanisms.privacy.parts.pld import ExtraMissing
    from agents.runtime.printable import printable
    from agents.storage.errors import StoreError
    from agents.training.spec import SpecError

    try:
        found = spent(network, store, job_id)
    except (ExtraMissing, SpecError, StoreError) as error:
        # The error quotes a stranger's spec: no markup, no escape.
        return Text(printable(f"Privacy spent in job {job_id}: {error}"))
    if found is None:
        return f"Job {job_id} promises no differential privacy: nothing is spent."
    table = Table(
        *("node", "unit", "epsilon spent", "by Rényi orders", "delta", "rounds"),
        title=f"Privacy spent in job {job_id}",
    )
    for node, account in found.items():
        table.add_row(
            str(node),
            account["unit"],
            f"{account['epsilon']:.3g} of {account['max_epsilon']:g}",
            f"{account['epsilon_rdp']:.3g}",
            f"{account['delta']:g}",
            str(account["rounds"]),
        )
    problems = (text for account in found.values() for text in account["problems"])
    return Group(table, *(Text(printable(text)) for text in problems))


def jobs(network: Any) -> Any:
    """Return the table of jobs and their newest rounds."""
    from rich.table import Table

    from agents.protocol.numbers import JobStatus, Phase
    from scripts._shared.job_queue import offers, standing

    heads = ("job", "status", "done", "round", "phase", "left", "acted", "escrow", "trainers")
    table = Table(*heads, title="Jobs")
    found = offers(network)
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
        live = any(offer.job_id == job_id for offer, _ in found)
        row.append(standing(found, job_id).partition(":")[0] if live else "-")
        table.add_row(*row)
    return table


def validators(network: Any) -> Any:
    """Return the table of jobs that verifiers' scores pay, or nothing if there is none."""
    from rich.table import Table

    from agents.protocol.numbers import Role
    from agents.protocol.scores import Consensus

    consensus = Consensus(network)
    scored = [j for j in range(1, network.job_count() + 1) if consensus.adopted(j)]
    if not scored:
        return ""
    heads = ("job", "round", "scoring", "committed", "revealed", "left", "trust of each validator")
    table = Table(*heads, title="Validators")
    now = network.chain.head().timestamp
    count = int(network.chain.call(network.registry, "node_count"))
    verifiers = [n for n in range(1, count + 1) if network.node(n).roles & Role.VERIFIER]
    for job_id in scored:
        newest = network.job(job_id).rounds_opened
        trusts = ", ".join(f"{n}: {consensus.trust(job_id, n) / 100:g} %" for n in verifiers)
        if not newest:
            table.add_row(str(job_id), "-", "-", "-", "-", "-", trusts)
            continue
        now_in = consensus.scoring(job_id, newest)
        end = now_in.commit_deadline if now_in.phase.name == "COMMIT" else now_in.reveal_deadline
        running = now_in.phase.name in ("COMMIT", "REVEAL") and end
        table.add_row(
            str(job_id),
            str(newest),
            now_in.phase.name.lower(),
            str(now_in.committed),
            str(now_in.revealed),
            f"{max(0, end - now)} s" if running else "-",
            trusts,
        )
    return table


def nodes(network: Any) -> Any:
    """Return the table of nodes."""
    from rich.table import Table

    from agents.protocol.numbers import Role
    from agents.tasks.contract import Tasks

    tasks = Tasks(network)
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
        if tasks.seat(node_id).seated:
            eligible.append("executor")
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
