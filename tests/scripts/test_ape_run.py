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
