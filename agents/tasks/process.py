# SPDX-License-Identifier: Apache-2.0
"""Computing tasks in a process of its own.

A task may hold the interpreter's lock, use up the memory, draw random numbers or crash a library.
The agent still follows the chain, and what it trains or checks meanwhile has the same bits. The
process is pinned to its determinism class whatever the agent's own settings are, works on one
request at a time, one JSON line each way, and ends with the agent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from agents.runtime.config import PREFIX
from agents.storage.durable import write_atomic
from agents.storage.errors import StoreError
from agents.storage.several import as_list
from agents.tasks.compute.errors import ClassNotHeld
from agents.tasks.compute.result import TaskResult

_PR_SET_PDEATHSIG = 1
_SEARCH_MIN_S, _SEARCH_MAX_S = 5.0, 60.0
_READ_SHARE = 2  # of its time, in which a task's inputs are read; twice what its budget counts with


class TaskProcessError(Exception):
    """The process failed or died at a task; it is started anew for the next try."""


class TaskProcess:
    """The handle. Safe for threads; a request waits for the one before it.

    The thread that makes the first request must live as long as the agent: on Linux the kernel ends
    the process with it.

    From `begin` until `run` is over the run may be ended by another thread, also while the process
    is being started.

    `store` is the setting: one or several, `device` a torch device or "auto".
    """

    def __init__(self, store: str | Sequence[str], device: str) -> None:
        self._store = as_list(store)
        self._device = device
        self._guard = threading.Lock()
        self._life = threading.Lock()  # of the process; never held while it computes or starts
        self._process: subprocess.Popen[str] | None = None
        self._begun = False
        self._ended = False
        self._label = ""

    def label(self) -> str:
        """The determinism class that the process computes in. Raises ClassNotHeld if in none."""
        with self._guard:
            self._started()
            return self._label

    def run(self, spec: bytes, run_s: int, label: str, out: Path) -> TaskResult:
        """`agents.tasks.compute.run.run_published`; the payload goes through the file `out`, which
        stays.

        Raises StoreError (an input cannot be had now), ClassNotHeld, or TaskProcessError.
        """
        # The stores' URLs go through the pipe: everybody can read a process's arguments.
        request = {
            "spec": spec.hex(),
            "run_s": run_s,
            "label": label,
            "out": str(out),
            "store": self._store,
        }
        try:
            with self._guard:
                answer = self._ask(self._started(), request)
        finally:
            with self._life:
                self._begun = False
        payload = out.read_bytes()
        digest = bytes.fromhex(answer["digest"])
        return TaskResult(digest, payload, answer["refusal"], answer["detail"])

    def begin(self) -> None:
        """A run comes next, which may be ended from now on."""
        with self._life:
            self._begun, self._ended = True, False

    def end(self) -> bool:
        """End the run that was begun, and the process with it; False if there is none."""
        with self._life:
            if not self._begun:
                return False
            self._ended = True
            self._kill()
            return True

    def close(self) -> None:
        """End the process, whatever it does, and start none any more."""
        with self._life:
            self._ended = True
            self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        with self._life:
            process = self._process
            if process is not None and process.poll() is None:
                return process
            self._check_wanted()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                f"{__package__}.process",
                str(os.getpid()),
                self._device,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A stranger's task needs none of the agent's settings, least of all a passphrase.
            env={k: v for k, v in os.environ.items() if not k.startswith(PREFIX)},
        )
        with self._life:
            self._process = process
            if self._ended:  # while it was being started
                self._kill()
            self._check_wanted()
        self._label = str(self._ask(process, None)["label"])
        return process

    def _check_wanted(self) -> None:
        if self._ended:
            raise TaskProcessError("the run was ended")

    def _ask(self, process: subprocess.Popen[str], request: Any) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        try:
            if request is not None:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):
            with self._life:
                self._kill()
            raise TaskProcessError(f"the task process ended with {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        error = answer.get("error")
        if error == "StoreError":
            raise StoreError(answer["why"])
        if error is None:
            return answer
        # It may stay as it is: a GPU's fault holds until the process ends, as does a changed class.
        with self._life:
            self._kill()
        raise (ClassNotHeld if error == "ClassNotHeld" else TaskProcessError)(answer["why"])


# -- the process itself ----------------------------------------------------------------------------


def _main(parent: str, device: str) -> None:
    _die_with(parent)
    # Libraries may print; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from agents.training.determinism import pin_environment, pin_torch

    pin_environment()
    try:
        pin_torch()
        from agents.tasks.compute.classes import class_here
        from agents.training.local import device_of

        device = device_of(device)
        _say(answers, {"label": class_here(device)})
    except ClassNotHeld as error:
        _say(answers, {"error": "ClassNotHeld", "why": str(error)})
        return
    for line in sys.stdin:
        _say(answers, _answer(json.loads(line), device))


def _answer(request: dict[str, Any], device: str) -> dict[str, Any]:
    from agents.storage.several import open_stores
    from agents.tasks.compute.run import run_published

    try:
        # A search that takes too long must fail while there is time to search again.
        timeout_s = min(max(request["run_s"] / 8, _SEARCH_MIN_S), _SEARCH_MAX_S)
        # So must inputs that do come, and too slowly: else nobody says that they can't be had.
        until = time.monotonic() + request["run_s"] / _READ_SHARE
        store = open_stores(request["store"], timeout_s=timeout_s, until=until)
        result = run_published(
            bytes.fromhex(request["spec"]), request["run_s"], store, request["label"], device
        )
        write_atomic(request["out"], result.payload)
    except StoreError as error:
        return {"error": "StoreError", "why": str(error)}
    except ClassNotHeld as error:
        return {"error": "ClassNotHeld", "why": str(error)}
    except Exception as error:
        return {"error": "failed", "why": f"{type(error).__name__}: {error}"}
    return {"digest": result.digest.hex(), "refusal": result.refusal, "detail": result.detail}


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _die_with(parent: str) -> None:
    """Be ended by the kernel with the agent, however it ends; elsewhere by the end of the input."""
    # The agent decides when to stop; a Ctrl-C in its terminal reaches this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if str(os.getppid()) != parent:
            os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
