# SPDX-License-Identifier: Apache-2.0
"""Several processes play attacks as one does."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from scripts._attacks.catalogue import play
from scripts._attacks.embedded import Refused
from scripts._attacks.market import Numbers

FAMILY = ("verifying",)


def test_two_processes_play_as_one_does() -> None:
    """In the order of the catalogue, with every figure and note alike."""
    numbers, told = Numbers(nodes=6), []
    alone = list(play(numbers, FAMILY))
    beside = list(play(numbers, FAMILY, lambda attack: told.append(attack.name), workers=2))
    assert [attack.name for attack, _ in alone] == told
    assert [astuple(one) for _, one in beside] == [astuple(one) for _, one in alone]


def test_a_refusal_in_another_process_is_told_as_in_this_one() -> None:
    with pytest.raises(Refused, match="registry: stake too low"):
        list(play(Numbers(stake=0), FAMILY, workers=2))
