# SPDX-License-Identifier: Apache-2.0
"""Each boundary's two sides compute what its page says; wrong options are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import Parts, Side, cross
from agents.mechanisms.boundary.parts.wire import Wire

D, WIDTH = 6, 2
PARTS = Parts(D, lambda: nn.Linear(D, D), lambda: nn.Linear(D, D))
CODED = ("bottleneck", "residual", "subspace")


def sides(name: str, **options: Any) -> tuple[Side, Side]:
    boundary = boundaries.get(name)(**options)
    return boundary.sender(PARTS), boundary.receiver(PARTS)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_the_folder_holds_the_five_boundaries() -> None:
    assert boundaries.names() == ["bottleneck", "cut", "none", "residual", "subspace"]


def test_none_passes_the_stream_through() -> None:
    sender, receiver = sides("none")
    x = numbers(1, 3, D)
    assert torch.equal(receiver(sender(x, None), None), x)


def test_cut_sends_no_channel_and_starts_from_the_stages_own_table() -> None:
    sender, receiver = sides("cut")
    x, base = numbers(1, 3, D), numbers(1, 3, D, seed=1)
    assert sender(x, base).shape == (1, 3, 0)
    assert torch.equal(receiver(sender(x, base), base), base)


@pytest.mark.parametrize("anchor", [True, False])
def test_residual_without_learned_parts_keeps_the_first_channels(anchor: bool) -> None:
    sender, receiver = sides("residual", width=WIDTH, anchor=anchor)
    for parameter in (*sender.parameters(), *receiver.parameters()):
        parameter.data.zero_()
    x, base = numbers(1, 3, D), numbers(1, 3, D, seed=1)
    got = receiver(sender(x, base if anchor else None), base if anchor else None)
    beyond = base if anchor else torch.zeros(1, 3, D)
    torch.testing.assert_close(got[..., :WIDTH], x[..., :WIDTH])
    assert torch.equal(got[..., WIDTH:], beyond[..., WIDTH:])


def test_residual_adds_its_learned_maps() -> None:
    sender, receiver = sides("residual", width=WIDTH, anchor=False)
    sender.encoder.weight.data, receiver.decoder.weight.data = numbers(WIDTH, D), numbers(D, WIDTH)
    x = numbers(1, 3, D, seed=2)
    code = x @ (torch.eye(D)[:WIDTH] + numbers(WIDTH, D)).T
    torch.testing.assert_close(sender(x, None), code)
    wide = code @ (torch.eye(D)[:, :WIDTH] + numbers(D, WIDTH)).T
    torch.testing.assert_close(receiver(code, None), wide)


def test_anchored_maps_start_at_zero_and_others_do_not() -> None:
    for side, learned in zip(sides("residual", width=WIDTH), ("encoder", "decoder"), strict=True):
        assert side.stds == {f"{learned}.weight": 0.0}
    for side in sides("residual", width=WIDTH, anchor=False):
        assert all(std > 0 for std in side.stds.values())


def test_with_context_earlier_tokens_rows_add_to_a_row_on_both_sides() -> None:
    sender, receiver = sides("residual", width=WIDTH, context=2)
    for parameter in (*sender.parameters(), *receiver.parameters()):
        parameter.data.zero_()
    weights = numbers(2, 1, D, seed=3)
    x, base = numbers(1, 4, D), numbers(1, 4, D, seed=1)
    by_hand = base.clone()
    for at in range(4):
        for back in range(1, min(at, 2) + 1):
            by_hand[0, at] += weights[back - 1, 0] * base[0, at - back]
    sender.context.weight.data = weights
    torch.testing.assert_close(sender(x, base), (x - by_hand)[..., :WIDTH])
    receiver.context.weight.data = weights
    torch.testing.assert_close(receiver(torch.zeros(1, 4, WIDTH), base), by_hand)
    alone = sides("cut", context=2)[1]
    alone.context.weight.data = weights
    torch.testing.assert_close(alone(x[..., :0], base), by_hand)


def test_context_of_no_table_or_of_too_many_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="context needs anchor: true"):
        sides("residual", context=1, anchor=False)
    for name in ("residual", "cut"):
        with pytest.raises(ValueError, match="context must be"):
            sides(name, context=65)


def test_subspace_gives_back_the_table_and_the_first_channels_of_what_is_left() -> None:
    sender, receiver = sides("subspace", width=WIDTH)
    x, base = numbers(1, 3, D), numbers(1, 3, D, seed=1)
    got = receiver(sender(x, base), base)
    torch.testing.assert_close(got[..., :WIDTH], x[..., :WIDTH])
    assert torch.equal(got[..., WIDTH:], base[..., WIDTH:])


def test_what_lies_in_the_subspace_crosses_without_loss() -> None:
    """As all would of a model whose weights write into it alone. So `subspace` has no matrices."""
    sender, receiver = sides("subspace", width=WIDTH)
    base = numbers(1, 3, D, seed=1)
    inside = functional.pad(numbers(1, 3, WIDTH), (0, D - WIDTH))
    torch.testing.assert_close(receiver(sender(base + inside, base), base), base + inside)
    assert [*sender.parameters(), *receiver.parameters()] == []


def test_bottleneck_keeps_the_residual_on_the_first_channels_only() -> None:
    sender, receiver = sides("bottleneck", width=WIDTH)
    x = numbers(1, 3, D)
    code = sender.projection(functional.silu(sender.feed_forward(x))) + x[..., :WIDTH]
    assert torch.equal(sender(x, None), code)
    got = receiver(code, None) - receiver.attention(functional.relu(receiver.decoder(code)))
    torch.testing.assert_close(got[..., :WIDTH], code)
    assert not got[..., WIDTH:].any()


def test_a_code_and_its_gradient_cross_each_in_its_own_form() -> None:
    there, back = Wire("bf16"), Wire("int4")
    code, weights = numbers(1, 2, 5).requires_grad_(), numbers(1, 2, 5, seed=1)
    crossed = cross(code, there.rounded, back.rounded)
    (crossed * weights).sum().backward()
    assert torch.equal(crossed, there.rounded(code.detach()))
    assert code.grad is not None and torch.equal(code.grad, back.rounded(weights))


@pytest.mark.parametrize(
    "options",
    [
        {"width": 0},
        {"width": True},
        {"code": "fp32"},
        {"code": "int2"},
        {"gradient": "fp32"},
        {"block": -1},
    ],
)
@pytest.mark.parametrize("name", CODED)
def test_a_wrong_option_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        boundaries.get(name)(**options)


@pytest.mark.parametrize("name", CODED)
def test_a_code_wider_than_the_model_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="width 7 must not exceed d_model 6"):
        sides(name, width=7)
