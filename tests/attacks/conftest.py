# SPDX-License-Identifier: Apache-2.0
"""One chain with the whole system on it for all attacks; each test starts from the same snapshot.

In the system: four trainers (ann, bob, cat, and the attacker eve), three verifiers (vic, vera,
vito), two aggregators (abe, ada), a committee of five, and a sponsor with a funded job. After each
test the books must balance to the unit. In the tests of copies and fakes, what a verifier's key
reports on chain is what the project's own re-execution finds in real pseudo-gradients of a real
model on real text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree

import pytest
import torch
from eth_utils import keccak

from agents import trainer, verifier
from agents.jobs.job import JobContext
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder
from agents.training.state import State
from agents.verify.spot_checks import Finding, RoundInputs, reexecute
from scripts._net.anvil import start_anvil
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import (
    FUNDED_ROUNDS,
    TERMS,
    TRAINERS,
    CommittedWork,
    Node,
    People,
    found,
)
from tests.stage.chain.tasks import Tasks
from tests.stage.memory.honest_round import DEVICE, TinyJob, make_tiny_job, make_work

FOREIGN_CLASS = "torch=0;device=another machine"


@dataclass(frozen=True)
class PublishedWork:
    """A node's work: what it commits to on chain, and what others can fetch of it."""

    node: Node
    committed: CommittedWork
    submission: Submission


def plan_of(tiny: TinyJob, people: People) -> Plan:
    """The plan of the round that is open, from the chain's snapshot and its own seed."""
    opened = people.open()
    people.chain.send(people.faucet, people.rounds, "capture_seed", *people.place)
    return tiny.plan_of(bytes(people.state.seed), opened["nodes"], opened["weights"])


def publish_work(
    tiny: TinyJob,
    plan: Plan,
    node: Node,
    gradient: State | None = None,
    order: WorkOrder | None = None,
    publish: bool = True,
    foreign: bool = False,
    inner: State | None = None,
) -> PublishedWork:
    """Publish a node's honest work, or dishonest work: another `gradient` than it trained, or one
    trained by another `order`.

    `publish` False keeps the payload back. `foreign`: claim another determinism class. `inner`: the
    state that the inner optimizer starts from.
    """
    place = tiny.job, plan, tiny.before, node.node_id
    work = make_work(*place, order=order, gradient=gradient, inner=inner)
    if foreign:
        proof = work.proof.model_copy(update={"determinism_class": FOREIGN_CLASS})
        work = replace(work, proof=proof)
    work.publish(tiny.store, payload=publish)
    reveal = work.reveal()
    committed = CommittedWork.of_reveal(reveal, keccak(text=f"salt of {node.name}"))
    return PublishedWork(node, committed, fetch(reveal, tiny.job, tiny.store))


def outcome_of(tiny: TinyJob, plan: Plan, works: Sequence[PublishedWork]) -> Outcome:
    """The round's result as every honest party computes it."""
    return tiny.outcome_of(plan, [work.submission for work in works])


def inputs_of(
    tiny: TinyJob, plan: Plan, works: Sequence[PublishedWork], flagged: Sequence[Node] = ()
) -> RoundInputs:
    """What a verifier starts from; the random sample is empty."""
    submissions = [work.submission for work in works]
    return tiny.inputs_of(plan, submissions, [node.node_id for node in flagged])


def finding_of(tiny: TinyJob, inputs: RoundInputs, node: Node) -> Finding:
    return reexecute(inputs, node.node_id, DEVICE, tiny.store)


def mixed(gradient: State, share: float, seed: int = 0) -> State:
    """The gradient with noise of `share` of each tensor's own size."""
    source = torch.Generator().manual_seed(seed)
    return {
        name: tensor + share * tensor.std() * torch.randn(tensor.shape, generator=source)
        for name, tensor in sorted(gradient.items())
    }


def shortened(task: WorkOrder, steps: int) -> WorkOrder:
    """The task with all but its first batches skipped."""
    first, _ = task.batch_ranges[0]
    return replace(task, batch_ranges=((first, first + steps),))


@pytest.fixture(scope="session")
def tiny_job(tmp_path_factory: pytest.TempPathFactory) -> TinyJob:
    return make_tiny_job(EmbeddedStore(tmp_path_factory.mktemp("job") / "store"), rounds=8)


@pytest.fixture
def tiny(tiny_job: TinyJob, tmp_path: Path) -> TinyJob:
    """The job in a store of the test's own: what another test published is not there."""
    folder = tmp_path / "published"
    copytree(tiny_job.store.root, folder)
    store = EmbeddedStore(folder)
    return replace(tiny_job, store=store, job=JobContext(tiny_job.job.spec, store))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_job: TinyJob) -> Iterator[People]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        # Five times what a task may pay by default: the more, the better for whoever cheats.
        people = found(
            anvil.url, TRAINERS, tasks=TaskTerms(max_fee=10 * ZOO, fee_per_s=ZOO // 1_000)
        )
        funds = TERMS.reward_per_round * FUNDED_ROUNDS
        people.person("sponsor", funds)
        people.job = people.create_job(people.sponsor, TERMS.encode(tiny_job.published), funds)
        yield people


@pytest.fixture
def people(base: People) -> Iterator[People]:
    snapshot = base.chain.snapshot()
    people = replace(
        base,
        nodes=dict(base.nodes),
        start=dict(base.start),
        sponsored={sponsor: list(jobs) for sponsor, jobs in base.sponsored.items()},
    )
    yield people
    people.assert_books_balance()
    base.chain.revert(snapshot)


@pytest.fixture(scope="module")
def pool(base: People) -> Iterator[Tasks]:
    """Six executors of redundant tasks, for all tests of a file."""
    snapshot = base.chain.snapshot()
    yield Tasks.build(replace(base, nodes=dict(base.nodes), start=dict(base.start)))
    base.chain.revert(snapshot)


@pytest.fixture
def tasks(pool: Tasks) -> Iterator[Tasks]:
    snapshot = pool.chain.snapshot()
    people = replace(pool.people, nodes=dict(pool.people.nodes), start=dict(pool.people.start))
    tasks = Tasks(people, pool.creator, list(pool.executors))
    tasks.begin()
    yield tasks
    people.assert_books_balance()
    pool.chain.revert(snapshot)


@pytest.fixture
def ann(people: People) -> Node:
    return people.nodes["ann"]


@pytest.fixture
def bob(people: People) -> Node:
    return people.nodes["bob"]


@pytest.fixture
def cat(people: People) -> Node:
    return people.nodes["cat"]


@pytest.fixture
def eve(people: People) -> Node:
    """The attacker: a registered trainer with a passed benchmark."""
    return people.nodes["eve"]


@pytest.fixture
def crowd(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Crowd]:
    """Ann trains and nobody else does. No job is live yet."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    for role in (trainer, verifier):
        monkeypatch.setattr(role, "_PATIENCE_S", 0.0)
    people.chain.send(people.sponsor, people.jobs, "cancel_job", people.job)
    for name in ("bob", "cat", "eve"):
        node = people.nodes[name]
        people.chain.send(node.operator, people.registry, "set_active", node.node_id, False)
    with ExitStack() as stack:
        yield Crowd(people, tiny.store, tmp_path, stack)
