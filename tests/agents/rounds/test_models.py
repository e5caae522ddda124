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
from agents.training.update import pack_update
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
    outcomes: list[Outcome] = []
    for number in range(1, ROUNDS + 1):
        state = outcomes[-1].state if outcomes else tiny.before
        manifest = assign(keccak(text=f"seed {number}"), NODES, (1,) * 4, tiny.job.spec)
        plan = Plan(manifest, number - 1, (), 0)
        outcomes.append(compute(tiny.job, JOB, number, plan, state, tiny.honest(), DEVICE))
    return tiny, outcomes


class Run:
    """The same history in a store of this test's own, and what those who read it were told."""

    def __init__(self, tiny: HonestRound, outcomes: list[Outcome], store: EmbeddedStore) -> None:
        self.facts, self.outcomes, self.store = ChainFacts(tiny.published), outcomes, store
        self.told: list[CaughtUp] = []
        published = tiny.published
        for cid in (published.spec_cid, published.spec.data, published.checkpoint_cid):
            store.put_bytes(tiny.store.get(cid, 1 << 24))
        for number, outcome in enumerate(outcomes, start=1):
            self.facts.record(number, outcome, store)
        self.hashes = [outcome.model for outcome in outcomes]
        self.updates = [outcome.report.update for outcome in outcomes]

    def models(self, store: EmbeddedStore | None = None) -> Models:
        """A reader that has nothing in memory."""
        return Models(self.facts, store or self.store, tell=self.told.append)

    def current(self) -> bytes:
        return model_hash(self.models().current(JOB))

    def file(self, cid: str) -> Path:
        """Where an artefact lies on disk."""
        [path] = (self.store.root / "objects").glob(f"*/{parse_cid(cid).digest.hex()}.*")
        path.chmod(0o600)
        return path

    def damage(self, cid: str) -> None:
        """Flip one bit of an artefact on disk."""
        raw = bytearray(self.file(cid).read_bytes())
        raw[len(raw) // 2] ^= 1
        self.file(cid).write_bytes(raw)

    def forge(self, index: int, **changes: object) -> None:
        """Put another report behind the ledger's entry `index`."""
        entry = self.facts.entries[index]
        report = self.models().report(entry.report).model_copy(update=changes)
        digest = digest_of(self.store.put_bytes(report.to_bytes()))
        self.facts.entries[index] = SimpleNamespace(**{**vars(entry), "report": digest})


@pytest.fixture
def run(history: tuple[HonestRound, list[Outcome]], tmp_path: Path) -> Run:
    return Run(*history, EmbeddedStore(tmp_path / "store"))


def test_every_recorded_model_is_rebuilt_exactly(run: Run) -> None:
    for outcome in run.outcomes:
        state = run.models().at(JOB, outcome.model)
        assert all(torch.equal(state[name], outcome.state[name]) for name in state)


def test_the_genesis_model_is_the_checkpoint_of_the_terms(run: Run) -> None:
    genesis = run.facts.published.model
    assert model_hash(run.models().at(JOB, genesis)) == genesis


def test_current_is_the_last_recorded_model(run: Run) -> None:
    assert run.current() == run.hashes[-1]


def test_a_late_joiner_starts_at_the_newest_checkpoint(run: Run) -> None:
    """Rounds 1 to 3 are not needed any more once round 4's checkpoint is there."""
    for cid in {*run.updates[:3], run.facts.published.checkpoint_cid}:
        run.file(cid).unlink()
    assert run.current() == run.hashes[-1]


def test_old_reports_that_are_gone_keep_nobody_from_the_model(run: Run) -> None:
    """Round 4 has a checkpoint. Without it, round 3's report is needed."""
    reports = [run.store.resolve(entry.report) for entry in run.facts.entries]
    for cid in reports[:3]:
        run.file(cid).unlink()
    assert run.current() == run.hashes[-1]
    run.file(run.outcomes[3].report.checkpoint or "").unlink()
    with pytest.raises(StoreError, match=reports[2]):
        run.current()


def test_a_lost_checkpoint_is_made_up_for_by_updates(run: Run) -> None:
    for cid in {outcome.report.checkpoint for outcome in run.outcomes} - {None}:
        run.file(cid).unlink()
    assert run.current() == run.hashes[-1]


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_an_update_that_is_not_there_as_it_was_is_named(run: Run, how: str) -> None:
    if how == "lost":
        run.file(run.updates[1]).unlink()
    else:
        run.damage(run.updates[1])
    with pytest.raises(StoreError, match=run.updates[1]):
        run.models().at(JOB, run.hashes[1])


def test_a_wrong_update_is_detected(run: Run) -> None:
    merged = {name: tensor + 1 for name, tensor in run.outcomes[0].merged.items()}
    run.forge(0, update=run.store.put_bytes(pack_update(merged)))
    with pytest.raises(CorruptContent, match="the chain records"):
        run.models().at(JOB, run.hashes[0])


def test_a_wrong_checkpoint_is_never_returned(run: Run) -> None:
    """It is skipped: the updates lead to the model that the chain records."""
    wrong = save_state({name: tensor + 1 for name, tensor in run.outcomes[2].state.items()})
    run.forge(2, checkpoint=run.store.put_bytes(wrong))
    assert model_hash(run.models().at(JOB, run.hashes[2])) == run.hashes[2]


def test_a_wrong_genesis_checkpoint_is_detected(run: Run) -> None:
    wrong = run.store.put_bytes(save_state(run.outcomes[0].state))
    run.facts.published = replace(run.facts.published, checkpoint_cid=wrong)
    with pytest.raises(CorruptContent):
        run.models().at(JOB, run.facts.published.model)


def test_a_malformed_update_is_an_error(run: Run) -> None:
    run.forge(0, update=run.store.put_bytes(b"not a state"))
    with pytest.raises(PayloadError):
        run.models().at(JOB, run.hashes[0])


def test_a_hash_outside_of_the_ledger_has_no_model(run: Run) -> None:
    with pytest.raises(CorruptContent, match="the chain has moved"):
        run.models().at(JOB, b"\5" * 32)


def test_a_round_that_changed_nothing_is_replayed(run: Run) -> None:
    """Two rounds with one model hash: nobody's payload could be read in the first."""
    first, last = run.outcomes[0], run.outcomes[-1]
    zeros = pack_update({name: torch.zeros_like(t) for name, t in first.merged.items()})
    same = {"prev_model": last.report.model, "update": run.store.put_bytes(zeros)}
    report = last.report.model_copy(update={**same, "checkpoint": None})
    idle = replace(first, state=last.state, update=zeros, checkpoint=None, report=report)
    run.facts.record(ROUNDS + 1, idle, run.store)
    assert run.current() == run.hashes[-1]


# -- desynchronised ---------------------------------------------------------------------------


def test_a_copy_that_changed_in_memory_is_found_out_and_replaced(run: Run) -> None:
    """One bit of the kept model flips; the next use of it gets the chain's model and says so."""
    models, wanted = run.models(), run.hashes[-1]
    kept = models.at(JOB, wanted)
    next(iter(kept.values())).view(torch.int32).view(-1)[0] ^= 1
    assert model_hash(kept) != wanted
    assert model_hash(models.at(JOB, wanted)) == wanted
    assert [found.damaged for found in run.told] == [(wanted,)]
    assert models.at(JOB, wanted) is models.at(JOB, wanted)  # and it is kept again
    assert len(run.told) == 1


def test_nothing_is_built_upon_a_copy_that_changed(run: Run) -> None:
    """Round 2's model is asked for while the kept model of round 1 is damaged."""
    models = run.models()
    for tensor in models.at(JOB, run.hashes[0]).values():
        tensor += 1
    assert model_hash(models.at(JOB, run.hashes[1])) == run.hashes[1]
    assert [(f.start, f.replayed, f.damaged) for f in run.told] == [(0, 2, (run.hashes[0],))]


def test_a_copy_that_changed_and_can_not_be_rebuilt_is_an_error(run: Run) -> None:
    """It isn't used in want of a better one; once the store is whole again the node goes on."""
    models, wanted = run.models(), run.hashes[0]
    next(iter(models.at(JOB, wanted).values())).add_(1)
    run.file(run.updates[0]).unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=run.updates[0]):
            models.at(JOB, wanted)
    assert run.told == []
    run.store.put_bytes(run.outcomes[0].update)
    assert model_hash(models.at(JOB, wanted)) == wanted
    assert [found.damaged for found in run.told] == [(wanted,)]


def test_only_what_is_more_than_a_rounds_step_is_told(run: Run) -> None:
    """A node that follows along applies one update a round; one that was away, several."""
    models = run.models()
    models.at(JOB, run.hashes[0])
    models.at(JOB, run.hashes[1])
    assert run.told == []
    run.models().at(JOB, run.hashes[1])
    assert run.told == [CaughtUp(JOB, run.hashes[1], 0, 2, ())]


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
    name = submission_name(JOB, 1, b"\1" * 32)
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
            secret = trainer.commitments.get(name)
            if secret is None:
                return None
            return Trainer._copy(trainer, name, secret, "memory", tiny.job.shapes)

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


def test_a_checkpoint_damaged_on_disk_is_skipped(run: Run) -> None:
    run.damage(run.outcomes[3].report.checkpoint)
    assert run.current() == run.hashes[3]
    # Round 3's checkpoint and one update: an ordinary step, which is not worth telling.
    assert run.told == []
