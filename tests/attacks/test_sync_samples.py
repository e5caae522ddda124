# SPDX-License-Identifier: Apache-2.0
"""What a trainer shows of the parameters it started from, on a real chain.

Real keystores, journals and transactions: the trainer's own code commits, reveals and shows; what
it published is read as a validator reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.rounds.consensus import Consensus
from agents.rounds.jobs import JobContext
from agents.rounds.view import View, observe
from agents.runtime.config import AgentSettings
from agents.runtime.context import Context, start
from agents.runtime.wallet import create_keystore
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.training.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.training.state import PayloadError, State
from agents.training.sync import read_samples, sync_root, values_at
from scripts._anvil import CHAIN_ID
from scripts._jobs import Terms, publish_job
from tests.attacks.lab import Lab
from tests.attacks.world import AGGREGATE, COMMIT, EMPTY, Node, World

PASSPHRASE = "a throwaway passphrase"
TERMS = Terms()
TEXT = [b"line %d of a small corpus, cubed %d\n" % (i, i**3) for i in range(600)]
GAUNTLET: dict[str, Any] = {
    "codec": "demo",
    "merge": "demo_sign",
    "score": "gauntlet",
    "verify": "gauntlet",
    "batches_per_round": 8,
    "optimizer": {
        "batch_size": 2,
        "seq_len": 16,
        "inner": "gradient",
        "outer_lr": 0.002,
        "outer_decay": True,
    },
}


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


class Room:
    """A free job on the attacks' chain, and trainers of its nodes."""

    def __init__(self, world: World, lab: Lab, folder: Path, stack: ExitStack) -> None:
        self.world, self.folder, self.stack = world, folder, stack
        self.store = EmbeddedStore(folder / "store")
        fields = lab.published.spec.model_dump(mode="json")
        self.published = publish_job(self.store, TEXT, {"model": fields["model"], **GAUNTLET})
        self.job = JobContext(self.published.spec, self.store)
        world.job = world.create_job(world.sponsor, TERMS.encode(self.published), 0)
        windows = (TERMS.score_commit_s, TERMS.score_reveal_s)
        world.chain.send(world.sponsor, world.scores, "adopt", world.job, *windows)
        world.chain.send(world.sponsor, world.token, "approve", world.pool.address, 2**255)
        world.give(world.sponsor, TERMS.reward_per_round)
        world.chain.send(world.sponsor, world.pool, "fund", world.job, TERMS.reward_per_round)
        self.running: dict[str, Context] = {}
        self.deployment = folder / "deployment.json"
        contracts = {n: {"address": c.address, "abi": c.abi} for n, c in world.contracts.items()}
        self.deployment.write_text(
            json.dumps({"chain_id": CHAIN_ID, "block": 0, "contracts": contracts})
        )

    def trainer(self, node: Node, kind: type[Trainer] = Trainer, **options: Any) -> Trainer:
        """Starts a node's trainer; called again for the same node, it restarts it."""
        if node.name in self.running:
            self.running[node.name].close()
        keystore = self.folder / f"{node.name}.json"
        if not keystore.exists():
            create_keystore(keystore, PASSPHRASE, bytes(node.operator.key), iterations=2)
        settings = AgentSettings(
            rpc_url=self.world.chain._url,
            ws_url="",
            deployment=self.deployment,
            keystore=str(keystore),
            passphrase_env="MENAGERIE_PASSPHRASE",
            data_dir=self.folder / node.name,
            store=str(self.folder / "store"),
            job_id=self.world.job,
            device="cpu",
            log_file=self.folder / f"{node.name}.log",
            **options,
        )
        context = self.running[node.name] = start(settings, "trainer")
        self.stack.callback(context.close)
        self.world.chain._nonces.pop(node.operator.address, None)
        return kind(context, EmbeddedStore(self.folder / "store"))

    def view(self, trainer: Trainer) -> View:
        return observe(trainer.network, self.world.job, trainer.context.chain.head())

    def reveal(self, *parties: tuple[Trainer, Node]) -> None:
        """These commit and reveal; the round is in AGGREGATE after it, its audit seed known."""
        self.world.open()
        self.world.chain.mine()
        for trainer, node in parties:
            said = trainer.commit(self.view(trainer), node.node_id)
            assert said is not None and said.startswith("committed:")
        self.world.pass_phase(COMMIT)
        for trainer, node in parties:
            said = trainer.reveal(self.view(trainer), node.node_id)
            assert said is not None and said.startswith("revealed:")
        assert self.world.phase == AGGREGATE
        self.world.chain.mine()

    def show(self, trainer: Trainer, node: Node) -> str | None:
        return trainer.show(self.view(trainer), node.node_id)

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
def room(world: World, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Room(world, lab, tmp_path, stack)


def test_an_honest_trainer_shows_the_rounds_model_once(room: Room, ann: Node) -> None:
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


def test_a_restart_before_it_showed_changes_nothing(room: Room, ann: Node) -> None:
    """Not even the loss of its journal: all it needs is the chain and the model."""
    room.reveal((room.trainer(ann), ann))
    room.running[ann.name].close()
    for path in sorted((room.folder / ann.name).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = room.trainer(ann)
    assert room.show(again, ann) is not None
    assert np.array_equal(room.read(again, ann), room.expected(again))


def test_a_sample_is_not_made_before_its_places_are_known(room: Room, ann: Node) -> None:
    trainer = room.trainer(ann)
    room.reveal((trainer, ann))
    view = room.view(trainer)
    early = View(**{**vars(view), "round": view.round._replace(audit_seed=EMPTY)})
    trainer.network.seed = lambda *_, **__: None  # type: ignore[method-assign]
    assert trainer.show(early, ann.node_id) is None
    assert Consensus(trainer.network).samples(view.job_id, view.round_id, 0) == {}


def test_who_did_not_reveal_shows_nothing(room: Room, ann: Node, bob: Node) -> None:
    here, absent = room.trainer(ann), room.trainer(bob)
    room.reveal((here, ann))
    assert room.show(absent, bob) is None


def test_other_parameters_can_be_shown_only_as_what_they_are(room: Room, ann: Node) -> None:
    stale = room.trainer(ann, Stale)
    room.reveal((stale, ann))
    assert room.show(stale, ann) is not None
    found = room.read(stale, ann)
    assert np.array_equal(found, room.expected(stale, 0.25))
    assert not np.array_equal(found, room.expected(stale))


def test_the_right_parameters_do_not_open_a_commitment_to_others(room: Room, ann: Node) -> None:
    pretender = room.trainer(ann, Pretender)
    room.reveal((pretender, ann))
    assert room.show(pretender, ann) is None
    assert "not those that were committed to" in (room.folder / "ann.log").read_text()


def test_a_forged_sample_is_not_under_the_root(room: Room, ann: Node, bob: Node) -> None:
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


def test_extra_batches_are_the_operators_choice(room: Room, ann: Node, bob: Node) -> None:
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
