# SPDX-License-Identifier: Apache-2.0
"""What a verifier pays for a miner's whole epoch, and for a segment of it from a published state.

A segment begins in the middle of an epoch, so a verifier needs the stage's weights there and the
optimizer's two moments, which the drawn miner would publish after the draw. A whole epoch begins
with weights that everybody has, and with moments of zero. Measured: the CPU time of each step's
passes and of hashing and reading such a state, on the model of `bench_pipeline`, a middle stage.
Links carry 80 Mbit/s. What it takes to find a cheat is the cost of one look over the probability
that this look finds it; cheated steps lie scattered by lot. Prints a table and asserts nothing.

    python -m tests.measure.studies.segments  # half a minute of one core
"""

from __future__ import annotations

import argparse
import io
import math
import statistics
import time
from dataclasses import dataclass

import torch
from rich.console import Console

from agents.pipeline.inbox import max_inbox_bytes
from agents.pipeline.stage import Backward, Forward, StageRunner, Step
from agents.training.slices import init_stage
from agents.training.spec import Hyperparameters
from agents.training.state import model_hash, save_state
from tests.measure.bench_pipeline import LINK, NARROW, SEQ, slices_of
from tests.measure.rows import text_table

_STAGE, _BATCH = 1, 4
_HYPER = Hyperparameters(1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")


def step_seconds(boundary: str, rounds: int) -> float:
    """CPU seconds of `_BATCH` samples there and back and a step: the median of `rounds`."""
    slices = slices_of(boundary)
    state = init_stage(slices, _STAGE)
    runner = StageRunner(slices, _STAGE, state, _HYPER, _BATCH)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 256, (1, SEQ + 1), generator=draw)
    message = slices.boundary.pack(torch.randn(slices.code_shape(1, SEQ), generator=draw))
    took = []
    for _ in range(rounds):
        began = time.process_time()
        for sample in range(_BATCH):
            runner.do(Forward(sample, tokens, message))
        for sample in range(_BATCH):
            runner.do(Backward(sample, message))
        runner.do(Step())
        model_hash(runner.net.split(runner.net.values))  # the log has it after each step
        took.append(time.process_time() - began)
    return statistics.median(took)


@dataclass(frozen=True)
class Costs:
    """Of one stage: what a verifier pays, in seconds of CPU and of its link.

    Attributes:
        step: of one step done again.
        state: of a published state: reading and hashing weights and two moments, and moving them.
        message: bytes of one sample's message, of which a sample has two.
    """

    step: float
    state: float
    message: int

    def whole(self, samples: int) -> float:
        """An epoch from its beginning."""
        return self.segment(samples // _BATCH, 0.0)

    def segment(self, steps: int, state: float | None = None) -> float:
        """Some steps in a row, from a published state."""
        moved = max_inbox_bytes([self.message] * (2 * _BATCH * steps)) / LINK.bytes_per_s
        return steps * self.step + moved + (self.state if state is None else state)


def found(steps: int, cheated: int, length: int) -> float:
    """Probability that a segment of `length` steps, drawn by lot, has one of `cheated` steps that
    lie scattered among `steps`."""
    clean = math.comb(steps - cheated, length) / math.comb(steps, length)
    return 1 - clean


def costs(rounds: int) -> tuple[Costs, int, int]:
    """The costs, the parameters of the stage, and the bytes of its published state."""
    slices = slices_of(NARROW)
    state = init_stage(slices, _STAGE)
    took = []
    for _ in range(rounds):
        began = time.process_time()
        raw = save_state(state)
        io.BytesIO(raw).read()
        model_hash(state)
        took.append(time.process_time() - began)
    reading = 3 * statistics.median(took)  # weights and two moments
    published = 3 * len(raw)
    parameters = sum(math.prod(tensor.shape) for tensor in state.values())
    # It goes up from the miner and down to the verifier, at the same time.
    moving = published / LINK.bytes_per_s
    step = step_seconds(NARROW, rounds)
    return Costs(step, reading + moving, slices.message_bytes(1, SEQ)), parameters, published


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, nargs="+", default=[32, 128, 512, 2048])
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 16, 64], help="of a segment")
    parser.add_argument("--share", type=float, default=0.1, help="of its steps that a cheat skips")
    options = parser.parse_args()
    torch.set_num_threads(1)
    one, parameters, published = costs(options.rounds)
    shown = text_table(
        f"stage of {parameters:,} parameters, {SEQ} tokens a sample, {_BATCH} samples a step of "
        f"{one.step:.2f} s CPU; a published state has {published / 1e6:.1f} MB",
        ("samples", "steps", "done again", "s", "s a step", "s to find a cheat in one step",
         f"in {options.share:.0%} of them", "in all"),
    )  # fmt: skip
    for samples in options.samples:
        steps = samples // _BATCH
        some = max(1, round(options.share * steps))
        ways = [("the whole epoch", steps, one.whole(samples))]
        # A segment of all steps is the control: it costs what the state costs more.
        lengths = sorted({length for length in options.steps if length < steps} | {steps})
        ways += [(f"a segment of {length}", length, one.segment(length)) for length in lengths]
        for name, length, seconds in ways:
            finds = (found(steps, cheated, length) for cheated in (1, some, steps))
            shown.add_row(
                f"{samples:,}", str(steps), name, f"{seconds:.1f}", f"{seconds / length:.2f}",
                *(f"{seconds / one_of:.1f}" for one_of in finds),
            )  # fmt: skip
    Console(width=150).print(shown)


if __name__ == "__main__":
    main()
