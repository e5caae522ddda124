# SPDX-License-Identifier: Apache-2.0
"""finalize and settle: once, from the proposed arrays only, paying only valid work."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import MODEL, REPORT, Field, make_field
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


def test_finalize__early_with_two_thirds(
    field: Field, rounds: Any, jobs: Any, results: Any
) -> None:
    field.to_challenge()
    proposer = rounds.round(1, 1).proposer
    field.attest(1, *field.verifiers[:2])
    field.finalize()
    pool = field.system.pool
    shares = [TRAINERS * c // 6 for c in (1, 2, 3)]
    paid = sum(shares) + VERIFIER_CUT // 2 * 2 + AGGREGATOR_CUT
    assert events_of(results) == [
        of_round("PhaseChanged", phase=FINALIZED, deadline=0),
        of_round("RoundFinalized", model=MODEL, total_contribution=6),
        of_round("RoundSettled", paid=paid, returned=REWARD - paid),
    ]
    for player, share in zip(field.trainers, shares, strict=True):
        assert pool.pending(player.payout) == share
    for player, cut in zip(field.verifiers, (VERIFIER_CUT // 2, VERIFIER_CUT // 2, 0), strict=True):
        assert pool.pending(player.payout) == cut
    for player in field.aggregators:
        cut = AGGREGATOR_CUT if player.node_id == proposer else 0
        assert pool.pending(player.payout) == cut
    entry = field.system.ledger.entry(1, 0)
    assert (entry.round_id, entry.prev_model, entry.new_model) == (1, TERMS["genesis_model"], MODEL)
    assert entry.contributors_root == keccak(encode(["uint256[]"], [field.ids]))
    assert entry.scores_root == contributions_hash(field.ids, [1, 2, 3])
    assert entry.report == REPORT
    assert (entry.reward, entry.timestamp) == (REWARD, boa.env.timestamp)
    job = jobs.job(1)
    assert (job.rounds_done, job.model) == (1, MODEL)


def test_finalize__too_early__reverts(field: Field, rounds: Any, results: Any) -> None:
    for way in (field.to_commit, field.to_reveal, field.to_aggregate, field.to_disputed):
        with boa.env.anchor():
            way()
            assert not results.can_finalize(1, 1)
            with refuses("results: not finalizable"):
                field.finalize()
    field.to_challenge()
    field.attest(1, field.verifiers[0])
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    assert not results.can_finalize(1, 1)
    with refuses("results: not finalizable"):
        field.finalize()


def test_finalize__without_attestation_after_the_window(field: Field, results: Any) -> None:
    field.to_challenge()
    field.system.wait_out(1, 1)
    assert results.can_finalize(1, 1)
    field.finalize()
    pool = field.system.pool
    assert sum(pool.pending(p.payout) for p in field.verifiers) == 0
    # The cut that nobody earned is the trainers'.
    assert pool.pending(field.trainers[0].payout) == (REWARD - AGGREGATOR_CUT) // 6


def test_finalize__twice__reverts(field: Field, results: Any) -> None:
    field.to_finalized()
    with refuses("results: not finalizable"):
        field.finalize()
    with refuses("results: nothing to settle"):
        results.settle(1, 1, field.ids, field.shares)


def test_finalize__wrong_arrays__reverts(field: Field, results: Any) -> None:
    field.to_challenge()
    field.attest(1)
    ids = field.ids
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
    field: Field, rounds: Any, results: Any
) -> None:
    field.to_challenge()
    field.attest(1)
    field.report(1, field.trainers[0], INVALID, field.verifiers[0])
    assert rounds.round(1, 1).open_reports == 1
    assert not results.can_finalize(1, 1)
    with refuses("results: not finalizable"):
        field.finalize()
    field.system.wait_out(1, 1)
    field.finalize()
    assert field.system.pool.pending(field.trainers[0].payout) == TRAINERS // 6


def test_finalize__share_of_an_invalid_node_is_set_aside_not_spread(
    field: Field, rounds: Any
) -> None:
    field.to_challenge()
    bad = field.trainers[2]
    field.report(1, bad, INVALID, *field.verifiers[:2])
    field.attest(1)
    field.finalize()
    pool = field.system.pool
    assert pool.pending(bad.payout) == 0
    pot = TRAINERS + VERIFIER_CUT - VERIFIER_CUT // 3 * 3  # with the dust of the verifiers' cut
    assert [pool.pending(p.payout) for p in field.trainers[:2]] == [pot // 6, pot * 2 // 6]
    assert pool.set_aside(1, 1, bad.node_id) == pool.total_held() == pot // 2
    assert rounds.round(1, 1).n_invalid == 1


@pytest.mark.parametrize("shares", [[1, 2, 3], [0, 7, 10**18], [5, 0, 0], [0, 0, 0]])
@pytest.mark.parametrize("bad", [(), (0,), (2,), (0, 1), (0, 1, 2)])
def test_finalize__pays_what_the_rule_says(
    field: Field, rounds: Any, bad: tuple[int, ...], shares: list[int], results: Any
) -> None:
    """With invalid nodes and without: the pool in proportion to the contributions, rounded down.
    The share of the invalid is set aside; what is left goes back to the escrow."""
    field.to_aggregate()
    field.propose(1, contributions=shares)
    for index in bad:
        field.report(1, field.trainers[index], INVALID, *field.verifiers[:2])
    field.attest(1, *field.verifiers[:2])
    results.finalize(1, 1, field.ids, shares)
    total = sum(shares)
    assert rounds.round(1, 1).n_invalid == len(bad)
    assert dict(events_of(results))["RoundFinalized"]["total_contribution"] == total
    pay = [TRAINERS * share // total if total else 0 for share in shares]
    pool = field.system.pool
    kept = [amount if index in bad else 0 for index, amount in enumerate(pay)]
    assert [pool.set_aside(1, 1, node) for node in field.ids] == kept
    credited = [amount - held for amount, held in zip(pay, kept, strict=True)]
    assert [pool.pending(p.payout) for p in field.trainers] == credited
    paid = sum(pay) + VERIFIER_CUT + AGGREGATOR_CUT
    settled = dict(events_of(results))["RoundSettled"]
    assert (settled["paid"], settled["returned"]) == (paid, REWARD - paid)
    assert field.system.balances() == field.system.owed()


def test_settle__invalid_nodes_in_both_batches(system: System, rounds: Any, results: Any) -> None:
    """The second batch sets aside for the invalid like the first."""
    field = make_field(system, trainers=67, rounds=1)
    field.to_challenge()
    bad = {3, 65}
    for index in bad:
        field.report(1, field.trainers[index], INVALID, *field.verifiers[:2])
    field.attest(1, *field.verifiers[:2])
    field.finalize()
    assert not rounds.round(1, 1).settled
    results.settle(1, 1, field.ids, field.shares)
    for index, (player, share) in enumerate(zip(field.trainers, field.shares, strict=True)):
        pay = TRAINERS * share // sum(field.shares)
        kept = pay if index in bad else 0
        assert system.pool.set_aside(1, 1, player.node_id) == kept
        assert system.pool.pending(player.payout) == pay - kept
    assert rounds.round(1, 1).settled
    assert system.balances() == system.owed()


def test_finalize__nobody_left_to_pay(field: Field, rounds: Any, results: Any) -> None:
    """Only cuts are paid; the rest is set aside until the report has its end."""
    field.to_aggregate()
    field.propose(1, nodes=field.ids[:1], contributions=[9])
    field.report(1, field.trainers[0], INVALID, *field.verifiers[:2])
    field.attest(1)
    results.finalize(1, 1, field.ids[:1], [9])
    settled = dict(events_of(results))["RoundSettled"]
    assert settled == {"job_id": 1, "round_id": 1, "paid": REWARD, "returned": 0}
    assert rounds.round(1, 1).settled
    cuts = VERIFIER_CUT // 3 * 3 + AGGREGATOR_CUT
    assert field.system.pool.total_held() == REWARD - cuts


def test_finalize__empty_result(field: Field, rounds: Any, results: Any) -> None:
    field.to_aggregate()
    field.propose(1, nodes=[], contributions=[])
    field.attest(1)
    results.finalize(1, 1, [], [])
    assert rounds.round(1, 1).settled


def test_finalize__verifier_as_fallback_proposer_earns_both_cuts(field: Field) -> None:
    field.to_aggregate()
    field.system.wait_out(1, 1)
    field.propose(1, field.verifiers[0])
    field.attest(1, *field.verifiers[:2])
    field.finalize()
    both = VERIFIER_CUT // 2 + AGGREGATOR_CUT
    assert field.system.pool.pending(field.verifiers[0].payout) == both


def test_finalize__rounds_chain_models(field: Field, rounds: Any, jobs: Any) -> None:
    field.to_finalized()
    other = keccak(text="second model")
    field.to_aggregate()
    assert rounds.round(1, 2).prev_model == MODEL
    field.propose(2, model=other)
    field.attest(2)
    field.finalize()
    assert field.system.ledger.entry(1, 1).prev_model == MODEL
    assert jobs.job(1).model == other


def test_finalize__last_round_completes_the_job(system: System, jobs: Any) -> None:
    field = make_field(system, rounds=2)
    field.to_finalized()
    assert not jobs.job_ended(1)
    field.to_finalized()
    assert event("JobEnded", job_id=1, status=COMPLETED) in events_of(system.results, jobs)
    system.pool.refund(1, sender=field.sponsor)
    for player in system.players.values():
        if system.pool.pending(player.payout):
            system.pool.claim(sender=player.payout)
    assert system.token.balanceOf(system.pool.address) == 0
    assert system.balances() == system.owed()


def test_settle__many_nodes_in_batches(
    system: System, rounds: Any, jobs: Any, results: Any
) -> None:
    """128 nodes, every call below the transaction gas cap; wrong arrays can't disturb it."""
    field = make_field(system, trainers=128, rounds=1)
    field.to_challenge()
    field.attest(1)
    field.finalize()
    pool = system.pool
    assert not rounds.round(1, 1).settled
    assert jobs.job(1).status == 1
    assert pool.pending(field.trainers[63].payout) > 0
    assert pool.pending(field.trainers[64].payout) == 0
    for nodes, shares in (
        (field.ids[64:], field.shares[64:]),
        (field.ids, field.shares[::-1]),
        ([], []),
    ):
        with refuses("results: wrong contributions"):
            results.settle(1, 1, nodes, shares, sender=field.stranger)
    with refuses("results: not finalizable"):
        field.finalize()
    results.settle(1, 1, field.ids, field.shares, sender=field.stranger)
    total = sum(field.shares)
    for player, share in zip(field.trainers, field.shares, strict=True):
        assert pool.pending(player.payout) == TRAINERS * share // total
    assert rounds.round(1, 1).settled
    assert jobs.job(1).status == COMPLETED
    with refuses("results: nothing to settle"):
        results.settle(1, 1, field.ids, field.shares)


def test_settle__nothing_finalized__reverts(field: Field, rounds: Any, results: Any) -> None:
    with refuses("results: nothing to settle"):
        results.settle(1, 1, [], [])
    field.to_commit()
    field.system.time_out(1, 1)
    with refuses("results: nothing to settle"):
        results.settle(1, 1, [], [])
