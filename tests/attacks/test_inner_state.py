# SPDX-License-Identifier: Apache-2.0
"""`optimizer.inner_state: kept`: eve starts a round from a state that its own rounds did not leave.

One round of the job is over: its facts and artefacts are there, as chain and store would have them.
The second is played on the chain. A verifier finds each node's state by doing the first round again
and then does the second: whoever started from anything else is INVALID, and is slashed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from eth_utils import keccak

from agents.jobs.publish import ZOO
from agents.protocol.numbers import Violation
from agents.rounds.codec_memory import Memories
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.rounds.submissions import Submission, fetch
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import WorkOrder, work_order
from agents.training.state import State, model_hash
from agents.verify.spot_checks import Finding, reexecute
from tests.attacks.conftest import PublishedWork, inputs_of, outcome_of, plan_of, publish_work
from tests.stage.chain.people import COMMIT, INVALID, TERMS, Node, People, share
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    ChainFacts,
    HonestWork,
    TinyJob,
    make_tiny_job,
    make_work,
)

TRAINED = ("ann", "bob", "cat", "eve")
FIFTH = 20 * ZOO  # of the least stake
FIRST = keccak(text="seed of the first round")
MUON = {
    "batch_size": 2,
    "seq_len": 16,
    "inner": "muon",
    "inner_state": "kept",
    "inner_state_rounds": 4,
}


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> TinyJob:
    store = EmbeddedStore(tmp_path_factory.mktemp("kept") / "store")
    return make_tiny_job(store, rounds=8, optimizer=MUON)


@dataclass
class Second:
    """The second round, which is open on the chain, and what each node kept of the first."""

    tiny: TinyJob
    people: People
    plan: Plan
    facts: ChainFacts
    left: dict[Node, State]
    memories: Memories = field(init=False)

    def __post_init__(self) -> None:
        models = Models(self.facts, self.tiny.store)
        plans = Plans(self.facts, models)
        self.memories = Memories(self.facts, self.tiny.store, models, plans, DEVICE)

    def work(self, node: Node, inner: State | None, foreign: bool = False) -> PublishedWork:
        return publish_work(self.tiny, self.plan, node, foreign=foreign, inner=inner)

    def honest(self) -> list[PublishedWork]:
        """The work of everybody but eve."""
        return [self.work(node, kept) for node, kept in self.left.items() if node.name != "eve"]

    def finding(self, works: Sequence[PublishedWork], node: Node) -> Finding:
        carried, place = self.memories.carried, (JOB, self.plan)
        found = replace(
            inputs_of(self.tiny, self.plan, works),
            inner=lambda one: carried(*place, one).inner,
            moved=lambda one, seed: carried(*place, one, moved_by=seed),
        )
        return reexecute(found, node.node_id, DEVICE, self.tiny.store)

    def pay(self, works: Sequence[PublishedWork], cheat: Node) -> dict[Node, int]:
        """Play the round to its end with a cheat that verifiers report; who is due what."""
        people = self.people
        for work in works:
            people.commit(work.node, work.committed)
        people.pass_phase(COMMIT)
        for work in works:
            people.reveal(work.node, work.committed)
        outcome = outcome_of(self.tiny, self.plan, works)
        due = dict(zip(outcome.nodes, outcome.contributions, strict=True))
        arrays = people.offer({w.node: due[w.node.node_id] for w in works}, label="real")
        report = people.report(cheat, INVALID, "vic", "vera")
        people.confirm(arrays)
        people.execute(report)
        total = sum(due.values())
        return {w.node: share(due[w.node.node_id], total) for w in works if w.node != cheat}


Begin = Callable[..., Second]


@pytest.fixture
def begin(people: People, keeping: TinyJob) -> Begin:
    """Ends a first round and opens the second. `order`: what eve really trained in the first, by
    what she was to; `caught`: whether that was found out then."""

    def begun(
        order: Callable[[WorkOrder], WorkOrder] = lambda order: order, caught: bool = False
    ) -> Second:
        funds = 2 * TERMS.reward_per_round
        sponsor = people.person("second sponsor", funds)
        people.job = people.create_job(sponsor, TERMS.encode(keeping.published), funds)
        nodes = {people.nodes[name].node_id: people.nodes[name] for name in TRAINED}
        facts = ChainFacts(keeping.published)
        facts.open(1, FIRST, sorted(nodes))
        first = keeping.plan_of(FIRST, sorted(nodes), facts.snapshots[1].weights)
        works: dict[int, HonestWork] = {}
        for node_id, node in nodes.items():
            own = work_order(
                first.manifest, node_id, keeping.job.spec, JOB, 0, model_hash(keeping.before)
            )
            done = order(own) if node.name == "eve" else own
            works[node_id] = make_work(keeping.job, first, keeping.before, node_id, order=done)
        outcome = keeping.outcome_of(first, [submitted(keeping, work) for work in works.values()])
        facts.record(1, outcome, keeping.store)
        if caught:
            facts.invalid.add((1, people.nodes["eve"].node_id))
        left = {nodes[i]: work.inner for i, work in works.items() if work.inner is not None}
        assert len(left) == len(nodes)
        now = replace(keeping, before=outcome.state)
        plan = replace(plan_of(now, people), step=1, invalid=frozenset(facts.invalid))
        return Second(now, people, plan, facts, left)

    return begun


def submitted(tiny: TinyJob, work: HonestWork) -> Submission:
    work.publish(tiny.store)
    return fetch(work.reveal(), tiny.job, tiny.store)


def half(order: WorkOrder) -> WorkOrder:
    (first, last), *_ = order.batch_ranges
    return replace(order, batch_ranges=((first, first + (last - first) // 2),))


def louder(state: State) -> State:
    """The same momentum, ten times as long: Muon's step then follows it and no gradient."""
    return {name: t if name == "steps" else 10 * t for name, t in state.items()}


@pytest.mark.parametrize("lie", ["lost", "louder", "ann's"])
@pytest.mark.parametrize("foreign", [False, True], ids=["same class", "foreign class"])
def test_a_state_of_her_choice__is_slashed_and_unpaid(
    begin: Begin, ann: Node, eve: Node, lie: str, foreign: bool
) -> None:
    """Whether she says that her disk is gone, makes up a state or takes ann's: also where she names
    a determinism class that no verifier runs, so that only the tolerances speak."""
    second = begin()
    state = {"lost": None, "louder": louder(second.left[eve]), "ann's": second.left[ann]}[lie]
    works = [*second.honest(), second.work(eve, state, foreign)]
    assert second.finding(works, eve).violation is Violation.INVALID
    for work in works[:-1]:
        assert second.finding(works, work.node).violation is None
    due = second.pay(works, eve)
    second.people.assert_whole(due)
    assert second.people.gain(eve) == -FIFTH


def test_a_round_of_half_the_steps__has_to_be_done_after_all(
    begin: Begin, people: People, eve: Node
) -> None:
    """She made half of her steps in the first round, was not drawn, and was paid. What she kept of
    it is worth nothing: the state that she needs now is that of all steps."""
    second = begin(half)
    works = [*second.honest(), second.work(eve, second.left[eve])]
    assert second.finding(works, eve).violation is Violation.INVALID
    whole = second.memories.carried(JOB, second.plan, eve.node_id).inner
    assert whole is not None and model_hash(whole) != model_hash(second.left[eve])
    redone = [*second.honest(), second.work(eve, whole)]
    assert second.finding(redone, eve).violation is None
    second.people.assert_whole(second.pay(works, eve))
    assert people.gain(eve) == -FIFTH


def test_a_round_that_was_invalid__leaves_no_state_to_go_on_from(
    begin: Begin, people: People, eve: Node
) -> None:
    second = begin(half, caught=True)
    works = [*second.honest(), second.work(eve, second.left[eve])]
    assert second.finding(works, eve).violation is Violation.INVALID
    afresh = [*second.honest(), second.work(eve, None)]
    assert second.finding(afresh, eve).violation is None
    second.people.assert_whole(second.pay(works, eve))
    assert people.gain(eve) == -FIFTH
