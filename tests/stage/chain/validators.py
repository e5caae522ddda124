# SPDX-License-Identifier: Apache-2.0
"""A job scored by Gauntlet on the attacks' chain, and real agents of its nodes, each with its own
keystore, journal and data folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agents.jobs.job import JobContext
from agents.jobs.publish import Terms, publish_job
from agents.protocol.view import View, observe
from agents.runtime.context import Context
from agents.storage.embedded import EmbeddedStore
from agents.trainer import Trainer
from agents.verifier import Verifier
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import AGGREGATE, COMMIT, Node, People
from tests.stage.memory.honest_round import TinyJob
from tests.stage.memory.tiny_specs import GAUNTLET, signed_steps

TERMS = Terms()
TEXT = [b"line %d of a small corpus, cubed %d\n" % (i, i**3) for i in range(600)]
FREE_JOB: dict[str, Any] = {
    **GAUNTLET,
    "batches_per_round": 8,
    "optimizer": signed_steps(2, 16, 0.002, outer_decay=True),
}


class ValidatedJob(RunningAgents):
    """The job, paid for `rounds` rounds, and agents of its nodes."""

    def __init__(
        self, people: People, tiny: TinyJob, folder: Path, stack: ExitStack, rounds: int = 1
    ) -> None:
        super().__init__(people, folder, stack)
        self.store = EmbeddedStore(folder / "store")
        fields = tiny.published.spec.model_dump(mode="json")
        self.published = publish_job(self.store, TEXT, {"model": fields["model"], **FREE_JOB})
        self.job = JobContext(self.published.spec, self.store)
        people.job = people.create_job(people.sponsor, TERMS.encode(self.published), 0)
        windows = (TERMS.score_commit_s, TERMS.score_reveal_s)
        people.chain.send(people.sponsor, people.scores, "adopt", people.job, *windows)
        people.chain.send(people.sponsor, people.token, "approve", people.pool.address, 2**255)
        amount = rounds * TERMS.reward_per_round
        people.give(people.sponsor, amount)
        people.fund(people.sponsor, people.job, amount)

    def begin(self, node: Node, role: str, **options: Any) -> Context:
        """Starts an agent of a node that works on the job; called again, it restarts it."""
        store = str(self.folder / "store")
        return super().begin(
            node, role, store=store, job_id=self.people.job, device="cpu", **options
        )

    def forget(self, node: Node) -> None:
        """Ends a node's agent and wipes its data folder, the journal with it."""
        self.running.pop(node.name).close()
        for path in sorted((self.folder / node.name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def trainer(self, node: Node, kind: type[Trainer] = Trainer, **options: Any) -> Trainer:
        """Starts, or restarts, a node's trainer."""
        context = self.begin(node, "trainer", **options)
        return kind(context, EmbeddedStore(self.folder / "store"))

    def view(self, agent: Trainer | Verifier) -> View:
        return observe(agent.network, self.people.job, agent.context.chain.head())

    def reveal(self, *parties: tuple[Trainer, Node]) -> None:
        """These commit and reveal; the round is in AGGREGATE after it, its audit seed known."""
        self.people.open()
        self.people.chain.mine()
        for trainer, node in parties:
            said = trainer.commit(self.view(trainer), node.node_id)
            assert said is not None and said.startswith("committed:")
        self.people.pass_phase(COMMIT)
        for trainer, node in parties:
            said = trainer.reveal(self.view(trainer), node.node_id)
            assert said is not None and said.startswith("revealed:")
        assert self.people.phase == AGGREGATE
        self.people.chain.mine()

    def show(self, trainer: Trainer, node: Node) -> str | None:
        """A trainer shows its sample. A block is after it: a commitment can name the sample's."""
        said = trainer.show(self.view(trainer), node.node_id)
        self.people.chain.mine()
        return said
