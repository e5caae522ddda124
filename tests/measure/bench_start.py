# SPDX-License-Identifier: Apache-2.0
"""What a command computes before it does anything, beside `ape --version` in the same run.

Seconds are those that the process computes, since the machine may be shared.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts._net.compiled import ROOT
from tests.measure.rows import Row

GOAL_S = 2.0
TRIES = 3  # the first one may read the disk
COMMANDS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))


def rows() -> Iterator[Row]:
    ape = str(Path(sys.executable).with_name("ape"))
    own = computed_s(ape, "--version")
    yield Row("start: ape --version", f"{own:.2f} s computed")
    for name in COMMANDS:
        took = computed_s(ape, "run", name, "--help")
        shown = f"{took:.2f} s computed, {took / own:.1f} of ape --version"
        yield Row(f"start: ape run {name} --help", shown, f"<= {GOAL_S:g} s", took <= GOAL_S)


def computed_s(*command: str) -> float:
    """The least of some starts of a program that ends with 0; RuntimeError with what it said."""
    env, found = {**os.environ, "PYTHONPATH": str(ROOT)}, []
    for _ in range(TRIES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()}")
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)
