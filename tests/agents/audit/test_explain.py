# SPDX-License-Identifier: Apache-2.0
"""Every payment of finished jobs, explained: the explanations add up to what the pool has credited
and to each round's pool, and every formula gives what it says from the numbers that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from agents.audit.explain import Explained, Explainer, Explanation, Step, credited
from agents.audit.sources.record import Record
from agents.runtime.errors import ConfigError
from scripts._net.compiled import ROOT
from scripts._report.verdict import check_explained
from tests.stage.chain.finished_job import CONTESTED, JOB, UNPUNISHED, FinishedJob
from tests.stage.chain.finished_scored_job import FinishedScoredJob
from tests.stage.chain.finished_tasks import FinishedTasks
from tests.stage.chain.lying_sources import lying_network, truth


def record_of(job: Any, number: int) -> Record:
    return Record(lying_network(job.provider, job.network.deployment, truth), number)


def check(step: Step) -> None:
    """The formula, evaluated by hand: products and quotients left to right, rounded down."""
    values = {term.name: term.value for term in step.terms}
    if " x " not in step.formula:
        sign = 1 if " + " in step.formula else -1
        one, other = (values[t.name] for t in step.terms)
        assert step.result.value == one + sign * other, step
        return
    divisor = values[step.terms[-1].name] if " / " in step.formula else 10_000
    factors = step.terms[:-1] if " / " in step.formula else step.terms
    product = 1
    for term in factors:
        product *= term.value
    assert step.result.value == product // divisor, step


def check_all(record: Record) -> list[Explained]:
    found = Explainer(record).all()
    for explained in found:
        assert not explained.differences
        due = left = 0
        for node in explained.nodes:
            for payment in node.payments:
                assert sum(outcome.amount for outcome in payment.outcomes) == payment.due > 0
                assert payment.steps[-1].result.value == payment.due
                unpaid = [o for o in payment.outcomes if o.what.startswith("not paid")]
                due += payment.due - sum(o.amount for o in unpaid)
                for step in payment.steps:
                    check(step)
            assert bool(node.why) != bool(node.payments)
        left = sum(outcome.amount for outcome in explained.left)
        assert due + left == explained.pool
    return found


def test_explained__adds_up_to_what_the_pool_credited(finished: FinishedJob) -> None:
    total: Counter[str] = Counter()
    for number in (JOB, UNPUNISHED, CONTESTED):
        record = record_of(finished, number)
        total += credited(check_all(record))
        forfeits = record.of("CarriedForfeited")
        total += Counter({e.args["treasury"]: e.args["amount"] for e in forfeits})
    assert total == Counter(record.payees)


def test_explained__of_a_scored_job_too(scored: FinishedScoredJob) -> None:
    jobs = scored.network.chain.call(scored.network.jobs, "job_count")
    total: Counter[str] = Counter()
    factors = 0
    for number in range(1, jobs + 1):
        record = record_of(scored, number)
        found = check_all(record)
        total += credited(found)
        forfeits = record.of("CarriedForfeited")
        total += Counter({e.args["treasury"]: e.args["amount"] for e in forfeits})
        factors += sum(
            step.formula.startswith("cut x trust factor")
            for explained in found
            for node in explained.nodes
            for payment in node.payments
            for step in payment.steps
        )
    assert total == Counter(record.payees)
    assert factors


def test_explained__beside_redundant_tasks(tasked: FinishedTasks) -> None:
    """Tasks are paid apart from rounds; what the pool credits is explained to the last unit."""
    verdict = check_explained(tasked.network)
    assert verdict.holds, verdict.sentence
    payments = int(verdict.sentence.split()[0])
    assert payments > 0


def test_explained__what_happened_in_words(finished: FinishedJob) -> None:
    """Eve's noise, bob's silence, ann's retained pay, as `finished_job` tells them."""
    explainer = Explainer(record_of(finished, JOB))

    def of(round_id: int, name: str) -> Explanation:
        return explainer.node(round_id, finished.node(name))

    eve = of(2, "eve")
    assert any("reported as INVALID" in deed.sentence for deed in eve.deeds)
    assert any(deed.sentence == "was slashed" for deed in eve.deeds)
    assert of(3, "bob").why == "It committed and did not reveal."
    assert of(4, "ann").why.startswith("The round is void")
    fates = {o.last.what for p in of(1, "ann").payments for o in p.outcomes}
    assert "credited" in fates
    forfeited = {o.last.what for p in of(1, "eve").payments for o in p.outcomes}
    assert "forfeited" in forfeited


def test_explained__a_lie_of_the_node_is_a_difference(finished: FinishedJob) -> None:
    record = record_of(finished, JOB)
    event = record.events["Attested"][0]
    at = record.events["Attested"].index(event)
    record.events["Attested"][at] = replace(event, args={**event.args, "weight": 1})
    assert Explainer(record).round(1).differences


def test_explained__an_unknown_round_is_refused(finished: FinishedJob) -> None:
    with pytest.raises(ConfigError, match="no round 99"):
        Explainer(record_of(finished, JOB)).round(99)


def run(finished: FinishedJob, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`ape run explain`, in a process that could not load torch."""
    code = "import sys; sys.modules['torch'] = None; from scripts.explain import cli; cli()"
    network = ("--network", finished.url, "--deployment", str(finished.deployment))
    return subprocess.run(
        [sys.executable, "-c", code, *network, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )


def test_command__says_it_in_words_and_as_json(finished: FinishedJob) -> None:
    ann = finished.node("ann")
    place = ("--job", str(JOB), "--round", "1", "--node", str(ann))
    told = run(finished, *place)
    assert told.returncode == 0, told.stderr
    for words in (
        f"Node {ann}: ",
        "it revealed its update baf",
        "share ",
        " = trainers' part ",
        " ZOO x its contribution ",
        "-> ",
        ", later credited to 0x",
    ):
        assert words in told.stdout
    (node,) = json.loads(run(finished, *place, "--json").stdout)["nodes"]
    (payment,) = node["payments"]
    outcomes = [int(outcome["amount"]) for outcome in payment["outcomes"]]
    assert sum(outcomes) == int(payment["due"]) > 0
    assert payment["steps"][-1]["result"]["value"] == payment["due"]


def test_command__refusals_are_sentences(finished: FinishedJob) -> None:
    for arguments, words in (
        (("--job", "99"), "There is no job 99"),
        (("--job", str(JOB), "--round", "99"), f"Job {JOB} has no round 99"),
    ):
        refused = run(finished, *arguments)
        assert refused.returncode == 1 and words in refused.stderr
        assert "Traceback" not in refused.stderr
