# SPDX-License-Identifier: Apache-2.0
"""What is left of an update without its public part: nothing of past updates, all that is new."""

from __future__ import annotations

import pytest
import torch

from agents.gauntlet.public_part import PublicPart
from agents.training.norms import cosine, norm
from agents.training.state import State


def drawn(seed: int) -> State:
    draw = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(40, 8, generator=draw), "b": torch.randn(30, generator=draw)}


def mixed(*parts: tuple[float, State]) -> State:
    return {name: sum(w * s[name] for w, s in parts) for name in parts[0][1]}


PAST = [drawn(seed) for seed in range(5)]
PUBLIC = PublicPart(PAST)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_of_any_sum_of_past_updates_nothing_is_left(scale: float) -> None:
    copied = mixed(*((scale * 0.8**i, past) for i, past in enumerate(PAST)))
    assert norm(PUBLIC.without(copied)) == 0.0


def test_what_is_new_is_the_same_with_and_without_a_ride() -> None:
    own = drawn(9)
    alone = PUBLIC.without(own)
    ridden = PUBLIC.without(mixed((1.0, own), (3.0, PAST[0]), (-2.0, PAST[4])))
    assert cosine(alone, ridden) > 0.999999
    assert norm(alone) == pytest.approx(norm(own), rel=1e-5)
    assert all(abs(cosine(alone, past)) < 1e-5 for past in PAST)


def test_without_history_and_of_nothing_an_update_stays_as_it_is() -> None:
    zero = {name: torch.zeros_like(tensor) for name, tensor in PAST[0].items()}
    own = drawn(9)
    assert PublicPart([]).without(own) is own
    assert PublicPart([zero]).without(own) is own
    assert PUBLIC.without(zero) is zero


def test_past_updates_that_are_alike_are_no_trouble() -> None:
    twins = PublicPart([PAST[0], PAST[0], mixed((2.0, PAST[0]))])
    assert norm(twins.without(PAST[0])) == 0.0
    assert cosine(twins.without(PAST[1]), PublicPart([PAST[0]]).without(PAST[1])) > 0.999999
