# SPDX-License-Identifier: Apache-2.0
"""Eve lets herself be found invalid and is cleared once the next round is open.

Her batches were handed out again when that round opened. Whoever looked after the clearing used to
derive other batches than whoever looked before it: all honest work was INVALID for him, and an
honest result wrong. Anybody picks the block of a clearing, because anybody may dismiss an appeal
that was not decided in time.

The first tests need no chain. The last ones play on the chain what becomes of the mark.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_utils import keccak

from agents.protocol.marks import Marks
from agents.protocol.network import Network
from agents.protocol.numbers import Phase
from agents.rounds.models import Models
from agents.rounds.plan import Plan
from agents.rounds.reader import RoundReader
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment
from agents.runtime.logs import open_log
from agents.storage.embedded import EmbeddedStore
from agents.verify.judging import Judge, result_errors
from tests.stage.chain.people import COMMIT, EVIDENCE, Node, People
from tests.stage.memory.honest_round import (
    DEVICE,
    JOB,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    make_work,
    proposal_of,
)

EVE = 3
HONEST = tuple(node for node in NODES if node != EVE)  # her stake is locked, so she is in no round
SECOND = keccak(text="second seed")


class Cleared:
    """The second round, worked through while eve was convicted. `view`: as an agent sees it."""

    def __init__(self, first: HonestRound) -> None:
        self.store, self.facts = first.store, ChainFacts(first.published)
        self.facts.open(1, SEED)
        self.facts.record(1, first.compute(first.honest()), first.store)
        self.facts.invalid = {(1, EVE)}
        self.view: Any = self.facts.open(2, SECOND, HONEST)
        self.plan = self.seen()
        before = Models(self.facts, self.store).at(JOB, self.facts.model)
        works = {node: make_work(first.job, self.plan, before, node) for node in HONEST}
        for work in works.values():
            work.publish(self.store)
        self.facts.revealed = {node: work.reveal() for node, work in works.items()}
        reader = self.reader()
        outcome = reader.outcome(self.view, reader.submissions(self.view))
        assert outcome is not None
        reader.publish(outcome)
        self.facts.proposed = proposal_of(outcome)
        self.view = SimpleNamespace(**{**vars(self.view), "phase": Phase.CHALLENGE})

    def reader(self) -> RoundReader:
        """Of somebody who comes now and has seen nothing yet."""
        return RoundReader(self.facts, self.store, DEVICE)

    def seen(self) -> Plan:
        """The plan, as whoever comes now derives it."""
        found = self.reader().plans.of(self.view)
        assert found is not None
        return found


@pytest.fixture(params=["before", "after"])
def cleared(request: pytest.FixtureRequest, tmp_path: Path) -> Cleared:
    """Seen by who comes before the clearing, and after it."""
    made = Cleared(make_honest_round(EmbeddedStore(tmp_path / "store")))
    if request.param == "after":
        made.facts.invalid.clear()
    return made


def test_a_clearing__moves_no_batch_of_a_round_that_is_open(cleared: Cleared) -> None:
    found = cleared.seen()
    assert found.carry_in == cleared.plan.carry_in != ()
    assert found.manifest.hash() == cleared.plan.manifest.hash()


def test_a_clearing__makes_no_honest_result_wrong(cleared: Cleared) -> None:
    assert result_errors(cleared.reader(), cleared.view, False) == []


def test_a_clearing__makes_no_honest_work_invalid(cleared: Cleared) -> None:
    judge = Judge(cleared.facts, cleared.store, DEVICE, lambda _: None)
    for node in HONEST:
        finding = judge.finding(cleared.view, node)
        assert finding.violation is None, finding.reason


# -- on the chain ----------------------------------------------------------------------------------


def undecided(people: People, ann: Node, bob: Node, eve: Node) -> bytes:
    """The report on eve, who is convicted in a round, and whose appeal nobody decides in time."""
    report = people.convict(eve, ann, bob)
    people.chain.send(eve.owner, people.reports, "appeal", report, EVIDENCE)
    people.wait_until(int(people.chain.call(people.reports, "report_of", report).deadline))
    return report


def marks_of(people: People, round_id: int) -> Marks:
    """What counts as invalid in a round, for an agent that starts now."""
    client = ChainClient(people.chain._url, open_log("marks", "warning", True, None))
    network = Network(client, Deployment("marks", 31_337, 0, dict(people.contracts)))
    return network.marks_at(people.job, round_id, network.round(people.job, round_id))


def test_a_round__keeps_the_marks_that_it_opened_with(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    report = undecided(people, ann, bob, eve)
    place = (*people.place, eve.node_id)
    opened = people.open()
    assert eve.node_id not in opened["nodes"]
    marked = {place[1:]}
    assert people.chain.call(people.results, "is_invalid", *place)
    assert marks_of(people, people.round) == marked
    people.chain.send(people.faucet, people.reports, "dismiss_unresolved", report)
    assert not people.chain.call(people.results, "is_invalid", *place)
    assert marks_of(people, people.round) == marked
    people.pass_phase(COMMIT)
    opened = people.open()
    assert eve.node_id in opened["nodes"]
    assert marks_of(people, people.round) == set()
    assert marks_of(people, people.round - 1) == marked


@pytest.mark.parametrize("in_front", [True, False], ids=["in front", "behind"])
def test_in_the_block_of_an_opening__the_order_decides(
    people: People, ann: Node, bob: Node, eve: Node, in_front: bool
) -> None:
    """A block says who comes first. Eve is in the round if and only if her mark is gone there."""
    report = undecided(people, ann, bob, eve)
    found = people.round
    people.chain.rpc("evm_setAutomine", False)
    try:
        clearing = submitted(people, eve, people.reports, "dismiss_unresolved", (report,), in_front)
        opening = submitted(people, ann, people.rounds, "open_round", (people.job,), not in_front)
        people.chain.mine()
    finally:
        people.chain.rpc("evm_setAutomine", True)
    cleared, opened = people.chain.receipt(clearing), people.chain.receipt(opening)
    assert cleared["blockNumber"] == opened["blockNumber"]
    assert (cleared["transactionIndex"] < opened["transactionIndex"]) == in_front
    people.round += 1
    nodes = people.chain.event(opened, people.rounds, "RoundOpened")["nodes"]
    assert (eve.node_id in nodes) == in_front
    marked = set() if in_front else {(found, eve.node_id)}
    assert marks_of(people, people.round) == marked


def submitted(
    people: People, node: Node, contract: Contract, function: str, args: tuple[Any, ...], soon: bool
) -> str:
    """A call by a node's owner that waits for the next block, and is `soon` in it; its hash."""
    data = contract.function(function, len(args)).encode(args)
    return people.chain.submit(node.owner, contract.address, data, tip=10**9 + soon)
