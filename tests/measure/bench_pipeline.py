# SPDX-License-Identifier: Apache-2.0
"""What a miner of a pipeline holds, how much of its time it computes, and what it moves.

- Memory: bytes of tensors that torch's allocator has given out and not got back, at their peak:
  weights, gradients, AdamW's moments, and what passes keep and need. The whole model is one stage
  of all blocks. The interpreter and torch's own libraries are not in it, nor messages as bytes,
  but for a code in fp32, which lies in its message's bytes while its sample waits.
- Time: `pipeline_links` plays an epoch of 4 stages of 3 miners with the real `Schedule`. Passes
  take the CPU time measured here on one core; links are modelled.
- Bytes: of that epoch, by the real lengths of letters, entries and events.
- Gas: of a miner's commit and reveal in a job on a chain, for epochs of two lengths, beside those
  of a data-parallel job's node on the same chain.

    python -m tests.measure.bench_pipeline
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from eth_utils import keccak
from torch.profiler import ProfilerActivity, profile

from agents.pipeline.epoch import Epoch
from agents.pipeline.miner_log import Event as LogEvent
from agents.pipeline.miner_log import Kind, MinerLog, Origin
from agents.pipeline.stage import Backward, Event, Forward, StageRunner, Step
from agents.training.determinism import pin_torch, pinned_environment
from agents.training.slices import Slices, init_stage, stage_template
from agents.training.spec import Hyperparameters, ModelSpec
from scripts._figures.boundary_runs import build
from scripts._net.compiled import ROOT
from scripts._net.localnet import Seat
from scripts._net.processes import Supervisor, terminate_as_exit
from tests.measure import bench_gas
from tests.measure.pipeline_links import FREE, Costs, Link, Result, Simulation
from tests.measure.rows import Row

STAGES, MINERS, SAMPLES, BATCHES = 4, 3, 96, (4, 16)
D_MODEL, BLOCKS, SEQ = 512, 8, 256
LINK = Link(80e6 / 8, 0.04)
NARROW = "residual:width=32"
AGAIN = f"{NARROW}, recompute"
MINERS_OF = {"none": ("none", False), NARROW: (NARROW, False), AGAIN: (NARROW, True)}
"""By name a boundary, and whether blocks are computed twice."""
HELD = (1, BATCHES[0])
_ROUNDS = 4
_FIRST_ROUNDS = 2  # of each job, of which no gas is taken
_LOGGED = (10, 1_000)  # samples of a miner in an epoch
_PASSES = (Kind.FORWARD, Kind.BACKWARD)
_QUIET = {"KINETO_LOG_LEVEL": "99"}  # torch's profiler says on stderr that it works
_MB = 1_000_000
_KINDS = ("forward", "backward", "step")
_HYPER = Hyperparameters(1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")


def slices_of(boundary: str, stages: int = STAGES) -> Slices:
    """The model that is measured, cut evenly."""
    spec = ModelSpec(
        d_model=D_MODEL, n_layers=BLOCKS, n_heads=8, n_kv_heads=8, d_ff=2 * D_MODEL,
        max_seq_len=SEQ, tie_embeddings=False, init_seed=0,
    )  # fmt: skip
    return Slices(spec, (BLOCKS // stages,) * stages, build(boundary))


class _Bare:
    """A stage at work, with messages of the right shape from nobody."""

    def __init__(self, slices: Slices, index: int, waiting: int, recompute: bool) -> None:
        self._index, self._last, self._waiting = index, slices.last, waiting
        draw = torch.Generator().manual_seed(0)
        self._tokens = torch.randint(0, 256, (1, SEQ + 1), generator=draw)
        code = torch.randn(slices.code_shape(1, SEQ), generator=draw)
        self._message = slices.boundary.codes.pack(code)
        state = init_stage(slices, index)
        self._runner = StageRunner(slices, index, state, _HYPER, waiting, recompute=recompute)

    def batch(self) -> dict[str, list[float]]:
        """`waiting` forwards, their backwards, a step: CPU seconds of each, by kind."""
        took: dict[str, list[float]] = {"forward": [], "backward": [], "step": []}
        code = self._message if self._index else None
        gradient = self._message if self._index != self._last else None
        for sample in range(self._waiting):
            self._timed(took["forward"], Forward(sample, self._tokens, code))
        for sample in range(self._waiting):
            self._timed(took["backward"], Backward(sample, gradient))
        self._timed(took["step"], Step())
        return took

    def _timed(self, into: list[float], event: Event) -> None:
        began = time.process_time()
        self._runner.do(event)
        into.append(time.process_time() - began)


# -- in a process of its own -----------------------------------------------------------------------


def peak_bytes(boundary: str, stages: int, index: int, waiting: int, recompute: bool) -> int:
    """Of a stage from its building on, over two steps of `waiting` samples."""
    slices = slices_of(boundary, stages)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        stage = _Bare(slices, index, waiting, recompute)
        stage.batch()
        stage.batch()
    events = (one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]")
    ordered = sorted(events, key=lambda one: one.start_ns())
    in_messages = index > 0 and boundary == "none"  # torch gave out no bytes for these codes
    codes = 4 * waiting * math.prod(slices.code_shape(1, SEQ)) * in_messages
    return max(accumulate(one.nbytes() for one in ordered)) + codes


def least_seconds(boundary: str, recompute: bool = False) -> list[dict[str, float]]:
    """Of each stage, by kind, the least CPU time of a pass of one sample, or of a step."""
    found = []
    for index in range(STAGES):
        stage = _Bare(slices_of(boundary), index, BATCHES[0], recompute)
        took = [stage.batch() for _ in range(_ROUNDS)]
        found.append({kind: min(min(one[kind]) for one in took[1:]) for kind in _KINDS})
    return found


def _here() -> dict[str, Any]:
    pin_torch()
    return {
        "whole": {
            str(again): [peak_bytes("none", 1, 0, held, again) for held in HELD]
            for again in (False, True)
        },
        "stages": [
            {
                name: [peak_bytes(boundary, STAGES, index, held, again) for index in range(STAGES)]
                for name, (boundary, again) in MINERS_OF.items()
            }
            for held in HELD
        ],
        "times": {name: least_seconds(*made) for name, made in MINERS_OF.items()},
    }


# -- rows ------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """All rows; about three minutes of one core."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.measure.bench_pipeline", "--here"],
        env=os.environ | pinned_environment() | _QUIET, stdout=subprocess.PIPE, text=True,
        check=True,
    )  # fmt: skip
    seen = json.loads(done.stdout)
    found: list[Row] = []
    wholes = zip(*seen["whole"].values(), strict=True)
    for held, (whole, twice), stages in zip(HELD, wholes, seen["stages"], strict=True):
        found += _memory_rows(held, whole, twice, stages)
    times = {name: _costs(own) for name, own in seen["times"].items()}
    return [*found, *_time_rows(times["none"], times[NARROW], times[AGAIN]), *gas_rows()]


def _memory_rows(held: int, whole: int, twice: int, stages: dict[str, list[int]]) -> list[Row]:
    """`twice`: the whole model's whose blocks are computed twice, which no goal is taken from."""
    buffer = 4 * D_MODEL * SEQ  # one sample's stream in fp32
    goal = whole / STAGES + buffer
    what = f"memory, {held} sample{'s' * (held > 1)} in flight"
    parameters = _parameters("none", 0, stages=1)
    return [
        Row(
            f"{what}: whole model",
            f"{whole / _MB:.1f} MB, {parameters:,} parameters; recompute {twice / _MB:.1f} MB",
        ),
        *(
            Row(
                f"{what}: stages, {name}",
                f"{', '.join(f'{one / _MB:.1f}' for one in own)} MB; most {max(own) / whole:.3f} "
                f"of the whole, {_parameters(name, own.index(max(own))):,} parameters",
                f"<= {goal / _MB:.1f} MB (1/{STAGES}, a boundary)",
                max(own) <= goal,
            )
            for name, own in stages.items()
        ),
    ]


def _parameters(name: str, index: int, stages: int = STAGES) -> int:
    slices = slices_of(MINERS_OF[name][0], stages)
    return sum(math.prod(shape) for shape in stage_template(slices, index).values())


def _costs(stages: list[dict[str, float]]) -> Costs:
    return Costs(*([one[kind] for one in stages] for kind in _KINDS))


def epoch_of() -> Epoch:
    """The epoch that is played."""
    seats = [range(MINERS * stage + 1, MINERS * stage + MINERS + 1) for stage in range(STAGES)]
    return Epoch(1, 0, keccak(b"bench"), tuple(map(tuple, seats)), range(SAMPLES))


def _time_rows(plain: Costs, narrow: Costs, again: Costs) -> list[Row]:
    """Shares of time, and the bytes of the default's epochs."""
    wide, slim = (slices_of(name).message_bytes(1, SEQ) for name in ("none", NARROW))
    found = [
        Row(
            f"a pass of one sample and stage, one core, {name}",
            f"forward {1000 * sum(costs.forward) / STAGES:.0f} ms, "
            f"backward {1000 * sum(costs.backward) / STAGES:.0f} ms of CPU",
        )
        for name, costs in ((NARROW, narrow), (AGAIN, again))
    ]
    played: dict[str, Result] = {}
    for batch in BATCHES:
        for times in (1, 10):
            for name, costs, message in (("none", plain, wide), ("residual", narrow, slim)):
                ran = Simulation(
                    epoch_of(),
                    costs.faster(times),
                    LINK,
                    message,
                    batch,
                ).run()
                free = Simulation(epoch_of(), costs.faster(times), FREE, message, batch).run()
                speed = "measured passes" if times == 1 else f"passes {times} times as fast"
                found.append(
                    Row(
                        f"computing, {name} ({message:,} B), {batch} to a step, {speed}",
                        f"{ran.share:.1%} of {ran.seconds:.1f} s; links for nothing "
                        f"{free.share:.1%}; nobody waits {ran.ideal:.1%}",
                    )
                )
                if (batch, times) == (BATCHES[0], 1):
                    played[name] = ran
    return [*found, *(_bytes_row(name, ran) for name, ran in played.items())]


def _bytes_row(name: str, ran: Result) -> Row:
    miners = ran.miners.values()
    sent, inbox, log = (
        statistics.mean(getattr(one, what) for one in miners) for what in ("sent", "inbox", "log")
    )
    each = SAMPLES / MINERS
    return Row(
        f"bytes a miner and epoch, {name}, {each:g} samples each",
        f"letters sent {sent / _MB:.2f} MB, inbox {inbox / _MB:.2f} MB, log {log:,.0f} B",
    )


def gas_rows() -> list[Row]:
    """Commit and reveal of a miner, for few samples and for many, beside a data-parallel node's.

    A commitment of a miner binds the root of its log. All nodes commit and reveal in both jobs, in
    rounds after the first ones.
    """
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        terminate_as_exit(),
        Supervisor(Path(folder) / "logs", ROOT) as supervisor,
    ):
        bench = bench_gas.build(supervisor, Path(folder) / "net", STAGES * MINERS)
        plain, split = (bench.create_job(STAGES * MINERS) for _ in range(2))
        for _ in range(_FIRST_ROUNDS):
            bench.round(plain)
            bench.round(split, secret=partial(committed, _LOGGED[0]))
        usual = _node_round(bench.round(plain))
        epochs = [
            _node_round(bench.round(split, secret=partial(committed, count))) for count in _LOGGED
        ]
    few, many = epochs
    apart = abs(many - few) / few
    beside = few / usual - 1
    return [
        Row("gas a node and round, data-parallel: commit + reveal", f"{usual:,} gas"),
        Row(
            f"gas a miner and epoch of {_LOGGED[0]:,} samples: commit + reveal",
            f"{few:,} gas, {beside:+.1%} beside the data-parallel node's",
            "within 20 %",
            abs(beside) <= 0.2,
        ),
        Row(
            f"the same of {_LOGGED[1]:,} samples",
            f"{many:,} gas, {apart:.2%} apart",
            "flat: 0.1 %, which words' zero bytes make",
            apart <= 0.001,
        ),
    ]


def committed(samples: int, job_id: int, number: int, seat: Seat) -> list[bytes]:
    """What a miner's commitment binds that passed so many samples there and back."""
    words = [
        bytes(keccak(text=f"{part} {job_id} {number} {seat.node_id} {samples}"))
        for part in ("input", "content", "salt", "state")
    ]
    events = []
    for sample in range(samples):
        events += [LogEvent(kind, sample, words[0], words[1]) for kind in _PASSES]
    events.append(LogEvent(Kind.STEP, 0, words[3], words[2]))
    log = MinerLog(Origin(seat.node_id, number, 0, words[3]), tuple(events))
    return [words[0], words[1], log.root(), words[2]]


def _node_round(gas: dict[str, list[int]]) -> int:
    return bench_gas.typical(gas["commit"]) + bench_gas.typical(gas["reveal"])


def main() -> None:
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(_here()))
        return
    for row in rows():
        print(f"{row.figure:<75} {row.measured:<75} {row.goal} {row.met}")


if __name__ == "__main__":
    main()
