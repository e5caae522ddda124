# SPDX-License-Identifier: Apache-2.0
"""The contracts pay cheats what the formulas say: random tasks, seeded, so always the same ones.

Intervals are 99.9 %; the study `tests.measure.studies.task_deterrence` plays more tasks and more
scenarios."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import pytest

from agents.tasks.deterrence import least_penalty, loss_expected
from agents.tasks.economics import abort_expectation, expectation
from tests.measure.studies.task_deterrence import (
    ABORT,
    COLLUSION,
    LEAST_RECORDED,
    MISMATCH,
    RECORD,
    SCENARIOS,
    Scenario,
    Seen,
    at_the_bound,
    expected,
    normal,
    play,
    stage_of,
    wilson,
)
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import STAKE, ZERO, ZOO, Codes, System
from tests.stage.contracts.tasks import AGREED, RIGHT, WRONG, make_tasks
from tests.stage.contracts.tasks import COLLUSION as COLLUSION_ROW
from tests.stage.contracts.tasks import REDUNDANCY_MISMATCH as MISMATCH_ROW

Z = NormalDist().inv_cdf(0.9995)


def seen_in(codes: Codes, scenario: Scenario, tasks: int) -> list[Seen]:
    """So many tasks; the rate and both profits must be what the formulas expect."""
    seen = list(play(stage_of(scenario, codes), scenario, tasks, seed=1))
    wanted = expected(scenario)
    low, high = wilson(sum(task.success for task in seen), tasks, Z)
    assert low < wanted.success < high
    for values, exact in (
        ([task.profit for task in seen], wanted.profit),
        ([task.honest for task in seen], wanted.honest),
    ):
        low, high = normal(values, Z)
        assert low <= exact <= high
    return seen


def test_always_faking(codes):
    scenario = Scenario("fake", 5, 10, ZOO)
    seen = seen_in(codes, scenario, 120)
    # Two lanes, or three where they differ; to the unit.
    assert Counter((t.drawn, t.profit, t.honest) for t in seen).keys() == {
        (2, ZOO, 0),
        (2, 0, ZOO),
        (3, ZOO, -MISMATCH),
        (3, -MISMATCH, ZOO),
    }
    assert expected(scenario).profit < 0


def test_leaving(codes):
    scenario = Scenario("leave", 3, 9, ZOO)
    seen = seen_in(codes, scenario, 80)
    assert {t.profit for t in seen} <= {ZOO, 0, -ABORT, -2 * ABORT, -3 * ABORT}
    assert {t.profit for t in seen} >= {ZOO, 0, -ABORT}
    assert all(t.honest == ZOO for t in seen if not t.success)
    # The bound leaves later draws out, so the course of the contract is worse for the cheat.
    assert expected(scenario).profit <= abort_expectation(scenario.draw, ZOO, ABORT) < 0


def test_faking_own_pairs(codes):
    """Each outcome of a task once: found out, not found out, honest where contradicted."""
    scenario = Scenario("pair", 6, 9, ZOO, "0.5")
    seen = seen_in(codes, scenario, 100)
    assert {(t.profit, t.honest) for t in seen} == {
        (ZOO, 0),
        (ZOO - 2 * COLLUSION, 0),
        (ZOO // 2, ZOO // 2),
        (0, ZOO),
    }


def test_faking_while_the_outvoted_appeal(codes):
    scenario = Scenario("watched", 6, 9, ZOO)
    seen = seen_in(codes, scenario, 30)
    assert {(t.profit, t.honest) for t in seen} == {
        (ZOO, 0),
        (0, ZOO),
        (-MISMATCH, ZOO),
        (-2 * COLLUSION, ZOO // 2),  # the framed node is made whole
    }


def test_the_bound_is_where_the_contracts_profit_turns():
    fee = at_the_bound(6, 9)
    for given, sign in ((fee, 0), (fee // 2, -1), (2 * fee, 1)):
        profit = expected(Scenario("fake", 6, 9, given)).profit
        assert round(profit / ZOO, 9) * sign > 0 or (sign == 0 and abs(profit) <= 1)
        assert profit == expectation(Scenario("fake", 6, 9, given).draw, given, MISMATCH)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.strategy} {s.dishonest}")
def test_what_a_task_pays_is_conserved(scenario):
    """Both sides' profits, and what they lose for good, are the fee and nothing else."""
    draw, wanted = scenario.draw, expected(scenario)
    total = wanted.profit + wanted.honest
    pair = Fraction(scenario.rate) * draw.pair * 2 * COLLUSION
    if scenario.strategy == "fake":
        assert total == scenario.fee - (draw.loses + draw.framed) * MISMATCH
    elif scenario.strategy == "pair":
        assert total == scenario.fee - pair
    else:
        assert total <= scenario.fee
    assert 0 <= wanted.success <= draw.wins


@pytest.mark.parametrize(("row", "bps"), [(MISMATCH_ROW, 2_000), (COLLUSION_ROW, 5_000)])
def test_least_penalty__the_registry_slashing_one_node_again_and_again(stage, row, bps):
    node, taken = stage.nodes[0], []
    for _ in range(4):
        amount = stage.registry.slash(node.node_id, row, now(), ZERO, sender=stage.tasks.address)
        taken.append(int(amount))
    averages = [Fraction(sum(taken[:lanes]), lanes) for lanes in range(1, 5)]
    for lanes in range(1, 5):
        assert least_penalty(STAKE, bps, lanes) == min(averages[:lanes])
        assert loss_expected(STAKE, bps, 1.0, lanes) == pytest.approx(sum(taken[:lanes]))


def test_one_stake_answers_for_every_agreed_fake(system: System):
    """Agreed tasks are paid and free their lanes, so a node may be paid for more fakes than it can
    answer for: found out in all of them it loses its stake, and later creators get nothing back."""
    stage = make_tasks(system, nodes=3)
    fakes = [stage.play(WRONG, WRONG) for _ in range(8)]
    assert all(stage.status(task_id) == AGREED for task_id in fakes)
    assert all(stage.open_lanes(node) == 0 for node in stage.nodes)
    runs = Counter(p.node_id for task_id in fakes for p in stage.runners(task_id))
    refunds = []
    for task_id in fakes:
        stage.appeal(task_id)
        stage.vote(task_id, RIGHT)
    for task_id in fakes:
        before = stage.appeals.bond_credit(stage.creator)
        stage.carry_out(task_id)
        refunds.append(stage.appeals.bond_credit(stage.creator) - before)
        mine()
    for node in stage.nodes:
        lost = STAKE - stage.registry.bonded(node.node_id)
        assert lost == pytest.approx(loss_expected(STAKE, 5_000, 1.0, runs[node.node_id]))
    assert refunds[0] > 0 and refunds[-1] == 0


def test_the_record_is_of_these_scenarios():
    """What is printed from docs/redundancy.json is exact still; few intervals miss."""
    rows = json.loads(RECORD.read_text())["rows"]
    assert [Scenario(**row["scenario"]) for row in rows] == list(SCENARIOS)
    for row, scenario in zip(rows, SCENARIOS, strict=True):
        wanted = expected(scenario)
        assert row["tasks"] >= LEAST_RECORDED
        assert row["success"]["exact"] == pytest.approx(float(wanted.success))
        assert row["profit"]["exact"] == pytest.approx(float(wanted.profit / ZOO))
        assert row["honest"]["exact"] == pytest.approx(float(wanted.honest / ZOO))
    figures = [row[name] for row in rows for name in ("success", "profit", "honest")]
    assert sum(not figure["inside"] for figure in figures) <= 5  # 1.5 of 30 expected


def test_wilson():
    """Against the closed form at the ends, and tables for 8 of 10."""
    assert wilson(0, 10) == pytest.approx((0, 0.27753), abs=1e-5)
    assert wilson(10, 10) == pytest.approx((0.72247, 1), abs=1e-5)
    assert wilson(8, 10) == pytest.approx((0.49016, 0.94332), abs=1e-5)
