# SPDX-License-Identifier: Apache-2.0
"""What was public before a round: the merged updates that led to its model, newest first."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_utils import keccak

from agents.rounds.history import known_updates, merged_updates
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, StoreError
from agents.training.assignment import assign
from agents.training.state import State, model_hash
from tests.stage.memory.honest_round import DEVICE, JOB, NODES, ChainFacts, make_honest_round

ROUNDS = 3


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Models, bytes, list[Outcome]]:
    """A reader of three finalized rounds, the genesis model, and the rounds."""
    store = EmbeddedStore(tmp_path_factory.mktemp("history"))
    tiny = make_honest_round(store)
    facts, outcomes, state = ChainFacts(tiny.published), list[Outcome](), tiny.before
    for number in range(1, ROUNDS + 1):
        manifest = assign(keccak(text=f"seed {number}"), NODES, (1,) * 4, tiny.job.spec)
        plan = Plan(manifest, number - 1, (), 0)
        outcomes.append(compute(tiny.job, JOB, number, plan, state, tiny.honest(), DEVICE))
        facts.record(number, outcomes[-1], store)
        state = outcomes[-1].state
    return Models(facts, store), model_hash(tiny.before), outcomes


def same(found: list[State], wanted: list[State]) -> bool:
    return [model_hash(one) for one in found] == [model_hash(one) for one in wanted]


@pytest.mark.parametrize(("count", "rounds"), [(0, []), (1, [2]), (2, [2, 1]), (9, [2, 1, 0])])
def test_the_newest_updates_come_first(
    past: tuple[Models, bytes, list[Outcome]], count: int, rounds: list[int]
) -> None:
    models, _, outcomes = past
    found = merged_updates(models, JOB, outcomes[-1].model, count)
    assert same(found, [outcomes[number].merged for number in rounds])


def test_what_came_later_is_not_among_them(past: tuple[Models, bytes, list[Outcome]]) -> None:
    models, genesis, outcomes = past
    assert same(merged_updates(models, JOB, outcomes[0].model, 9), [outcomes[0].merged])
    assert merged_updates(models, JOB, genesis, 9) == []


def test_a_model_that_the_ledger_lacks_is_refused(
    past: tuple[Models, bytes, list[Outcome]],
) -> None:
    with pytest.raises(CorruptContent, match="in its ledger"):
        merged_updates(past[0], JOB, b"\7" * 32, 1)


def test_a_lost_update_is_said(past: tuple[Models, bytes, list[Outcome]], tmp_path: Path) -> None:
    models, _, outcomes = past
    bare = Models(models._network, EmbeddedStore(tmp_path))
    with pytest.raises(StoreError):
        merged_updates(bare, JOB, outcomes[-1].model, 1)


def test_a_score_that_reads_none_gets_none(past: tuple[Models, bytes, list[Outcome]]) -> None:
    models, _, outcomes = past
    assert models.job(JOB).score.needs_updates == 0
    assert known_updates(models, JOB, outcomes[-1].model) == []
