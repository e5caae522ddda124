# SPDX-License-Identifier: Apache-2.0
"""Executors of redundant tasks as agents on a real chain: what they do, and what cheats, crashes,
reorgs and a slow or empty store can do to them.

Nobody can say whom a draw hits, so agents are started, honest or not, once it is known.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner

import agents.executor as executor_module
import agents.runtime.commitments as commitments_module
import agents.tasks.runner as runner_module
import agents.tasks.watch as watch_module
from agents.executor import Executor
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.network import Network
from agents.protocol.numbers import COVER, LaneState, TaskStatus
from agents.runtime.errors import Stopped
from agents.runtime.sender import Sender
from agents.storage.cid import cid_of_bytes, digest_of, parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.tasks.compute.classes import CPU, CPU_CLASS
from agents.tasks.compute.make import publish
from agents.tasks.compute.result import TaskResult
from agents.tasks.dispute import TaskDisputes
from agents.tasks.process import TaskProcess, TaskProcessError
from scripts._shared.economics import refuse_unwatched, watched
from scripts._shared.job_classes import check_classes
from scripts.economics import cli as economics
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.executors import Executors, Liar, Loner, Silent, fake
from tests.stage.chain.people import STAKES, TRAINER, VERIFIER, Node
from tests.stage.chain.tasks import BOND, FAKE, FEE, FIFTH, HELD, RIGHT, Tasks
from tests.stage.memory.task_inputs import TaskInputs

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
def inputs(tmp_path_factory: pytest.TempPathFactory) -> TaskInputs:
    return TaskInputs.build(EmbeddedStore(tmp_path_factory.mktemp("inputs") / "store"))


@pytest.fixture(scope="session")
def process(inputs: TaskInputs) -> Iterator[TaskProcess]:
    running = TaskProcess(inputs.store.location, "cpu")
    assert running.label() == CPU
    yield running
    running.close()


@pytest.fixture
def executors(
    tasks: Tasks,
    inputs: TaskInputs,
    process: TaskProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Executors]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield Executors(tasks, inputs, process, tmp_path, stack)


def _right(executors: Executors, task_id: int) -> bytes:
    """What running the task gives, found apart from everybody."""
    task = executors.task(task_id)
    out = executors.folder / "right"
    return executors.process.run(task.spec, task.run_s, CPU, out).digest


def _requested(executors: Executors) -> tuple[int, Node, Node]:
    """A new task, unlike any before, and the two whom its draw will take."""
    task_id = executors.create(executors.inputs.evaluate(first=next(_FRESH)))
    executors.tasks.chain.mine(2)
    first, second = executors.drawn(task_id)
    return task_id, first, second


def _others(executors: Executors, *nodes: Node) -> list[Node]:
    return [node for node in executors.tasks.executors if node not in nodes]


def _running(executors: Executors) -> tuple[int, Node, Node]:
    """A new task, and the two whom its draw will take, who run."""
    task_id, first, second = _requested(executors)
    executors.start(first, second)
    return task_id, first, second


def _everybody(
    executors: Executors, one: type[Executor], others: type[Executor], **options: Any
) -> tuple[int, Node, Node]:
    """A new task, and the two whom its draw will take. The first is of one kind (started with
    `options`), the whole rest of the pool of another."""
    task_id, first, second = _requested(executors)
    executors.start_one(first, one, **options)
    executors.start(second, *_others(executors, first, second), kind=others)
    return task_id, first, second


def _all_recheck(executors: Executors) -> None:
    for name in ("vic", "vera", "vito"):
        executors.recheck(name)


def _published(executors: Executors, task_id: int) -> None:
    executors.drive(
        lambda: _has(executors, executors.task(task_id).result or b""), "the result is published"
    )


# -- an honest task --------------------------------------------------------------------------------


def test_two_run_commit_reveal_and_publish(executors: Executors) -> None:
    executors.start(*executors.tasks.executors)
    for spec in (
        executors.inputs.evaluate(),
        executors.inputs.train(),
        executors.inputs.generate(),
    ):
        task_id = executors.create(spec)
        executors.until(task_id, AGREED)
        task, right = executors.task(task_id), _right(executors, task_id)
        assert task.result == right
        assert set(task.states) == {LaneState.AGREED, LaneState.OPENED}
        executors.drive(lambda r=right: _has(executors, r), "the payload is published")
    for node in executors.tasks.executors:
        assert executors.said(node, "task_refused") == 0, "no transaction was wasted"


def _has(executors: Executors, digest: bytes) -> bool:
    try:
        executors.store.get_digest(digest, 2**30)
    except NotFound:
        return False
    return True


def test_a_refusal_is_a_result(executors: Executors) -> None:
    task_id = executors.create(executors.inputs.evaluate(first=900_000))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.start(*pair)
    executors.until(task_id, AGREED)
    _published(executors, task_id)
    assert b"refused" in executors.store.get_digest(executors.task(task_id).result or b"", 1_000)


def test_the_first_commitment_captures_the_draw(executors: Executors) -> None:
    task_id, first, second = _running(executors)
    executors.until(task_id, AGREED)
    lanes = {(first.name, 0), (second.name, 1)}
    committed = {(name, f"committed: task {task_id}, lane {lane}") for name, lane in lanes}
    assert set(executors.done[:2]) == committed, "two transactions, and none to draw"


def test_a_draw_that_nobody_captures_is_captured_by_anyone(executors: Executors) -> None:
    """Both who are drawn are away; a third moves the task on, whose deadline then passes."""
    task_id, first, second = _requested(executors)
    executors.start(*_others(executors, first, second)[:1])
    executors.drive(lambda: executors.status(task_id) == TaskStatus.RUNNING, "somebody draws")
    assert executors.task(task_id).nodes == (first.node_id, second.node_id)
    executors.pass_deadline(task_id)
    executors.drive(
        lambda: executors.state(task_id, first) == LaneState.ABORTED, "somebody advances"
    )
    assert executors.state(task_id, second) == LaneState.ABORTED


def test_a_payload_is_nowhere_before_two_agree(executors: Executors) -> None:
    """A third who is drawn for a tie finds neither result nor payload."""
    task_id, first, second = _requested(executors)
    executors.start_one(first)
    executors.start_one(second, Loner)
    executors.drive(lambda: len(executors.task(task_id).revealed()) == 2, "both have revealed")
    assert executors.status(task_id) == TaskStatus.DRAWING
    executors.pass_blocks(5, first.name)
    right = _right(executors, task_id)
    digest = fake(executors.task(task_id), second.operator.address).digest
    assert not _has(executors, right) and not _has(executors, digest)
    assert right not in executors.task(task_id).answers


# -- cheats ----------------------------------------------------------------------------------------


def test_a_liar_is_outvoted_and_slashed(executors: Executors) -> None:
    task_id, first, second = _everybody(executors, Loner, Executor)
    executors.until(task_id, DECIDED)
    executors.drive(lambda: executors.said(first, "was_wrong") == 1, "the liar finds itself wrong")
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    assert executors.gain(first) == -FIFTH
    assert executors.gain(second) == FEE // 2
    assert not any(did.startswith("appealed") for _, did in executors.done)


def test_the_silent_one_is_slashed_and_replaced(executors: Executors) -> None:
    task_id, first, second = _everybody(executors, Silent, Executor)
    executors.drive(
        lambda: executors.state(task_id, second) == LaneState.REVEALED, "the other reveals"
    )
    executors.pass_deadline(task_id)
    executors.until(task_id, AGREED)
    assert executors.state(task_id, first) == LaneState.ABORTED
    assert executors.gain(first) == -FIFTH
    assert executors.gain(second) == FEE // 2


def test_a_framed_node_appeals_and_is_made_whole(executors: Executors) -> None:
    """All the others collude. Verifiers who run the task again take their stake."""
    task_id, victim, _ = _everybody(executors, Executor, Liar)
    _all_recheck(executors)
    executors.until(task_id, DECIDED)
    executors.until(task_id, CLOSED)
    appeal, right = executors.reader.appeal(task_id), _right(executors, task_id)
    assert (bytes(appeal.result), appeal.overturned) == (right, True)
    liars = [executors.tasks.node(n) for n in executors.task(task_id).nodes if n != victim.node_id]
    assert [executors.gain(liar) for liar in liars] == [-HELD, -HELD]
    assert executors.gain(victim) > FEE // 2
    executors.drive(lambda: _has(executors, right), "the victim publishes what was right")
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
    _all_recheck(executors)
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
    task_id, victim, _ = _everybody(executors, Executor, Liar)
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


def test_a_framed_node_objects_to_a_verdict_though_the_inputs_are_gone(
    executors: Executors,
) -> None:
    """Two of three verifiers are in it as well. It was silent then, and lost 50 ZOO. Members of the
    committee can't run the task either, and an objection that nobody decides slashes nobody."""
    people, tasks = executors.tasks.people, executors.tasks
    task_id, first, second = _requested(executors)
    executors.start(first, second)
    executors.until(task_id, AGREED)
    _published(executors, task_id)
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
    task_id, victim, _ = _everybody(executors, Executor, Liar, executor={"appeal": False})
    executors.until(task_id, DECIDED)
    for _ in range(5):
        executors.step(victim.name)
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    assert executors.gain(victim) == -FIFTH


def test_three_answers_are_sorted_out_by_an_appeal(executors: Executors) -> None:
    task_id, honest, _ = _everybody(executors, Executor, Loner)
    _all_recheck(executors)
    executors.until(task_id, UNDECIDED)
    executors.until(task_id, CLOSED)
    assert executors.gain(honest) > FEE // 2
    wrong = [executors.tasks.node(n) for n in executors.task(task_id).nodes if n != honest.node_id]
    assert [executors.gain(node) for node in wrong] == [-FIFTH, -FIFTH]


# -- verifiers -------------------------------------------------------------------------------------


def test_a_verifier_that_samples_overturns_two_liars(executors: Executors) -> None:
    """Nobody else could know; the rate decides, and at zero nothing is run again."""
    task_id, first, second = _requested(executors)
    executors.start(first, second, kind=Liar)
    executors.recheck("vito")
    executors.until(task_id, AGREED)
    for _ in range(5):
        assert executors.step("vito") is None
    executors.recheck("vic", rate=1.0)
    executors.recheck("vera")
    executors.until(task_id, CLOSED)
    assert bytes(executors.reader.appeal(task_id).result) == _right(executors, task_id)
    assert [executors.gain(node) for node in (first, second)] == [FEE // 2 - HELD] * 2
    assert executors.gain(executors.tasks.creator) == 0


def test_friends_in_a_class_that_no_verifier_runs__are_not_called_deterred(
    executors: Executors,
) -> None:
    """What a pair of friends makes of a fake is counted by who can find it in the class, and no
    task of such a class is paid for. One verifier of three gives no verdict, so it counts as
    none. Nor does a training job list such a class unasked."""
    names, network = ("vic", "vera", "vito"), executors.network
    assert _pair_gains(executors) == UNWATCHED
    for name, reached in zip(names, ("33%", "67%", "100%"), strict=True):
        (before,) = executors.reader.recheckers()
        executors.recheck(name)
        what = f"declared: runs tasks of {CPU} again"
        executors.drive(lambda name=name, what=what: (name, what) in executors.done, what)
        (who,) = executors.reader.recheckers()
        assert len(who.able) == len(before.able) + 1 and who.voters == 3
        assert f"{len(who.able)} of 3 verifiers" in watched(CPU, who)
        assert f"{reached} of the voters' weight" in watched(CPU, who)
        assert who.can_judge == (name != "vic")
        if not who.can_judge:
            with pytest.raises(ClickException, match=r"1 of 3 verifiers .* nobody loses anything"):
                refuse_unwatched(CPU, who)
            with pytest.raises(ClickException, match="cpu-fp32: two owners with two thirds"):
                check_classes(network, [CPU_CLASS], False)
            assert _pair_gains(executors) == UNWATCHED
        else:
            refuse_unwatched(CPU, who)
            check_classes(network, [CPU_CLASS], False)
            assert all(gain < 0 for gain in _pair_gains(executors))
    assert executors.pass_blocks(5, *names) == [], "said once"
    executors.recheck("vic")
    assert executors.pass_blocks(5, "vic") == [], "and not again by an agent that starts anew"


# ZOO a task at 10, 30 and 50 % of a pool of 100, at the default terms.
UNWATCHED = [0.0182, 0.176, 0.495]


def _pair_gains(executors: Executors) -> list[float]:
    """What `ape run economics` says that faking in own pairs brings over honest work."""
    given = ("--stake", "100", "--fee", "2", "--nodes", "100", "--compute", "1")
    where = ("--rpc", executors.tasks.chain._url, "--deployment", str(executors.deployment))
    shown = CliRunner().invoke(economics, [*given, *where], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    return [float(line[8]) for line in lines if line and line[0] in ("10%", "30%", "50%")]


def test_a_verifier_that_samples_leaves_the_right_alone(executors: Executors) -> None:
    task_id, *_ = _running(executors)
    executors.until(task_id, AGREED)
    vic = executors.tasks.people.nodes["vic"]
    executors.recheck("vic", rate=1.0)
    executors.drive(lambda: executors.said(vic, "task_audited") == 1, "the audit is over")
    assert executors.status(task_id) == AGREED
    assert executors.pass_blocks(5, "vic") == []
    assert executors.said(vic, "task_audited") == 1, "once"


def test_a_restarted_verifier_still_attests_once(executors: Executors) -> None:
    task_id, *_ = _everybody(executors, Executor, Liar)
    executors.until(task_id, APPEALED)
    executors.recheck("vic")
    executors.drive(lambda: ("vic", f"attested: task {task_id}") in executors.done, "vic attests")
    executors.recheck("vic")
    assert executors.pass_blocks(10, "vic") == []
    executors.recheck("vera")
    executors.until(task_id, CLOSED)
    assert executors.done.count(("vic", f"attested: task {task_id}")) == 1


def test_an_appeal_without_a_verdict_lapses(executors: Executors) -> None:
    task_id, *_ = _everybody(executors, Executor, Liar)
    executors.until(task_id, APPEALED)
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    name = f"lapse: appeal of task {task_id}, until "
    assert any(did.startswith(name) for _, did in executors.done)


def test_a_false_verdict_is_contested_and_the_committee_names_the_result(
    executors: Executors,
) -> None:
    """Two of three verifiers condemn two honest executors. One that ran the task objects; a member
    of the committee runs it too, and what it found is the last word. The liars lose a fifth each,
    of which the objector has half."""
    people, tasks = executors.tasks.people, executors.tasks
    task_id, first, second = _requested(executors)
    executors.start(first, second)
    executors.until(task_id, AGREED)
    liars = [people.nodes[name] for name in ("vic", "vera")]
    bystander = people.person("bystander", 10 * BOND)
    tasks.watch(bystander, *liars)
    tasks.appeal(task_id, bystander)
    for liar in liars:
        tasks.attest(task_id, liar, FAKE)
    executors.drive(lambda: executors.reader.appeal(task_id).contested, "the verdict is contested")
    assert [people.gain(node) for node in (first, second)].count(FEE // 2) == 1, "one has bonded"

    context = executors._begin(people.nodes["vito"], "verifier")
    disputes = TaskDisputes(Network(context.chain, context.deployment), context, "cpu")
    executors._share(disputes.runner)
    (case,) = disputes.step(context.chain.head())
    assert case == (task_id, executors.reader.appeal(task_id).deadline)

    def found() -> bool:
        assert disputes.step(context.chain.head()) == [case]
        return disputes.result(task_id) is not None

    executors.drive(found, "a member of the committee has run the task")
    result = disputes.result(task_id)
    assert result == _right(executors, task_id)
    people.decide((people.appeals, "resolve", (task_id, result)))
    executors.until(task_id, CLOSED)
    assert disputes.step(context.chain.head()) == []
    lie = STAKES[VERIFIER] // 5
    assert [people.gain(liar) for liar in liars] == [-lie, -lie]
    gains = sorted(people.gain(node) for node in (first, second))
    assert gains == [FEE // 2, FEE // 2 + lie + BOND]
    assert people.gain(bystander) == -BOND


# -- waiting ---------------------------------------------------------------------------------------


def test_it_reveals_while_it_computes(executors: Executors) -> None:
    """A second task keeps the process busy; the first is opened meanwhile."""
    task_id, first, _ = _running(executors)
    executors.until(task_id, REVEALING)
    agent = executors.agents[first.name]
    assert isinstance(agent, Executor)
    with executors.held_process():
        held = executors.tasks.wait_for(
            lambda: executors.create(executors.inputs.evaluate(first=next(_FRESH)), run_s=3_600),
            lambda n: first in executors.drawn(n),
        )
        executors.until(task_id, AGREED)
        assert executors.state(task_id, first) in (LaneState.AGREED, LaneState.OPENED)
        assert any(f"-{held}-" in name for name in agent.runner.running)


def test_a_crowd_of_tasks_that_end_keeps_no_executor_from_its_own(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited for a day, and nobody was drawn for them. Each agent ended all of them before it
    looked at its own task again, here a block for each, and lost 20 ZOO; all of their fees come
    back."""
    tasks, chain = executors.tasks, executors.tasks.chain
    for node in tasks.executors[1:]:
        tasks.leave(node)
    least = 60 * tasks.people.settings.tasks.fee_per_s
    crowd = [tasks.create(fee=least, run_s=60) for _ in range(70)]
    chain.mine(300)
    for node in tasks.executors[1:]:
        tasks.join(node)
    tasks.people.wait_until(executors.task(crowd[-1]).draw_until)
    task_id = executors.create(executors.inputs.evaluate(first=next(_FRESH)), run_s=60)
    first, _ = tasks.draw(task_id)
    may, ended = threading.Event(), threading.Event()
    run = executors.process.run

    def held(*args: Any) -> TaskResult:
        assert may.wait(60)
        result = run(*args)
        ended.set()
        return result

    monkeypatch.setattr(executors.process, "run", held)
    agent = executors.start_one(first)
    agent.runner.label = CPU
    agent.upkeep._duties._patience_s = 0.0
    chain.rpc("anvil_setBlockTimestampInterval", 1)
    try:
        while not any("draw: task" in did for _, did in executors.done):
            executors.step(first.name)
        may.set()
        assert ended.wait(60)
        while executors.state(task_id, first) == LaneState.RUNNING:
            assert chain.now <= executors.task(task_id).time, "it is too late"
            executors.step(first.name)
    finally:
        chain.rpc("anvil_removeBlockTimestampInterval")
    assert executors.state(task_id, first) == LaneState.COMMITTED


def test_a_short_task_does_not_wait_for_a_long_one(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a process of its own when a share of its time has passed.

    The long task ends when the test says so, and the short one has an hour of the chain's time:
    nothing depends on how long a process takes to start.
    """
    monkeypatch.setattr(runner_module, "_WAIT_SHARE", 3_600)  # that is, after a second
    node = executors.tasks.executors[0]

    def requested() -> int:
        """A task whose draw will take the node."""
        spec = executors.inputs.evaluate(first=next(_FRESH))
        return executors.tasks.wait_for(
            lambda: executors.create(spec, run_s=3_600), lambda n: node in executors.drawn(n)
        )

    runner = executors.start_one(node).runner
    with executors.held_process():
        long = requested()
        executors.drive(
            lambda: any(f"-{long}-" in n for n in runner.running), "the long one is run"
        )
        short = requested()
        executors.drive(
            lambda: executors.state(short, node) == LaneState.COMMITTED, "the short one is done"
        )
        assert any(f"-{long}-" in name for name in runner.running)
        assert executors.state(long, node) == LaneState.RUNNING, "the long task was held until now"
    runner.close()


def test_an_input_that_is_not_there_is_waited_for(executors: Executors) -> None:
    spec = executors.inputs.evaluate(first=1)
    task_id = executors.create(digest_of(cid_of_bytes(spec.canonical())))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.start(*pair)
    executors.drive(
        lambda: all(executors.said(n, "cannot_run_yet") for n in pair), "both look for it"
    )
    assert executors.status(task_id) in (TaskStatus.DRAWING, TaskStatus.RUNNING)
    publish(spec, executors.store)
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == _right(executors, task_id)


def test_an_input_that_nobody_has_costs_its_creator_the_rent(executors: Executors) -> None:
    """Both give up when an eighth of the time is left, and say the same."""
    task_id = executors.create(digest_of(cid_of_bytes(b"nowhere")))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    executors.drive(
        lambda: all(executors.said(n, "cannot_run_yet") for n in pair), "both look for it"
    )
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s // 4)
    assert executors.pass_blocks(5, *(node.name for node in pair)) == []
    executors.tasks.people.wait_until(task.time - task.run_s // 8)
    executors.until(task_id, CLOSED)
    assert executors.task(task_id).result == UNAVAILABLE
    rent = task.run_s * executors.tasks.people.settings.tasks.fee_per_s
    assert [executors.gain(p) for p in (*pair, executors.tasks.creator)] == [0, 0, -rent]
    assert executors.pass_blocks(5, *(node.name for node in pair)) == [], (
        "there is nothing to publish"
    )


def test_inputs_that_come_just_before_executors_give_up__slash_nobody(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks for them a little before that and finds them, the other a little after it. That one
    was outvoted with a third one's help, and lost 20 ZOO; the creator paid 0.03 at least."""
    spec = executors.inputs.evaluate(first=next(_FRESH))
    task_id = executors.create(digest_of(cid_of_bytes(spec.canonical())), run_s=3_600)
    executors.tasks.chain.mine(2)
    early, late = pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    tries: list[bytes] = []
    run = executors.process.run

    def counted(spec: bytes, *rest: Any) -> TaskResult:
        tries.append(spec)
        return run(spec, *rest)

    monkeypatch.setattr(executors.process, "run", counted)
    executors.drive(lambda: len(tries) >= 4, "both look for them")
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s * 9 // 32)
    before = len(tries)
    executors.drive(
        lambda: len(tries) >= before + 4 and all(_rests(executors, node) for node in pair),
        "and again, after half of the time",
    )
    publish(spec, executors.store)
    before = len(tries)
    while len(tries) == before or not _rests(executors, early):
        executors.step(early.name)
        time.sleep(0.02)
    executors.pass_blocks(3, early.name)
    executors.start(*_others(executors, *pair))
    for eighths in (2, 1):
        executors.tasks.people.wait_until(task.time - task.run_s * eighths // 8)
        executors.pass_blocks(10, late.name, early.name)
    executors.until(task_id, AGREED, DECIDED, CLOSED)
    if executors.status(task_id) == DECIDED:
        executors.pass_deadline(task_id)
        executors.until(task_id, CLOSED)
    assert min(executors.gain(node) for node in executors.tasks.executors) >= 0
    _costs_its_creator_the_rent(executors, task_id, list(pair))


def _rests(executors: Executors, node: Node) -> bool:
    """Whether a node runs nothing, and has seen the end of what it ran."""
    agent = executors.agents[node.name]
    assert isinstance(agent, Executor)
    return not agent.runner.running


def _costs_its_creator_the_rent(executors: Executors, task_id: int, pair: list[Node]) -> None:
    """Both have said that there is no result. Nobody is slashed, and nobody else is drawn."""
    executors.until(task_id, CLOSED)
    task = executors.task(task_id)
    assert task.result == UNAVAILABLE and task.nodes == tuple(node.node_id for node in pair)
    rent = task.run_s * executors.tasks.people.settings.tasks.fee_per_s
    assert [executors.gain(p) for p in (*pair, executors.tasks.creator)] == [0, 0, -rent]


def test_a_task_that_ends_every_process_costs_its_creator_the_rent(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's input that torch can't stand. Five executors would be silent, one after the
    other, and lose 20 ZOO each; the creator would have its whole fee back."""
    task_id, *pair = _requested(executors)
    executors.tasks.draw(task_id)

    def dies(*_: object) -> None:
        raise TaskProcessError("the task process ended with -11")

    monkeypatch.setattr(executors.process, "run", dies)
    executors.start(*executors.tasks.executors)
    executors.drive(
        lambda: all(executors.said(node, "cannot_run_yet") for node in pair), "both have tried it"
    )
    task = executors.task(task_id)
    assert executors.pass_blocks(5, *(node.name for node in pair)) == [], "they try again"
    executors.tasks.people.wait_until(task.time - task.run_s // 8)
    _costs_its_creator_the_rent(executors, task_id, pair)


def test_a_task_that_never_ends_costs_its_creator_the_rent(executors: Executors) -> None:
    """Whoever has had a quarter of the time for it, which it was counted to take at most, says so
    when an eighth is left; not before, since a slow machine may still be in time."""
    spec = executors.inputs.evaluate(first=next(_FRESH))
    task_id = executors.create(spec, run_s=3_600)
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    names = [node.name for node in pair]
    with executors.held_process():
        assert executors.pass_blocks(5, *names) == []
        task = executors.task(task_id)
        executors.tasks.people.wait_until(task.time - task.run_s // 6)
        assert executors.pass_blocks(5, *names) == []
        executors.tasks.people.wait_until(task.time - task.run_s // 8)
        _costs_its_creator_the_rent(executors, task_id, pair)


def test_where_blocks_are_slow__a_task_that_never_ends_costs_its_creator_the_rent(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An eighth of a minute is less than a block of 12 seconds. Whoever waited for it answered in
    the block after the deadline, and lost 20 ZOO."""
    executors.tasks.chain.rpc("anvil_setBlockTimestampInterval", 12)
    monkeypatch.setattr(Sender, "block_s", 12.0)  # as measured, by a clock that waits for no test
    try:
        task_id = executors.create(executors.inputs.evaluate(first=next(_FRESH)), run_s=60)
        executors.tasks.chain.mine(2)
        pair = executors.drawn(task_id)
        for node in pair:
            executors.start_one(node).runner.label = CPU
        with executors.held_process():
            executors.tasks.draw(task_id)
            executors.drive(
                lambda: executors.status(task_id) != TaskStatus.RUNNING, "both answer, or don't"
            )
            assert [executors.gain(node) for node in pair] == [0, 0]
            _costs_its_creator_the_rent(executors, task_id, pair)
    finally:
        executors.tasks.chain.rpc("anvil_removeBlockTimestampInterval")


def test_who_has_just_come_to_a_task_still_runs_it(executors: Executors) -> None:
    """A node that was away until the last eighth of the time is in time all the same."""
    task_id = executors.create(executors.inputs.evaluate(first=next(_FRESH)), run_s=3_600)
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s // 10)
    executors.start(*pair)
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == _right(executors, task_id)


def test_a_task_of_another_class_is_never_run(executors: Executors) -> None:
    task_id, first, _ = _requested(executors)
    executors.tasks.draw(task_id)
    agent = executors.start_one(first)
    agent.runner.label = "cuda:sm_90/132/13.0"
    executors.pass_blocks(10, first.name)
    assert executors.state(task_id, first) == LaneState.RUNNING
    assert executors.said(first, "task_run") == 0 and executors.said(first, "cannot_run") == 1


# -- seats -----------------------------------------------------------------------------------------


def test_it_takes_a_seat_and_leaves_a_wrong_one(executors: Executors) -> None:
    node = executors.tasks.enlist("hal")
    agent = executors.start_one(node)
    executors.drive(lambda: bool(executors.reader.seat(node.node_id).seated), "it joins")
    assert executors.done == [("hal", f"joined: the pool of {CPU}")]
    agent.runner.label = "cuda:sm_90/132/13.0"
    executors.drive(lambda: not executors.reader.seat(node.node_id).seated, "it leaves")
    executors.pass_blocks(5, "hal")
    assert executors.said(node, "cannot_join") == 1
    executors.start_one(node, executor={"join": False})
    executors.tasks.chain.mine(300)
    assert executors.pass_blocks(5, "hal") == []


def test_it_says_when_draws_pass_it_over(executors: Executors) -> None:
    """More pay that may be appealed than half of its stake, from tasks with the only other node."""
    tasks = executors.tasks
    node, _, *gone = tasks.executors
    for leaver in gone:
        tasks.leave(leaver)
    tasks.chain.mine(2)
    executors.start_one(node)
    executors.pass_blocks(3, node.name)
    assert executors.said(node, "passed_over") == 0
    while COVER * executors.reader.seat(node.node_id).at_risk <= STAKES[TRAINER]:
        tasks.played(RIGHT, RIGHT)
    executors.pass_blocks(3, node.name)
    assert executors.said(node, "passed_over") == 1
    task_id = tasks.create()
    tasks.await_seed(task_id)
    assert tasks.expected(task_id) == []


def test_a_seat_without_stake_is_emptied_by_anyone(executors: Executors) -> None:
    leaver, keeper = executors.tasks.executors[:2]
    executors.tasks.chain.send(
        leaver.owner, executors.tasks.people.registry, "begin_exit", leaver.node_id
    )
    executors.start_one(keeper)
    executors.drive(lambda: not executors.reader.seat(leaver.node_id).seated, "it is evicted")
    assert executors.done == [(keeper.name, f"evict: node {leaver.node_id}")]


def test_a_pool_that_many_have_left_is_compacted(executors: Executors) -> None:
    """The last holder moves down; its old seat goes when no draw can mean it any more."""
    tasks, chain = executors.tasks.people.tasks, executors.tasks.chain
    *gone, keeper = executors.tasks.executors
    for node in gone:
        executors.tasks.leave(node)
    chain.mine(300)
    executors.start_one(keeper)
    executors.drive(lambda: executors.reader.seat(keeper.node_id).seat == 0, "its holder moves")
    assert executors.pass_blocks(5, keeper.name) == []
    chain.mine(300)
    executors.drive(lambda: chain.call(tasks, "pool_size", 0) == 1, "it is shortened")
    assert executors.done == [(keeper.name, "compact: class 0")] * 2


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_an_executor_killed_at_any_point_reveals_after_its_restart(
    executors: Executors, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Restarted, it goes on with the secret that it had, and nobody is slashed."""
    task_id, first, second = _running(executors)
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise Stopped("the agent ends here")

    monkeypatch.setattr(executor_module, "crashpoint", dies)
    monkeypatch.setattr(commitments_module, "crashpoint", dies)
    with pytest.raises(Stopped):
        executors.drive(lambda: False, "it dies")
    journals = {}
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        journals[node.name] = {name: journal.get(name) for name in journal.keys("task-")}
    executors.start(first, second)
    executors.until(task_id, AGREED)
    assert died == [point]
    assert executors.task(task_id).result == _right(executors, task_id)
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        for name, value in journals[node.name].items():
            assert journal.get(name) == value, "a secret is written once"
        assert len(journal.keys("task-")) == 1
    _published(executors, task_id)


def test_killed_under_its_former_name_it_reveals_under_the_new_one(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that committed as `redundant` before its update is not slashed for the renaming."""
    task_id, first, second = _requested(executors)
    for node in (first, second):
        executors.start_one(node, role="redundant")

    def dies(name: str) -> None:
        if name == "executor-before-reveal":
            raise Stopped("the agent ends here")

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(executor_module, "crashpoint", dies)
        executors.drive(lambda: False, "it dies")
    journals = [executors.agents[node.name].context.journal.path for node in (first, second)]
    assert all(path.name.startswith("redundant-") and path.exists() for path in journals)
    executors.start(first, second)
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == _right(executors, task_id)
    assert not any(path.exists() for path in journals)
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        assert journal.path.name.startswith("executor-")
        assert executors.said(node, "journal_renamed") == 1


def test_a_lost_journal_is_said_once(executors: Executors) -> None:
    task_id, first, _ = _running(executors)
    executors.until(task_id, REVEALING)
    journal = executors.agents[first.name].context.journal
    for name in journal.keys("task-"):
        journal.delete(name)
    executors.start_one(first)
    executors.pass_blocks(5, first.name)
    assert executors.said(first, "secret_lost") == 1
    assert executors.state(task_id, first) == LaneState.COMMITTED


# -- reorgs ----------------------------------------------------------------------------------------


def test_a_reorg_into_another_lane_keeps_the_secret(executors: Executors) -> None:
    """The draw's seed changes with the block; the commitment does not depend on the lane."""
    task_id = executors.create(executors.inputs.evaluate())
    fork = executors.tasks.chain.snapshot()
    executors.tasks.chain.mine(2)
    before = executors.drawn(task_id)
    executors.start(*executors.tasks.executors)
    executors.until(task_id, REVEALING)
    known = {n.name: executors.agents[n.name].context.journal.keys("task-") for n in before}
    for attempt in range(60):
        executors.tasks.chain.revert(fork)
        fork = executors.tasks.chain.snapshot()
        executors.tasks.chain.warp(attempt + 1)
        executors.tasks.chain.mine(2)
        after = executors.drawn(task_id)
        if after != before and set(after) & set(before):
            break
    executors.until(task_id, AGREED)
    assert executors.task(task_id).nodes == tuple(node.node_id for node in after)
    for node in set(after) & set(before):
        assert executors.agents[node.name].context.journal.keys("task-") == known[node.name]


def test_a_reorg_that_puts_another_task_under_the_number(executors: Executors) -> None:
    """Both secrets are kept; the commitment on chain says which to open."""
    fork = executors.tasks.chain.snapshot()
    executors.start(*executors.tasks.executors)
    task_id = executors.create(executors.inputs.evaluate())
    executors.until(task_id, REVEALING)
    executors.tasks.chain.revert(fork)
    executors.tasks.chain.warp(7)
    assert executors.create(executors.inputs.generate()) == task_id
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == _right(executors, task_id)


# -- how much is read ------------------------------------------------------------------------------


def test_what_is_over_is_not_read_again(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads per look are bounded, the old ones are read once, and an appeal brings one back."""
    monkeypatch.setattr(watch_module, "PER_LOOK", 2)
    executors.start(*executors.tasks.executors)
    ids = [executors.create(executors.inputs.evaluate(first=n)) for n in range(3)]
    executors.drive(lambda: all(executors.status(n) == AGREED for n in ids), "all agree")
    reader, asked = executors.reader, []
    many = reader.many

    def counted(numbers: list[int]) -> list[object]:
        asked.append(list(numbers))
        return many(numbers)

    monkeypatch.setattr(reader, "many", counted)
    watch = watch_module.TaskWatch(reader, reader._chain)
    looks = []
    for _ in range(4):
        looks.append([task.task_id for task in watch.look(reader._chain.head())])
        executors.tasks.chain.mine()
    assert looks == [[2, 3], [1], [], []]
    assert asked == looks
    executors.tasks.appeal(2, executors.tasks.executors[0].operator)
    assert [task.task_id for task in watch.look(reader._chain.head())] == [2]
