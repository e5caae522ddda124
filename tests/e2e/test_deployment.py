# SPDX-License-Identifier: Apache-2.0
"""A deployer's first hour: the command on a chain that has nothing, then every role from its file.

Rule: what is typed is what a person types. Nothing is prepared that the documents do not prepare.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from eth_account import Account
from web3 import HTTPProvider, Web3

from agents.protocol.numbers import ZOO, JobStatus
from agents.runtime.wallet import read_keystore
from agents.training.determinism import pinned_environment
from scripts._net.anvil import MNEMONIC, Anvil, start_anvil
from scripts._net.compiled import ROOT
from scripts._net.deployment import ORDER
from scripts._net.ports import free_port
from scripts._net.processes import Supervisor
from tests.stage.terminal import PASSPHRASE, SPEC, Terminal, reader, until

PEOPLE = ("deployer", "holder", "member-1", "member-2", "member-3", "sponsor")
NODES = {"trainer": 1, "verifier": 2, "aggregator": 1, "executor": 2}
MONEY = 10**20
# The whole work, 20 s, is done in `make demo` and in the newcomers' first hour.
SHORT_BENCHMARK = {"trainer.benchmark_s": 0.2, "trainer.benchmark_blocks": 0}


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
    short = terminal.type(f"{command} --governance-delay 7200", fails=True)
    assert "Make the delay longer than the unbonding period" in short
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
            # It is sent after the owner's ether, and may come a block later.
            until(token.functions.balanceOf(owners[-1]).call, "ZOO")
            terminal.type(
                f"ape run node register {known} --account {owner} --role {kind} --yes "
                f"--operator <address of {operator}>"
            )
            extra = SHORT_BENCHMARK if role == "trainer" else {}
            _start(supervisor, terminal, anvil, file, role, operator, extra, fork=number > 1)
    for member, port in boards.items():
        others = [f"http://127.0.0.1:{p}" for m, p in boards.items() if m != member]
        board = {
            "coordinator.board_port": port,
            "coordinator.peers": others,
            "coordinator.trusted_owners": owners,
        }
        fork = member != "member-1"
        _start(supervisor, terminal, anvil, file, "coordinator", member, board, fork)
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
    extra: Mapping[str, object],
    fork: bool,
) -> None:
    """Write an agent's settings with the command, add to them, and start it. One of each role is
    started as the program that it is, and others as forks, which load nothing anew."""
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
        settings=pinned_environment() if fork else None,
    )
