# SPDX-License-Identifier: Apache-2.0
"""The demo of Gauntlet: nodes train as they like and are paid by what their updates do to the loss.

The peers of the paper's Figure 2 and more. Four plain nodes and one that trains on twice the data;
one that rests for three rounds and goes on from its deviating model; one that publishes another's
payload, perturbed; one that is registered by another's owner and publishes its payload; one that
sends a hundred times its update; one that sends noise; one that is mostly late. Three validators
measure a few of them each round: the same ones, which the round's audit seed draws.

The codec is DeMo's and so is the merge, of signs; the inner step is the mean gradient over few and
small batches, so that more data shows in the update's direction, which is all that is measured.
Sequences have 64 tokens: the work that an update shows is counted by runs of them, a quarter of a
sequence each, and where these are short chance says more (docs/gauntlet.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.gauntlet.peer_scores import peer_score
from agents.protocol.numbers import SCALE, ZOO, Violation
from scripts._demo.scenario import TERMS, Cheat, Scenario
from scripts._report.standing import latest
from scripts._report.story import NodeStory, RoundStory, Story, losses
from scripts._report.verdict import Check

_BATCHES = 4  # a round and trainer, once the copies are gone
_COPIES = 2
_TWICE, _LATE = "twice the data", "mostly late"
_GAUNTLET = {
    "top": 5,  # as many as are honest
    "evaluated": 9,  # of 11, by each of three validators
    "eval_batches": 16,
    "gamma": 0.95,
}


def _spec(trainers: int) -> dict[str, Any]:
    return {
        "verify": "gauntlet",
        "codec": "demo",
        "codec_options": {"per_chunk": 512, "decay": 0.5},
        "merge": "demo_sign",
        "score": "gauntlet",
        "score_options": _GAUNTLET,
        "optimizer": {
            "inner": "gradient",
            "batch_size": 2,
            "seq_len": 64,
            "outer_lr": 4e-3,
            "outer_decay": True,
            "warmup_rounds": 2,
            "min_lr_ratio": 0.3,
        },
        "batches_per_round": _BATCHES * (trainers - _COPIES),
        "eval_batches": 64,
    }


def _checks(history: Story, names: Mapping[str, str]) -> list[Check]:
    """`names`: of cheats and peers, by what they do."""
    rounds = [story for _, story in sorted(history.rounds.items())]
    scored = [story for story in rounds if any(story.consensus.values())]
    if not scored or rounds[-1].report is None:
        return [Check(False, "no round was scored")]
    by_name = {node.name: node for node in history.nodes.values() if node.roles == 1}
    cheats = {kind: by_name[names[kind]] for kind in GAUNTLET.cheats}
    honest = [node for node in by_name.values() if node not in cheats.values()]
    twice = by_name[names[_TWICE]]
    share = scored[-1].consensus
    rating = latest(history, peer_score)
    found = [_more(twice, honest, rating)]
    found += [
        _below(node, honest, share, rating, rounds[-1])
        for kind, node in cheats.items()
        if kind != _LATE
    ]
    found += [_late(cheats[_LATE], honest, history), _first_rounds(history, rounds, cheats)]
    return found


def _more(twice: NodeStory, honest: list[NodeStory], rating: dict[int, float]) -> Check:
    """By the whole job and the others' mean: chance says who is paid the most
    (docs/gauntlet.md)."""
    others = [node for node in honest if node is not twice]
    usual = sum(node.earned for node in others) / len(others)
    most = max(node.earned for node in others)
    score = sum(rating.get(node.node_id, 0.0) for node in others) / len(others)
    return Check(
        twice.earned > usual,
        f"{twice.name} is paid more: {twice.earned / ZOO:,.1f} ZOO, nodes with the usual data "
        f"{usual / ZOO:,.1f} by the mean, {most / ZOO:,.1f} at most; "
        f"PeerScore {rating.get(twice.node_id, 0.0):.2f}, theirs {score:.2f}",
    )


def _below(
    node: NodeStory,
    honest: list[NodeStory],
    share: Mapping[int, int],
    rating: dict[int, float],
    last: RoundStory,
) -> Check:
    mine = node.node_id
    least = min(honest, key=lambda other: share.get(other.node_id, 0))
    poorest = min(honest, key=lambda other: other.earned)
    lowest = min(rating.get(other.node_id, 0.0) for other in honest)
    merged = last.report is not None and mine in last.report.merged()
    holds = (
        share.get(mine, 0) < share.get(least.node_id, 0)
        and node.earned < poorest.earned
        and not merged
    )
    return Check(
        holds,
        f"{node.name} ends below every honest peer: share {share.get(mine, 0) / SCALE:.1%}, least "
        f"honest {share.get(least.node_id, 0) / SCALE:.1%}; PeerScore {rating.get(mine, 0.0):.2f}, "
        f"least honest {lowest:.2f}; {node.earned / ZOO:,.1f} ZOO, least honest "
        f"{poorest.earned / ZOO:,.1f}; {'IN' if merged else 'not in'} the last merge",
    )


def _late(node: NodeStory, honest: list[NodeStory], history: Story) -> Check:
    least = min(other.earned for other in honest)
    slashed = any(slash.node_id == node.node_id for slash in history.slashes)
    in_time = sum(node.node_id in story.committed for story in history.rounds.values())
    return Check(
        node.earned < least and not slashed,
        f"{node.name} was in time in {in_time} of {len(history.rounds)} rounds: "
        f"{'SLASHED' if slashed else 'not slashed'}, {node.earned / ZOO:,.1f} ZOO, least honest "
        f"{least / ZOO:,.1f}",
    )


def _first_rounds(
    history: Story, rounds: list[RoundStory], cheats: Mapping[str, NodeStory]
) -> Check:
    """Nobody was rated yet when the first update was merged, so whoever looked plausible is in."""
    curve = losses(history)
    first = rounds[0].report
    merged = set() if first is None else first.merged()
    inside = [kind for kind, node in cheats.items() if node.node_id in merged]
    falling = len(curve) > 2 and curve[2] < curve[1] < curve[0]
    shown = " -> ".join(f"{loss:.3f}" for loss in curve[:3])
    return Check(
        falling and "noise" in inside and "norm x 100" not in inside,
        f"bad first submissions ({', '.join(inside)} in the first merge) wreck nothing: validation "
        f"loss {shown} over the first two rounds",
    )


GAUNTLET = Scenario(
    title="nodes train as they like; validators measure what each update does to the loss",
    trainers=11,
    cheats={
        "desynchronised": Cheat(
            "desynchronised",
            None,
            "Rest for three rounds and go on from its own, deviating model.",
        ),
        "perturbed copy": Cheat(
            "copier",
            Violation.INVALID,
            "Publish another node's payload, each number changed by about 5 %.",
            {"CHEAT_PERTURB": "0.05"},
            partner=2,
        ),
        "duplicate": Cheat(
            "copier",
            Violation.COPIED,
            "Publish the payload of a node of the same owner.",
            partner=1,
            same_owner=True,
        ),
        "norm x 100": Cheat(
            "poisoner", None, "Send its update times 100.", {"CHEAT_ATTACK": "inflate"}
        ),
        "noise": Cheat(
            "poisoner", None, "Send noise instead of an update.", {"CHEAT_ATTACK": "noise"}
        ),
        _LATE: Cheat("late", None, "Commit too late in most rounds."),
    },
    peers={_TWICE: {"MENAGERIE_TRAINER__EXTRA_BATCHES": str(_BATCHES)}},
    plain=3,
    rounds=12,
    loss_goal=0.85,
    spec=_spec,
    terms=replace(TERMS, commit_s=20, score_commit_s=40, score_reveal_s=20),
    checks=_checks,
)
