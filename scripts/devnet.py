# SPDX-License-Identifier: Apache-2.0
"""A local network that keeps running, for people to join.

make localnet                       # the same as: python -m scripts.devnet
make localnet ARGS="--trainers 4 --port 8600"
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

import click

from scripts._shared.node_options import node_of, node_options
from scripts._shared.operator import explained
from scripts._shared.places import LOCALNET
from scripts._shared.quorum import refuse_quorum
from scripts._shared.spec_file import spec_fields

READY_S = 180.0
ROUNDS = 1_000
FEWEST_EXECUTORS = 3  # of redundant tasks: a pool must be able to outvote one


@click.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=LOCALNET,
    help="Folder of the network; an earlier one's is emptied, or renamed if a key paid for it.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8545,
    show_default=True,
    help="The chain's RPC port.",
)
@click.option("--trainers", type=click.IntRange(0), default=3, show_default=True)
@click.option("--verifiers", type=click.IntRange(0), default=3, show_default=True)
@click.option("--aggregators", type=click.IntRange(0), default=2, show_default=True)
@click.option(
    "--executors", type=click.IntRange(0), default=3, show_default=True, help="Of redundant tasks."
)
@click.option(
    "--members", type=click.IntRange(1), default=5, show_default=True, help="Of the committee."
)
@click.option(
    "--threshold", type=click.IntRange(1), default=3, show_default=True, help="Approvals needed."
)
@click.option(
    "--block-time",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help=f"Of the first job (default: as --spec says, else {ROUNDS:,}).",
)
@click.option(
    "--data",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Text to train on (default: Python's standard library).",
)
@click.option(
    "--spec",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Fields of the first job's spec, YAML or JSON (default: a model as in `make demo`).",
)
@node_options
@click.option(
    "--web-port",
    type=click.IntRange(1, 65535),
    default=8700,
    show_default=True,
    help="Port of the network's page, or the next free one.",
)
@click.option("--no-web", is_flag=True, help="Serve no page.")
@click.option("--no-job", is_flag=True, help="Create no job; `ape run job create` can.")
@explained
def cli(
    directory: Path,
    port: int,
    rounds: int | None,
    files: tuple[Path, ...],
    spec: Path | None,
    no_job: bool,
    web_port: int,
    no_web: bool,
    rpc: str | None,
    keystore: str | None,
    **given: object,
) -> None:
    """Start a chain with every role as its own process, and keep it running until Ctrl-C.

    With --rpc the chain is one that runs already; only the agents are started and ended.
    """
    from agents.runtime.pace import stretched
    from scripts._net.localnet import LocalnetSettings, build_localnet
    from scripts._net.processes import Supervisor, terminate_as_exit

    refuse_quorum(given["members"], given["threshold"])  # type: ignore[arg-type]
    fields = {"rounds": ROUNDS, **spec_fields(spec, rounds)}
    settings = LocalnetSettings(port=port, unbonding_period=7_200, **given)  # type: ignore[arg-type]
    with terminate_as_exit(), Supervisor(directory / "logs") as supervisor:
        try:
            node = node_of(rpc, keystore)
            net = build_localnet(supervisor, directory, settings, _say, node)
            page = None if no_web else _serve_page(net, supervisor, web_port)
            if page is not None:
                click.echo(f"Open {page}")
            if not no_job:
                _say("publishing the first job")
                _first_job(net, fields, files)
            _say(f"starting {len(net.seats)} agents")
            for name in net.seats:
                net.start_agent(name)
            net.wait_ready(list(net.seats), stretched(READY_S, net.chain.block_s))
            click.echo(_how_to_join(net, page))
            _watch(supervisor)
        except KeyboardInterrupt:
            click.echo("\nStopping.")


def _say(text: str) -> None:
    click.echo(f"localnet: {text} ...")


def _first_job(net: object, fields: dict[str, Any], files: tuple[Path, ...]) -> None:
    from agents.jobs.publish import Terms, publish_job
    from agents.protocol.numbers import ZOO
    from agents.storage.content_store import open_store
    from agents.training.documents import DataError, read_documents, stdlib_corpus
    from agents.training.spec import SpecError
    from scripts._demo.scenario import OPTIMIZER
    from scripts._net.localnet import Localnet
    from scripts._net.pace import paced

    assert isinstance(net, Localnet)
    documents = read_documents(files) if files else stdlib_corpus()
    rounds = fields["rounds"]
    fields = {"optimizer": {**OPTIMIZER, "inner_state": "kept"}, **fields}
    try:
        published = publish_job(open_store(str(net.store)), documents, fields)
    except (DataError, SpecError) as error:
        raise click.ClickException(str(error)) from None
    # A hundredth of what a sponsor offers by default: whoever creates a job here is served first,
    # although rounds that have gone by quickly count for more than what a new job is expected to.
    terms = paced(Terms.brief(reward_per_round=10 * ZOO), net.chain.block_s)
    net.create_job(published, terms, funded_rounds=rounds)


def _serve_page(net: object, supervisor: object, port: int) -> str | None:
    """Start the page's process; its address, None where what it needs is not installed."""
    from importlib.util import find_spec

    from scripts._net.localnet import Localnet
    from scripts._net.ports import free_port
    from scripts._net.processes import Supervisor

    assert isinstance(net, Localnet) and isinstance(supervisor, Supervisor)
    if find_spec("fastapi") is None:
        _say('serving no page, which takes `pip install -e ".[web]"`')
        return None
    port = free_port() if _listens(port) else port
    where = ["--network", net.chain.url, "--port", str(port)]
    what = ["--store", str(net.store), "--deployment", str(net.deployment_file)]
    # Whoever joins has a wallet that must reach the chain; a node elsewhere may have a key in its
    # address, which the page would show, so `scripts.web` names a node of this machine alone.
    command = [sys.executable, "-m", "scripts.web", *where, *what]
    supervisor.start("web", command, ready=lambda: _listens(port), timeout_s=60.0)
    return f"http://127.0.0.1:{port}"


def _listens(port: int) -> bool:
    """Whether anything on this machine takes connections at a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _how_to_join(net: object, page: str | None) -> str:
    from scripts._net.localnet import Localnet, relative

    assert isinstance(net, Localnet)
    home = relative(net.directory)
    other = net.directory.resolve() != LOCALNET
    known = f" --deployment {home}/deployment.json" if other else ""
    store = f" --store {home}/store" if other else ""
    network = net.chain.url
    look = "" if page is None else f"\nOpen {page} to see it, and to join it with a wallet.\n"
    return f"""{look}
The network runs. Chain {net.chain.chain_id} at {net.chain.url}, logs in {home}/logs.
Press Ctrl-C to end it. In another terminal, with .venv active:

  ape run status --network {network} --watch{known}

Join it with a trainer of your own:

  mkdir -p ~/menagerie
  ape accounts generate my-owner ; ape accounts generate my-operator
  ape run faucet --network {network} <address of my-owner>{known}
  ape run faucet --network {network} <address of my-operator>{known}
  ape run node register --network {network} --account my-owner \\
      --operator <address of my-operator> --role trainer{known}
  ape run agent config trainer --keystore my-operator --rpc-url {network} \\
      --out ~/menagerie/my.yaml --data-dir ~/menagerie/my-trainer{known}{store}
  ape run agent trainer --config ~/menagerie/my.yaml
  ape run claim --network {network} --account my-owner{known}

Have a model trained on texts of your own; agents go to the job that pays best:

  ape run job create --network {network} --account my-owner --data my.txt --rounds 10{known}{store}
  ape run job show --network {network} 2{known}
{_how_to_have_tasks_run(net, known, store)}"""


def _how_to_have_tasks_run(net: object, known: str, store: str) -> str:
    """What to type for a redundant task; nothing where too few nodes run them."""
    from scripts._net.localnet import Localnet

    assert isinstance(net, Localnet)
    if net.settings.executors < FEWEST_EXECUTORS:
        return ""
    network = net.chain.url
    return f"""
Have a task run by nodes that nobody needs to trust (once the first round is final, of its model):

  ape run task create --network {network} --account my-owner --job 1 --kind generate \\
      --prompt "import " --wait{known}{store}
"""


def _watch(supervisor: object) -> None:
    from scripts._net.processes import Supervisor

    assert isinstance(supervisor, Supervisor)
    told: set[int] = set()
    while True:
        time.sleep(1)
        for process in supervisor.fallen():
            if process.pid not in told:
                told.add(process.pid)
                click.echo(f"{process.name} ended with {process.returncode}:\n{process.tail()}")


if __name__ == "__main__":
    cli()
