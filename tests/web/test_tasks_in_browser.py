# SPDX-License-Identifier: Apache-2.0
"""A task's outcome is appealed, and the verdict on it contested, by wallets in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from agents.protocol.numbers import TaskStatus
from scripts._net.deployment import ZOO
from tests.stage.chain.tasks import BOND, RIGHT, Tasks
from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]


@pytest.fixture(scope="module")
def tasks(stage: Stage) -> Tasks:
    return Tasks.build(stage.people)


def test_task__its_outcome_is_appealed_and_the_verdict_contested(
    stage: Stage, visit: Begin, tasks: Tasks
) -> None:
    chain, appeals = stage.people.chain, stage.people.appeals
    task, *_ = tasks.outvoted()
    loser = stage.person(20)
    wallet = stage.wallet(loser)
    reader = visit(wallet)
    stage.indexed()
    reader.connect(wallet, f"/tasks/{task}")
    expect(reader.page.locator('form[data-action="contest-task"]')).to_have_count(0)
    assert "It is before its judges." in reader.carry_out("appeal-task")
    found = chain.call(appeals, "appeal_of", task)
    assert TaskStatus(tasks.status(task)) == TaskStatus.APPEALED
    assert found.appellant == loser.address
    assert stage.balance(loser) == 20 * ZOO - BOND

    receipt = chain.rpc("eth_getTransactionReceipt", wallet.sent[-1])
    asked = chain.event(receipt, appeals, "VerdictRequested")
    tasks.appeals[task] = list(asked["verifiers"]), list(asked["weights"])
    for name in ("vic", "vera"):
        tasks.attest(task, stage.people.nodes[name], RIGHT)
    assert tasks.verdict(task) == RIGHT
    objector = stage.person(20)
    wallet = stage.wallet(objector, name="Moss")
    reader = visit(wallet)
    stage.indexed()
    reader.connect(wallet, f"/tasks/{task}")
    expect(reader.page.locator('form[data-action="appeal-task"]')).to_have_count(0)
    reader.carry_out("contest-task")
    assert chain.call(appeals, "appeal_of", task).objector == objector.address
    assert stage.balance(objector) == 20 * ZOO - BOND


def test_task__an_appeal_that_comes_too_late_is_refused_before_it_is_signed(
    stage: Stage, visit: Begin, tasks: Tasks
) -> None:
    task, *_ = tasks.outvoted()
    wallet = stage.wallet(stage.person(20))
    reader = visit(wallet)
    stage.indexed()
    reader.connect(wallet, f"/tasks/{task}")
    tasks.finalize(task)  # in its last moment, under an open page
    reader.submit("appeal-task")
    assert "tasks: nothing to appeal" in reader.refusal()
    assert not wallet.sent


def test_task__one_without_the_bond_is_told_so(stage: Stage, visit: Begin, tasks: Tasks) -> None:
    task, *_ = tasks.outvoted()
    wallet = stage.wallet(stage.person(1))
    reader = visit(wallet)
    stage.indexed()
    reader.connect(wallet, f"/tasks/{task}")
    reader.submit("appeal-task")
    assert "ZOO" in reader.refusal()
    assert not wallet.sent
