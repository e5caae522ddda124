# SPDX-License-Identifier: Apache-2.0
"""Own attacks: whoever fills a block chooses the order of the calls in it.

All calls of a phase are estimated on one block, as agents estimate them, and mined in the next, in
every order. The same call costs up to several times as much first or last: who captures the seed,
ends the phase or settles the case pays for all. None may run out of gas: a reveal that does so in
the last second of its window costs stake. Where it says "> 1.25", a limit of 125 % would not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from agents.protocol.formulas import UNAVAILABLE
from agents.runtime.contracts import Contract
from agents.runtime.transaction import gas_limit
from tests.stage.chain.people import (
    COMMIT,
    EVIDENCE,
    FINDERS_DEPOSIT,
    INVALID,
    REVEAL,
    TERMS,
    CommittedWork,
    Node,
    People,
)
from tests.stage.chain.tasks import FAKE, RIGHT, Tasks

VERIFIERS = ("vic", "vera", "vito")
_FIRST_TIP = 10**9


@dataclass(frozen=True)
class Call:
    """A call that somebody wants in the next block."""

    account: LocalAccount
    contract: Contract
    function: str
    args: tuple[Any, ...]

    @property
    def data(self) -> bytes:
        return self.contract.function(self.function, len(self.args)).encode(self.args)

    def estimate(self, people: People) -> int:
        """What the node says that it takes, on the block as it is."""
        request = {
            "from": self.account.address,
            "to": self.contract.address,
            "data": "0x" + self.data.hex(),
        }
        return int(people.chain.rpc("eth_estimateGas", request, "latest"), 16)


@contextmanager
def undone(people: People) -> Iterator[None]:
    """Afterwards the chain is as it was, and mines at once."""
    snapshot = people.chain.snapshot()
    people.chain.rpc("evm_setAutomine", False)
    try:
        yield
    finally:
        people.chain.rpc("anvil_dropAllTransactions")
        people.chain.rpc("evm_setAutomine", True)
        people.chain.revert(snapshot)


def dearest(people: People, calls: Sequence[Call]) -> float:
    """Mine the calls together in every order; none runs out of gas, and one at least is carried
    out. Returns the most that one used, as a share of its estimate."""
    estimates = {id(call): call.estimate(people) for call in calls}
    most = 0.0
    for order in permutations(calls):
        with undone(people):
            hashes = [
                people.chain.submit(
                    call.account,
                    call.contract.address,
                    call.data,
                    tip=_FIRST_TIP - place,
                    gas=gas_limit(estimates[id(call)]),
                )
                for place, call in enumerate(order)
            ]
            people.chain.mine()
            receipts = [people.chain.receipt(tx_hash) for tx_hash in hashes]
            assert len({receipt["blockNumber"] for receipt in receipts}) == 1
            places = [int(receipt["transactionIndex"], 16) for receipt in receipts]
            assert places == sorted(places), "the block should have the order that was meant"
            for call, receipt in zip(order, receipts, strict=True):
                used, given = int(receipt["gasUsed"], 16), gas_limit(estimates[id(call)])
                said = f"{call.function}, {[other.function for other in order]}: {used} of {given}"
                assert used < given, said
                most = max(most, used / estimates[id(call)])
            assert any(int(receipt["status"], 16) for receipt in receipts)
    return most


@pytest.fixture
def trainers(people: People) -> list[Node]:
    return [people.nodes[name] for name in ("ann", "bob", "cat", "eve")]


def commits(people: People, nodes: Sequence[Node]) -> list[Call]:
    return [
        Call(
            node.operator,
            people.rounds,
            "commit",
            (*people.place, node.node_id, people.commitment(node, CommittedWork.of(node.name))),
        )
        for node in nodes
    ]


def reveals(people: People, nodes: Sequence[Node]) -> list[Call]:
    return [Call(node.operator, people.rounds, "reveal", people.opening(node)) for node in nodes]


def attests(people: People, *names: str) -> list[Call]:
    result = bytes(people.state.result_hash)
    return [
        Call(
            people.nodes[name].operator,
            people.results,
            "attest",
            (*people.place, people.nodes[name].node_id, result),
        )
        for name in names
    ]


def report(people: People, by: str, of: Node) -> Call:
    judge = people.nodes[by]
    args = (*people.place, judge.node_id, of.node_id, INVALID, EVIDENCE)
    return Call(judge.operator, people.reports, "report", args)


def announcement(people: People, by: str, of: Node) -> Call:
    judge = people.nodes[by]
    digest = people.announcement(people.reports, of.node_id, judge.node_id, EVIDENCE)
    args = (*people.place, judge.node_id, digest, FINDERS_DEPOSIT)
    return Call(judge.operator, people.reports, "announce_report", args)


def test_commitments__the_first_stores_the_seed_and_the_last_ends_the_phase(
    people: People, trainers: list[Node]
) -> None:
    people.open()
    people.chain.mine()  # a call sees the hashes of blocks before the latest
    dearest(people, commits(people, trainers))


def test_reveals__the_last_ends_the_phase(people: People, trainers: list[Node]) -> None:
    people.open()
    for node in trainers:
        people.commit(node)
    assert dearest(people, reveals(people, trainers)) > 1.25


def test_reveals_of_the_same_content__the_second_flags_both(
    people: People, trainers: list[Node]
) -> None:
    people.open()
    same = {node.name: CommittedWork.of(node.name, b"\1" * 32) for node in trainers}
    for node in trainers:
        people.commit(node, same[node.name])
    opened = [
        Call(node.operator, people.rounds, "reveal", people.opening(node, same[node.name]))
        for node in trainers
    ]
    dearest(people, opened)


def test_silence__several_are_slashed_together(people: People, trainers: list[Node]) -> None:
    people.open()
    for node in trainers:
        people.commit(node)
    people.pass_phase(COMMIT)
    people.reveal(trainers[0])
    people.pass_phase(REVEAL)
    calls = [
        Call(people.members[i], people.rounds, "slash_unrevealed", (*people.place, node.node_id))
        for i, node in enumerate(trainers[1:])
    ]
    dearest(people, calls)


def test_attestations_and_reports__in_one_block(people: People, trainers: list[Node]) -> None:
    """Two verifiers report the same node, which confirms it, while a third attests."""
    people.train(*trainers)
    people.offer(dict.fromkeys(trainers, 1))
    found = [announcement(people, name, trainers[3]) for name in VERIFIERS]
    dearest(people, found)
    for call in found[:2]:
        people.chain.send(call.account, call.contract, call.function, *call.args)
    calls = [report(people, name, trainers[3]) for name in VERIFIERS[:2]]
    dearest(people, [*calls, *attests(people, "vito")])
    dearest(people, attests(people, *VERIFIERS))


def test_final_and_paid__beside_the_last_attestation(people: People, trainers: list[Node]) -> None:
    people.train(*trainers)
    arrays = people.offer(dict.fromkeys(trainers, 1))
    people.attest("vic", "vera")
    people.wait_until(int(people.state.deadline) - TERMS.challenge_s // 2)
    final = Call(people.faucet, people.results, "finalize", (*people.place, *arrays))
    dearest(people, [final, *attests(people, "vito")])


def test_challenges__the_first_stops_the_clock(people: People, trainers: list[Node]) -> None:
    people.train(*trainers)
    people.offer(dict.fromkeys(trainers, 1))
    people.attest("vito")
    result = bytes(people.state.result_hash)
    for name in ("vic", "vera"):
        people.announce_challenge(people.nodes[name].operator)
    calls = [
        Call(
            people.nodes[name].operator,
            people.results,
            "challenge",
            (*people.place, result, EVIDENCE),
        )
        for name in ("vic", "vera")
    ]
    dearest(people, calls)


def test_verdicts_on_a_benchmark__the_quorums_last_settles_it(people: People, ann: Node) -> None:
    people.request_benchmark(ann)
    people.submit_benchmark(ann)
    calls = []
    for name in VERIFIERS:
        judge = people.nodes[name]
        args = (ann.node_id, True, [judge.node_id], [people.verdict(judge, ann, True)])
        calls.append(Call(judge.operator, people.benchmarks, "submit_verdicts", args))
    assert dearest(people, calls) > 1.25


def test_the_committees_approvals__the_third_starts_the_delay(people: People) -> None:
    operation = people.propose((people.registry, "set_paused", (1,)))
    approve = [
        Call(people.members[i], people.coordinator, "approve", (operation,)) for i in (1, 2, 3)
    ]
    dearest(people, approve)
    signed = [people.approval(i, operation) for i in (1, 2, 3)]
    relays = [
        Call(people.members[0], people.coordinator, "approve_by_sig", (operation, signed[:2])),
        Call(people.members[4], people.coordinator, "approve_by_sig", (operation, signed[1:])),
        approve[0],
    ]
    dearest(people, relays)


@pytest.mark.parametrize(
    "second", [RIGHT, FAKE, UNAVAILABLE], ids=["agreed", "apart", "unavailable"]
)
def test_a_tasks_answers__the_first_draws_and_the_last_decides(tasks: Tasks, second: bytes) -> None:
    people = tasks.people
    task = tasks.create()
    tasks.await_seed(task)
    people.chain.mine()
    nodes = tasks.expected(task)
    results = dict(zip(nodes, (RIGHT, second), strict=True))
    committed = [
        Call(
            node.operator,
            people.tasks,
            "commit",
            (task, lane, tasks.digest(task, node, tasks.tag(task, result))),
        )
        for lane, (node, result) in enumerate(results.items())
    ]
    dearest(people, committed)
    for call in committed:
        people.chain.send(call.account, call.contract, call.function, *call.args)
    opened = [
        Call(node.operator, people.tasks, "reveal", tasks.opening(task, node, result))
        for node, result in results.items()
    ]
    dearest(people, opened)
