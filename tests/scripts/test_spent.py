# SPDX-License-Identifier: Apache-2.0
"""What a run's report says about privacy: the audit's figures, in one sentence and one plot."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.audit.sources.findings import Audit, Part
from scripts._report.report import write_report
from scripts._report.spent import spent_of


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


def test_page__has_the_plot(tmp_path: Path) -> None:
    """A node that comes later starts later; the page of a job without privacy has no such plot."""
    history: Any = SimpleNamespace(nodes={}, rounds={}, happenings=[], now=0)
    spent = spent_of(audit({1: 5.0}, {1: 7.0, 2: 0.2}), name)
    assert spent is not None and spent.curves["trainer-2"] == [(2, 0.2)]
    plots = []
    for given in (spent, None):
        page = write_report(tmp_path, history, [], {}, None, given)
        plots.append(page.read_text().count("<svg"))
    assert plots == [4, 3]
