# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks from the command line: have one run, follow it, fetch its result, run them.

ape run task create --network ... --account me --job 1 --kind generate --prompt "def " --wait
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import TaskStatus
from agents.runtime.errors import Reverted
from agents.runtime.files import SPEC_BYTES, read_yaml
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

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
KINDS = ("evaluate", "train_steps", "generate")
FEWEST = 3  # seats: two that may agree, and a third for when they don't
MAX_PAYLOAD = 1 << 30
_LOOK_S = 1.0
_EVENT_BLOCKS = 2_000  # looked through at a time
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
    from scripts._shared.task_specs import seconds_needed

    contracts = Contracts(deployment)
    opened = _open(store_of(store, contracts.chain_id))
    reader = Tasks(contracts.network())
    with _sentences():
        spec = _spec(contracts, opened, **given)
        class_id = _class_id(reader, spec.determinism)
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
        _result(contracts.network(), opened, task_id, True, None)
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
        return bool(_tasks(network, task_id).task(task_id).settled(network.chain.chain_time()))

    show(lambda: _view(network, task_id), _LOOK_S if watch else None, over)


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
    _result(network, _open(store_to_read(store, network.deployment.chain_id)), task_id, wait, out)


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
    class_id = _class_id(Tasks(contracts.network()), label)
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
    _appeal(Contracts(deployment), account, yes, task_id)


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
    found = [_tasks(network, number).task(number) for number in dict.fromkeys(task_ids)]
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
        part = _audited(network, task) if share is None else share
        if secrets.SystemRandom().random() >= part:
            click.echo(f"Task {task_id} is not drawn, as {1 - part:.1%} of tasks are not.")
        else:
            _appeal(contracts, account, yes, task_id)


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
    tasks = _tasks(network, task_id)
    task, appeal = tasks.task(task_id), tasks.appeal(task_id)
    sent = _due(contracts, task, appeal)
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


# -- what the commands share -------------------------------------------------------------------


def _due(contracts: Contracts, task: Any, appeal: Any) -> tuple[Any, str] | None:
    """What moves a task on from its status, and in words; None where nothing does. Whether it is
    time for it the contract says."""
    tasks, appeals = contracts.RedundantTasks, contracts.TaskAppeals
    if task.status == TaskStatus.DRAWING:
        return tasks.draw, "capture the draw of"
    if task.status in (TaskStatus.RUNNING, TaskStatus.REVEALING):
        return tasks.advance, "slash who is late in, and go on with,"
    if task.status == TaskStatus.DECIDED:
        return tasks.finalize, "pay and slash, as decided, in"
    if task.status != TaskStatus.APPEALED:
        return None
    if appeal.standing:
        return appeals.finalize, "carry out the verdict on"
    return appeals.lapse, "end, without a decision, the appeal of"


def _audited(network: Any, task: Any) -> float:
    """The least share of tasks of its fee and class that pays verifiers for watching."""
    from agents.runtime.config import VerifierSettings
    from agents.tasks.contract import Tasks
    from agents.tasks.rechecking_pay import least_share

    tasks = Tasks(network)
    able = len(tasks.recheckers()[task.class_id].able)
    rate = Fraction(str(VerifierSettings().task_audit_rate))
    bond = tasks.terms().appeal_bond
    found = least_share(bond, task.fee, able, rate)
    if found is None:
        raise click.ClickException(
            f"A bond of {zoo(bond)} pays {able} verifiers for no share of tasks of {zoo(task.fee)}:"
            " name the share yourself with --share."
        )
    return float(found)


def _appeal(contracts: Contracts, account: Any, yes: bool, task_id: int) -> None:
    """Bond an appeal, if the task's window is open."""
    network = contracts.network()
    task = _tasks(network, task_id).task(task_id)
    if not task.appealable(network.chain.chain_time()):
        raise click.ClickException(
            f"Task {task_id} is {task.status.name} and can't be appealed, or not any more: "
            f"`ape run task status {task_id}` says where it stands."
        )
    terms = contracts.RedundantTasks.terms()
    appeals, bond = contracts.TaskAppeals, terms.appeal_bond
    afford(contracts, account, bond)
    rehearse(appeals.appeal, task_id, sender=account)
    lines = [f"let the appeals' contract take a bond of {zoo(bond)}", f"appeal task {task_id}"]
    with signing(account, lines, yes):
        allow(contracts, account, appeals, bond)
        appeals.appeal(task_id, sender=account)
    click.echo(
        f"Task {task_id} is appealed with a bond of {zoo(terms.appeal_bond)}; verifiers have "
        f"{terms.verdict_s} s."
    )


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn what is wrong with a task, its data or its class into one sentence."""
    from agents.storage.errors import NotFound
    from agents.tasks.compute.errors import TaskError
    from agents.training.documents import DataError
    from agents.training.spec import SpecError
    from agents.training.state import PayloadError

    try:
        yield
    except TaskError as error:
        raise click.ClickException(f"Nodes would refuse this task: {error}.") from None
    except NotFound as error:
        raise click.ClickException(f"Nodes would not find an input: {error}") from None
    except (DataError, SpecError, PayloadError) as error:
        raise click.ClickException(str(error)) from None


def _open(store: str) -> Any:
    from agents.storage.content_store import open_store

    return open_store(store)


def _class_id(tasks: Any, label: str) -> int:
    """The id of a class; a sentence that lists those there are if there is none of that name."""
    found: dict[str, int] = tasks.class_ids()
    if label not in found:
        raise click.ClickException(
            f"The network has no determinism class {label!r}; it has {', '.join(found)}."
        )
    return found[label]


def _read(path: Path | None) -> dict[str, Any]:
    try:
        fields = read_yaml(path, SPEC_BYTES) if path else {}
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be used: {error}.") from None
    if not isinstance(fields, dict):
        raise click.ClickException(f"{path} must hold fields by name.")
    return fields


def _spec(
    contracts: Contracts,
    store: Any,
    file: Path | None,
    kind: str | None,
    job_id: int | None,
    model_file: Path | None,
    checkpoint: str | None,
    data: tuple[str, ...],
    prompts: tuple[str, ...],
    options: tuple[str, ...],
    label: str | None,
) -> Any:
    """The spec that the options describe; what they leave out is the job's, then the file's."""
    from agents.tasks.compute.classes import CPU
    from scripts._shared.task_specs import build, put_data

    fields: dict[str, Any] = {"determinism": CPU, **_read(file)}
    if job_id is not None:
        fields |= _of_job(contracts, store, job_id)
    if model_file is not None:
        fields["model"] = _read(model_file)
    if kind is not None:
        fields["kind"] = kind
    if label is not None:
        fields["determinism"] = label
    if checkpoint is not None:
        path = Path(checkpoint)
        fields["checkpoint"] = store.put_file(path) if path.is_file() else checkpoint
    if data or prompts:
        fields["data"] = put_data(store, str(fields.get("kind")), data, prompts)
    elif fields.get("kind") == "generate" and file is None:
        raise click.UsageError("Name the texts to go on from with --prompt.")
    missing = [name for name in ("kind", "model", "checkpoint", "data") if name not in fields]
    if missing:
        raise click.UsageError(
            f"The task has no {', '.join(missing)}; give --spec, --job or the option of that name."
        )
    return build(_with_defaults(fields), options)


def _of_job(contracts: Contracts, store: Any, job_id: int) -> dict[str, Any]:
    """Model, newest state and data of a job with public data."""
    from agents.jobs.outer_step import weights_of
    from agents.rounds.models import Models
    from agents.training.state import save_state

    network = contracts.network()
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")
    models = Models(network, store)
    job = models.job(job_id)
    spec = job.spec
    if spec.pipeline is not None:
        raise click.ClickException(
            f"The model of job {job_id} is split into stages, and a task runs a whole model."
        )
    found: dict[str, Any] = {"model": spec.model.model_dump()}
    weights = weights_of(models.current(job_id), job.shapes)
    found["checkpoint"] = store.put_bytes(save_state(weights))
    if spec.access == "public":
        found["data"] = spec.data
    return found


def _with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with sequences as long as the model allows, and a first small size of a task."""
    options = dict(fields.get("options") or {})
    longest = int(dict(fields["model"]).get("max_seq_len", 64))
    if fields["kind"] == "generate":
        options.setdefault("max_new_tokens", max(1, longest // 2))
    else:
        options.setdefault("seq_len", longest)
        size = "sequences" if fields["kind"] == "evaluate" else "steps"
        options.setdefault(size, 32)
    return {**fields, "options": options}


def _tasks(network: Any, task_id: int) -> Any:
    """The typed reader; a sentence if there is no such task."""
    from agents.tasks.contract import Tasks

    tasks = Tasks(network)
    if not 1 <= task_id <= tasks.count():
        raise click.ClickException(f"There is no task {task_id}; there are {tasks.count()}.")
    return tasks


def _view(network: Any, task_id: int) -> Any:
    """What `status` prints."""
    from rich.console import Group
    from rich.table import Table

    from agents.storage.cid import cid_from_digest
    from scripts._shared.task_words import lane_rows, sentence

    tasks = _tasks(network, task_id)
    task, appeal = tasks.task(task_id), tasks.appeal(task_id)
    title = f"Task {task_id}: {task.status.name}"
    table = Table("lane", "node", "state", "on chain", title=title)
    for row in lane_rows(task):
        table.add_row(*row)
    facts = (
        f"creator {task.creator}, fee {zoo(task.fee)}, {task.run_s} s to compute, class "
        f"{tasks.label(task.class_id)}, spec {cid_from_digest(task.spec)}"
    )
    expected, decided = tasks.expected(task_id), _decided(network, task, appeal)
    text = sentence(task, appeal, network.chain.chain_time(), expected, decided=decided)
    return Group(table, facts, text)


def _decided(network: Any, task: Any, appeal: Any) -> bool | None:
    """Whether the committee decided on the objection to a verdict; None where there was none, or
    it is open. Only the events tell: a verdict that is upheld looks like one that lapsed."""
    if task.status != TaskStatus.CLOSED or int(appeal.objector, 16) == 0:
        return None
    chain, contract = network.chain, network.appeals
    last, first = chain.head().number, network.deployment.block
    while last >= first:
        begin = max(first, last - _EVENT_BLOCKS + 1)
        for name in ("ObjectionResolved", "AppealLapsed"):
            if chain.events(contract, name, begin, last, {"task_id": task.task_id}):
                return name == "ObjectionResolved"
        last = begin - 1
    return None


def _result(network: Any, store: Any, task_id: int, wait: bool, out: Path | None) -> None:
    """Show the result of a task, verified, once there is one."""
    from agents.protocol.formulas import UNAVAILABLE
    from agents.storage.durable import write_atomic
    from agents.storage.errors import NotFound
    from agents.tasks.compute.spec import MAX_SPEC_BYTES
    from scripts._shared.task_words import NoAnswer, result_lines, sentence

    tasks = _tasks(network, task_id)
    told = ""
    while True:
        task, appeal = tasks.task(task_id), tasks.appeal(task_id)
        expected, decided = tasks.expected(task_id), _decided(network, task, appeal)
        text = sentence(task, appeal, network.chain.chain_time(), expected, decided=decided)
        # What verifiers found stands for good; what executors agreed on may still be appealed.
        verdict = appeal.result
        digest = verdict if any(verdict) else task.result
        digest, payload = None if digest == UNAVAILABLE else digest, None
        if digest is not None:
            try:
                payload = store.get_digest(digest, MAX_PAYLOAD)
            except NotFound:
                text = f"{text} The store does not have the result yet."
        ended = task.status in (TaskStatus.UNDECIDED, TaskStatus.CLOSED) and digest is None
        if payload is not None or ended or not wait:
            break
        if text.split(",")[0] != told:
            told = text.split(",")[0]
            click.echo(text)
        time.sleep(_LOOK_S)
    if payload is None:
        raise click.ClickException(f"Task {task_id} has no result to show. {text}")
    if out is not None:
        write_atomic(out, payload, mode=0o644)
        click.echo(f"Written to {out}.")
    with _sentences():
        raw = store.get_digest(task.spec, MAX_SPEC_BYTES)
    kind, shapes = _kind(raw)
    try:
        lines = result_lines(kind, payload, task.spec, shapes)
    except NoAnswer as error:
        click.echo(text)
        raise click.ClickException(
            f"This is no answer to a task of this kind: {error}. "
            f"{_against(task, appeal, network.chain.chain_time())}"
        ) from None
    for line in lines:
        click.echo(line)
    click.echo(text)


def _kind(raw_spec: bytes) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A task's kind, and the shapes of the model whose checkpoint it gives; nothing where the
    spec is none: the answer to that is a refusal."""
    from agents.tasks.compute.errors import TaskError
    from agents.tasks.compute.spec import parse_spec
    from agents.training.model import template

    try:
        spec = parse_spec(raw_spec)
    except TaskError:
        return "", {}
    try:
        return spec.kind, template(spec.model) if spec.kind == "train_steps" else {}
    except ValueError:  # a network beyond all bounds, which nodes refuse
        return spec.kind, {}


def _against(task: Any, appeal: Any, now: int) -> str:
    """What can be done against a wrong result."""
    number = task.task_id
    if task.appealable(now):
        return f"`ape run task appeal {number}` has verifiers run the task again, for a bond."
    if appeal.deadline:
        return f"It is appealed; `ape run task status {number}` says until when verifiers decide."
    return "It can't be appealed, or not any more."
