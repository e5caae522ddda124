# SPDX-License-Identifier: Apache-2.0
"""ape finds every command of the project. It runs a command's file without entering it among the
modules, so that a file which Python imports may still be none that ape can run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts._net.compiled import ROOT


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


_MULTIPLIERS = """
from ape import networks
networks = networks.ethereum
for network in (*map(networks.get_network, ("mainnet", "sepolia")), networks.custom_network):
    print(network.auto_gas_multiplier)
"""


def test_commands_ask_for_more_gas_than_the_block_before_would_have_taken() -> None:
    """On chains by name and by the URL of a node. Until 2026-11-30 `job cancel` ran out of gas
    where the running round ended between the estimate and the transaction."""
    done = subprocess.run(
        [sys.executable, "-c", _MULTIPLIERS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [float(line) for line in done.stdout.split()] == [3.0, 3.0, 3.0]
