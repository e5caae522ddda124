# SPDX-License-Identifier: Apache-2.0
"""Settings with which no network could run are refused before the deployer signs anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from web3 import HTTPProvider, Web3

from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.terminal import Terminal

MEMBER, STRANGER = "0x" + "5e" * 20, "0x" + "5f" * 20


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (f"--random-source {STRANGER}", "is no contract"),
        (f"--grace-period {1 << 256}", "is not in the range"),
        (f"--benchmark-quorum {1 << 256}", "is not in the range"),
    ],
)
def test_a_setting_that_no_network_runs_with(tmp_path: Path, given: str, sentence: str) -> None:
    """Seeds drawn from an account without code are none, and the contracts keep their source."""
    terminal, out = Terminal(tmp_path), tmp_path / "deployment.json"
    deployer = terminal.has("deployer")
    with Supervisor(tmp_path / "logs") as supervisor:
        anvil = start_anvil(supervisor, tmp_path)
        w3 = Web3(HTTPProvider(anvil.url))
        w3.provider.make_request("anvil_setBalance", [deployer, hex(10**21)])
        who = f"--members {MEMBER} --threshold 1 --holder {MEMBER} --account deployer --yes"
        line = f"ape run deploy --network {anvil.url} {who} --out {out} {given}"
        assert sentence in terminal.type(line, fails=True)
        assert w3.eth.get_transaction_count(deployer) == 0
    assert not out.exists() and not out.with_name("deployment.begun.json").exists()
