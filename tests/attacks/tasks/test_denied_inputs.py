# SPDX-License-Identifier: Apache-2.0
"""Inputs that come once a task is undecided: who said that they can't be had loses nothing."""

from __future__ import annotations

from agents.protocol.numbers import TaskStatus
from agents.storage.cid import cid_of_bytes, digest_of, parse_cid
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from tests.stage.chain.executors import Executors
from tests.stage.chain.tasks import BOND

APPEALED, CLOSED, DRAWING, REVEALING, UNDECIDED = (
    TaskStatus.APPEALED,
    TaskStatus.CLOSED,
    TaskStatus.DRAWING,
    TaskStatus.REVEALING,
    TaskStatus.UNDECIDED,
)


def test_inputs_that_come_after_an_undecided_task__win_nothing(executors: Executors) -> None:
    """A creator keeps its inputs from all but its friend, no third owner has a seat, and the task
    ends undecided. Then it serves them, and appeals. Verifiers found the friend right: the other,
    who is honest, lost 20 ZOO, of which the two had 5."""
    tasks, people = executors.tasks, executors.tasks.people
    spec = executors.fresh()
    publish(spec, executors.store)
    cid = cid_of_bytes(spec.canonical())
    digest = digest_of(cid)
    result = executors.process.run(digest, 600, CPU, executors.folder / "right").digest
    executors.store._path(parse_cid(cid)).unlink()
    for node in tasks.executors[2:]:
        tasks.leave(node)
    tasks.chain.mine(2)
    task_id = executors.create(digest)
    victim, friend = tasks.draw(task_id)
    executors.start(victim)
    bound = tasks.digest(task_id, friend, tasks.tag(task_id, result), spec=digest)
    tasks.commit(task_id, friend, digest=bound)
    executors.drive(lambda: executors.said(victim, "cannot_run_yet") > 0, "it looks for them")
    task = executors.task(task_id)
    people.wait_until(task.time - task.run_s // 8)
    executors.until(task_id, REVEALING)
    tasks.reveal(task_id, friend, result)
    executors.until(task_id, DRAWING)
    people.wait_until(executors.task(task_id).draw_until)
    executors.until(task_id, UNDECIDED)

    publish(spec, executors.store)
    creator = people.person("friend of the creator", 10 * BOND)
    tasks.watch(creator)
    executors.all_recheck()
    tasks.appeal(task_id, creator)
    executors.drive(
        lambda: all(executors.agents[n].rechecks._results for n in ("vic", "vera", "vito")),
        "verifiers have run it",
    )
    executors.pass_blocks(5, "vic", "vera", "vito")
    assert executors.reader.appeal(task_id).voting
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    assert [executors.gain(p) for p in (victim, friend, creator)] == [0, 0, 0]
