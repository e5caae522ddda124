# SPDX-License-Identifier: Apache-2.0
"""Verifiers of redundant tasks as agents: what they sample, judge, and are told apart by."""

from __future__ import annotations

import pytest
from click import ClickException
from click.testing import CliRunner

from agents.executor import Executor
from agents.protocol.network import Network
from agents.protocol.numbers import TaskStatus
from agents.tasks.compute.classes import CPU, CPU_CLASS
from agents.tasks.dispute import TaskDisputes
from scripts._shared.economics import refuse_unwatched, watched
from scripts._shared.job_classes import check_classes
from scripts.economics import cli as economics
from tests.stage.chain.executors import Executors, Liar
from tests.stage.chain.people import STAKES, VERIFIER
from tests.stage.chain.tasks import BOND, FAKE, FEE, HELD

AGREED, APPEALED, CLOSED = TaskStatus.AGREED, TaskStatus.APPEALED, TaskStatus.CLOSED


def test_a_verifier_that_samples_overturns_two_liars(executors: Executors) -> None:
    """Nobody else could know; the rate decides, and at zero nothing is run again."""
    task_id, first, second = executors.requested()
    executors.start(first, second, kind=Liar)
    executors.recheck("vito")
    executors.until(task_id, AGREED)
    for _ in range(5):
        assert executors.step("vito") is None
    executors.recheck("vic", rate=1.0)
    executors.recheck("vera")
    executors.until(task_id, CLOSED)
    assert bytes(executors.reader.appeal(task_id).result) == executors.right(task_id)
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
    task_id, *_ = executors.at_work()
    executors.until(task_id, AGREED)
    vic = executors.tasks.people.nodes["vic"]
    executors.recheck("vic", rate=1.0)
    executors.drive(lambda: executors.said(vic, "task_audited") == 1, "the audit is over")
    assert executors.status(task_id) == AGREED
    assert executors.pass_blocks(5, "vic") == []
    assert executors.said(vic, "task_audited") == 1, "once"


def test_a_restarted_verifier_still_attests_once(executors: Executors) -> None:
    task_id, *_ = executors.everybody(Executor, Liar)
    executors.until(task_id, APPEALED)
    executors.recheck("vic")
    executors.drive(lambda: ("vic", f"attested: task {task_id}") in executors.done, "vic attests")
    executors.recheck("vic")
    assert executors.pass_blocks(10, "vic") == []
    executors.recheck("vera")
    executors.until(task_id, CLOSED)
    assert executors.done.count(("vic", f"attested: task {task_id}")) == 1


def test_an_appeal_without_a_verdict_lapses(executors: Executors) -> None:
    task_id, *_ = executors.everybody(Executor, Liar)
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
    task_id, first, second = executors.requested()
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
    assert result == executors.right(task_id)
    people.decide((people.appeals, "resolve", (task_id, result)))
    executors.until(task_id, CLOSED)
    assert disputes.step(context.chain.head()) == []
    lie = STAKES[VERIFIER] // 5
    assert [people.gain(liar) for liar in liars] == [-lie, -lie]
    gains = sorted(people.gain(node) for node in (first, second))
    assert gains == [FEE // 2, FEE // 2 + lie + BOND]
    assert people.gain(bystander) == -BOND
