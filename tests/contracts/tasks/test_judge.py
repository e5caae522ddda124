# SPDX-License-Identifier: Apache-2.0
"""The verdict: who is slashed by which row and who is paid what, to the unit, for every status that
a task may have been in and every result that verifiers may find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import STAKE, ZERO, ZOO, System
from tests.stage.contracts.tasks import (
    AGREED,
    BOND,
    CLOSED,
    COLLUSION,
    DECIDED,
    FEE,
    HALF,
    NO_COMMIT,
    NO_REVEAL,
    OTHER,
    REDUNDANCY_MISMATCH,
    REST,
    RIGHT,
    UNDECIDED,
    WRONG,
    Answer,
    Books,
    TaskStage,
    make_tasks,
    slashed,
)

MISMATCH, COLLUDED = slashed(2_000), slashed(5_000)
FOURTH = RIGHT[::-1]


def verdict(stage: TaskStage, task_id: int, result: bytes) -> tuple[Books, list[Any]]:
    """What carrying out a verdict that nobody contests moves, and the events of TaskAppeals."""
    stage.vote(task_id, result)
    stage.expire(task_id)
    return stage.effects(
        stage.appeals, lambda: stage.appeals.finalize(task_id, sender=stage.stranger)
    )


def shared(amount: int) -> Books:
    """The verifiers' part, for the two who attested; the first has the odd unit."""
    return {("appeals", "verifier 0"): amount - amount // 2, ("appeals", "verifier 1"): amount // 2}


def without_zeros(books: Books) -> Books:
    return {key: amount for key, amount in books.items() if amount}


@pytest.mark.parametrize(
    ("answers", "status", "found", "rows", "overturned"),
    [
        # Two agreed.
        ((RIGHT, RIGHT), AGREED, RIGHT, {}, False),
        ((WRONG, WRONG), AGREED, RIGHT, {0: COLLUSION, 1: COLLUSION}, True),
        ((WRONG, NO_REVEAL, WRONG), AGREED, RIGHT, {0: COLLUSION, 2: COLLUSION}, True),
        ((NO_COMMIT, RIGHT, RIGHT), AGREED, RIGHT, {}, False),
        # A third decided: rightly,
        ((RIGHT, WRONG, RIGHT), DECIDED, RIGHT, {1: REDUNDANCY_MISMATCH}, False),
        ((WRONG, RIGHT, RIGHT), DECIDED, RIGHT, {0: REDUNDANCY_MISMATCH}, False),
        # with another against an honest one,
        ((RIGHT, WRONG, WRONG), DECIDED, RIGHT, {1: COLLUSION, 2: COLLUSION}, True),
        ((WRONG, RIGHT, WRONG), DECIDED, RIGHT, {0: COLLUSION, 2: COLLUSION}, True),
        ((WRONG, NO_COMMIT, RIGHT, WRONG), DECIDED, RIGHT, {0: COLLUSION, 3: COLLUSION}, True),
        # or against one who was wrong as well.
        (
            (OTHER, WRONG, WRONG),
            DECIDED,
            RIGHT,
            {0: REDUNDANCY_MISMATCH, 1: COLLUSION, 2: COLLUSION},
            True,
        ),
        # The verdict need not be anybody's.
        (
            (RIGHT, WRONG, WRONG),
            DECIDED,
            OTHER,
            {0: REDUNDANCY_MISMATCH, 1: COLLUSION, 2: COLLUSION},
            True,
        ),
        # Nobody agreed with anybody.
        (
            (WRONG, RIGHT, OTHER),
            UNDECIDED,
            RIGHT,
            {0: REDUNDANCY_MISMATCH, 2: REDUNDANCY_MISMATCH},
            True,
        ),
        (
            (WRONG, FOURTH, OTHER),
            UNDECIDED,
            RIGHT,
            dict.fromkeys(range(3), REDUNDANCY_MISMATCH),
            True,
        ),
        ((NO_COMMIT, RIGHT, *[NO_REVEAL] * 3), UNDECIDED, RIGHT, {}, False),
        ((NO_COMMIT, WRONG, *[NO_REVEAL] * 3), UNDECIDED, RIGHT, {1: REDUNDANCY_MISMATCH}, True),
        ((RIGHT, WRONG, *[NO_COMMIT] * 3), UNDECIDED, RIGHT, {1: REDUNDANCY_MISMATCH}, True),
    ],
    ids=lambda value: "",
)
def test_verdict__money_of_each_party(
    stage: TaskStage,
    answers: tuple[Answer, ...],
    status: int,
    found: bytes,
    rows: dict[int, int],
    overturned: bool,
) -> None:
    task_id = stage.play(*answers)
    assert stage.status(task_id) == status
    decided = now()
    mine(1, 60)
    stage.appeal(task_id)
    runners = stage.runners(task_id)
    moved, events = verdict(stage, task_id, found)

    amounts = {lane: COLLUDED if row == COLLUSION else MISMATCH for lane, row in rows.items()}
    taken = sum(amounts.values())
    expected: Books = {("stake", runners[lane].name): -amount for lane, amount in amounts.items()}
    expected["open", "appeals"] = -BOND
    right = [lane for lane, answer in enumerate(answers) if answer == found]
    seized = 0
    if overturned:
        seized = taken // 2
        left = seized
        if status == AGREED:
            # Its fee was paid out at once, to those who are slashed now.
            expected["appeals", "creator"] = FEE
            left -= FEE
        for lane in right:
            expected["appeals", runners[lane].name] = FEE // 2
            left -= FEE // 2
        expected |= shared(BOND)
        expected["appeals", "appellant"] = BOND + left - BOND
        if status == DECIDED:
            expected |= {("tasks", "creator"): FEE, ("open", "tasks"): -FEE}
    else:
        expected |= shared(BOND)
        if status == DECIDED:
            first, second = right
            expected |= {
                ("open", "tasks"): -FEE,
                ("tasks", runners[first].name): HALF,
                ("tasks", runners[second].name): REST,
            }
    expected["bounty", "treasury"] = taken - seized
    assert moved == without_zeros(expected)

    told = {name: [f for n, f in events if n == name] for name, _ in events}
    assert told.get("ExecutorSlashed", []) == [
        {
            "task_id": task_id,
            "node_id": runners[lane].node_id,
            "violation": row,
            "amount": amounts[lane],
        }
        for lane, row in rows.items()
    ]
    assert told["TaskJudged"] == [
        {"task_id": task_id, "result": found, "overturned": overturned, "seized": seized}
    ]
    credited = {(c["account"], c["amount"]) for c in told["BondCredited"]}
    names = {stage.creator: "creator", stage.appellant: "appellant"}
    names |= {p.payout: p.name for p in (*stage.nodes, *stage.verifiers)}
    assert {("appeals", names[account]): amount for account, amount in credited} == {
        key: amount for key, amount in expected.items() if key[0] == "appeals" and amount
    }
    appeal = stage.appeals.appeal_of(task_id)
    assert (appeal.deadline, appeal.result, appeal.overturned) == (0, found, overturned)
    assert appeal.decided_at == decided
    assert stage.status(task_id) == CLOSED
    assert [stage.open_lanes(p) for p in stage.nodes] == [0] * 5
    for lane, row in rows.items():
        assert stage.registry.offences(runners[lane].node_id, row) == 1
    # Who was right is whole, also where two who collude had outvoted it.
    assert [stage.registry.node(runners[lane].node_id).strikes for lane in right] == [0] * len(
        right
    )


# A pot that does not reach


@pytest.mark.parametrize(
    ("bps", "creator", "verifiers"),
    [
        (0, 0, 0),
        (1, ZOO // 10, 0),
        (20, 2 * ZOO, 0),
        (30, FEE, 3 * ZOO - FEE),
        (70, FEE, 7 * ZOO - FEE),
        (71, FEE, BOND),
    ],
)
def test_verdict__small_pot__creator_first_then_verifiers(
    stage: TaskStage, owner: str, bps: int, creator: int, verifiers: int
) -> None:
    """The bond goes back whole in any case: an appellant who was right loses nothing."""
    stage.registry.set_penalty(COLLUSION, (bps, 0, 0, True, False, 5_000), sender=owner)
    task_id = stage.play(WRONG, WRONG)
    a, b = stage.runners(task_id)
    stage.appeal(task_id)
    moved, _ = verdict(stage, task_id, RIGHT)
    amount = slashed(bps)
    assert creator + verifiers <= amount
    assert moved == without_zeros(
        {
            ("stake", a.name): -amount,
            ("stake", b.name): -amount,
            ("bounty", "treasury"): amount,
            ("open", "appeals"): -BOND,
            ("appeals", "creator"): creator,
            ("appeals", "appellant"): BOND + amount - creator - verifiers,
        }
        | shared(verifiers)
    )


@pytest.mark.parametrize(("bps", "framed"), [(5, ZOO // 2), (10, FEE // 2), (20, FEE // 2)])
def test_verdict__small_pot__the_framed_first_where_the_fee_is_held(
    stage: TaskStage, owner: str, bps: int, framed: int
) -> None:
    stage.registry.set_penalty(COLLUSION, (bps, 0, 0, True, False, 5_000), sender=owner)
    task_id = stage.play(WRONG, RIGHT, WRONG)
    honest = stage.runners(task_id)[1]
    stage.appeal(task_id)
    moved, _ = verdict(stage, task_id, RIGHT)
    pot = slashed(bps)
    assert moved["appeals", honest.name] == framed
    assert moved["tasks", "creator"] == FEE
    assert moved["appeals", "appellant"] == BOND
    assert {k: v for k, v in moved.items() if "verifier" in k[1]} == without_zeros(
        shared(pot - framed)
    )


def test_verdict__nothing_left_to_seize(stage: TaskStage, tasks: Any) -> None:
    """Executors who lost all in between: the verdict stands, nobody is owed what is not there."""
    task_id = stage.play(WRONG, WRONG)
    stage.appeal(task_id)
    for player in stage.runners(task_id):
        stage.registry.slash(player.node_id, 4, now(), ZERO, sender=tasks.address)
    moved, events = verdict(stage, task_id, RIGHT)
    assert moved == {("open", "appeals"): -BOND, ("appeals", "appellant"): BOND}
    judged = {"task_id": task_id, "result": RIGHT, "overturned": True, "seized": 0}
    assert ("TaskJudged", judged) in events


def test_verdict__offence_is_as_old_as_the_decision(stage: TaskStage) -> None:
    """Stake that came after it is not at risk; stake that leaves since still is."""
    task_id = stage.play(WRONG, WRONG)
    a, b = stage.runners(task_id)
    mine(1, 1)
    stage.system.add_stake(a, STAKE)
    stage.registry.begin_exit(b.node_id, sender=b.owner)
    stage.appeal(task_id)
    moved, _ = verdict(stage, task_id, RIGHT)
    assert moved["stake", a.name] == moved["stake", b.name] == -COLLUDED


# Shares


def test_verdict__share_of_three_verifiers__first_has_the_rest(system: System) -> None:
    stage = make_tasks(system, stakes=(STAKE,) * 4)
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    with stage.moves() as moved:
        stage.judge(task_id, RIGHT)
    third = BOND // 3
    assert moved == {
        ("open", "appeals"): -BOND,
        ("appeals", "verifier 0"): BOND - 2 * third,
        ("appeals", "verifier 1"): third,
        ("appeals", "verifier 2"): third,
    }


def test_verdict__who_named_another_result_has_no_share(system: System) -> None:
    stage = make_tasks(system)
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    stage.attest(task_id, stage.verifiers[0], WRONG)
    with stage.moves() as moved:
        for verifier in stage.verifiers[1:]:
            stage.attest(task_id, verifier, RIGHT)
        stage.carry_out(task_id)
    assert moved == {
        ("open", "appeals"): -BOND,
        ("appeals", "verifier 1"): BOND // 2,
        ("appeals", "verifier 2"): BOND // 2,
    }
