# SPDX-License-Identifier: Apache-2.0
"""`ape run web` as a process: it serves, says what is wrong in sentences, and ends when told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from scripts._net.compiled import ROOT
from scripts._net.ports import free_port
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.chain.proxy import Proxy

_PATIENCE_S = 300  # a busy machine makes no test fail
_LEAVE_S = 60


def command(*given: str) -> list[str]:
    return [sys.executable, "-m", "scripts.web", *given]


def options(finished: FinishedJob, tmp_path: Path, url: str, port: int) -> list[str]:
    what = ["--network", url, "--deployment", str(finished.deployment), "--port", str(port)]
    return [*what, "--database", f"sqlite:///{tmp_path / 'index.db'}"]


@contextmanager
def running(tmp_path: Path, *given: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command, and the file that it writes to."""
    said = tmp_path / "said"
    with said.open("wb") as file:
        process = subprocess.Popen(command(*given), cwd=ROOT, stdout=file, stderr=file)
    try:
        yield process, said
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def refusal(tmp_path: Path, *given: str) -> str:
    """What the command says when it refuses, on one line."""
    found = subprocess.run(
        command(*given), cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S
    )
    assert found.returncode == 1 and "Traceback" not in found.stderr, found.stderr
    return found.stderr


def health(port: int) -> httpx.Response | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=120)
    except httpx.TransportError:
        return None


def problem(port: int) -> str:
    """What the page waits for; "" where it does not say yet, for it serves before it has asked."""
    answer = health(port)
    return "" if answer is None else answer.json()["problem"] or ""


def is_well(port: int) -> bool:
    answer = health(port)
    return answer is not None and answer.status_code == 200


def test_web__serves_until_it_is_told_to_end(finished: FinishedJob, tmp_path: Path) -> None:
    port = free_port()
    given = options(finished, tmp_path, finished.url, port)
    with running(tmp_path, *given) as (process, said):
        until(lambda: b"Open http" in said.read_bytes())
        assert f"Open http://127.0.0.1:{port}\n".encode() in said.read_bytes()
        until(lambda: is_well(port))
        newest = finished.network.chain.newest_head().number
        health_at = f"http://127.0.0.1:{port}/health"
        until(lambda: httpx.get(health_at, timeout=120).json()["block"] == newest)
        # Another process may neither take its port nor write to its database.
        assert "Choose another --port" in refusal(tmp_path, *given)
        other = options(finished, tmp_path, finished.url, free_port())
        assert "keeps this database's index already" in refusal(tmp_path, *other)
        with httpx.stream("GET", f"http://127.0.0.1:{port}/api/live", timeout=60) as stream:
            next(stream.iter_bytes())
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            process.wait(_PATIENCE_S)
            assert time.monotonic() - began < _LEAVE_S
        assert b"Traceback" not in said.read_bytes()


def test_web__a_node_that_is_down_at_the_start_is_waited_for(
    finished: FinishedJob, tmp_path: Path
) -> None:
    port = free_port()
    # The node takes a second to refuse, so the page serves before it knows of a problem.
    proxy = Proxy(finished.url, (1.0, 1.0), faults=("503",), fault_rate=1.0)
    try:
        given = options(finished, tmp_path, proxy.url_of("web"), port)
        with running(tmp_path, *given):
            until(lambda: "did not answer" in problem(port))
            home = f"http://127.0.0.1:{port}/"
            found = httpx.get(home, headers={"accept": "text/html"}, timeout=120)
            assert found.status_code == 503 and "<h1" in found.text
            proxy.fault_rate, proxy.latency_s = 0.0, (0.0, 0.0)
            until(lambda: is_well(port))
            assert httpx.get(home, timeout=120).status_code == 200
    finally:
        proxy.close()


def test_web__what_can_not_be_met_is_a_sentence(finished: FinishedJob, tmp_path: Path) -> None:
    there = ["--network", finished.url, "--port", "0"]
    assert "no deployment file" in refusal(tmp_path, *there, "--deployment", "nowhere.json")
    given = [*there, "--deployment", str(finished.deployment)]
    assert "not in mysql" in refusal(tmp_path, *given, "--database", "mysql://root@host/x")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert "did not answer" in refusal(tmp_path, "--network", nobody, "--port", "0")


def test_web__starts_without_what_it_does_not_need() -> None:
    """`--help` loads neither the web server nor torch."""
    code = (
        "import sys, scripts.web, scripts.status; "
        "print([m for m in ('fastapi', 'sqlalchemy', 'torch', 'uvicorn') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert found.stdout.strip() == "[]", found
