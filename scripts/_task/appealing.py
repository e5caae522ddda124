# SPDX-License-Identifier: Apache-2.0
"""Verifiers run a task again, for a bond: one that was appealed, or one that the lot falls on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from scripts._shared.operator import Contracts, afford, allow, rehearse, zoo
from scripts._shared.signing import signing
from scripts._task.standing import tasks_of


def bond_appeal(contracts: Contracts, account: Any, yes: bool, task_id: int) -> None:
    """Bond an appeal, if the task's window is open."""
    network = contracts.network()
    task = tasks_of(network, task_id).task(task_id)
    if not task.appealable(network.chain.chain_time()):
        raise click.ClickException(
            f"Task {task_id} is {task.status.name} and can't be appealed, or not any more: "
            f"`ape run task status {task_id}` says where it stands."
        )
    terms = contracts.RedundantTasks.terms()
    appeals, bond = contracts.TaskAppeals, terms.appeal_bond
    afford(contracts, account, bond)
    rehearse(appeals.appeal, task_id, sender=account)
    lines = [f"let the appeals' contract take a bond of {zoo(bond)}", f"appeal task {task_id}"]
    with signing(account, lines, yes):
        allow(contracts, account, appeals, bond)
        appeals.appeal(task_id, sender=account)
    click.echo(
        f"Task {task_id} is appealed with a bond of {zoo(terms.appeal_bond)}; verifiers have "
        f"{terms.verdict_s} s."
    )


def watched_share(network: Any, task: Any) -> float:
    """The least share of tasks of its fee and class that pays verifiers for watching."""
    from agents.runtime.config import VerifierSettings
    from agents.tasks.contract import Tasks
    from agents.tasks.rechecking_pay import least_share

    tasks = Tasks(network)
    able = len(tasks.recheckers()[task.class_id].able)
    rate = Fraction(str(VerifierSettings().task_audit_rate))
    bond = tasks.terms().appeal_bond
    found = least_share(bond, task.fee, able, rate)
    if found is None:
        raise click.ClickException(
            f"A bond of {zoo(bond)} pays {able} verifiers for no share of tasks of {zoo(task.fee)}:"
            " name the share yourself with --share."
        )
    return float(found)
