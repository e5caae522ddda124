# SPDX-License-Identifier: Apache-2.0
"""A port is given once, to one process, as long as that runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._net import ports
from scripts._net.compiled import ROOT
from scripts._net.ports import free_port
from scripts._net.processes import ProcessError

# Another process, which takes two of the ports and listens on none.
TAKER = """
import sys
from scripts._net import ports
ports._PORTS = range(*map(int, sys.argv[1:]))
print(ports.free_port(), ports.free_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _claims_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ports._claims.cache_clear()
    yield
    ports._claims.cache_clear()


def test_free_port__nothing_listens_on_it() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


def test_free_port__is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    monkeypatch.setattr(ports, "_PORTS", range(first, first + 1))
    with pytest.raises(ProcessError, match="no free TCP port"):
        free_port()


def test_free_port__given_to_another_process__is_given_when_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = free_port()
    monkeypatch.setattr(ports, "_PORTS", range(start + 1, start + 3))
    taker = subprocess.Popen(
        [sys.executable, "-c", TAKER, str(start + 1), str(start + 3)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert taker.stdout is not None
        given = {int(word) for word in taker.stdout.readline().split()}
        assert given == {start + 1, start + 2}
        with pytest.raises(ProcessError, match="no free TCP port"):
            free_port()
    finally:
        taker.kill()
        taker.communicate()
    assert {free_port(), free_port()} == given


def test_free_port__claims_can_not_be_written__says_which_file(tmp_path: Path) -> None:
    (tmp_path / f"menagerie-ports-{os.getuid()}").symlink_to("elsewhere")
    with pytest.raises(ProcessError, match=r"menagerie-ports-.* must be a file of yours"):
        free_port()
