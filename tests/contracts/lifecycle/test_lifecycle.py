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
    World,
    digest,
)

GAS_CAP = 16_777_216
COMMIT, REVEAL, AGGREGATE, CHALLENGE, FINALIZED, VOID = 1, 2, 3, 4, 6, 7


@pytest.fixture(scope="module")
def world(system: dict[str, Any], accounts: Any) -> World:
    return World(system, accounts)


@pytest.fixture(scope="module")
def verifiers(world: World) -> list[Node]:
    return [world.join(VERIFIER) for _ in range(3)]


@pytest.fixture(scope="module")
def aggregator(world: World) -> Node:
    return world.join(AGGREGATOR)


@pytest.fixture(scope="module")
def trainers(world: World, verifiers: list[Node]) -> list[Node]:
    nodes = [world.join(TRAINER) for _ in range(3)]
    for node in nodes:
        world.benchmark(node, verifiers[:2])
    return nodes


@pytest.fixture(scope="module")
def job_id(world: World, trainers: list[Node], aggregator: Node) -> int:
    return world.create_job(funded_rounds=2)


def propose(world: World, job_id: int, aggregator: Node, nodes: list[int], parts: list[int]) -> Any:
    round_id = world.jobs.job(job_id).rounds_opened
    world.results.propose_result(
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
    return world.rounds.round(job_id, round_id).result_hash


def test_gas_cap_is_on(accounts: Any) -> None:
    with pytest.raises(ape.exceptions.ApeException, match=r"(?i)gas"):
        accounts[0].transfer(accounts[0], 1, gas_limit=GAS_CAP + 1)


def test_trainer_is_eligible_only_after_its_verified_benchmark(
    world: World, verifiers: list[Node]
) -> None:
    node = world.join(TRAINER)
    assert not world.registry.is_eligible(node.node_id, TRAINER)
    world.benchmark(node, verifiers[:2])
    assert world.registry.is_eligible(node.node_id, TRAINER)
    assert world.registry.node(node.node_id).benchmark_score > 0


def test_round_from_opening_to_claim(
    world: World, trainers: list[Node], verifiers: list[Node], aggregator: Node, job_id: int
) -> None:
    rounds, pool = world.rounds, world.pool
    rounds.open_round(job_id, sender=world.sponsor)
    ape.chain.mine()
    for node in trainers:
        assert rounds.phase(job_id, 1) == COMMIT
        world.commit(job_id, 1, node)
    for node in trainers:
        assert rounds.phase(job_id, 1) == REVEAL  # early: everybody has committed
        world.reveal(job_id, 1, node)
    assert rounds.phase(job_id, 1) == AGGREGATE
    ids, parts = [node.node_id for node in trainers], [1, 2, 5]
    result = propose(world, job_id, aggregator, ids, parts)
    assert rounds.phase(job_id, 1) == CHALLENGE
    for node in verifiers:
        world.results.attest(job_id, 1, node.node_id, result, sender=node.operator)
    receipt = world.results.finalize(job_id, 1, ids, parts, sender=world.sponsor)
    if not rounds.round(job_id, 1).settled:
        world.results.settle(job_id, 1, ids, parts, sender=world.sponsor)
    assert rounds.phase(job_id, 1) == FINALIZED
    assert [event.model for event in receipt.decode_logs(world.results.RoundFinalized)] == [
        digest("model 1")
    ]
    assert world.ledger.length(job_id) == 1
    assert world.ledger.entry(job_id, 0).prev_model == TERMS["genesis_model"]

    shared = REWARD * (10_000 - TERMS["verifier_bps"] - TERMS["aggregator_bps"]) // 10_000
    for node, part in zip(trainers, parts, strict=True):
        owed = shared * part // sum(parts)
        assert pool.pending(node.owner) == owed
        before = world.token.balanceOf(node.owner)
        pool.claim(sender=node.owner)
        assert world.token.balanceOf(node.owner) == before + owed
        assert pool.pending(node.owner) == 0
    assert pool.pending(aggregator.owner) == REWARD * TERMS["aggregator_bps"] // 10_000
    assert sum(pool.pending(node.owner) for node in verifiers) <= (
        REWARD * TERMS["verifier_bps"] // 10_000
    )
    held = pool.total_escrow() + pool.total_pending() + pool.total_reserved()
    assert world.token.balanceOf(pool) == held


def test_silent_trainer_is_slashed_by_anyone_and_others_are_not(
    world: World, trainers: list[Node], job_id: int
) -> None:
    rounds, registry = world.rounds, world.registry
    rounds.open_round(job_id, sender=world.sponsor)
    round_id = world.jobs.job(job_id).rounds_opened
    ape.chain.mine()
    for node in trainers:
        world.commit(job_id, round_id, node)
    *honest, silent = trainers
    for node in honest:
        world.reveal(job_id, round_id, node)
    world.to_deadline(job_id, round_id)
    assert rounds.phase(job_id, round_id) == AGGREGATE
    reporter = world.person()
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
    assert world.token.balanceOf(reporter) == bounty


def test_sponsor_gets_unspent_escrow_back_after_a_void_round(world: World, job_id: int) -> None:
    rounds, pool = world.rounds, world.pool
    rounds.open_round(job_id, sender=world.sponsor)
    round_id = world.jobs.job(job_id).rounds_opened
    world.jobs.cancel_job(job_id, sender=world.sponsor)
    assert not world.jobs.job_ended(job_id)
    world.to_deadline(job_id, round_id)  # nobody commits
    assert rounds.phase(job_id, round_id) == VOID
    assert world.jobs.job_ended(job_id)
    escrow, before = pool.escrow(job_id), world.token.balanceOf(world.sponsor)
    assert escrow == 2 * REWARD
    pool.refund(job_id, sender=world.sponsor)
    assert world.token.balanceOf(world.sponsor) == before + escrow
    assert pool.escrow(job_id) == 0


def test_exit_unbonds_before_it_pays(world: World, trainers: list[Node]) -> None:
    registry, node = world.registry, trainers[0]
    stake, before = registry.node(node.node_id).stake, world.token.balanceOf(node.owner)
    registry.begin_exit(node.node_id, sender=node.owner)
    with ape.reverts("registry: still unbonding"):
        registry.withdraw(node.node_id, sender=node.owner)
    ape.chain.pending_timestamp = registry.node(node.node_id).unlock_at
    registry.withdraw(node.node_id, sender=node.owner)
    assert world.token.balanceOf(node.owner) == before + stake
