# SPDX-License-Identifier: Apache-2.0
"""Every kind of change to the events of benchmarks and redundant tasks is found and named.

Receipts are not looked at: every field is held by what else the chain says. With `-s` the count of
kinds that are named is printed.
"""

from __future__ import annotations

import pytest

from agents.audit.chain.benchmarks import Benchmarks
from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Audit, Part
from agents.audit.sources.record import Record
from agents.audit.work.benchmarks import check_work
from agents.training.data import Dataset
from tests.stage.chain.changes import Change, changes
from tests.stage.chain.finished_job import JOB
from tests.stage.chain.finished_tasks import FinishedTasks
from tests.stage.chain.lying_sources import LyingStore
from tests.stage.memory.honest_round import DEVICE

CONTRACTS = ("NodeBenchmarks", "RedundantTasks", "TaskAppeals")


def subjects(change: Change) -> list[str]:
    """What a finding may call the thing that was changed."""
    args = change.args
    if change.event.startswith("Seed"):
        return ["benchmark", "seed"]
    found = [change.contract] if change.event == "OwnershipTransferred" else []
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
    assert not silent, f"the audit should name {silent}"


ARTEFACTS = {
    "artefact of a benchmark that passed": (1, "artefact of benchmark 1 of node {ann}"),
    "artefact of a benchmark that failed": (3, "artefact of benchmark 3 of node {eve}"),
    "artefact of a benchmark overruled": (4, "artefact of benchmark 4 of node {eve}"),
    "artefact of a benchmark replaced": (2, "artefact of benchmark 2 of node {eve}"),
    "spec of a task": (0, "spec of task 1"),
    "checkpoint of a task": (0, "checkpoint of task 1"),
    "dataset manifest of a task": (0, "dataset manifest of task 1"),
    "shard of a task": (0, "shard 0 of task 1"),
    "result of a task": (0, "result of task 1"),
}


def cid_of(tasked: FinishedTasks, kind: str, attempt: int) -> str:
    """The artefact of each kind."""
    if attempt:
        node = tasked.node("ann" if attempt == 1 else "eve")
        chain, contract = tasked.network.chain, tasked.network.benchmarks
        place = (0, chain.head().number, {"node_id": node})
        events = list(chain.events(contract, "BenchmarkSubmitted", *place))
        return tasked.store.resolve(
            next(bytes(e.args["artefact"]) for e in events if e.args["attempt"] == attempt)
        )
    data = Dataset.from_bytes(tasked.store.get(tasked.inputs.data, 1 << 20))
    return {
        "spec of a task": tasked.spec_cid,
        "checkpoint of a task": tasked.inputs.checkpoint,
        "dataset manifest of a task": tasked.inputs.data,
        "shard of a task": data.shards[0].cid,
        "result of a task": tasked.store.resolve(tasked.right),
    }[kind]


@pytest.mark.parametrize("deep", [False, True])
def test_every_artefact_with_a_changed_byte_is_named(tasked: FinishedTasks, deep: bool) -> None:
    silent = []
    for kind, (attempt, name) in ARTEFACTS.items():
        cid = cid_of(tasked, kind, attempt)
        data = tasked.store.get(cid, 1 << 24)
        subject = name.format(ann=tasked.node("ann"), eve=tasked.node("eve"))
        for place in (0, len(data) // 2, len(data) - 1):
            flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            audit = tasked.audited(LyingStore(tasked.store, cid, flipped), deep=deep)
            if not any(d.subject == subject and cid in d.sentence for d in audit.differences):
                silent.append(f"{kind}, byte {place}")
    print(f"\n{len(ARTEFACTS)} kinds of artefact, {len(silent)} changes are silent")
    assert not silent, f"the audit should name {silent}"


def test_the_true_history_holds(tasked: FinishedTasks) -> None:
    """All courses of tasks and benchmarks, by a stranger, with receipts."""
    for deep in (False, True):
        audit = tasked.audited(deep=deep, receipts=True)
        assert [str(d) for d in audit.differences] == []
        assert audit.job.counts["tasks"] > 500
        assert audit.job.counts["benchmarks"] > 100


def test_a_false_pass_that_nobody_overruled_is_found_with_deep(tasked: FinishedTasks) -> None:
    """The committee's deed is taken out of the history: the work is still wrong."""
    replayed = Benchmarks(Record(tasked.network, JOB), *registry_of(tasked)).check()
    [false] = [a for a in replayed if a.overruled]
    assert false.condemned
    guilty = set(false.overruled)
    false.overruled.clear()
    part = Part(0)
    check_work(part, Artefacts(tasked.store), replayed, set(), True, DEVICE, lambda text: None)
    said = [str(d) for d in part.differences]
    assert len(said) == len(guilty)
    for verifier in guilty:
        assert any(f"verifier {verifier} passed it, which is wrong" in one for one in said), said


def test_invented_work_that_nobody_condemned_is_found_with_deep(tasked: FinishedTasks) -> None:
    """One answer that was failed and one that was passed; and a slash for work that is right."""
    replayed = Benchmarks(Record(tasked.network, JOB), *registry_of(tasked)).check()
    invented = [a for a in replayed if a.condemned]
    assert len(invented) == 2
    honest = next(a for a in replayed if a.settled and not a.condemned)
    for attempt in invented:
        attempt.condemned = False
    honest.condemned = True
    part = Part(0)
    check_work(part, Artefacts(tasked.store), replayed, set(), True, DEVICE, lambda text: None)
    said = [str(d) for d in part.differences]
    assert len(said) == 3
    for attempt in invented:
        assert any(attempt.name in one and "was not slashed for it" in one for one in said), said
    assert any(honest.name in one and "which it is not" in one for one in said), said


def registry_of(tasked: FinishedTasks) -> tuple[StakeBook, Part]:
    return StakeBook(Record(tasked.network, JOB)), Part(0)
