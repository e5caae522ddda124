# SPDX-License-Identifier: Apache-2.0
"""Attack 18: what a proposer leaves out of its result as unavailable.

Rule: that a payload can't be had is its proposer's word, so nobody else is paid more for it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from agents.protocol.numbers import UNCLAIMED
from agents.rounds.submissions import left_out
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.honest_round import NODES, HonestRound, make_honest_round

EVE = 3


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("left out") / "store"))


def test_proposer_leaves_all_but_its_friend_out__the_friend_has_its_own_part(
    tiny: HonestRound,
) -> None:
    """It had the pay of them all, 950 of 1,000 ZOO, in a round in which nobody can prove a lie."""
    whole = tiny.honest()
    honest, alone = tiny.compute(whole), tiny.compute(left_out(whole, set(NODES) - {EVE}))
    batches = {line.node: line.batches for line in honest.report.nodes}
    part = Fraction(alone.paid()[EVE], sum(alone.contributions))
    assert part == Fraction(batches[EVE], sum(batches.values()))
    assert alone.nodes == (UNCLAIMED, EVE)
    assert UNCLAIMED not in honest.nodes


def test_whoever_is_malformed_is_paid_for_by_nobody_too(tiny: HonestRound) -> None:
    """It may take its payload down again: then nobody can tell which of both it was, and an honest
    proposer that read it must not look wrong."""
    whole = tiny.honest()
    *others, last = whole
    junk = replace(last, gradient=None, reason="bad payload: it is no payload")
    one, other = tiny.compute([*others, junk]), tiny.compute(left_out(whole, {last.reveal.node}))
    assert (one.nodes, one.contributions) == (other.nodes, other.contributions)
