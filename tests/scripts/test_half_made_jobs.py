# SPDX-License-Identifier: Apache-2.0
"""A job whose creation stopped half-way is named, and each step that is left has a command.

Until 2026-11-30 its number was printed after the last step: who ran `job create` again paid for a
second job, and for one that scores are to pay there was no command that adopts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agents.protocol.numbers import ZOO
from scripts import job
from scripts._job import packing
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from scripts._shared import job_classes, operator
from scripts._shared.rpc_provider import RpcReceipt
from scripts._wheel.command import cli
from tests.stage.chain.people import People, found
from tests.stage.terminal import SPEC, Terminal

_GRADIENTS = SPEC.replace(" 4, seq_len: 16", " 4, seq_len: 16, inner: gradient, outer_lr: 0.01")
SCORED = f"{_GRADIENTS}codec: demo\ncodec_options: {{per_chunk: 512}}\nmerge: demo_sign\n"
SCORED += "score: gauntlet\nverify: gauntlet\n"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, str]]:
    """A chain with the contracts and nodes, and the options that name both."""
    folder = tmp_path_factory.mktemp("net")
    with Supervisor(folder) as supervisor:
        anvil = start_anvil(supervisor, folder)
        file = folder / "deployment.json"
        people = found(anvil.url, ("ann", "bob", "cat", "dan"), file)
        yield people, f"--network {anvil.url} --deployment {file}"


@pytest.fixture(autouse=True)
def unplayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No attack is played, and nobody has declared a class."""
    monkeypatch.setattr(packing, "refuse_attacked", lambda *_: None)
    monkeypatch.setattr(job_classes, "check_classes", lambda *_: None)


class Sponsor:
    """Somebody with ZOO at a terminal, who creates a job of one round from a spec."""

    def __init__(self, net: tuple[People, str], folder: Path, name: str, spec: str) -> None:
        self.people, self.net = net
        self.terminal = Terminal(folder)
        self.account = self.people.person(name, 2_000 * ZOO)
        self.terminal.has("me", bytes(self.account.key))
        self.store = folder / "store"
        self.signs = f"{self.net} --account me --yes"
        (folder / "spec.yaml").write_text(spec)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
        self.create = (
            f"job create {self.signs} --spec {folder / 'spec.yaml'} --store {self.store} "
            f"--data {folder / 'text.txt'} --rounds 1 --though-attacks-pay"
        )

    def balance(self, wei: int) -> None:
        self.people.chain.rpc("anvil_setBalance", self.account.address, hex(wei))

    def stopped(self, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
        """Ether runs out once the job is created: its number, what was said and what failed."""
        decode = RpcReceipt.decode_logs

        def decoded(receipt: RpcReceipt, events: Any) -> list[Any]:
            self.balance(1)
            return decode(receipt, events)

        monkeypatch.setattr(RpcReceipt, "decode_logs", decoded)
        runner = CliRunner(env=self.terminal.env, mix_stderr=False)
        done = runner.invoke(cli, self.terminal._words_of(self.create))
        assert done.exit_code == 1, done.stdout + done.stderr
        self.balance(10**18)
        return self.people.chain.call(self.people.jobs, "job_count"), done.stdout, done.stderr

    def type(self, command: str, fails: bool = False) -> str:
        """Type a command that was printed."""
        group, name, *rest = command.removeprefix("ape run ").split()
        return self.terminal.here(f"{group} {name} {self.signs} {' '.join(rest)}", fails=fails)


def test_a_job_that_scores_pay_is_named__and_completed_by_the_commands_that_are_said(
    net: tuple[People, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "LOCALNET", tmp_path / "none")  # the checkout may have one
    sponsor = Sponsor(net, tmp_path, "scored sponsor", SCORED)
    people, store = sponsor.people, f"--store {sponsor.store}"
    number, said, failed = sponsor.stopped(monkeypatch)
    assert f"Job {number} is created." in said, failed
    adopt, fund = re.findall(r"`(ape run job (?:adopt|fund) [^`]*)`", failed)
    assert f"job adopt {number} --score-commit-s" in adopt
    assert fund == f"ape run job fund {number} 1000"
    assert "Don't create it again" in failed and f"ape run job cancel {number}" in failed

    refused = sponsor.type(f"{fund} {store}", fails=True)
    assert f"`ape run job adopt {number}` comes first" in refused
    assert people.chain.call(people.pool, "escrow", number) == 0
    assert "not looked at, because no --store" in sponsor.terminal.here(
        f"job fund {sponsor.signs} {number} 999999", fails=True
    )
    sponsor.type(f"{adopt} {store}")
    assert people.chain.call(people.scores, "adopted", number)
    assert "1,000 ZOO in escrow" in sponsor.type(f"{fund} {store}")
    assert "paid by scores already" in sponsor.type(f"{adopt} {store}", fails=True)


def test_a_job_that_its_result_pays_is_funded_by_the_command_that_is_said(
    net: tuple[People, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sponsor = Sponsor(net, tmp_path, "usual sponsor", SPEC)
    number, said, failed = sponsor.stopped(monkeypatch)
    assert f"Job {number} is created." in said, failed
    (fund,) = re.findall(r"`(ape run job (?:adopt|fund) [^`]*)`", failed)
    store = f"--store {sponsor.store}"
    refused = sponsor.type(f"ape run job adopt {number} {store}", fails=True)
    assert "has no verifiers score its work" in refused
    assert "1,000 ZOO in escrow" in sponsor.type(f"{fund} {store}")


def test_a_payment_that_an_earlier_command_has_made_meanwhile_is_not_repeated_blindly(
    net: tuple[People, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed command had sent is mined after the allowance was looked at: the token refuses
    the second payment, and until 2026-11-30 nothing said why."""
    sponsor = Sponsor(net, tmp_path, "hasty sponsor", SPEC)
    people, account = sponsor.people, sponsor.account
    sponsor.terminal.here(f"{sponsor.create} --fund-rounds 0")
    number = people.chain.call(people.jobs, "job_count")
    sponsor_, spec = people.chain.call(people.jobs, "origin_of", number)
    people.chain._nonces.clear()
    people.chain.send(account, people.token, "approve", people.pool.address, 0)
    allow = job.allow

    def overtaken(*arguments: Any) -> None:
        allow(*arguments)
        people.chain._nonces.clear()
        people.chain.send(account, people.pool, "fund", number, sponsor_, spec, 7 * ZOO)

    monkeypatch.setattr(job, "allow", overtaken)
    refused = sponsor.type(f"ape run job fund {number} 7", fails=True)
    assert "insufficient allowance" in refused
    assert "An earlier command may have been carried out meanwhile" in refused
    assert "`ape run status`" in refused
