# SPDX-License-Identifier: Apache-2.0
"""From one validator's record to the next: the draw, the ratings and the scores, as pure functions.

Rule: the validator makes its record with these functions, and an auditor checks it with the same
ones. All that a record adds of its own are the failures it saw and the losses it measured; the
rest follows from them and from the record before.

A rating is kept while its node is away, for FORGOTTEN_AFTER rounds at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.gauntlet.draw import NEW, draw, round_seed
from agents.gauntlet.loss_score import from_nano
from agents.gauntlet.peer_scores import normalise, peer_score, peer_score_by_rank, vector
from agents.gauntlet.ratings import FRESH, Evaluation, Rating, rate
from agents.gauntlet.record import MAX_RATED, MAX_UNSEEN, NodeRating, NodeScore, ScoreRecord
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.cid import cid_of_bytes, digest_of

FORGOTTEN_AFTER = 100
_ROUNDING = 2  # 1e-6: the exponential of OpenSkill may differ in its last bit between machines

GOOD, LAST = "good", "last"  # the two draws: whose loss is measured, and who ranks last unmeasured


def digest_of_record(raw: bytes) -> bytes:
    """What names a record on chain and in the next record: the digest of its CID."""
    return digest_of(cid_of_bytes(raw))


def unseen_of(previous: ScoreRecord | None) -> dict[int, int]:
    """Rounds since each rated node was last evaluated."""
    return {} if previous is None else {line.node: line.unseen for line in previous.ratings}


def drawn(
    audit_seed: bytes,
    previous: ScoreRecord | None,
    usable: Sequence[int],
    others: Sequence[int],
    options: Gauntlet,
) -> tuple[list[int], list[int]]:
    """Who takes part in the round's match: of the usable, and of the others, who rank last.

    As many of either at most, so that a crowd of absent nodes can't make a match unbounded.
    """
    seed, unseen = round_seed(audit_seed), unseen_of(previous)
    count = options.evaluated
    return (draw(seed, GOOD, unseen, usable, count), draw(seed, LAST, unseen, others, count))


def follow(
    previous: ScoreRecord | None, lines: Sequence[NodeScore], options: Gauntlet
) -> list[NodeRating]:
    """The ratings after a round, ascending by node. `lines`: their `score` is not read."""
    before = {} if previous is None else {line.node: line for line in previous.ratings}
    known = {node: _rating(line) for node, line in before.items()}
    here = {line.node: line for line in lines}
    start = {**dict.fromkeys(here, FRESH), **known}
    match = [
        Evaluation(
            line.node,
            from_nano(_beyond(line)),
            from_nano(line.random),
            line.shown if options.pays_work else None,
        )
        for line in sorted(lines, key=lambda line: line.node)
        if line.evaluated
    ]
    failed = sorted(line.node for line in lines if line.failure)
    kept = []
    for node, rating in rate(start, match, failed, options).items():
        old = before[node].unseen if node in before else NEW
        seen = node in here and here[node].evaluated
        unseen = 0 if seen else min(old + 1, MAX_UNSEEN)
        if node in here or unseen <= FORGOTTEN_AFTER:
            kept.append(
                NodeRating(
                    node=node,
                    skill=rating.skill,
                    sigma=rating.sigma,
                    mu=rating.mu,
                    value=rating.value,
                    unseen=unseen,
                )
            )
    kept.sort(key=lambda line: (line.node not in here, line.unseen, line.node))
    return sorted(kept[:MAX_RATED], key=lambda line: line.node)


def scores_of(
    lines: Sequence[NodeScore], ratings: Sequence[NodeRating], options: Gauntlet
) -> list[int]:
    """The score vector, in the order of `lines`.

    Only who passed fast evaluation in this very round has a share of it; others keep their rating.
    """
    worth = peer_score if options.pays_work else peer_score_by_rank
    rated = {line.node: worth(_rating(line)) for line in ratings}
    peers = {line.node: 0.0 if line.failure else rated[line.node] for line in lines}
    shares = normalise(peers, options.power, above_least=not options.pays_work)
    return vector(shares, [line.node for line in lines])


def replay(record: ScoreRecord, previous: ScoreRecord | None, options: Gauntlet) -> list[str]:
    """What in a record does not follow from the one before it, as sentences; empty if all does.

    `previous`: the record that `record.previous` names, already fetched. Ratings may differ by
    2e-6 and scores by 1, the last bits of floating-point functions.
    """
    wrong = _chain(record, previous)
    usable = [line.node for line in record.scores if line.usable]
    others = [line.node for line in record.scores if not line.usable]
    audit_seed = bytes.fromhex(record.audit_seed)
    due = {node for part in drawn(audit_seed, previous, usable, others, options) for node in part}
    stated = {line.node for line in record.scores if line.evaluated}
    if due != stated:
        wrong.append(f"nodes {sorted(stated)} took part in the match, the draw says {sorted(due)}")
    wrong += _ratings(record, follow(previous, record.scores, options))
    if {line.node for line in record.scores} - {line.node for line in record.ratings}:
        return [*wrong, "a node of the snapshot has no rating"]
    own = scores_of(record.scores, record.ratings, options)
    wrong += [
        f"the score of node {line.node} is {line.score}, its ratings give {score}"
        for line, score in zip(record.scores, own, strict=True)
        if abs(line.score - score) > 1
    ]
    return wrong


def _chain(record: ScoreRecord, previous: ScoreRecord | None) -> list[str]:
    if previous is None:
        return [] if record.previous is None else ["the record names one before it"]
    wrong = []
    if record.previous != digest_of_record(previous.to_bytes()).hex():
        wrong.append("the record does not name the one before it")
    if (record.job, record.verifier) != (previous.job, previous.verifier):
        wrong.append("the record before it is of another job or validator")
    if record.position != previous.position + 1 or record.round <= previous.round:
        wrong.append("the record does not come after the one it names")
    return wrong


def _ratings(record: ScoreRecord, own: Sequence[NodeRating]) -> list[str]:
    mine = {line.node: line for line in own}
    theirs = {line.node: line for line in record.ratings}
    if mine.keys() != theirs.keys():
        return [f"nodes {sorted(theirs)} are rated, replay rates {sorted(mine)}"]
    wrong = []
    for node, line in mine.items():
        for name in ("skill", "sigma", "mu", "value", "unseen"):
            stated, found = getattr(theirs[node], name), getattr(line, name)
            if abs(stated - found) > (0 if name == "unseen" else _ROUNDING):
                wrong.append(f"{name} of node {node} is {stated}, replay gives {found}")
    return wrong


def _beyond(line: NodeScore) -> int | None:
    """The LossScore on assigned data without what was to be expected of any update there."""
    if line.assigned is None or line.expected is None:
        return None
    return line.assigned - line.expected


def _rating(line: NodeRating) -> Rating:
    return Rating(skill=line.skill, sigma=line.sigma, mu=line.mu, value=line.value)
