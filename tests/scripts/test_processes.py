# SPDX-License-Identifier: Apache-2.0
"""Whatever way a supervisor is left, nothing it started is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.training.determinism import pinned_environment
from scripts._net.compiled import ROOT
from scripts._net.processes import ProcessError, Supervisor

# A parent that starts a child in its own group; both write their ids. STUBBORN ignores SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(300)
"""
SUPERVISED = f"""
import sys, time
from pathlib import Path
from scripts._net.processes import Supervisor, terminate_as_exit
with terminate_as_exit(), Supervisor(Path(sys.argv[1])) as supervisor:
    supervisor.start("family", [sys.executable, "-c", {FAMILY!r}])
    time.sleep(300)
"""
SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
TELLER = """
import json, os, sys, time
print(json.dumps({
    "arguments": sys.argv[1:], "who": os.environ.get("WHO"), "torch": "torch" in sys.modules,
    "threads": os.environ["OMP_NUM_THREADS"], "directory": os.getcwd(), "pid": os.getpid(),
    "group": os.getpgrp(), "mechanisms": "agents.mechanisms.merge.median" in sys.modules,
}))
print("to stderr", file=sys.stderr)
time.sleep(300)
"""
FORKING = """
import sys, time
from pathlib import Path
from agents.training.determinism import pinned_environment
from scripts._net.processes import Supervisor
with Supervisor(Path(sys.argv[1])) as supervisor:
    command = [sys.executable, "-m", sys.argv[2]]
    supervisor.start("teller", command, settings=pinned_environment())
    time.sleep(300)
"""
PYTHON_PASS = [sys.executable, "-m", "this"]


def log_of(directory: Path, name: str) -> str:
    """What a process has written, when it has."""
    path = directory / f"{name}.log"
    return path.read_text() if path.exists() else ""


def eventually(condition: Callable[[], object], timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def pids(log: Path) -> list[int]:
    """Return the process ids that a family has written, when it has."""
    return [int(word) for word in log.read_text().split()] if log.exists() else []


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet collected by its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        os.kill(pid, 0)
        return True
    return state != "Z"


def start_family(supervisor: Supervisor, directory: Path, *flags: str) -> list[int]:
    supervisor.start("family", [sys.executable, "-c", FAMILY, *flags])
    assert eventually(lambda: len(pids(directory / "family.log")) == 2)
    return pids(directory / "family.log")


def test_stop_ends_grandchildren_too(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        family = start_family(supervisor, tmp_path)
        assert all(alive(pid) for pid in family)
        supervisor.stop("family")
        assert eventually(lambda: not any(alive(pid) for pid in family))
        assert supervisor["family"].returncode == -signal.SIGTERM


def test_stop_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        family = start_family(supervisor, tmp_path, "stubborn")
        supervisor.stop("family", grace_s=0.2)
        assert supervisor["family"].returncode == -signal.SIGKILL
        assert eventually(lambda: not any(alive(pid) for pid in family))


def test_leaving_by_an_exception_ends_everything(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="meanwhile"), Supervisor(tmp_path) as supervisor:
        family = start_family(supervisor, tmp_path)
        raise RuntimeError("meanwhile")
    assert eventually(lambda: not any(alive(pid) for pid in family))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_to_the_supervisor_leave_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """SIGKILL cannot be handled: there the kernel ends the direct children."""
    outer = subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert eventually(lambda: len(pids(tmp_path / "family.log")) == 2)
    parent, child = pids(tmp_path / "family.log")
    outer.send_signal(number)
    outer.wait(60)
    assert eventually(lambda: not alive(parent))
    if number == signal.SIGKILL:
        os.kill(child, signal.SIGKILL)
    assert eventually(lambda: not alive(child))


def test_fallen_names_only_what_nobody_stopped(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start("short", [sys.executable, "-c", "raise SystemExit(3)"])
        supervisor.start("long", SLEEP)
        supervisor.start("killed", SLEEP)
        supervisor["killed"].kill()
        assert supervisor["short"].wait(60)
        assert [(p.name, p.returncode) for p in supervisor.fallen()] == [("short", 3)]


def test_start__ends_before_ready__shows_its_last_lines(tmp_path: Path) -> None:
    script = "print('the reason'); raise SystemExit(2)"
    with Supervisor(tmp_path) as supervisor, pytest.raises(ProcessError) as error:
        supervisor.start("broken", [sys.executable, "-c", script], ready=lambda: False)
    assert "broken ended with 2" in str(error.value)
    assert "the reason" in str(error.value)


def test_start__not_ready_in_time__raises(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor, pytest.raises(ProcessError, match="not ready after"):
        supervisor.start("slow", SLEEP, ready=lambda: False, timeout_s=0.1)


def test_start__name_runs_already__raises(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start("one", SLEEP)
        with pytest.raises(ProcessError, match="runs already"):
            supervisor.start("one", SLEEP)


def test_start__no_such_program__raises(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor, pytest.raises(ProcessError, match="cannot be started"):
        supervisor.start("ghost", [str(tmp_path / "ghost")])


def test_restart_keeps_command_environment_and_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.environ['WHO'], flush=True)"]
    with Supervisor(tmp_path) as supervisor:
        supervisor.start("again", command, env={"WHO": "menagerie"})
        assert supervisor["again"].wait(60)
        assert supervisor.restart("again").wait(60)
    assert (tmp_path / "again.log").read_text() == "menagerie\nmenagerie\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that tells what process it is, on both streams, then sleeps; forks find it."""
    (tmp_path / "teller.py").write_text(TELLER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return "teller"


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux only")
def test_fork__is_a_process_of_its_own_with_libraries_loaded(tmp_path: Path, module: str) -> None:
    command = [sys.executable, "-m", module, "argument"]
    with Supervisor(tmp_path / "logs", tmp_path) as supervisor:
        process = supervisor.start("teller", command, {"WHO": "me"}, settings=pinned_environment())
        assert eventually(lambda: "to stderr" in process.tail())
        told = json.loads(process.log.read_text().splitlines()[0])
        assert told == {
            "arguments": ["argument"],
            "who": "me",
            "threads": "1",
            "directory": str(tmp_path),
            "torch": True,
            "mechanisms": True,
            "pid": process.pid,
            "group": process.pid,
        }
        process.signal_group(signal.SIGTERM)
        assert process.wait(60) and process.returncode == -signal.SIGTERM
        again = supervisor.restart("teller")
        assert again.pid != process.pid
    assert not alive(again.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux only")
def test_fork__an_agent_s_log_begins_with_what_the_agent_says(tmp_path: Path) -> None:
    """Python warns of a module that is run and was imported before."""
    command = [sys.executable, "-m", "agents", "--help"]
    with Supervisor(tmp_path) as supervisor:
        helped = supervisor.start("agent", command, settings=pinned_environment())
        assert helped.wait(120) and helped.returncode == 0
    assert log_of(tmp_path, "agent").lstrip().startswith("Usage: ")


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux only")
@pytest.mark.parametrize("variable", ["env", "settings"])
def test_start__other_settings_of_torch__forks_nothing(
    tmp_path: Path, module: str, variable: str
) -> None:
    """The server has loaded torch with some settings: another process must load it itself."""
    other = {"OMP_NUM_THREADS": "2"}
    env, settings = (other, {}) if variable == "env" else ({}, other)
    with Supervisor(tmp_path / "logs", tmp_path) as supervisor:
        first = supervisor.start("first", PYTHON_PASS, settings=pinned_environment())
        assert first.wait(120) and first.returncode == 0
        process = supervisor.start(
            "teller",
            [sys.executable, "-m", module],
            env,
            settings=pinned_environment() | settings,
        )
        assert eventually(lambda: "to stderr" in process.tail())
        told = json.loads(process.log.read_text().splitlines()[0])
        assert (told["threads"], told["torch"]) == ("2", False)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux only")
def test_fork__ends_when_its_supervisor_is_killed(tmp_path: Path, module: str) -> None:
    outer = subprocess.Popen([sys.executable, "-c", FORKING, str(tmp_path), module], cwd=tmp_path)
    assert eventually(lambda: "to stderr" in log_of(tmp_path, "teller"))
    child = json.loads(log_of(tmp_path, "teller").splitlines()[0])["pid"]
    outer.kill()
    outer.wait(60)
    assert eventually(lambda: not alive(child))
