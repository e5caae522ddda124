# SPDX-License-Identifier: Apache-2.0
"""finalize and settle: once, from the proposed arrays only, paying only valid work."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import MODEL, REPORT, RoundStage, make_rounds
from tests.stage.contracts.system import (
    COMPLETED,
    FINALIZED,
    INVALID,
    REWARD,
    TERMS,
    System,
    contributions_hash,
    events_of,
    refuses,
)

VERIFIER_CUT = REWARD // 10
AGGREGATOR_CUT = REWARD // 20
TRAINERS = REWARD - VERIFIER_CUT - AGGREGATOR_CUT


def test_finalize__two_thirds_in_the_last_half(
    stage: RoundStage, rounds: Any, jobs: Any, results: Any
) -> None:
    stage.to_challenge()
    proposer = rounds.round(1, 1).proposer
    stage.attest(1, *stage.verifiers[:2])
    half = rounds.round(1, 1).deadline - TERMS["challenge_s"] // 2
    boa.env.evm.patch.timestamp = half - 1
    assert not results.can_finalize(1, 1)
    with refuses("results: not finalizable"):
        stage.finalize()
    boa.env.evm.patch.timestamp = half
    assert results.can_finalize(1, 1)
    stage.finalize()
    pool = stage.system.pool
    shares = [TRAINERS * c // 6 for c in (1, 2, 3)]
    paid = sum(shares) + VERIFIER_CUT // 2 * 2 + AGGREGATOR_CUT
    assert events_of(results) == [
        of_round("PhaseChanged", phase=FINALIZED, deadline=0),
        of_round("RoundFinalized", model=MODEL, total_contribution=6),
        of_round("RoundSettled", paid=paid, returned=REWARD - paid),
    ]
    for player, share in zip(stage.trainers, shares, strict=True):
        assert pool.pending(player.payout) == share
    for player, cut in zip(stage.verifiers, (VERIFIER_CUT // 2, VERIFIER_CUT // 2, 0), strict=True):
        assert pool.pending(player.payout) == cut
    for player in stage.aggregators:
        cut = AGGREGATOR_CUT if player.node_id == proposer else 0
        assert pool.pending(player.payout) == cut
    entry = stage.system.ledger.entry(1, 0)
    assert (entry.round_id, entry.prev_model, entry.new_model) == (1, TERMS["genesis_model"], MODEL)
    assert entry.contributors_root == keccak(encode(["uint256[]"], [stage.ids]))
    assert entry.scores_root == contributions_hash(stage.ids, [1, 2, 3])
    assert entry.report == REPORT
    assert (entry.reward, entry.timestamp) == (REWARD, boa.env.timestamp)
    job = jobs.job(1)
    assert (job.rounds_done, job.model) == (1, MODEL)


def test_finalize__what_is_nobodys__is_the_treasurys(stage: RoundStage, results: Any) -> None:
    """The trainers get what they would get of a round in which all had been done, the sponsor
    nothing back, and nothing is left for the next round."""
    stage.to_aggregate()
    stage.propose(1, None, [0, *stage.ids], [4, 1, 2, 3])
    stage.attest(1)
    results.finalize(1, 1, [0, *stage.ids], [4, 1, 2, 3])
    pool = stage.system.pool
    treasury = stage.system.registry.parameters().treasury
    assert pool.pending(treasury) == TRAINERS * 4 // 10
    shares = [TRAINERS * c // 10 for c in (1, 2, 3)]
    assert [pool.pending(player.payout) for player in stage.trainers] == shares
    assert pool.carried(1) == 0
    (settled,) = [e for e in events_of(results) if e[0] == "RoundSettled"]
    assert settled[1]["returned"] < 10


def test_finalize__too_early__reverts(stage: RoundStage, rounds: Any, results: Any) -> None:
    for way in (stage.to_commit, stage.to_reveal, stage.to_aggregate, stage.to_disputed):
        with boa.env.anchor():
            way()
            assert not results.can_finalize(1, 1)
            with refuses("results: not finalizable"):
                stage.finalize()
    stage.to_challenge()
    stage.attest(1, stage.verifiers[0])
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    assert not results.can_finalize(1, 1)
    with refuses("results: not finalizable"):
        stage.finalize()


def test_finalize__without_attestation_after_the_window(stage: RoundStage, results: Any) -> None:
    stage.to_challenge()
    stage.system.wait_out(1, 1)
    assert results.can_finalize(1, 1)
    stage.finalize()
    pool = stage.system.pool
    assert sum(pool.pending(p.payout) for p in stage.verifiers) == 0
    # The cut that nobody earned is the trainers'.
    assert pool.pending(stage.trainers[0].payout) == (REWARD - AGGREGATOR_CUT) // 6


def test_finalize__twice__reverts(stage: RoundStage, results: Any) -> None:
    stage.to_finalized()
    with refuses("results: not finalizable"):
        stage.finalize()
    with refuses("results: nothing to settle"):
        results.settle(1, 1, stage.ids, stage.shares)


def test_finalize__wrong_arrays__reverts(stage: RoundStage, results: Any) -> None:
    stage.to_challenge()
    stage.attest(1)
    ids = stage.ids
    for nodes, contributions in (
        (ids, [1, 2, 4]),
        (ids[:2], [1, 2]),
        (ids, [1, 2]),
        ([], []),
        ([*ids, ids[-1] + 1], [1, 2, 3, 4]),
        (ids[::-1], [3, 2, 1]),
    ):
        with refuses("results: wrong contributions"):
            results.finalize(1, 1, nodes, contributions)


def test_finalize__open_report_blocks_the_early_way_only(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    stage.to_challenge()
    stage.attest(1)
    stage.report(1, stage.trainers[0], INVALID, stage.verifiers[0])
    assert rounds.round(1, 1).open_reports == 1
    assert not results.can_finalize(1, 1)
    with refuses("results: not finalizable"):
        stage.finalize()
    stage.system.wait_out(1, 1)
    stage.finalize()
    assert stage.system.pool.pending(stage.trainers[0].payout) == TRAINERS // 6


def test_finalize__share_of_an_invalid_node_is_set_aside_not_spread(
    stage: RoundStage, rounds: Any
) -> None:
    stage.to_challenge()
    bad = stage.trainers[2]
    stage.report(1, bad, INVALID, *stage.verifiers[:2])
    stage.attest(1)
    stage.finalize()
    pool = stage.system.pool
    assert pool.pending(bad.payout) == 0
    pot = TRAINERS + VERIFIER_CUT - VERIFIER_CUT // 3 * 3  # with the dust of the verifiers' cut
    assert [pool.pending(p.payout) for p in stage.trainers[:2]] == [pot // 6, pot * 2 // 6]
    assert pool.set_aside(1, 1, bad.node_id) == pool.total_held() == pot // 2
    assert rounds.round(1, 1).n_invalid == 1


@pytest.mark.parametrize("shares", [[1, 2, 3], [0, 7, 10**18], [5, 0, 0], [0, 0, 0]])
@pytest.mark.parametrize("bad", [(), (0,), (2,), (0, 1), (0, 1, 2)])
def test_finalize__pays_what_the_rule_says(
    stage: RoundStage, rounds: Any, bad: tuple[int, ...], shares: list[int], results: Any
) -> None:
    """With invalid nodes and without: the pool in proportion to the contributions, rounded down.
    The share of the invalid is set aside; what is left goes back to the escrow."""
    stage.to_aggregate()
    stage.propose(1, contributions=shares)
    for index in bad:
        stage.report(1, stage.trainers[index], INVALID, *stage.verifiers[:2])
    stage.attest(1, *stage.verifiers[:2])
    stage.to_last_half(1)
    results.finalize(1, 1, stage.ids, shares)
    total = sum(shares)
    assert rounds.round(1, 1).n_invalid == len(bad)
    assert dict(events_of(results))["RoundFinalized"]["total_contribution"] == total
    pay = [TRAINERS * share // total if total else 0 for share in shares]
    pool = stage.system.pool
    kept = [amount if index in bad else 0 for index, amount in enumerate(pay)]
    assert [pool.set_aside(1, 1, node) for node in stage.ids] == kept
    credited = [amount - held for amount, held in zip(pay, kept, strict=True)]
    assert [pool.pending(p.payout) for p in stage.trainers] == credited
    paid = sum(pay) + VERIFIER_CUT + AGGREGATOR_CUT
    settled = dict(events_of(results))["RoundSettled"]
    assert (settled["paid"], settled["returned"]) == (paid, REWARD - paid)
    assert stage.system.balances() == stage.system.owed()


def test_settle__invalid_nodes_in_both_batches(system: System, rounds: Any, results: Any) -> None:
    """The second batch sets aside for the invalid like the first."""
    stage = make_rounds(system, trainers=67, rounds=1)
    stage.to_challenge()
    bad = {3, 65}
    for index in bad:
        stage.report(1, stage.trainers[index], INVALID, *stage.verifiers[:2])
    stage.attest(1, *stage.verifiers[:2])
    stage.to_last_half(1)
    stage.finalize()
    assert not rounds.round(1, 1).settled
    results.settle(1, 1, stage.ids, stage.shares)
    for index, (player, share) in enumerate(zip(stage.trainers, stage.shares, strict=True)):
        pay = TRAINERS * share // sum(stage.shares)
        kept = pay if index in bad else 0
        assert system.pool.set_aside(1, 1, player.node_id) == kept
        assert system.pool.pending(player.payout) == pay - kept
    assert rounds.round(1, 1).settled
    assert system.balances() == system.owed()


def test_finalize__nobody_left_to_pay(stage: RoundStage, rounds: Any, results: Any) -> None:
    """Only cuts are paid; the rest is set aside until the report has its end."""
    stage.to_aggregate()
    stage.propose(1, nodes=stage.ids[:1], contributions=[9])
    stage.report(1, stage.trainers[0], INVALID, *stage.verifiers[:2])
    stage.attest(1)
    results.finalize(1, 1, stage.ids[:1], [9])
    settled = dict(events_of(results))["RoundSettled"]
    assert settled == {"job_id": 1, "round_id": 1, "paid": REWARD, "returned": 0}
    assert rounds.round(1, 1).settled
    cuts = VERIFIER_CUT // 3 * 3 + AGGREGATOR_CUT
    assert stage.system.pool.total_held() == REWARD - cuts


def test_finalize__empty_result(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_aggregate()
    stage.propose(1, nodes=[], contributions=[])
    stage.attest(1)
    results.finalize(1, 1, [], [])
    assert rounds.round(1, 1).settled


def test_finalize__verifier_as_fallback_proposer_earns_both_cuts(stage: RoundStage) -> None:
    stage.to_aggregate()
    stage.system.wait_out(1, 1)
    stage.propose(1, stage.verifiers[0])
    stage.attest(1, *stage.verifiers[:2])
    stage.to_last_half(1)
    stage.finalize()
    both = VERIFIER_CUT // 2 + AGGREGATOR_CUT
    assert stage.system.pool.pending(stage.verifiers[0].payout) == both


def test_finalize__rounds_chain_models(stage: RoundStage, rounds: Any, jobs: Any) -> None:
    stage.to_finalized()
    other = keccak(text="second model")
    stage.to_aggregate()
    assert rounds.round(1, 2).prev_model == MODEL
    stage.propose(2, model=other)
    stage.attest(2)
    stage.finalize()
    assert stage.system.ledger.entry(1, 1).prev_model == MODEL
    assert jobs.job(1).model == other


def test_finalize__last_round_completes_the_job(system: System, jobs: Any) -> None:
    stage = make_rounds(system, rounds=2)
    stage.to_finalized()
    assert not jobs.job_ended(1)
    stage.to_finalized()
    assert event("JobEnded", job_id=1, status=COMPLETED) in events_of(system.results, jobs)
    system.pool.refund(1, sender=stage.sponsor)
    for player in system.players.values():
        if system.pool.pending(player.payout):
            system.pool.claim(sender=player.payout)
    assert system.token.balanceOf(system.pool.address) == 0
    assert system.balances() == system.owed()


def test_settle__many_nodes_in_batches(
    system: System, rounds: Any, jobs: Any, results: Any
) -> None:
    """128 nodes, every call below the transaction gas cap; wrong arrays can't disturb it."""
    stage = make_rounds(system, trainers=128, rounds=1)
    stage.to_challenge()
    stage.attest(1)
    stage.finalize()
    pool = system.pool
    assert not rounds.round(1, 1).settled
    assert jobs.job(1).status == 1
    assert pool.pending(stage.trainers[63].payout) > 0
    assert pool.pending(stage.trainers[64].payout) == 0
    for nodes, shares in (
        (stage.ids[64:], stage.shares[64:]),
        (stage.ids, stage.shares[::-1]),
        ([], []),
    ):
        with refuses("results: wrong contributions"):
            results.settle(1, 1, nodes, shares, sender=stage.stranger)
    with refuses("results: not finalizable"):
        stage.finalize()
    results.settle(1, 1, stage.ids, stage.shares, sender=stage.stranger)
    total = sum(stage.shares)
    for player, share in zip(stage.trainers, stage.shares, strict=True):
        assert pool.pending(player.payout) == TRAINERS * share // total
    assert rounds.round(1, 1).settled
    assert jobs.job(1).status == COMPLETED
    with refuses("results: nothing to settle"):
        results.settle(1, 1, stage.ids, stage.shares)
