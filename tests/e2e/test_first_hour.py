# SPDX-License-Identifier: Apache-2.0
"""The first hour of a newcomer, a sponsor and a deployer, typed as the documents say.

Rule: what is typed is what a person types. Nothing is prepared that the documents do not prepare.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from eth_account import Account
from web3 import HTTPProvider, Web3

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, JobStatus
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from scripts._net.anvil import MNEMONIC, Anvil, start_anvil
from scripts._net.compiled import ROOT
from scripts._net.deployment import ORDER
from scripts._net.processes import Process, Supervisor, free_port
from tests.stage.terminal import Terminal, typed_lines

PATIENCE_S = 240.0
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
SPEC = """\
batches_per_round: 4
model: {d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, max_seq_len: 16}
optimizer: {batch_size: 4, seq_len: 16}
"""


def until(found: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not found():
        assert time.monotonic() < end, f"not within {patience_s:g} s: {what}"
        time.sleep(0.3)


def reader(url: str, deployment: Path) -> Network:
    chain = ChainClient(url, open_log("test", "error", True, None))
    return Network(chain, load_deployment(deployment))


# -- the local network, joined by a newcomer and a sponsor ---------------------------------------


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
    with Supervisor(folder / "logs", ROOT) as supervisor:
        process = supervisor.start(
            "localnet",
            [
                *(sys.executable, "-m", "scripts.devnet", "--port", str(port)),
                *("--directory", str(folder / "net"), "--data", str(text), *SMALL),
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
    assert "windows exceed unbonding" in long
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
    economics = terminal.type(f"ape run economics --rpc {joined.url}{_known(told)}")
    assert "share" in economics


def _known(told: str) -> str:
    """How the printed commands name the deployment file."""
    (found,) = set(re.findall(r"ape run status .* --watch( --deployment \S+)", told))
    return found


# -- a deployment by the command, on a chain that has nothing -------------------------------------

PEOPLE = ("deployer", "holder", "member-1", "member-2", "member-3", "sponsor")
NODES = {"trainer": 1, "verifier": 2, "aggregator": 1, "executor": 2}
MONEY = 10**20


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[tuple[Anvil, Supervisor, Terminal]]:
    with Supervisor(tmp_path / "logs", ROOT) as supervisor:
        anvil = start_anvil(supervisor, tmp_path, block_time=1.0)
        yield anvil, supervisor, Terminal(tmp_path)


def test_a_deployment_by_the_command_trains(
    bare: tuple[Anvil, Supervisor, Terminal], tmp_path: Path
) -> None:
    """Killed half-way, it goes on; then every role runs from the file it wrote."""
    anvil, supervisor, terminal = bare
    w3 = Web3(HTTPProvider(anvil.url))
    Account.enable_unaudited_hdwallet_features()
    rich = Account.from_mnemonic(MNEMONIC)
    at = {name: terminal.has(name) for name in PEOPLE}
    file = tmp_path / "deployment.json"
    net = f"--network {anvil.url}"
    members = ",".join(at[f"member-{i}"] for i in (1, 2, 3))
    command = (
        f"ape run deploy {net} --account deployer --members {members} --threshold 2 "
        f"--holder {at['holder']} --routine-delay 2 --unbonding 7200 --benchmark-quorum 1 "
        f"--out {file}"
    )
    assert "not enough" in terminal.type(command, fails=True)
    for address in at.values():
        w3.eth.send_transaction(
            {"from": rich.address, "to": address, "value": Web3.to_wei(MONEY, "wei")}
        )
    until(
        lambda: all(w3.eth.get_balance(Web3.to_checksum_address(a)) for a in at.values()), "ether"
    )

    halted = subprocess.Popen(
        command.split(),
        cwd=ROOT,
        env=terminal.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert halted.stdin is not None and halted.stdout is not None
    halted.stdin.write("y\n")
    halted.stdin.flush()
    for printed in halted.stdout:
        if printed.startswith("TrainingLedger"):
            break
    halted.kill()
    halted.wait()
    assert not file.exists()
    said = terminal.type(command, answers="y\n")
    assert said.count("Go on?") == 1
    assert "Going on with the deployment" in said and "What to do next" in said
    assert set(json.loads(file.read_text())["contracts"]) == set(ORDER)

    network = reader(anvil.url, file)
    token = w3.eth.contract(
        Web3.to_checksum_address(network.deployment["ZooToken"].address),
        abi=network.deployment["ZooToken"].abi,
    )
    known = f"{net} --deployment {file}"
    _give(terminal, w3, token, at["sponsor"], 100_000)
    owners, boards = [], {f"member-{i}": free_port() for i in (1, 2)}
    for role, count in NODES.items():
        for number in range(1, count + 1):
            operator, owner = f"{role}-{number}", f"{role}-{number}-owner"
            for name in (operator, owner):
                address = terminal.has(name)
                w3.eth.send_transaction(
                    {"from": rich.address, "to": address, "value": Web3.to_wei(MONEY, "wei")}
                )
                _give(terminal, w3, token, address, 2_000)
            owners.append(terminal.words[f"<address of {owner}>"])
            kind = "trainer" if role == "executor" else role
            until(lambda o=owners[-1]: w3.eth.get_balance(o) > 0, "ether")  # type: ignore[misc]
            terminal.type(
                f"ape run node register {known} --account {owner} --role {kind} --yes "
                f"--operator <address of {operator}>"
            )
            _start(supervisor, terminal, anvil, file, role, operator, {})
    for member, port in boards.items():
        others = [f"http://127.0.0.1:{p}" for m, p in boards.items() if m != member]
        extra = {
            "coordinator.board_port": port,
            "coordinator.peers": others,
            "coordinator.trusted_owners": owners,
        }
        _start(supervisor, terminal, anvil, file, "coordinator", member, extra)
    data, spec = tmp_path / "text.txt", tmp_path / "spec.yaml"
    data.write_text("pack my box with five dozen liquor jugs. " * 400)
    spec.write_text(SPEC)
    terminal.type(
        f"ape run job create {known} --account sponsor --data {data} --spec {spec} --rounds 1 "
        f"--store {tmp_path / 'store'} --yes"
    )
    until(lambda: network.job(1).status == JobStatus.COMPLETED, "the job is done")
    until(
        lambda: bool(network.chain.call(network.pool, "pending", owners[0])), "the trainer is paid"
    )


def _give(terminal: Terminal, w3: Web3, token: object, to: str, amount: int) -> None:
    """The holder hands out ZOO, from a wallet of its own."""
    from agents.runtime.wallet import read_keystore
    from tests.stage.terminal import PASSPHRASE

    holder = Account.from_key(read_keystore(str(terminal.keystore("holder")), PASSPHRASE))
    call = token.functions.transfer(to, amount * ZOO)  # type: ignore[attr-defined]
    tx = call.build_transaction(
        {"from": holder.address, "nonce": w3.eth.get_transaction_count(holder.address, "pending")}
    )
    w3.eth.send_raw_transaction(holder.sign_transaction(tx).raw_transaction)


def _start(
    supervisor: Supervisor,
    terminal: Terminal,
    anvil: Anvil,
    file: Path,
    role: str,
    name: str,
    extra: dict[str, object],
) -> None:
    """Write an agent's settings with the command, add to them, and start it."""
    path = terminal.home / f"{name}.yaml"
    terminal.type(
        f"ape run agent config {role} --keystore {name} --rpc-url {anvil.url} --out {path} "
        f"--deployment {file} --store {file.parent / 'store'}"
    )
    settings = yaml.safe_load(path.read_text())
    for setting, value in {"timer_s": 0.5, "jitter_s": 0.3, **extra}.items():
        section, dot, key = setting.partition(".")
        (settings.setdefault(section, {}) if dot else settings)[key or section] = value
    path.write_text(yaml.safe_dump(settings))
    supervisor.start(
        name,
        f"{sys.executable} -m agents {role} --config {path}".split(),
        env={**terminal.env, "MENAGERIE_PASSPHRASE_ENV": "MENAGERIE_PASSPHRASE"},
    )
