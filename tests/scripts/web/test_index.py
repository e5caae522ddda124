# SPDX-License-Identifier: Apache-2.0
"""What is folded from events equals what the contracts answer at that block."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from agents.protocol.numbers import NOBODY
from scripts._web.index import queries
from scripts._web.index.reading import reading
from scripts._web.index.tables import ACCOUNTS, JOBS, NODES, ROUNDS, SEATS
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.web import Served


def rows(page: Served, table: sa.Table) -> list[dict[str, Any]]:
    with reading(page.site.engine) as look:
        return look.all(sa.select(table))


def test_index__jobs_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network, found = finished.network, rows(page, JOBS)
    assert len(found) == network.job_count() == 3
    for row in found:
        job = network.job(row["job_id"])
        same = ("sponsor", "status", "cancel_requested", "rounds_opened", "rounds_done")
        assert {name: row[name] for name in same} == {name: getattr(job, name) for name in same}
        assert row["model"] == "0x" + job.model.hex()
        terms = {
            name: "0x" + v.hex() if isinstance(v, bytes) else str(v)
            for name, v in vars(job.terms).items()
        }
        assert row["terms"] == terms
        for name in ("escrow", "carried"):
            assert row[name] == network.chain.call(network.pool, name, row["job_id"]), name


def test_index__rounds_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network, found = finished.network, rows(page, ROUNDS)
    assert len(found) == 7
    for row in found:
        place = row["job_id"], row["round_id"]
        round_ = network.round(*place)
        same = (
            "phase",
            "deadline",
            "opened_block",
            "opened_at",
            "n_eligible",
            "n_committed",
            "n_revealed",
            "n_invalid",
            "open_reports",
            "seed_block",
            "verifier_stake",
            "attested_stake",
            "proposer",
            "settled",
        )
        assert {n: row[n] for n in same} == {n: getattr(round_, n) for n in same}, place
        for name in ("prev_model", "model", "update", "report", "result_hash"):
            shown = getattr(round_, name)
            assert row[name] == ("0x" + shown.hex() if shown.strip(b"\0") else ""), (place, name)
        assert (row["challenger"] or NOBODY) == round_.challenger
        pool = network.chain.call(network.pool, "pool", *place)
        assert (row["pool"], row["paid"]) == (pool.amount, pool.paid)


def test_index__nodes_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network, found = finished.network, rows(page, NODES)
    assert len(found) == network.chain.call(network.registry, "node_count")
    for row in found:
        node = network.node(row["node_id"])
        same = (
            "owner",
            "operator",
            "payout",
            "roles",
            "approved_roles",
            "stake",
            "unbonding",
            "unlock_at",
            "suspended_until",
            "banned",
            "active",
            "strikes",
            "locks",
            "registered_at",
        )
        assert {n: row[n] for n in same} == {n: getattr(node, n) for n in same}, row["node_id"]
        assert row["score"] == node.benchmark_score
        held = network.chain.call(network.pool, "held", row["node_id"])
        assert row["held"] == held


def test_index__seats_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    found = rows(page, SEATS)
    assert found
    for row in found:
        place = row["job_id"], row["round_id"]
        asked = [row["node_id"]]
        assert bool(row["committed_at"]) == bool(network.committed(*place, asked))
        assert bool(row["revealed_at"]) == bool(network.in_round("is_revealed", *place, asked))
        assert row["invalid"] == bool(network.in_round("is_invalid", *place, asked))


def test_index__accounts_equal_what_can_be_claimed(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    found = rows(page, ACCOUNTS)
    assert found
    for row in found:
        pending = network.chain.call(network.pool, "pending", row["account"])
        assert row["credited"] - row["claimed"] == pending
    total = network.chain.call(network.pool, "total_pending")
    assert sum(row["credited"] - row["claimed"] for row in found) == total


def test_queries__answer_for_every_place(page: Served) -> None:
    with reading(page.site.engine) as look:
        home = queries.home(look)
        assert [job.job_id for job in home.jobs] == [3, 2, 1]
        for job in home.jobs:
            shown = queries.job(look, job.job_id)
            for number in range(1, job.rounds_opened + 1):
                one = queries.round_(look, job.job_id, number)
                assert one.summary == shown.rounds[-number]
        for node in queries.nodes(look).items:
            assert queries.node(look, node.node_id).node == node
