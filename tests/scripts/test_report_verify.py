# SPDX-License-Identifier: Apache-2.0
"""The reader is told what to type, with this report's own files, and what the model is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner
from web3 import Web3

from scripts import audit
from scripts._demo import replayable
from scripts._net.anvil import Anvil
from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet
from scripts._net.processes import Process
from scripts._net.rpc_node import RpcNode
from scripts._report.page.verify import verify
from tests.stage.memory.demo_run import CID, a_run
from tests.stage.memory.page_reader import Page


def test_the_lines_and_the_models_names() -> None:
    page = Page("\n".join(verify(a_run())))
    assert page.faults == []
    assert "ape run audit --job 1 --rpc http://127.0.0.1:8545" in page.text("pre")
    assert CID in page.text("dd") and "11" * 32 in page.text("dd")
    assert "the checkpoint of round 2, 3: its members recomputed" in page.text("dd")
    assert "1,432 facts compared, no difference found, as of block 124" in page.text("dd")


ANVIL = Anvil(8545, cast(Process, None))


def net_on(chain: Anvil | RpcNode) -> Localnet:
    return cast(Localnet, SimpleNamespace(chain=chain))


def test_differences_are_shown() -> None:
    run = a_run()
    assert run.replay is not None
    differing = replace(run, replay=replace(run.replay, differences=["round 1: <it> differs"]))
    assert "round 1: <it> differs" in Page("\n".join(verify(differing))).text("dd")


def test_the_command_is_one_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayable, "find_anvil", lambda: "/somewhere/else/anvil")
    chain, command = replayable.commands(net_on(ANVIL), 7, ROOT / "report")
    assert chain == "anvil --load-state report/chain.json --port 8545 --quiet &"
    prefix = "ape run audit "
    assert command.startswith(prefix)
    options = [option for option in command.removeprefix(prefix).split() if option[:2] == "--"]
    known = {name for option in audit.cli.params for name in option.opts}
    assert set(options) <= known
    assert "--deployment report/deployment.json --store report/store" in command
    assert CliRunner().invoke(audit.cli, ["--help"]).exit_code == 0


def test_a_report_elsewhere_is_named_in_full(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(replayable, "find_anvil", lambda: str(ROOT / "tools" / "bin" / "anvil"))
    chain, command = replayable.commands(net_on(ANVIL), 1, tmp_path)
    assert chain.startswith("tools/bin/anvil ") and f"{tmp_path}/store" in command


def test_on_a_chain_of_somebody_elses_the_audit_asks_that_one(tmp_path: Path) -> None:
    node = RpcNode("https://user:key@example.org/v3/0123456789abcdef", 7, 12.0, None, Web3())
    (command,) = replayable.commands(net_on(node), 1, tmp_path)
    assert "--rpc https://example.org" in command and "0123456789abcdef" not in command
