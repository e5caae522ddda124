# SPDX-License-Identifier: Apache-2.0
"""The model of any round is rebuilt from published artefacts, and a wrong one is never returned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from eth_utils import keccak

from agents.rounds.manifests import Plan
from agents.rounds.models import Models
from agents.rounds.result import Outcome, compute
from agents.storage.cid import digest_of, parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, StoreError
from agents.training.state import PayloadError, model_hash, save_state
from agents.training.task import assign
from agents.training.update import pack_update
from tests.agents.rounds.desk import DEVICE, JOB, NODES, ChainFacts, Desk, make_desk

ROUNDS = 4  # checkpoints after rounds 3 and 4


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, list[Outcome]]:
    """Four finalized rounds."""
    torch.set_num_threads(1)
    desk = make_desk(EmbeddedStore(tmp_path_factory.mktemp("models") / "store"))
    facts = ChainFacts(desk.published)
    outcomes = []
    state = desk.before
    for number in range(1, ROUNDS + 1):
        manifest = assign(keccak(text=f"seed {number}"), NODES, (1,) * 4, desk.job.spec)
        plan = Plan(manifest, number - 1, (), 0)
        outcome = compute(desk.job, JOB, number, plan, state, desk.honest(), DEVICE)
        facts.record(number, outcome, desk.store)
        outcomes.append(outcome)
        state = outcome.state
    return desk, outcomes


@pytest.fixture
def run(
    history: tuple[Desk, list[Outcome]], tmp_path: Path
) -> tuple[ChainFacts, EmbeddedStore, list[Outcome]]:
    """The same history in a store of this test's own."""
    desk, outcomes = history
    store = EmbeddedStore(tmp_path / "store")
    for cid in (desk.published.spec_cid, desk.published.checkpoint_cid):
        store.put_bytes(desk.store.get(cid, 1 << 24))
    facts = ChainFacts(desk.published)
    for number, outcome in enumerate(outcomes, start=1):
        facts.record(number, outcome, store)
    return facts, store, outcomes


def lose(store: EmbeddedStore, cid: str) -> None:
    """Delete an artefact."""
    for path in (store.root / "objects").glob(f"*/{parse_cid(cid).digest.hex()}.*"):
        path.unlink()


def test_every_recorded_model_is_rebuilt_exactly(run: tuple) -> None:
    facts, store, outcomes = run
    for outcome in outcomes:
        state = Models(facts, store).at(JOB, outcome.model)
        assert all(torch.equal(state[name], outcome.state[name]) for name in state)


def test_the_genesis_model_is_the_checkpoint_of_the_terms(run: tuple) -> None:
    facts, store, _ = run
    state = Models(facts, store).at(JOB, facts.published.model)
    assert model_hash(state) == facts.published.model


def test_current_is_the_last_recorded_model(run: tuple) -> None:
    facts, store, outcomes = run
    assert model_hash(Models(facts, store).current(JOB)) == outcomes[-1].model


def test_a_late_joiner_starts_at_the_newest_checkpoint(run: tuple) -> None:
    """Rounds 1 to 3 are not needed any more once round 4's checkpoint is there."""
    facts, store, outcomes = run
    for outcome in outcomes[:3]:
        lose(store, outcome.report.update)
    lose(store, facts.published.checkpoint_cid)
    assert model_hash(Models(facts, store).current(JOB)) == outcomes[-1].model


def test_a_lost_checkpoint_is_made_up_for_by_updates(run: tuple) -> None:
    facts, store, outcomes = run
    for outcome in outcomes:
        if outcome.report.checkpoint:
            lose(store, outcome.report.checkpoint)
    assert model_hash(Models(facts, store).current(JOB)) == outcomes[-1].model


def test_a_lost_update_is_an_error_that_names_it(run: tuple) -> None:
    facts, store, outcomes = run
    lose(store, outcomes[1].report.update)
    with pytest.raises(StoreError, match=outcomes[1].report.update):
        Models(facts, store).at(JOB, outcomes[1].model)


def forge(facts: ChainFacts, store: EmbeddedStore, index: int, **changes: object) -> None:
    """Put another report behind the ledger's entry `index`."""
    models = Models(facts, store)
    entry = facts.entries[index]
    report = models.report(entry.report).model_copy(update=changes)
    digest = digest_of(store.put_bytes(report.to_bytes()))
    facts.entries[index] = SimpleNamespace(**{**vars(entry), "report": digest})


def test_a_wrong_update_is_detected(run: tuple) -> None:
    facts, store, outcomes = run
    other = store.put_bytes(pack_update({n: t + 1 for n, t in outcomes[0].merged.items()}))
    forge(facts, store, 0, update=other)
    with pytest.raises(CorruptContent, match="the chain records"):
        Models(facts, store).at(JOB, outcomes[0].model)


def test_a_wrong_checkpoint_is_never_returned(run: tuple) -> None:
    """It is skipped: the updates lead to the model that the chain records."""
    facts, store, outcomes = run
    wrong = store.put_bytes(save_state({n: t + 1 for n, t in outcomes[2].state.items()}))
    forge(facts, store, 2, checkpoint=wrong)
    assert model_hash(Models(facts, store).at(JOB, outcomes[2].model)) == outcomes[2].model


def test_a_wrong_genesis_checkpoint_is_detected(run: tuple) -> None:
    facts, store, outcomes = run
    facts.published = replace(
        facts.published, checkpoint_cid=store.put_bytes(save_state(outcomes[0].state))
    )
    with pytest.raises(CorruptContent):
        Models(facts, store).at(JOB, facts.published.model)


def test_a_malformed_update_is_an_error(run: tuple) -> None:
    facts, store, outcomes = run
    forge(facts, store, 0, update=store.put_bytes(b"not a state"))
    with pytest.raises(PayloadError):
        Models(facts, store).at(JOB, outcomes[0].model)


def test_a_hash_outside_of_the_ledger_has_no_model(run: tuple) -> None:
    facts, store, _ = run
    with pytest.raises(CorruptContent, match="the chain has moved"):
        Models(facts, store).at(JOB, b"\5" * 32)


def test_a_model_in_memory_needs_no_store(run: tuple, tmp_path: Path) -> None:
    facts, _, outcomes = run
    models = Models(facts, EmbeddedStore(tmp_path / "empty"))
    assert models.keep(outcomes[1].state) == outcomes[1].model
    assert models.at(JOB, outcomes[1].model) is outcomes[1].state


def test_a_round_that_changed_nothing_is_replayed(run: tuple) -> None:
    """Two rounds with one model hash: nobody's payload could be read in the first."""
    facts, store, outcomes = run
    zeros = {n: torch.zeros_like(t) for n, t in outcomes[0].merged.items()}
    idle = replace(
        outcomes[0],
        state=outcomes[-1].state,
        update=pack_update(zeros),
        checkpoint=None,
        report=outcomes[-1].report.model_copy(
            update={
                "prev_model": outcomes[-1].report.model,
                "update": store.put_bytes(pack_update(zeros)),
                "checkpoint": None,
            }
        ),
    )
    facts.record(ROUNDS + 1, idle, store)
    assert model_hash(Models(facts, store).current(JOB)) == outcomes[-1].model
