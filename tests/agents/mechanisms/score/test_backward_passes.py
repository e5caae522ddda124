# SPDX-License-Identifier: Apache-2.0
"""A miner's contribution is its counted passes, whatever its stage's tensors are."""

import pytest
import torch

from agents.mechanisms import score

RULE = score.get("backward_passes")()
STAGES = [{"embedding.weight": torch.ones(2, 2)}, {"head.weight": torch.ones(3)}]


def test_miners_of_different_stages_are_scored_by_their_passes() -> None:
    assert RULE(STAGES, [7, 0]) == score.Scores((1_000_000,) * 2, (7_000_000, 0))
    assert not RULE.needs_gains


def test_passes_of_earlier_rounds_are_paid_beside_those_of_this_one() -> None:
    evidence = score.Evidence({}, carried=(5, 9))
    assert RULE(STAGES, [7, 0], evidence).contributions == (12_000_000, 9_000_000)
    with pytest.raises(ValueError, match="one number of carried passes for each"):
        RULE(STAGES, [7, 0], score.Evidence({}, carried=(5,)))


@pytest.mark.parametrize("gamma", [0, 65])
def test_a_gamma_out_of_range_is_refused(gamma: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and 64 rounds, got {gamma}"):
        score.get("backward_passes")(gamma=gamma)


@pytest.mark.parametrize(
    ("payloads", "passes", "says"),
    [
        ([], [], "no payload"),
        (STAGES, [1], "1 pass counts do not match 2 payloads"),
        (STAGES, [1, -1], "must not be negative"),
    ],
)
def test_lists_that_do_not_belong_together_are_refused(
    payloads: list[score.Payload], passes: list[int], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        RULE(payloads, passes)
