# SPDX-License-Identifier: Apache-2.0
"""Muon steps are torch's, on hidden matrices; a re-execution of them gives the same bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from agents.mechanisms import boundary as boundaries
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, work_order
from agents.training.data import DataSource
from agents.training.determinism import determinism_class
from agents.training.flat import FlatModel
from agents.training.inner import muon
from agents.training.inner.muon import MuonChoice
from agents.training.model import build_model, init_state
from agents.training.replay import run_task
from agents.training.slices import Slices, init_stages
from agents.training.spec import Hyperparameters, JobSpec, ModelSpec
from agents.training.state import State, model_hash
from tests.stage.memory.tiny_specs import tiny_model

SpecBuilder = Callable[..., JobSpec]
SEED = bytes(range(32))
HYPER = Hyperparameters(0.01, (0.9, 0.95), 1e-8, 0.3, 1.0, "fp32")
STEPS = 4


def gradients(state: State) -> list[State]:
    """For every step one of each shape, some steps beyond the clip and some not."""
    generator = torch.Generator().manual_seed(5)
    return [
        {name: size * torch.randn(t.shape, generator=generator) for name, t in state.items()}
        for size in (1.0, 1e-3, 0.5, 2e-3)[:STEPS]
    ]


def stepped(net: FlatModel, state: State, choice: MuonChoice) -> State:
    net.load(state)
    steps = choice.start(net, HYPER, STEPS)
    for gradient in gradients(state):
        net.set_grads(torch.cat([gradient[name].flatten() for name in sorted(gradient)]))
        steps.step()
    return {name: tensor.clone() for name, tensor in net.split(net.values).items()}


@pytest.mark.parametrize("products", ["fp32", "bf16"])
def test_four_steps_match_torch(tiny_spec: SpecBuilder, products: str) -> None:
    """torch takes the products in bf16; tall, wide and square matrices are among them."""
    spec = tiny_spec()
    net, state = FlatModel(spec.model), init_state(spec.model)
    choice = MuonChoice(momentum=0.8, lr_ratio=3.0, newton_schulz=products)
    found = stepped(net, state, choice)

    model = build_model(spec.model)
    model.load_state_dict(state)
    named = dict(model.named_parameters())
    rest = [name for name in named if name not in net.hidden]
    optimizers = (
        torch.optim.Muon(
            [named[name] for name in net.hidden],
            lr=0.03, weight_decay=0.3, momentum=0.8, adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            [
                {"params": [named[name] for name in rest if named[name].dim() > 1]},
                {"params": [named[name] for name in rest if named[name].dim() == 1],
                 "weight_decay": 0.0},
            ],
            lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.3,
        ),
    )  # fmt: skip
    for gradient in gradients(state):
        for name, parameter in named.items():
            parameter.grad = gradient[name]
        torch.nn.utils.clip_grad_norm_(named.values(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
    for name, parameter in named.items():
        expected, moved = parameter.detach(), found[name] - state[name]
        error = (found[name] - expected).norm() / (expected - state[name]).norm()
        assert error < (0.03 if name in net.hidden else 1e-5), name
        assert moved.any()


def test_matrices_in_batches_of_one_give_the_same_steps(
    tiny_spec: SpecBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny_spec()
    state = init_state(spec.model)
    together = stepped(FlatModel(spec.model), state, MuonChoice())
    monkeypatch.setattr(muon, "BATCH", 1)
    alone = stepped(FlatModel(spec.model), state, MuonChoice())
    for name, tensor in together.items():
        torch.testing.assert_close(alone[name], tensor, rtol=0, atol=1e-5)


def test_matrices_of_a_boundary_step_at_a_rate_of_their_own() -> None:
    """All else moves as it does without the option, to the bit."""
    spec = ModelSpec(**tiny_model(16, 32, 16, layers=2), tie_embeddings=False)
    slices = Slices(spec, (1, 1), boundaries.get("residual")(width=4))
    net = FlatModel(spec, slices=slices)
    state = init_stages(slices)
    still = dataclasses.replace(HYPER, weight_decay=0.0)

    def first_step(choice: MuonChoice) -> State:
        net.load(state)
        gradient = gradients(state)[0]
        net.set_grads(torch.cat([gradient[name].flatten() for name in sorted(gradient)]))
        choice.start(net, still, 1).step()
        return {name: t - state[name] for name, t in net.split(net.values).items()}

    plain, slow = first_step(MuonChoice()), first_step(MuonChoice(boundary_ratio=0.25))
    ours = [name for name in net.hidden if name.startswith(muon.BOUNDARIES)]
    assert ours == ["boundaries.0.receiver.decoder.weight", "boundaries.0.sender.encoder.weight"]
    for name, moved in plain.items():
        if name in ours:
            torch.testing.assert_close(slow[name], moved / 4, rtol=1e-3, atol=1e-7)
        else:
            assert torch.equal(slow[name], moved), name


@pytest.mark.parametrize("products", ["fp32", "bf16"])
def test_a_round_redone_with_as_many_threads_has_the_same_bits(
    store: EmbeddedStore, tiny_spec: SpecBuilder, products: str
) -> None:
    """The number of threads is part of the class. The second net has done other work before."""
    model = {"d_model": 128, "n_heads": 2, "n_kv_heads": 1, "d_ff": 352, "max_seq_len": 16}
    optimizer = {"inner": "muon", "inner_options": {"newton_schulz": products}, "seq_len": 16}
    spec = tiny_spec(model=model, optimizer=optimizer, batches_per_round=4)
    data, state = DataSource(store, spec), init_state(spec.model)
    tasks = [
        work_order(assign(SEED, [1, 2], [1, 1], spec), node, spec, 1, 0, model_hash(state))
        for node in (1, 2)
    ]
    classes = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        classes.add(determinism_class())
        first, used = FlatModel(spec.model), FlatModel(spec.model)
        run_task(used, tasks[1], state, data)
        once, again = (run_task(net, tasks[0], state, data) for net in (first, used))
        assert once.hashes == again.hashes
        assert once.losses[-1] < once.losses[0]
    assert len(classes) == 2
