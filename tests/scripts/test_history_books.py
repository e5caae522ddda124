# SPDX-License-Identifier: Apache-2.0
"""What a history says was earned is what the pool has credited, by node and in all.

The jobs are real ones: with void rounds, retained pay that is released and forfeited, shares of
convicted nodes, a challenged result and an appeal that was upheld.
"""

from __future__ import annotations

import pytest

from scripts._report.history import History
from scripts._report.verdict import read_books
from tests.stage.chain.finished_job import FinishedJob


@pytest.fixture
def told(finished: FinishedJob) -> list[History]:
    """One for each job."""
    found = []
    for job_id in range(1, finished.network.job_count() + 1):
        found.append(History(finished.network, finished.store, job_id, {}))
        found[-1].update()
    return found


def test_each_node_earned_what_its_payout_was_credited(
    finished: FinishedJob, told: list[History]
) -> None:
    network, claimed = finished.network, told[0].claimed
    for node in told[0].nodes.values():
        waits = network.chain.call(network.pool, "pending", node.payout)
        earned = sum(one.nodes[node.node_id].earned for one in told)
        assert earned == waits + claimed.get(node.payout, 0), node.node_id
        assert node.stake == network.node(node.node_id).stake


def test_what_was_funded_is_credited__refunded_or_in_the_pool(
    finished: FinishedJob, told: list[History]
) -> None:
    books = read_books(finished.network)
    credited = sum(n.earned for one in told for n in one.nodes.values())
    credited += sum(one.unclaimed for one in told)
    claimed = sum(told[0].claimed.values())
    assert credited == books.pending + claimed
    kept = books.escrow + books.reserved + books.held
    assert sum(one.funded - one.refunded for one in told) == credited + kept


def test_who_was_cleared_has_no_verdict_and_the_result_of_a_liar_no_loss(
    finished: FinishedJob, told: list[History]
) -> None:
    last = told[-1]
    cleared = [one for one in last.accusations.values() if one.outcome == "dismissed"]
    assert cleared and all(one.appealed for one in cleared)
    for one in cleared:
        assert not last.nodes[one.node_id].verdict.startswith("reported")
    (round_,) = last.rounds.values()
    assert len(round_.proposers) == 2 and round_.report is not None
    entry = finished.network.ledger_entry(last.job_id, 0)
    assert round_.report.model == entry.new_model.hex()
