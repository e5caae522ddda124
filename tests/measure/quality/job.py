# SPDX-License-Identifier: Apache-2.0
"""A job's own rounds on the text of the study: what a network would reach, without chain and peers.

Every round is assigned, trained, hashed, encoded, published, fetched, checked, merged and applied
by the code that trainers and aggregators run: `assign`, `run_task` with its trace, the codec,
`fetch`, `compute`, and `Carried` for a codec's memory and an inner optimizer's state. So rates move
by rounds, both states are reset after so many rounds as the spec says, and any round can be done
again. Only transactions, the network and cheats are left out. Eight honest nodes, five batches
each a round, as many as in the study's methods.

    python -m tests.measure.quality.job --row job --rounds 4    # run and print
    python -m tests.measure.quality.job --record                # 120 rounds: 2,457,600 tokens
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agents.jobs.job import JobContext
from agents.jobs.outer_step import weights_of
from agents.jobs.publish import publish_job
from agents.rounds.carried import Carried
from agents.rounds.inputs import RoundInputs
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Ranges, assign, next_carry
from agents.training.state import State
from scripts._figures.text import corpus
from tests.measure.quality.methods import METHODS, MUON_X3
from tests.measure.quality.record import Key, Records, kept_or_made, line, say, setting_of
from tests.measure.quality.task import BATCH, PEERS, SEQ, Task
from tests.measure.quality.trainer import QUARTERS, Run, Trainer
from tests.stage.memory.honest_round import DEVICE, JOB, make_work

STEPS = 5  # of a node in a round
LIFE = 60  # rounds that codec memory and inner state live; a spec allows 64
SECTION = "job"  # of docs/quality.json
CENTRAL = {  # what it stands beside, on the same network
    **{name: METHODS[name] for name in ("adamw-tuned", "muon-tuned")},
    "muon-x3": MUON_X3,
}
_NODES = tuple(range(1, PEERS + 1))

_CODEC = {"fine": "head.weight", "fine_share": 0.33, "decay": 0.4, "memory_rounds": LIFE}
SPEC: dict[str, Any] = {
    "codec": "directions",
    "codec_options": {**_CODEC, "cell": 128, "directions": 8192},
    "merge": "norm_clip",
    "optimizer": {
        "inner": "muon",
        "inner_options": {"lr_ratio": 6.0, "momentum": 0.9},
        "inner_state": "kept",
        "inner_state_rounds": LIFE,
        "lr": 2.5e-3,
        "min_lr_ratio": 0.15,
        "decay": "cosine",
        "weight_decay": 0.1,
        "batch_size": BATCH,
        "seq_len": SEQ,
        "outer_lr": 8.0,
    },
    "batches_per_round": PEERS * STEPS,
    "eval_batches": 1,
    "audit_sample": 0,
}
"""Found for this network and length with the codec of `CELLS`, which has as many bytes; rounds,
warm-up and model are `spec_of`'s."""
CELLS: dict[str, Any] = {**SPEC, "codec": "cells", "codec_options": {**_CODEC, "cell": 64}}
JOBS = {"job": SPEC, "job-cells": CELLS}


def spec_of(task: Task, rounds: int, row: str = "job", **changes: Any) -> dict[str, Any]:
    """The spec of a job of so many rounds on the task's model, which is the project's own. The rate
    rises over the first thirtieth. `changes`: fields of `optimizer`; the dicts `inner_options` and
    `codec_options` say only what is other than in the row's spec."""
    spec = JOBS[row]
    optimizer = {**spec["optimizer"], "warmup_rounds": rounds // 30, **changes}
    inner = {**spec["optimizer"]["inner_options"], **changes.get("inner_options", {})}
    codec = {**spec["codec_options"], **optimizer.pop("codec_options", {})}
    return {
        **spec,
        "codec_options": codec,
        "model": task.spec.model_dump(),
        "optimizer": {**optimizer, "inner_options": inner},
        "rounds": rounds,
    }


class JobRun:
    """Rounds of a published job.

    Attributes:
        job: what every node knows.
        state: the model that the next round starts from.
        carried: what each node takes into the next round.
        played: the round before, as whoever does a node's work again needs it; None before the
            first.
    """

    def __init__(self, store: EmbeddedStore, spec: Mapping[str, Any]) -> None:
        """Publish the job in `store`."""
        self.store = store
        self.job = JobContext(publish_job(store, [corpus()], spec).spec, store)
        self.state: State = self.job.genesis()
        self.carried = dict.fromkeys(_NODES, Carried())
        self.played: RoundInputs | None = None
        self.step = self.uploaded = 0
        self.codec_s = 0.0
        self._carry: Ranges = ()
        self._cursor = 0

    def round(self) -> None:
        """Play the next round. RuntimeError if a payload was refused."""
        job, store = self.job, self.store
        seed = hashlib.sha256(f"quality round {self.step}".encode()).digest()
        weights = (1,) * PEERS
        manifest = assign(seed, _NODES, weights, job.spec, self._carry, self._cursor)
        plan = Plan(manifest, self.step, self._carry, self._cursor)
        found, after = [], {}
        for node in _NODES:
            before = self.carried[node]
            work = make_work(job, plan, self.state, node, before.owed, inner=before.inner)
            work.publish(store)
            own = plan.codec_seed(job.codec, node)
            submission = fetch(work.reveal(), job, store, own, due=work.input_root)
            if submission.gradient is None:
                raise RuntimeError(f"the payload of node {node} was refused: {submission.reason}")
            found.append(submission)
            owed = job.codec.remember(work.gradient, before.owed, submission.gradient)
            after[node] = Carried(owed, work.inner).into(job, self.step, self.step + 1)
        self.uploaded += max(len(store.get_digest(s.reveal.content, 1 << 24)) for s in found)
        self.played = self._inputs(plan, found)
        self._finish(plan, found)
        self.carried = after

    def _inputs(self, plan: Plan, found: list[Submission]) -> RoundInputs:
        began = self.carried
        return RoundInputs(
            self.job,
            JOB,
            self.step + 1,
            plan,
            self.state,
            found,
            memory=lambda node: began[node].owed,
            inner=lambda node: began[node].inner,
        )

    def _finish(self, plan: Plan, found: list[Submission]) -> None:
        outcome = compute(self.job, JOB, self.step + 1, plan, self.state, found, DEVICE)
        accepted = outcome.report.accepted()
        if set(accepted) != set(_NODES):
            raise RuntimeError(f"only {sorted(accepted)} of {len(_NODES)} nodes were accepted")
        self._carry, self._cursor = next_carry(plan.manifest, accepted)
        self.state, self.step = outcome.state, self.step + 1


def play(
    task: Task, rounds: int, say: Callable[[str], None], row: str = "job", **changes: Any
) -> Run:
    """All rounds of a job, with the losses that the study's methods are given."""
    run = Run()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = JobRun(EmbeddedStore(Path(folder)), spec_of(task, rounds, row, **changes))
        for done in range(1, rounds + 1):
            made.round()
            for part in QUARTERS:
                if str(part) not in run.val and done >= part * rounds:
                    loss = round(task.loss(weights_of(made.state, made.job.shapes)), 4)
                    run.val[str(part)] = loss
                    say(f"{done} of {rounds} rounds: {loss}")
        run.uploaded, run.exchanges = made.uploaded, made.step
    run.cpu_s = time.process_time() - began
    return run


def settings() -> dict[str, Any]:
    """The rows of the section: central training on the same network, and the jobs."""
    return {**{name: setting_of(method) for name, method in CENTRAL.items()}, **JOBS}


def opened() -> Records:
    """The section as it is on disk now."""
    return Records(section=SECTION, settings=settings())


def _said(**asked: float | None) -> dict[str, Any]:
    """The options that the command line names."""
    return {name: value for name, value in asked.items() if value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    rows = (*CENTRAL, *JOBS)
    parser.add_argument("--row", action="append", choices=rows, help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=120, help="of 20,480 tokens each")
    parser.add_argument("--outer-lr", type=float, help="of the job, for this run")
    parser.add_argument("--lr", type=float, help="of the job, for this run")
    parser.add_argument("--warmup-rounds", type=int, help="of the job, for this run")
    parser.add_argument("--min-lr-ratio", type=float, help="of the job, for this run")
    parser.add_argument("--lr-ratio", type=float, help="of the job's Muon, for this run")
    parser.add_argument("--momentum", type=float, help="of the job's Muon, for this run")
    parser.add_argument("--memory", type=float, help="the codec's decay, for this run")
    parser.add_argument("--record", action="store_true", help="run what docs/quality.json lacks")
    given = parser.parse_args()
    torch.set_num_threads(1)
    inner = _said(lr_ratio=given.lr_ratio, momentum=given.momentum)
    changes = {
        **_said(outer_lr=given.outer_lr, min_lr_ratio=given.min_lr_ratio),
        **_said(lr=given.lr, warmup_rounds=given.warmup_rounds),
        **({"inner_options": inner} if inner else {}),
        **({"codec_options": {"decay": given.memory}} if given.memory is not None else {}),
    }
    if given.record and changes:
        parser.error("only the job as it is, is recorded")
    task = Task(given.seed, "llama")
    for row in given.row or rows:
        key = Key(row, given.seed, given.rounds * STEPS)
        if row in JOBS:
            made: Callable[[], Run] = partial(play, task, given.rounds, say, row, **changes)
        else:
            made = Trainer(task, CENTRAL[row], key.steps, say).go
        run = kept_or_made(key, task, made, opened) if given.record else made()
        print(line(key, run), flush=True)


if __name__ == "__main__":
    main()
