# SPDX-License-Identifier: Apache-2.0
"""How well mu's sign tells who trained on its own data.

Run: `python -m tests.measure.studies.assigned_data`.

Six honest trainers and two that send what trainer 1 and trainer 2 send, for ROUNDS rounds of a
small model on the standard library's source; everybody is evaluated. Per kind of job and number of
batches per loss, the share of evaluations in which the sign is positive: the paper's (assigned -
random), and ours, which first takes off what the others' updates show to be `expected` on the same
batches. 100 % for the honest and 50 % for copiers would be perfect.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from agents.gauntlet.primary_evaluation import Measured
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.gauntlet_run import LOCAL_STEPS, FreeRun, copy_of

ROUNDS = 24
HONEST = (1, 2, 3, 4, 5, 6)
COPIERS = {7: 1, 8: 2}
JOBS: dict[str, dict[str, Any]] = {"demo, gradient": {}, "sparse, local steps": LOCAL_STEPS}
BATCHES = (1, 2, 6)


def plain(measured: Measured) -> bool:
    """The paper's sign is positive."""
    assert measured.assigned is not None
    assert measured.random is not None
    return measured.assigned > measured.random


def corrected(measured: Measured) -> bool:
    """The sign that mu moves by is positive."""
    assert measured.assigned is not None
    assert measured.random is not None
    assert measured.expected is not None
    return measured.assigned - measured.expected > measured.random


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'job':<22}{'batches':>8}{'honest':>16}{'copiers':>16}   (plain, corrected)")
    for title, changes in JOBS.items():
        for batches in BATCHES:
            options = {"evaluated": 16, "eval_batches": batches}
            fields = {"batches_per_round": 48, "score_options": options, **changes}
            with tempfile.TemporaryDirectory() as folder:
                store = EmbeddedStore(Path(folder) / "store")
                cheats = {node: copy_of(victim) for node, victim in COPIERS.items()}
                run = FreeRun.start(store, HONEST, cheats, **fields)
                for _ in range(ROUNDS):
                    run.round()
            cells = ""
            for nodes in (HONEST, tuple(COPIERS)):
                found = [measured[node] for measured in run.measured for node in nodes]
                shares = [sum(map(sign, found)) / len(found) for sign in (plain, corrected)]
                cells += f"{shares[0]:>9.0%}{shares[1]:>7.0%}"
            print(f"{title:<22}{batches:>8}{cells}", flush=True)


if __name__ == "__main__":
    main()
