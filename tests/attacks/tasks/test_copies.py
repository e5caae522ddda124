# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks: being paid for a result that somebody else computed.

Rule: a commitment is good for one sender, node, task, contract and chain; a tag shows no result;
and who opens a tag that is on chain already must show the result behind it.
"""

from __future__ import annotations

import pytest
from eth_utils import keccak

from agents.jobs.publish import ZOO
from tests.stage.chain.tasks import DECIDED, EMPTY, FAKE, FIFTH, HALF, RIGHT, SPEC, Tasks

TIP = 3 * 10**9


def test_commitment_copied_from_the_mempool__cannot_be_opened(tasks: Tasks) -> None:
    """The cheat sees the honest commitment wait in the mempool, copies it and pays more, so that
    its copy comes first in the block. Nothing is unique, so the victim is not stopped; the copy
    can't be opened, neither with the victim's opening nor with anything the cheat knows."""
    people, chain = tasks.people, tasks.chain
    task, victim, cheat = tasks.started()
    digest = tasks.digest(task, victim, tasks.tag(task, RIGHT))
    commit = people.tasks.function("commit", 3)
    with tasks.mempool():
        sent = chain.submit(victim.operator, people.tasks.address, commit.encode((task, 0, digest)))
        waiting = chain.rpc("txpool_content")["pending"][victim.operator.address.lower()]
        (seen,) = (bytes.fromhex(tx["input"][2:]) for tx in waiting.values())
        copy = commit.encode((task, 1, seen[-32:]))
        ahead = chain.submit(cheat.operator, people.tasks.address, copy, tip=TIP)
    first, second = chain.receipt(ahead), chain.receipt(sent)
    assert first["blockNumber"] == second["blockNumber"]
    assert int(first["transactionIndex"], 16) < int(second["transactionIndex"], 16)
    assert int(first["status"], 16) == int(second["status"], 16) == 1

    tasks.reveal(task, victim)
    opening = (tasks.tag(task, RIGHT), RIGHT, tasks.salt(task, victim))
    chain.refuse("tasks: bad opening", cheat.operator, people.tasks, "reveal", task, 1, *opening)
    tasks.advance(task)
    winners = tasks.honest(task)
    assert victim in winners
    tasks.settle([cheat], winners, gain=-FIFTH, each=HALF)


def test_reveal_copied_from_the_mempool__is_good_for_its_sender_only(tasks: Tasks) -> None:
    """The cheat sends the victim's waiting reveal itself, in the victim's lane and in its own."""
    people, chain = tasks.people, tasks.chain
    task, victim, cheat = tasks.started()
    tasks.commit(task, victim)
    tasks.commit(task, cheat, FAKE)
    for lane in (0, 1):
        opening = (task, lane, tasks.tag(task, RIGHT), EMPTY, tasks.salt(task, victim))
        chain.refuse("tasks: bad opening", cheat.operator, people.tasks, "reveal", *opening)
    tasks.reveal(task, victim)
    tasks.reveal(task, cheat, FAKE)
    third = tasks.break_tie(task)
    tasks.settle([cheat], [victim, third], gain=-FIFTH)


def test_result_copied_after_the_first_reveal__comes_too_late_for_the_second(tasks: Tasks) -> None:
    """The lazy second executor commits to something, waits for the first tag and wants to show
    that one. It can't: nobody reveals before both have committed."""
    people, chain = tasks.people, tasks.chain
    task, honest, lazy = tasks.started()
    tasks.commit(task, honest)
    early = tasks.opening(task, honest)
    chain.refuse("tasks: not revealing", honest.operator, people.tasks, "reveal", *early)
    tasks.commit(task, lazy, FAKE)
    tasks.reveal(task, honest)
    tag = bytes(tasks.state(task).answers[0])
    for salt in (tasks.salt(task, lazy), tasks.salt(task, honest)):
        copied = (task, 1, tag, EMPTY, salt)
        chain.refuse("tasks: bad opening", lazy.operator, people.tasks, "reveal", *copied)
    tasks.reveal(task, lazy, FAKE)
    (third,) = tasks.draw(task)
    tasks.answer(task, {third: RIGHT})
    assert tasks.status(task) == DECIDED
    tasks.finalize(task)
    tasks.settle([lazy], [honest, third], gain=-FIFTH, each=HALF)


@pytest.mark.parametrize("lane", [0, 1])
def test_tag_copied_by_the_third_executor__has_no_result_to_show(tasks: Tasks, lane: int) -> None:
    """Two results differ, so their tags are on chain before the third executor commits. It commits
    to one of them without running the task, and can't open it: the result behind it was never
    shown to anybody."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.played(RIGHT, FAKE)
    (lazy,) = tasks.draw(task)
    tag = bytes(tasks.state(task).answers[lane])
    tasks.commit(task, lazy, digest=tasks.digest(task, lazy, tag))
    for guess in (EMPTY, tag, keccak(text="a guess")):
        opening = (task, 2, tag, guess, tasks.salt(task, lazy))
        chain.refuse("tasks: show the result", lazy.operator, people.tasks, "reveal", *opening)
    tasks.advance(task)
    fourth = tasks.break_tie(task)
    assert people.gain(lazy) == people.gain(cheat) == -FIFTH
    tasks.settle([lazy], [honest, fourth], each=HALF)


@pytest.mark.parametrize("part", ["task", "spec", "chain", "tasks", "node", "operator"])
def test_commitment_replayed_from_elsewhere__cannot_be_opened(tasks: Tasks, part: str) -> None:
    """A node keeps what was good for another task, spec, chain, contract, node or key, and commits
    to it here. Both know the result; only what the commitment binds is another."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.started()
    elsewhere = {
        "task": {"task": task + 1},
        "spec": {"spec": keccak(text="another spec")},
        "chain": {"chain": 1},
        "tasks": {"tasks": people.rounds.address},
        "node": {"node": honest.node_id},
        "operator": {"operator": honest.operator.address},
    }[part]
    right = tasks.tag(task, RIGHT)
    tasks.commit(task, cheat, digest=tasks.digest(task, cheat, right, **elsewhere))
    tasks.commit(task, honest)
    tasks.reveal(task, honest)
    opening = (task, 1, right, RIGHT, tasks.salt(task, cheat))
    chain.refuse("tasks: bad opening", cheat.operator, people.tasks, "reveal", *opening)
    tasks.advance(task)
    winners = tasks.honest(task)
    tasks.settle([cheat], winners, gain=-FIFTH, each=HALF)


def test_opening_replayed_in_a_second_task_of_the_same_spec__is_refused(tasks: Tasks) -> None:
    """The same two nodes are drawn for the same spec again. The cheat sends the first task's
    commitment and opening once more, and the first task's tag under a good commitment: the
    result was shown then, but its tag here is another. What it may do is give the known result:
    that is what the creator paid for."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.played(RIGHT, RIGHT)
    shown = bytes(chain.call(people.tasks, "result_of", task))
    assert shown == RIGHT
    again = tasks.wait_for(tasks.create, lambda new: tasks.expected(new) == [honest, cheat])
    tasks.draw(again)
    old = tasks.tag(task, shown)
    assert old != tasks.tag(again, shown)
    tasks.commit(again, honest)
    tasks.commit(again, cheat, digest=tasks.digest(again, cheat, old))
    tasks.reveal(again, honest)
    first = (again, 1, old, shown, tasks.salt(task, cheat))
    chain.refuse("tasks: bad opening", cheat.operator, people.tasks, "reveal", *first)
    chain.send(
        cheat.operator, people.tasks, "reveal", again, 1, old, shown, tasks.salt(again, cheat)
    )
    third = tasks.break_tie(again)
    assert people.gain(cheat) == HALF - FIFTH
    assert people.gain(honest) == 2 * HALF
    assert tasks.profit(cheat) < HALF - 19 * ZOO
    tasks.settle([cheat], [honest, third])


def test_contract_of_another_network__asks_for_other_tags(tasks: Tasks) -> None:
    """The definitions that the tests replay against are the contract's own."""
    chain, contract = tasks.chain, tasks.people.tasks
    task, first, _ = tasks.started()
    tag, salt = tasks.tag(task, RIGHT), tasks.salt(task, first)
    assert bytes(chain.call(contract, "tag_of", task, RIGHT)) == tag
    assert tag not in (tasks.tag(task, RIGHT, chain=1), tasks.tag(task + 1, RIGHT))
    args = (task, first.node_id, first.operator.address, SPEC, tag, salt)
    digest = tasks.digest(task, first, tag)
    assert bytes(chain.call(contract, "commitment_digest", *args)) == digest
