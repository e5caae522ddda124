# SPDX-License-Identifier: Apache-2.0
"""What a trainer shows of the parameters it started from, on a real chain.

Real keystores, journals and transactions: the trainer's own code commits, reveals and shows; what
it published is read as a validator reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.protocol.scores import Consensus
from agents.protocol.view import View
from agents.rounds.models import Models
from agents.rounds.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.rounds.sync_sample import read_samples, sync_root, values_at
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.training.state import PayloadError, State
from tests.stage.chain.people import COMMIT, EMPTY, Node, World
from tests.stage.chain.validators import GAUNTLET, PASSPHRASE, Room
from tests.stage.memory.honest_round import TinyJob


class Stale(Trainer):
    """Starts from other parameters than the round's, and shows those."""

    def starting_state(self, view: View) -> State:
        """Not the round's model."""
        return {name: t + 0.25 for name, t in super().starting_state(view).items()}


class Pretender(Stale):
    """Commits to the other parameters and shows the round's."""

    def show(self, view: View, node: int) -> str | None:
        """With the right model at hand by then."""
        honest = Trainer.starting_state
        self.starting_state = lambda view: honest(self, view)  # type: ignore[method-assign]
        return super().show(view, node)


class Gallery(Room):
    """Trainers, and what they show."""

    def read(self, trainer: Trainer, node: Node) -> np.ndarray[Any, Any]:
        """What a validator finds; PayloadError for a sample that isn't under the node's root."""
        view = self.view(trainer)
        opened = int(view.round.opened_block)
        place = (view.job_id, view.round_id, opened)
        digest = Consensus(trainer.network).samples(*place)[node.node_id]
        root = trainer.network.reveals(*place)[node.node_id].trace_root
        seed = trainer.network.seed(view.job_id, view.round, audit=True)
        assert seed is not None
        raw = self.store.get_digest(digest, 1 << 20)
        return read_samples(raw, root, self.job.shapes, seed, self.job.score.samples)

    def expected(self, trainer: Trainer, shift: float = 0.0) -> np.ndarray[Any, Any]:
        """The round's model at the same places, every number plus `shift`."""
        view = self.view(trainer)
        seed = trainer.network.seed(view.job_id, view.round, audit=True)
        assert seed is not None
        model = trainer.models.at(view.job_id, bytes(view.round.prev_model))
        state = {name: tensor + shift for name, tensor in model.items()}
        return values_at(state, seed, self.job.score.samples)


@pytest.fixture
def room(
    world: World, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gallery]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Gallery(world, tiny, tmp_path, stack)


def test_an_honest_trainer_shows_the_rounds_model_once(room: Gallery, ann: Node) -> None:
    trainer = room.trainer(ann)
    room.reveal((trainer, ann))
    view = room.view(trainer)
    reveals = trainer.network.reveals(view.job_id, view.round_id, int(view.round.opened_block))
    model = trainer.models.at(view.job_id, bytes(view.round.prev_model))
    assert reveals[ann.node_id].trace_root == sync_root(model)
    assert room.show(trainer, ann) == f"shown: starting parameters of round {view.round_id}"
    assert np.array_equal(room.read(trainer, ann), room.expected(trainer))
    assert room.show(trainer, ann) is None
    assert room.show(room.trainer(ann), ann) is None, "nor after a restart"


def test_a_restart_before_it_showed_changes_nothing(room: Gallery, ann: Node) -> None:
    """Not even the loss of its journal: all it needs is the chain and the model."""
    room.reveal((room.trainer(ann), ann))
    room.forget(ann)
    again = room.trainer(ann)
    assert room.show(again, ann) is not None
    assert np.array_equal(room.read(again, ann), room.expected(again))


def test_a_sample_is_not_made_before_its_places_are_known(room: Gallery, ann: Node) -> None:
    trainer = room.trainer(ann)
    room.reveal((trainer, ann))
    view = room.view(trainer)
    early = View(**{**vars(view), "round": view.round._replace(audit_seed=EMPTY)})
    trainer.network.seed = lambda *_, **__: None  # type: ignore[method-assign]
    assert trainer.show(early, ann.node_id) is None
    assert Consensus(trainer.network).samples(view.job_id, view.round_id, 0) == {}


def test_a_store_that_lost_the_model_is_asked_again(room: Gallery, ann: Node) -> None:
    """And keeps the node from no other duty."""
    room.reveal((room.trainer(ann), ann))
    again = room.trainer(ann)
    models, again.models = again.models, Models(again.network, EmbeddedStore(room.folder / "empty"))
    assert room.show(again, ann) is None
    again.models = models
    assert room.show(again, ann) is not None


def test_who_did_not_reveal_shows_nothing(room: Gallery, ann: Node, bob: Node) -> None:
    here, absent = room.trainer(ann), room.trainer(bob)
    room.reveal((here, ann))
    assert room.show(absent, bob) is None


def test_other_parameters_can_be_shown_only_as_what_they_are(room: Gallery, ann: Node) -> None:
    stale = room.trainer(ann, Stale)
    room.reveal((stale, ann))
    assert room.show(stale, ann) is not None
    found = room.read(stale, ann)
    assert np.array_equal(found, room.expected(stale, 0.25))
    assert not np.array_equal(found, room.expected(stale))


def test_the_right_parameters_do_not_open_a_commitment_to_others(room: Gallery, ann: Node) -> None:
    pretender = room.trainer(ann, Pretender)
    room.reveal((pretender, ann))
    assert room.show(pretender, ann) is None
    assert "not those that were committed to" in (room.folder / "ann.log").read_text()


def test_a_forged_sample_is_not_under_the_root(room: Gallery, ann: Node, bob: Node) -> None:
    """A stale node that posts an honest node's sample has posted somebody else's."""
    honest, stale = room.trainer(ann), room.trainer(bob, Stale)
    room.reveal((honest, ann), (stale, bob))
    assert room.show(honest, ann) is not None
    world, opened = room.world, int(room.view(honest).round.opened_block)
    samples = Consensus(honest.network).samples(world.job, world.round, opened)
    stale.context.sender.send(
        stale.network.scores,
        "post_samples",
        world.job,
        world.round,
        bob.node_id,
        samples[ann.node_id],
    )
    with pytest.raises(PayloadError, match="not under the node's root"):
        room.read(stale, bob)


def test_extra_batches_are_the_operators_choice(room: Gallery, ann: Node, bob: Node) -> None:
    """More than all that the round hands out is cut to that; the proof states the work done."""
    some, greedy = (
        room.trainer(node, trainer={"extra_batches": count})
        for node, count in ((ann, 3), (bob, 10**6))
    )
    room.reveal((some, ann), (greedy, bob))
    view = room.view(some)
    reveals = some.network.reveals(view.job_id, view.round_id, int(view.round.opened_block))
    manifest = some.plans.of(view).manifest  # type: ignore[union-attr]
    steps = {}
    for node in (ann, bob):
        raw = room.store.get_digest(reveals[node.node_id].proof, MAX_PROOF_BYTES)
        assigned = manifest.of(node.node_id).batches
        steps[node.name] = ProofOfComputation.from_bytes(raw).steps - assigned
    assert steps == {"ann": 3, "bob": GAUNTLET["batches_per_round"]}


def test_a_commitment_to_another_task_is_not_revealed(room: Room, ann: Node, bob: Node) -> None:
    """As after a reorg that changed the seed: silence costs 5 %, an INVALID payload 20 %."""
    here, moved = room.trainer(ann), room.trainer(bob)
    room.world.open()
    room.world.chain.mine()
    view = room.view(moved)
    plan = moved.plans.of(view)
    assert plan is not None
    other = replace(plan.manifest, seed=bytes(32))
    moved.plans._plans[view.job_id, view.round_id, plan.manifest.seed] = replace(
        plan, manifest=other
    )
    for trainer, node in ((here, ann), (moved, bob)):
        said = trainer.commit(room.view(trainer), node.node_id)
        assert said is not None and said.startswith("committed:")
    moved.plans._plans.clear()
    room.world.pass_phase(COMMIT)
    revealed = [t.reveal(room.view(t), n.node_id) for t, n in ((here, ann), (moved, bob))]
    assert revealed == [f"revealed: round {view.round_id}", None]
    assert "the task it was made for is another one" in (room.folder / "bob.log").read_text()
