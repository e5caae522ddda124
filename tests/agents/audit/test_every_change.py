# SPDX-License-Identifier: Apache-2.0
"""Every kind of change to the events of benchmarks and redundant tasks is found and named.

Receipts are not looked at: every field is held by what else the chain says. With `-s` the count of
kinds that are named is printed.
"""

from __future__ import annotations

import pytest

from agents.audit.sources.findings import Audit
from tests.stage.chain.changes import Change, changes
from tests.stage.chain.finished_tasks import FinishedTasks

CONTRACTS = ("NodeBenchmarks", "RedundantTasks", "TaskAppeals")


def subjects(change: Change) -> list[str]:
    """What a finding may call the thing that was changed."""
    args = change.args
    if change.event.startswith("Seed"):
        return ["benchmark", "seed"]
    found = []
    if change.contract != "NodeBenchmarks":
        found += [f"task {args['task_id']}"] if "task_id" in args else []
        found += [str(args["account"])] if "account" in args else []
        found += ["class"] if "class_id" in args else []
    for name in ("node_id", "verifier_id"):
        found += [f"node {args[name]}", f"verifier {args[name]}"] if name in args else []
    return found


def is_named(change: Change, audit: Audit) -> bool:
    said = [str(difference) for difference in audit.differences]
    return any(subject in sentence for subject in subjects(change) for sentence in said)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_kind_of_change_to_an_event_is_named(tasked: FinishedTasks, contract: str) -> None:
    kinds: dict[tuple[str, str, str], bool] = {}
    deployment = tasked.network.deployment
    for change in changes(deployment, tasked.provider, frozenset({contract})):
        audit = tasked.audited(lie=change.lie)
        kinds[change.kind] = kinds.get(change.kind, True) and is_named(change, audit)
    silent = [" ".join(kind) for kind, named in kinds.items() if not named]
    print(f"\n{contract}: {len(kinds) - len(silent)} of {len(kinds)} kinds of change are named")
    assert silent == []
