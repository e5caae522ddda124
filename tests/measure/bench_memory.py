# SPDX-License-Identifier: Apache-2.0
"""Memory of one round on a trainer, an aggregator and a verifier, in bytes a parameter.

Beside what a node counts before it joins (`agents.jobs.role_memory`) stands what a child process
took: the peak of its resident memory while it did that role's work of a round with the functions
that agents call, less what it held before. Model, payloads and data lie in a store that another
process filled. The interpreter, torch's libraries and the caches of a long-lived agent are not in
it: a node keeps the last three models besides.

    python -m tests.measure --only memory
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agents.jobs.job import JobContext
from agents.jobs.model_files import read_model
from agents.jobs.role_memory import ROLES, role_needs
from agents.protocol.structs import Reveal
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission, fetch
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, work_order
from agents.training.determinism import pin_torch, pinned_environment
from agents.training.inner_state import shapes_for
from agents.training.norms import cosine
from agents.training.replay import run_task
from agents.training.spec import MAX_SPEC_BYTES, JobSpec
from agents.training.state import State, model_hash, save_state
from agents.verify.spot_checks import RoundInputs, reexecute
from tests.measure.rows import Row
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    ROUND,
    SEED,
    make_tiny_job,
    make_work,
)

NODES = (3, 5, 8, 9)
_SHOWN = "shown.pickle"
_MODEL = {"d_model": 384, "n_layers": 6, "n_heads": 6, "n_kv_heads": 6, "d_ff": 1024,
          "max_seq_len": 16}  # fmt: skip
_TINY = {**_MODEL, "d_model": 48, "n_layers": 1, "d_ff": 64}
_SPARSE: dict[str, Any] = {"codec": "sparse", "merge": "mean"}
CASES: dict[str, dict[str, Any]] = {
    "adamw, dense": {},
    "gradient, dense": {"inner": "gradient"},
    "muon, dense": {"inner": "muon"},
    "adamw kept, dense": {"inner_state": "kept"},
    "muon kept, dense": {"inner": "muon", "inner_state": "kept"},
    "adamw, sparse": _SPARSE,
    "muon kept, sparse": {"inner": "muon", "inner_state": "kept", **_SPARSE},
    "gradient, demo": {
        "inner": "gradient",
        "codec": "demo",
        "merge": "demo_sign",
        "codec_options": {"memory_rounds": 20},
    },
}


@dataclass(frozen=True)
class Round:
    """A round of a published job, as whoever has a role in it finds it in the store."""

    store: EmbeddedStore
    job: JobContext
    plan: Plan
    reveals: tuple[Reveal, ...]
    read: Callable[[], State]

    @property
    def owed(self) -> State | None:
        """What a node's codec owes from rounds before, where it has a memory."""
        if not self.job.codec.has_memory:
            return None
        return {name: torch.full(shape, 1e-4) for name, shape in self.job.shapes.items()}

    @property
    def inner(self) -> State | None:
        """What a node's inner optimizer gathered in rounds before, where it is kept."""
        if not self.job.inner_rounds:
            return None
        shapes = shapes_for(self.job.net(DEVICE), self.job.spec)
        state = {name: torch.full(shape, 1e-4) for name, shape in shapes.items()}
        return {**state, "steps": torch.tensor([0.0, 1.0])}

    def submissions(self) -> list[Submission]:
        """All payloads, fetched and checked."""
        codec = self.job.codec
        return [
            fetch(one, self.job, self.store, self.plan.codec_seed(codec, one.node))
            for one in self.reveals
        ]


# -- in processes of their own ---------------------------------------------------------------------


def prepare(folder: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Publish the job and all nodes' work of its first round; the counted bytes by role."""
    fields = dict(fields)
    inner = {key: fields.pop(key) for key in ("inner", "inner_state") if key in fields}
    tiny = make_tiny_job(
        EmbeddedStore(folder),
        model=fields.pop("model", _MODEL),
        optimizer={"batch_size": 1, "seq_len": 16, **inner},
        batches_per_round=len(NODES),
        eval_batches=1,
        checkpoint_every=1,
        **fields,
    )
    plan = tiny.plan_of(SEED, NODES, (1,) * len(NODES))
    reveals = []
    for node in NODES:
        work = make_work(tiny.job, plan, tiny.before, node)
        work.publish(tiny.store)
        reveals.append(work.reveal())
    shown = tiny.published.spec_cid, tiny.published.checkpoint_cid, tiny.published.model, reveals
    (folder / _SHOWN).write_bytes(pickle.dumps(shown))
    job = tiny.job
    counted = {
        role: role_needs(role, job.spec, job.shapes, job.codec, len(NODES)).memory for role in ROLES
    }
    return {"parameters": job.parameters, "counted": counted}


def opened(folder: Path) -> Round:
    """What `prepare` left."""
    spec, checkpoint, model, reveals = pickle.loads((folder / _SHOWN).read_bytes())
    store = EmbeddedStore(folder)
    job = JobContext(JobSpec.from_bytes(store.get(spec, MAX_SPEC_BYTES)), store)
    plan = Plan(assign(SEED, NODES, (1,) * len(NODES), job.spec), 0, (), 0)
    return Round(
        store,
        job,
        plan,
        tuple(reveals),
        lambda: read_model(job, store, digest_of(checkpoint), model),
    )


def trainer(found: Round) -> None:
    """A task as `agents.rounds.work.Producer.produce` does it, in its order."""
    job, plan, node, before = found.job, found.plan, NODES[0], found.read()
    owed, inner = found.owed, found.inner
    task = work_order(plan.manifest, node, job.spec, JOB, plan.step, model_hash(before))
    gradient, gathered = _trained(job, task, before, inner)
    update, seed = job.privacy.release(gradient), plan.codec_seed(job.codec, node)
    payload = job.codec.encode(update, owed, seed)
    decoded = job.codec.decode(payload, job.shapes, seed)
    after = job.codec.remember(update, owed, decoded)
    model_hash(decoded)
    cosine(update, decoded)
    kept = [None if one is None else save_state(one) for one in (after, gathered)]
    del kept


def _trained(job: JobContext, *how: Any) -> tuple[State, State | None]:
    task, before, inner = how
    result = run_task(job.net(DEVICE), task, before, job.data, inner=inner)
    return result.pseudo_gradient, result.inner


def aggregator(found: Round) -> None:
    """The result of the round."""
    compute(found.job, JOB, ROUND, found.plan, found.read(), found.submissions(), DEVICE)


def verifier(found: Round) -> None:
    """The result of the round again, and the work of one node again."""
    before, submissions = found.read(), found.submissions()
    outcome = compute(found.job, JOB, ROUND, found.plan, before, submissions, DEVICE)
    owed, inner = found.owed, found.inner
    inputs = RoundInputs(
        job=found.job, job_id=JOB, round_id=ROUND, plan=found.plan, before=before,
        submissions=submissions, merged=outcome.merged,
        memory=lambda node: owed, inner=lambda node: inner,
    )  # fmt: skip
    reexecute(inputs, NODES[0], DEVICE, found.store)


_DOES: dict[str, Callable[[Round], None]] = {
    "trainer": trainer,
    "aggregator": aggregator,
    "verifier": verifier,
}


def peaks(folder: Path, warm: Path) -> dict[str, int]:
    """By role, resident memory at its peak in a round, less what was resident before.

    Each role is played in a copy of this process. `warm`: a round of a tiny model, in which it is
    played before, so that libraries and code are loaded.
    """
    found = {}
    for role in ROLES:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, str(_peak(role, folder, warm)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as told:
            found[role] = int(told.read())
        os.waitpid(child, 0)
    return found


def _peak(role: str, folder: Path, warm: Path) -> int:
    _DOES[role](opened(warm))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    _DOES[role](opened(folder))
    return 1024 * (_status("VmHWM") - before)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


# -- rows ------------------------------------------------------------------------------------------


def measured(fields: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """By role, in bytes a parameter: what is counted, and what a process took."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        told = _child("prepare", name, json.dumps(fields))
        took = _child("peaks", name)
        return {
            role: (told["counted"][role] / told["parameters"], took[role] / told["parameters"])
            for role in ROLES
        }


def _child(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.measure.bench_memory", *arguments],
        env=os.environ | pinned_environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(say: Callable[[str], None] = lambda text: None) -> list[Row]:
    """A row a case and role."""
    if not sys.platform.startswith("linux"):
        return [Row("memory of a round", "not measured: only Linux tells a process's peak")]
    found = []
    for case, fields in CASES.items():
        say(f"memory of a round: {case}")
        for role, (counted, took) in measured(fields).items():
            shown = f"{took:.1f} bytes a parameter"
            found.append(
                Row(f"memory, {case}: {role}", shown, f"<= {counted:.1f} counted", took <= counted)
            )
    return found


def main() -> None:
    if len(sys.argv) == 1:
        for row in rows():
            print(f"{row.figure:<40} {row.measured:<26} {row.goal}", flush=True)
        return
    what, folder = sys.argv[1], Path(sys.argv[2])
    pin_torch()
    if what == "prepare":
        fields = json.loads(sys.argv[3])
        prepare(folder / "warm", {**fields, "model": _TINY})
        print(json.dumps(prepare(folder / "round", fields)))
    else:
        print(json.dumps(peaks(folder / "round", folder / "warm")))


if __name__ == "__main__":
    main()
