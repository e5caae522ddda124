# SPDX-License-Identifier: Apache-2.0
"""The curves of a training run, all of them by round."""

from __future__ import annotations

from collections.abc import Collection

from agents.protocol.numbers import ZOO, Role
from scripts._report.page.chart import Curve, chart
from scripts._report.run import Run
from scripts._report.standing import Curves, Standing
from scripts._report.story import NodeStory, Story, losses


def loss(story: Story) -> str:
    """The model's validation loss; round 0 is the model that the job began with."""
    curve = Curve("validation loss", list(enumerate(losses(story))))
    return chart("Validation loss", [curve], "finalized rounds", "nats per token")


def figures(run: Run) -> list[str]:
    """Everything else that is drawn."""
    story = run.story
    places = {node.node_id: place for place, node in enumerate(_trainers(story))}
    drawn = [_rewards(run, places)]
    if story.slashes:
        drawn.append(_stakes(story, places))
    if spent := run.spent:
        named = {node.name: places[node.node_id] for node in _trainers(story)}
        curves = [
            Curve(name, curve, named.get(name, 0), name in run.cheats, step=True)
            for name, curve in spent.curves.items()
        ]
        title = f"Privacy spent, per {spent.unit}"
        unit = f"epsilon at delta {spent.delta:g}"
        drawn.append(chart(title, curves, "round", unit, limit=("budget", spent.budget)))
    if run.standing is not None:
        drawn += _standing(run.standing, story, set(run.cheats), places)
    return ["<div class='charts'>", *drawn, "</div>"]


def _trainers(story: Story) -> list[NodeStory]:
    return [node for node in story.nodes.values() if node.roles & Role.TRAINER]


def _rewards(run: Run, places: dict[int, int]) -> str:
    """Cumulated. What was held and released belongs to no round and is drawn with the last."""
    story = run.story
    numbers = sorted(story.rounds)
    curves = []
    for node in _trainers(story):
        got = dict.fromkeys([0, *numbers], 0)
        for credit in story.credits:
            if credit.node_id == node.node_id:
                got[credit.round_id or numbers[-1]] += credit.amount
        points, whole = [], 0
        for number, amount in got.items():
            whole += amount
            points.append((float(number), whole / ZOO))
        dashed = node.name in run.cheats
        curves.append(Curve(node.name, points, places[node.node_id], dashed))
    return chart("Rewards of trainers", curves, "round", "ZOO credited so far; dashed: cheats")


def _stakes(story: Story, places: dict[int, int]) -> str:
    """What is left of it after each round, of nodes that were slashed."""
    guilty = {slash.node_id for slash in story.slashes}
    ends = {number: round_.ended_at for number, round_ in sorted(story.rounds.items())}
    if ends:
        ends[max(ends)] = story.now
    curves = []
    for node in story.nodes.values():
        if node.node_id in guilty:
            first = node.stakes[0][1]
            points = [(0.0, 100.0)]
            for number, end in ends.items():
                left = [stake for time, stake in node.stakes if time <= (end or story.now)]
                points.append((float(number), 100 * (left or [first])[-1] / first))
            place = places.get(node.node_id, len(places))
            curves.append(Curve(node.name, points, place, step=True))
    unit = "% of the first stake, of nodes that were slashed"
    return chart("Stake left", curves, "round", unit, y_values=(0, 105))


def _standing(
    standing: Standing, story: Story, cheats: Collection[str], places: dict[int, int]
) -> list[str]:
    def draw(curves: Curves, title: str, unit: str, narrow: bool = False) -> str:
        drawn = [
            Curve(story.label(node), curve, places.get(node, 0), story.label(node) in cheats)
            for node, curve in sorted(curves.items())
        ]
        return chart(title, drawn, "round", unit, _most(curves) if narrow else ())

    return [
        draw(standing.loss_scores, "LossScore on random data", "nats per token", narrow=True),
        draw(standing.ratings, "LossRating (OpenSkill's ordinal)", "skill - 3 sigma"),
        draw(standing.mus, "mu: fits its own batches better", "moving average of signs"),
        draw(standing.peer_scores, "PeerScore", "mu x relative LossScore, cut at 0"),
        draw(standing.payouts, "Paid per round", "ZOO"),
    ]


def _most(curves: Curves) -> tuple[float, ...]:
    """What 95 % of the points span, so that one ruinous value does not flatten all others."""
    found = sorted(figure for curve in curves.values() for _, figure in curve)
    if len(found) < 20:
        return ()
    edge = len(found) // 40
    low, high = found[edge], found[-1 - edge]
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin
