# SPDX-License-Identifier: Apache-2.0
"""How long an agent takes to be ready, and how busy the trainers of the last demo were."""

from __future__ import annotations

import html
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet
from tests.measure.rows import Row

READY_GOAL_S = 4.0
_STARTS = 3
_LIMIT_S = 120.0
_REPORT = ROOT / "report" / "index.html"
_SHARE = re.compile(r"trainers' utilisation</td>\s*<td[^>]*>([0-9.]+)\s*%")


def seconds_to_ready(net: Localnet, name: str) -> tuple[float, float]:
    """From the start of a seat's process to its `ready` line: wall time, and CPU time of the
    process. Raises RuntimeError.
    """
    before = _cpu_of_ended_children()
    began = time.perf_counter()
    process = net.start_agent(name)
    try:
        while b'"event": "ready"' not in process.log.read_bytes()[-20_000:]:
            if not process.running or time.perf_counter() - began > _LIMIT_S:
                raise RuntimeError(f"{name} did not get ready:\n{process.tail()}")
            time.sleep(0.005)
        wall = time.perf_counter() - began
    finally:
        process.kill()
        process.log.unlink()
    return wall, _cpu_of_ended_children() - before


def _cpu_of_ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bench_ready(net: Localnet) -> Row:
    """Several starts of one trainer, one after the other. On a busy machine the wall time is also
    that of everybody else; the CPU time is the program's own.
    """
    name = net.of_role("trainer")[0].name
    pairs = [seconds_to_ready(net, name) for _ in range(_STARTS)]
    wall = statistics.median(pair[0] for pair in pairs)
    cpu = statistics.median(pair[1] for pair in pairs)
    shown = f"{wall:.2f} s ({cpu:.2f} s of CPU)"
    met = wall <= READY_GOAL_S
    return Row("trainer: process start to ready", shown, f"<= {READY_GOAL_S:g} s", met)


def bench_utilisation() -> Row:
    """From the last demo's report; without one, from a small demo that is run now."""
    figure = "demo: share of wall time trainers compute"
    share = utilisation_in(_REPORT)
    if share is not None:
        return Row(figure, f"{share:.1f} % (last demo)")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "scripts.demo", "--trainers", "5", "--rounds", "3"]
        subprocess.run(
            [*command, "--report", folder], cwd=ROOT, stdout=subprocess.DEVNULL, check=False
        )
        share = utilisation_in(Path(folder) / "index.html")
    if share is None:
        return Row(figure, "the demo failed; run `make demo` to see why")
    return Row(figure, f"{share:.1f} % (5 trainers, 3 rounds)")


def utilisation_in(page: Path) -> float | None:
    """The share in percent that a demo's report states; None when there is none."""
    if not page.is_file():
        return None
    found = _SHARE.search(html.unescape(page.read_text(encoding="utf-8")))
    return None if found is None else float(found[1])
