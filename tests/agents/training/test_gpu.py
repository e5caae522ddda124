# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU: equal bits in fresh processes, and hashes that are taken beside the steps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from agents.training.determinism import PINNED_ENVIRONMENT

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

PROGRAM = """
import sys
from agents.training.determinism import determinism_class, pin_environment, pin_torch
pin_environment()
import torch
pin_torch()
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, demo_spec
from agents.training.state import model_hash
precision, inner, every = sys.argv[1:]
options = {"newton_schulz": precision} if inner == "muon" else {}
spec = demo_spec(
    "b" + "a" * 58,
    optimizer={"inner": inner, "inner_options": options, "inner_state": "kept"},
    precision=precision,
    trace_every=int(every),
)
batches = [(torch.arange(8 * 65).reshape(8, 65) * (i + 3)) % 251 for i in range(6)]
net, state = FlatModel(spec.model, device="cuda"), init_state(spec.model)
found = train_local(net, state, batches, Hyperparameters.of(spec, 5), bytes(32))
assert found.hashes[0] == model_hash(state)
assert found.hashes[-2] == model_hash(found.state)
assert found.hashes[-1] == model_hash(found.pseudo_gradient)
print(determinism_class("cuda"))
print(" ".join(digest.hex() for digest in found.hashes), model_hash(found.inner).hex())
"""


def run(precision: str, inner: str, every: int) -> list[str]:
    """The determinism class, and the hashes with that of the inner state."""
    plain = {k: v for k, v in os.environ.items() if k not in PINNED_ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, precision, inner, str(every)],
        env=plain, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_fresh_processes_agree_bit_for_bit(precision: str, inner: str) -> None:
    """The second shows every fourth state alone: its hashes are among those of the first."""
    kind, shown = run(precision, inner, 1)
    hashes = shown.split()
    assert len(set(hashes)) == len(hashes) == 9 and "device=NVIDIA" in kind
    fewer = [hashes[place] for place in (0, 4, 6, 7, 8)]
    assert run(precision, inner, 4) == [kind, " ".join(fewer)]
