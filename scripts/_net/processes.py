# SPDX-License-Identifier: Apache-2.0
"""Other programs, started and ended for certain.

Rule: every process gets its own group, a log file and a name; leaving the supervisor by whatever
way (return, exception, Ctrl-C, SIGTERM) ends all of them, groups included: SIGTERM first, SIGKILL
after the grace period. On Linux the kernel also ends them if the supervisor itself is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType

from scripts._net import preloaded

GRACE_S = 5.0
_LOG_TAIL = 12


class ProcessError(RuntimeError):
    """A process did not start, or ended when it should not; the message shows its last lines."""


class Process:
    """One running program. `log` receives its standard output and error, appended."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. With `settings`, as a fork of libraries loaded with them, where one can be."""
        self.name = name
        self.command = list(command)
        self.log = log
        self.stopped = False  # asked to end, so its end is no surprise
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            if settings is not None and preloaded.is_possible(command, settings, env):
                self._popen: preloaded.Fork | subprocess.Popen[bytes] = preloaded.Fork(
                    command, settings, env, cwd, log
                )
                return
            try:
                self._popen = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    cwd=cwd,
                    start_new_session=True,
                    preexec_fn=preloaded.end_with_parent if preloaded.can_end_children() else None,
                )
            except OSError as error:
                raise ProcessError(f"{name} cannot be started: {error}.") from None

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._popen.poll()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.returncode is None

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and all its descendants in the group."""
        with suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # it has ended, or has just begun and has no group yet
                if self.running:
                    os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ended within `timeout_s` seconds."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it at once, as a power cut would (SIGKILL)."""
        self.stopped = True
        self.signal_group(signal.SIGKILL)
        self._popen.wait()

    def tail(self, lines: int = _LOG_TAIL) -> str:
        """Return the last lines of its log."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


class Supervisor:
    """Starts processes and ends them all. Use it as a context manager.

    `directory` holds one log per name; `cwd` is where processes run (default: here).
    """

    def __init__(self, directory: Path, cwd: Path | None = None) -> None:
        self._logs = directory
        self._cwd = cwd or Path.cwd()
        self._processes: dict[str, Process] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._settings: dict[str, Mapping[str, str] | None] = {}

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_all()

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    def __iter__(self) -> Iterator[Process]:
        return iter(list(self._processes.values()))

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        timeout_s: float = 30.0,
        settings: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a process; with `ready`, wait until that holds.

        `settings` and `env` are added to this process's environment. Who gives `settings` says
        that torch needs no others while it loads: a Python module may then be forked from a process
        that has loaded it. Raises ProcessError when a process of that
        name runs already, or it ends or is not ready within `timeout_s` seconds.
        """
        if name in self._processes and self._processes[name].running:
            raise ProcessError(f"{name} runs already, as process {self._processes[name].pid}.")
        environment = {**os.environ, **(settings or {}), **(env or {})}
        log = self._logs / f"{name}.log"
        process = Process(name, command, log, environment, self._cwd, settings)
        self._processes[name] = process
        self._settings[name] = settings
        self._environments[name] = dict(env or {})
        if ready is not None:
            self.wait_ready(name, ready, timeout_s)
        return process

    def wait_ready(self, name: str, ready: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Wait until `ready()` holds; raise ProcessError as `start` does."""
        process, deadline = self._processes[name], time.monotonic() + timeout_s
        while not ready():
            if not process.running:
                raise ProcessError(
                    f"{name} ended with {process.returncode} before it was ready. Its last lines "
                    f"({process.log}):\n{process.tail()}"
                )
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{name} was not ready after {timeout_s:g} s. Its last lines ({process.log}):\n"
                    f"{process.tail()}"
                )
            time.sleep(0.02)

    def restart(self, name: str) -> Process:
        """Start an ended process again, with the same command, environment and log."""
        return self.start(
            name,
            self._processes[name].command,
            self._environments[name],
            settings=self._settings[name],
        )

    def fallen(self) -> list[Process]:
        """Return the processes that ended without being asked to."""
        return [p for p in self if not p.running and not p.stopped]

    def stop(self, *names: str, grace_s: float = GRACE_S) -> None:
        """End processes together: SIGTERM, and SIGKILL for those alive after `grace_s` seconds."""
        chosen = [self._processes[name] for name in names]
        for process in chosen:
            process.stopped = True
            process.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        for process in chosen:
            process.wait(max(0.0, deadline - time.monotonic()))
        for process in chosen:  # also what an ended process left behind in its group
            process.kill()

    def stop_all(self, grace_s: float = GRACE_S) -> None:
        """End everything, the newest first; a second Ctrl-C only shortens the grace."""
        names = list(self._processes)[::-1]
        try:
            self.stop(*names, grace_s=grace_s)
        except KeyboardInterrupt:
            self.stop(*names, grace_s=0.0)


@contextmanager
def terminate_as_exit() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that `with` blocks are left in order."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
