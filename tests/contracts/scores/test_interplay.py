# SPDX-License-Identifier: Apache-2.0
"""A scoring among everything else that may happen to a round and its job: disputes, cancelling,
exits, pauses, snapshots that wrap. Each time the round ends and all money is somewhere."""

from __future__ import annotations

import pytest

from tests.stage.contracts import system as stage
from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.scores import BPS, SCORE_CLOSED, SCORE_REVEAL, Panel, make_panel
from tests.stage.contracts.system import (
    AGGREGATE,
    DAY,
    FINALIZED,
    INVALID,
    REWARD,
    VOID,
    System,
    refuses,
)

HONEST = [30_000, 20_000, 15_535]
ADOPT, OPEN = 1, 2
VERIFIER_CUT = REWARD * 1_000 // BPS


def resolve(panel: Panel, round_id: int, upheld: bool) -> None:
    rounds = panel.system.rounds
    result = rounds.round(1, round_id).result_hash
    owner = panel.system.coordinator.address
    panel.system.results.resolve_challenge(1, round_id, result, upheld, sender=owner)


def run_out(panel: Panel, round_id: int) -> None:
    """Past both windows of a scoring."""
    panel.past_commits(round_id)
    panel.past_reveals(round_id)


def check_money(panel: Panel) -> None:
    assert panel.system.pool.total_reserved() == 0
    assert panel.system.owed() == panel.system.balances()


def test_dispute__another_result_is_paid_by_the_same_scores(panel: Panel) -> None:
    """A disputed result is thrown out and another proposed while the scores are still open; the
    scores are closed later, and pay that other result."""
    round_id = panel.field.to_disputed()
    panel.commit_all(round_id, HONEST, *panel.verifiers[:2])
    resolve(panel, round_id, upheld=True)
    assert panel.system.phase(1, round_id) == AGGREGATE
    panel.field.propose(round_id, panel.field.trainers[0])
    panel.field.attest(round_id)
    with refuses("scores: open"):
        panel.field.finalize()
    panel.past_commits(round_id)
    panel.reveal_all(round_id, HONEST, *panel.verifiers[:2])
    panel.close(round_id, HONEST)
    panel.field.finalize()
    assert panel.system.pool.pool(1, round_id).scored_round == round_id
    check_money(panel)


def test_unresolved_dispute__ends_a_round_with_open_scores(panel: Panel) -> None:
    """Nobody decides and nobody reveals: the round is void, its scores never close, and the job
    goes on to its next round and to its end."""
    round_id = panel.field.to_disputed()
    panel.commit(round_id, panel.verifiers[0], HONEST)
    panel.system.time_out(1, round_id)
    assert panel.system.phase(1, round_id) == VOID
    run_out(panel, round_id)
    with refuses("scores: round not running"):
        panel.close(round_id, [0, 0, 0])
    assert panel.state(round_id).phase == SCORE_REVEAL
    for _ in range(3):
        panel.finish(panel.to_scored())
    assert panel.system.jobs.job(1).status == stage.COMPLETED
    check_money(panel)


def test_job_cancelled_with_open_scores__ends_after_the_round(panel: Panel) -> None:
    round_id = panel.field.to_challenge()
    panel.commit(round_id, panel.verifiers[0], HONEST)
    panel.system.jobs.cancel_job(1, sender=panel.field.sponsor)
    panel.field.attest(round_id)
    with refuses("scores: open"):
        panel.field.finalize()
    with refuses("pool: job not ended"):
        panel.system.pool.refund(1, sender=panel.field.sponsor)
    run_out(panel, round_id)
    panel.close(round_id, [0, 0, 0])
    panel.field.finalize()
    assert panel.system.jobs.job(1).status == stage.CANCELLED
    panel.system.pool.refund(1, sender=panel.field.sponsor)
    assert panel.system.pool.escrow(1) == 0
    check_money(panel)


def test_all_verifiers_leave_with_open_scores__a_stranger_ends_the_round(panel: Panel) -> None:
    """Their stake is out, their nodes are closed and their operators unknown."""
    round_id = panel.field.to_challenge()
    registry = panel.system.registry
    for player in panel.verifiers:
        registry.begin_exit(player.node_id, sender=player.owner)
    panel.commit(round_id, panel.verifiers[0], HONEST)
    mine(1, 14 * DAY + 1)
    for player in panel.verifiers:
        registry.withdraw(player.node_id, sender=player.owner)
    with refuses("scores: not operator"):
        panel.commit(round_id, panel.verifiers[1], HONEST)
    panel.close(round_id, [0, 0, 0])
    panel.field.finalize()
    assert panel.system.phase(1, round_id) == FINALIZED
    check_money(panel)


def test_operator_replaced_between_commitment_and_reveal__the_old_key_opens_it(
    panel: Panel,
) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, HONEST)
    first = panel.verifiers[0]
    key = account("newer operator")
    newer = str(key.address)
    signed = consent(panel.system.registry, key, first.owner)
    panel.system.registry.set_operator(first.node_id, newer, signed, sender=first.owner)
    with refuses("scores: bad opening"):
        panel.reveal(round_id, first, HONEST, sender=newer)
    with refuses("scores: already committed"):
        panel.scores.commit_scores(1, round_id, first.node_id, b"\x01" * 32, sender=newer)
    panel.reveal_all(round_id, HONEST)
    panel.close(round_id, HONEST)
    panel.finish(round_id, *panel.verifiers[1:])
    check_money(panel)


def test_all_paused_in_an_open_scoring__it_runs_to_its_end(panel: Panel, owner: str) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit(round_id, panel.verifiers[0], HONEST)
    panel.scores.set_paused(ADOPT | OPEN, sender=owner)
    panel.commit(round_id, panel.verifiers[1], HONEST)
    panel.past_commits(round_id)
    panel.reveal_all(round_id, HONEST, *panel.verifiers[:2])
    panel.close(round_id, HONEST)
    assert panel.state(round_id).phase == SCORE_CLOSED
    panel.finish(round_id)
    paid = [panel.system.pool.pending(p.payout) for p in panel.verifiers]
    # The pause spares nobody who could have committed.
    assert paid == [VERIFIER_CUT // 3, VERIFIER_CUT // 3, 0]
    check_money(panel)


@pytest.mark.parametrize("named", [0, 2])
def test_result_that_names_nobody_with_a_share__pays_them_all_the_same(
    panel: Panel, named: int
) -> None:
    """Neither an empty result, nor one of others, brings the sponsor its pool back."""
    round_id = panel.to_scored(*[[65_535, 0, 0]] * 3)
    ids = panel.field.ids[1 : 1 + named]
    panel.field.propose(round_id, nodes=ids, contributions=[1] * named)
    panel.field.attest(round_id)
    panel.system.results.finalize(1, 1, ids, [1] * named)
    assert panel.system.rounds.round(1, round_id).settled
    rest = REWARD - REWARD // 20 - 3 * (VERIFIER_CUT // 3)
    assert [panel.system.pool.pending(p.payout) for p in panel.field.trainers] == [rest, 0, 0]
    check_money(panel)


def test_node_left_out_and_reported__its_share_is_set_aside(panel: Panel) -> None:
    round_id = panel.to_scored(HONEST, HONEST, HONEST)
    ids, last = panel.field.ids[:2], panel.field.trainers[2]
    panel.field.propose(round_id, nodes=ids, contributions=[1, 1])
    panel.field.report(round_id, last, INVALID, *panel.verifiers[:2])
    panel.field.attest(round_id)
    panel.system.results.finalize(1, 1, ids, [1, 1])
    rest = REWARD - REWARD // 20 - 3 * (VERIFIER_CUT // 3)
    share = rest * HONEST[2] // sum(HONEST)
    assert panel.system.pool.set_aside(1, 1, last.node_id) == share
    check_money(panel)


def test_snapshot_that_wraps__each_score_stays_with_its_node(system: System) -> None:
    """20 trainers on 19 seats: the second round begins with the last one, whose word of the stored
    consensus is written at both ends of the list."""
    panel = make_panel(system, trainers=20, max_nodes=19)
    for _ in range(2):
        round_id = panel.system.open(1)
        nodes = panel.snapshot(round_id)[0]
        here = [p for p in panel.field.trainers if p.node_id in nodes]
        for player in here:
            system.commit(1, round_id, player, panel.field.work(player, round_id))
        for player in here:
            system.reveal(1, round_id, player, panel.field.work(player, round_id))
        row = [100 + node for node in nodes]
        assert panel_score(panel, round_id, row) == row
        everybody = sorted(panel.field.ids)
        wanted = [100 + node if node in nodes else 0 for node in everybody]
        here = sorted(nodes), sorted(row)
        assert panel.scores.consensus_of(1, round_id) == here
        assert panel.scores.shares(1, round_id, everybody) == wanted
        listed = sorted(nodes)
        panel.field.propose(round_id, nodes=listed, contributions=[1] * 19)
        panel.field.attest(round_id)
        system.results.finalize(1, round_id, listed, [1] * 19)
        pool = system.pool.pool(1, round_id)
        assert pool.distributed == pool.total_contribution == sum(row)
    assert nodes != sorted(nodes)
    check_money(panel)


def panel_score(panel: Panel, round_id: int, row: list[int]) -> list[int]:
    """All verifiers give the same row."""
    panel.commit_all(round_id, row)
    panel.reveal_all(round_id, row)
    panel.close(round_id, row)
    return list(panel.scores.shares(1, round_id, panel.snapshot(round_id)[0]))
