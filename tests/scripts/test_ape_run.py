# SPDX-License-Identifier: Apache-2.0
"""ape finds every command of the project. It runs a command's file without entering it among the
modules, so that a file which Python imports may still be none that ape can run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts._net.anvil import start_anvil
from scripts._net.compiled import ROOT
from scripts._net.processes import Supervisor


def test_every_file_of_the_folder_is_a_command() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("ape"), "run", "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Exception while parsing" not in done.stdout + done.stderr
    listed = re.findall(r"^  (\w+)  ", done.stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == sorted(path.stem for path in (ROOT / "scripts").glob("[!_]*.py"))


_ROOM = """
import sys
from types import SimpleNamespace
from ape import networks
from scripts._shared.connecting import bound
contract = SimpleNamespace(name="Nothing", abi=[], address="0x" + "11" * 20)
with networks.parse_network_choice(sys.argv[1]) as provider:
    before = provider.network.required_confirmations, provider.network.base_fee_multiplier
    bound(provider, contract)
    after = provider.network.required_confirmations, provider.network.base_fee_multiplier
    print(provider.network.gas_limit.multiplier, after == before, after[0])
"""


def test_commands_ask_for_more_gas_than_the_block_before_would_have_taken(
    tmp_path: Path,
) -> None:
    """Until 2026-11-30 `job cancel` ran out of gas where the running round ended between the
    estimate and the transaction. Nothing else of the network changes."""
    with Supervisor(tmp_path) as supervisor:
        url = start_anvil(supervisor, tmp_path).url
        done = subprocess.run(
            [sys.executable, "-c", _ROOM, url],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.split()[-3:] == ["3.0", "True", "0"]
