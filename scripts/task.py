# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks from the command line: have one run, follow it, fetch its result, run them.

ape run task create --network ... --account me --job 1 --kind generate --prompt "def " --wait
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import TaskStatus
from agents.runtime.errors import Reverted
from scripts._shared.connecting import ConnectedProviderCommand, account_option, network_option
from scripts._shared.economics import refuse_unwatched
from scripts._shared.operator import (
    ZOO_AMOUNT,
    Contracts,
    afford,
    allow,
    deployment_option,
    explained,
    read_network_option,
    reading,
    rehearse,
    store_of,
    store_to_read,
    zoo,
)
from scripts._shared.signing import signing, yes_option
from scripts._task.appealing import bond_appeal, watched_share
from scripts._task.described import class_id_of, described
from scripts._task.results import LOOK_S, show_result
from scripts._task.sentences import sentences
from scripts._task.standing import due, tasks_of, view

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
KINDS = ("evaluate", "train_steps", "generate")
FEWEST = 3  # seats: two that may agree, and a third for when they don't
_UNFINISHED = (TaskStatus.DRAWING, TaskStatus.RUNNING, TaskStatus.REVEALING)

store_option = click.option(
    "--store", help="A folder, or the URL of a Kubo node (default: localnet's folder)."
)


@click.group()
def cli() -> None:
    """Have deterministic work done by nodes that nobody needs to trust.

    Nodes drawn by lot run the same task, and the chain compares their results: two that are equal
    are the result. A task is of one kind:

    \b
    evaluate      the loss of a checkpoint on text
    train_steps   a number of training steps from a checkpoint; the result is a new checkpoint
    generate      what a model writes after prompts

    `create` pays for one, `status` says who acts next, `result` fetches what came out, `advance`
    moves one on where no agent does. `join` takes a seat for a node that runs tasks.
    """


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--spec", "file", type=FILE, help="Fields of the task spec, YAML or JSON.")
@click.option("--kind", type=click.Choice(KINDS), help="What to do.")
@click.option(
    "--job", "job_id", type=click.IntRange(1), help="Model, newest checkpoint and data of this job."
)
@click.option("--model", "model_file", type=FILE, help="Fields of the model, YAML or JSON.")
@click.option("--checkpoint", help="A safetensors file, or a CID.")
@click.option("--data", multiple=True, help="Text files (.txt, .jsonl, .parquet), or one CID.")
@click.option("--prompt", "prompts", multiple=True, help="A text to go on from (repeatable).")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the kind, such as steps=50, lr=0.001, sequences=64, max_new_tokens=32 (repeatable).",
)
@click.option("--class", "label", help="Determinism class of the result (default: cpu-fp32).")
@click.option("--fee", type=ZOO_AMOUNT, help="ZOO for the two who agree (default: the least).")
@click.option(
    "--run-s",
    type=click.IntRange(1),
    help="Seconds that a node has (default: what its class needs).",
)
@click.option("--wait", is_flag=True, help="Wait for the result and show it.")
@store_option
@yes_option
@deployment_option
@explained
def create(
    account: Any,
    yes: bool,
    deployment: Path | None,
    store: str | None,
    wait: bool,
    fee: int | None,
    run_s: int | None,
    **given: Any,
) -> None:
    """Publish a task's spec and inputs, pay for it, and have it run.

    Nodes have `--run-s` seconds, half of them to read the inputs and half to compute. They refuse
    what does not fit, and a refusal is a result that is paid for; so what is too much is refused
    here first. The operator key of a node cannot create tasks.

    \b
    ape run task create --account me --job 1 --kind evaluate --option sequences=64
    ape run task create --account me --job 1 --kind generate --prompt "import " --wait
    ape run task create --account me --kind train_steps --model model.yaml \\
        --checkpoint model.safetensors --data text.txt --option steps=50 --option lr=0.002
    """
    from agents.tasks.compute.make import publish
    from agents.tasks.contract import Tasks
    from scripts._task.specs import seconds_needed

    contracts = Contracts(deployment)
    opened = _open(store_of(store, contracts.chain_id))
    reader = Tasks(contracts.network())
    with sentences():
        spec = described(contracts, opened, **given)
        class_id = class_id_of(reader, spec.determinism)
        needed = seconds_needed(spec, opened)
    terms = reader.terms()
    run_s = min(needed, terms.max_run_s) if run_s is None else run_s
    if run_s < needed:
        raise click.ClickException(
            f"The slowest nodes of the class may need {needed} s for this task, and would refuse "
            f"it when they have {run_s} s (at most {terms.max_run_s} s are allowed here)."
        )
    least = max(1, run_s * terms.fee_per_s)
    fee = least if fee is None else fee
    if not least <= fee <= terms.max_fee:
        raise click.ClickException(
            f"{run_s} s cost {zoo(least)} at least, and a task at most {zoo(terms.max_fee)}; a "
            "greater fee would make cheating pay."
        )
    tasks = contracts.RedundantTasks
    seats = tasks.pool_size(class_id)
    if seats < FEWEST:
        raise click.ClickException(
            f"{seats} nodes run tasks of class {spec.determinism} here, and a task needs {FEWEST}. "
            "Nodes join with `ape run agent executor`."
        )
    refuse_unwatched(spec.determinism, reader.recheckers()[class_id])
    afford(contracts, account, fee)
    rehearse(tasks.create_task, class_id, b"\1" * 32, fee, run_s, sender=account)
    lines = [
        f"let the tasks' contract take {zoo(fee)}",
        f"create a task of kind {spec.kind}: {run_s} s for each of its nodes",
    ]
    with signing(account, lines, yes):
        digest = publish(spec, opened)
        allow(contracts, account, tasks, fee)
        receipt = tasks.create_task(class_id, digest, fee, run_s, sender=account)
        task_id = receipt.decode_logs([tasks.TaskCreated])[0].task_id
    click.echo(f"Task {task_id}: {spec.kind}, {zoo(fee)}, {run_s} s for each of its nodes.")
    if wait:
        show_result(contracts.network(), opened, task_id, True, None)
    else:
        where = f" --store {store}" if store else ""
        click.echo(f"Follow it with `ape run task status {task_id}`, and fetch what came out with")
        click.echo(f"`ape run task result {task_id} --wait{where}`.")
    hours = timedelta(seconds=terms.appeal_s)
    click.echo(
        f"For {hours} after it is agreed, `ape run task audit {task_id}` has verifiers run it "
        "again if the lot falls on it."
    )


@cli.command()
@read_network_option
@click.argument("task_id", type=click.IntRange(1))
@click.option("--watch", is_flag=True, help="Repeat until the task is over, or Ctrl-C.")
@deployment_option
@explained
def status(choice: str, task_id: int, watch: bool, deployment: Path | None) -> None:
    """Show where TASK_ID stands: its lanes, who acts next and until when."""
    from scripts._shared.watching import show

    network = reading(choice, deployment)

    def over() -> bool:
        return bool(tasks_of(network, task_id).task(task_id).settled(network.chain.chain_time()))

    show(lambda: view(network, task_id), LOOK_S if watch else None, over)


@cli.command()
@read_network_option
@click.argument("task_id", type=click.IntRange(1))
@click.option("--wait", is_flag=True, help="Wait until there is one.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it here.")
@store_option
@deployment_option
@explained
def result(
    choice: str,
    task_id: int,
    wait: bool,
    out: Path | None,
    store: str | None,
    deployment: Path | None,
) -> None:
    """Fetch the result of TASK_ID and check it against the chain.

    The chain holds the result's digest, which is that of its CID: what the store gives is verified
    against it. The file that --out writes is a safetensors checkpoint for train_steps, else JSON.
    What no node makes that runs the task is said, and ends the command with an error.
    """
    network = reading(choice, deployment)
    show_result(
        network, _open(store_to_read(store, network.deployment.chain_id)), task_id, wait, out
    )


@cli.command("list")
@read_network_option
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@deployment_option
@explained
def show_all(choice: str, last: int, deployment: Path | None) -> None:
    """List the newest tasks and the pools of nodes that run them."""
    from rich.console import Console
    from rich.table import Table

    from agents.tasks.contract import Tasks

    network = reading(choice, deployment)
    tasks = Tasks(network)
    table = Table("task", "status", "creator", "fee", "nodes", title="Redundant tasks")
    count = tasks.count()
    for task in reversed(tasks.many(range(max(1, count - last + 1), count + 1))):
        who = ", ".join(map(str, task.nodes))
        table.add_row(str(task.task_id), task.status.name, task.creator, zoo(task.fee, 6), who)
    pools = Table("class", "id", "seats", "verifiers", "verdicts", title="Pools")
    recheckers = tasks.recheckers()
    for label, class_id in tasks.class_ids().items():
        seats = network.chain.call(network.tasks, "pool_size", class_id)
        who = recheckers[class_id]
        able = f"{len(who.able)} of {who.voters}"
        judged = "yes" if who.can_judge else "no"
        pools.add_row(label, str(class_id), str(seats), able, judged)
    console = Console()
    console.print(table)
    console.print(pools)


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=click.IntRange(1))
@click.option("--class", "label", default="cpu-fp32", show_default=True, help="Which pool.")
@yes_option
@deployment_option
@explained
def join(account: Any, node_id: int, label: str, yes: bool, deployment: Path | None) -> None:
    """Take a seat for NODE_ID among the nodes that run tasks; ACCOUNT owns or operates it.

    From the next block on the node may be drawn, and then it must run the task: silence is slashed
    like a wrong result. So start its agent first (`ape run agent executor`, which takes the seat
    by itself unless `executor.join` is off). The node must compute in the class it names; an agent
    says at its start in which one it does.
    """
    from agents.tasks.contract import Tasks

    contracts = Contracts(deployment)
    tasks = contracts.RedundantTasks
    class_id = class_id_of(Tasks(contracts.network()), label)
    stake = tasks.terms().task_stake
    held = contracts.NodeRegistry.node(node_id).stake
    if held < stake:
        raise click.ClickException(
            f"Node {node_id} stakes {zoo(held)}; an executor needs {zoo(stake)}. Add some with "
            f"`ape run node add-stake {node_id} ...`."
        )
    rehearse(tasks.join, node_id, class_id, sender=account)
    with signing(account, [f"take a seat for node {node_id} in the pool of {label}"], yes):
        tasks.join(node_id, class_id, sender=account)
    size = tasks.pool_size(class_id)
    click.echo(f"Node {node_id} has a seat in {label}, among {size}. It may be drawn from now on.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def leave(account: Any, node_id: int, yes: bool, deployment: Path | None) -> None:
    """Give up the seat of NODE_ID; ACCOUNT owns or operates it.

    Keep its agent running until its open tasks are done: what it was drawn for it must still run.
    """
    tasks = Contracts(deployment).RedundantTasks
    rehearse(tasks.leave, node_id, sender=account)
    with signing(account, [f"give up the seat of node {node_id}"], yes):
        tasks.leave(node_id, sender=account)
    running = tasks.executor(node_id).open
    rest = f", but {running} of its tasks still run" if running else ""
    click.echo(f"Node {node_id} gave up its seat{rest}. Draws already requested may still take it.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("task_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def appeal(account: Any, task_id: int, yes: bool, deployment: Path | None) -> None:
    """Bond a re-execution of TASK_ID by verifiers, while its appeal window is open.

    If the outcome was wrong the bond comes back with a share of what is slashed; else the verifiers
    keep it. `ape run claim` fetches what is credited.
    """
    bond_appeal(Contracts(deployment), account, yes, task_id)


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("task_ids", type=click.IntRange(1), nargs=-1, required=True)
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    help="Of the tasks (default: the least that pays verifiers for watching).",
)
@yes_option
@deployment_option
@explained
def audit(
    account: Any, task_ids: tuple[int, ...], share: float | None, yes: bool, deployment: Path | None
) -> None:
    """Have verifiers run some of TASK_IDS again, drawn by lot, as their creator.

    Two executors who are friends may agree on a fake, and verifiers earn nothing by running right
    tasks again. So a creator bonds an appeal of a few of its agreed tasks, whichever result they
    have. Where it is right verifiers share the bond. Nobody can know which tasks are drawn. Name
    each task once, when it is agreed and before its appeal window ends. Where one is not over yet,
    none is drawn.
    """
    contracts = Contracts(deployment)
    network = contracts.network()
    found = [tasks_of(network, number).task(number) for number in dict.fromkeys(task_ids)]
    for task in found:
        if task.status in _UNFINISHED:
            raise click.ClickException(
                f"Task {task.task_id} is {task.status.name}, and not over yet; ask again when it "
                f"is. `ape run task status {task.task_id}` says where it stands."
            )
    for task in found:
        task_id = task.task_id
        if not task.appealable(network.chain.chain_time()):
            why = "appealed already" if task.status == TaskStatus.APPEALED else "past that"
            click.echo(f"Task {task_id} is {task.status.name}: it is {why}, so no lot is drawn.")
            continue
        part = watched_share(network, task) if share is None else share
        if secrets.SystemRandom().random() >= part:
            click.echo(f"Task {task_id} is not drawn, as {1 - part:.1%} of tasks are not.")
        else:
            bond_appeal(contracts, account, yes, task_id)


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("task_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def advance(account: Any, task_id: int, yes: bool, deployment: Path | None) -> None:
    """Send what is due for TASK_ID, as anybody may: agents do where any is about.

    That captures a draw, or requests one again that nobody captured; slashes executors who missed
    their deadline, and goes on without them; ends a task whose appeal window is over, or an appeal
    whose time is. A fee that goes back to the creator goes back by this; `ape run claim` has it.
    """
    contracts = Contracts(deployment)
    network = contracts.network()
    tasks = tasks_of(network, task_id)
    task, appeal = tasks.task(task_id), tasks.appeal(task_id)
    sent = due(contracts, task, appeal)
    text = f"`ape run task status {task_id}` says who acts next."
    if sent is None:
        raise click.ClickException(
            f"Task {task_id} is {task.status.name}: there is nothing to send for it. {text}"
        )
    method, words = sent
    try:
        rehearse(method, task_id, sender=account)
    except Reverted as error:
        raise click.ClickException(
            f"Nothing is due for task {task_id} now, which is {task.status.name} ({error.reason}). "
            f"{text}"
        ) from None
    with signing(account, [f"{words} task {task_id}"], yes):
        method(task_id, sender=account)
    click.echo(f"Task {task_id} is {tasks.task(task_id).status.name} now. {text}")


def _open(store: str) -> Any:
    from agents.storage.content_store import open_store

    return open_store(store)
