# SPDX-License-Identifier: Apache-2.0
"""A creator that sends its inputs slowly can't keep a process from saying that it lacks them. A run
can be ended whenever it has begun, also while its process is being started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agents.tasks.process as process_module
from agents.storage import StoreError
from agents.storage.cid import PROFILE
from agents.storage.content_store import open_store
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.errors import ClassNotHeld
from agents.tasks.compute.make import publish
from agents.tasks.process import TaskProcess, TaskProcessError
from agents.training.data import Dataset, Shard
from scripts._net.kubo import KuboHandler, KuboServer
from tests.stage.memory.task_inputs import TaskInputs

RUN_S = 16
SHARD = bytes(8 * PROFILE.chunk_size)  # 2 MiB, less than the task may read


class Slow(KuboHandler):
    """Passes a long file on at 128 KiB a second: fast enough for one operation of a store, and too
    slow for a task. All of it takes its whole time."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        if call != "cat" or len(self.server.files.get(options["arg"], b"")) < len(SHARD):
            super().answer(call, options, body, fault)
            return
        rest = self.server.files[options["arg"]][int(options.get("offset", 0)) :]
        self.send_response(200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        for first in range(0, len(rest), PROFILE.chunk_size):
            time.sleep(RUN_S / 8)
            try:
                self.wfile.write(rest[first : first + PROFILE.chunk_size])
            except OSError:  # the reader has given up
                return


@pytest.fixture
def server() -> Iterator[KuboServer]:
    server = KuboServer(handler=Slow)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_inputs_that_come_too_slowly_are_given_up_in_time(
    server: KuboServer, tmp_path: Path
) -> None:
    store = open_store(server.address)
    inputs = TaskInputs.build(store)
    shard = Shard(cid=store.put_bytes(SHARD), tokens=len(SHARD))
    slow = inputs.evaluate(data=store.put_bytes(Dataset(shards=(shard,)).to_bytes()))
    process = TaskProcess(server.address, "cpu")
    out = tmp_path / "out"
    try:
        with pytest.raises(StoreError, match="nobody reachable provides"):
            process.run(publish(slow, store), RUN_S, CPU, out)
        # The process is as good as before for inputs that come.
        assert process.run(publish(inputs.evaluate(), store), RUN_S, CPU, out).refusal is None
    finally:
        process.close()
        store.close()


ANSWERS = [{"label": CPU}, {"digest": "01", "refusal": None, "detail": ""}]
CHILD = f"""
import sys
print({json.dumps(json.dumps(ANSWERS[0]))}, flush=True)
for line in sys.stdin:
    print({json.dumps(json.dumps(ANSWERS[1]))}, flush=True)
"""


class Starting:
    """Starts processes that answer at once, when `may` is set. `begun`: that one is started.
    `broken`: what the next ones say of each task."""

    def __init__(self) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self.children: list[subprocess.Popen[str]] = []
        self.broken: list[dict[str, str]] = []

    def start(self, *_: Any, **__: Any) -> subprocess.Popen[str]:
        self.begun.set()
        assert self.may.wait(120)
        right = json.dumps(json.dumps(ANSWERS[1]))
        said = json.dumps(json.dumps(self.broken.pop())) if self.broken else right
        command, pipe = [sys.executable, "-c", CHILD.replace(right, said)], subprocess.PIPE
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.children.append(child)
        return child


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Starting:
    """What the process is started by."""
    found = Starting()
    fake = type("subprocess", (), {"Popen": staticmethod(found.start), "PIPE": subprocess.PIPE})
    monkeypatch.setattr(process_module, "subprocess", fake)
    return found


@pytest.fixture
def process(starting: Starting) -> Iterator[TaskProcess]:
    process = TaskProcess("nowhere", "cpu")
    yield process
    starting.may.set()
    process.close()
    assert all(child.poll() is not None for child in starting.children), "it ends with the agent"


def run(process: TaskProcess, folder: Path) -> bytes:
    """The digest that a run gives."""
    (folder / "out").write_bytes(b"")
    return process.run(b"spec", RUN_S, CPU, folder / "out").digest


def test_a_run_is_ended_while_its_process_is_being_started(
    process: TaskProcess, starting: Starting, tmp_path: Path
) -> None:
    failed: list[str] = []

    def work() -> None:
        with pytest.raises(TaskProcessError) as why:
            run(process, tmp_path)
        failed.append(str(why.value))

    process.begin()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert starting.begun.wait(120)
    assert process.end()
    starting.may.set()
    thread.join(120)
    assert failed == ["the run was ended"]
    assert [child.poll() for child in starting.children] == [-signal.SIGKILL]
    process.begin()
    assert run(process, tmp_path) == b"\1", "the next one is as good as any"


def test_a_run_that_is_ended_before_it_asks_starts_no_process(
    process: TaskProcess, starting: Starting, tmp_path: Path
) -> None:
    starting.may.set()
    for _ in range(2):  # without a process, and with one that is idle
        process.begin()
        assert process.end()
        before = len(starting.children)
        with pytest.raises(TaskProcessError, match="was ended"):
            run(process, tmp_path)
        assert len(starting.children) == before
        process.begin()
        assert run(process, tmp_path) == b"\1"


def test_a_run_that_is_over_is_not_ended(
    process: TaskProcess, starting: Starting, tmp_path: Path
) -> None:
    starting.may.set()
    assert not process.end()
    process.begin()
    assert run(process, tmp_path) == b"\1"
    assert not process.end()
    process.begin()
    assert run(process, tmp_path) == b"\1" and len(starting.children) == 1


@pytest.mark.parametrize(
    ("error", "kind"), [("failed", TaskProcessError), ("ClassNotHeld", ClassNotHeld)]
)
def test_a_process_that_fails_at_a_task_is_started_anew(
    process: TaskProcess,
    starting: Starting,
    tmp_path: Path,
    error: str,
    kind: type[Exception],
) -> None:
    """After a fault of the GPU a process fails at whatever it is asked, and its node would lose
    20 ZOO by each task that it is drawn for."""
    starting.may.set()
    starting.broken = [{"error": error, "why": "an illegal memory access was encountered"}]
    with pytest.raises(kind, match="illegal memory access"):
        run(process, tmp_path)
    assert run(process, tmp_path) == b"\1"
    assert [child.poll() for child in starting.children] == [-signal.SIGKILL, None]


def test_a_process_that_lacks_an_input_goes_on(
    process: TaskProcess, starting: Starting, tmp_path: Path
) -> None:
    starting.may.set()
    starting.broken = [{"error": "StoreError", "why": "nobody serves it"}]
    for _ in range(2):
        with pytest.raises(StoreError, match="nobody serves it"):
            run(process, tmp_path)
    assert [child.poll() for child in starting.children] == [None]


def test_what_is_closed_starts_no_process(
    process: TaskProcess, starting: Starting, tmp_path: Path
) -> None:
    process.close()
    with pytest.raises(TaskProcessError, match="was ended"):
        process.label()
    assert not starting.begun.is_set()
