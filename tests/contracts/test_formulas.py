# SPDX-License-Identifier: Apache-2.0
"""Every formula of `agents.protocol` beside the contract that computes the same."""

from __future__ import annotations

from dataclasses import astuple

import boa
import pytest
from eth_utils import keccak

from agents.protocol import formulas
from agents.protocol.numbers import MAX_VIOLATION, Violation
from agents.protocol.slashing import DEFAULTS, NO_ROW, Offender, reporter_share, slash_amount
from tests.stage.contracts.clock import block, hash_of, mine
from tests.stage.contracts.registry import request, seed_now
from tests.stage.contracts.rounds import MODEL, REPORT, UPDATE, RoundStage, make_rounds
from tests.stage.contracts.scores import make_scores
from tests.stage.contracts.system import EMPTY, REWARD, STAKE, TRAINER, System, Work, events_of
from tests.stage.contracts.tasks import SPEC, make_tasks

SALT = keccak(text="salt")
RECORD = keccak(text="record")


@pytest.fixture
def stage(system: System) -> RoundStage:
    return make_rounds(system)


def chain_id() -> int:
    return int(boa.env.evm.patch.chain_id)


# -- commitments -------------------------------------------------------------------------------


def test_round_commitment(stage: RoundStage) -> None:
    rounds, player, work = stage.system.rounds, stage.trainers[1], Work.of("some")
    parts = (work.input_root, work.content, work.trace_root, work.salt)
    mine = formulas.round_commitment(
        chain_id(), rounds.address, (7, 8, player.node_id), player.operator, parts
    )
    assert mine == rounds.commitment_digest(7, 8, player.node_id, player.operator, *parts)


def test_opened(stage: RoundStage) -> None:
    round_id = stage.to_aggregate()
    player = stage.trainers[0]
    work = stage.work(player, round_id)
    kept = stage.system.rounds.commitment_of(1, round_id, player.node_id)
    assert formulas.opened(work.content, work.trace_root) == kept


def test_score_commitment(system: System) -> None:
    stage = make_scores(system)
    player, scores = stage.verifiers[1], [5, 0, 65_535]
    mine = formulas.score_commitment(
        chain_id(),
        stage.scores.address,
        (7, 8, player.node_id),
        player.operator,
        scores,
        RECORD,
        SALT,
    )
    assert mine == stage.scores.scores_digest(
        7, 8, player.node_id, player.operator, scores, RECORD, SALT
    )


def test_task_tag_and_commitment(system: System) -> None:
    stage = make_tasks(system)
    tasks, player, result = stage.tasks, stage.nodes[0], keccak(text="result")
    tag = formulas.task_tag(chain_id(), tasks.address, 7, result)
    assert tag == tasks.tag_of(7, result)
    mine = formulas.task_commitment(
        chain_id(), tasks.address, (7, player.node_id), player.operator, (SPEC, tag, SALT)
    )
    assert mine == tasks.commitment_digest(7, player.node_id, player.operator, SPEC, tag, SALT)


# -- keys, seeds and ids -----------------------------------------------------------------------


def test_round_key_audit_key_and_seeds(stage: RoundStage) -> None:
    """Both seeds of a round, as they were captured under their keys."""
    rounds, results = stage.system.rounds, stage.system.results
    round_id = stage.to_challenge()
    boa.env.time_travel(blocks=3, block_delta=1)
    results.capture_audit_seed(1, round_id)
    state, key = rounds.round(1, round_id), formulas.round_key(1, round_id)
    assert key == keccak((1).to_bytes(32, "big") + round_id.to_bytes(32, "big"))
    seed = formulas.seed(hash_of(state.seed_block), key, chain_id(), rounds.address)
    assert seed == state.seed
    audit_key = formulas.audit_key(key)
    audit = formulas.seed(hash_of(state.audit_block), audit_key, chain_id(), results.address)
    assert audit == state.audit_seed


def test_benchmark_check_key(system: System) -> None:
    """The key under which an answer requests the seed of its checks."""
    node = system.join("somebody", TRAINER)
    request(system.registry, system.benchmarks, node.node_id)
    mine(2, 24)
    seed = seed_now(system.benchmarks, node.node_id)
    arguments = (node.node_id, seed, 5, keccak(text="root"), keccak(text="artefact"))
    system.benchmarks.submit_benchmark(*arguments, sender=node.operator)
    keys = [fields["key"] for name, fields in events_of(system.benchmarks) if "Seed" in name]
    assert formulas.benchmark_check_key(node.node_id, 1) in keys


@pytest.mark.parametrize("violation", [Violation.INVALID, Violation.COPIED])
def test_report_id(stage: RoundStage, violation: Violation) -> None:
    found = stage.system.reports.report_id_of(1, 2, 3, violation)
    assert formulas.report_id(1, 2, 3, violation) == found


def test_announcement_and_its_scope(stage: RoundStage) -> None:
    """Of a node and of a result, as the contracts open them."""
    round_id, player, node = stage.to_challenge(), stage.verifiers[0], stage.trainers[0]
    reports, results = stage.system.reports, stage.system.results
    digest = stage.announcement(reports, round_id, node.node_id, player.node_id)
    stage.announce(round_id, node, player)
    scope = formulas.announcement_key(1, round_id, player.node_id)
    assert reports.announced_in(scope, digest) == block() - 1
    stage.report(round_id, node, Violation.INVALID, player)
    assert reports.announced_in(scope, digest) == 0
    assert reports.finder_of(1, round_id, node.node_id) == player.node_id
    digest = stage.announce_challenge(round_id, stage.challenger)
    scope = int(stage.challenger, 16).to_bytes(32, "big")
    assert results.announced_in(scope, digest) == block() - 1
    stage.challenge(round_id)
    assert results.announced_in(scope, digest) == 0


# -- results and the ledger --------------------------------------------------------------------


def test_snapshot_contributions_and_result_hashes(stage: RoundStage) -> None:
    round_id = stage.to_challenge()
    state = stage.system.rounds.round(1, round_id)
    nodes, weights = stage.system.snapshots[1, round_id]
    assert formulas.snapshot_hash(nodes, weights) == state.snapshot_hash
    contributions = formulas.contributions_hash(stage.ids, stage.shares)
    assert contributions == state.contributions_hash
    mine = formulas.result_hash(1, round_id, 1, MODEL, UPDATE, REPORT, contributions)
    assert mine == state.result_hash


def test_result_hash__of_a_second_attempt(stage: RoundStage) -> None:
    """The result that follows an upheld challenge has the number 2 in its name."""
    round_id, system = stage.to_disputed(), stage.system
    first = system.rounds.round(1, round_id).result_hash
    coordinator = system.coordinator.address
    system.results.resolve_challenge(1, round_id, first, True, sender=coordinator)
    second = stage.propose(round_id, player=stage.verifiers[0])
    contributions = formulas.contributions_hash(stage.ids, stage.shares)
    mine = formulas.result_hash(1, round_id, 2, MODEL, UPDATE, REPORT, contributions)
    assert mine == second != first


def test_ledger_entry(stage: RoundStage) -> None:
    ledger = stage.system.ledger
    before = EMPTY
    for index in range(2):
        stage.to_finalized()
        entry = ledger.entry(1, index)
        assert formulas.contributors_root(stage.ids) == entry.contributors_root
        assert formulas.contributions_hash(stage.ids, stage.shares) == entry.scores_root
        mine = formulas.ledger_head(
            before,
            1,
            entry.round_id,
            entry.prev_model,
            entry.new_model,
            entry.contributors_root,
            entry.scores_root,
            entry.report,
            entry.reward,
            entry.timestamp,
        )
        assert mine == entry.head
        before = entry.head


# -- amounts -----------------------------------------------------------------------------------


def test_benchmark_score_is_a_new_nodes_weight(stage: RoundStage) -> None:
    registry, player = stage.system.registry, stage.trainers[0]
    attempt = stage.system.benchmarks.benchmark(player.node_id)
    seeded = attempt.seed_block
    score = registry.node(player.node_id).benchmark_score
    times = range(1, attempt.submitted_at - attempt.requested_at + 1)
    assert seeded and score in {formulas.benchmark_score(attempt.units, t) for t in times}
    stage.to_commit()
    nodes, weights = stage.system.snapshots[1, 1]
    assert weights[nodes.index(player.node_id)] == formulas.weight(score, 0, 0)


def test_weight__of_nodes_that_were_silent(stage: RoundStage) -> None:
    """Two of three reveal in two rounds; the third opens with what is left of its reliability."""
    registry = stage.system.registry
    for accepted in range(3):
        stage.system.open(1)
        round_id = stage.system.jobs.rounds_opened(1)
        nodes, weights = stage.system.snapshots[1, round_id]
        for place, player in enumerate(stage.trainers):
            score = registry.node(player.node_id).benchmark_score
            good = accepted if place < 2 else 0
            wanted = formulas.weight(score, accepted, good)
            assert weights[nodes.index(player.node_id)] == wanted
        stage.commit_all(round_id, *stage.trainers[:2])
        stage.system.wait_out(1, round_id)
        stage.system.advance(1, round_id)
        stage.reveal_all(round_id, *stage.trainers[:2])
        ids = stage.ids[:2]
        stage.propose(round_id, nodes=ids, contributions=[1, 1])
        stage.attest(round_id)
        stage.system.results.finalize(1, round_id, ids, [1, 1])


def test_split__pays_what_the_pool_pays(stage: RoundStage) -> None:
    pool, rounds = stage.system.pool, stage.system.rounds
    round_id = stage.to_challenge()
    proposer = rounds.round(1, round_id).proposer
    stage.attest(round_id, *stage.verifiers)
    stage.finalize()
    terms = stage.system.jobs.job(1).terms
    split = formulas.split(
        REWARD,
        terms.verifier_bps,
        terms.aggregator_bps,
        proposer,
        {player.node_id: STAKE for player in stage.verifiers},
        dict(zip(stage.ids, stage.shares, strict=True)),
    )
    wanted = dict(split.cuts) | split.shares
    people = [*stage.trainers, *stage.verifiers, *stage.aggregators]
    for player in people:
        assert pool.pending(player.payout) == wanted.get(player.node_id, 0), player.name
    assert pool.pool(1, round_id).paid == split.paid


def test_fee_shares(system: System) -> None:
    stage = make_tasks(system)
    right = keccak(text="right")
    task_id = stage.started()
    fee = stage.state(task_id).fee
    runners = stage.runners(task_id)
    stage.commit_all(task_id, {0: right, 1: right})
    stage.reveal_all(task_id, {0: right, 1: right})
    paid = [stage.tasks.bond_credit(player.payout) for player in runners]
    assert sorted(paid) == sorted(formulas.fee_shares(fee))


# -- slashing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("violation", range(1, MAX_VIOLATION + 1))
def test_slashing_table__as_deployed(system: System, violation: int) -> None:
    row = DEFAULTS.get(violation, NO_ROW)
    assert tuple(system.registry.penalty(violation)) == astuple(row)


@pytest.mark.parametrize(
    "violations",
    [
        [Violation.NO_REVEAL] * 4,
        [Violation.INVALID, Violation.NO_REVEAL, Violation.COPIED, Violation.NO_REVEAL],
        [Violation.INVALID, Violation.COPIED, Violation.ABORT],
        [Violation.COLLUSION, Violation.BAD_RESULT, Violation.FALSE_REPORT, Violation.INVALID],
        [Violation.REPEATED],
        [12, 12],
    ],
)
def test_slashing_rule__takes_what_the_registry_takes(
    system: System, violations: list[int]
) -> None:
    """Amount, reporter's share, strikes, suspension and ban of every slash in a row."""
    registry = system.registry
    node_id = system.join("offender", TRAINER, STAKE + 7).node_id
    slasher, reporter = system.reports.address, system.person("reporter")
    node, stake, until, banned = Offender(), STAKE + 7, 0, False
    for violation in violations:
        row = node.offend(violation, DEFAULTS)
        amount = slash_amount(stake, 0, row.bps)
        now = boa.env.timestamp
        registry.slash(node_id, violation, now, reporter, sender=slasher)
        [told] = [args for name, args in events_of(registry) if name == "NodeSlashed"]
        until = max(until, now + row.suspension) if row.suspension else until
        banned = banned or row.ban
        assert told == {
            "node_id": node_id,
            "violation": violation,
            "amount": amount,
            "reporter": reporter,
            "reporter_share": reporter_share(amount, row.reporter_bps),
            "treasury_share": amount - reporter_share(amount, row.reporter_bps),
            "suspended_until": until,
            "strikes": node.strikes,
            "banned": banned,
        }
        stake -= amount
