# SPDX-License-Identifier: Apache-2.0
"""What a trainer shows of the parameters it started from, on a real chain.

Real keystores, journals and transactions: the trainer's own code commits, reveals and shows; what
it published is read as a validator reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
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
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import COMMIT, EMPTY, Node, People
from tests.stage.chain.validators import FREE_JOB, ValidatedJob
from tests.stage.memory.honest_round import TinyJob
from tests.stage.terminal import until


class Stale(Trainer):
    """Starts from other parameters than the round's, and shows those."""

    def starting_state(self, view: View) -> State:
        return {name: t + 0.25 for name, t in super().starting_state(view).items()}


class Pretender(Stale):
    """Commits to the other parameters and shows the round's."""

    def show(self, view: View, node: int) -> str | None:
        """With the right model at hand by then."""
        honest = Trainer.starting_state
        self.starting_state = lambda view: honest(self, view)  # type: ignore[method-assign]
        return super().show(view, node)


class SampledJob(ValidatedJob):
    """Trainers, and what they show."""

    def read(self, trainer: Trainer, node: Node) -> np.ndarray[Any, Any]:
        """What a validator finds; PayloadError for a sample that isn't under the node's root."""
        view = self.view(trainer)
        opened = int(view.round.opened_block)
        place = (view.job_id, view.round_id, opened)
        digest = Consensus(trainer.network).samples(*place)[node.node_id]
        root = trainer.network.reveals(*place)[node.node_id].trace_root
        seed = trainer.network.seed(view.job_id, view.round_id, view.round, audit=True)
        assert seed is not None
        raw = self.store.get_digest(digest, 1 << 20)
        return read_samples(raw, root, self.job.shapes, seed, self.job.score.samples)

    def expected(self, trainer: Trainer, shift: float = 0.0) -> np.ndarray[Any, Any]:
        """The round's model at the same places, every number plus `shift`."""
        view = self.view(trainer)
        seed = trainer.network.seed(view.job_id, view.round_id, view.round, audit=True)
        assert seed is not None
        model = trainer.models.at(view.job_id, bytes(view.round.prev_model))
        state = {name: tensor + shift for name, tensor in model.items()}
        return values_at(state, seed, self.job.score.samples)


@pytest.fixture
def sampled(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SampledJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield SampledJob(people, tiny, tmp_path, stack)


def test_an_honest_trainer_shows_the_rounds_model_once(sampled: SampledJob, ann: Node) -> None:
    trainer = sampled.trainer(ann)
    sampled.reveal((trainer, ann))
    view = sampled.view(trainer)
    reveals = trainer.network.reveals(view.job_id, view.round_id, int(view.round.opened_block))
    model = trainer.models.at(view.job_id, bytes(view.round.prev_model))
    assert reveals[ann.node_id].trace_root == sync_root(model)
    assert sampled.show(trainer, ann) == f"shown: starting parameters of round {view.round_id}"
    assert np.array_equal(sampled.read(trainer, ann), sampled.expected(trainer))
    assert sampled.show(trainer, ann) is None
    assert sampled.show(sampled.trainer(ann), ann) is None, "nor after a restart"


def test_a_restart_before_it_showed_changes_nothing(sampled: SampledJob, ann: Node) -> None:
    """Not even the loss of its journal: all it needs is the chain and the model."""
    sampled.reveal((sampled.trainer(ann), ann))
    sampled.forget(ann)
    again = sampled.trainer(ann)
    assert sampled.show(again, ann) is not None
    assert np.array_equal(sampled.read(again, ann), sampled.expected(again))


def test_a_sample_is_not_made_before_its_places_are_known(sampled: SampledJob, ann: Node) -> None:
    trainer = sampled.trainer(ann)
    sampled.reveal((trainer, ann))
    view = sampled.view(trainer)
    early = replace(view, round=replace(view.round, audit_seed=EMPTY))
    trainer.network.seed = lambda *_, **__: None  # type: ignore[method-assign]
    assert trainer.show(early, ann.node_id) is None
    assert Consensus(trainer.network).samples(view.job_id, view.round_id, 0) == {}


def test_a_store_that_lost_the_model_is_asked_again(sampled: SampledJob, ann: Node) -> None:
    """And keeps the node from no other duty."""
    sampled.reveal((sampled.trainer(ann), ann))
    again = sampled.trainer(ann)
    models, again.models = (
        again.models,
        Models(again.network, EmbeddedStore(sampled.folder / "empty")),
    )
    assert sampled.show(again, ann) is None
    again.models = models
    assert sampled.show(again, ann) is not None


def test_who_did_not_reveal_shows_nothing(sampled: SampledJob, ann: Node, bob: Node) -> None:
    here, absent = sampled.trainer(ann), sampled.trainer(bob)
    sampled.reveal((here, ann))
    assert sampled.show(absent, bob) is None


def test_other_parameters_can_be_shown_only_as_what_they_are(
    sampled: SampledJob, ann: Node
) -> None:
    stale = sampled.trainer(ann, Stale)
    sampled.reveal((stale, ann))
    assert sampled.show(stale, ann) is not None
    found = sampled.read(stale, ann)
    assert np.array_equal(found, sampled.expected(stale, 0.25))
    assert not np.array_equal(found, sampled.expected(stale))


def test_the_right_parameters_do_not_open_a_commitment_to_others(
    sampled: SampledJob, ann: Node
) -> None:
    pretender = sampled.trainer(ann, Pretender)
    sampled.reveal((pretender, ann))
    assert sampled.show(pretender, ann) is None
    assert "not those that were committed to" in (sampled.folder / "ann.log").read_text()


def test_a_forged_sample_is_not_under_the_root(sampled: SampledJob, ann: Node, bob: Node) -> None:
    """A stale node that posts an honest node's sample has posted somebody else's."""
    honest, stale = sampled.trainer(ann), sampled.trainer(bob, Stale)
    sampled.reveal((honest, ann), (stale, bob))
    assert sampled.show(honest, ann) is not None
    people, opened = sampled.people, int(sampled.view(honest).round.opened_block)
    samples = Consensus(honest.network).samples(*people.place, opened)
    stale.context.sender.send(
        stale.network.scores, "post_samples", *people.place, bob.node_id, samples[ann.node_id]
    )
    with pytest.raises(PayloadError, match="not under the node's root"):
        sampled.read(stale, bob)


def has_published(trainer: Trainer) -> bool:
    """What a trainer reveals goes into the store beside its loop."""
    trainer.publication.step()
    return not trainer.publication._wanted


def test_extra_batches_are_the_operators_choice(sampled: SampledJob, ann: Node, bob: Node) -> None:
    """More than all that the round hands out is cut to that; the proof states the work done."""
    some, greedy = (
        sampled.trainer(node, trainer={"extra_batches": count})
        for node, count in ((ann, 3), (bob, 10**6))
    )
    sampled.reveal((some, ann), (greedy, bob))
    for trainer in (some, greedy):
        until(partial(has_published, trainer), "published")
    view = sampled.view(some)
    reveals = some.network.reveals(view.job_id, view.round_id, int(view.round.opened_block))
    manifest = some.plans.of(view).manifest  # type: ignore[union-attr]
    steps = {}
    for node in (ann, bob):
        raw = sampled.store.get_digest(reveals[node.node_id].proof, MAX_PROOF_BYTES)
        assigned = manifest.of(node.node_id).batches
        steps[node.name] = ProofOfComputation.from_bytes(raw).steps - assigned
    assert steps == {"ann": 3, "bob": FREE_JOB["batches_per_round"]}


def test_a_commitment_to_another_task_is_not_revealed(
    sampled: ValidatedJob, ann: Node, bob: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a reorg that changed the seed: silence costs 5 %, an INVALID payload 20 %."""
    here, moved = sampled.trainer(ann), sampled.trainer(bob)
    sampled.people.open()
    sampled.people.chain.mine()
    view = sampled.view(moved)
    plan = moved.plans.of(view)
    assert plan is not None
    other = replace(plan.manifest, seed=bytes(32))
    with monkeypatch.context() as patch:
        patch.setattr(moved.plans, "of", lambda _: replace(plan, manifest=other))
        for trainer, node in ((here, ann), (moved, bob)):
            said = trainer.commit(sampled.view(trainer), node.node_id)
            assert said is not None and said.startswith("committed:")
    sampled.people.pass_phase(COMMIT)
    revealed = [t.reveal(sampled.view(t), n.node_id) for t, n in ((here, ann), (moved, bob))]
    assert revealed == [f"revealed: round {view.round_id}", None]
    assert "the task it was made for is another one" in (sampled.folder / "bob.log").read_text()
