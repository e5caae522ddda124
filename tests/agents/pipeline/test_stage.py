# SPDX-License-Identifier: Apache-2.0
"""Stages that pass bytes compute what one process computes, and refuse what is out of order."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import WireError
from agents.pipeline.stage import Backward, Event, Forward, StageError, StageRunner, Step
from agents.training.flat import FlatModel, FlatModule
from agents.training.inner.adamw import AdamW
from agents.training.model import hidden_matrices, init_state, next_token_loss
from agents.training.optimizers import chosen
from agents.training.slices import Chain, Slices, init_stage
from agents.training.spec import Hyperparameters, ModelSpec
from agents.training.state import State, model_hash
from tests.stage.memory.tiny_specs import tiny_model

SPEC = ModelSpec(**tiny_model(16, 24, 12, layers=4), tie_embeddings=False)
# A clip below the gradients' norms, so that each stage's own clip acts.
HYPER = Hyperparameters(5e-3, (0.9, 0.95), 1e-8, 0.1, 0.05, "fp32")
SAMPLES, STEPS = 3, 3
CUTS = [(4,), (2, 2), (1, 1, 1, 1)]
BOUNDARIES: list[tuple[str, dict[str, Any]]] = [
    ("none", {}),
    ("none", {"code": "int4", "block": 5}),
    ("cut", {}),
    ("bottleneck", {"width": 3}),
    ("residual", {"width": 5, "code": "int8"}),
    ("residual", {"width": 5, "code": "fp8", "context": 2}),
    ("residual", {"width": 5, "code": "fp6", "gradient": "fp4"}),
    ("cut", {"context": 2}),
    ("residual", {"width": 4, "anchor": False}),
    ("subspace", {"width": 5, "code": "int4"}),
]
LOADED = """
import sys
from tests.agents.pipeline import test_stage
slices = test_stage.cut_by((2, 2), "residual", width=4)
test_stage.runners(slices)
before = set(sys.modules)
test_stage.piped(slices)
print(sorted(module for module in set(sys.modules) - before if "." not in module))
"""
Trace = list[tuple[list[float], list[bytes], list[bytes]]]


def samples(step: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(step)
    return [torch.randint(0, 256, (2, 13), generator=draw) for _ in range(SAMPLES)]


def cut_by(layers: tuple[int, ...], name: str = "none", **options: Any) -> Slices:
    return Slices(SPEC, layers, boundaries.get(name)(**options))


def runners(
    slices: Slices, hyper: Hyperparameters = HYPER, recompute: bool = False
) -> list[StageRunner]:
    states = [init_stage(slices, index) for index in range(slices.last + 1)]
    return [
        StageRunner(slices, index, state, hyper, recompute=recompute)
        for index, state in enumerate(states)
    ]


def hashes(nets: list[FlatModule], of: str) -> list[bytes]:
    return [model_hash(net.split(getattr(net, of))) for net in nets]


def piped(slices: Slices, hyper: Hyperparameters = HYPER, recompute: bool = False) -> Trace:
    """Losses, gradients and weights of every step, each stage fed with bytes only."""
    stages, trace = runners(slices, hyper, recompute), []
    for step in range(STEPS):
        losses = []
        for number, tokens in enumerate(samples(step)):
            message = None
            for stage in stages:
                passed = stage.do(Forward(number, tokens, message))
                message = passed.message
            losses.append(passed.loss)
        for number in range(SAMPLES):
            message = None
            for stage in reversed(stages):
                message = stage.do(Backward(number, message)).message
        nets = [stage.net for stage in stages]
        gradients = hashes(nets, "grads")
        for stage in stages:
            stage.do(Step())
        trace.append((losses, gradients, hashes(nets, "values")))
    return trace


def chained(slices: Slices, hyper: Hyperparameters = HYPER) -> Trace:
    """The same in one process, by autograd through all stages; each is clipped for itself."""
    chain = Chain(slices)
    nets = [FlatModule(stage, "cpu", hidden_matrices("llama", stage)) for stage in chain.stages]
    for index, net in enumerate(nets):
        net.load(init_stage(slices, index))
    optimizers, trace = [chosen(hyper.inner, {}).start(net, hyper, 1) for net in nets], []
    for step in range(STEPS):
        losses = []
        for tokens in samples(step):
            loss = next_token_loss(chain, tokens)
            loss.backward()
            losses.append(float(loss.detach()))
        gradients = hashes(nets, "grads")
        for net, optimizer in zip(nets, optimizers, strict=True):
            net.grads.div_(SAMPLES)
            optimizer.step()
            net.grads.zero_()
        trace.append((losses, gradients, hashes(nets, "values")))
    return trace


@pytest.mark.parametrize("layers", CUTS, ids=str)
@pytest.mark.parametrize(("name", "options"), BOUNDARIES)
def test_a_pipeline_is_its_chain_in_one_process_bit_for_bit(
    name: str, options: dict[str, Any], layers: tuple[int, ...]
) -> None:
    slices = cut_by(layers, name, **options)
    assert piped(slices) == chained(slices)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("name", "options"), BOUNDARIES)
def test_blocks_that_are_computed_twice_change_no_bit(
    name: str, options: dict[str, Any], precision: str
) -> None:
    slices, hyper = cut_by((1, 2, 1), name, **options), replace(HYPER, precision=precision)
    assert piped(slices, hyper, recompute=True) == piped(slices, hyper)


def test_a_stage_that_recomputes_keeps_little_between_forward_and_backward() -> None:
    kept = {recompute: kept_bytes(recompute) for recompute in (False, True)}
    # What goes into each of four blocks and into the head, the logits' logarithms, and ids.
    tokens = 2 * 12
    assert kept[True] <= 4 * tokens * (5 * SPEC.d_model + SPEC.vocab_size + 4) + 1024
    assert kept[True] < kept[False] / 3


def kept_bytes(recompute: bool) -> int:
    """What torch gave out during a forward of a stage of four blocks, and did not get back."""
    (stage,) = runners(cut_by((4,)), recompute=recompute)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        stage.do(Forward(0, samples(0)[0]))
    events = seen.profiler.kineto_results.events()
    return sum(event.nbytes() for event in events if event.name() == "[memory]")


def test_with_muon_too_a_pipeline_is_its_chain_bit_for_bit() -> None:
    muon = replace(HYPER, inner="muon")
    slices = cut_by((2, 2), "residual", width=4)
    trace = piped(slices, muon)
    assert trace == chained(slices, muon)
    assert trace[0][2] != piped(slices)[0][2], "another step than AdamW's"


def test_an_optimizer_that_makes_no_steps_is_refused() -> None:
    slices = cut_by((2, 2))
    with pytest.raises(ValueError, match="makes none"):
        runners(slices, replace(HYPER, inner="gradient"))


@pytest.mark.parametrize("layers", CUTS, ids=str)
def test_a_pipeline_without_compression_is_the_decoder_bit_for_bit(layers: tuple[int, ...]) -> None:
    slices = cut_by(layers)
    whole, state = FlatModel(SPEC), init_state(SPEC)
    parts = [stage.net for stage in runners(slices)]
    optimizers, trace = [AdamW(part, HYPER) for part in parts], []
    for step in range(STEPS):
        whole.load(state)
        whole.grads.zero_()
        losses = []
        for tokens in samples(step):
            loss = next_token_loss(whole.model, tokens)
            loss.backward()
            losses.append(float(loss.detach()))
        gradients, weights = [], []
        for part, optimizer in zip(parts, optimizers, strict=True):
            names = part.split(part.values)
            own: State = {name: whole.split(whole.grads)[name] for name in names}
            gradients.append(model_hash(own))
            part.set_grads(torch.cat([own[name].flatten() for name in sorted(own)]) / SAMPLES)
            optimizer.step()
            weights.append(model_hash(part.split(part.values)))
            state |= {name: tensor.clone() for name, tensor in part.split(part.values).items()}
        trace.append((losses, gradients, weights))
    assert piped(slices) == trace


def test_a_stage_is_replayed_from_its_messages_alone_and_only_in_their_order() -> None:
    slices = cut_by((1, 2, 1), "residual", width=4)
    before, stage, after = runners(slices)
    log: list[Event] = []
    for number, tokens in enumerate(samples(0)):
        log.append(Forward(number, tokens, before.do(Forward(number, tokens)).message))
        after.do(Forward(number, tokens, stage.do(log[-1]).message))
    for number in range(SAMPLES):
        log.append(Backward(number, after.do(Backward(number)).message))
        stage.do(log[-1])
    stage.do(Step())

    def replayed(events: list[Event]) -> bytes:
        again = StageRunner(slices, 1, init_stage(slices, 1), HYPER)
        for event in (*events, Step()):
            again.do(event)
        return model_hash(again.net.split(again.net.values))

    assert replayed(log) == model_hash(stage.net.split(stage.net.values))
    assert replayed([*log[:3], log[5], log[3], log[4]]) != replayed(log)


def two_stages(**options: Any) -> tuple[StageRunner, StageRunner]:
    first, last = runners(cut_by((2, 2), "residual", width=4, **options))
    return first, last


def test_a_step_drops_what_waits_and_going_back_with_it_is_an_error() -> None:
    """Else new weights would mix with old activations."""
    first, last = two_stages()
    gradients = []
    for sample, tokens in enumerate(samples(0)[:2]):
        code = first.do(Forward(sample, tokens)).message
        last.do(Forward(sample, tokens, code))
        gradients.append(last.do(Backward(sample)).message)
    first.do(Backward(0, gradients[0]))
    first.do(Step())
    after = first.net.values.clone()
    with pytest.raises(StageError, match="sample 1 has no forward that waits"):
        first.do(Backward(1, gradients[1]))
    assert torch.equal(first.net.values, after)


def test_events_out_of_order_are_errors() -> None:
    first, last = two_stages()
    tokens = samples(0)[0]
    with pytest.raises(StageError, match="no backward since"):
        first.do(Step())
    with pytest.raises(StageError, match="sample 1 has no forward"):
        first.do(Backward(1, b""))
    with pytest.raises(StageError, match="every other one needs one"):
        last.do(Forward(1, tokens))
    first.do(Forward(1, tokens))
    with pytest.raises(StageError, match="already had its forward"):
        first.do(Forward(1, tokens))
    with pytest.raises(StageError, match="takes no gradient"):
        first.do(Backward(1))


def test_samples_in_flight_are_bounded() -> None:
    slices = cut_by((2, 2))
    stage = StageRunner(slices, 0, init_stage(slices, 0), HYPER, in_flight=2)
    for number in (0, 1):
        stage.do(Forward(number, samples(0)[number]))
    with pytest.raises(StageError, match="2 samples wait"):
        stage.do(Forward(2, samples(0)[2]))


def test_a_hostile_message_changes_nothing_and_the_true_one_still_works() -> None:
    honest, attacked = two_stages(), two_stages()
    tokens = samples(0)[0]
    for first, last in (honest, attacked):
        code = first.do(Forward(0, tokens)).message
        assert code is not None
        if last is attacked[1]:
            for wrong in (code[:-1], code[:-2] + b"\xc0\x7f", code[:-2] + b"\xff\x7e"):
                with pytest.raises(WireError):
                    last.do(Forward(0, tokens, wrong))
        last.do(Forward(0, tokens, code))
        gradient = last.do(Backward(0)).message
        assert gradient is not None
        if first is attacked[0]:
            with pytest.raises(WireError):
                first.do(Backward(0, gradient[:-2] + b"\x80\xff"))
        first.do(Backward(0, gradient))
    for one, other in zip(honest, attacked, strict=True):
        assert torch.equal(one.net.grads, other.net.grads)


@pytest.mark.parametrize(
    "tokens",
    [
        torch.full((1, 4), 256),
        torch.full((1, 4), -1),
        torch.zeros(1, 14, dtype=torch.int64),
        torch.zeros(1, 1, dtype=torch.int64),
        torch.zeros(4, dtype=torch.int64),
        torch.zeros(1, 4),
    ],
)
def test_wrong_token_ids_are_refused(tokens: Tensor) -> None:
    with pytest.raises(StageError, match="token"):
        two_stages()[0].do(Forward(0, tokens))


def test_a_miners_first_passes_load_nothing() -> None:
    """It is in the middle of its epoch then, and its neighbours wait."""
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
