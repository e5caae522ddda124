# SPDX-License-Identifier: Apache-2.0
"""A job's whole life on anvil through ape, by signed transactions under the gas cap."""

from __future__ import annotations

from typing import Any

import ape
import pytest

from tests.contracts.lifecycle.people import (
    AGGREGATOR,
    REWARD,
    TERMS,
    TRAINER,
    VERIFIER,
    Node,
    People,
    digest,
)

GAS_CAP = 16_777_216
COMMIT, REVEAL, AGGREGATE, CHALLENGE, FINALIZED, VOID = 1, 2, 3, 4, 6, 7


@pytest.fixture(scope="module")
def people(system: dict[str, Any], accounts: Any) -> People:
    return People(system, accounts)


@pytest.fixture(scope="module")
def verifiers(people: People) -> list[Node]:
    return [people.join(VERIFIER) for _ in range(3)]


@pytest.fixture(scope="module")
def aggregator(people: People) -> Node:
    return people.join(AGGREGATOR)


@pytest.fixture(scope="module")
def trainers(people: People, verifiers: list[Node]) -> list[Node]:
    nodes = [people.join(TRAINER) for _ in range(3)]
    for node in nodes:
        people.benchmark(node, verifiers[:2])
    return nodes


@pytest.fixture(scope="module")
def job_id(people: People, trainers: list[Node], aggregator: Node) -> int:
    return people.create_job(funded_rounds=2)


def propose(
    people: People, job_id: int, aggregator: Node, nodes: list[int], parts: list[int]
) -> Any:
    round_id = people.jobs.job(job_id).rounds_opened
    people.results.propose_result(
        job_id,
        round_id,
        aggregator.node_id,
        digest(f"model {round_id}"),
        digest("update"),
        digest("report"),
        nodes,
        parts,
        sender=aggregator.operator,
    )
    return people.rounds.round(job_id, round_id).result_hash


def test_gas_cap_is_on(accounts: Any) -> None:
    with pytest.raises(ape.exceptions.ApeException, match=r"(?i)gas"):
        accounts[0].transfer(accounts[0], 1, gas_limit=GAS_CAP + 1)


def test_trainer_is_eligible_only_after_its_verified_benchmark(
    people: People, verifiers: list[Node]
) -> None:
    node = people.join(TRAINER)
    assert not people.registry.is_eligible(node.node_id, TRAINER)
    people.benchmark(node, verifiers[:2])
    assert people.registry.is_eligible(node.node_id, TRAINER)
    assert people.registry.node(node.node_id).benchmark_score > 0


def test_round_from_opening_to_claim(
    people: People, trainers: list[Node], verifiers: list[Node], aggregator: Node, job_id: int
) -> None:
    rounds, pool = people.rounds, people.pool
    rounds.open_round(job_id, sender=people.sponsor)
    ape.chain.mine()
    for node in trainers:
        assert rounds.phase(job_id, 1) == COMMIT
        people.commit(job_id, 1, node)
    for node in trainers:
        assert rounds.phase(job_id, 1) == REVEAL  # early: everybody has committed
        people.reveal(job_id, 1, node)
    assert rounds.phase(job_id, 1) == AGGREGATE
    ids, parts = [node.node_id for node in trainers], [1, 2, 5]
    result = propose(people, job_id, aggregator, ids, parts)
    assert rounds.phase(job_id, 1) == CHALLENGE
    for node in verifiers:
        people.results.attest(job_id, 1, node.node_id, result, sender=node.operator)
    receipt = people.results.finalize(job_id, 1, ids, parts, sender=people.sponsor)
    if not rounds.round(job_id, 1).settled:
        people.results.settle(job_id, 1, ids, parts, sender=people.sponsor)
    assert rounds.phase(job_id, 1) == FINALIZED
    assert [event.model for event in receipt.decode_logs(people.results.RoundFinalized)] == [
        digest("model 1")
    ]
    assert people.ledger.length(job_id) == 1
    assert people.ledger.entry(job_id, 0).prev_model == TERMS["genesis_model"]

    shared = REWARD * (10_000 - TERMS["verifier_bps"] - TERMS["aggregator_bps"]) // 10_000
    for node, part in zip(trainers, parts, strict=True):
        owed = shared * part // sum(parts)
        assert pool.pending(node.owner) == owed
        before = people.token.balanceOf(node.owner)
        pool.claim(sender=node.owner)
        assert people.token.balanceOf(node.owner) == before + owed
        assert pool.pending(node.owner) == 0
    assert pool.pending(aggregator.owner) == REWARD * TERMS["aggregator_bps"] // 10_000
    assert sum(pool.pending(node.owner) for node in verifiers) <= (
        REWARD * TERMS["verifier_bps"] // 10_000
    )
    held = pool.total_escrow() + pool.total_pending() + pool.total_reserved()
    assert people.token.balanceOf(pool) == held


def test_silent_trainer_is_slashed_by_anyone_and_others_are_not(
    people: People, trainers: list[Node], job_id: int
) -> None:
    rounds, registry = people.rounds, people.registry
    rounds.open_round(job_id, sender=people.sponsor)
    round_id = people.jobs.job(job_id).rounds_opened
    ape.chain.mine()
    for node in trainers:
        people.commit(job_id, round_id, node)
    *honest, silent = trainers
    for node in honest:
        people.reveal(job_id, round_id, node)
    people.to_deadline(job_id, round_id)
    assert rounds.phase(job_id, round_id) == AGGREGATE
    reporter = people.person()
    before = {node.node_id: registry.node(node.node_id).stake for node in trainers}
    rounds.slash_unrevealed(job_id, round_id, silent.node_id, sender=reporter)
    slashed = -(-before[silent.node_id] * 500 // 10_000)  # 5 %, rounded up
    assert registry.node(silent.node_id).stake == before[silent.node_id] - slashed
    for node in honest:
        assert registry.node(node.node_id).stake == before[node.node_id]
        with ape.reverts():
            rounds.slash_unrevealed(job_id, round_id, node.node_id, sender=reporter)
    bounty = registry.bounty(reporter)
    assert 0 < bounty <= slashed // 2
    registry.claim_bounty(sender=reporter)
    assert people.token.balanceOf(reporter) == bounty


def test_sponsor_gets_unspent_escrow_back_after_a_void_round(people: People, job_id: int) -> None:
    rounds, pool = people.rounds, people.pool
    rounds.open_round(job_id, sender=people.sponsor)
    round_id = people.jobs.job(job_id).rounds_opened
    people.jobs.cancel_job(job_id, sender=people.sponsor)
    assert not people.jobs.job_ended(job_id)
    people.to_deadline(job_id, round_id)  # nobody commits
    assert rounds.phase(job_id, round_id) == VOID
    assert people.jobs.job_ended(job_id)
    escrow, before = pool.escrow(job_id), people.token.balanceOf(people.sponsor)
    assert escrow == 2 * REWARD
    pool.refund(job_id, sender=people.sponsor)
    assert people.token.balanceOf(people.sponsor) == before + escrow
    assert pool.escrow(job_id) == 0


def test_exit_unbonds_before_it_pays(people: People, trainers: list[Node]) -> None:
    registry, node = people.registry, trainers[0]
    stake, before = registry.node(node.node_id).stake, people.token.balanceOf(node.owner)
    registry.begin_exit(node.node_id, sender=node.owner)
    with ape.reverts("registry: still unbonding"):
        registry.withdraw(node.node_id, sender=node.owner)
    ape.chain.pending_timestamp = registry.node(node.node_id).unlock_at
    registry.withdraw(node.node_id, sender=node.owner)
    assert people.token.balanceOf(node.owner) == before + stake
