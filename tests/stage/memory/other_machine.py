# SPDX-License-Identifier: Apache-2.0
"""The miners of `mined_round` at work on another machine: in a process with other settings.

It is started with the store's folder and the fields of the job's spec as JSON, and prints what was
revealed. `on_another_machine` starts it, or another module that does the same for its own miners.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agents.protocol.structs import Reveal
from agents.rounds.mined import Mined
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import determinism_class, pinned_environment
from tests.stage.memory.mined_round import make_mined_round

SLOW = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": ""}
"""No vector instructions, and the branch of MKL that is fastest here."""


def on_another_machine(
    folder: Path,
    spec: Mapping[str, Any],
    settings: Mapping[str, str] = SLOW,
    module: str = __name__,
) -> dict[int, Reveal]:
    """What each miner revealed there; its artefacts are in the folder's store."""
    env = os.environ | pinned_environment() | settings
    command = [sys.executable, "-m", module, str(folder), json.dumps(spec)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    found: dict[int, Reveal] = {}
    for node, fields in json.loads(done.stdout.splitlines()[-1]).items():
        raw = {name: bytes.fromhex(fields[name]) for name in ("content", "trace_root", "proof")}
        found[int(node)] = Reveal(int(node), bytes(32), **raw)
    return found


def class_there(settings: Mapping[str, str] = SLOW) -> str:
    """The determinism class that a miner of that machine states."""
    return _class_with(tuple(sorted(settings.items())))


@cache
def _class_with(settings: tuple[tuple[str, str], ...]) -> str:
    """Asked once: a process that loads torch takes two seconds of a core."""
    env = os.environ | pinned_environment() | dict(settings)
    told = f"from {determinism_class.__module__} import *; print(determinism_class('cpu'))"
    done = subprocess.run(
        [sys.executable, "-c", told], env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def asked() -> tuple[EmbeddedStore, dict[str, Any]]:
    """What this process was started with: the store, and fields of the spec."""
    return EmbeddedStore(Path(sys.argv[1])), json.loads(sys.argv[2])


def answer(submissions: Sequence[Mined]) -> None:
    """Print what miners revealed."""
    told = {}
    for node, one in ((s.reveal.node, s.reveal) for s in submissions):
        names = ("content", "trace_root", "proof")
        told[node] = {name: getattr(one, name).hex() for name in names}
    print(json.dumps(told))


if __name__ == "__main__":
    store, fields = asked()
    answer(make_mined_round(store, **fields).honest())
