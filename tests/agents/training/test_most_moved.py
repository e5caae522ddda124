# SPDX-License-Identifier: Apache-2.0
"""No gradients move a model further than its optimizer's bound, and what is beyond is refused.

`python -m pytest -s tests/agents/training/test_most_moved.py -k figures` prints how near the
bound real steps come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from agents.training.flat import FlatModule
from agents.training.inner.parts.newton_schulz import LARGEST, orthogonalised
from agents.training.inner_state import put, taken
from agents.training.most_moved import MARGIN, Most, check_change, check_norms, length, over_steps
from agents.training.optimizers import InnerOptimizer, chosen
from agents.training.spec import Hyperparameters
from agents.training.state import PayloadError, State

SHAPES = {"boundaries.code.weight": (3, 8), "blocks.w": (8, 20), "table": (30, 8), "gain": (8,)}
HIDDEN = ("blocks.w", "boundaries.code.weight")
HYPER = Hyperparameters(0.01, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")
MAX_STEPS = 24

# (step, steps, a generator) -> the gradient of a tensor of this shape
Pattern = Callable[[int, int, tuple[int, ...], torch.Generator], Tensor]


def _noise(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=source)


def _signs(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=source).sign()


def _steady(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.ones(shape)


def _spike(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.ones(shape) * (1e30 if step == steps // 2 else 1e-12)


def _rising(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.full(shape, 8.0 ** min(step, 40))  # what fp32 holds


def _falling(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.full(shape, 8.0**-step)


def _one_place(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    """All of a matrix's length in one singular value, again and again in the same place."""
    found = torch.zeros(shape)
    found.view(-1)[0] = -1.0
    return found


def _three_places(step: int, steps: int, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    """Three equal singular values: nearly the share of the norm that a step raises most."""
    found = torch.zeros(shape)
    for place in range(min(3, *shape)):
        found[(place,) * len(shape)] = 1.0
    return found


PATTERNS: Sequence[Pattern] = (
    *(_noise, _signs, _steady, _spike, _rising, _falling, _one_place, _three_places),
)


class Net(nn.Module):
    """Parameters of the names that a stage has."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.zeros(shape)))

    def named(self) -> dict[str, nn.Parameter]:
        return {name: getattr(self, name.replace(".", "_")) for name in SHAPES}


def moved(
    inner: InnerOptimizer,
    hyper: Hyperparameters,
    weights: State,
    gradients: Callable[[int], State],
    steps: int,
    earlier: int = 0,
) -> State:
    """What a node's payload says after these steps of the real optimizer. `earlier`: how many came
    before them in another round, whose state is kept as a file and put in again."""
    made = Net()
    net = FlatModule(made, "cpu", HIDDEN, made.named())
    state: State | None = None
    for first, last in ((0, earlier), (earlier, earlier + steps)):
        net.load(weights)
        running = inner.start(net, hyper, 1)
        if state is not None:
            assert put(running, state) == first
        for step in range(first, last):
            views = net.views(net.grads)
            for name, gradient in gradients(step).items():
                views[name].copy_(gradient)
            running.step()
        state = taken(running, last)
    after = net.views(net.values)
    return {name: weights[name] - after[name] for name in weights}


def without_margin(most: dict[str, Most]) -> dict[str, Most]:
    """Bounds that are refused at once, not at `MARGIN` times as much."""
    return {
        name: Most(one.share / MARGIN, one.number / MARGIN, one.line / MARGIN)
        for name, one in most.items()
    }


def weights_of(seed: int, scale: float) -> State:
    source = torch.Generator().manual_seed(seed)
    return {n: scale * torch.randn(shape, generator=source) for n, shape in SHAPES.items()}


def are_finite(change: State, most: dict[str, Most]) -> bool:
    """Decay of more than all of a weight may leave fp32, and so do rates that large: no payload has
    such numbers."""
    bounded = all(math.isfinite(one.share) for one in most.values())
    return bounded and all(bool(tensor.isfinite().all()) for tensor in change.values())


def at_most(change: State, weights: State, most: dict[str, Most]) -> None:
    """Neither beyond the numbers and lines nor beyond the norms that follow from them."""
    check_change(change, weights, without_margin(most))
    norms = {n: m.norm(SHAPES[n]) + m.share * length(weights[n]) for n, m in most.items()}
    check_norms(change, {name: norm / MARGIN for name, norm in norms.items()})


rates = st.sampled_from([1e-8, 1e-4, 4e-3, 0.3, 1.0])
adam = st.fixed_dictionaries(
    {
        "lr": rates,
        "betas": st.sampled_from(
            [(0.9, 0.95), (0.9, 0.999), (0.0, 0.0), (0.0, 0.9), (0.9999, 0.5), (0.95, 0.999999)]
        ),
        "eps": st.sampled_from([1e-12, 1e-8, 1e-2]),
        "weight_decay": st.sampled_from([0.0, 0.01, 1.0]),
        "grad_clip": st.sampled_from([1e-4, 1.0, 1e4]),
    }
)
muon = st.fixed_dictionaries(
    {
        "momentum": st.sampled_from([0.0, 0.5, 0.95, 0.9999]),
        "lr_ratio": st.sampled_from([1e-3, 1.0, 3.0]),
        "boundary_ratio": st.sampled_from([1e-3, 1.0, 30.0]),
        "newton_schulz": st.sampled_from(["fp32", "bf16"]),
    }
)


@st.composite
def runs(draw: st.DrawFn, options: st.SearchStrategy[dict[str, Any]]) -> tuple[Any, ...]:
    """Hyperparameters, options, steps, a gradient for each and each tensor, a size of weights."""
    hyper, steps = replace(HYPER, **draw(adam)), draw(st.integers(1, MAX_STEPS))
    each = draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4))
    powers = draw(st.lists(st.integers(-30, 30), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**32))
    turned = draw(st.booleans())

    def gradients(step: int) -> State:
        source = torch.Generator().manual_seed(seed + step)
        pattern, size = each[step % len(each)], 10.0 ** powers[step % len(powers)]
        sign = -1.0 if turned and step % 2 else 1.0
        found = {n: pattern(step, steps, shape, source) for n, shape in SHAPES.items()}
        return {n: (sign * size * t).clamp(-1e30, 1e30) for n, t in found.items()}

    scale = draw(st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
    return hyper, draw(options), steps, gradients, weights_of(seed, scale)


@given(runs(st.just({})))
@settings(max_examples=150, deadline=None)
def test_no_gradients_move_adamw_beyond_its_bound(run: tuple[Any, ...]) -> None:
    hyper, options, steps, gradients, weights = run
    inner = chosen("adamw", options)
    change = moved(inner, hyper, weights, gradients, steps)
    at_most(change, weights, inner.most_moved(SHAPES, HIDDEN, hyper, steps))


@given(runs(st.one_of(st.just(None), muon)), st.integers(1, MAX_STEPS), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_none_do_with_what_earlier_rounds_gathered(
    run: tuple[Any, ...], earlier: int, more: int
) -> None:
    """Nor where a node could have made more steps since its state was zero."""
    hyper, options, steps, gradients, weights = run
    inner = chosen("adamw", {}) if options is None else chosen("muon", options)
    change = moved(inner, hyper, weights, gradients, steps, earlier)
    most = inner.most_moved(SHAPES, HIDDEN, hyper, steps, earlier + more)
    if are_finite(change, most):
        at_most(change, weights, most)


@given(runs(muon))
@settings(max_examples=150, deadline=None)
def test_no_gradients_move_muon_beyond_its_bound(run: tuple[Any, ...]) -> None:
    """In bf16 the bound has room for twice the band of exact products."""
    hyper, options, steps, gradients, weights = run
    inner = chosen("muon", options)
    change = moved(inner, hyper, weights, gradients, steps)
    most = inner.most_moved(SHAPES, HIDDEN, hyper, steps)
    if are_finite(change, most):
        at_most(change, weights, most)


def worst_for_adamw(betas: tuple[float, float], steps: int) -> Callable[[int], State]:
    """Gradients that make the last step as long as one can be, small enough not to be clipped."""
    growth = betas[0] / betas[1]
    return lambda step: {
        name: torch.full(shape, 1e-3 * growth ** (steps - 1 - step))
        for name, shape in SHAPES.items()
    }


@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.9, 0.999), (0.95, 0.9), (0.99, 0.95)])
def test_the_bound_of_a_step_of_adamw_is_reached(betas: tuple[float, float]) -> None:
    """So it could not be less."""
    hyper, inner, start = replace(HYPER, betas=betas), chosen("adamw", {}), weights_of(0, 0.0)
    hyper = replace(hyper, eps=1e-12)
    for steps in (1, 2, 12):
        gradients = worst_for_adamw(betas, steps)
        one, other = (moved(inner, hyper, start, gradients, n) for n in (steps, steps - 1))
        last = float((one["gain"] - other["gain"]).abs().max())
        bounds = [inner.most_moved(SHAPES, HIDDEN, hyper, n)["gain"].number for n in (steps,)]
        before = inner.most_moved(SHAPES, HIDDEN, hyper, steps - 1)["gain"].number
        assert last == pytest.approx(bounds[0] - before, rel=1e-3)


@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.9, 0.999), (0.95, 0.9)])
def test_it_is_reached_by_what_earlier_rounds_gathered(betas: tuple[float, float]) -> None:
    """A step that is the worst of twelve, eleven of which are in rounds before."""
    hyper, inner = replace(HYPER, betas=betas, eps=1e-12), chosen("adamw", {})
    change = moved(inner, hyper, weights_of(0, 0.0), worst_for_adamw(betas, 12), 1, 11)
    bound = inner.most_moved(SHAPES, HIDDEN, hyper, 1, 11)["gain"].number
    assert float(change["gain"].abs().max()) == pytest.approx(bound, rel=1e-3)


def test_after_very_many_steps_the_bound_is_that_of_endless_ones() -> None:
    def largest(betas: tuple[float, float], earlier: int) -> float:
        hyper = replace(HYPER, betas=betas, lr=1.0)
        return chosen("adamw", {}).most_moved(SHAPES, (), hyper, 1, earlier)["gain"].number

    endless = 0.1 / math.sqrt(0.001 * (1 - 0.81 / 0.999))
    assert largest((0.9, 0.999), 60_000) == pytest.approx(endless, rel=1e-5)
    assert largest((0.9, 0.999), 10**12) == pytest.approx(endless, rel=1e-5)
    assert largest((0.9999, 0.999999), 10**6) < largest((0.9999, 0.999999), 10**12) * 1.0001
    assert math.isinf(largest((0.95, 0.9), 10**6)) and math.isfinite(largest((0.0, 0.0), 10**6))


def test_a_second_moment_that_forgets_at_once_bounds_nothing() -> None:
    most = chosen("adamw", {}).most_moved(SHAPES, (), replace(HYPER, betas=(0.9, 0.0)), 2)
    assert math.isinf(most["gain"].number)
    check_change({"gain": torch.full((8,), 1e19)}, {"gain": torch.ones(8)}, most)


def test_a_mean_of_gradients_has_no_bound() -> None:
    assert chosen("gradient", {}).most_moved(SHAPES, HIDDEN, HYPER, 4) == {}


@pytest.mark.parametrize("dtype", list(LARGEST))
@pytest.mark.parametrize("shape", [(16, 16), (64, 64), (64, 200), (256, 256)])
def test_no_singular_value_is_above_the_largest(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Of matrices of noise, of few and of many equal values, of values that fall, and of those that
    a step raises most."""
    source = torch.Generator().manual_seed(0)
    rows, columns = shape
    found = []
    for count in {1, 2, 3, 4, 8, rows // 2, rows}:
        for power in (0.0, 0.5, 1.0, 2.0):
            left = torch.linalg.qr(torch.randn(rows, rows, generator=source))[0][:, :count]
            right = torch.linalg.qr(torch.randn(columns, columns, generator=source))[0][:count]
            values = torch.arange(1, count + 1).float() ** -power
            found.append((left * values) @ right)
    found.append(torch.randn(rows, columns, generator=source))
    found.append(torch.ones(rows, columns))
    largest = torch.linalg.svdvals(orthogonalised(torch.stack(found), dtype).double()).max()
    assert largest < (1.203 if dtype == torch.float32 else 1.21)
    assert largest < LARGEST[dtype]


@pytest.mark.parametrize("wide", [True, False])
def test_what_is_beyond_the_bound_is_refused(wide: bool) -> None:
    shape = (4, 1000) if wide else (1000, 4)
    weights = {"w": torch.zeros(shape)}
    most = {"w": Most(share=0.0, number=1.0, line=10.0)}
    spread = torch.full(shape, 2 * 10 / math.sqrt(1000))
    check_change({"w": 0.999 * spread}, weights, most)
    with pytest.raises(PayloadError, match="row 0," if wide else "column 0,"):
        check_change({"w": 1.001 * spread}, weights, most)
    for number in (2.0, -2.0):
        one = torch.zeros(shape)
        one[2, 3] = number
        check_change({"w": one}, weights, most)
        one[2, 3] = number * (1 + 2.0**-23)
        with pytest.raises(PayloadError, match=rf"number {2 * shape[1] + 3},"):
            check_change({"w": one}, weights, most)
    check_norms({"w": one}, {"w": 1.001})
    with pytest.raises(PayloadError, match="as a whole"):
        check_norms({"w": one}, {"w": 0.999})


def test_what_decay_takes_follows_the_weights() -> None:
    weights = {"w": torch.tensor([[0.0, -8.0]])}
    most = {"w": Most(share=0.25, number=1.0)}
    check_change({"w": torch.tensor([[2.0, 6.0]])}, weights, most)
    for change in ([[2.1, 0.0]], [[0.0, 6.1]]):
        with pytest.raises(PayloadError, match="number"):
            check_change({"w": torch.tensor(change)}, weights, most)


def test_tensors_of_any_shape_are_looked_at() -> None:
    shapes = [(), (0, 3), (7,), (1, 1), (600, 500), (2, 3, 4)]
    for shape in shapes:
        tensor = {"w": torch.full(shape, 3.0)}
        most = {"w": Most(share=0.0, number=1.0)}
        assert length(tensor["w"]) == pytest.approx(3.0 * math.sqrt(tensor["w"].numel()))
        if tensor["w"].numel():
            with pytest.raises(PayloadError, match="number 0,"):
                check_change(tensor, tensor, most)
        check_change(tensor, tensor, {})


def test_a_part_of_many_steps_is_added_up() -> None:
    share, beyond = over_steps(1.0 - 0.1, (1.0,) * 3)
    assert share == pytest.approx(1 - 0.9**3, rel=1e-5) and beyond == pytest.approx(3.0, rel=1e-5)
    share, beyond = over_steps(-0.5, (1.0, 1.0))
    assert share == pytest.approx(1.5, rel=1e-5), "after one step of two"
    share, beyond = over_steps(-3.0, (1.0, 1.0))
    assert share == pytest.approx(8.0, rel=1e-5) and beyond == pytest.approx(4.0, rel=1e-5)
    assert over_steps(0.9, ()) == (0.0, 0.0)
    assert math.isinf(over_steps(1e9, (1.0,) * 100)[0])


def used(change: State, most: dict[str, Most], name: str) -> float:
    """The largest share of a tensor's bound that was reached, from weights of zero."""
    sizes, one = change[name].double(), most[name]
    if math.isinf(one.line):
        return float(sizes.abs().max() / one.number)
    return float(max(sizes.norm(dim=0).max(), sizes.norm(dim=1).max()) / one.line)


def test_figures() -> None:
    """How much of the bound gradients of noise, and steady ones, use; never more than all of it."""
    start = weights_of(0, 0.0)
    for inner in ("adamw", "muon"):
        choice = chosen(inner, {})
        for steps in (1, 6, 24):
            most = choice.most_moved(SHAPES, HIDDEN, HYPER, steps)
            for pattern in (_noise, _steady, _three_places):
                source = torch.Generator().manual_seed(1)

                def gradients(step: int) -> State:
                    shapes = SHAPES.items()
                    return {n: pattern(step, steps, s, source) for n, s in shapes}  # noqa: B023

                change = moved(choice, HYPER, start, gradients, steps)
                shares = {name: used(change, most, name) for name in ("blocks.w", "table")}
                print(inner, steps, pattern.__name__, {n: round(s, 3) for n, s in shares.items()})
                assert max(shares.values()) < 1.0001
