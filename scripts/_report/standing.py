# SPDX-License-Identifier: Apache-2.0
"""How nodes stood in a job that validators score: curves by node and round, for its report.

What one validator measured comes from its published record. A curve is the median over the
validators whose records name the node in that round. Payouts come from the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from agents.gauntlet.loss_score import NANO
from agents.gauntlet.peer_scores import peer_score
from agents.gauntlet.ratings import MICRO, Rating, ordinal
from agents.gauntlet.record import NodeRating, ScoreRecord
from agents.protocol.numbers import ZOO
from scripts._report.story import Story

Curve = list[tuple[int, float]]
Curves = dict[int, Curve]  # by node: (round, figure)


@dataclass(frozen=True)
class Standing:
    """Figures by node, ascending by round.

    Attributes:
        loss_scores: LossScore on random data, nats per token.
        ratings: LossRating: OpenSkill's ordinal.
        mus: mu, from -1 to 1.
        peer_scores: PeerScore.
        payouts: credited in the round, in ZOO.
    """

    loss_scores: Curves
    ratings: Curves
    mus: Curves
    peer_scores: Curves
    payouts: Curves


def standing_of(history: Story) -> Standing | None:
    """The curves of every trainer that was in a round; None if no round was scored."""
    rounds = sorted(history.rounds.values(), key=lambda story: story.round_id)
    if not any(story.records for story in rounds):
        return None
    found = Standing({}, {}, {}, {}, {})
    for story in rounds:
        records, number = story.records.values(), story.round_id
        rated = {node: list(_ratings(records, node)) for node in story.nodes} if records else {}
        for node in story.nodes:
            _add(found.loss_scores, node, number, _losses(records, node))
            _add(found.ratings, node, number, map(ordinal, rated.get(node, ())))
            _add(found.mus, node, number, (rating.mu / MICRO for rating in rated.get(node, ())))
            _add(found.peer_scores, node, number, map(peer_score, rated.get(node, ())))
            if story.ended_at:
                _add(found.payouts, node, number, [story.paid.get(node, 0) / ZOO])
    return found


def latest(history: Story, figure: Callable[[Rating], float]) -> dict[int, float]:
    """By trainer, the median over validators of a figure of its newest rating."""
    newest: dict[int, dict[int, NodeRating]] = {}
    for _, story in sorted(history.rounds.items()):
        for verifier, record in story.records.items():
            for line in record.ratings:
                newest.setdefault(line.node, {})[verifier] = line
    return {
        node: median(figure(_rating(line)) for line in lines.values())
        for node, lines in newest.items()
    }


def _add(curves: Curves, node: int, number: int, figures: Iterable[float]) -> None:
    values = list(figures)
    if values:
        curves.setdefault(node, []).append((number, median(values)))


def _losses(records: Iterable[ScoreRecord], node: int) -> Iterable[float]:
    for record in records:
        for line in record.scores:
            if line.node == node and line.random is not None:
                yield line.random / NANO


def _ratings(records: Iterable[ScoreRecord], node: int) -> Iterable[Rating]:
    for record in records:
        for line in record.ratings:
            if line.node == node:
                yield _rating(line)


def _rating(line: NodeRating) -> Rating:
    return Rating(line.skill, line.sigma, line.mu, line.value)
