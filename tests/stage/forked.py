# SPDX-License-Identifier: Apache-2.0
"""A command in a process of its own that starts in a moment: a fork of one that has torch loaded.

A test that types several commands starts one of them as the program that it is, which shows that it
loads what it needs, and the others here. Each is spared the three seconds of a core that importing
torch and web3 take.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.training.determinism import pinned_environment
from scripts._net.compiled import ROOT
from scripts._net.processes import Process
from scripts._wheel.command import cli

_COMMAND_S = 120.0


def forked(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `ape run WORDS` to its end, whatever its exit status."""
    with TemporaryDirectory() as folder:
        printed, complaints, log = (Path(folder) / name for name in ("stdout", "stderr", "log"))
        command = [sys.executable, "-m", __name__, str(printed), str(complaints), *words]
        settings = pinned_environment()
        env = {**os.environ, **settings, "PYTHONPATH": str(ROOT)}
        process = Process("command", command, log, env, ROOT, settings)
        try:
            assert process.wait(_COMMAND_S), f"{words} has not ended after {_COMMAND_S:g} s."
        finally:
            if process.running:
                process.kill()
        code = process.returncode
        assert code is not None and printed.is_file() and complaints.is_file(), log.read_text()
        return subprocess.CompletedProcess(words, code, printed.read_text(), complaints.read_text())


def _printing_to(*paths: str) -> None:
    """Have standard output and standard error go to files of their own."""
    for stream, path in enumerate(paths, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, stream)
        os.close(descriptor)


if __name__ == "__main__":
    _printing_to(*sys.argv[1:3])
    cli(sys.argv[3:], prog_name="menagerie")
