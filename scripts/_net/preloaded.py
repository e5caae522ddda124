# SPDX-License-Identifier: Apache-2.0
"""Modules that start in a moment: forks of one process that has imported torch and web3 already.

Importing them costs an agent four seconds of a core, so nine agents on two cores are ready after
twenty. The fork server of `multiprocessing` imports them once (`fork_server.py`). A fork of it
starts in some hundredths of a second, shares their memory, and is a process like any other: with a
session, a log, an environment and a process id of its own.

On Linux only: elsewhere libraries may not survive a fork.
"""

from __future__ import annotations

import ctypes
import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.forkserver import ensure_running
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# What the libraries in the server were loaded with; None before there is a server.
_loaded_with: dict[str, str] | None = None


def end_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends. Linux only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def can_end_children() -> bool:
    """Whether children of this thread may `end_with_parent`: they would end with the thread."""
    return _LIBC is not None and threading.current_thread() is threading.main_thread()


def is_possible(
    command: Sequence[str], settings: Mapping[str, str], env: Mapping[str, str]
) -> bool:
    """Return whether a fork can stand for `command`: it is `python -m MODULE ...` of this Python,
    and the server's libraries were loaded with `settings`, or are not loaded yet. An `env` that
    says otherwise needs a process of its own.
    """
    if list(command[:2]) != [sys.executable, "-m"]:
        return False
    if any(env.get(name) != value for name, value in settings.items()):
        return False
    return can_end_children() if _loaded_with is None else _loaded_with == settings


class Fork:
    """A running fork, with the part of `subprocess.Popen` that a supervisor uses."""

    def __init__(
        self,
        command: Sequence[str],
        settings: Mapping[str, str],
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
    ) -> None:
        """Start `command`, which `is_possible` accepted, in `cwd` with exactly `env`."""
        context = multiprocessing.get_context("forkserver")
        _ensure_server(settings)
        self._process = context.Process(
            target=_become, args=(command[2:], dict(env), str(cwd), str(log)), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code


def _ensure_server(settings: Mapping[str, str]) -> None:
    """Start the server when there is none. Its libraries read `settings` while they load."""
    global _loaded_with
    if _loaded_with is None:
        multiprocessing.set_forkserver_preload(["scripts._net.fork_server"])
        with _environment(settings):
            ensure_running()
        _loaded_with = dict(settings)


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _become(arguments: Sequence[str], env: Mapping[str, str], cwd: str, log: str) -> None:
    """In the fork: be the process asked for, then run the module."""
    os.setsid()
    end_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path.insert(0, cwd)  # as `python -m` does
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv[:] = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
