# SPDX-License-Identifier: Apache-2.0
"""The model of any round is rebuilt from published artefacts, and a wrong one is never returned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from eth_utils import keccak

from agents.rounds.models import CaughtUp, Models
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Plan
from agents.rounds.update import pack_update
from agents.runtime.commitments import Commitments
from agents.runtime.journal import Journal
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.storage.cid import cid_of_bytes, digest_of, parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, StoreError
from agents.trainer import Trainer, submission_name
from agents.training.assignment import assign
from agents.training.state import PayloadError, State, apply_outer, model_hash, save_state
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    ChainFacts,
    HonestRound,
    make_honest_round,
)

ROUNDS = 4  # checkpoints after rounds 3 and 4


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[HonestRound, list[Outcome]]:
    """Four finalized rounds."""
    tiny = make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("models") / "store"))
    facts = ChainFacts(tiny.published)
    outcomes = []
    state = tiny.before
    for number in range(1, ROUNDS + 1):
        manifest = assign(keccak(text=f"seed {number}"), NODES, (1,) * 4, tiny.job.spec)
        plan = Plan(manifest, number - 1, (), 0)
        outcome = compute(tiny.job, JOB, number, plan, state, tiny.honest(), DEVICE)
        facts.record(number, outcome, tiny.store)
        outcomes.append(outcome)
        state = outcome.state
    return tiny, outcomes


@pytest.fixture
def run(
    history: tuple[HonestRound, list[Outcome]], tmp_path: Path
) -> tuple[ChainFacts, EmbeddedStore, list[Outcome]]:
    """The same history in a store of this test's own."""
    tiny, outcomes = history
    store = EmbeddedStore(tmp_path / "store")
    for cid in (tiny.published.spec_cid, tiny.published.checkpoint_cid):
        store.put_bytes(tiny.store.get(cid, 1 << 24))
    facts = ChainFacts(tiny.published)
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


# -- desynchronised ---------------------------------------------------------------------------


def heard(facts: ChainFacts, store: EmbeddedStore) -> tuple[Models, list[CaughtUp]]:
    told: list[CaughtUp] = []
    return Models(facts, store, tell=told.append), told


def test_a_copy_that_changed_in_memory_is_found_out_and_replaced(run: tuple) -> None:
    """One bit of the kept model flips; the next use of it gets the chain's model and says so."""
    facts, store, outcomes = run
    models, told = heard(facts, store)
    wanted = outcomes[-1].model
    kept = models.at(JOB, wanted)
    name = next(iter(kept))
    kept[name].view(torch.int32).view(-1)[0] ^= 1
    assert model_hash(kept) != wanted
    assert model_hash(models.at(JOB, wanted)) == wanted
    assert [found.damaged for found in told] == [(wanted,)]
    assert models.at(JOB, wanted) is models.at(JOB, wanted)  # and it is kept again
    assert len(told) == 1


def test_nothing_is_built_upon_a_copy_that_changed(run: tuple) -> None:
    """Round 2's model is asked for while the kept model of round 1 is damaged."""
    facts, store, outcomes = run
    models, told = heard(facts, store)
    for tensor in models.at(JOB, outcomes[0].model).values():
        tensor += 1
    assert model_hash(models.at(JOB, outcomes[1].model)) == outcomes[1].model
    assert [(found.start, found.replayed, found.damaged) for found in told] == [
        (0, 2, (outcomes[0].model,))
    ]


def test_a_copy_that_changed_and_can_not_be_rebuilt_is_an_error(run: tuple) -> None:
    """It isn't used in want of a better one; once the store is whole again the node goes on."""
    facts, store, outcomes = run
    models, told = heard(facts, store)
    kept = models.at(JOB, outcomes[0].model)
    next(iter(kept.values())).add_(1)
    lose(store, outcomes[0].report.update)
    for _ in range(2):
        with pytest.raises(StoreError, match=outcomes[0].report.update):
            models.at(JOB, outcomes[0].model)
    assert told == []
    store.put_bytes(outcomes[0].update)
    assert model_hash(models.at(JOB, outcomes[0].model)) == outcomes[0].model
    assert [found.damaged for found in told] == [(outcomes[0].model,)]


def test_only_what_is_more_than_a_rounds_step_is_told(run: tuple) -> None:
    """A node that follows along applies one update a round; one that was away, several."""
    facts, store, outcomes = run
    models, told = heard(facts, store)
    models.at(JOB, outcomes[0].model)
    models.at(JOB, outcomes[1].model)
    assert told == []
    late, told = heard(facts, store)
    late.at(JOB, outcomes[1].model)
    assert told == [CaughtUp(JOB, outcomes[1].model, 0, 2, ())]


def test_updates_follow_the_outer_rate_of_their_round(
    history: tuple[HonestRound, list[Outcome]], tmp_path: Path
) -> None:
    """With `outer_decay` every round has its own; the one that the chain's models were made by."""
    store = EmbeddedStore(tmp_path / "store")
    optimizer = {"batch_size": 2, "seq_len": 16, "outer_decay": True, "warmup_rounds": 2}
    tiny = make_honest_round(store, optimizer=optimizer, checkpoint_every=50)
    facts, state, updates = ChainFacts(tiny.published), tiny.before, history[1]
    rates = [tiny.job.spec.outer_lr_at(step) for step in range(3)]
    assert rates == [1 / 3, 2 / 3, 1.0]
    for number, made in enumerate(updates[:3], start=1):
        state = apply_outer(state, made.merged, rates[number - 1])
        report = made.report.model_copy(
            update={"model": model_hash(state).hex(), "checkpoint": None}
        )
        facts.record(number, replace(made, state=state, report=report, checkpoint=None), store)
    assert model_hash(Models(facts, store).current(JOB)) == model_hash(state)


def test_a_trainers_damaged_memory_counts_as_lost(tmp_path: Path, tiny: HonestRound) -> None:
    """A payload encoded with it could not be redone by anybody, which would be called INVALID."""
    name, seed = submission_name(JOB, 1, b"\1" * 32), b"\1" * 32
    raw = save_state(tiny.before)
    path = tmp_path / f"{name}.memory"
    with Journal(tmp_path / "journal") as journal:
        context = SimpleNamespace(
            journal=journal,
            metrics=Metrics("trainer"),
            log=open_log("trainer", "warning", path=tmp_path / "log"),
        )
        trainer: Any = SimpleNamespace(
            context=context,
            models=SimpleNamespace(job=lambda _: tiny.job),
            commitments=Commitments(journal, tmp_path, "trainer"),
        )

        def kept() -> State | None:
            return Trainer._memory(trainer, JOB, 1, seed)

        assert kept() is None
        path.write_bytes(raw)
        journal.put(name, {"memory": digest_of(cid_of_bytes(raw)).hex()})
        found = kept()
        assert found is not None and model_hash(found) == model_hash(tiny.before)
        path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        assert kept() is None
        count = context.metrics.registry.get_sample_value("menagerie_resyncs_total")
    assert count == 1
    assert '"event":"resynced"' in (tmp_path / "log").read_text().replace(" ", "")


def damage(store: EmbeddedStore, cid: str) -> None:
    """Flip one bit of an artefact on disk."""
    [path] = (store.root / "objects").glob(f"*/{parse_cid(cid).digest.hex()}.*")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(raw)


def test_a_checkpoint_damaged_on_disk_is_skipped(run: tuple) -> None:
    facts, store, outcomes = run
    damage(store, outcomes[3].report.checkpoint)
    models, told = heard(facts, store)
    assert model_hash(models.current(JOB)) == outcomes[3].model
    # Round 3's checkpoint and one update: an ordinary step, which is not worth telling.
    assert told == []


def test_an_update_damaged_on_disk_is_named(run: tuple) -> None:
    facts, store, outcomes = run
    damage(store, outcomes[1].report.update)
    with pytest.raises(StoreError, match=outcomes[1].report.update):
        Models(facts, store).at(JOB, outcomes[1].model)
