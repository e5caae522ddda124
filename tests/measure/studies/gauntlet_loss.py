# SPDX-License-Identifier: Apache-2.0
"""Where the model of the gauntlet demo's job ends: its spec, its rounds, honest nodes alone.

Five nodes (as many as are merged in a round of the demo) are assigned their batches and take the
mean gradient; payloads are encoded, decoded and remembered, merged by sign and applied, for the
demo's twelve rounds. Seeds order the text (`data_seed`). Printed are the losses on the job's
validation batches, in nats a byte, and the last model's hash, which two commits share only if they
trained bit by bit alike.

    python -m tests.measure.studies.gauntlet_loss     # about a minute of CPU

Only what old commits have too is called, so that the same file runs there and both can be compared:
copy it into a checkout of the older one. Figures are on docs/gauntlet.md.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from agents.training.determinism import pin_environment, pin_torch

pin_environment(portable=True)  # as the agents do; before torch is loaded

from agents.jobs.job import JobContext  # noqa: E402
from agents.jobs.publish import publish_job  # noqa: E402
from agents.rounds.plan import Plan  # noqa: E402
from agents.storage.embedded import EmbeddedStore  # noqa: E402
from agents.training.assignment import Ranges, assign, next_carry, work_order  # noqa: E402
from agents.training.documents import stdlib_corpus  # noqa: E402
from agents.training.evaluate import validation_loss  # noqa: E402
from agents.training.replay import run_task  # noqa: E402
from agents.training.state import State, apply_outer, load_state, model_hash  # noqa: E402
from scripts._demo.gauntlet import GAUNTLET  # noqa: E402

DEVICE = "cpu"
NODES = (1, 2, 3, 4, 5)
_BATCHES = 4  # of a node in a round
_CORPUS = 2 << 20  # bytes


def played(store: EmbeddedStore, spec: dict[str, Any]) -> tuple[list[float], bytes]:
    """The loss before the first round and after each, and the last model's hash."""
    published = publish_job(store, stdlib_corpus(_CORPUS), spec)
    job = JobContext(published.spec, store)
    state: State = load_state(store.get(published.checkpoint_cid, 1 << 22), job.shapes)
    net, batches = job.net(DEVICE), job.data.val_batches(job.spec.eval_batches)
    carry: Ranges = ()
    cursor = 0
    memories: dict[int, State | None] = dict.fromkeys(NODES)
    losses = [validation_loss(net, state, batches)]
    for number in range(job.spec.rounds):
        drawn = hashlib.sha256(b"round %d" % number).digest()
        manifest = assign(drawn, NODES, (1,) * len(NODES), job.spec, carry, cursor)
        plan = Plan(manifest, number, carry, cursor)
        sent = []
        for node in NODES:
            order = work_order(manifest, node, job.spec, 1, number, model_hash(state))
            update = run_task(net, order, state, job.data).pseudo_gradient
            own = plan.codec_seed(job.codec, node)
            payload = job.codec.encode(update, memories[node], own)
            sent.append(job.codec.decode(payload, job.shapes, own))
            memories[node] = job.codec.remember(update, memories[node], sent[-1])
        state = apply_outer(state, job.merge(sent), job.spec.outer_lr_at(number))
        carry, cursor = next_carry(manifest, NODES)
        losses.append(validation_loss(net, state, batches))
    return losses, model_hash(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    pin_torch()
    spec = GAUNTLET.spec(len(NODES))
    spec |= {"batches_per_round": _BATCHES * len(NODES), "rounds": GAUNTLET.rounds}
    ends = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            losses, model = played(EmbeddedStore(Path(folder)), spec | {"data_seed": seed})
        ends.append(losses[-1])
        shown = " ".join(f"{loss:.4f}" for loss in losses)
        print(f"seed {seed}: {shown}, model {model.hex()[:16]}", flush=True)
    print(f"mean of {len(ends)} ends: {statistics.mean(ends):.4f}")


if __name__ == "__main__":
    main()
