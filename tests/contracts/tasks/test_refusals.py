# SPDX-License-Identifier: Apache-2.0
"""What RedundantTasks and TaskAppeals refuse, to whom and when. Task 1 is the one that `after`
creates, or that is taken to a status; of its executors the one in lane 0 acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.refusals import Act, Refusal, by, by_each, first, node
from tests.stage.contracts.refusals import refused as row
from tests.stage.contracts.system import EMPTY, STAKE, UNBONDING, System, refuses
from tests.stage.contracts.tasks import (
    BOND,
    CPU,
    CUDA,
    FEE,
    NO_COMMIT,
    OTHER,
    RIGHT,
    RUN_S,
    SPEC,
    WRONG,
    Answer,
    TaskStage,
)

WORD, HUGE = b"\x01" * 32, 2**256 - 1
UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")
KNOWN_CLASS = b"cuda:sm_90".ljust(32, b"\0")
NOT_OWNERS = ("creator", "stranger", "appellant", "node 0 owner")
NO_LANES = (2, 4, 5, HUGE)


def executor(lane: int, address: str = "operator") -> Act:
    """An address of task 1's executor."""

    def of(stage: TaskStage) -> str:
        return str(getattr(stage.runners(1)[lane], address))

    of.__name__ = f"lane {lane}'s {address}"
    return of


NOT_LANE_0 = [executor(1), executor(0, "owner"), executor(0, "payout"), "creator", "coordinator"]


def tag(result: bytes) -> Act:
    return lambda stage: stage.tag(1, result)


def salt(lane: int) -> Act:
    return lambda stage: stage.salt(1, lane)


LANE_0, TAG, SALT = executor(0), tag(RIGHT), salt(0)


def commit(who: str | Act = LANE_0, lane: int = 0, digest: bytes = WORD) -> Act:
    return by(who, "tasks.commit", 1, lane, digest)


def reveal(
    who: str | Act = LANE_0,
    lane: int = 0,
    shown: Any = TAG,
    result: bytes = RIGHT,
    opening: Any = SALT,
) -> Act:
    return by(who, "tasks.reveal", 1, lane, shown, result, opening)


def create(who: str = "creator", class_id: int = CPU, spec: bytes = SPEC) -> Act:
    return by(who, "tasks.create_task", class_id, spec, FEE, RUN_S)


def attest(
    who: str = "verifier 0",
    place: int | None = None,
    result: bytes = RIGHT,
    change: Callable[[list[int], list[int]], Any] = lambda ids, weights: (ids, weights),
) -> Act:
    """At verifier 0's place unless told, with the snapshot as `change` makes it."""

    def send(stage: TaskStage) -> None:
        ids, weights = stage.snapshots[1]
        at = ids.index(stage.verifiers[0].node_id) if place is None else place
        by(who, "appeals.attest", 1, at, *change(ids, weights), result)(stage)

    send.__name__ = f"attest by {who}"
    return send


def played(*answers: Answer) -> Act:
    return lambda stage: stage.play(*answers)


def revealing(stage: TaskStage) -> None:
    stage.started()
    stage.commit_all(1, {0: RIGHT, 1: RIGHT})


def one_aborted(stage: TaskStage) -> None:
    """Lane 1 did not commit; 0 and 2 may reveal."""
    stage.started()
    for answers in ((RIGHT, NO_COMMIT), (), (RIGHT, NO_COMMIT, RIGHT)):
        stage.step(1, answers)


def on_a_fork(stage: TaskStage) -> None:
    """After a split of the chain nothing that was committed opens on the other side."""
    revealing(stage)
    boa.env.evm.patch.chain_id += 1


def appealed(stage: TaskStage) -> None:
    stage.play(RIGHT, RIGHT)
    stage.appeal(1)


def judged(stage: TaskStage) -> None:
    appealed(stage)
    stage.judge(1, RIGHT)


def lapsed(stage: TaskStage) -> None:
    appealed(stage)
    stage.expire(1)
    stage.appeals.lapse(1)


def finalized(stage: TaskStage) -> None:
    stage.play(RIGHT, WRONG, RIGHT)
    stage.finalize(1)


def joined(who: str, class_id: int = CPU) -> Act:
    return by(who, "tasks.join", node("fresh"), class_id)


def fresh(stage: TaskStage) -> None:
    """A node without a seat."""
    stage.system.join("fresh", 1)


def closed(stage: TaskStage) -> None:
    """The fresh node has left the registry with its stake."""
    fresh(stage)
    player, registry = stage.system.players["fresh"], stage.registry
    registry.begin_exit(player.node_id, sender=player.owner)
    boa.env.time_travel(seconds=UNBONDING)
    registry.withdraw(player.node_id, sender=player.owner)


def poor(amount: int) -> Act:
    return lambda stage: stage.system.person("poor", amount)


REFUSED = [
    # A task. An operator key names no owner in the draw; the owner's key does.
    row("tasks: empty spec", create(spec=EMPTY)),
    row("tasks: operator", create("node 0")),
    row("tasks: too few executors", *(create(class_id=i) for i in (CUDA, 2, 255, 256, HUGE))),
    row("erc20: transfer amount exceeds balance", create("poor"), after=poor(FEE - 1)),
    # Seats. Two of one node would be two chances to be drawn.
    row(
        "executors: not the node's",
        *by_each(
            ("fresh payout", "node 0", "node 0 owner", "deployer"), "tasks.join", node("fresh"), CPU
        ),
        *(by("fresh owner", "tasks.join", some, CPU) for some in (0, 99, 2**24, HUGE)),
        after=fresh,
    ),
    row(
        "executors: unknown class",
        *(joined("fresh owner", class_id) for class_id in (2, 255, HUGE)),
        after=fresh,
    ),
    row(
        "executors: has a seat",
        *(joined("fresh owner", class_id) for class_id in (CPU, CUDA)),
        after=first(fresh, joined("fresh")),
    ),
    row("executors: not the node's", joined("fresh"), after=closed),
    row("executors: too little stake", joined("fresh owner"), after=closed),
    row(
        "executors: not the node's",
        *by_each(
            ("node 0 payout", "node 1", "node 1 owner", "coordinator"),
            "tasks.leave",
            node("node 0"),
        ),
        by("stranger", "tasks.leave", 0),
    ),
    row("executors: no seat", by("fresh", "tasks.leave", node("fresh")), after=fresh),
    row("executors: enough stake", by("stranger", "tasks.evict", node("fresh")), after=fresh),
    row("executors: no seat", *(by("stranger", "tasks.evict", some) for some in (0, 99))),
    # Commitments. Who could replace its own would copy the other's result after an early leak.
    row("tasks: not operator", *(commit(who) for who in NOT_LANE_0), after="started"),
    row("tasks: not expected", *(commit(lane=lane) for lane in NO_LANES), after="started"),
    row("tasks: not expected", commit(), after=first("started", commit())),
    row("tasks: empty commitment", commit(digest=EMPTY), after="started"),
    # Reveals. Nobody reveals for another, not even who learned the salt.
    row("tasks: not expected", *(reveal(lane=lane) for lane in NO_LANES), after=revealing),
    row("tasks: not expected", reveal(), after=first(revealing, reveal())),
    row("tasks: not expected", reveal(executor(1), 1), after=one_aborted),
    row(
        "tasks: bad opening",
        *(reveal(shown=other) for other in (tag(WRONG), RIGHT, EMPTY)),
        *(reveal(opening=other) for other in (salt(1), EMPTY)),
        *(reveal(who) for who in NOT_LANE_0),
        after=revealing,
    ),
    row("tasks: bad opening", reveal(), after=on_a_fork),
    # Appeals. That inputs are gone now proves nothing about then.
    row(
        "erc20: transfer amount exceeds balance",
        by("poor", "appeals.appeal", 1),
        after=first(poor(BOND - 1), played(RIGHT, RIGHT)),
    ),
    row("verdicts: empty result", attest(result=EMPTY), after=appealed),
    row("appeals: no result", attest(result=UNAVAILABLE), after=appealed),
    # Weights are given by the caller and checked against the hash.
    row(
        "verdicts: wrong snapshot",
        attest(change=lambda ids, weights: (ids, [9 * weight for weight in weights])),
        attest(change=lambda ids, weights: ([ids[0]], [STAKE])),
        attest(change=lambda ids, weights: ([ids[0]] * 3, weights)),
        attest(change=lambda ids, weights: (ids[::-1], weights)),
        attest(change=lambda ids, weights: ([], [])),
        after=appealed,
    ),
    row(
        "verdicts: not a verifier",
        *(attest(place=place) for place in (3, 32, HUGE)),
        after=appealed,
    ),
    row(
        "verdicts: not operator",
        *map(attest, ("verifier 1", "verifier 0 owner", "verifier 0 payout", "coordinator")),
        attest("appellant"),
        after=appealed,
    ),
    row(
        "verdicts: has attested",
        *(attest(result=result) for result in (RIGHT, WRONG)),
        after=first(appealed, attest()),
    ),
    # What only TaskAppeals may say: nobody holds up a payment, or takes back a fee, without the
    # bond and the verdict.
    row(
        "tasks: not appeals",
        *by_each(("creator", "appellant", "coordinator"), "tasks.begin_appeal", 1),
        *by_each(("creator", "appellant", "coordinator"), "tasks.end_appeal", 1, 5, False),
        *by_each(("creator", "appellant", "coordinator"), "tasks.end_appeal", 1, 5, True),
        after=played(RIGHT, WRONG, RIGHT),
    ),
    # Settings
    row("ownable: caller is not the owner", *by_each(NOT_OWNERS, "tasks.add_class", WORD)),
    row("executors: empty class", by("coordinator", "tasks.add_class", EMPTY)),
    row("executors: known class", by("coordinator", "tasks.add_class", KNOWN_CLASS)),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_call__is_refused_with_its_reason(stage: TaskStage, refusal: Refusal) -> None:
    refusal.check(stage)


# How task 1 comes into every status that it may have.
STATUSES: dict[str, Act] = {
    "none": lambda stage: None,
    "drawing": lambda stage: stage.create(),
    "running": lambda stage: stage.started(),
    "revealing": revealing,
    "agreed": played(RIGHT, RIGHT),
    "decided": played(RIGHT, WRONG, RIGHT),
    "undecided": played(RIGHT, WRONG, OTHER),
    "nobody revealed": played(*[NO_COMMIT] * 4),
    "one committed alone": played(NO_COMMIT, RIGHT, *[NO_COMMIT] * 3),
    "appealed": appealed,
    "judged": judged,
    "lapsed": lapsed,
    "finalized": finalized,
    # Else a creator would publish its inputs afterwards and appeal.
    "unavailable": played(UNAVAILABLE, UNAVAILABLE),
}
# Each call, the reason with which it is refused, and the statuses in which it is for something.
PHASES: list[tuple[str, Act, set[str]]] = [
    ("tasks: not drawing", by("stranger", "tasks.draw", 1), {"drawing"}),
    ("tasks: not running", by("stranger", "tasks.commit", 1, 0, WORD), {"drawing", "running"}),
    (
        "tasks: not revealing",
        by("stranger", "tasks.reveal", 1, 0, EMPTY, EMPTY, EMPTY),
        {"revealing"},
    ),
    ("tasks: not running", by("stranger", "tasks.advance", 1), {"running", "revealing"}),
    ("tasks: not decided", by("stranger", "tasks.finalize", 1), {"decided"}),
    (
        "tasks: nothing to appeal",
        by("appellant", "appeals.appeal", 1),
        {"agreed", "decided", "undecided"},
    ),
    ("appeals: not open", by("stranger", "appeals.lapse", 1), {"appealed"}),
    ("appeals: not open", by("stranger", "appeals.attest", 1, 0, [], [], RIGHT), {"appealed"}),
    ("tasks: not appealed", by("appeals", "tasks.end_appeal", 1, 4, True), {"appealed"}),
]


@pytest.mark.parametrize("status", STATUSES)
def test_call__in_every_status_it_is_not_for__reverts(stage: TaskStage, status: str) -> None:
    """Now, and however late."""
    STATUSES[status](stage)
    for _ in range(2):
        for reason, call, good in PHASES:
            if status not in good:
                with refuses(reason):
                    call(stage)
        boa.env.time_travel(seconds=86_400)


def test_call__of_an_unknown_task__reverts(system: System, stage: TaskStage) -> None:
    for task_id in (0, 99, HUGE):
        for reason, name in (
            ("tasks: not drawing", "tasks.draw"),
            ("tasks: not running", "tasks.advance"),
            ("tasks: not decided", "tasks.finalize"),
            ("tasks: nothing to appeal", "appeals.appeal"),
            ("appeals: not open", "appeals.lapse"),
        ):
            with refuses(reason):
                by("stranger", name, task_id)(stage)
