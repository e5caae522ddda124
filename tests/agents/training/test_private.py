# SPDX-License-Identifier: Apache-2.0
"""Private steps: right gradients, exact clipping, due noise, secret samples, the due charge.

The reference is a loop of single-example backward passes through the plain model.
"""

from __future__ import annotations

import builtins
import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agents.mechanisms.privacy.dp_sgd import DpSgd
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder, assign, work_order
from agents.training.data import DataSource
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.local_data import LocalData
from agents.training.model import build_model, init_state, next_token_loss
from agents.training.optimizers import chosen
from agents.training.private import clipped_sum, example_gradients, poisson_sample, run_private_task
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import PayloadError, model_hash
from tests.stage.memory.seeded_noise import Seeded

pytest.importorskip("opacus", reason="the extra 'privacy' is not installed")

SpecBuilder = Callable[..., JobSpec]


def alone(model: nn.Module, sequence: Tensor) -> Tensor:
    """Gradient of one sequence's loss by an ordinary backward pass, flat by name."""
    parameters = [p for _, p in sorted(model.named_parameters())]
    found = torch.autograd.grad(next_token_loss(model, sequence[None]), parameters)
    return torch.cat([tensor.flatten() for tensor in found])


@pytest.fixture
def local(tmp_path: Path, store: EmbeddedStore, tiny_spec: SpecBuilder) -> LocalData:
    folder = tmp_path / "own"
    folder.mkdir()
    lines = (hashlib.sha256(b"%d" % n).hexdigest() for n in range(120))
    (folder / "a.txt").write_text("\n".join(lines))
    spec = tiny_spec()
    return LocalData(folder, spec, DataSource(store, spec))


def task_for(spec: JobSpec, state: dict[str, Tensor], steps: int) -> WorkOrder:
    spec = spec.model_copy(update={"batches_per_round": steps})
    manifest = assign(bytes(32), [1], [1], spec)
    return work_order(manifest, 1, spec, 1, 5, model_hash(state))


@pytest.mark.parametrize("tied", [True, False])
def test_example_gradients_are_those_of_single_passes(tiny_spec: SpecBuilder, tied: bool) -> None:
    model_spec = tiny_spec().model.model_copy(update={"tie_embeddings": tied})
    net, batch = FlatModel(model_spec), torch.randint(0, 256, (5, 17))
    state = init_state(model_spec)
    noise = torch.Generator().manual_seed(1)
    net.load({k: t + 0.1 * torch.randn(t.shape, generator=noise) for k, t in state.items()})
    with example_gradients(net.model) as per_example:
        for _ in range(2):  # the second call must not see what the first left
            losses, gradients = per_example(batch)
    for row, loss, sequence in zip(gradients, losses, batch, strict=True):
        torch.testing.assert_close(row, alone(net.model, sequence), rtol=2e-4, atol=1e-6)
        assert float(loss) == pytest.approx(next_token_loss(net.model, sequence[None]).item())


def test_the_model_is_left_as_it_was(tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec()
    net = FlatModel(spec.model)
    state, batch = init_state(spec.model), torch.randint(0, 256, (4, 17))
    hyper = Hyperparameters.of(spec, 5)
    before = train_local(FlatModel(spec.model), state, [batch] * 2, hyper, bytes(32))
    net.load(state)
    with example_gradients(net.model) as per_example:
        per_example(batch)
    assert not net.model.training
    after = train_local(net, state, [batch] * 2, hyper, bytes(32))
    assert after.hashes == before.hashes


def test_a_layer_that_mixes_examples_is_refused() -> None:
    model = nn.Sequential(nn.Embedding(4, 4), nn.BatchNorm1d(4))
    with pytest.raises(PayloadError, match="has a layer that Opacus cannot handle"), \
            example_gradients(model):  # fmt: skip
        pass


def test_a_parameter_that_no_module_uses_is_refused() -> None:
    model = nn.Sequential(nn.Embedding(4, 4), nn.Linear(4, 4))
    model.forward = lambda tokens: nn.functional.linear(model[0](tokens), model[1].weight)
    with example_gradients(model) as per_example, \
            pytest.raises(PayloadError, match="Opacus sees no module use"):  # fmt: skip
        per_example(torch.zeros(2, 3, dtype=torch.int64))


def test_clipped_sum_by_hand() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [math.nan, 1.0], [math.inf, 0.0]])
    total = clipped_sum(rows, 1.0)
    assert total.dtype == torch.float64
    torch.testing.assert_close(
        total, torch.tensor([0.9, 1.2], dtype=torch.float64), rtol=2e-6, atol=0
    )
    big = torch.full((1, 1_000_003), 3e-3)
    assert 0.99999 < float(torch.linalg.vector_norm(clipped_sum(big, 1.0))) <= 1.0


def test_a_poisson_sample_draws_each_example_at_the_rate() -> None:
    rng = Seeded(3)
    sizes = [len(poisson_sample(400, 0.1, rng)) for _ in range(600)]
    # Binomial(400, 0.1): mean 40, variance 36; five standard errors each.
    assert abs(np.mean(sizes) - 40) < 5 * math.sqrt(36 / 600)
    assert abs(np.var(sizes) - 36) < 5 * 36 * math.sqrt(2 / 600)
    rows = poisson_sample(400, 0.5, rng)
    assert np.array_equal(rows, np.unique(rows))
    assert len(poisson_sample(7, 1.0, rng)) == 7
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="the sampling rate must be above 0 and at most 1"):
            poisson_sample(7, rate, rng)


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_steps_by_definition(local: LocalData, tiny_spec: SpecBuilder, inner: str) -> None:
    """Two steps, again: same words, single passes, hand clipping, same optimizer."""
    spec = tiny_spec(optimizer={"batch_size": 4, "seq_len": 16, "inner": inner})
    mechanism = DpSgd(clip=0.5, noise_multiplier=0.01, lot=90)
    state = init_state(spec.model)
    task = task_for(spec, state, 2)
    seen: list[tuple[int, float]] = []
    result = run_private_task(
        FlatModel(spec.model), task, state, local, mechanism, lambda i, x: seen.append((i, x)),
        rng=Seeded(11),
    )  # fmt: skip

    from agents.mechanisms.privacy.parts.noise import noised

    rng, net, model = Seeded(11), FlatModel(spec.model), build_model(spec.model)
    net.load(state)
    optimizer = chosen(inner, {}).start(net, task.hyperparameters, 2)
    for loss in result.losses:
        model.load_state_dict(net.split(net.values))
        rows = poisson_sample(local.examples, 90 / local.examples, rng)
        lot = local.sequences(rows)
        assert len(lot) > 64, "more than one chunk"
        assert len(lot) != 90, "the divisor must not be the actual lot"
        gradients = [alone(model, sequence).double() for sequence in lot]
        total = sum((g * min(1.0, 0.5 / float(g.norm())) for g in gradients), torch.zeros(()))
        noisy = torch.from_numpy(noised(total.numpy(), 0.005, rng)) / 90
        net.set_grads(noisy)
        optimizer.step()
        mean = torch.stack([next_token_loss(model, s[None]) for s in lot]).mean().item()
        assert loss == pytest.approx(mean, rel=1e-5)
    for name, tensor in net.split(net.values).items():
        torch.testing.assert_close(result.state[name], tensor, rtol=0, atol=2e-4)
        assert torch.equal(result.pseudo_gradient[name], state[name] - result.state[name])
    assert seen == list(enumerate(result.losses, start=1))
    assert (len(result.seconds), result.steps) == (2, 2)


def test_the_charge_is_what_was_run(local: LocalData, tiny_spec: SpecBuilder) -> None:
    spec, state = tiny_spec(), init_state(tiny_spec().model)
    for mechanism, rate in (
        (DpSgd(lot=7, noise_multiplier=3.0), 7 / local.examples),
        (DpSgd(noise_multiplier=3.0), 4 / local.examples),
        (DpSgd(lot=10**6, noise_multiplier=3.0), 1.0),
        (DpSgd(sampling="assigned", noise_multiplier=3.0), 1.0),
    ):
        task = task_for(spec, state, 3)
        result = run_private_task(
            FlatModel(spec.model), task, state, local, mechanism, rng=Seeded(1)
        )
        assert result.sampling_rate == rate
        charge = mechanism.charge(steps=task.steps, batch=local.batch_size, examples=local.examples)
        moved = 2 if mechanism.sampling == "assigned" else 1  # by a neighbour, over C
        assert (charge.unit, charge.probability, charge.noise_multiplier, charge.steps) == (
            "example", result.sampling_rate, result.noise_multiplier / moved, result.steps
        )  # fmt: skip


def test_a_step_on_public_batches_moves_no_further_than_its_charge_says(
    tmp_path: Path, store: EmbeddedStore, tiny_spec: SpecBuilder
) -> None:
    """Another sequence in place of one moves the sum of its batch by up to 2C. One sequence fewer
    moves the order of all, and with it each batch by more than that: it is no neighbour here."""
    spec = tiny_spec(optimizer={"batch_size": 1, "seq_len": 16})
    lines = ["%016x\n" % (n * 0x9E3779B97F4A7C15 % 2**64) for n in range(40)]
    texts = {
        "given": lines,
        "replaced": [*lines[:-1], "z" * 16 + "\n"],
        "fewer": lines[:-1],
    }
    net, clip = FlatModel(spec.model), 0.01
    net.load(init_state(spec.model))
    steps: dict[str, list[Tensor]] = {}
    with example_gradients(net.model) as per_example:
        for name, text in texts.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "a.txt").write_text("".join(text))
            data = LocalData(tmp_path / name, spec, DataSource(store, spec))
            batches = range(data.batches_per_epoch)
            steps[name] = [clipped_sum(per_example(data.batch(i))[1], clip) for i in batches]

    def moved(name: str) -> list[float]:
        pairs = zip(steps["given"], steps[name], strict=False)
        return [float(torch.linalg.vector_norm(one - other)) for one, other in pairs]

    mechanism = DpSgd(sampling="assigned", clip=clip, noise_multiplier=3.0)
    charge = mechanism.charge(steps=1, batch=1, examples=40)
    assert charge is not None
    allowed = mechanism.sigma / charge.noise_multiplier
    replaced = [norm for norm in moved("replaced") if norm > 0]
    assert len(replaced) == 1 and clip < replaced[0] <= allowed == 2 * clip
    assert sum(norm > 0 for norm in moved("fewer")) > 30


def test_noise_of_the_right_size_reaches_the_optimizer(
    local: LocalData, tiny_spec: SpecBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, state = tiny_spec(), init_state(tiny_spec().model)
    seen: list[Tensor] = []
    original = FlatModel.set_grads
    monkeypatch.setattr(
        FlatModel, "set_grads", lambda net, g: (seen.append(g), original(net, g))[1]
    )
    mechanism = DpSgd(clip=2.0, noise_multiplier=50.0, lot=8)
    run_private_task(FlatModel(spec.model), task_for(spec, state, 3), state, local, mechanism)
    wanted = 50.0 * 2.0 / 8  # the signal, at most 2 in norm over 6,000 coordinates, is nothing
    for gradient in seen:
        error = 5 / math.sqrt(2 * gradient.numel())
        assert float(gradient.std()) == pytest.approx(wanted, rel=error)
    cosine = torch.nn.functional.cosine_similarity(seen[0], seen[1], dim=0)
    assert abs(float(cosine)) < 5 / math.sqrt(seen[0].numel()), "fresh noise in every step"


def test_an_empty_lot_is_noise_only(local: LocalData, tiny_spec: SpecBuilder) -> None:
    spec, state = tiny_spec(), init_state(tiny_spec().model)

    class Never(Seeded):
        def words(self, count: int) -> np.ndarray:
            drawn = super().words(count)
            return drawn | np.uint64(2**63) if count == local.examples else drawn

    result = run_private_task(
        FlatModel(spec.model), task_for(spec, state, 1), state, local, DpSgd(), rng=Never(1)
    )
    assert math.isnan(result.losses[0])
    assert any(bool(t.any()) for t in result.pseudo_gradient.values())


def test_impossible_private_tasks_are_refused(
    local: LocalData, store: EmbeddedStore, tiny_spec: SpecBuilder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    spec, state = tiny_spec(), init_state(tiny_spec().model)
    task, net, public = task_for(spec, state, 1), FlatModel(spec.model), DataSource(store, spec)
    with pytest.raises(ValueError, match="draws from a node's own examples"):
        run_private_task(net, task, state, public, DpSgd())
    run_private_task(net, task, state, public, DpSgd(sampling="assigned"))
    with pytest.raises(ValueError, match="private steps are for dp_sgd, got Gaussian"):
        run_private_task(net, task, state, local, Gaussian(noise_multiplier=9.0))
    other = {name: tensor + 1 for name, tensor in state.items()}
    with pytest.raises(PayloadError, match="not the model that the task starts from"):
        run_private_task(net, task, other, local, DpSgd())
    original = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("opacus"):
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RuntimeError, match="install the extra 'privacy'"):
        run_private_task(net, task, state, local, DpSgd())


def test_with_enough_examples_it_learns(local: LocalData, tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec(optimizer={"lr": 0.02, "batch_size": 4, "seq_len": 16})
    state, mechanism = init_state(spec.model), DpSgd(lot=128, noise_multiplier=0.6)
    task = task_for(spec, state, 16)
    result = run_private_task(FlatModel(spec.model), task, state, local, mechanism, rng=Seeded(5))
    assert result.losses[0] > 5.3 > 4.3 > result.losses[-1]
