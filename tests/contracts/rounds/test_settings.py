# SPDX-License-Identifier: Apache-2.0
"""Constructor, pause, ownership, and the calls only ViolationReports may make."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import events_of, refuses


# What each constructor takes, by the public name of the part; owner and random source follow.
def test_reports_only__counts(stage: RoundStage, results: Any) -> None:
    stage.to_challenge()
    reports = stage.system.reports.address
    with refuses("results: no open report"):
        results.report_closed(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_closed(1, 1, sender=reports)
    assert results.result(1, 1).open_reports == 1


def test_invalidate__once_and_only_revealed_nodes(stage: RoundStage, results: Any) -> None:
    stage.to_aggregate(stage.trainers[:2])
    stage.propose(1, nodes=stage.ids[:2], contributions=[1, 1])
    reports = stage.system.reports.address
    results.invalidate(1, 1, stage.ids[0], sender=reports)
    assert events_of(results) == [of_round("NodeInvalidated", node_id=stage.ids[0])]
    assert results.is_invalid(1, 1, stage.ids[0])
    for node_id in (stage.ids[0], stage.ids[2], stage.verifiers[0].node_id):
        with refuses("results: node not payable"):
            results.invalidate(1, 1, node_id, sender=reports)
