# SPDX-License-Identifier: Apache-2.0
"""The miners of `mined_round` at work on another machine: in a process with other settings.

It is started with the store's folder and the fields of the job's spec as JSON, and prints what was
revealed. `on_another_machine` starts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.protocol.structs import Reveal
from agents.storage.embedded import EmbeddedStore
from agents.training.determinism import pinned_environment
from tests.stage.memory.mined_round import MINERS, make_mined_round

SLOW = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": ""}
"""No vector instructions, and the branch of MKL that is fastest here."""


def on_another_machine(
    folder: Path, spec: Mapping[str, Any], settings: Mapping[str, str] = SLOW
) -> dict[int, Reveal]:
    """What each miner revealed there; its artefacts are in the folder's store."""
    env = os.environ | pinned_environment() | settings
    command = [sys.executable, "-m", __name__, str(folder), json.dumps(spec)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    found: dict[int, Reveal] = {}
    for node, fields in json.loads(done.stdout.splitlines()[-1]).items():
        raw = {name: bytes.fromhex(fields[name]) for name in ("content", "trace_root", "proof")}
        found[int(node)] = Reveal(int(node), fields["operator"], bytes(32), **raw)
    return found


def main() -> None:
    folder, spec = Path(sys.argv[1]), json.loads(sys.argv[2])
    mined = make_mined_round(EmbeddedStore(folder), **spec)
    told = {}
    for node in MINERS:
        one = mined.submit(node).reveal
        names = ("content", "trace_root", "proof")
        told[node] = {name: getattr(one, name).hex() for name in names} | {"operator": one.operator}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
