# SPDX-License-Identifier: Apache-2.0
"""A miner sends back a gradient whose sums are nothing but rounding. NOT DEFENDED.

Of three rows that begin with one token the first place has one code, for it sees nothing before it.
A gradient of u, u/2 and -3u/2 there sums to zero in every weight of the receiver's stage, but for
rounding; and u may be so large that this rounding outweighs the honest gradients of the step. The
receiver works honestly. What it makes is what its own machine's rounding makes of it, and a
verifier of another class, whose rounding is another, finds it wrong: 2 % (AdamW) and 4 % (Muon)
from its own here, where 0.5 % is allowed.

Its sender is as wrong as can be, and is found if it is drawn itself. `python -m
tests.attacks.test_chosen_gradients FILE CODES` is the receiver's process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from agents.pipeline.hand_over import most_sent, unpacked
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.work import StageWork, change
from agents.training.determinism import pinned_environment
from agents.training.slices import init_stage
from agents.training.spec import Hyperparameters
from agents.training.state import State
from agents.verify.reexecution import Comparison, Tolerances, compare
from tests.stage.memory.other_machine import SLOW
from tests.stage.memory.pipeline_epoch import EPOCH, HYPER, IN_FLIGHT, SEQ, SLICES

ROWS, SPACE = 4, 32
VICTIM, BEFORE, CHEAT = 21, 11, 31
LIMITS = Tolerances(0.999987, 0.005)  # of an fp32 job, by default
MUON = Hyperparameters(
    3e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32", inner="muon", inner_options={"lr_ratio": 3.0}
)
SAMPLES = [sample for sample in EPOCH.samples if EPOCH.begins(sample, BEFORE)][:IN_FLIGHT]
SIZES = {"honest": 0.0, "as large as the last stage may": 2.0**6, "a stage before": 2.0**16}


def batch(number: int) -> Tensor:
    draw = torch.Generator().manual_seed(number)
    tokens = torch.randint(0, 256, (ROWS, SEQ + 1), generator=draw)
    tokens[:3, 0] = SPACE
    return tokens


def codes() -> dict[int, bytes]:
    first = StageWork(SLICES, EPOCH, BEFORE, init_stage(SLICES, 0), HYPER, batch, IN_FLIGHT)
    return {s: first.do(Entry(Kind.FORWARD, s)).message or b"" for s in SAMPLES}


def gradient(sample: int, size: float) -> bytes:
    """An honest one's numbers; of the first sample the cheat's."""
    draw = torch.Generator().manual_seed(sample)
    values = torch.randn(SLICES.code_shape(ROWS, SEQ), generator=draw) * 1e-3
    if size and sample == SAMPLES[0]:
        own = torch.tensor([1.0, -0.7, 1.3, 0.4]) * size
        values = torch.zeros_like(values)
        values[0, 0], values[1, 0], values[2, 0] = own, 0.5 * own, -1.5 * own
    return SLICES.boundary.gradients.pack(values)


def made(hyper: Hyperparameters, size: float, came: dict[int, bytes]) -> State:
    """What the receiver makes of a step of two samples, of which the cheat sent one back."""
    work = StageWork(SLICES, EPOCH, VICTIM, init_stage(SLICES, 1), hyper, batch, IN_FLIGHT)
    before = {name: tensor.clone() for name, tensor in work.state().items()}
    for sample in SAMPLES:
        work.do(Entry(Kind.FORWARD, sample, BEFORE, b"", came[sample]))
    for sample in SAMPLES:
        work.do(Entry(Kind.BACKWARD, sample, CHEAT, b"", gradient(sample, size)))
    work.do(Entry(Kind.STEP, 0))
    return {name: tensor.clone() for name, tensor in change(before, work.state()).items()}


def all_made(came: dict[int, bytes]) -> dict[str, State]:
    inner = {"adamw": HYPER, "muon": MUON}
    return {
        f"{name} {what}": made(hyper, size, came)
        for name, hyper in inner.items()
        for what, size in SIZES.items()
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    """A verifier here, and a miner without vector instructions."""
    folder, came = tmp_path_factory.mktemp("gradients"), codes()
    torch.save(came, folder / "codes")
    env = os.environ | pinned_environment() | SLOW
    command = [sys.executable, "-m", __name__, str(folder / "made"), str(folder / "codes")]
    subprocess.run(command, env=env, check=True)
    theirs = torch.load(folder / "made", weights_only=True)
    mine = all_made(came)
    return {what: compare(mine[what], theirs[what], False, LIMITS) for what in mine}


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_an_honest_miner_of_another_class_is_found_wrong_by_a_gradient_that_it_was_sent(
    found: dict[str, Comparison], inner: str
) -> None:
    assert found[f"{inner} honest"].ok, "control"
    assert found[f"{inner} honest"].rel_l2 < 1e-4
    assert not found[f"{inner} a stage before"].ok
    assert found[f"{inner} a stage before"].rel_l2 > 2 * LIMITS.rel_l2_max
    # What the last stage may send is smaller, and so is what comes of it in one sample of two.
    print({what: f"{one.rel_l2:.1e}" for what, one in found.items() if what.startswith(inner)})


def test_the_receivers_post_takes_such_a_gradient() -> None:
    message = gradient(SAMPLES[0], SIZES["a stage before"])
    most = most_sent(EPOCH, Kind.BACKWARD, CHEAT)
    unpacked(SLICES.boundary, Kind.BACKWARD, message, SLICES.code_shape(ROWS, SEQ), most)


if __name__ == "__main__":
    torch.save(all_made(torch.load(Path(sys.argv[2]), weights_only=True)), sys.argv[1])
