# SPDX-License-Identifier: Apache-2.0
"""Noise that its maker has chosen passes each check of noise, and steers the model: this succeeds.

An aggregator of a job with `privacy: aggregate` publishes, in place of noise, a vector of the
noise's length up the gradient of the validation loss. Everybody who may read the payloads compares
length and direction along the merge, and nothing else. The tests assert how far that gets. Run with
`-s` to see the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.mechanisms.privacy.aggregate import Aggregate
from agents.mechanisms.privacy.gaussian import clip_total
from agents.mechanisms.privacy.parts.residual import NoiseCheck, consistent
from agents.rounds.release import published
from agents.storage.embedded import EmbeddedStore
from agents.training.data import DataSource, pack
from agents.training.documents import stdlib_corpus
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state, next_token_loss, template
from agents.training.spec import Hyperparameters, JobSpec, ModelSpec
from agents.training.state import State, apply_outer
from agents.training.update import pack_update

MODEL = ModelSpec(d_model=32, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=64, max_seq_len=32)
HYPER = Hyperparameters(
    lr=4e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01, grad_clip=1.0, precision="fp32"
)
PRIVACY = Aggregate(clip=1.0, noise_multiplier=1.0, max_epsilon=100.0)
NODES = 100  # their mean is taken to be that of five
Vector = NDArray[np.float64]


def flat(state: State) -> Vector:
    """As agents.rounds.release compares them."""
    return torch.cat([state[name].reshape(-1).double() for name in sorted(state)]).numpy()


@dataclass
class Job:
    """A job under way, and the merge of one of its rounds before noise."""

    store: EmbeddedStore
    source: DataSource
    net: FlatModel
    before: State
    merged: State

    @property
    def sigma(self) -> float:
        """Of the noise that the job asks for, on each coordinate."""
        return PRIVACY.sigma("mean", NODES)

    def loss(self, update: State | None) -> float:
        """On validation, after an update; None: before the round."""
        state = self.before if update is None else apply_outer(self.before, update, 1.0)
        return validation_loss(self.net, state, self.source.val_batches(4))

    def update(self, noise: Vector) -> State:
        """The merge with that noise, as it is published."""
        found, at = {}, 0
        whole = flat(self.merged) + noise
        for name in sorted(self.merged):
            shape = self.merged[name].shape
            part = whole[at : at + shape.numel()].astype(np.float32)
            found[name], at = torch.from_numpy(part).reshape(shape), at + shape.numel()
        return found

    def uphill(self) -> Vector:
        """Where the loss rises after the merge, without its part along the merge."""
        self.net.load(apply_outer(self.before, self.merged, 1.0))
        self.net.grads.zero_()
        for batch in self.source.val_batches(4):
            next_token_loss(self.net.model, batch).backward()
        slope = flat({name: part.clone() for name, part in self.net.split(self.net.grads).items()})
        return -self.aside(slope)  # an update is subtracted

    def aside(self, vector: Vector) -> Vector:
        """Without its part along the merge."""
        along = flat(self.merged)
        return vector - along * (vector @ along) / (along @ along)

    def as_long_as_noise(self, vector: Vector) -> Vector:
        """In a length that honest noise has."""
        scaled: Vector = vector * self.sigma * vector.size**0.5 / np.linalg.norm(vector)
        return scaled

    def checked(self, update: State) -> tuple[str, NoiseCheck]:
        """What everybody who may read the payloads finds: nothing, or a sentence; and why."""
        job: Any = SimpleNamespace(
            privacy=PRIVACY, shapes=template(MODEL), spec=SimpleNamespace(merge="mean")
        )
        cid = self.store.put_bytes(pack_update(update))
        _, wrong = published(job, self.store, cid)(self.merged, NODES)
        return wrong, consistent(flat(update), flat(self.merged), self.sigma)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Sixty steps are done; five updates of four steps stand for those of a hundred nodes."""
    torch.set_num_threads(1)
    store = EmbeddedStore(tmp_path_factory.mktemp("chosen") / "store")
    options = {"seq_len": 32, "batch_size": 16}
    data = pack(list(stdlib_corpus(300_000)), store)
    spec = JobSpec.from_dict({"data": data, "model": MODEL.model_dump(), "optimizer": options})
    source, net = DataSource(store, spec), FlatModel(MODEL)

    def trained(start: State, first: int, steps: int) -> Any:
        batches = [source.batch(first + step) for step in range(steps)]
        return train_local(net, start, batches, HYPER, bytes(32))

    before = trained(init_state(MODEL), 0, 60).state
    updates = [
        clip_total(trained(before, 60 + 4 * node, 4).pseudo_gradient, PRIVACY.clip)
        for node in range(5)
    ]
    merged = {name: torch.stack([one[name] for one in updates]).mean(0) for name in before}
    return Job(store, source, net, before, merged)


def steepest(job: Job) -> Vector:
    """All of the noise's length up the gradient."""
    return job.as_long_as_noise(job.uphill())


def disguised(job: Job) -> Vector:
    """Each coordinate as large as honest noise has them: places and signs alone are chosen."""
    slope = job.uphill()
    sizes = np.sort(np.abs(np.random.default_rng(1).normal(0, job.sigma, slope.size)))
    chosen = np.empty(slope.size)
    chosen[np.argsort(np.abs(slope))] = sizes
    return job.as_long_as_noise(job.aside(chosen * np.sign(slope)))


@pytest.mark.parametrize("choose", [steepest, disguised])
def test_chosen_noise_passes_every_check_and_undoes_the_round(
    job: Job, choose: Callable[[Job], Vector]
) -> None:
    """It costs the model far more than honest noise of the same length."""
    honest = PRIVACY.release_merged(job.merged, "mean", NODES)
    update = job.update(choose(job))
    wrong, check = job.checked(update)
    losses = [job.loss(one) for one in (None, job.merged, honest, update)]
    print(f"\n{choose.__name__}: length {check.length:.4f}, along {check.direction:.2f}; ", end="")
    print(f"loss {losses[0]:.3f}, after the merge {losses[1]:.3f}, with honest noise ", end="")
    print(f"{losses[2]:.3f}, with this {losses[3]:.3f}")
    assert wrong == "" and check.clear
    assert losses[3] > losses[0] + 0.3
    assert losses[3] - losses[1] > 5 * (losses[2] - losses[1])


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_it_reaches_no_further_than_the_noise_is_long(job: Job, share: float) -> None:
    wrong, check = job.checked(job.update(share * steepest(job)))
    assert wrong.startswith("the update is not merge and noise: it deviates ") and not check.passed
