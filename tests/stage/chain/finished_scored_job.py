# SPDX-License-Identifier: Apache-2.0
"""A job paid by its validators' consensus, on a real chain: what `test_consensus.py` audits.

Rule: as in finished_job.py; the validators are the agents' own duty, only their transactions are
sent by the test's keys. Nobody's checkpoint is due before the job's end, which is never reached, so
its model is genesis and updates alone.

Round 1: four honest trainers, three validators. Round 2: eve started from another model and reveals
noise, vito commits to scores and never reveals them. Round 3: cat posts no sync sample, vito does
not commit. Round 4: nobody scores, so that its result pays, and no verifier's cut. Round 5: as
round 1, but vera has lost her disk; the store has her last record.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.gauntlet.validator import Validator
from agents.protocol.scores import Consensus
from agents.protocol.view import observe
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.rounds.reader import RoundReader
from agents.rounds.sync_sample import open_samples
from agents.rounds.upkeep import Upkeep
from agents.runtime.contracts import Contract
from agents.runtime.journal import Journal
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.storage.cid import digest_of
from agents.training.state import State
from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import SPEC, FinishedJob, make_job
from tests.stage.chain.people import TERMS, TRAINERS, VERIFIERS, CommittedWork, Node
from tests.stage.memory.honest_round import DEVICE, make_work, noise
from tests.stage.memory.tiny_specs import GAUNTLET

ROUNDS = 5  # finalized, of more that the job has
FREE_JOB: dict[str, Any] = {
    **SPEC,
    **GAUNTLET,
    "codec_options": {"chunk": 8, "per_chunk": 12},
    "score_options": {"evaluated": 4, "top": 2, "eval_batches": 4, "step_share": 1.0},
    "optimizer": {
        **SPEC["optimizer"],
        "inner": "gradient",
        "outer_lr": 0.01,
        "outer_decay": True,
        "warmup_rounds": 1,
    },
    "batches_per_round": 32,
    "rounds": 40,
    "checkpoint_every": 50,
}


@dataclass
class DirectSender:
    """What a duty sends by: a node's key and the test's chain."""

    scored: FinishedScoredJob
    node: Node

    @property
    def address(self) -> str:
        return str(self.node.operator.address)

    def send(self, contract: Contract, function: str, *args: Any) -> None:
        self.scored.people.chain.send(self.node.operator, contract, function, *args)

    def ensure(
        self, done: Any, contract: Contract, function: str, *args: Any, unless: Any = None
    ) -> None:
        if not done() and not (unless and unless()):
            self.send(contract, function, *args)


@dataclass
class FinishedScoredJob(FinishedJob):
    """The job, its validators, and the states that free nodes started from."""

    folder: Path = Path()
    duties: dict[str, Validator] = field(default_factory=dict)
    started: dict[tuple[int, str], State] = field(default_factory=dict)

    def play(self) -> None:
        people = self.people
        scores = (people.scores, "adopt", people.job, *TERMS.score_windows)
        people.chain.send(people.sponsor, *scores)
        everybody = set(VERIFIERS)
        self.scored_round(everybody, everybody)
        self.scored_round(everybody, everybody - {"vito"}, adrift="eve")
        self.scored_round(everybody - {"vito"}, everybody - {"vito"}, unproven="cat")
        self.scored_round(set(), set())
        self.duties.pop("vera")
        shutil.rmtree(self.folder / "vera")
        self.scored_round(everybody, everybody)

    def scored_round(
        self,
        committing: Collection[str],
        revealing: Collection[str],
        adrift: str = "",
        unproven: str = "",
    ) -> None:
        """One finalized round of all trainers, scored by these validators.

        `adrift` starts from another model and reveals noise; `unproven` posts no sync sample.
        """
        people = self.people
        people.open()
        plan = self._plan()
        works = {name: self._work(plan, people.nodes[name], name == adrift) for name in TRAINERS}
        self._show(works)
        people.chain.mine()
        if people.round % 2:  # in the others the audit seed is never captured
            people.chain.send(people.faucet, people.results, "capture_audit_seed", *people.place)
        for name in TRAINERS:
            if name != unproven:
                self._prove(name)
        arrays = self._propose(plan)
        if unproven:
            people.chain.warp(500)  # as long as a validator waits for it
        for name in sorted(committing):
            assert "committed" in self._duty(name)
        if len(committing) < len(VERIFIERS):
            scoring = Consensus(self.network).scoring(*people.place)
            people.wait_until(scoring.commit_deadline)
        for name in sorted(revealing):
            assert "revealed" in self._duty(name)
        if len(revealing) < len(committing):
            people.chain.warp(TERMS.score_reveal_s + 1)
        if committing:
            sender = DirectSender(self, people.nodes["abe"])
            view = observe(self.network, people.job, self.network.chain.head())
            order = Upkeep(self.network, sender, 0.0, 0.0)._close_scoring(view)  # type: ignore[arg-type]
            sender.send(order.contract, order.function, *order.args)
        people.confirm(arrays, *VERIFIERS)

    def _duty(self, name: str) -> str:
        if name not in self.duties:
            self.duties[name] = self._validator(name)
        view = observe(self.network, self.people.job, self.network.chain.head())
        did = self.duties[name].step(view, self.people.nodes[name].node_id)
        assert did is not None, (name, (self.folder / name / "log").read_text())
        return did

    def _validator(self, name: str) -> Validator:
        home, node = self.folder / name, self.people.nodes[name]
        (home / "artefacts").mkdir(parents=True)
        context: Any = SimpleNamespace(
            journal=Journal(home / "journal"),
            artefacts=home / "artefacts",
            log=open_log("verifier", "debug", path=home / "log"),
            metrics=Metrics("verifier"),
            sender=DirectSender(self, node),
            wallet=node.operator,
        )
        reader = RoundReader(self.network, self.store, DEVICE)
        return Validator(Consensus(self.network), context, reader)

    def _prove(self, name: str) -> None:
        """Post a trainer's sync sample."""
        people, node = self.people, self.people.nodes[name]
        seed = self.network.seed(*people.place, people.state, audit=True)
        assert seed is not None
        sample = open_samples(self.started[people.round, name], seed, 2)
        digest = digest_of(self.store.put_bytes(sample))
        place = (*people.place, node.node_id)
        people.chain.send(node.operator, people.scores, "post_samples", *place, digest)

    def _work(self, plan: Plan, node: Node, noisy: bool) -> CommittedWork:
        """Train, publish, and what to commit to. `noisy`: from another model, and noise."""
        models, people = Models(self.network, self.store), self.people
        job, model = models.job(people.job), bytes(people.state.prev_model)
        before = models.at(people.job, model)
        if noisy:
            before = {key: tensor + 0.25 for key, tensor in before.items()}
        self.started[people.round, node.name] = before
        gradient = noise(before) if noisy else None
        place = (job, plan, before, node.node_id)
        work = make_work(*place, job_id=people.job, gradient=gradient, model=model)
        return self._published(work, node)

    def _outcome(self, plan: Plan, standing: Any = None) -> Outcome:
        chosen = Consensus(self.network).standing(*self.people.place)
        return super()._outcome(plan, chosen)


def make_finished_scored_job(directory: Path, supervisor: Supervisor) -> FinishedScoredJob:
    """A chain with the whole system, and the job played."""
    scored = make_job(FinishedScoredJob, directory, supervisor, FREE_JOB)
    scored.folder = directory / "validators"
    scored.play()
    return scored
