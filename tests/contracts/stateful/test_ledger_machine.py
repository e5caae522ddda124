# SPDX-License-Identifier: Apache-2.0
"""Random histories of two jobs against `ledger_model`. There are three models only, so that hashes
turn up again and again, and no history is ever rewritten: an entry once read is read for ever."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import boa
from eth_utils import keccak
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.contracts.stateful.ledger_model import EMPTY, MOST, LedgerModel
from tests.contracts.stateful.machine import Machine, run
from tests.stage.contracts.clock import mine
from tests.stage.contracts.system import ZOO, System

JOBS = (1, 2)
MODELS = [keccak(text=f"model {i}") for i in range(3)]
ROOTS = [keccak(text=name) for name in ("contributors", "scores", "report")]

Job = st.sampled_from(JOBS)
Model = st.sampled_from(MODELS)


class LedgerMachine(Machine):
    system: ClassVar[System]
    walked: ClassVar[Counter[str]] = Counter()  # lineages by what is special about them

    def __init__(self) -> None:
        super().__init__()
        s = self.system
        self.ledger, self.pool = s.ledger, s.pool
        self.model = LedgerModel(str(s.results.address), str(s.coordinator.address))
        self.stranger = str(boa.env.generate_address("stranger"))
        self.seen: dict[int, list[Any]] = {job: [] for job in JOBS}

    @rule(seconds=st.integers(1, 1_000))
    def wait(self, seconds: int) -> None:
        mine(1, seconds)

    @rule(job=Job, ahead=st.integers(0, 2), new=Model, reward=st.integers(0, ZOO))
    def finish_a_round(self, job: int, ahead: int, new: bytes, reward: int) -> None:
        """TrainingResults records after its rounds set their reward aside; some are void."""
        past = self.model.history(job)
        round_id = (past[-1].round_id if past else 0) + 1 + ahead
        prev = past[-1].new_model if past else MODELS[0]
        if (job, round_id) not in self.model.rewards:
            self.pool.reserve(job, round_id, reward, sender=self.model.results)
            self.model.rewards[job, round_id] = reward
        self.record(self.model.results, job, round_id, prev, new)

    @rule(
        by_rounds=st.booleans(),
        job=Job,
        back=st.integers(-1, 3),
        prev=st.sampled_from([*MODELS, EMPTY]),
        new=st.sampled_from([*MODELS, EMPTY]),
    )
    def record_anything(
        self, by_rounds: bool, job: int, back: int, prev: bytes, new: bytes
    ) -> None:
        past = self.model.history(job)
        round_id = max(0, (past[-1].round_id if past else 1) - back)
        sender = self.model.results if by_rounds else self.stranger
        self.record(sender, job, round_id, prev, new)

    def record(self, sender: str, job: int, round_id: int, prev: bytes, new: bytes) -> None:
        self.model.now = boa.env.timestamp
        self.step(
            lambda m: m.record(sender, job, round_id, (prev, new), ROOTS),
            lambda: self.ledger.record_round(job, round_id, prev, new, *ROOTS, sender=sender),
        )

    @rule(
        job=Job,
        model=Model,
        checkpoint=st.sampled_from([EMPTY, MODELS[0], MODELS[1]]),
        coordinator=st.booleans(),
        times=st.integers(1, 2),
    )
    def attest(
        self, job: int, model: bytes, checkpoint: bytes, coordinator: bool, times: int
    ) -> None:
        sender = self.model.coordinator if coordinator else self.stranger
        self.model.now = boa.env.timestamp
        for _ in range(times):
            self.step(
                lambda m: m.attest(sender, job, model, checkpoint, ROOTS[0]),
                lambda: self.ledger.attest_model(job, model, checkpoint, ROOTS[0], sender=sender),
            )

    @rule(job=Job, pick=st.integers(0, 4), limit=st.sampled_from([0, 1, 2, 5, MOST, MOST + 1]))
    def walk(self, job: int, pick: int, limit: int) -> None:
        """The lineage of some recorded model, or of the last one of all, whole and in pages."""
        known = sorted(self.model.models(job))
        model = known[pick % len(known)] if known and pick < 4 else MODELS[-1]
        whole = [entry.fields() for entry in self.model.lineage(job, model)]
        if not whole or limit in (0, MOST + 1):
            reason = "ledger: bad limit" if whole else "ledger: unknown model"
            self.attempt({reason: True}, lambda: self.ledger.lineage(job, model, limit))
            return
        found = self.ledger.lineage(job, model, limit)
        while len(found) < len(whole):
            assert len(found) % limit == 0
            found = found + self.ledger.entries(job, found[-1].index - 1, limit)
            self.walked["in pages"] += 1
        assert [tuple(entry) for entry in found] == whole
        if len({entry.new_model for entry in found}) < len(found):
            self.walked["with a hash twice"] += 1
        if found[0].new_model == found[-1].prev_model:
            self.walked["back to the first model"] += 1

    @invariant()
    def chain_is_model(self) -> None:
        """A refused call left no trace by the rules of the EVM: only changes are worth a look."""
        if self.changed:
            self.changed = False
            for job in JOBS:
                self._history_is_model(job)
                self._attestations_are_model(job)

    def _history_is_model(self, job: int) -> None:
        past = self.model.history(job)
        assert self.ledger.length(job) == len(past)
        assert self.ledger.head(job) == self.model.head(job)
        for model in MODELS:
            assert self.ledger.is_recorded(job, model) == (model in self.model.models(job))
        if not past:
            return
        # The current model has the whole history, and what was read before is still there.
        entries = self.ledger.lineage(job, past[-1].new_model, MOST)[::-1]
        assert [tuple(entry) for entry in entries] == [entry.fields() for entry in past]
        assert entries[: len(self.seen[job])] == self.seen[job]
        self.seen[job] = entries

    def _attestations_are_model(self, job: int) -> None:
        for model in MODELS:
            by_coordinator = self.model.attested.get((job, model, self.model.coordinator))
            assert self.ledger.is_attested(job, model) == (by_coordinator is not None)
            assert self.ledger.checkpoint_of(job, model) == (by_coordinator or [EMPTY])[0]
            for attester in (self.stranger, self.model.coordinator):
                stated = self.model.attested.get((job, model, attester), (EMPTY, EMPTY, 0))
                assert tuple(self.ledger.attestation_of(job, model, attester)) == stated


def test_ledger_machine(system: System) -> None:
    sponsor = system.person("sponsor", 10_000 * ZOO)
    for _ in JOBS:
        system.job(sponsor, escrow=1_000 * ZOO)
    LedgerMachine.system = system
    run(LedgerMachine, examples=25, steps=30)
    # Histories drawn at random may miss the odd refusal or lineage.
    machine = LedgerMachine()
    first, other, third = MODELS
    for new in (other, first, other):
        machine.finish_a_round(1, 0, new, ZOO)
    machine.attest(1, other, checkpoint=first, coordinator=True, times=2)
    machine.record_anything(True, 1, back=1, prev=other, new=first)
    machine.record_anything(True, 1, back=-1, prev=third, new=first)
    for pick in range(2):
        machine.walk(1, pick, limit=1)
        machine.chain_is_model()
    machine.teardown()
    wanted = {"ledger: broken chain", "ledger: round order", "ledger: already attested"}
    assert set(LedgerMachine.refused) >= wanted, "a refusal was never met"
    assert len(LedgerMachine.walked) == 3, "a kind of lineage was never walked"
