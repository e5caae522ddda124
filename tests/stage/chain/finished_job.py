# SPDX-License-Identifier: Apache-2.0
"""A finished job on a real chain, made by a script in seconds: what the audits of this folder see.

Rule: every deed is a transaction of the key that may do it, every artefact is made by the agents'
own functions from a real model and real text. Round 1 is honest. In round 2 eve reveals noise and
is found INVALID. In round 3 bob keeps silent after committing and eve copies ann. Round 4 is void.
Round 5 is honest again; the job is complete, rewards are claimed, every slash is executed. The pay
of one round is retained, which eve forfeits and ann gets in the end. In a second job of one round
cat reveals noise and nobody says so. In a third everything is contested: a wrong result is proposed
and successfully challenged, another aggregator proposes the right one, two verifiers accuse honest
bob, and his appeal is upheld.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from eth_utils import keccak
from web3 import HTTPProvider

from agents.audit.replay import audit_job
from agents.audit.sources.findings import Audit
from agents.jobs.publish import Published, publish_job
from agents.protocol.network import Network
from agents.protocol.structs import Reveal
from agents.protocol.view import observe
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Plan, Plans
from agents.rounds.proof import ProofOfComputation
from agents.rounds.submissions import fetch
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.storage.canonical import dumps
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.data import Dataset
from scripts._net.anvil import start_anvil
from scripts._net.compiled import ROOT
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from tests.stage.chain.benchmarks import measure
from tests.stage.chain.lying_sources import Lie, RecordedProvider, lying_network, truth
from tests.stage.chain.people import (
    COMMIT,
    COPIED,
    FINDERS_DEPOSIT,
    INVALID,
    REVEAL,
    TERMS,
    TRAINERS,
    CommittedWork,
    Node,
    People,
    found,
)
from tests.stage.forked import forked
from tests.stage.memory.honest_round import DEVICE, HonestWork, make_work, noise
from tests.stage.memory.tiny_specs import tiny_model

JOB, UNPUNISHED, CONTESTED = 1, 2, 3
ARTEFACTS = (
    "job spec",
    "genesis checkpoint",
    "dataset manifest",
    "shard 0",
    "payload",
    "proof",
    "trace",
    "update",
    "checkpoint",
    "report",
    "evidence",
)
ROUNDS = 4  # finalized
FIRST = replace(TERMS, retain_rounds=1)  # of job 1
_WEEK = 7 * 86_400  # that INVALID suspends for
_TEXT = [b"line %d of the audited corpus, to the fourth %d\n" % (i, i**4) for i in range(700)]
SPEC: dict[str, Any] = {
    "model": tiny_model(8, 12, 12),
    "optimizer": {"batch_size": 2, "seq_len": 12},
    "batches_per_round": 8,
    "eval_batches": 2,
    "rounds": ROUNDS,
    "checkpoint_every": 2,
    "audit_sample": 0,
}


Stage = TypeVar("Stage", bound="FinishedJob")


@dataclass
class FinishedJob:
    """The finished job. `reports`: violation reports to execute, in order."""

    people: People
    network: Network
    store: EmbeddedStore
    published: Published
    url: str
    deployment: Path
    reports: list[bytes] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    outcomes: dict[tuple[int, int], Outcome] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to know: not the connections of this one."""
        return {k: v for k, v in vars(self).items() if k not in ("network", "provider")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.network = _network(self.url, self.deployment)

    @cached_property
    def provider(self) -> RecordedProvider:
        """The chain's answers, recorded: it is finished."""
        return RecordedProvider(HTTPProvider(self.url))

    def audited(self, store: Any = None, lie: Lie = truth, job: int = JOB, **options: Any) -> Audit:
        """An audit over the recorded chain, by default of the events and state alone."""
        network = lying_network(self.provider, self.network.deployment, lie)
        return audit_job(network, store or self.store, job, **{"receipts": False, **options})

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`ape run audit` as the program that it is."""
        return subprocess.run(
            [
                *(sys.executable, "-c", "from scripts.audit import cli; cli()"),
                *self._sources,
                *arguments,
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
        )

    def forked(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`ape run audit` in a process of its own, as torch's settings demand."""
        return forked("audit", *self._sources, *arguments)

    @property
    def _sources(self) -> list[str]:
        """The options that say where the chain and the store are."""
        where = ["--rpc", self.url, "--deployment", str(self.deployment)]
        return [*where, "--store", str(self.store.root)]

    def node(self, name: str) -> int:
        return self.people.nodes[name].node_id

    def artefact(self, kind: str) -> str:
        """The CID of one artefact of job 1 of each kind; nodes' artefacts are ann's of round 1."""
        outcome = self.outcomes[JOB, 1]
        reveal = self.network.reveals(JOB, 1, 0)[self.node("ann")]
        proof = self.store.resolve(reveal.proof)
        dataset = self.published.spec.data
        found = {
            "job spec": lambda: self.published.spec_cid,
            "genesis checkpoint": lambda: self.published.checkpoint_cid,
            "dataset manifest": lambda: dataset,
            "shard 0": lambda: Dataset.from_bytes(self.store.get(dataset, 1 << 20)).shards[0].cid,
            "payload": lambda: self.store.resolve(reveal.content),
            "proof": lambda: proof,
            "trace": lambda: self.trace(1),
            "update": lambda: outcome.report.update,
            "checkpoint": lambda: self.outcomes[JOB, 2].report.checkpoint,
            "report": lambda: cid_of_bytes(outcome.report.to_bytes()),
            "evidence": lambda: self.evidence[0],
        }
        cid = found[kind]()
        assert cid is not None
        return cid

    def trace(self, round_id: int) -> str:
        """The CID of ann's trace in a round of job 1."""
        reveal = self.network.reveals(JOB, round_id, 0)[self.node("ann")]
        return ProofOfComputation.from_bytes(self.store.get_digest(reveal.proof, 1 << 20)).trace

    # -- making it -----------------------------------------------------------------------------

    def play(self) -> None:
        self.round_(TRAINERS)
        self.round_(TRAINERS, noisy=("eve",))
        self._convict("eve")
        self.round_(TRAINERS, silent=("bob",), copies={"eve": "ann"})
        self._void()
        self._execute()
        people, bob = self.people, self.people.nodes["bob"]
        # His stake fell below the minimum.
        people.chain.send(bob.owner, people.registry, "add_stake", bob.node_id, 20 * ZOO)
        self.round_([name for name in TRAINERS if name != "eve"])
        ann = people.nodes["ann"]
        people.chain.send(people.faucet, people.pool, "release_retained", JOB, ann.node_id)
        people.chain.send(ann.payout, people.pool, "claim")
        people.chain.send(people.sponsor, people.pool, "refund", people.job)
        self._new_job()
        self.round_([name for name in TRAINERS if name != "eve"], noisy=("cat",), blind=True)
        self._new_job()
        self._contest()

    def _execute(self) -> None:
        for report in self.reports:
            self.people.execute(report)
        self.reports.clear()

    def _convict(self, name: str) -> None:
        """The report on a node is carried out, and the node is back when it has served its time."""
        people, node = self.people, self.people.nodes[name]
        self._execute()
        people.chain.warp(_WEEK + 1)
        people.give(node.owner, 20 * ZOO)
        people.chain.send(node.owner, people.registry, "add_stake", node.node_id, 20 * ZOO)

    def _new_job(self) -> None:
        """Another job of the same model and data, of one round."""
        people = self.people
        fields = self.published.spec.model_dump(mode="json")
        short = self.published.spec.from_dict({**fields, "rounds": 1})
        spec = self.store.put_bytes(short.to_bytes())
        published = replace(self.published, spec=short, spec_cid=spec)
        reward = TERMS.reward_per_round
        people.give(people.sponsor, reward)
        people.job = people.create_job(people.sponsor, TERMS.encode(published), reward)

    def _contest(self) -> None:
        people = self.people
        names = [name for name in TRAINERS if name != "eve"]
        people.open()
        plan = self._plan()
        works = {name: self._work(plan, people.nodes[name], False) for name in names}
        self._show(works)
        liar = people.on_duty
        people.offer({people.nodes["ann"]: 1}, by=liar)
        job, number = people.place
        case = {"version": 1, "job": job, "round": number, "wrong": ["everything"]}
        evidence = self.store.put_bytes(dumps(case))
        people.announce_challenge(people.nodes["cat"].operator, digest_of(evidence))
        result = people.challenge(people.nodes["cat"].operator, digest_of(evidence))
        people.resolve(result, True)
        arrays = self._propose(plan, people.other_aggregator(liar))
        report = self._report("bob", INVALID, "vic", "vera")
        people.confirm(arrays)
        bob = people.nodes["bob"].owner
        people.chain.send(bob, people.reports, "appeal", report, keccak(text="I did it"))
        people.decide((people.reports, "resolve_appeal", (report, True)))

    def round_(
        self,
        names: Sequence[str],
        noisy: Sequence[str] = (),
        silent: Sequence[str] = (),
        copies: Mapping[str, str] | None = None,
        blind: bool = False,
    ) -> None:
        """One finalized round in which these nodes commit; `blind`: nobody reports anything."""
        people, copies = self.people, copies or {}
        people.open()
        plan = self._plan()
        works: dict[str, CommittedWork] = {}
        for name in names:
            if name not in copies:
                works[name] = self._work(plan, people.nodes[name], name in noisy)
        for name, other in copies.items():
            own = self._work(plan, people.nodes[name], False)
            works[name] = replace(own, content=works[other].content)
        self._show({name: works[name] for name in names}, silent)
        for name in silent:
            call = (people.rounds, "slash_unrevealed", *people.place, people.nodes[name].node_id)
            people.chain.send(people.nodes["cat"].operator, *call)
        arrays = self._propose(plan)
        for name in () if blind else noisy:
            self.reports.append(self._report(name, INVALID, "vic", "vera"))
        for name in copies:
            self.reports.append(self._report(name, COPIED, "vera", "vito"))
        people.confirm(arrays)

    def _show(self, works: Mapping[str, CommittedWork], silent: Sequence[str] = ()) -> None:
        """Commit to these works, in their order, and reveal all but those of the `silent`."""
        people = self.people
        for name, work in works.items():
            people.commit(people.nodes[name], work)
        people.pass_phase(COMMIT)
        for name, work in works.items():
            if name not in silent:
                people.reveal(people.nodes[name], work)
        people.pass_phase(REVEAL)

    def _report(self, name: str, violation: int, *verifiers: str) -> bytes:
        """Verifiers report a node, with evidence in the store; the report's id."""
        people = self.people
        accused = (*people.place, people.nodes[name].node_id)
        job, number, node = accused
        case = {"version": 1, "job": job, "round": number, "node": node, "violation": violation}
        for verifier in verifiers:
            judge = people.nodes[verifier]
            evidence = self.store.put_bytes(dumps(case | {"by": judge.node_id}))
            self.evidence.append(evidence)
            digest = people.announcement(people.reports, node, judge.node_id, digest_of(evidence))
            call = (job, number, judge.node_id, digest, FINDERS_DEPOSIT)
            people.chain.send(judge.operator, people.reports, "announce_report", *call)
            call = (job, number, judge.node_id, node, violation, digest_of(evidence))
            people.chain.send(judge.operator, people.reports, "report", *call)
        return bytes(people.chain.call(people.reports, "report_id_of", *accused, violation))

    def _void(self) -> None:
        self.people.open()
        self.people.pass_phase(COMMIT)

    def _plan(self) -> Plan:
        models = Models(self.network, self.store)
        plans = Plans(self.network, models)
        people = self.people
        if not people.state.seed.strip(b"\0"):
            people.chain.send(people.faucet, people.rounds, "capture_seed", *people.place)
        plan = plans.of(observe(self.network, people.job, self.network.chain.head()))
        assert plan is not None
        return plan

    def _work(self, plan: Plan, node: Node, noisy: bool) -> CommittedWork:
        """Train, publish, and what to commit to. `noisy`: noise in place of the gradient."""
        models = Models(self.network, self.store)
        before = models.at(self.people.job, bytes(self.people.state.prev_model))
        gradient = noise(before) if noisy else None
        work = make_work(
            models.job(self.people.job),
            plan,
            before,
            node.node_id,
            job_id=self.people.job,
            gradient=gradient,
        )
        return self._published(work, node)

    def _published(self, work: HonestWork, node: Node) -> CommittedWork:
        """Put the work in the store; what commits to it."""
        work.publish(self.store)
        salt = keccak(text=f"salt of {node.name} in round {self.people.round}")
        return CommittedWork.of_reveal(work.reveal(), salt)

    def _propose(self, plan: Plan, by: Node | None = None) -> tuple[list[int], list[int]]:
        """The aggregator on duty, or another node, proposes the true result."""
        people = self.people
        outcome = self._outcome(plan)
        self.outcomes[people.job, people.round] = outcome
        self.store.put_bytes(outcome.update)
        if outcome.checkpoint is not None:
            self.store.put_bytes(outcome.checkpoint)
        report = self.store.put_bytes(outcome.report.to_bytes())
        arrays = list(outcome.nodes), list(outcome.contributions)
        by = by or people.on_duty
        people.chain.send(
            by.operator,
            people.results,
            "propose_result",
            *people.place,
            by.node_id,
            outcome.model,
            digest_of(outcome.report.update),
            digest_of(report),
            *arrays,
        )
        return arrays

    def _outcome(self, plan: Plan, standing: Mapping[int, int] | None = None) -> Outcome:
        """The true result of the running round. `standing`: chooses whom it merges."""
        people = self.people
        models = Models(self.network, self.store)
        job, state = models.job(people.job), people.state
        found = self.network.reveals(*people.place, int(state.opened_block))
        reveals: list[Reveal] = list(found.values())
        submissions = [fetch(r, job, self.store, plan.manifest.seed) for r in reveals]
        stakes = self.network.stakes_at([r.node for r in reveals], int(state.opened_block))
        before = models.at(people.job, bytes(state.prev_model))
        place = (*people.place, plan, before, submissions, DEVICE, stakes)
        return compute(job, *place, standing=standing)


def make_finished_job(directory: Path, supervisor: Supervisor) -> FinishedJob:
    """A chain with the whole system, and the job played to its end."""
    finished = make_job(FinishedJob, directory, supervisor, SPEC)
    finished.play()
    return finished


def make_job(
    kind: type[Stage],
    directory: Path,
    supervisor: Supervisor,
    spec: Mapping[str, Any],
    tasks: TaskTerms | None = None,
) -> Stage:
    """A chain with the whole system, its people, and a job with funds for its rounds."""
    anvil = start_anvil(supervisor, directory)
    path = directory / "deployment.json"
    store = EmbeddedStore(directory / "store")
    people = found(
        anvil.url,
        TRAINERS,
        write_to=path,
        tasks=tasks,
        measured=lambda people, node: measure(people, node, store),
    )
    published = publish_job(store, _TEXT, spec)
    amount = TERMS.reward_per_round * (ROUNDS + 1)
    people.person("sponsor", amount)
    people.job = people.create_job(people.sponsor, FIRST.encode(published), amount)
    return kind(people, _network(anvil.url, path), store, published, anvil.url, path)


def _network(url: str, deployment: Path) -> Network:
    client = ChainClient(url, open_log("audit test", "warning", True, None))
    return Network(client, load_deployment(deployment))
