# SPDX-License-Identifier: Apache-2.0
"""A trainer's own copy of the state of its inner optimizer, on the disk of its machine.

It starts from that copy only if it is what it kept, made in the determinism class that it computes
in now. Otherwise it does its rounds again: an honest node must not be slashed for a bad disk, nor
because it moved to another machine, where a verifier would find other bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.protocol.view import View, observe
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.training.state import load_state, model_hash
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import TERMS, Node, People
from tests.stage.memory.honest_round import make_tiny_job

MUON = {"batch_size": 2, "seq_len": 16, "inner": "muon", "inner_state": "kept"}


class Kept:
    """Ann's trainer, which has committed to its work of a round, and where its copy lies."""

    def __init__(self, people: People, folder: Path, stack: ExitStack, ann: Node) -> None:
        tiny = make_tiny_job(EmbeddedStore(folder / "store"), optimizer=MUON)
        funds = 2 * TERMS.reward_per_round
        sponsor = people.person("second sponsor", funds)
        people.job = people.create_job(sponsor, TERMS.encode(tiny.published), funds)
        self.agents, self.ann, self.folder = RunningAgents(people, folder, stack), ann, folder
        self.trainer = self.started()
        people.open()
        people.chain.mine()
        said = self.trainer.commit(self.view(), ann.node_id)
        assert said is not None and said.startswith("committed:")
        view = self.view()
        plan = self.trainer.plans.of(view)
        assert plan is not None
        self.place = people.job, view.round_id, plan.manifest.seed
        (self.file,) = (folder / ann.name).rglob("submission-*.inner")

    def view(self) -> View:
        people, chain = self.agents.people, self.trainer.context.chain
        return observe(self.trainer.network, people.job, chain.head())

    def started(self) -> Trainer:
        """Ann's agent; called again, it is restarted."""
        store = str(self.folder / "store")
        context = self.agents.begin(self.ann, "trainer", store=store, device="cpu")
        return Trainer(context, EmbeddedStore(self.folder / "store"))


@pytest.fixture
def kept(
    people: People, ann: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kept]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Kept(people, tmp_path, stack, ann)


def test_it_is_there_after_a_restart(kept: Kept) -> None:
    found = kept.started()._carried(*kept.place)
    assert found is not None and found.owed is None and found.inner is not None
    shapes = {name: tuple(tensor.shape) for name, tensor in found.inner.items()}
    assert model_hash(load_state(kept.file.read_bytes(), shapes)) == model_hash(found.inner)
    assert any(bool(t.any()) for name, t in found.inner.items() if name.startswith("momentum"))


def test_a_copy_that_is_gone_or_changed_is_not_started_from(kept: Kept) -> None:
    raw = bytearray(kept.file.read_bytes())
    raw[-1] ^= 1
    kept.file.write_bytes(raw)
    assert kept.trainer._carried(*kept.place) is None
    assert '"resynced"' in (kept.folder / "ann.log").read_text()
    kept.file.unlink()
    assert kept.trainer._carried(*kept.place) is None


def test_a_copy_of_another_machine_is_not_started_from(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.trainer.determinism_class", lambda *_: "torch=0;device=abacus")
    moved = kept.started()
    assert moved._carried(*kept.place) is None
    monkeypatch.undo()
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    assert kept.started()._carried(*kept.place) is not None
