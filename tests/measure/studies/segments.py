# SPDX-License-Identifier: Apache-2.0
"""What a verifier pays for a miner's whole epoch, and for a segment of it from a published state.

Two tables. The first is of a round that runs here: three stages of one miner each, on the model of
`bench_pipeline`, all in this process. The middle miner's artefacts are read and its work checked by
the functions that verifiers call, once with whole epochs and once by segments. CPU time.

The second is reckoned, for epochs of any length, from the CPU time of a step and of reading a
state, which are measured, and links of 80 Mbit/s. What it takes to find a cheat is the cost of one
look over the probability that this look finds it. A cheat knows where segments begin, so what it
leaves out is whole segments. Prints the tables and asserts nothing but that every look passes.

    python -m tests.measure.studies.segments  # six minutes of one core
    python -m tests.measure.studies.segments --real 0  # the second table alone, half a minute
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.table import Table

from agents.pipeline.checkpoint import joined, joined_shapes, write
from agents.pipeline.inbox import max_inbox_bytes
from agents.pipeline.stage import Backward, Forward, StageRunner, Step
from agents.storage.embedded import EmbeddedStore
from agents.training.inner_state import optimizer_shapes
from agents.training.slices import init_stage, stage_template
from agents.training.spec import Hyperparameters
from agents.training.state import load_state, model_hash
from agents.verify.miners import check_miner
from tests.measure.bench_pipeline import D_MODEL, LINK, NARROW, SEQ, slices_of
from tests.measure.rows import text_table
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.mined_round import MinedRound, make_mined_round

_STAGE, _BATCH = 1, 4
_HYPER = Hyperparameters(1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")
T = TypeVar("T")


def timed(do: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and its CPU seconds."""
    began = time.process_time()
    return do(), time.process_time() - began


# -- a round that runs -----------------------------------------------------------------------------


def played(folder: Path, samples: int, segment: int) -> MinedRound:
    """Three stages of two blocks, one miner each."""
    width = int(NARROW.partition("=")[2])
    spec: dict[str, Any] = {
        "model": {
            "d_model": D_MODEL, "n_layers": 6, "n_heads": 8, "n_kv_heads": 8, "d_ff": 2 * D_MODEL,
            "max_seq_len": SEQ, "tie_embeddings": False,
        },
        "optimizer": {"batch_size": 1, "seq_len": SEQ, "lr": 1e-3},
        "pipeline": {
            "layers": [2, 2, 2], "boundary_options": {"width": width},
            "local_batch": _BATCH, "segment": segment,
        },
        "batches_per_round": samples,
    }  # fmt: skip
    return make_mined_round(EmbeddedStore(folder / "store"), (2, 3, 5), **spec)


@dataclass(frozen=True)
class Look:
    """At one miner. `read`: CPU seconds of everybody who reads its artefacts; `check`: of a
    verifier beside, if it is drawn. `states`: bytes that are read, `published`: that there are."""

    steps: int
    read: float
    check: float
    states: int
    published: int


def look(mined: MinedRound, seeds: int) -> Look:
    """At the middle miner, whose work is right; the mean of so many seeds."""
    epoch = mined.plan.epoch
    assert epoch is not None
    (node,) = epoch.stages[_STAGE]
    first = mined.submit(node)
    inputs = mined.inputs([first])
    shown = mined.shown(node)
    reads, checks, states = [], [], []
    for number in range(seeds):
        seed = bytes([number]) * 32
        one, read = timed(partial(mined.fetch, first.reveal, seed))
        assert one.reason == "", one.reason
        verdict, check = timed(partial(check_miner, inputs, one, DEVICE, mined.store))
        assert verdict.right, verdict.reason
        reads.append(read)
        checks.append(check)
        states.append(sum(len(mined.store.get(cid, 1 << 30)) for cid in one.states))
    read, check, held = map(statistics.fmean, (reads, checks, states))
    published = sum(map(len, (*shown.states, shown.weights or b"")))
    return Look(len(mined.works[node].log.steps), read, check, round(held), published)


def real(samples: int, lengths: list[int], seeds: int) -> Table:
    """Whole epochs, then segments, each in a round of its own."""
    shown = text_table(
        f"a round of {samples} samples that runs, one miner a stage: CPU seconds at the middle one",
        ("done again", "steps", "reading it", "its check", "states read", "states published"),
    )  # fmt: skip
    for length in (0, *lengths):
        with tempfile.TemporaryDirectory() as folder:
            found = look(played(Path(folder), samples, length), seeds if length else 1)
        name = f"a segment of {length}" if length else "the whole epoch"
        shown.add_row(
            name, str(length or found.steps), f"{found.read:.2f}", f"{found.check:.2f}",
            f"{found.states / 1e6:.1f} MB", f"{found.published / 1e6:.0f} MB",
        )  # fmt: skip
    return shown


# -- epochs of any length --------------------------------------------------------------------------


def step_seconds(segments: bool, rounds: int) -> float:
    """CPU seconds of `_BATCH` samples there and back and a step: the median of `rounds`."""
    slices = slices_of(NARROW)
    runner = StageRunner(slices, _STAGE, init_stage(slices, _STAGE), _HYPER, _BATCH)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 256, (1, SEQ + 1), generator=draw)
    message = slices.boundary.codes.pack(torch.randn(slices.code_shape(1, SEQ), generator=draw))

    def step(number: int) -> None:
        for sample in range(_BATCH):
            runner.do(Forward(sample, tokens, message))
        for sample in range(_BATCH):
            runner.do(Backward(sample, message))
        runner.do(Step())
        model_hash(runner.net.split(runner.net.values))  # the log has it after each step
        if segments:
            model_hash(runner.gathered(number + 1))

    return statistics.median(timed(partial(step, number))[1] for number in range(rounds))


@dataclass(frozen=True)
class Costs:
    """Of one stage: what a verifier pays, in seconds of CPU and of its link.

    Attributes:
        step: of one step done again, with the hash of its weights.
        cut: the same, with the hash of its optimizer.
        state: of reading a published state: CPU, and its way over the link.
        weights: the same of the last weights.
        message: bytes of one sample's message, of which a sample has two.
    """

    step: float
    cut: float
    state: float
    weights: float
    message: int

    def whole(self, steps: int) -> float:
        """An epoch from its beginning."""
        return steps * self.step + self._moved(steps)

    def segment(self, length: int, steps: int) -> float:
        """Some steps in a row of an epoch, with the states that begin and end it."""
        ends = 2 * self.state if length < steps else 0.0
        return length * self.cut + self._moved(steps) + ends + self.weights

    def _moved(self, steps: int) -> float:
        """All that came in, which is read whatever is done again."""
        return max_inbox_bytes([self.message] * (2 * _BATCH * steps)) / LINK.bytes_per_s


def costs(rounds: int) -> tuple[Costs, int, int]:
    """The costs, the parameters of the stage, and the bytes of its published state."""
    slices = slices_of(NARROW)
    weights = init_stage(slices, _STAGE)
    gathered = optimizer_shapes(slices, _STAGE, _HYPER)
    shapes = joined_shapes(stage_template(slices, _STAGE), gathered)
    optimizer = {name: torch.zeros(shape) for name, shape in gathered.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        write(path, joined(weights, optimizer))

        def read() -> bytes:
            return model_hash(load_state(path.read_bytes(), shapes))

        took = [timed(read) for _ in range(rounds)]
    reading = statistics.median(seconds for _, seconds in took)
    published = 4 * sum(map(math.prod, shapes.values()))
    parameters = sum(math.prod(tensor.shape) for tensor in weights.values())
    state = reading + published / LINK.bytes_per_s
    last = reading / 3 + 4 * parameters / LINK.bytes_per_s
    message = slices.message_bytes(1, SEQ)
    place = step_seconds(False, rounds), step_seconds(True, rounds), state, last, message
    return Costs(*place), parameters, published


def reckoned(options: argparse.Namespace) -> Table:
    one, parameters, published = costs(options.rounds)
    shown = text_table(
        f"stage of {parameters:,} parameters, {SEQ} tokens a sample, {_BATCH} samples a step of "
        f"{one.step:.2f} s CPU ({one.cut:.2f} with the optimizer's hash); a published state has "
        f"{published / 1e6:.1f} MB",
        ("samples", "steps", "done again", "s", "s to find a cheat in one step",
         f"in {options.share:.0%} of them", "in all", "MB published"),
    )  # fmt: skip
    for samples in options.samples:
        steps = samples // _BATCH
        shown.add_row(
            f"{samples:,}", str(steps), "the whole epoch", *[f"{one.whole(steps):.1f}"] * 4, "0"
        )
        for length in sorted({length for length in options.steps if length < steps}):
            seconds, parts = one.segment(length, steps), -(-steps // length)
            cheated = max(1, round(options.share * parts))
            shown.add_row(
                f"{samples:,}", str(steps), f"a segment of {length}", f"{seconds:.1f}",
                f"{seconds * parts:.0f}", f"{seconds * parts / cheated:.0f}", f"{seconds:.1f}",
                f"{((parts - 1) * published + 4 * parameters) / 1e6:.0f}",
            )  # fmt: skip
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real", type=int, default=128, help="samples of the round that runs")
    parser.add_argument("--real-steps", type=int, nargs="+", default=[2, 8], help="of a segment")
    parser.add_argument("--seeds", type=int, default=6, help="that draw a segment there")
    parser.add_argument("--samples", type=int, nargs="+", default=[32, 128, 512, 2048])
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 16, 64], help="of a segment")
    parser.add_argument("--share", type=float, default=0.1, help="of its segments a cheat skips")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=150)
    if options.real:
        console.print(real(options.real, options.real_steps, options.seeds))
    console.print(reckoned(options))


if __name__ == "__main__":
    main()
