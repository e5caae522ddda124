# SPDX-License-Identifier: Apache-2.0
"""What somebody may try to be paid, or to keep others from being paid, by scores."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.scores import (
    BPS,
    COMMIT_S,
    COMMIT_TIME,
    RECORD,
    REVEAL_S,
    SALT,
    SCALE,
    SCORE_CLOSED,
    SCORE_REVEAL,
    Panel,
    make_panel,
)
from tests.stage.contracts.system import REWARD, VOID, ZOO, System, refuses
from tests.stage.contracts.wealth import of_address, of_sponsor

HONEST = [30_000, 20_000, 0]  # trainer 2 is the liar's friend and worth nothing
LIE = [0, 0, SCALE]


def test_first_round_opened_by_a_stranger__keeps_the_sponsor_from_adopting__at_a_rounds_price(
    panel: Panel,
) -> None:
    """It took nothing where a round paid nothing. What the stranger pays is the sponsor's."""
    system, sponsor, mallory = panel.system, panel.field.sponsor, panel.field.stranger
    with refuses("jobs: reward too low"):
        system.job(sponsor, escrow=0, reward_per_round=0)
    job = system.job(sponsor, escrow=0, reward_per_round=ZOO)
    with refuses("pool: escrow too low"):
        system.rounds.open_round(job, sender=mallory)
    before, theirs = of_address(system, mallory), of_sponsor(system, sponsor, job)
    system.fund(job, ZOO, mallory)
    system.rounds.open_round(job, sender=mallory)
    with refuses("scores: round opened"):
        panel.scores.adopt(job, COMMIT_S, REVEAL_S, sender=sponsor)
    system.jobs.cancel_job(job, sender=sponsor)
    system.time_out(job, 1)
    system.pool.refund(job, sender=sponsor)
    assert of_address(system, mallory) - before == -ZOO
    assert of_sponsor(system, sponsor, job) - theirs == ZOO
    other = system.job(sponsor, escrow=0, reward_per_round=ZOO)
    panel.scores.adopt(other, COMMIT_S, REVEAL_S, sender=sponsor)


@pytest.mark.parametrize("honest_present", [2, 1])
def test_minority_of_stake__raises_nobody(system: System, honest_present: int) -> None:
    """A liar with 30 % of the stake; honest verifiers of 35 % each, one of them maybe away. What is
    away counts against everybody, never for the liar."""
    panel = make_panel(system, stakes=[150 * ZOO, 175 * ZOO, 175 * ZOO])
    round_id = panel.field.to_aggregate()
    rows = [LIE, HONEST, HONEST if honest_present == 2 else None]
    consensus = panel.score(round_id, rows)
    assert consensus == (HONEST if honest_present == 2 else [0, 0, 0])
    friend = panel.field.trainers[2]
    if honest_present == 2:
        panel.finish(round_id, *panel.verifiers[1:])
        assert system.pool.pending(friend.payout) == 0


def test_minority_of_stake__when_alone__cannot_score_at_all(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    assert panel.score(round_id, [LIE, None, None]) == [0, 0, 0]
    assert panel.scores.settlement(1, round_id) == (True, 0, 0)


def test_minority_of_stake__thins_out_the_others_where_honest_scores_differ(system: System) -> None:
    """The friend's consensus is what honest verifiers gave it, with or without the lie. But nobody
    else has half of the stake any more, except for the least that all honest ones agree on."""
    panel = make_panel(system, stakes=[150 * ZOO, 175 * ZOO, 175 * ZOO])
    round_id = panel.field.to_aggregate()
    rows = [[40_000, 15_000, 5_000], [15_000, 40_000, 5_000]]
    with boa.env.anchor():
        assert panel.score(round_id, [[25_000, 25_000, 0], *rows]) == [25_000, 25_000, 5_000]
    assert panel.score(round_id, [LIE, *rows]) == [15_000, 15_000, 5_000]
    liar = panel.verifiers[0]
    # One part in seven of the pay instead of one in eleven; the liar pays with its trust.
    assert panel.scores.trust_of(1, liar.node_id) == BPS * 5_000 // SCALE


def test_copied_commitment__cannot_be_opened(panel: Panel) -> None:
    """The copier sends its victim's commitment from the mempool and later the victim's opening."""
    round_id = panel.field.to_aggregate()
    victim, copier, third = panel.verifiers
    commitment = panel.digest(round_id, victim, HONEST)
    panel.send_commitment(round_id, copier, commitment)
    panel.send_commitment(round_id, victim, commitment)
    panel.commit(round_id, third, HONEST)
    panel.reveal(round_id, victim, HONEST)
    with refuses("scores: bad opening"):
        panel.reveal(round_id, copier, HONEST)
    with refuses("scores: already revealed"):
        panel.reveal(round_id, victim, HONEST, sender=copier.operator)


def test_opening_of_another__is_refused_from_any_other_sender(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, HONEST)
    for sender in (panel.verifiers[1].operator, panel.verifiers[0].owner, panel.field.stranger):
        with refuses("scores: bad opening"):
            panel.reveal(round_id, panel.verifiers[0], HONEST, sender=sender)


def test_commitment_of_another_round_or_job__cannot_be_opened(panel: Panel) -> None:
    player = panel.verifiers[0]
    first = panel.to_scored()
    panel.finish(first)
    second = panel.field.to_aggregate()
    for stale in (
        panel.digest(first, player, HONEST),
        panel.digest(second, player, HONEST, job_id=2),
    ):
        with boa.env.anchor():
            panel.send_commitment(second, player, stale)
            panel.past_commits(second)
            with refuses("scores: bad opening"):
                panel.reveal(second, player, HONEST)


def test_other_vector_record_or_salt__is_refused(panel: Panel) -> None:
    """Having read the others' vectors, a verifier wants to have said the same."""
    round_id = panel.field.to_aggregate()
    late, *others = panel.verifiers
    panel.commit(round_id, late, LIE)
    for player in others:
        panel.commit(round_id, player, HONEST)
        panel.scores.scoring(1, round_id)
    for player in others:
        panel.reveal(round_id, player, HONEST)
    other = b"\x05" * 32
    for row, record, salt in (
        (HONEST, RECORD, SALT),
        (LIE, other, SALT),
        (LIE, RECORD, other),
        ([*LIE, 0], RECORD, SALT),
        (LIE[:2], RECORD, SALT),
    ):
        with refuses("scores: bad opening"):
            panel.reveal(round_id, late, row, record, salt)
    panel.reveal(round_id, late, LIE)


def test_uncommitted_verifier__cannot_reveal(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    panel.commit(round_id, panel.verifiers[0], HONEST)
    panel.past_commits(round_id)
    with refuses("scores: bad opening"):
        panel.reveal(round_id, panel.verifiers[1], HONEST)


def test_commit_after_the_first_reveal__is_too_late(panel: Panel) -> None:
    """Nobody can see a vector and still commit."""
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, HONEST, *panel.verifiers[:2])
    with refuses("scores: not in reveal"):
        panel.reveal(round_id, panel.verifiers[0], HONEST)
    panel.past_commits(round_id)
    panel.reveal(round_id, panel.verifiers[0], HONEST)
    with refuses("scores: too late"):
        panel.commit(round_id, panel.verifiers[2], HONEST)


def test_reveal_after_the_deadline__is_refused_and_costs_the_cut(panel: Panel) -> None:
    """Whoever waits to see whether its vector suits it is not paid and not trusted."""
    round_id = panel.field.to_aggregate()
    panel.score(round_id, [HONEST, HONEST, LIE], silent=[2])
    late = panel.verifiers[2]
    with refuses("scores: not in reveal"):
        panel.reveal(round_id, late, LIE)
    ids = [p.node_id for p in panel.verifiers]
    assert panel.scores.cut_factors(1, round_id, ids) == [BPS, BPS, 0]
    assert panel.scores.trust_of(1, late.node_id) == 0


def test_rushed_proposal__cannot_be_finalized_while_scores_are_open(panel: Panel) -> None:
    """A proposer with its own shares, and verifiers that attest at once."""
    round_id = panel.field.to_aggregate()
    panel.commit(round_id, panel.verifiers[0], HONEST)
    panel.field.propose(round_id, contributions=[1, 1, 10**9])
    panel.field.attest(round_id)
    assert panel.system.results.can_finalize(1, 1)
    with refuses("scores: open"):
        panel.system.results.finalize(1, 1, panel.field.ids, [1, 1, 10**9])
    panel.commit_all(round_id, HONEST, *panel.verifiers[1:])
    panel.reveal_all(round_id, HONEST)
    panel.close(round_id, HONEST)
    panel.system.results.finalize(1, 1, panel.field.ids, [1, 1, 10**9])
    paid = [panel.system.pool.pending(p.payout) for p in panel.field.trainers]
    rest = REWARD * 85 // 100
    assert paid == [rest * 30_000 // 50_000, rest * 20_000 // 50_000, 0]


def test_last_second_commitment__delays_by_the_reveal_window_at_most(panel: Panel) -> None:
    """A verifier waits for the end of the time to commit, and says nothing more."""
    round_id = panel.field.to_challenge()
    begun = panel.system.rounds.closed_at(1, round_id)
    mine(1, begun + COMMIT_TIME - boa.env.timestamp)
    panel.commit(round_id, panel.verifiers[0], LIE)
    mine(1, REVEAL_S)
    with refuses("scores: open"):
        panel.field.finalize()
    with refuses("scores: not over"):
        panel.close(round_id, [0, 0, 0])
    mine(1, 1)
    panel.close(round_id, [0, 0, 0])
    panel.field.finalize()
    # And never twice in a round.
    with refuses("scores: round not running"):
        panel.commit(round_id, panel.verifiers[1], LIE)


def test_hasty_result__waits_for_those_who_may_still_score(panel: Panel) -> None:
    """All attest before anybody could score, so that the round is paid by its result. Nobody comes:
    it waits for the time to commit and no longer."""
    round_id = panel.field.to_challenge()
    panel.field.attest(round_id)
    mine(1, panel.state(round_id).commit_deadline - boa.env.timestamp)
    with refuses("scores: open"):
        panel.field.finalize()
    with boa.env.anchor():
        panel.commit_all(round_id, HONEST)
        panel.reveal_all(round_id, HONEST)
        panel.close(round_id, HONEST)
        panel.field.finalize()
        assert panel.system.pool.pool(1, round_id).scored_round == round_id
    mine(1, 1)
    panel.field.finalize()


def test_closed_scoring__cannot_be_opened_again(panel: Panel) -> None:
    round_id = panel.to_scored()
    assert panel.state(round_id).phase == SCORE_CLOSED
    with refuses("scores: closed"):
        panel.close(round_id, [0, 0, 0])
    with refuses("scores: already committed"):
        panel.commit(round_id, panel.verifiers[0], LIE)


def test_void_round__is_never_scored_afterwards(panel: Panel) -> None:
    """Closing late would change, under everybody's feet, who stands best for the next round."""
    round_id = panel.field.to_aggregate()
    panel.commit_all(round_id, LIE)
    panel.reveal_all(round_id, LIE)
    assert panel.state(round_id).closable
    snapshot = panel.snapshot(round_id)
    for _ in range(2):
        panel.system.time_out(1, round_id)
    assert panel.system.phase(1, round_id) == VOID
    with refuses("scores: round not running"):
        panel.scores.close_scoring(1, round_id, *snapshot, LIE)
    assert panel.state(round_id).phase == SCORE_REVEAL
    assert panel.scores.last_scored(1) == 0
    # The whole pool went back, and the next round can be scored and paid.
    assert panel.system.pool.escrow(1) == 10 * REWARD
    panel.finish(panel.to_scored())


def test_wrong_consensus__is_refused_in_both_directions(panel: Panel) -> None:
    round_id = panel.field.to_aggregate()
    rows = [[100, 7, 0], [200, 7, 0], [300, 7, 1]]
    for player, row in zip(panel.verifiers, rows, strict=True):
        panel.commit(round_id, player, row)
    for player, row in zip(panel.verifiers, rows, strict=True):
        panel.reveal(round_id, player, row)
    right = [200, 7, 0]
    for place in range(3):
        for change in (-100, -1, 1, 100, SCALE, 2**256 - 1 - right[place]):
            wrong = list(right)
            wrong[place] += change
            if wrong[place] >= 0:
                with refuses("scores: not the median"):
                    panel.close(round_id, wrong)
    panel.close(round_id, right)


def test_close__not_the_snapshot__is_refused(panel: Panel) -> None:
    """With nodes in another order the consensus would pay the wrong ones."""
    round_id = panel.field.to_aggregate()
    rows = [HONEST] * 3
    panel.commit_all(round_id, HONEST)
    panel.reveal_all(round_id, HONEST)
    nodes, weights = panel.snapshot(round_id)
    for changed in (
        (nodes[::-1], weights),
        ([nodes[0]] * 3, weights),
        (nodes[:2], weights[:2]),
        ([*nodes, 99], [*weights, 1]),
        (nodes, [w + 1 for w in weights]),
        (nodes, weights[:2]),
        ([], []),
    ):
        with refuses("scores: wrong snapshot"):
            panel.scores.close_scoring(1, round_id, *changed, HONEST)
    for length in (0, 2, 4):
        with refuses("scores: length mismatch"):
            panel.close(round_id, [0] * length)
    assert panel.consensus(dict(zip(panel.weights, rows, strict=True))) == HONEST
    panel.close(round_id, HONEST)


def test_next_to_nothing_for_everybody__is_no_agreement(panel: Panel) -> None:
    """Row sums are bounded, not fixed: without the greater of both sums a verifier that gives one
    unit to the best node would agree with everybody, perfectly and for nothing."""
    round_id = panel.field.to_aggregate()
    consensus = panel.score(round_id, [HONEST, HONEST, [1, 0, 0]])
    assert consensus == HONEST
    assert panel.scores.trust_of(1, panel.verifiers[0].node_id) == BPS
    assert panel.scores.trust_of(1, panel.verifiers[2].node_id) == 0


def test_node_left_out_of_the_result__is_paid_all_the_same(panel: Panel) -> None:
    round_id = panel.to_scored(HONEST, HONEST, HONEST)
    ids = panel.field.ids[1:]
    panel.field.propose(round_id, nodes=ids, contributions=[1, 1])
    panel.field.attest(round_id)
    panel.system.results.finalize(1, 1, ids, [1, 1])
    amount = REWARD - REWARD // 20 - 3 * (REWARD // 10 // 3)
    paid = [panel.system.pool.pending(p.payout) for p in panel.field.trainers]
    assert paid == [amount * 30_000 // 50_000, amount * 20_000 // 50_000, 0]
    assert panel.system.pool.escrow(1) - 9 * REWARD <= 2
