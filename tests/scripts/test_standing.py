# SPDX-License-Identifier: Apache-2.0
"""The curves of a scored job: medians over what validators published, and pay from the chain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.gauntlet.ratings import ordinal
from agents.gauntlet.record import NodeRating, NodeScore, ScoreRecord
from agents.protocol.numbers import ZOO
from scripts._report.standing import latest, standing_of
from scripts._report.story import RoundStory

HASH = "00" * 32


def line(node: int, random: int | None) -> NodeScore:
    """A node's line of a record; `random` in nano-nats, None for one that was not evaluated."""
    return NodeScore(
        node=node,
        failure="",
        usable=True,
        sync=0,
        evaluated=random is not None,
        assigned=random,
        random=random,
        expected=None if random is None else 0,
        shown=None if random is None else 0,
        extra=None if random is None else 0,
        score=0,
    )


def record(verifier: int, lines: list[NodeScore], ratings: dict[int, tuple[int, int, int]]) -> Any:
    """One validator's round; ratings are (skill, sigma, mu) in units and in 1 for mu."""
    return ScoreRecord(
        job=1,
        round=1,
        verifier=verifier,
        position=0,
        previous=None,
        audit_seed=HASH,
        model=HASH,
        scores=lines,
        ratings=[
            NodeRating(
                node=node,
                skill=skill * 1_000_000,
                sigma=sigma * 1_000_000,
                mu=mu * 100_000,
                value=500_000,
                extra=0,
                unseen=0,
            )
            for node, (skill, sigma, mu) in ratings.items()
        ],
    )


@pytest.fixture
def history() -> Any:
    """One round of nodes 5 and 6, seen by three validators; node 6 by one of them only."""
    told = RoundStory(1, opened_at=0, nodes=(5, 6), ended_at=9, paid={5: 3 * ZOO})
    told.records = {
        1: record(1, [line(5, 10**9), line(6, None)], {5: (30, 5, 2)}),
        2: record(2, [line(5, 3 * 10**9), line(6, -(10**9))], {5: (28, 6, 4), 6: (20, 6, 3)}),
        3: record(3, [line(5, 2 * 10**9), line(6, None)], {5: (29, 4, 1)}),
    }
    return SimpleNamespace(rounds={1: told, 2: RoundStory(2, opened_at=9, nodes=(5,))})


def test_curves__medians_over_those_who_say_anything(history):
    found = standing_of(history)
    assert found.loss_scores == {5: [(1, 2.0)], 6: [(1, -1.0)]}
    assert found.ratings == {5: [(1, 15.0)], 6: [(1, 2.0)]}  # of 15, 10, 17; of 2
    assert found.mus == {5: [(1, 0.2)], 6: [(1, pytest.approx(0.3))]}
    # mu of 0.2, 0.4, 0.1 and of 0.3, each times a value of 0.5
    assert found.peer_scores == {5: [(1, pytest.approx(0.1))], 6: [(1, pytest.approx(0.15))]}


def test_payouts__only_of_rounds_that_ended(history):
    assert standing_of(history).payouts == {5: [(1, 3.0)], 6: [(1, 0.0)]}


def test_a_job_that_nobody_scores__has_no_standing(history):
    history.rounds[1].records = {}
    assert standing_of(history) is None


def test_latest__takes_each_validators_newest_word(history):
    history.rounds[2].records = {2: record(2, [line(5, 0)], {5: (40, 5, 4)})}
    assert latest(history, ordinal) == {5: 17.0, 6: 2.0}  # of 15, 25, 17
