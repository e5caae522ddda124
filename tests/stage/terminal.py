# SPDX-License-Identifier: Apache-2.0
"""Somebody at a terminal of the project's folder, who types commands as the documents print them.

Every command is a process of its own, but for those of `here`. Accounts are those of an ape data
folder of the test's.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.runtime.wallet import create_keystore
from scripts._net.compiled import ROOT
from scripts._wheel.command import cli

PASSPHRASE = "at the terminal"
PATIENCE_S = 480.0  # for what a network does, on a machine that is busy with other things too
SPEC = """\
batches_per_round: 4
model: {d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, max_seq_len: 16}
optimizer: {batch_size: 4, seq_len: 16}
"""
_VARIABLE = "MENAGERIE_PASSPHRASE"
_COMMAND_S = 300
_QUICK = 1_024  # of scrypt: a second less to open


class Terminal:
    """`words`: what to type for placeholders such as '<address of my-owner>'."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.words: dict[str, str] = {"~": str(self.home)}
        self._env = {
            **os.environ,
            "HOME": str(self.home),
            "APE_DATA_FOLDER": str(folder / "ape"),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
            _VARIABLE: PASSPHRASE,
        }
        self.home.mkdir(parents=True)

    @property
    def env(self) -> dict[str, str]:
        """What a process started at this terminal sees."""
        return dict(self._env)

    def account(self, alias: str) -> str:
        """Make an account without questions, as the README has it; return its address."""
        address = self.type(f"ape run wallet new {alias} --passphrase-env {_VARIABLE}").strip()
        self._env[f"APE_ACCOUNTS_{alias}_PASSPHRASE"] = PASSPHRASE
        self.words[f"<address of {alias}>"] = address
        return address

    def has(self, alias: str, key: bytes | None = None) -> str:
        """Give the person an account made earlier, which opens quickly; return its address.

        `key`: of the account, a new one by default.
        """
        path = self.keystore(alias)
        path.parent.mkdir(parents=True, exist_ok=True)
        address = create_keystore(path, PASSPHRASE, key, iterations=_QUICK)
        self._env[f"APE_ACCOUNTS_{alias}_PASSPHRASE"] = PASSPHRASE
        self.words[f"<address of {alias}>"] = address
        return address

    def keystore(self, alias: str) -> Path:
        """Where the keystore of an account is."""
        return Path(self._env["APE_DATA_FOLDER"]) / "accounts" / f"{alias}.json"

    def type(self, line: str, answers: str | None = None, fails: bool = False) -> str:
        """Run one line and return what it prints; `answers` goes to its questions.

        A command that ends otherwise than with 0 fails the test, with `fails` one that does.
        """
        done = self.start(line, answers)
        assert (done.returncode != 0) == fails, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{line}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    def start(self, line: str, answers: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run one line, whatever its exit status."""
        return subprocess.run(
            self._words_of(line),
            cwd=ROOT,
            env=self._env,
            input=answers if answers is not None else "",
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )

    def here(self, line: str, answers: str | None = None, fails: bool = False) -> str:
        """Run a command as `menagerie` has it, in this process, and return what it prints.

        `line` may begin with `ape run`, as documents print it. Nothing of Python, ape and its
        plugins is loaded anew: a twentieth of the time of `type`.
        """
        runner = CliRunner(env=self._env, mix_stderr=False)
        words = self._words_of(line.removeprefix("ape run "))
        done = runner.invoke(cli, words, input=answers or "")
        said = f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.exception is None or isinstance(done.exception, SystemExit), said
        assert (done.exit_code != 0) == fails, said
        return done.stderr if fails else done.stdout

    def _words_of(self, line: str) -> list[str]:
        """The words of a line, with what the person types for its placeholders."""
        for placeholder, typed in self.words.items():
            line = line.replace(placeholder, typed)
        return shlex.split(line)


def typed_lines(text: str) -> list[str]:
    """Return the commands of a printed instruction: indented lines, joined where one goes on."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.startswith("  ")]


def until(found: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not found():
        assert time.monotonic() < end, f"not within {patience_s:g} s: {what}"
        time.sleep(0.3)


def reader(url: str, deployment: Path) -> Network:
    chain = ChainClient(url, open_log("test", "error", True, None))
    return Network(chain, load_deployment(deployment))
