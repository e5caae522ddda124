# SPDX-License-Identifier: Apache-2.0
"""Local steps are AdamW, leave a complete trace, and give the same bits in another process."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import assign, work_order
from agents.training.data import DataSource
from agents.training.determinism import PINNED_ENVIRONMENT
from agents.training.flat import FlatModel
from agents.training.local import device_name, device_of, train_local
from agents.training.model import build_model, init_state, next_token_loss
from agents.training.replay import run_task, trace_of
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import PayloadError, apply_outer, model_hash
from agents.verify.bisection import first_wrong_step

SpecBuilder = Callable[..., JobSpec]
SEED = bytes(range(32))


def start(spec: JobSpec, steps: int) -> tuple[FlatModel, dict[str, Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randint(97, 123, (4, 17), generator=generator) for _ in range(steps)]
    return FlatModel(spec.model), init_state(spec.model), batches


@pytest.mark.parametrize("clip", [1e4, 0.05])
def test_five_steps_match_torch_adamw(tiny_spec: SpecBuilder, clip: float) -> None:
    inner = {"lr": 0.01, "weight_decay": 0.3, "grad_clip": clip, "batch_size": 4, "seq_len": 16}
    spec = tiny_spec(optimizer=inner)
    net, state, batches = start(spec, 5)
    result = train_local(net, state, batches, Hyperparameters.of(spec, 0), SEED)

    model = build_model(spec.model)
    model.load_state_dict(state)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.3,
    )  # fmt: skip
    for batch, loss in zip(batches, result.losses, strict=True):
        optimizer.zero_grad()
        expected = next_token_loss(model, batch)
        expected.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(result.state[name], parameter.detach(), rtol=1e-4, atol=1e-5)


def test_trace_and_pseudo_gradient(tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec()
    net, state, batches = start(spec, 3)
    before = model_hash(state)
    seen: list[tuple[int, float]] = []
    result = train_local(
        net, state, batches, Hyperparameters.of(spec, 0), SEED, lambda i, x: seen.append((i, x))
    )
    assert model_hash(state) == before, "the caller's state must not change"
    assert len(result.hashes) == 5
    assert result.hashes[0] == before
    assert result.hashes[3] == model_hash(result.state)
    assert result.hashes[4] == model_hash(result.pseudo_gradient)
    assert seen == list(enumerate(result.losses, start=1))
    assert len(result.seconds) == 3
    for name, gradient in result.pseudo_gradient.items():
        assert torch.equal(gradient, state[name] - result.state[name])
    shorter = train_local(net, state, batches[:1], Hyperparameters.of(spec, 0), SEED)
    assert shorter.hashes[:2] == result.hashes[:2], "a prefix of the work has a prefix of the trace"
    nothing = train_local(net, state, [], Hyperparameters.of(spec, 0), SEED)
    assert nothing.hashes[0] == before
    assert all(not t.any() for t in nothing.pseudo_gradient.values())


@pytest.mark.parametrize(("every", "places"), [(1, (1, 2, 3, 4, 5)), (2, (2, 4, 5)), (9, (5,))])
def test_a_trace_shows_some_states_and_always_the_last(
    tiny_spec: SpecBuilder, every: int, places: tuple[int, ...]
) -> None:
    spec = tiny_spec()
    net, state, batches = start(spec, 5)
    whole = train_local(net, state, batches, Hyperparameters.of(spec, 0), SEED)
    few = Hyperparameters.of(tiny_spec(trace_every=every), 0)
    found = train_local(net, state, batches, few, SEED)
    shown = [whole.hashes[place] for place in (0, *places, 6)]
    assert list(found.hashes) == shown and len(set(shown)) == len(shown)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_mean_gradient_is_that_of_one_large_batch(tiny_spec: SpecBuilder, steps: int) -> None:
    spec = tiny_spec(optimizer={"inner": "gradient", "batch_size": 4, "seq_len": 16})
    net, state, batches = start(spec, steps)
    before = model_hash(state)
    result = train_local(net, state, batches, Hyperparameters.of(spec, 0), SEED)
    model = build_model(spec.model)
    model.load_state_dict(state)
    next_token_loss(model, torch.cat(batches)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(
            result.pseudo_gradient[name], parameter.grad, rtol=1e-4, atol=1e-6
        )
    assert model_hash(state) == before, "the caller's state must not change"
    assert len(result.hashes) == steps + 2
    assert len(set(result.hashes)) == steps + 2, "no step may seem to have done nothing"
    assert (result.hashes[0], result.hashes[-1]) == (before, model_hash(result.pseudo_gradient))
    assert result.hashes[-2] == model_hash(result.state)
    for name, gradient in result.pseudo_gradient.items():
        assert torch.equal(result.state[name], state[name] - gradient)
    again = train_local(FlatModel(spec.model), state, batches, Hyperparameters.of(spec, 0), SEED)
    assert again.hashes == result.hashes


def test_a_mean_gradient_of_nothing_is_zero_a_broken_one_an_error(tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec(optimizer={"inner": "gradient", "batch_size": 4, "seq_len": 16})
    net, state, batches = start(spec, 1)
    nothing = train_local(net, state, [], Hyperparameters.of(spec, 0), SEED)
    assert nothing.hashes[0] == model_hash(state)
    assert all(not t.any() for t in nothing.pseudo_gradient.values())
    broken = {name: tensor * 1e30 for name, tensor in state.items()}
    with pytest.raises(FloatingPointError):
        train_local(net, broken, batches, Hyperparameters.of(spec, 0), SEED)


def test_training_lowers_the_loss(tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec(optimizer={"lr": 0.02, "batch_size": 4, "seq_len": 16})
    net, state, batches = start(spec, 20)
    result = train_local(net, state, batches, Hyperparameters.of(spec, 0), SEED)
    assert result.losses[0] > 5.3 > 4.0 > result.losses[-1]
    stepped = apply_outer(state, result.pseudo_gradient, 1.0)
    for name, tensor in stepped.items():
        torch.testing.assert_close(tensor, result.state[name], rtol=1e-5, atol=1e-6)


def test_divergence_is_an_error(tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec()
    net, state, batches = start(spec, 1)
    broken = {name: tensor * 1e30 for name, tensor in state.items()}
    with pytest.raises(FloatingPointError):
        train_local(net, broken, batches, Hyperparameters.of(spec, 0), SEED)


def test_bf16_stays_near_fp32(tiny_spec: SpecBuilder) -> None:
    net, state, batches = start(tiny_spec(), 4)
    exact = train_local(net, state, batches, Hyperparameters.of(tiny_spec(), 0), SEED)
    rough_spec = tiny_spec(precision="bf16")
    rough = train_local(net, state, batches, Hyperparameters.of(rough_spec, 0), SEED)
    assert exact.hashes[1] != rough.hashes[1]
    assert rough.losses == pytest.approx(exact.losses, rel=0.01)


def test_replay_finds_the_first_wrong_step(store: EmbeddedStore, tiny_spec: SpecBuilder) -> None:
    spec = tiny_spec()
    data, net, state = DataSource(store, spec), FlatModel(spec.model), init_state(spec.model)
    manifest = assign(SEED, [1, 2], [1, 1], spec)
    task = work_order(manifest, 2, spec, 1, 0, model_hash(state))
    honest = run_task(net, task, state, data)
    assert len(honest.hashes) == task.steps + 2
    again = trace_of(task, run_task(FlatModel(spec.model), task, state, data))
    assert again == trace_of(task, honest)
    assert first_wrong_step(honest.hashes, again.hashes) is None

    stolen = work_order(manifest, 1, spec, 1, 0, model_hash(state))
    other = run_task(net, stolen, state, data)
    assert first_wrong_step(honest.hashes, other.hashes) == 1
    forged = (*honest.hashes[:4], bytes(32), *honest.hashes[5:])
    assert first_wrong_step(honest.hashes, forged) == 4
    with pytest.raises(PayloadError, match="not the model that the task starts from"):
        run_task(net, task, honest.state, data)


PROGRAM = """
import sys
import time
from agents.training.determinism import determinism_class, pin_environment, pin_torch
kind, precision = sys.argv[1:]
pin_environment(portable=kind == "portable")
import torch
pin_torch()
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, demo_spec
print(determinism_class())
batches = [(torch.arange(8 * 65).reshape(8, 65) * (i + 3)) % 251 for i in range(4)]
hashes, losses = [], []
for inner, options in (("adamw", {}), ("muon", {"newton_schulz": precision})):
    optimizer = {"inner": inner, "inner_options": options}
    spec = demo_spec("b" + "a" * 58, optimizer=optimizer, precision=precision)
    net, state = FlatModel(spec.model), init_state(spec.model)
    result = train_local(net, state, batches, Hyperparameters.of(spec, 5), bytes(32))
    hashes += result.hashes
    losses += result.losses
print(" ".join(h.hex() for h in hashes))
print(" ".join(repr(x) for x in losses))
"""


def run_fresh(
    kind: str, precision: str = "fp32", **environment: str
) -> tuple[str, str, list[float]]:
    plain = {k: v for k, v in os.environ.items() if k not in PINNED_ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, precision],
        env=plain | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kind_line, hashes, losses = done.stdout.splitlines()
    return kind_line, hashes, [float(x) for x in losses.split()]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_fresh_processes_agree_bit_for_bit_within_a_class(precision: str) -> None:
    """The second is the process of a caller with other settings, whose libraries are kept from
    what only newer processors can do: AVX-512 and products of bf16."""
    first = run_fresh("portable", precision)
    older = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    second = run_fresh("portable", precision, OMP_NUM_THREADS="2", MKL_CBWR="AVX2", **older)
    assert first == second, "the environment of the caller must not matter"
    assert "threads=1" in first[0]
    assert "deterministic=yes" in first[0]


def test_another_class_is_told_apart_and_bf16_from_fp32() -> None:
    first, fast, rough = (run_fresh(*of) for of in (("portable",), ("fast",), ("portable", "bf16")))
    assert fast[0] != first[0], "another class must be told apart"
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(fast[2], first[2], strict=True))
    assert rough[0] == first[0], "a class does not name the precision"
    assert rough[1] != first[1]


def test_pinning_too_late_is_refused() -> None:
    program = "import torch\nfrom agents.training.determinism import pin_environment as p\np()"
    plain = {k: v for k, v in os.environ.items() if k not in PINNED_ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", program], env=plain, capture_output=True, text=True, check=False
    )
    assert "RuntimeError: torch is imported already without ATEN_CPU_CAPABILITY" in done.stderr


def test_scheduler_and_pinning_import_no_torch() -> None:
    program = (
        "import sys, agents.training.determinism, agents.training.assignment\n"
        "import agents.training.spec\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_device_is_named_for_people() -> None:
    assert device_of("cpu") == "cpu"
    assert device_of("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device_name("cpu") == f"CPU, {torch.get_num_threads()} threads"
    assert device_name("cuda:99") == "not here"


def test_the_model_waits_for_the_hash_of_each_state(
    tiny_spec: SpecBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny_spec()
    net, state, batches = start(spec, 4)
    hyper = Hyperparameters.of(spec, 0)
    ends = [train_local(net, state, batches[:count], hyper, SEED).state for count in range(5)]

    def slow(tensors: dict[str, Tensor]) -> bytes:
        time.sleep(0.05)  # a step of this model takes a few milliseconds
        return model_hash(tensors)

    monkeypatch.setattr("agents.training.local.model_hash", slow)
    found = train_local(net, state, batches, hyper, SEED)
    assert found.hashes[:-1] == tuple(model_hash(end) for end in ends)
    assert found.hashes[-1] == model_hash(found.pseudo_gradient)
