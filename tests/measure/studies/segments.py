# SPDX-License-Identifier: Apache-2.0
"""What a verifier pays for a miner's whole epoch, and for a segment of it from a published state.

A segment begins in the middle of an epoch, so a verifier needs the stage's weights there and the
optimizer's two moments, which the drawn miner would publish after the draw. A whole epoch begins
with weights that everybody has, and with moments of zero. Measured: the CPU time of each step's
passes and of hashing and reading such a state, on the model of `bench_pipeline`, a middle stage.
Links carry 80 Mbit/s. Prints a table and asserts nothing.

    python -m tests.measure.studies.segments  # half a minute of one core
"""

from __future__ import annotations

import argparse
import io
import math
import time

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
    return sorted(took)[len(took) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, nargs="+", default=[32, 128, 512, 2048])
    parser.add_argument("--steps", type=int, default=2, help="of a segment")
    options = parser.parse_args()
    torch.set_num_threads(1)
    slices = slices_of(NARROW)
    one = step_seconds(NARROW, options.rounds)
    state = init_stage(slices, _STAGE)
    began = time.process_time()
    raw = save_state(state)
    io.BytesIO(raw).read()
    model_hash(state)
    reading = 3 * (time.process_time() - began)  # weights and two moments
    published = 3 * len(raw)
    parameters = sum(math.prod(tensor.shape) for tensor in state.values())
    message = slices.message_bytes(1, SEQ)
    shown = text_table(
        f"stage of {parameters:,} parameters, {SEQ} tokens a sample, {_BATCH} samples a step of "
        f"{one:.2f} s CPU; a published state has {published / 1e6:.1f} MB",
        ("samples", "steps", "epoch: MB", "epoch: s", f"{options.steps} steps: MB",
         f"{options.steps} steps: s", "the same share of all steps by segments: s"),
    )  # fmt: skip
    for samples in options.samples:
        steps = samples // _BATCH
        inbox = max_inbox_bytes([message] * (2 * samples))
        part = options.steps / steps
        whole_s = steps * one + inbox / LINK.bytes_per_s
        moved = published + part * inbox
        # It goes up from the miner and down to the verifier, at the same time.
        segment_s = options.steps * one + reading + moved / LINK.bytes_per_s
        shown.add_row(
            f"{samples:,}", str(steps), f"{inbox / 1e6:.1f}", f"{whole_s:.1f}",
            f"{moved / 1e6:.1f}", f"{segment_s:.1f}", f"{segment_s / part:.1f}",
        )  # fmt: skip
    Console(width=150).print(shown)


if __name__ == "__main__":
    main()
