# SPDX-License-Identifier: Apache-2.0
"""Every command says what it does, and loads nothing heavy for it.

`make bench ARGS="--only start"` has the seconds that it takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT

COMMANDS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))
HEAVY = ("torch", "transformers", "fastapi", "scipy", "matplotlib", "vyper", "web3")


@pytest.mark.parametrize("name", COMMANDS)
def test_ape_runs_a_command_that_says_what_it_does(name: str) -> None:
    ape = str(Path(sys.executable).with_name("ape"))
    done = run(ape, "run", name, "--help")
    assert done.stdout.startswith("Usage: ") and "--help" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_nothing_heavy_to_say_what_it_does(name: str) -> None:
    program = f"import sys; import scripts.{name}; print(*set({HEAVY!r}) & sys.modules.keys())"
    assert run(sys.executable, "-c", program).stdout.split() == []


def run(*command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done
