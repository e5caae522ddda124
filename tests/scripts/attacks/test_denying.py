# SPDX-License-Identifier: Apache-2.0
"""A validator that denies payloads, in real rounds of training, paid out on the contracts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.protocol.median import stake_median
from scripts._attacks.denying import deny_payloads, denying, measured
from scripts._attacks.market import Market, Numbers

USUAL = Numbers(rounds=4)
LOW_CUT = replace(USUAL, terms=replace(USUAL.terms, verifier_bps=1_000))
NODES = USUAL.nodes


def test_validators_that_have_all_payloads__find_the_same() -> None:
    for rounds in measured(USUAL, NODES):
        for rows in rounds:
            assert rows[0] == rows[1] == rows[2] and any(rows[0])


def test_validator_that_lacks_a_payload__differs_from_the_others() -> None:
    """Each round another node is missing, which the last validator gives nothing."""
    for rounds in measured(USUAL, NODES, every=1):
        for rows in rounds:
            assert rows[0] == rows[1] != rows[2]
            assert any(score == 0 < rows[0][node] for node, score in enumerate(rows[2]))


@pytest.mark.parametrize("count", [1, 3, 6])
def test_one_denier_of_three__moves_no_median(count: int) -> None:
    rows = measured(USUAL, NODES)[0][-1]
    false = denying(rows, (0, 1, 2), count)
    assert false != rows[0]
    assert sum(1 for was, said in zip(rows[0], false, strict=True) if was and not said) > 0
    assert stake_median([false, *rows[1:]], [1] * 3, 3) == stake_median(rows, [1] * 3, 3)


@pytest.mark.parametrize("numbers", [LOW_CUT, replace(LOW_CUT, nodes=32)], ids=["9", "32"])
def test_denied_payloads__cost_more_than_they_win(numbers: Numbers) -> None:
    """At the cut that a job has by itself. No stake is lost, since no bytes deny it."""
    found = deny_payloads(Market(numbers))
    assert found.profit < 0
    assert -found.profit < numbers.verifier_stake // 5


def test_denied_payloads__win_where_an_honest_validator_lacks_one_in_every_round() -> None:
    """The control: what its two fellows find is no majority then. docs/gauntlet.md says how often
    it takes."""
    assert deny_payloads(Market(LOW_CUT), every=1).profit > 0
