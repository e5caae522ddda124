# SPDX-License-Identifier: Apache-2.0
"""An honest executor that others outvote, or condemn: what it does about it, and what it gets."""

from __future__ import annotations

from agents.executor import Executor
from agents.protocol.numbers import TaskStatus
from agents.storage.cid import parse_cid
from tests.stage.chain.executors import Executors, Liar, Loner
from tests.stage.chain.people import Node
from tests.stage.chain.tasks import BOND, FAKE, FEE, FIFTH, HELD

AGREED, APPEALED, CLOSED, DECIDED, REVEALING, UNDECIDED = (
    TaskStatus.AGREED,
    TaskStatus.APPEALED,
    TaskStatus.CLOSED,
    TaskStatus.DECIDED,
    TaskStatus.REVEALING,
    TaskStatus.UNDECIDED,
)


def test_a_framed_node_appeals_and_is_made_whole(executors: Executors) -> None:
    """All the others collude. Verifiers who run the task again take their stake."""
    task_id, victim, _ = executors.everybody(Executor, Liar)
    executors.all_recheck()
    executors.until(task_id, DECIDED)
    executors.until(task_id, CLOSED)
    appeal, right = executors.reader.appeal(task_id), executors.right(task_id)
    assert (bytes(appeal.result), appeal.overturned) == (right, True)
    liars = [executors.tasks.node(n) for n in executors.task(task_id).nodes if n != victim.node_id]
    assert [executors.gain(liar) for liar in liars] == [-HELD, -HELD]
    assert executors.gain(victim) > FEE // 2
    executors.drive(lambda: executors.has(right), "the victim publishes what was right")
    # The bond comes back into the wallet that paid it.
    executors.drive(
        lambda: (victim.name, "withdrawn: bond") in executors.done, "the bond is withdrawn"
    )


def _taken_down(executors: Executors, task_id: int) -> None:
    """Nobody serves the task's spec any more."""
    cid = parse_cid(executors.store.resolve(executors.task(task_id).spec))
    executors.store._path(cid).unlink()


def _lapses(executors: Executors, task_id: int, victim: Node) -> None:
    """The victim appeals when it has tried long enough to run the task again; no verifier can."""
    executors.all_recheck()
    executors.drive(
        lambda: executors.said(victim, "cannot_run_yet") > 0, "the victim tries to run it again"
    )
    deadline = executors.task(task_id).time
    window = executors.tasks.people.settings.tasks.appeal_s
    names = list(executors.agents)
    executors.tasks.people.wait_until(deadline - window // 2)
    assert not any("appeal" in did for did in executors.pass_blocks(5, *names))
    executors.tasks.people.wait_until(deadline - window // 4)
    executors.until(task_id, APPEALED)
    assert (victim.name, f"appealed: task {task_id}: it can't be run again") in executors.done
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    executors.drive(
        lambda: (victim.name, "withdrawn: bond") in executors.done, "the bond is withdrawn"
    )
    assert executors.gain(victim) == 0


def test_framers_who_take_the_inputs_down__gain_nothing(executors: Executors) -> None:
    """The creator is their friend: its spec is gone once the victim has answered, so the victim
    can't run it again. It was silent then, and lost 20 ZOO."""
    task_id, victim, _ = executors.everybody(Executor, Liar)
    executors.until(task_id, DECIDED)
    _taken_down(executors, task_id)
    _lapses(executors, task_id, victim)
    assert executors.gain(executors.tasks.creator) == -FEE


def test_framers_who_alone_had_the_inputs__gain_nothing(executors: Executors) -> None:
    """The victim says that the inputs can't be had, and is outvoted by two who have them."""
    tasks = executors.tasks
    task_id, victim, friend = tasks.started()
    executors.start(victim)
    tasks.commit(task_id, friend, FAKE)
    executors.drive(lambda: executors.said(victim, "cannot_run_yet") > 0, "it looks for them")
    tasks.people.wait_until(executors.task(task_id).time - executors.task(task_id).run_s // 8)
    executors.until(task_id, REVEALING)
    tasks.reveal(task_id, friend, FAKE)
    executors.until(task_id, TaskStatus.DRAWING)
    (third,) = tasks.draw(task_id)
    tasks.answer(task_id, {third: FAKE})
    assert executors.status(task_id) == DECIDED
    _lapses(executors, task_id, victim)


def test_a_framed_node_that_finds_no_time_to_run_it_again__appeals_all_the_same(
    executors: Executors,
) -> None:
    """Two tasks of the framers, without inputs, keep both of its processes until the window is
    over. What it can't run is not what fails, so it was silent, and lost 20 ZOO."""
    task_id, victim, _ = executors.everybody(Executor, Liar)
    executors.until(task_id, DECIDED)
    deadline, window = executors.task(task_id).time, executors.tasks.people.settings.tasks.appeal_s
    names = list(executors.agents)
    with executors.held_process():
        executors.tasks.people.wait_until(deadline - window // 6)
        assert not any("appeal" in did for did in executors.pass_blocks(5, *names))
        executors.tasks.people.wait_until(deadline - window // 8)
        executors.pass_blocks(5, *names)
    assert executors.status(task_id) == APPEALED
    assert (victim.name, f"appealed: task {task_id}: it has not been run again") in executors.done
    executors.all_recheck()
    executors.until(task_id, CLOSED)
    assert executors.gain(victim) > FEE // 2


def test_a_framed_node_objects_to_a_verdict_though_the_inputs_are_gone(
    executors: Executors,
) -> None:
    """Two of three verifiers are in it as well. It was silent then, and lost 50 ZOO. Members of the
    committee can't run the task either, and an objection that nobody decides slashes nobody."""
    people, tasks = executors.tasks.people, executors.tasks
    task_id, first, second = executors.requested()
    executors.start(first, second)
    executors.until(task_id, AGREED)
    executors.published(task_id)
    _taken_down(executors, task_id)
    bystander = people.person("bystander", 10 * BOND)
    tasks.appeal(task_id, bystander)
    for name in ("vic", "vera"):
        tasks.attest(task_id, people.nodes[name], FAKE)
    executors.drive(
        lambda: all(executors.said(n, "cannot_run_yet") for n in (first, second)), "both try"
    )
    window = people.settings.tasks.appeal_s
    people.wait_until(executors.reader.appeal(task_id).deadline - window // 4)
    executors.drive(lambda: executors.reader.appeal(task_id).contested, "the verdict is contested")
    people.wait_until(executors.reader.appeal(task_id).deadline)
    executors.until(task_id, CLOSED)
    assert [executors.gain(node) for node in (first, second)] == [FEE // 2] * 2


def test_without_appeals_the_framed_node_pays(executors: Executors) -> None:
    task_id, victim, _ = executors.everybody(Executor, Liar, executor={"appeal": False})
    executors.until(task_id, DECIDED)
    for _ in range(5):
        executors.step(victim.name)
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    assert executors.gain(victim) == -FIFTH


def test_three_answers_are_sorted_out_by_an_appeal(executors: Executors) -> None:
    task_id, honest, _ = executors.everybody(Executor, Loner)
    executors.all_recheck()
    executors.until(task_id, UNDECIDED)
    executors.until(task_id, CLOSED)
    assert executors.gain(honest) > FEE // 2
    wrong = [executors.tasks.node(n) for n in executors.task(task_id).nodes if n != honest.node_id]
    assert [executors.gain(node) for node in wrong] == [-FIFTH, -FIFTH]
