# SPDX-License-Identifier: Apache-2.0
"""For how long a member looks after what validators revealed: for the unbonding period, however
many blocks that is. It was 50,000 blocks, which a chain of four blocks a second has in 3.5 hours:
less than the six hours in which a record that is withheld is looked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.gauntlet.disputes import WITHHELD_S, FalseScores, ScoreDisputes
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.old_event import FORTNIGHT_S, QuickChain

PLACE = {"job_id": 1, "round_id": 5}
VERIFIER = 9


def found(folder: Path, age_s: int) -> list[FalseScores]:
    """What a member that starts says of a record that is none, revealed so long ago."""
    store = EmbeddedStore(folder)
    told = {**PLACE, "verifier_id": VERIFIER, "scores": [1, 2]}
    told["record"] = digest_of(store.put_bytes(b"no record"))
    chain = QuickChain(("ScoresRevealed", told), ("ScoringClosed", PLACE), age_s=age_s)
    network: Any = SimpleNamespace(
        chain=chain,
        scores=None,
        deployment=SimpleNamespace(block=0),
        unbonding_s=lambda: FORTNIGHT_S,
    )
    return ScoreDisputes(network, store, "cpu", lambda _: None).step(chain.head())


def test_a_lie_is_found_while_its_validator_answers_for_it(tmp_path: Path) -> None:
    assert [false.verifier for false in found(tmp_path, FORTNIGHT_S)] == [VERIFIER]


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_record_can_be_looked_for_six_hours_more(tmp_path: Path, seconds: int) -> None:
    assert len(found(tmp_path, FORTNIGHT_S + WITHHELD_S + seconds)) == 1 - seconds
