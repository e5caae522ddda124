# SPDX-License-Identifier: Apache-2.0
"""What is folded from events equals what the contracts answer at that block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.protocol.network import Network
from agents.protocol.numbers import NOBODY
from agents.protocol.structs import Benchmark, read
from agents.tasks.contract import Tasks
from scripts._shared.operations import committee_of, operations
from scripts._shared.task_words import lane_rows, sentence
from scripts._web.index import queries
from scripts._web.index.reading import Reading, reading
from scripts._web.index.tables import (
    ACCOUNTS,
    BENCHMARKS,
    JOBS,
    LANES,
    NODES,
    REPORTS,
    ROUNDS,
    SEATS,
    TASKS,
)
from scripts._web.pages.tasks import newest, one
from tests.stage.chain.busy_network import BusyNetwork
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.web import Served, make_site


class Indexed:
    """A network, and a look at its index, which has caught up."""

    def __init__(self, network: Network, look: Reading) -> None:
        self.network, self.look = network, look

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        found = self.look.all(sa.select(table))
        assert found, f"nothing in {table.name}"
        return found

    def ask(self, contract: Any, name: str, *args: Any) -> Any:
        return self.network.chain.call(contract, name, *args)


@pytest.fixture(scope="module", params=["finished", "busy"])
def indexed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    network: FinishedJob | BusyNetwork = request.getfixturevalue(request.param)
    database = f"sqlite:///{tmp_path_factory.mktemp('index') / 'index.db'}"
    site, indexer = make_site(network.url, network.deployment, database)
    indexer.catch_up()
    with reading(site.engine) as look:
        yield Indexed(network.network, look)


def hexed(value: bytes) -> str:
    return "0x" + value.hex() if value.strip(b"\0") else ""


def equal(row: dict[str, Any], struct: Any, *names: str) -> None:
    assert {n: row[n] for n in names} == {n: getattr(struct, n) for n in names}


def test_index__jobs_equal_the_contracts(indexed: Indexed) -> None:
    network = indexed.network
    if not network.job_count():
        return
    for row in indexed.rows(JOBS):
        job = network.job(row["job_id"])
        equal(row, job, "sponsor", "status", "cancel_requested", "rounds_opened", "rounds_done")
        assert row["model"] == hexed(job.model)
        terms = {
            name: "0x" + v.hex() if isinstance(v, bytes) else str(v)
            for name, v in vars(job.terms).items()
        }
        assert row["terms"] == terms
        for name in ("escrow", "carried"):
            assert row[name] == indexed.ask(network.pool, name, row["job_id"]), name


def test_index__rounds_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    with reading(page.site.engine) as look:
        found = look.all(sa.select(ROUNDS))
    assert len(found) == 7
    for row in found:
        place = row["job_id"], row["round_id"]
        round_ = network.round(*place)
        equal(row, round_, "phase", "deadline", "opened_block", "opened_at", "n_eligible")
        equal(row, round_, "n_committed", "n_revealed", "n_invalid", "open_reports", "seed_block")
        equal(row, round_, "verifier_stake", "attested_stake", "proposer", "settled")
        for name in ("prev_model", "model", "update", "report", "result_hash"):
            assert row[name] == hexed(getattr(round_, name)), (place, name)
        assert (row["challenger"] or NOBODY) == round_.challenger
        pool = network.chain.call(network.pool, "pool", *place)
        assert (row["pool"], row["paid"]) == (pool.amount, pool.paid)


def test_index__seats_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    with reading(page.site.engine) as look:
        found = look.all(sa.select(SEATS))
    for row in found:
        place, asked = (row["job_id"], row["round_id"]), [row["node_id"]]
        assert bool(row["committed_at"]) == bool(network.committed(*place, asked))
        assert bool(row["revealed_at"]) == bool(network.in_round("is_revealed", *place, asked))
        assert row["invalid"] == bool(network.in_round("is_invalid", *place, asked))
        assert row["duplicate"] == bool(network.in_round("is_flagged", *place, asked))
    assert {row["invalid"] for row in found} == {row["duplicate"] for row in found} == {0, 1}


def test_index__finders_are_those_whom_the_contract_paid(
    finished: FinishedJob, page: Served
) -> None:
    """To the unit; the rest of each bounty is the treasury's."""
    network, head = finished.network, finished.network.chain.head().number
    paid = network.chain.events(network.reports, "FinderPaid", 0, head)
    with reading(page.site.engine) as look:
        found = {r.report_id: r.finder for r in queries.reports(look).items if r.finder}
    assert paid and len(found) == len(paid)
    for event in paid:
        one = found[hexed(event.args["report_id"])]
        assert (one.node_id, one.paid, one.rest) == (
            event.args["verifier_id"],
            event.args["amount"],
            event.args["rest"],
        )


def test_index__reports_equal_the_contracts(finished: FinishedJob, page: Served) -> None:
    network = finished.network
    with reading(page.site.engine) as look:
        found = look.all(sa.select(REPORTS))
        assert {r.status for r in queries.reports(look).items} == {"executed", "dismissed"}
    assert {row["report_id"] for row in found} == {
        "0x" + report.hex() for report in network.reported(None, 0, 2**40)
    }
    for row in found:
        report = network.report(bytes.fromhex(row["report_id"][2:]))
        equal(row, report, "status", "job_id", "round_id", "node_id", "violation", "weight")
        equal(row, report, "deadline", "appellant", "bond")
        assert row["evidence"] == hexed(report.evidence)


def test_index__nodes_equal_the_contracts(indexed: Indexed) -> None:
    network, found = indexed.network, indexed.rows(NODES)
    assert len(found) == indexed.ask(network.registry, "node_count")
    for row in found:
        node = network.node(row["node_id"])
        equal(row, node, "owner", "operator", "payout", "roles", "approved_roles", "stake")
        equal(row, node, "unbonding", "unlock_at", "suspended_until", "banned", "active")
        equal(row, node, "strikes", "locks", "registered_at")
        assert row["encryption_key"] in ("0x" + node.encryption_key.hex(), "")
        assert row["held"] == indexed.ask(network.pool, "held", row["node_id"])
        shown = queries.node(indexed.look, row["node_id"]).node
        assert shown.score == node.benchmark_score
        assert (shown.score_until or 0) >= indexed.ask(
            network.registry, "score_until", row["node_id"]
        ) * (node.benchmark_score > 0)
        seat = indexed.ask(network.tasks, "executor", row["node_id"])
        assert row["class_id"] == (seat.class_id if seat.seated else None)
        assert row["recheck_classes"] == indexed.ask(
            network.appeals, "declared_classes", row["node_id"]
        )


def test_index__accounts_equal_what_can_be_claimed(indexed: Indexed) -> None:
    network, found = indexed.network, indexed.rows(ACCOUNTS)
    for row in found:
        shown = queries.account(indexed.look, row["account"])
        assert shown.pending == indexed.ask(network.pool, "pending", row["account"])
        assert shown.bounty_pending == indexed.ask(network.registry, "bounty", row["account"])
    total = indexed.ask(network.pool, "total_pending")
    assert sum(row["credited"] - row["claimed"] for row in found) == total
    bounties = indexed.ask(network.registry, "total_bounties")
    assert sum(row["bounties"] - row["bounties_claimed"] for row in found) == bounties


def test_index__benchmarks_equal_the_contracts(indexed: Indexed) -> None:
    newest = {row["node_id"]: row for row in indexed.rows(BENCHMARKS)}
    for node_id, row in newest.items():
        answer = indexed.ask(indexed.network.benchmarks, "benchmark", node_id)
        attempt = read(Benchmark, answer)
        equal(row, attempt, "attempt", "requested_at", "submitted_at", "units", "passes", "fails")
        equal(row, attempt, "settled")
        assert (row["root"], row["artefact"]) == (hexed(attempt.root), hexed(attempt.artefact))


def test_index__tasks_equal_the_contracts(busy: BusyNetwork, tmp_path: Path) -> None:
    site, indexer = make_site(busy.url, busy.deployment, f"sqlite:///{tmp_path / 'index.db'}")
    indexer.catch_up()
    tasks = Tasks(busy.network)
    with reading(site.engine) as look:
        found = look.all(sa.select(TASKS))
        lanes = look.all(sa.select(LANES).order_by(LANES.c.task_id, LANES.c.lane))
        statuses = {task.status for task in queries.tasks(look).items}
    assert len(found) == tasks.count()
    assert statuses == {"closed", "agreed", "undecided", "running"}
    for row in found:
        task, appeal = tasks.task(row["task_id"]), tasks.appeal(row["task_id"])
        equal(row, task, "status", "creator", "class_id", "fee", "run_s", "seed_block", "time")
        mine = [lane for lane in lanes if lane["task_id"] == row["task_id"]]
        taken = [n for n, state in enumerate(task.states) if state]
        assert [lane["node_id"] for lane in mine] == [task.nodes[n] for n in taken]
        assert [lane["state"] for lane in mine] == [task.states[n] for n in taken]
        assert [lane["answer"] for lane in mine] == [hexed(task.answers[n]) for n in taken]
        assert (row["appellant"] or NOBODY) == appeal.appellant
        assert (row["objector"] or NOBODY) == appeal.objector
        assert row["verdict"] == hexed(appeal.result)
        assert (row["overturned"], row["appeal_deadline"]) == (appeal.overturned, appeal.deadline)


def test_index__tasks_are_told_in_the_words_of_the_chain(busy: BusyNetwork, tmp_path: Path) -> None:
    """A task's page is made of the index, and says what the command makes of the contracts."""
    site, indexer = make_site(busy.url, busy.deployment, f"sqlite:///{tmp_path / 'index.db'}")
    indexer.catch_up()
    chain = Tasks(busy.network)
    said: dict[int, str] = {}
    with reading(site.engine) as look:
        before: int | None = None
        while len(said) < chain.count():
            part = newest(busy.network, look, before)
            assert part.whole
            said |= {each.task_id: each.sentence for each in part.items}
            before = part.further
        now = look.at.time
        for number in said:
            shown, whole = one(lambda: nullcontext(busy.network), look, number)
            task, appeal = chain.task(number), chain.appeal(number)
            wanted = sentence(task, appeal, now, chain.expected(number))
            assert whole and said[number] == shown.sentence == wanted
            rows = [row for row in lane_rows(task) if int(row[1].split()[1])]
            assert [lane.state for lane in shown.lanes] == [row[2] for row in rows]
            assert shown.appealable == task.appealable(now)
            assert shown.contestable == (appeal.standing and now <= appeal.deadline)
    assert before is None and len(set(said.values())) >= 5


def test_index__operations_equal_the_contracts(busy: BusyNetwork, tmp_path: Path) -> None:
    site, indexer = make_site(busy.url, busy.deployment, f"sqlite:///{tmp_path / 'index.db'}")
    indexer.catch_up()
    grace = site.grace_period()
    with reading(site.engine) as look:
        shown = queries.operations(look, grace, limit=200).items
    found = list(operations(busy.network))
    assert [each.op_id for each in shown] == ["0x" + each.op_id.hex() for each in found]
    for mine, truth in zip(shown, found, strict=True):
        state = "queued" if mine.state == "ready" else mine.state
        assert state == truth.state.name.lower()
        assert (mine.eta or 0) == truth.eta
        assert set(mine.approved) == set(truth.approved)
        assert set(mine.against) == set(truth.cancel_voted)
        assert mine.data == "0x" + truth.data.hex()
        assert (mine.executed_block or 0) == truth.executed_block
    assert {each.state for each in shown} >= {"proposed", "queued", "executed", "cancelled"}


def test_index__what_the_committee_has_fixed_equals_the_contracts(indexed: Indexed) -> None:
    network = indexed.network
    facts = queries.facts(indexed.look)
    rows = {row.number: row for row in facts.penalties}
    assert set(rows) == set(network.penalties())
    for violation, row in network.penalties().items():
        for name, value in vars(row).items():
            assert getattr(rows[violation], name) == value
    assert facts.bounds is not None and facts.parameters is not None and facts.committee is not None
    assert facts.bounds.model_dump() == vars(network.bounds())
    parameters = indexed.ask(network.registry, "parameters")
    assert facts.parameters.model_dump() == parameters._asdict()
    committee = committee_of(network)
    assert tuple(facts.committee.members) == committee.members
    assert facts.committee.threshold == committee.threshold
    assert facts.committee.governance_delay == committee.governance_delay
    assert facts.classes == {number: name for name, number in Tasks(network).class_ids().items()}


def test_queries__answer_for_every_place(page: Served) -> None:
    with reading(page.site.engine) as look:
        home = queries.home(look)
        assert [job.job_id for job in home.jobs] == [3, 2, 1]
        for job in home.jobs:
            shown = queries.job(look, job.job_id)
            assert queries.rounds(look, job.job_id).items == shown.rounds
            for number in range(1, job.rounds_opened + 1):
                one = queries.round_(look, job.job_id, number)
                assert one.summary == shown.rounds[-number]
        for node in queries.nodes(look).items:
            assert queries.node(look, node.node_id).node == node


def test_queries__lists_go_on_where_they_ended(page: Served) -> None:
    with reading(page.site.engine) as look:
        for lists in (queries.payments, queries.events, queries.reports):
            whole = lists(look, limit=10_000)
            assert whole.next is None and len(whole.items) > 2
            found: list[Any] = []
            cursor = None
            while True:
                part = lists(look, cursor=cursor, limit=3)
                found += part.items
                cursor = part.next
                if cursor is None:
                    break
            assert found == whole.items
