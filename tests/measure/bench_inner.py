# SPDX-License-Identifier: Apache-2.0
"""What a training step costs with each inner optimizer, beside AdamW, on the demo's model.

CPU time of `train_local`: loss, gradient, update and hash, in a fresh process of the determinism
class that nodes have by default. Rounds of the optimizers alternate within one run, and the least
of several counts.

    python -m tests.measure.bench_inner
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import torch

from agents.training.determinism import pin_torch, pinned_environment
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, demo_spec
from tests.measure.rows import Row

GOAL = 1.2
_STEPS, _ROUNDS = 24, 9
_MEASURED: dict[str, dict[str, Any]] = {
    "adamw": {},
    "muon": {"inner": "muon"},
    "muon, products in bf16": {"inner": "muon", "inner_options": {"newton_schulz": "bf16"}},
}


def milliseconds() -> dict[str, float]:
    """CPU time of a step by optimizer, in this process."""
    pin_torch()
    specs = {
        name: demo_spec("b" + "a" * 58, optimizer=fields) for name, fields in _MEASURED.items()
    }
    model = specs["adamw"].model
    net, state = FlatModel(model), init_state(model)
    size = specs["adamw"].optimizer.batch_size, specs["adamw"].optimizer.seq_len + 1
    batches = [torch.randint(0, model.vocab_size, size) for _ in range(_STEPS)]
    least = dict.fromkeys(specs, float("inf"))
    for _ in range(_ROUNDS):
        for name, spec in specs.items():
            began = time.process_time()
            train_local(net, state, batches, Hyperparameters.of(spec, 5), bytes(32))
            least[name] = min(least[name], (time.process_time() - began) / _STEPS)
    return {name: 1000 * seconds for name, seconds in least.items()}


def rows() -> list[Row]:
    """A row an optimizer; the goal is that of muon as it is by default."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.measure.bench_inner", "--here"],
        env=os.environ | pinned_environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    measured: dict[str, float] = json.loads(done.stdout)
    plain = measured.pop("adamw")
    found = [Row("inner step: adamw, the demo's model", f"{plain:.2f} ms of CPU")]
    for name, cost in measured.items():
        shown, ratio = f"{cost:.2f} ms, {cost / plain:.2f} of adamw", cost / plain
        bounded = name == "muon"
        found.append(
            Row(
                f"inner step: {name}",
                shown,
                f"<= {GOAL} of adamw" if bounded else "",
                ratio <= GOAL if bounded else None,
            )
        )
    return found


def main() -> None:
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(milliseconds()))
        return
    for row in rows():
        print(f"{row.figure:<45} {row.measured:<40} {row.goal}")


if __name__ == "__main__":
    main()
