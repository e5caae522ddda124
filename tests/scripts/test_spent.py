# SPDX-License-Identifier: Apache-2.0
"""What a run's report says about privacy: the audit's figures, in one sentence and one plot."""

from __future__ import annotations

from agents.audit.sources.findings import Audit, Part
from scripts._report.page.report import render
from scripts._report.run import Run
from scripts._report.spent import spent_of
from scripts._report.story import Story
from tests.stage.memory.page_reader import Page


def audit(*rounds: dict[int, float]) -> Audit:
    """An audit whose rounds found these epsilons by node."""
    found = Audit(1, 31337, 9, "0x00", deep=False)
    for number, spent in enumerate(rounds, start=1):
        part = Part(number)
        if spent:
            part.figures["privacy"] = {
                str(node): {"unit": "example", "delta": 1e-6, "max_epsilon": 8.0, "epsilon": value}
                for node, value in spent.items()
            }
        found.rounds.append(part)
    return found


def name(node: int) -> str:
    return f"trainer-{node}"


def test_sentence__the_one_who_spent_most_and_the_others() -> None:
    spent = spent_of(audit({1: 5.0, 2: 0.1, 3: 0.2}, {1: 7.661, 2: 0.21, 3: 0.43}), name)
    words = "trainer-1 7.66 of 8, others 0.21 to 0.43 (epsilon, delta 1e-06, per example)"
    assert str(spent) == words


def test_sentence__all_alike_and_alone() -> None:
    alike = spent_of(audit({1: 1.0, 2: 1.0}), name)
    assert str(alike) == "1 of 8 by each of 2 nodes (epsilon, delta 1e-06, per example)"
    alone = spent_of(audit({2: 1.5}), name)
    assert str(alone) == "trainer-2 1.5 of 8 (epsilon, delta 1e-06, per example)"


def test_no_privacy__no_word() -> None:
    assert spent_of(audit({}, {}), name) is None


def test_page__has_the_plot() -> None:
    """A node that comes later starts later; the page of a job without privacy has no such plot."""
    spent = spent_of(audit({1: 5.0}, {1: 7.0, 2: 0.2}), name)
    assert spent is not None and spent.curves["trainer-2"] == [(2, 0.2)]
    titles = [
        Page(render(Run("", Story(1), [], spent=given))).text("figcaption")
        for given in (spent, None)
    ]
    assert ["Privacy spent, per example" in title for title in titles] == [True, False]
