# SPDX-License-Identifier: Apache-2.0
"""A miner's contribution is its counted passes times its factor."""

from __future__ import annotations

import pytest
import torch

from agents.mechanisms import score
from agents.mechanisms.score import Evidence, Scores

STAGES = [{"embedding.weight": torch.ones(2, 2)}, {"head.weight": torch.ones(3)}]
RULE = score.get("clasp")()


def test_passes_count_in_part_where_the_factor_is_less() -> None:
    evidence = Evidence({}, factors_ppm=(1_000_000, 250_001))
    assert RULE(STAGES, [7, 3], evidence) == Scores((1_000_000, 250_001), (7_000_000, 750_003))
    assert not RULE.needs_gains


@pytest.mark.parametrize("factors", [None, (1,), (1, -1), (1, 1_000_001)])
def test_without_a_factor_for_everybody_nothing_is_scored(factors: tuple[int, ...] | None) -> None:
    with pytest.raises(ValueError, match="factor"):
        RULE(STAGES, [1, 1], Evidence({}, factors_ppm=factors))


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"threshold": True}, {"by_reporter": 1}])
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        score.get("clasp")(**options)
