# SPDX-License-Identifier: Apache-2.0
"""Executors of redundant tasks as agents on a real chain: what they do, and what cheats, crashes,
reorgs and a slow or empty store can do to them.

Nobody can say whom a draw hits, so agents are started, honest or not, once it is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import agents.executor as executor_module
import agents.runtime.commitments as commitments_module
import agents.tasks.runner as runner_module
import agents.tasks.watch as watch_module
from agents.redundant import Redundant
from agents.runtime.errors import Stopped
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.contract import UNAVAILABLE, LaneState, TaskStatus
from agents.tasks.process import TaskProcess
from tests.stage.chain.executors import PASSPHRASE, Crew, Liar, Loner, Silent, fake
from tests.stage.chain.people import Node
from tests.stage.chain.tasks import FEE, FIFTH, HELD, Tasks
from tests.stage.memory.task_inputs import World as Inputs

AGREED, DECIDED, UNDECIDED = TaskStatus.AGREED, TaskStatus.DECIDED, TaskStatus.UNDECIDED
APPEALED, CLOSED, REVEALING = TaskStatus.APPEALED, TaskStatus.CLOSED, TaskStatus.REVEALING
_FRESH = itertools.count(20)
POINTS = (
    "executor-before-journal",
    "executor-before-commit",
    "executor-after-commit",
    "executor-before-reveal",
    "executor-after-reveal",
)


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs.build(EmbeddedStore(tmp_path_factory.mktemp("inputs") / "store"))


@pytest.fixture(scope="session")
def process(inputs: Inputs) -> Iterator[TaskProcess]:
    running = TaskProcess(inputs.store.location, "cpu")
    assert running.label() == CPU
    yield running
    running.close()


@pytest.fixture
def crew(
    tasks: Tasks,
    inputs: Inputs,
    process: TaskProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Crew]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Crew(tasks, inputs, process, tmp_path, stack)


def _right(crew: Crew, task_id: int) -> bytes:
    """What running the task gives, found apart from everybody."""
    task = crew.task(task_id)
    out = crew.folder / "right"
    return crew.process.run(task.spec, task.run_s, CPU, out).digest


def _requested(crew: Crew) -> tuple[int, Node, Node]:
    """A new task, unlike any before, and the two whom its draw will take."""
    task_id = crew.create(crew.inputs.evaluate(first=next(_FRESH)))
    crew.tasks.chain.mine(2)
    first, second = crew.drawn(task_id)
    return task_id, first, second


def _others(crew: Crew, *nodes: Node) -> list[Node]:
    return [node for node in crew.tasks.executors if node not in nodes]


# -- an honest task --------------------------------------------------------------------------------


def test_two_run_commit_reveal_and_publish(crew: Crew) -> None:
    crew.executors(*crew.tasks.executors)
    for spec in (crew.inputs.evaluate(), crew.inputs.train(), crew.inputs.generate()):
        task_id = crew.create(spec)
        crew.until(task_id, AGREED)
        task, right = crew.task(task_id), _right(crew, task_id)
        assert task.result == right
        assert set(task.states) == {LaneState.AGREED, LaneState.OPENED}
        crew.drive(lambda r=right: _has(crew, r), "the payload is published")
    for node in crew.tasks.executors:
        assert crew.said(node, "task_refused") == 0, "no transaction was wasted"


def _has(crew: Crew, digest: bytes) -> bool:
    try:
        crew.store.get_digest(digest, 2**30)
    except NotFound:
        return False
    return True


def test_a_refusal_is_a_result(crew: Crew) -> None:
    task_id = crew.create(crew.inputs.evaluate(first=900_000))
    crew.tasks.chain.mine(2)
    pair = crew.drawn(task_id)
    crew.executors(*pair)
    crew.until(task_id, AGREED)
    crew.drive(lambda: _has(crew, crew.task(task_id).result or b""), "the refusal is published")
    assert b"refused" in crew.store.get_digest(crew.task(task_id).result or b"", 1_000)


def test_the_first_commitment_captures_the_draw(crew: Crew) -> None:
    task_id, first, second = _requested(crew)
    crew.executors(first, second)
    crew.until(task_id, AGREED)
    lanes = {(first.name, 0), (second.name, 1)}
    committed = {(name, f"committed: task {task_id}, lane {lane}") for name, lane in lanes}
    assert set(crew.done[:2]) == committed, "two transactions, and none to draw"


def test_a_draw_that_nobody_captures_is_captured_by_anyone(crew: Crew) -> None:
    """Both who are drawn are away; a third moves the task on, whose deadline then passes."""
    task_id, first, second = _requested(crew)
    crew.executors(*_others(crew, first, second)[:1])
    crew.drive(lambda: crew.status(task_id) == TaskStatus.RUNNING, "somebody draws")
    assert crew.task(task_id).nodes == (first.node_id, second.node_id)
    crew.pass_deadline(task_id)
    crew.drive(lambda: crew.state(task_id, first) == LaneState.ABORTED, "somebody advances")
    assert crew.state(task_id, second) == LaneState.ABORTED


def test_a_payload_is_nowhere_before_two_agree(crew: Crew) -> None:
    """A third who is drawn for a tie finds neither result nor payload."""
    task_id, first, second = _requested(crew)
    crew.executor(first)
    crew.executor(second, Loner)
    crew.drive(lambda: len(crew.task(task_id).revealed()) == 2, "both have revealed")
    assert crew.status(task_id) == TaskStatus.DRAWING
    for _ in range(5):
        crew.step(first.name)
        crew.tasks.chain.mine()
    right = _right(crew, task_id)
    digest = fake(crew.task(task_id), second.operator.address).digest
    assert not _has(crew, right) and not _has(crew, digest)
    assert right not in crew.task(task_id).answers


# -- cheats ----------------------------------------------------------------------------------------


def test_a_liar_is_outvoted_and_slashed(crew: Crew) -> None:
    task_id, first, second = _requested(crew)
    crew.executor(first, Loner)
    crew.executors(second, *_others(crew, first, second))
    crew.until(task_id, DECIDED)
    crew.drive(lambda: crew.said(first, "was_wrong") == 1, "the liar finds itself wrong")
    crew.pass_deadline(task_id)
    crew.until(task_id, CLOSED)
    assert crew.tasks.world.gain(first) == -FIFTH
    assert crew.tasks.world.gain(second) == FEE // 2
    assert not any(did.startswith("appealed") for _, did in crew.done)


def test_the_silent_one_is_slashed_and_replaced(crew: Crew) -> None:
    task_id, first, second = _requested(crew)
    crew.executor(first, Silent)
    crew.executors(second, *_others(crew, first, second))
    crew.drive(lambda: crew.state(task_id, second) == LaneState.REVEALED, "the other reveals")
    crew.pass_deadline(task_id)
    crew.until(task_id, AGREED)
    assert crew.state(task_id, first) == LaneState.ABORTED
    assert crew.tasks.world.gain(first) == -FIFTH
    assert crew.tasks.world.gain(second) == FEE // 2


def test_a_framed_node_appeals_and_is_made_whole(crew: Crew) -> None:
    """All the others collude. Verifiers who run the task again take their stake."""
    task_id, victim, second = _requested(crew)
    crew.executor(victim)
    crew.executors(second, *_others(crew, victim, second), kind=Liar)
    for name in ("vic", "vera", "vito"):
        crew.auditor(name)
    crew.until(task_id, DECIDED)
    crew.until(task_id, CLOSED)
    appeal, right = crew.reader.appeal(task_id), _right(crew, task_id)
    assert (bytes(appeal.result), appeal.overturned) == (right, True)
    liars = [crew.tasks.node(n) for n in crew.task(task_id).nodes if n != victim.node_id]
    assert [crew.tasks.world.gain(liar) for liar in liars] == [-HELD, -HELD]
    assert crew.tasks.world.gain(victim) > FEE // 2
    crew.drive(lambda: _has(crew, right), "the victim publishes what was right")
    # The bond comes back into the wallet that paid it.
    crew.drive(lambda: (victim.name, "withdrawn: bond") in crew.done, "the bond is withdrawn")


def test_without_appeals_the_framed_node_pays(crew: Crew) -> None:
    task_id, victim, second = _requested(crew)
    crew.executor(victim, redundant={"appeal": False})
    crew.executors(second, *_others(crew, victim, second), kind=Liar)
    crew.until(task_id, DECIDED)
    for _ in range(5):
        crew.step(victim.name)
    crew.pass_deadline(task_id)
    crew.until(task_id, CLOSED)
    assert crew.tasks.world.gain(victim) == -FIFTH


def test_three_answers_are_sorted_out_by_an_appeal(crew: Crew) -> None:
    task_id, honest, second = _requested(crew)
    crew.executor(honest)
    crew.executors(second, *_others(crew, honest, second), kind=Loner)
    for name in ("vic", "vera", "vito"):
        crew.auditor(name)
    crew.until(task_id, UNDECIDED)
    crew.until(task_id, CLOSED)
    assert crew.tasks.world.gain(honest) > FEE // 2
    wrong = [crew.tasks.node(n) for n in crew.task(task_id).nodes if n != honest.node_id]
    assert [crew.tasks.world.gain(node) for node in wrong] == [-FIFTH, -FIFTH]


# -- verifiers -------------------------------------------------------------------------------------


def test_a_verifier_that_samples_overturns_two_liars(crew: Crew) -> None:
    """Nobody else could know; the rate decides, and at zero nothing is run again."""
    task_id, first, second = _requested(crew)
    crew.executors(first, second, kind=Liar)
    crew.auditor("vito")
    crew.until(task_id, AGREED)
    for _ in range(5):
        assert crew.step("vito") is None
    crew.auditor("vic", rate=1.0)
    crew.auditor("vera")
    crew.until(task_id, CLOSED)
    assert bytes(crew.reader.appeal(task_id).result) == _right(crew, task_id)
    assert [crew.tasks.world.gain(node) for node in (first, second)] == [FEE // 2 - HELD] * 2
    assert crew.tasks.world.gain(crew.tasks.creator) == 0


def test_a_verifier_that_samples_leaves_the_right_alone(crew: Crew) -> None:
    task_id, first, second = _requested(crew)
    crew.executors(first, second)
    crew.until(task_id, AGREED)
    vic = crew.tasks.world.nodes["vic"]
    crew.auditor("vic", rate=1.0)
    crew.drive(lambda: crew.said(vic, "task_audited") == 1, "the audit is over")
    assert crew.status(task_id) == AGREED
    for _ in range(5):
        assert crew.step("vic") is None
        crew.tasks.chain.mine()
    assert crew.said(vic, "task_audited") == 1, "once"


def test_a_restarted_verifier_still_attests_once(crew: Crew) -> None:
    task_id, victim, second = _requested(crew)
    crew.executor(victim)
    crew.executors(second, *_others(crew, victim, second), kind=Liar)
    crew.until(task_id, APPEALED)
    crew.auditor("vic")
    crew.drive(lambda: ("vic", f"attested: task {task_id}") in crew.done, "vic attests")
    crew.auditor("vic")
    for _ in range(10):
        assert crew.step("vic") is None
        crew.tasks.chain.mine()
    crew.auditor("vera")
    crew.until(task_id, CLOSED)
    assert crew.done.count(("vic", f"attested: task {task_id}")) == 1


def test_an_appeal_without_a_verdict_lapses(crew: Crew) -> None:
    task_id, victim, second = _requested(crew)
    crew.executor(victim)
    crew.executors(second, *_others(crew, victim, second), kind=Liar)
    crew.until(task_id, APPEALED)
    crew.pass_deadline(task_id)
    crew.until(task_id, CLOSED)
    assert any(did == f"lapse: task {task_id}" for _, did in crew.done)


# -- waiting ---------------------------------------------------------------------------------------


def test_it_reveals_while_it_computes(crew: Crew) -> None:
    """A second task keeps the process busy; the first is opened meanwhile."""
    task_id, first, second = _requested(crew)
    crew.executors(first, second)
    crew.until(task_id, REVEALING)
    agent = crew.agents[first.name]
    assert isinstance(agent, Redundant)
    with crew.held_process():
        held = crew.tasks.wait_for(
            lambda: crew.create(crew.inputs.evaluate(first=next(_FRESH)), run_s=3_600),
            lambda n: first in crew.drawn(n),
        )
        crew.until(task_id, AGREED)
        assert crew.state(task_id, first) in (LaneState.AGREED, LaneState.OPENED)
        assert any(f"-{held}-" in name for name in agent.executor.runner.running)


def test_a_short_task_does_not_wait_for_a_long_one(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a process of its own when a share of its time has passed.

    The long task ends when the test says so, and the short one has an hour of the chain's time:
    nothing depends on how long a process takes to start.
    """
    monkeypatch.setattr(runner_module, "_WAIT_SHARE", 3_600)  # that is, after a second
    node = crew.tasks.executors[0]

    def requested() -> int:
        """A task whose draw will take the node."""
        spec = crew.inputs.evaluate(first=next(_FRESH))
        return crew.tasks.wait_for(
            lambda: crew.create(spec, run_s=3_600), lambda n: node in crew.drawn(n)
        )

    runner = crew.executor(node).executor.runner
    with crew.held_process():
        long = requested()
        crew.drive(lambda: any(f"-{long}-" in n for n in runner.running), "the long one is run")
        short = requested()
        crew.drive(lambda: crew.state(short, node) == LaneState.COMMITTED, "the short one is done")
        assert any(f"-{long}-" in name for name in runner.running)
        assert crew.state(long, node) == LaneState.RUNNING, "the long task was held until now"
    runner.close()


def test_an_input_that_is_not_there_is_waited_for(crew: Crew) -> None:
    spec = crew.inputs.evaluate(first=1)
    task_id = crew.create(digest_of(cid_of_bytes(spec.canonical())))
    crew.tasks.chain.mine(2)
    pair = crew.drawn(task_id)
    crew.executors(*pair)
    crew.drive(lambda: all(crew.said(n, "cannot_run_yet") for n in pair), "both look for it")
    assert crew.status(task_id) in (TaskStatus.DRAWING, TaskStatus.RUNNING)
    publish(spec, crew.store)
    crew.until(task_id, AGREED)
    assert crew.task(task_id).result == _right(crew, task_id)


def test_an_input_that_nobody_has_costs_nobody_anything(crew: Crew) -> None:
    """Both give up when a quarter of the time is left, and say the same."""
    task_id = crew.create(digest_of(cid_of_bytes(b"nowhere")))
    crew.tasks.chain.mine(2)
    pair = crew.drawn(task_id)
    crew.tasks.draw(task_id)
    crew.executors(*pair)
    crew.drive(lambda: all(crew.said(n, "cannot_run_yet") for n in pair), "both look for it")
    task = crew.task(task_id)
    crew.tasks.world.wait_until(task.time - task.run_s // 2)
    for _ in range(5):
        assert not any(crew.step(node.name) for node in pair)
        crew.tasks.chain.mine()
    crew.tasks.world.wait_until(task.time - task.run_s // 4)
    crew.until(task_id, CLOSED)
    assert crew.task(task_id).result == UNAVAILABLE
    assert [crew.tasks.world.gain(p) for p in (*pair, crew.tasks.creator)] == [0, 0, 0]
    for _ in range(5):
        assert not any(crew.step(node.name) for node in pair), "there is nothing to publish"
        crew.tasks.chain.mine()


def test_a_task_of_another_class_is_never_run(crew: Crew) -> None:
    task_id, first, _ = _requested(crew)
    crew.tasks.draw(task_id)
    agent = crew.executor(first)
    agent.executor.runner.label = "cuda:sm_90/132/13.0"
    for _ in range(10):
        crew.step(first.name)
        crew.tasks.chain.mine()
    assert crew.state(task_id, first) == LaneState.RUNNING
    assert crew.said(first, "task_run") == 0 and crew.said(first, "cannot_run") == 1


# -- seats -----------------------------------------------------------------------------------------


def test_it_takes_a_seat_and_leaves_a_wrong_one(crew: Crew) -> None:
    node = crew.tasks.enlist("hal")
    agent = crew.executor(node)
    crew.drive(lambda: bool(crew.reader.seat(node.node_id).seated), "it joins")
    assert crew.done == [("hal", f"joined: the pool of {CPU}")]
    agent.executor.runner.label = "cuda:sm_90/132/13.0"
    crew.drive(lambda: not crew.reader.seat(node.node_id).seated, "it leaves")
    for _ in range(5):
        crew.step("hal")
        crew.tasks.chain.mine()
    assert crew.said(node, "cannot_join") == 1
    crew.executor(node, redundant={"join": False})
    crew.tasks.chain.mine(300)
    for _ in range(5):
        assert crew.step("hal") is None
        crew.tasks.chain.mine()


def test_a_seat_without_stake_is_emptied_by_anyone(crew: Crew) -> None:
    leaver, keeper = crew.tasks.executors[:2]
    crew.tasks.chain.send(leaver.owner, crew.tasks.world.registry, "begin_exit", leaver.node_id)
    crew.executor(keeper)
    crew.drive(lambda: not crew.reader.seat(leaver.node_id).seated, "it is evicted")
    assert crew.done == [(keeper.name, f"evict: node {leaver.node_id}")]


def test_a_pool_that_many_have_left_is_compacted(crew: Crew) -> None:
    """The last holder moves down; its old seat goes when no draw can mean it any more."""
    tasks, chain = crew.tasks.world.tasks, crew.tasks.chain
    *gone, keeper = crew.tasks.executors
    for node in gone:
        crew.tasks.leave(node)
    chain.mine(300)
    crew.executor(keeper)
    crew.drive(lambda: crew.reader.seat(keeper.node_id).seat == 0, "its holder moves")
    for _ in range(5):
        assert crew.step(keeper.name) is None
        chain.mine()
    chain.mine(300)
    crew.drive(lambda: chain.call(tasks, "pool_size", 0) == 1, "it is shortened")
    assert crew.done == [(keeper.name, "compact: class 0")] * 2


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(crew: Crew, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Restarted, it goes on with the secret that it had, and nobody is slashed."""
    task_id, first, second = _requested(crew)
    crew.executors(first, second)
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise Stopped("the agent ends here")

    monkeypatch.setattr(executor_module, "crashpoint", dies)
    monkeypatch.setattr(commitments_module, "crashpoint", dies)
    with pytest.raises(Stopped):
        crew.drive(lambda: False, "it dies")
    journals = {
        node.name: dict.fromkeys(crew.agents[node.name].context.journal.keys("task-"))
        for node in (first, second)
    }
    for node in (first, second):
        journal = crew.agents[node.name].context.journal
        journals[node.name] = {name: journal.get(name) for name in journals[node.name]}
    crew.executors(first, second)
    crew.until(task_id, AGREED)
    assert died == [point]
    assert crew.task(task_id).result == _right(crew, task_id)
    for node in (first, second):
        journal = crew.agents[node.name].context.journal
        for name, value in journals[node.name].items():
            assert journal.get(name) == value, "a secret is written once"
        assert len(journal.keys("task-")) == 1
    crew.drive(lambda: _has(crew, crew.task(task_id).result or b""), "it is published")


def test_a_lost_journal_is_said_once(crew: Crew) -> None:
    task_id, first, second = _requested(crew)
    crew.executors(first, second)
    crew.until(task_id, REVEALING)
    journal = crew.agents[first.name].context.journal
    for name in journal.keys("task-"):
        journal.delete(name)
    crew.executor(first)
    for _ in range(5):
        crew.step(first.name)
        crew.tasks.chain.mine()
    assert crew.said(first, "secret_lost") == 1
    assert crew.state(task_id, first) == LaneState.COMMITTED


# -- reorgs ----------------------------------------------------------------------------------------


def test_a_reorg_into_another_lane_keeps_the_secret(crew: Crew) -> None:
    """The draw's seed changes with the block; the commitment does not depend on the lane."""
    task_id = crew.create(crew.inputs.evaluate())
    fork = crew.tasks.chain.snapshot()
    crew.tasks.chain.mine(2)
    before = crew.drawn(task_id)
    crew.executors(*crew.tasks.executors)
    crew.until(task_id, REVEALING)
    known = {n.name: crew.agents[n.name].context.journal.keys("task-") for n in before}
    for attempt in range(60):
        crew.tasks.chain.revert(fork)
        fork = crew.tasks.chain.snapshot()
        crew.tasks.chain.warp(attempt + 1)
        crew.tasks.chain.mine(2)
        after = crew.drawn(task_id)
        if after != before and set(after) & set(before):
            break
    crew.until(task_id, AGREED)
    assert crew.task(task_id).nodes == tuple(node.node_id for node in after)
    for node in set(after) & set(before):
        assert crew.agents[node.name].context.journal.keys("task-") == known[node.name]


def test_a_reorg_that_puts_another_task_under_the_number(crew: Crew) -> None:
    """Both secrets are kept; the commitment on chain says which to open."""
    fork = crew.tasks.chain.snapshot()
    crew.executors(*crew.tasks.executors)
    task_id = crew.create(crew.inputs.evaluate())
    crew.until(task_id, REVEALING)
    crew.tasks.chain.revert(fork)
    crew.tasks.chain.warp(7)
    assert crew.create(crew.inputs.generate()) == task_id
    crew.until(task_id, AGREED)
    assert crew.task(task_id).result == _right(crew, task_id)


# -- how much is read ------------------------------------------------------------------------------


def test_what_is_over_is_not_read_again(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads per look are bounded, the old ones are read once, and an appeal brings one back."""
    monkeypatch.setattr(watch_module, "PER_LOOK", 2)
    crew.executors(*crew.tasks.executors)
    ids = [crew.create(crew.inputs.evaluate(first=n)) for n in range(3)]
    crew.drive(lambda: all(crew.status(n) == AGREED for n in ids), "all agree")
    reader, asked = crew.reader, []
    many = reader.many

    def counted(numbers: list[int]) -> list[object]:
        asked.append(list(numbers))
        return many(numbers)

    monkeypatch.setattr(reader, "many", counted)
    watch = watch_module.TaskWatch(reader, reader._chain)
    looks = []
    for _ in range(4):
        looks.append([task.task_id for task in watch.look(reader._chain.head())])
        crew.tasks.chain.mine()
    assert looks == [[2, 3], [1], [], []]
    assert asked == looks
    crew.tasks.appeal(2, crew.tasks.executors[0].operator)
    assert [task.task_id for task in watch.look(reader._chain.head())] == [2]
