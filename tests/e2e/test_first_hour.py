# SPDX-License-Identifier: Apache-2.0
"""The first hour of a newcomer and of a sponsor, typed as the documents say.

Rule: what is typed is what a person types. Nothing is prepared that the documents do not prepare.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.protocol.network import Network
from agents.protocol.numbers import TaskStatus
from agents.tasks.contract import Tasks
from scripts._net.compiled import ROOT
from scripts._net.ports import free_port
from scripts._net.processes import Process, Supervisor
from tests.stage.terminal import SPEC, Terminal, reader, typed_lines, until

SMALL = [
    "--trainers",
    "1",
    "--verifiers",
    "2",
    "--aggregators",
    "1",
    "--executors",
    "3",
    "--members",
    "3",
    "--threshold",
    "2",
]


@dataclass
class Joined:
    """A local network as `make localnet` starts it, and what it printed."""

    process: Process
    url: str
    directory: Path
    told: str
    terminal: Terminal
    supervisor: Supervisor

    @property
    def network(self) -> Network:
        return reader(self.url, self.directory / "deployment.json")


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    folder = tmp_path_factory.mktemp("localnet")
    port = free_port()
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    # The job that runs all the while: at the usual size its agents compute for five minutes.
    spec = folder / "spec.yaml"
    spec.write_text(SPEC)
    with Supervisor(folder / "logs", ROOT) as supervisor:
        process = supervisor.start(
            "localnet",
            [
                *(sys.executable, "-m", "scripts.devnet", "--port", str(port)),
                *("--directory", str(folder / "net"), "--data", str(text)),
                *("--spec", str(spec), *SMALL),
            ],
            env={"PYTHONUNBUFFERED": "1"},
        )
        until(lambda: "Join it with" in process.log.read_text() or not process.running, "it runs")
        told = process.log.read_text()
        assert "Join it with" in told, told
        terminal = Terminal(folder)
        for alias in ("my-owner", "my-operator"):
            terminal.account(alias)
        terminal.words["my.txt"] = str(text)
        yield Joined(
            process, f"http://127.0.0.1:{port}", folder / "net", told, terminal, supervisor
        )


def line_with(told: str, words: str) -> str:
    """The command that the network printed and that has these words."""
    (line,) = [line for line in typed_lines(told) if words in line]
    return line


def test_a_newcomer_types_what_localnet_prints_and_earns(joined: Joined) -> None:
    """Faucet, registration with one question, settings, agent, status, claim, exit, withdraw."""
    told, terminal = joined.told, joined.terminal
    for owner in ("my-owner", "my-operator"):
        assert "100,000 ZOO" in terminal.type(
            line_with(told, f"<address of {owner}>{_known(told)}")
        )
    said = terminal.type(line_with(told, "node register"), answers="y\n")
    assert said.count("Go on?") == 1
    (node,) = map(int, re.findall(r"Node (\d+) is registered", said))
    terminal.type(line_with(told, "mkdir"))
    terminal.type(line_with(told, "agent config"))
    agent = joined.supervisor.start(
        "my-trainer",
        [
            *f"{sys.executable} -m agents trainer --config".split(),
            f"{terminal.home}/menagerie/my.yaml",
        ],
        env={**terminal.env, "MENAGERIE_PASSPHRASE_ENV": "MENAGERIE_PASSPHRASE"},
    )
    pool = joined.network.pool
    owner = terminal.words["<address of my-owner>"]
    until(
        lambda: agent.running and bool(joined.network.chain.call(pool, "pending", owner)),
        "it earns",
    )
    assert "rewards" in terminal.type(line_with(told, "run claim"), answers="y\n")
    status = terminal.type(line_with(told, "run status").replace(" --watch", ""))
    assert "ready as trainer" in status and "first of 1 live jobs" in status
    joined.supervisor.stop("my-trainer")
    net = f"--network {joined.url} --account my-owner{_known(told)}"
    early = terminal.type(f"ape run node withdraw {node} {net}", fails=True)
    assert f"`ape run node exit {node}`" in early
    left = terminal.type(f"ape run node exit {node} {net}", answers="y\n")
    assert "UTC (in " in left
    assert "unbonds until" in terminal.type(f"ape run node withdraw {node} {net}", fails=True)


def test_status_is_written_to_a_pipe_again_and_again(joined: Joined) -> None:
    line = line_with(joined.told, "run status")
    watching = subprocess.Popen(
        line.split(), cwd=ROOT, env=joined.terminal.env, stdout=subprocess.PIPE, text=True
    )
    seen = 0
    assert watching.stdout is not None
    for printed in watching.stdout:
        seen += "Nodes" in printed
        if seen == 2:
            break
    watching.send_signal(signal.SIGINT)
    assert watching.wait(60) in (0, 130)


def test_a_sponsor_creates_a_job_and_it_is_trained_first(joined: Joined, tmp_path: Path) -> None:
    """With the defaults, on the first try; the network's own job waits meanwhile."""
    told, terminal = joined.told, joined.terminal
    sponsor = terminal.has("my-sponsor")
    command = line_with(told, "job create").replace("my-owner", "my-sponsor")
    poor = terminal.type(command, fails=True)
    assert f"ape run faucet {sponsor} --amount 10000" in poor
    net = f"--network {joined.url}{_known(told)}"
    terminal.type(f"ape run faucet {net} {sponsor}")
    long = terminal.type(f"{command} --appeal-s 86400", fails=True)
    assert "longer than stakes unbond on this network" in long
    assert joined.network.job_count() == 1
    small = tmp_path / "spec.yaml"
    small.write_text(SPEC)
    said = terminal.type(f"{command} --spec {small}", answers="y\n")
    assert "Job 2: 10 rounds, 10,000 ZOO in escrow" in said
    assert "queues behind" not in said
    shown = terminal.type(line_with(told, "job show"))
    assert "first of 2 live jobs" in shown
    assert "queued behind job 2" in terminal.type(f"ape run job show {net} 1")
    until(lambda: joined.network.job(2).rounds_done >= 2, "two rounds of job 2")


def test_a_task_is_run_by_the_networks_executors(joined: Joined) -> None:
    told, terminal = joined.told, joined.terminal
    until(lambda: joined.network.job(1).rounds_done >= 1, "a round of job 1")
    line = line_with(told, "task create")
    sponsor = terminal.has("tasks-sponsor")
    terminal.type(f"ape run faucet --network {joined.url}{_known(told)} {sponsor}")
    said = terminal.type(line.replace("my-owner", "tasks-sponsor"), answers="y\n")
    assert "agree and are paid" in said
    (task,) = re.findall(r"`ape run task audit (\d+)`", said)
    net = f"--network {joined.url} --account tasks-sponsor{_known(told)}"
    audited = terminal.type(f"ape run task audit {net} {task} --share 1", answers="y\n")
    assert f"Task {task} is appealed with a bond of" in audited
    tasks = Tasks(joined.network)
    until(lambda: tasks.task(int(task)).status is TaskStatus.CLOSED, "verifiers ran it again")
    # The result was right: the bond is the verifiers'.
    assert "Nothing is credited" in terminal.type(f"ape run claim {net}")
    economics = terminal.type(f"ape run economics --rpc {joined.url}{_known(told)}")
    assert "share" in economics


def _known(told: str) -> str:
    """How the printed commands name the deployment file."""
    (found,) = set(re.findall(r"ape run status .* --watch( --deployment \S+)", told))
    return found
