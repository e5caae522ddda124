# SPDX-License-Identifier: Apache-2.0
"""From one validator's record to the next: the draw, the ratings and the scores, as pure functions.

Rule: the validator makes its record with these functions, and an auditor checks it with the same
ones. All that a record adds of its own are the failures it saw and the losses it measured; the
rest follows from them and from the record before.

A rating is kept while its node is away, for FORGOTTEN_AFTER rounds at most. What a node has waited
that was never evaluated grows by the rounds in which its payload could be measured; each round in
which it is away takes one off, and at none it is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from agents.gauntlet.draw import NEW, RATED, draw, round_seed
from agents.gauntlet.loss_score import from_nano
from agents.gauntlet.peer_scores import normalise, peer_score_by_rank, vector
from agents.gauntlet.present import Present, round_shares
from agents.gauntlet.ratings import FRESH, Evaluation, Rating, indicator, rate, relative
from agents.gauntlet.record import MAX_RATED, MAX_UNSEEN, NodeRating, NodeScore, ScoreRecord
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.cid import cid_of_bytes, digest_of

FORGOTTEN_AFTER = 100
_ROUNDING = 2  # 1e-6: the exponential of OpenSkill may differ in its last bit between machines

GOOD, LAST = "good", "last"  # the two draws: whose loss is measured, and who ranks last unmeasured


def digest_of_record(raw: bytes) -> bytes:
    """What names a record on chain and in the next record: the digest of its CID."""
    return digest_of(cid_of_bytes(raw))


def tickets_of(previous: ScoreRecord | None) -> dict[int, int]:
    """Of each rated node, as many for all that were evaluated before; newcomers gain by waiting."""
    lines = [] if previous is None else previous.ratings
    return {line.node: 1 + line.unseen if _is_new(line) else RATED for line in lines}


def newcomers(previous: ScoreRecord | None, nodes: Iterable[int]) -> set[int]:
    """Those of the nodes that were never evaluated, but for those that sent work in each round from
    the chain's first on: when it begins nobody has a rating that could be rested on."""
    if previous is None:
        return set()
    rounds = previous.position + 1
    rated = {line.node: line for line in previous.ratings}
    return {
        node
        for node in nodes
        if (line := rated.get(node)) is None or (_is_new(line) and line.unseen - NEW < rounds)
    }


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
    seed, tickets = round_seed(audit_seed), tickets_of(previous)
    count, late = options.evaluated, newcomers(previous, {*usable, *others})
    return (
        draw(seed, GOOD, tickets, usable, count, late),
        draw(seed, LAST, tickets, others, count, late),
    )


def follow(
    previous: ScoreRecord | None, lines: Sequence[NodeScore], options: Gauntlet
) -> list[NodeRating]:
    """The ratings after a round, ascending by node. `lines`: their `score` is not read."""
    before = {} if previous is None else {line.node: line for line in previous.ratings}
    known = {node: _rating(line) for node, line in before.items()}
    here = {line.node: line for line in lines}
    start = {**dict.fromkeys(here, FRESH), **known}
    match = _match(lines, before, options)
    failed = sorted(line.node for line in lines if line.failure)
    kept = []
    for node, rating in rate(start, match, failed, options, _wait(lines)).items():
        line = NodeRating(
            node=node,
            skill=rating.skill,
            sigma=rating.sigma,
            mu=rating.mu,
            value=rating.value,
            extra=rating.extra,
            unseen=_unseen(before.get(node), here.get(node)),
        )
        if node in here or _is_remembered(line):
            kept.append(line)
    kept.sort(key=lambda line: (line.node not in here, _is_new(line), line.unseen, line.node))
    return sorted(kept[:MAX_RATED], key=lambda line: line.node)


def scores_of(
    lines: Sequence[NodeScore], ratings: Sequence[NodeRating], options: Gauntlet
) -> list[int]:
    """The score vector, in the order of `lines`.

    Only who passed fast evaluation in this very round has a share of it; others keep their rating.
    Where work is paid, who was evaluated is paid by what it showed now (`agents.gauntlet.present`).
    """
    rated = {line.node: _rating(line) for line in ratings}
    nodes = [line.node for line in lines]
    passed = {line.node: rated[line.node] for line in lines if not line.failure}
    if not options.pays_work:
        by_rank = {node: peer_score_by_rank(rating) for node, rating in passed.items()}
        shares = normalise(dict.fromkeys(nodes, 0.0) | by_rank, options.power, above_least=True)
        return vector(shares, nodes)
    match = _match(lines, {}, options)
    sizes = relative(match)
    now = {
        e.node: Present(indicator(e, rated[e.node].extra, options), sizes[e.node])
        for e in match
        if e.node in passed
    }
    return vector(round_shares(passed, now, options.power), nodes)


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
        for name in ("skill", "sigma", "mu", "value", "extra", "unseen"):
            stated, found = getattr(theirs[node], name), getattr(line, name)
            if abs(stated - found) > (0 if name == "unseen" else _ROUNDING):
                wrong.append(f"{name} of node {node} is {stated}, replay gives {found}")
    return wrong


def _match(
    lines: Sequence[NodeScore], before: Mapping[int, NodeRating], options: Gauntlet
) -> list[Evaluation]:
    """What a record states of the evaluated, ascending by node. `before`: the ratings it found."""
    return [
        Evaluation(
            line.node,
            from_nano(_beyond(line)),
            from_nano(line.random),
            line.shown if options.pays_work else None,
            _stands_for(before.get(line.node)) if options.pays_work else 1,
            line.extra or 0,
        )
        for line in sorted(lines, key=lambda line: line.node)
        if line.evaluated
    ]


def _is_new(line: NodeRating) -> bool:
    """Whether the node was never evaluated: one that was has another rating."""
    return _rating(line) == FRESH


def _is_remembered(line: NodeRating) -> bool:
    """Whether the line of a node that is away is kept."""
    return line.unseen > NEW if _is_new(line) else line.unseen <= FORGOTTEN_AFTER


def _unseen(before: NodeRating | None, line: NodeScore | None) -> int:
    """Rounds since a node's evaluation; of one that never was, NEW and the rounds that it waited.
    `line`: None where it is away."""
    if line is not None and line.evaluated:
        return 0
    if before is not None and not _is_new(before):
        return min(before.unseen + 1, MAX_UNSEEN)
    old = NEW if before is None else before.unseen
    return max(NEW, old - 1) if line is None else min(old + line.usable, MAX_UNSEEN)


def _stands_for(line: NodeRating | None) -> int:
    """Rounds that a node's evaluation stands for. `line`: of the record before."""
    if line is None:
        return 1
    return 1 + max(0, line.unseen - NEW if _is_new(line) else line.unseen)


def _wait(lines: Sequence[NodeScore]) -> int:
    """Rounds from one evaluation of a node to the next, usually; rounded up."""
    usable = sum(line.usable for line in lines)
    evaluated = sum(line.usable and line.evaluated for line in lines)
    return max(1, math.ceil(usable / max(1, evaluated)))


def _beyond(line: NodeScore) -> int | None:
    """The LossScore on assigned data without what was to be expected of any update there."""
    if line.assigned is None or line.expected is None:
        return None
    return line.assigned - line.expected


def _rating(line: NodeRating) -> Rating:
    return Rating(line.skill, line.sigma, line.mu, line.value, line.extra)
