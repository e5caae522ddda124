# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks from end to end: five executors, one of them a forger, and three verifiers.

A sponsor has two models trained, measured and tried by six tasks; more follow until the forger was
drawn. Verifiers run every one again. The demo (`make demo-redundant`) is the same with more of
everything.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from agents.protocol.numbers import ZOO, TaskStatus, Violation
from agents.training.spec import ModelSpec
from scripts._demo import typed
from scripts._demo.task_plan import Size, Wishes
from scripts._demo.task_run import FEES, Machine, TaskRun
from scripts._net.deployment import TaskTerms
from scripts._net.localnet import LocalnetSettings
from scripts._report.task_history import TaskHistory
from scripts._report.task_verdict import check_final, check_money, check_results, check_slashes
from tests.e2e.conftest import AGENTS
from tests.stage.network import LocalNetwork

TASKS = 6
RUN_S = 600
TERMS = TaskTerms(
    fee_per_s=ZOO // 10_000,
    max_run_s=RUN_S,
    reveal_s=600,
    draw_s=3_600,
    appeal_s=300,
    verdict_s=300,
    dispute_s=300,
)
FORGER = "executor-5"
HONEST = tuple(f"executor-{number}" for number in range(1, 5))
SIZE = Size(
    model=ModelSpec(d_model=16, n_layers=1, n_heads=2, n_kv_heads=1, d_ff=32, max_seq_len=32),
    first_steps=5,
    steps=5,
    sequences=16,
    new_tokens=4,
)


@dataclass(frozen=True)
class Story:
    """A run that is over."""

    local: LocalNetwork
    run: TaskRun


@pytest.fixture(scope="module")
def story(build: Callable[[LocalnetSettings], LocalNetwork]) -> Iterator[Story]:
    """Every task is final, and the forger has paid for it."""
    local = build(
        LocalnetSettings(
            trainers=0,
            aggregators=0,
            executors=5,
            members=3,
            threshold=2,
            unbonding_period=12_000,
            tasks=TERMS,
            agent={**AGENTS, "verifier": {"task_audit_rate": 1.0}},
        )
    )
    local.net.start_agent(FORGER, ("scripts._demo.cheats", "forger"))
    for name in (*HONEST, *local.names("verifier")):
        local.net.start_agent(name)
    machine = Machine(local.net, RUN_S)
    documents = [inspect.getsource(module).encode() for module in (textwrap, json)] * 4
    plan = Wishes(local.store, documents, TASKS, SIZE, machine.compute)
    chain, contract = local.network.chain, local.network.tasks

    def seated() -> bool:
        nodes = [local.node_id(name) for name in (*HONEST, FORGER)]
        return all(chain.call(contract, "executor", node).seated for node in nodes)

    local.until(seated, "the executors have their seats")
    names = {str(seat.operator.address): seat.name for seat in local.net.seats.values()}
    history = TaskHistory(local.network, local.store, names)
    lured = [local.node_id(FORGER)]
    run = TaskRun(local.net, local.network, local.store, plan, history, machine, lured, gap_s=0.2)
    try:
        local.until(run.step, "every task has its outcome")
        local.until(lambda: _audited(local) >= 3 * len(run.orders), "all is run again")
        local.skip(TERMS.appeal_s + 1)

        def final() -> bool:
            # The events are read last: what ended a task after they were read would be missing.
            done = check_final(run.tasks(), history).holds
            history.update()
            return done

        local.until(final, "every task is final")
        yield Story(local, run)
    finally:
        run.close()


def _audited(local: LocalNetwork) -> int:
    """How often a verifier found nothing wrong with an outcome."""
    logs = [local.net.supervisor[name].log for name in local.names("verifier")]
    return sum(log.read_bytes().count(b'"event": "task_audited"') for log in logs)


def test_every_result_is_the_right_one(story: Story) -> None:
    """Bit for bit what this machine computes, and each payload is in the store."""
    history, run = story.run.history, story.run
    truth = run.truth()
    assert len(truth) >= TASKS
    forger = story.local.node_id(FORGER)
    broken = [c for c in check_results(run.tasks(), history, truth, [forger]) if not c.holds]
    assert broken == []
    for task in history.tasks.values():
        assert task.result == truth[task.task_id]
        assert story.local.store.get_digest(task.result, 1 << 20)
    assert {order.spec.kind for order in run.orders.values()} == set(FEES)


def test_the_forger_pays_and_only_it(story: Story) -> None:
    """Outvoted by a third: a fifth of its stake, by the table; silence was nobody's."""
    local, history = story.local, story.run.history
    forger = local.node_id(FORGER)
    checks = check_slashes(
        story.run.tasks(),
        history,
        story.run.reader,
        {"forger": forger},
        {"forger": [Violation.REDUNDANCY_MISMATCH]},
    )
    assert [check.sentence for check in checks if not check.holds] == []
    assert history.slashes[0].amount == local.net.seats[FORGER].stake // 5 == 20 * ZOO
    contested = [task for task in history.tasks.values() if task.contested]
    assert len(contested) == len(history.slashes)
    assert all(forger in task.drawn and len(task.drawn) == 3 for task in contested)
    for name in (*HONEST, *local.names("verifier")):
        seat = local.net.seats[name]
        assert local.network.node(seat.node_id).stake == seat.stake


def test_nobody_appeals_what_is_right(story: Story) -> None:
    """Verifiers ran every task again: agreed ones stay as they are, decided ones are closed."""
    ended = {True: TaskStatus.CLOSED, False: TaskStatus.AGREED}
    for task in story.run.tasks():
        told = story.run.history.tasks[task.task_id]
        assert told.appellants == []
        assert task.status == ended[told.contested]


def test_money_is_conserved_and_reaches_a_cold_wallet(story: Story) -> None:
    """Every fee went half and half to two who agreed; an owner that types
    `ape run claim` gets exactly its credits."""
    local, run = story.local, story.run
    best = max(HONEST, key=lambda name: run.history.nodes[local.node_id(name)].earned)
    claim = typed.claim(local.net, local.network, local.net.seats[best])
    assert claim.arrived, f"owed {claim.owed}, received {claim.received}"
    paid = local.net.w3.eth.get_transaction_receipt(claim.tx)
    assert paid["from"] == local.net.seats[best].owner.address
    run.history.update()
    wallets = [
        str(key.address) for seat in local.net.seats.values() for key in (seat.owner, seat.operator)
    ]
    wallets += [local.net.sponsor.address, local.net.faucet.address]
    checks = check_money(local.network, run.history, run.tasks(), wallets)
    assert [check.sentence for check in checks if not check.holds] == []
    assert run.history.nodes[local.node_id(FORGER)].earned == 0
