# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a whole network on this machine trains a model, punishes its cheats and pays.

A chain, seven contracts, five committee members, three verifiers, two aggregators and eight
trainers, each agent its own process. Three trainers cheat: one sends noise, one re-sends a
partner's work, one commits and never reveals. The exit code says whether everything that must
hold at the end held.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import requests
from eth_account.signers.local import LocalAccount
from rich.console import Console
from rich.live import Live

from agents.rounds.network import Network, Phase, ReportStatus, Role, Violation
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.storage.content_store import open_store
from agents.training.documents import read_documents, stdlib_corpus
from scripts._contracts import ROOT
from scripts._history import ZOO, History
from scripts._jobs import Published, Terms, publish_job
from scripts._live import losses, render
from scripts._localnet import Localnet, LocalnetSettings, Seat, build_localnet
from scripts._processes import ProcessError, Supervisor, terminate_as_exit
from scripts._report import write_report
from scripts._verdict import Check, check_books, check_cheats, check_ledger, check_loss

WORK = ROOT / ".menagerie" / "demo"
REPORT = ROOT / "report"
_CHEATS = {
    "noise": Violation.INVALID,
    "copier": Violation.COPIED,
    "silent": Violation.NO_REVEAL,
}
_READY_S = 120.0
_BATCHES_PER_TRAINER = 12
_SETTLE_S = 60.0
TERMS = Terms(
    reward_per_round=100 * ZOO,
    commit_s=60,
    reveal_s=12,
    aggregate_s=30,
    challenge_s=60,
    appeal_s=6,
    dispute_s=60,
    challenge_bond=50 * ZOO,
)


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    trainers: int
    rounds: int
    data: tuple[Path, ...]
    time_limit_s: float
    work: Path
    report: Path


@click.command()
@click.option("--trainers", default=8, show_default=True, help="Trainers, three of them cheats.")
@click.option("--rounds", default=10, show_default=True, help="Rounds of the job.")
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .txt or .jsonl file to train on (repeatable). Default: Python's standard library.",
)
@click.option("--time-limit", default=900.0, show_default=True, help="Give up after this long, s.")
@click.option("--report", default=REPORT, show_default="report/", type=click.Path(path_type=Path))
def cli(
    trainers: int, rounds: int, data: tuple[Path, ...], time_limit: float, report: Path
) -> None:
    """Run a whole network on this machine and judge it."""
    if trainers < 5:
        raise click.BadParameter("at least 5: three cheats and two honest trainers")
    sys.exit(run(Options(trainers, rounds, data, time_limit, WORK, report)))


def run(options: Options) -> int:
    """Run the demo; 0 when everything that must hold held."""
    console = Console()
    began = time.monotonic()
    try:
        logs = options.work.parent / "demo-logs"
        shutil.rmtree(logs, ignore_errors=True)
        with terminate_as_exit(), Supervisor(logs, ROOT) as supervisor:
            return _run(options, supervisor, console, began)
    except (KeyboardInterrupt, SystemExit):
        console.print("stopped; no process is left behind")
        return 130
    except ProcessError as error:
        console.print(f"[red]{error}[/red]")
        return 1


def _run(options: Options, supervisor: Supervisor, console: Console, began: float) -> int:
    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}")

    net = build_localnet(
        supervisor,
        options.work,
        LocalnetSettings(trainers=options.trainers, approve_roles=False),
        say,
    )
    cheats = _start_agents(net, say)
    say("packing the corpus and the genesis model")
    published = _publish(net, options)
    network = _network(net)
    _wait_for_benchmarks(net, network, say)
    job_id = net.create_job(published, TERMS, options.rounds)
    started = time.monotonic()
    say(f"job {job_id}: {published.parameters:,} parameters, {published.tokens:,} tokens of text")
    names = {seat.operator.address: seat.name for seat in net.seats.values()}
    names |= {net.seats[seat].operator.address: f"{seat} ({kind})" for kind, seat in cheats.items()}
    history = History(network, open_store(str(net.store)), job_id, names)
    _watch(options, net, network, history, console)
    trained_s = time.monotonic() - started
    utilisation = _utilisation(net)
    claim = _claim(net, history)
    history.update()
    return _conclude(
        options,
        net,
        network,
        history,
        job_id,
        console,
        claim,
        cheats,
        trained_s,
        utilisation,
        began,
    )


# -- starting ----------------------------------------------------------------------------------


def _start_agents(net: Localnet, say: Callable[[str], None]) -> dict[str, str]:
    """Start every agent; returns the cheats' seats by kind."""
    say("starting the committee, which approves verifiers and aggregators")
    for role in ("coordinator", "verifier", "aggregator"):
        for seat in net.of_role(role):
            net.start_agent(seat.name)
    trainers = [seat.name for seat in net.of_role("trainer")]
    cheats = dict(zip(_CHEATS, trainers[-len(_CHEATS) :], strict=True))
    partner = net.directory / "agents" / trainers[0]
    say(f"starting {len(trainers)} trainers, each its own process")
    for name in trainers[: -len(_CHEATS)]:
        net.start_agent(name)
    for kind, name in cheats.items():
        net.start_agent(name, ("scripts._cheats", kind), env={"CHEAT_PARTNER_DIR": str(partner)})
    return cheats


def _publish(net: Localnet, options: Options) -> Published:
    documents = read_documents(options.data) if options.data else stdlib_corpus()
    spec = {
        "rounds": options.rounds,
        "batches_per_round": _BATCHES_PER_TRAINER * options.trainers,
    }
    return publish_job(open_store(str(net.store)), documents, spec)


def _network(net: Localnet) -> Network:
    log = open_log("demo", path=net.directory / "demo.log")
    return Network(ChainClient(net.anvil.url, log), load_deployment(net.deployment_file))


def _wait_for_benchmarks(net: Localnet, network: Network, say: Callable[[str], None]) -> None:
    """Wait until every node may take part. Raises ProcessError."""
    waiting = {
        seat.name: (seat.node_id, Role[seat.role.upper()])
        for seat in net.seats.values()
        if seat.node_id
    }
    until = time.monotonic() + _READY_S
    say("waiting for the committee's approvals and the verified benchmarks")
    while waiting:
        fallen = net.supervisor.fallen()
        if fallen:
            raise ProcessError(f"{fallen[0].name} ended. Its last lines:\n{fallen[0].tail()}")
        if time.monotonic() > until:
            raise ProcessError(f"not ready after {_READY_S:g} s: {', '.join(sorted(waiting))}")
        waiting = {
            name: (node, role)
            for name, (node, role) in waiting.items()
            if not network.chain.call(network.registry, "is_eligible", node, int(role))
        }
        time.sleep(0.5)


# -- running -----------------------------------------------------------------------------------


def _watch(
    options: Options, net: Localnet, network: Network, history: History, console: Console
) -> None:
    """Show the run until the job is complete and every confirmed report is executed."""
    until = time.monotonic() + options.time_limit_s
    shown = 0
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while time.monotonic() < until:
            history.update()
            if console.is_terminal:
                live.update(render(history, options.rounds), refresh=True)
            else:
                for item in history.happenings[shown:]:
                    console.print(f"  {item.text}", highlight=False)
                shown = len(history.happenings)
            fallen = net.supervisor.fallen()
            if fallen:
                raise ProcessError(f"{fallen[0].name} ended. Its last lines:\n{fallen[0].tail()}")
            if history.job_ended and not _open_reports(network, history):
                return
            time.sleep(0.5)
    raise ProcessError(f"the job was not complete after {options.time_limit_s:g} s")


def _open_reports(network: Network, history: History) -> bool:
    """Whether a confirmed report still waits for its appeal window."""
    head = network.chain.head().number
    job_id = network.job_count()
    reports = (
        network.report(report_id)
        for report_id in network.reported(job_id, network.deployment.block, head)
    )
    waiting = (ReportStatus.OPEN, ReportStatus.CONFIRMED, ReportStatus.APPEALED)
    silent = any(
        r.phase == Phase.FINALIZED and r.committed - r.revealed - _slashed_silent(history)
        for r in history.rounds.values()
    )
    return silent or any(report.status in waiting for report in reports)


def _slashed_silent(history: History) -> set[int]:
    return {s.node_id for s in history.slashes if s.violation == Violation.NO_REVEAL}


def _utilisation(net: Localnet) -> float:
    """Share of wall time that the trainers spent computing, mean over trainers."""
    shares = []
    for seat in net.of_role("trainer"):
        reply = requests.get(f"http://127.0.0.1:{seat.metrics_port}/metrics", timeout=5)
        lines = reply.text.splitlines()
        shares += [
            float(line.split()[1])
            for line in lines
            if line.startswith("menagerie_utilisation_ratio ")
        ]
    return sum(shares) / len(shares) if shares else 0.0


# -- ending ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """An owner's claim: what it was owed and how its balance changed, in 1e-18 ZOO."""

    seat: Seat
    owed: int
    received: int
    tx_hash: str


def _claim(net: Localnet, history: History) -> Claim:
    """Let the best-paid trainer's owner claim with a transaction of its own wallet."""
    pool, token = net.contract("RewardPool"), net.contract("ZooToken")
    best = max(net.of_role("trainer"), key=lambda seat: history.nodes[seat.node_id].earned)
    owner: LocalAccount = best.owner
    owed = int(pool.functions.pending(owner.address).call())
    before = int(token.functions.balanceOf(owner.address).call())
    call = pool.functions.claim().build_transaction(
        {
            "from": owner.address,
            "nonce": net.w3.eth.get_transaction_count(owner.address),
        }
    )
    tx_hash = net.w3.eth.send_raw_transaction(owner.sign_transaction(call).raw_transaction)
    net.w3.eth.wait_for_transaction_receipt(tx_hash, timeout=30)
    after = int(token.functions.balanceOf(owner.address).call())
    return Claim(best, owed, after - before, tx_hash.to_0x_hex())


def _conclude(
    options: Options,
    net: Localnet,
    network: Network,
    history: History,
    job_id: int,
    console: Console,
    claim: Claim,
    cheats: dict[str, str],
    trained_s: float,
    utilisation: float,
    began: float,
) -> int:
    from agents.rounds.models import Models

    store = open_store(str(net.store))
    models = Models(network, store)
    accounts = [seat.owner.address for seat in net.seats.values()]
    accounts += [seat.operator.address for seat in net.seats.values()]
    accounts += [net.sponsor.address, net.faucet.address]
    blame = {f"{seat} ({kind})": _CHEATS[kind] for kind, seat in cheats.items()}
    checks = [
        check_loss(history),
        *check_cheats(history, blame),
        Check(
            claim.owed > 0 and claim.received == claim.owed,
            f"{claim.seat.name}'s owner claimed {claim.received / ZOO:,.6f} ZOO of "
            f"{claim.owed / ZOO:,.6f} owed",
        ),
        *check_books(network, history, accounts),
        check_ledger(network, models, history, job_id),
    ]
    last = [r.report for r in history.rounds.values() if r.report][-1:]
    cid = last[0].checkpoint if last else None
    checks.append(Check(cid is not None, f"final checkpoint {cid}"))
    checkpoint = None if cid is None else (cid, store.get(cid, 1 << 30))
    facts = {
        "rounds": str(len(history.rounds)),
        "validation loss": " → ".join(f"{loss:.3f}" for loss in losses(history)),
        "time of training": f"{trained_s:.0f} s, {trained_s / options.rounds:.1f} s a round",
        "time in all": f"{time.monotonic() - began:.0f} s",
        "trainers' utilisation": f"{utilisation:.1%} of wall time spent computing",
        "blocks": str(network.chain.head().number),
        "claim": claim.tx_hash,
    }
    shutil.rmtree(options.report, ignore_errors=True)
    page = write_report(options.report, history, checks, facts, checkpoint)
    console.print()
    for name, value in facts.items():
        console.print(f"{name:>22}  {value}", highlight=False)
    for check in checks:
        mark = "[green]holds[/green]" if check.holds else "[bold red]FAILS[/bold red]"
        console.print(f"{mark}  {check.sentence}", highlight=False)
    console.print(f"\nreport: {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")
    return 0 if all(check.holds for check in checks) else 1


if __name__ == "__main__":
    cli()
