# SPDX-License-Identifier: Apache-2.0
"""A model learns under ZIP-400's codec: with the source's settings, and with ours.

Eight nodes train a small model on real text for ten rounds; their payloads are merged by the mean
and the update is applied as in a job. The source says 256 numbers, decoded by the projection's own
transpose. Ours are a hundredth of the bytes, decoded right on average, with a seed for every node.
With `-s` the losses are printed beside those of `dense`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merges
from agents.mechanisms.codec import ratio
from agents.storage.embedded import EmbeddedStore
from agents.training.evaluate import validation_loss
from agents.training.local import train_local
from agents.training.norms import cosine
from agents.training.spec import Hyperparameters
from agents.training.state import State, apply_outer
from tests.stage.memory.tiny_specs import tiny_model

NODES, ROUNDS, STEPS = 8, 10, 8
SETTINGS: dict[str, dict[str, Any]] = {
    "dense": {},
    "source": {"dimension": 256, "clip": 6.0, "decoder": "transpose"},
    "ours": {"ratio": 100, "clip": 6.0, "own_seed": True},
}
_TEXT = [
    b"the %d of %d lines that a small model learns by heart\n" % (i % 7, i) for i in range(900)
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    store = EmbeddedStore(tmp_path_factory.mktemp("semantic") / "store")
    spec = {
        "model": tiny_model(16, 24, 32),
        "optimizer": {"batch_size": 4, "seq_len": 32},
        "batches_per_round": NODES * STEPS,
        "eval_batches": 4,
        "rounds": ROUNDS,
    }
    yield JobContext(publish_job(store, _TEXT, spec).spec, store)


def learnt(job: JobContext, name: str) -> tuple[list[float], float, float]:
    """Validation losses before the first round and after each, how much shorter a payload is, and
    the cosine of the merged update to the mean of the true ones in the first round."""
    kind = "dense" if name == "dense" else "semantic"
    codec, merge = codecs.get(kind)(**SETTINGS[name]), merges.get("mean")()
    net, state = job.net("cpu"), dict(job.genesis())
    held_out = job.data.val_batches(job.spec.eval_batches)
    shapes, losses, near = job.shapes, [validation_loss(net, state, held_out)], 0.0
    plain = merges.get("mean")()
    for number in range(ROUNDS):
        hyper = Hyperparameters.of(job.spec, number)
        updates, decoded = [], list[State]()
        for node in range(NODES):
            first = (number * NODES + node) * STEPS
            batches = [job.data.batch(index) for index in range(first, first + STEPS)]
            update = train_local(net, state, batches, hyper, bytes(32)).pseudo_gradient
            own = bytes([node]) if SETTINGS[name].get("own_seed") else b""
            seed = hashlib.sha256(bytes([number]) + own).digest()
            updates.append(update)
            decoded.append(codec.decode(codec.encode(update, None, seed), shapes, seed))
        merged = merge(decoded)
        near = near or cosine(plain(updates), merged)
        state = apply_outer(state, merged, job.spec.outer_lr_at(number))
        losses.append(validation_loss(net, state, held_out))
    return losses, ratio(codec, shapes), near


def test_semantic_converges_with_the_sources_settings_and_with_ours(job: JobContext) -> None:
    found = {name: learnt(job, name) for name in SETTINGS}
    for name, (losses, shorter, near) in found.items():
        print(
            f"\n{name:6}: {losses[0]:.3f} -> {losses[-1]:.3f} in {ROUNDS} rounds, {shorter:.0f}x, "
            f"cosine of the first merge {near:.2f}"
        )
    gained = {name: losses[0] - losses[-1] for name, (losses, _, _) in found.items()}
    assert found["ours"][1] >= 100
    # The projection keeps k of d directions, so the source's update is shorter and learns less.
    assert gained["source"] > 0
    assert gained["ours"] > 3 * gained["source"]
    assert gained["ours"] > 0.7 * gained["dense"]
