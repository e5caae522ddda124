# SPDX-License-Identifier: Apache-2.0
"""What ScoreConsensus refuses, to whom and when. Job 1 has adopted it, job 2 not yet; round 1 is
the one that `after` opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.contracts.scores.test_adopt import LEAST
from tests.stage.contracts.refusals import Act, Refusal, by, first, node
from tests.stage.contracts.refusals import refused as row
from tests.stage.contracts.scores import COMMIT_S, RECORD, REVEAL_S, SALT, SAMPLES, ScoreStage
from tests.stage.contracts.system import EMPTY, REWARD, STAKE, VERIFIER

ROW, LIE = [30_000, 20_000, 0], [0, 0, 65_535]
WORD = b"\x01" * 32
NOT_VERIFIER_0 = [
    *("verifier 0 owner", "verifier 0 payout", "verifier 1", "trainer 0", "sponsor"),
    *("coordinator", "stranger"),
]
NOT_TRAINER_0 = ["trainer 0 owner", "trainer 0 payout", "trainer 1", "verifier 0", "stranger"]


def adopt(who: str = "sponsor", job: int = 2, windows: Any = (COMMIT_S, REVEAL_S)) -> Act:
    return by(who, "scores.adopt", job, *windows)


def commit(
    who: str = "verifier 0", player: str = "verifier 0", digest: Any = WORD, number: int = 1
) -> Act:
    return by(who, "scores.commit_scores", 1, number, node(player), digest)


def post(who: str = "trainer 0", player: str = "trainer 0", digest: bytes = SAMPLES) -> Act:
    return by(who, "scores.post_samples", 1, 1, node(player), digest)


def reveal(
    who: str = "verifier 0",
    player: str = "verifier 0",
    scores: Sequence[int] = ROW,
    record: bytes = RECORD,
    salt: bytes = SALT,
) -> Act:
    return by(who, "scores.reveal_scores", 1, 1, node(player), list(scores), record, salt)


def close(scores: Sequence[int], change: Callable[..., Any] = lambda *lists: lists) -> Act:
    """With the round's nodes and weights as `change` makes them."""

    def send(stage: ScoreStage) -> None:
        lists = change(*stage.snapshot(1))
        by("stranger", "scores.close_scoring", 1, 1, *lists, list(scores))(stage)

    send.__name__ = "close_scoring by stranger"
    return send


def other_job(stage: ScoreStage) -> None:
    stage.system.job(stage.job.sponsor, escrow=0)


def other_job_at_work(stage: ScoreStage) -> None:
    """Nodes that came for one way of being paid are not given another."""
    other_job(stage)
    stage.system.fund(2, REWARD, stage.job.stranger)
    stage.system.rounds.open_round(2, sender=stage.job.stranger)


def to_commit(stage: ScoreStage) -> None:
    stage.job.to_commit()


def to_reveal(stage: ScoreStage) -> None:
    stage.job.to_reveal()


def to_aggregate(stage: ScoreStage) -> None:
    stage.job.to_aggregate()


def third_withholds(stage: ScoreStage) -> None:
    stage.job.to_aggregate(stage.job.trainers[:2])


def late_verifier(stage: ScoreStage) -> None:
    """Its weight in the snapshot is zero, whatever it stakes now."""
    to_aggregate(stage)
    stage.system.join("late", VERIFIER, 100 * STAKE)


def committed(row: Sequence[int] = ROW, **parts: bytes) -> Act:
    """All have committed to these scores, with this record."""

    def do(stage: ScoreStage) -> None:
        to_aggregate(stage)
        for player in stage.verifiers:
            stage.send_commitment(1, player, stage.digest(1, player, row, **parts))

    return do


def revealed(stage: ScoreStage) -> None:
    committed()(stage)
    stage.reveal_all(1, ROW)


def one_committed(stage: ScoreStage) -> None:
    """Only verifier 0; the time to commit is over."""
    to_aggregate(stage)
    stage.commit(1, stage.verifiers[0], ROW)
    stage.past_commits(1)


def liar_waits(stage: ScoreStage) -> None:
    """Verifier 0 committed to a lie, and has read the others' scores."""
    to_aggregate(stage)
    for player, scores in zip(stage.verifiers, (LIE, ROW, ROW), strict=True):
        stage.commit(1, player, scores)
    stage.reveal_all(1, ROW, *stage.verifiers[1:])


def bound_to(job_id: int, number: int) -> Act:
    """Verifier 0 commits with a digest that was made for another job or round."""

    def do(stage: ScoreStage) -> None:
        to_aggregate(stage)
        player = stage.verifiers[0]
        stage.send_commitment(1, player, stage.digest(number, player, ROW, job_id=job_id))
        stage.past_commits(1)

    return do


def finished(stage: ScoreStage) -> None:
    stage.finish(stage.to_scored())


def scored(stage: ScoreStage) -> None:
    stage.to_scored()


REFUSED = [
    *(
        row("scores: bad window", adopt(windows=windows), after=other_job)
        for windows in (
            *((0, 100), (100, 0), (LEAST - 1, 100), (100, LEAST - 1)),
            *((86_401, 100), (100, 2**255)),
        )
    ),
    # A stranger could make somebody's job pay by scores that nobody gives.
    row(
        "scores: not sponsor",
        *map(adopt, ("stranger", "verifier 0", "verifier 0 owner", "coordinator")),
        *(adopt(job=unknown) for unknown in (0, 3, 2**255)),
        after=other_job,
    ),
    row(
        "scores: already adopted",
        adopt(job=1),
        adopt(job=1, windows=(COMMIT_S + 1, REVEAL_S)),
    ),
    row("scores: round opened", adopt(), after=other_job_at_work),
    row(
        "pausing: paused",
        adopt(),
        after=first(other_job, by("coordinator", "scores.set_paused", 1)),
    ),
    # Commitments
    *(
        row("scores: round not running", commit(number=number), after=after)
        for number, after in (
            *((1, to_commit), (0, to_commit), (2, to_commit), (2**255, to_commit)),
            *((1, to_reveal), (1, finished)),
        )
    ),
    row("scores: not operator", *map(commit, NOT_VERIFIER_0), after=to_aggregate),
    row(
        "scores: not a verifier",
        *(commit(who, who) for who in ("trainer 0", "trainer 1", "aggregator", "late")),
        after=late_verifier,
    ),
    row("scores: empty commitment", commit(digest=EMPTY), after=to_aggregate),
    row(
        "scores: already committed",
        *(commit(digest=digest) for digest in (WORD, SAMPLES)),
        after=first(to_aggregate, commit()),
    ),
    row("scores: already committed", commit(), after=scored),
    # Samples. Wrong ones in another's name would make it look out of step.
    row(
        "scores: not operator",
        *map(post, NOT_TRAINER_0),
        by("trainer 0", "scores.post_samples", 1, 1, 99, SAMPLES),
        after=to_aggregate,
    ),
    row("scores: empty digest", post(digest=EMPTY), after=to_aggregate),
    row(
        "scores: already posted",
        *(post(digest=digest) for digest in (SAMPLES, WORD)),
        after=first(to_aggregate, post()),
    ),
    row(
        "scores: not revealed",
        *(post(who, who) for who in ("trainer 2", "verifier 0")),
        after=third_withholds,
    ),
    row("scores: round not running", post(), after=finished),
    # Reveals: whoever committed to such a vector has none.
    *(
        row(f"scores: {reason}", reveal(scores=bad), after=committed(bad))
        for reason, bad in (
            ("wrong length", []),
            ("wrong length", [1, 2]),
            ("wrong length", [1, 2, 3, 0]),
            ("score too high", [65_536, 0, 0]),
            ("score too high", [0, 0, 2**256 - 1]),
            ("sum too high", [65_535, 1, 0]),
            ("sum too high", [65_535] * 3),
        )
    ),
    # Ratings that nobody can replay are no ratings.
    row("scores: empty record", reveal(record=EMPTY), after=committed(record=EMPTY)),
    row("scores: already revealed", reveal(), after=first(committed(), reveal())),
    row(
        "scores: bad opening",
        *map(reveal, ("verifier 1", "verifier 0 owner", "stranger")),
        after=committed(),
    ),
    row("scores: bad opening", reveal("verifier 1", "verifier 1"), after=one_committed),
    *(row("scores: bad opening", reveal(), after=bound_to(*place)) for place in ((1, 2), (2, 1))),
    row(
        "scores: bad opening",
        reveal(),
        reveal(scores=LIE, record=WORD),
        reveal(scores=LIE, salt=WORD),
        reveal(scores=[*LIE, 0]),
        reveal(scores=LIE[:2]),
        after=liar_waits,
    ),
    # Closing: with nodes in another order the consensus would pay the wrong ones.
    row("scores: not open", close([0, 0, 0]), after=to_aggregate),
    row("scores: closed", close([0, 0, 0]), after=scored),
    row(
        "scores: wrong snapshot",
        close(ROW, lambda nodes, weights: (nodes[::-1], weights)),
        close(ROW, lambda nodes, weights: ([nodes[0]] * 3, weights)),
        close(ROW, lambda nodes, weights: (nodes[:2], weights[:2])),
        close(ROW, lambda nodes, weights: ([*nodes, 99], [*weights, 1])),
        close(ROW, lambda nodes, weights: (nodes, [weight + 1 for weight in weights])),
        close(ROW, lambda nodes, weights: (nodes, weights[:2])),
        close(ROW, lambda nodes, weights: ([], [])),
        after=revealed,
    ),
    row("scores: length mismatch", *(close([0] * n) for n in (0, 2, 4)), after=revealed),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_call__is_refused_with_its_reason(stage: ScoreStage, refusal: Refusal) -> None:
    refusal.check(stage)
