# SPDX-License-Identifier: Apache-2.0
"""Verifiers who lie about a task: what it takes them, what it costs them, and that an honest
executor loses nothing before the committee's last word."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.system import (
    EMPTY,
    FALSE_REPORT,
    STAKE,
    UNLIMITED,
    VERIFIER,
    ZERO,
    ZOO,
    Player,
    System,
    account,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import (
    APPEALED,
    BOND,
    CLOSED,
    DISPUTE_S,
    FEE,
    HALF,
    OBJECTION_S,
    OTHER,
    REST,
    RIGHT,
    WRONG,
    Books,
    TaskStage,
    make_tasks,
    slashed,
)

LIE = slashed(2_000)  # FALSE_REPORT
INVALID = 2


def gain(moved: Books, *names: str) -> int:
    """What these parties have won in all books together; negative for a loss."""
    return sum(units for (_, name), units in moved.items() if name in names)


def names(players: Sequence[Player]) -> list[str]:
    return [player.name for player in players]


def objector(stage: TaskStage) -> str:
    """The stranger, with a bond."""
    token = stage.system.token
    token.transfer(stage.stranger, BOND, sender=stage.system.holder)
    token.approve(stage.appeals.address, UNLIMITED, sender=stage.stranger)
    return stage.stranger


def contested(stage: TaskStage, task_id: int, lie: bytes = WRONG) -> int:
    """Two of three verifiers name this result, and the stranger, who has the bond, objects."""
    stage.appeal(task_id)
    stage.vote(task_id, lie)
    stage.appeals.contest(task_id, sender=stage.stranger)
    return task_id


# One verifier


def test_attack__one_verifier_while_the_others_rest__loses_and_harms_nobody(system: System) -> None:
    """One of three appeals honest tasks with a false result while the two others rest. It won 996
    ZOO with two tasks when a snapshot held only who was eligible at that moment, and four honest
    executors lost 500 each."""
    stage = make_tasks(system)
    liar, *others = stage.verifiers
    for verifier in others:
        system.registry.set_active(verifier.node_id, False, sender=verifier.owner)
    with stage.moves() as moved:
        for _ in range(2):
            task_id = stage.play(RIGHT, RIGHT)
            stage.appeal(task_id)
            stage.attest(task_id, liar, WRONG)
            stage.expire(task_id)
            stage.appeals.lapse(task_id, sender=stage.stranger)
    assert gain(moved, "appellant", liar.name) == 0
    assert gain(moved, *names(stage.nodes)) == 2 * FEE
    assert gain(moved, "creator") == -2 * FEE


def test_attack__stake_added_for_the_vote__weighs_nothing(system: System) -> None:
    """One of three verifiers adds four times its stake in the block of its appeal. It won 498 ZOO
    with one task when weight was the stake of that moment; one added while the task runs counts
    neither."""
    stage = make_tasks(system, stakes=(STAKE // 10,) * 3)
    liar = stage.verifiers[0]
    system.person(f"{liar.name} owner", 10 * STAKE)
    task_id = stage.create()
    system.registry.add_stake(liar.node_id, 4 * STAKE, sender=liar.owner)
    stage.play(RIGHT, RIGHT, task_id=task_id)
    mine(1, 2 * system.registry.maturity())
    with stage.moves() as moved:
        stage.appeal(task_id)
        stage.attest(task_id, liar, WRONG)
        assert stage.snapshots[task_id][1] == [STAKE // 10] * 3
        stage.expire(task_id)
        stage.appeals.lapse(task_id, sender=stage.stranger)
    assert gain(moved, "appellant", liar.name, *names(stage.nodes)) == 0


def test_attack__a_rich_verifier__has_two_voices_weight_at_most(system: System) -> None:
    """One verifier with a hundred times the others' stake is no verdict: a voice weighs at most
    twice the minimum, and one owner is never enough."""
    stage = make_tasks(system, stakes=(100 * STAKE, STAKE // 10, STAKE // 10))
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    assert stage.snapshots[task_id][1] == [STAKE // 5, STAKE // 10, STAKE // 10]
    stage.attest(task_id, stage.verifiers[0], WRONG)
    assert stage.appeals.appeal_of(task_id).result == EMPTY


def test_attack__two_thirds_in_one_hand__is_no_verdict(system: System) -> None:
    """Weight alone does not do: two owners must agree."""
    stage = make_tasks(system, stakes=(100 * STAKE, STAKE // 10))
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    stage.attest(task_id, stage.verifiers[0], WRONG)
    assert stage.appeals.attested_weight(task_id, WRONG) == (STAKE // 5, 3 * STAKE // 10)
    assert stage.appeals.appeal_of(task_id).result == EMPTY
    stage.attest(task_id, stage.verifiers[1], WRONG)
    assert stage.appeals.appeal_of(task_id).result == WRONG


def test_attack__two_nodes_of_one_owner__are_one_voice(system: System) -> None:
    """The second node of an owner has no place in the snapshot."""
    stage = make_tasks(system, stakes=(STAKE, STAKE))
    twin = system.join("twin", VERIFIER, owner="verifier 0 owner")
    mine(1, system.registry.maturity() + 8)
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    assert twin.node_id not in stage.snapshots[task_id][0]
    assert len(stage.snapshots[task_id][0]) == 2


def test_attack__a_banned_verifier_votes__is_refused(system: System) -> None:
    """A verifier that is banned during the vote has no say, whatever its snapshot gives it. It
    decided a verdict alone."""
    stage = make_tasks(system)
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    banned, suspended, _ = stage.verifiers
    reports = system.reports.address
    system.registry.slash(banned.node_id, 4, now(), ZERO, sender=reports)
    system.registry.slash(suspended.node_id, INVALID, now(), ZERO, sender=reports)
    for verifier in (banned, suspended):
        with refuses("verdicts: not operator"):
            stage.attest(task_id, verifier, WRONG)


def test_appeal__fewer_than_two_owners__reverts(system: System) -> None:
    stage = make_tasks(system, stakes=(STAKE,))
    task_id = stage.play(RIGHT, RIGHT)
    with refuses("verdicts: too few verifiers"):
        stage.appeal(task_id)


def test_appeal__verifiers_younger_than_the_task__are_not_asked(system: System) -> None:
    """By registration, and to the second: the creation is known to eight seconds."""
    stage = make_tasks(system)
    task_id = stage.create()
    late = system.join("late", VERIFIER)
    stage.play(RIGHT, RIGHT, task_id=task_id)
    mine(1, 2 * system.registry.maturity())
    stage.appeal(task_id)
    assert late.node_id not in stage.snapshots[task_id][0]


# Two of three


def test_attack__two_of_three_verifiers__pay_and_the_executors_are_whole(stage: TaskStage) -> None:
    """Two of three give a false verdict on an honest task. With two such tasks they won 996 ZOO and
    kept their stake. Now one honest objection costs each of them a fifth of its stake."""
    task_id = stage.play(RIGHT, RIGHT)
    liars, honest = stage.verifiers[:2], names(stage.nodes)
    with stage.moves() as moved:
        stage.appeal(task_id)
        stage.vote(task_id, WRONG)
    assert gain(moved, *honest) == 0, "nobody is slashed by a verdict that is still open"
    who = objector(stage)
    with stage.moves() as moved:
        stage.appeals.contest(task_id, sender=who)
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    assert gain(moved, *honest) == 0
    assert [moved["stake", liar.name] for liar in liars] == [-LIE, -LIE]
    assert moved["bounty", "treasury"] == LIE
    # Half of what they lose and the appellant's bond, which no honest verifier is there to take.
    assert gain(moved, "stranger") == LIE + BOND
    assert gain(moved, "appellant") == 0
    assert stage.status(task_id) == CLOSED
    assert [stage.registry.offences(v.node_id, FALSE_REPORT) for v in liars] == [1, 1]
    assert stage.appeals.appeal_of(task_id).overturned is False
    assert stage.appeals.appeal_of(task_id).result == RIGHT


def test_attack__two_of_three_object_for_themselves__win_nothing(stage: TaskStage) -> None:
    """Appellant, verifiers and objector are one party: half of what they seize from themselves is
    the treasury's."""
    task_id = stage.play(RIGHT, RIGHT)
    objector(stage)
    with stage.moves() as moved:
        contested(stage, task_id)
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    party = ["appellant", "stranger", *names(stage.verifiers)]
    assert gain(moved, *party) == -LIE
    assert gain(moved, *names(stage.nodes)) == 0


def test_attack__cheats_object_to_a_true_verdict__lose_the_bond_too(stage: TaskStage) -> None:
    """Two who agreed on a wrong result object to the verdict that says so."""
    task_id = stage.play(WRONG, WRONG)
    pair = stage.runners(task_id)
    stage.appeal(task_id)
    stage.vote(task_id, RIGHT)
    who = objector(stage)
    with stage.moves() as moved:
        stage.appeals.contest(task_id, sender=who)
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    assert gain(moved, "stranger") == -BOND
    assert [moved["stake", node.name] for node in pair] == [-slashed(5_000)] * 2
    assert moved["bounty", "treasury"] == slashed(5_000)
    assert moved["appeals", "treasury"] == BOND
    assert gain(moved, *names(stage.verifiers)) == BOND


def undecided(stage: TaskStage, task_id: int) -> Books:
    """Somebody objects to the right verdict, and nobody decides in time; what that moved."""
    objector(stage)
    with stage.moves() as moved:
        contested(stage, task_id, RIGHT)
        stage.expire(task_id)
        stage.appeals.lapse(task_id, sender=stage.appellant)
    return moved


def test_attack__objection_that_nobody_decides__pays_nobody_who_asked(stage: TaskStage) -> None:
    """Two who outvoted an honest third object, and the committee sleeps: nobody is slashed, and
    the fee goes back to the creator as the verdict says, not to them."""
    task_id = stage.play(WRONG, RIGHT, WRONG)
    moved = undecided(stage, task_id)
    assert gain(moved, *names(stage.nodes), *names(stage.verifiers)) == 0
    assert gain(moved, "creator") == FEE
    assert gain(moved, "stranger", "appellant") == 0
    assert stage.status(task_id) == CLOSED


def test_attack__creator_objects_and_nobody_decides__pays_the_honest_pair(stage: TaskStage) -> None:
    """The mirror image: a creator whose appeal was found wrong gains nothing by objecting."""
    task_id = stage.play(RIGHT, WRONG, RIGHT)
    moved = undecided(stage, task_id)
    first, odd, second = stage.runners(task_id)
    assert (gain(moved, first.name), gain(moved, second.name)) == (HALF, REST)
    assert gain(moved, odd.name) == 0
    assert gain(moved, "appellant") == -BOND
    assert gain(moved, *names(stage.verifiers)) == BOND


def test_resolve__a_third_result__judges_all_by_it(stage: TaskStage) -> None:
    """The committee's result need be neither the verdict nor the executors'."""
    task_id = stage.play(WRONG, WRONG)
    pair = stage.runners(task_id)
    objector(stage)
    with stage.moves() as moved:
        contested(stage, task_id, OTHER)
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    assert [moved["stake", node.name] for node in pair] == [-slashed(5_000)] * 2
    assert [moved.get(("stake", v.name), 0) for v in stage.verifiers] == [-LIE, -LIE, 0]
    pot = slashed(5_000) + LIE
    assert gain(moved, "creator") == FEE
    assert gain(moved, "appellant") == 0, "its appeal was right"
    assert gain(moved, "stranger") == pot - FEE


def test_resolve__minority_of_the_vote_that_was_wrong__is_slashed(system: System) -> None:
    """Whoever the committee finds wrong pays, on whichever side of the verdict."""
    stage = make_tasks(system, stakes=(STAKE,) * 4)
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    odd = stage.verifiers[3]
    stage.attest(task_id, odd, OTHER)
    stage.vote(task_id, RIGHT)
    stage.appeals.contest(task_id, sender=objector(stage))
    with stage.moves() as moved:
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    assert moved["stake", odd.name] == -LIE
    assert moved["bounty", "treasury"] == LIE
    assert gain(moved, "appellant", "stranger") == 0


# The stages, their deadlines and their callers


def test_contest__in_time_with_a_bond__is_told(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    stage.vote(task_id, WRONG)
    begun = now()
    assert stage.appeals.appeal_of(task_id).deadline == begun + OBJECTION_S
    who = objector(stage)
    stage.appeals.contest(task_id, sender=who)
    told = dict(events_of(stage.appeals))["VerdictContested"]
    assert told == {
        "task_id": task_id,
        "objector": who,
        "bond": BOND,
        "deadline": now() + DISPUTE_S,
    }
    assert stage.status(task_id) == APPEALED
    with refuses("appeals: already contested"):
        stage.appeals.contest(task_id, sender=stage.appellant)
    with refuses("appeals: already contested"):
        stage.appeals.finalize(task_id, sender=stage.stranger)
    with refuses("appeals: verdict given"):
        stage.attest(task_id, stage.verifiers[2], RIGHT)


def test_contest__without_a_verdict_or_too_late__reverts(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, RIGHT)
    for call in (stage.appeals.contest, stage.appeals.finalize):
        with refuses("appeals: no verdict"):
            call(task_id, sender=stage.appellant)
    stage.appeal(task_id)
    for call in (stage.appeals.contest, stage.appeals.finalize):
        with refuses("appeals: no verdict"):
            call(task_id, sender=stage.appellant)
    stage.vote(task_id, RIGHT)
    with refuses("appeals: objection window open"):
        stage.appeals.finalize(task_id, sender=stage.appellant)
    stage.expire(task_id)
    with refuses("appeals: too late"):
        stage.appeals.contest(task_id, sender=stage.appellant)
    with refuses("appeals: verdict given"):
        stage.appeals.lapse(task_id, sender=stage.stranger)
    stage.appeals.finalize(task_id, sender=stage.stranger)
    for call in (stage.appeals.contest, stage.appeals.finalize):
        with refuses("appeals: no verdict"):
            call(task_id, sender=stage.appellant)


def test_resolve__refusals(stage: TaskStage) -> None:
    task_id = stage.play(RIGHT, RIGHT)
    stage.appeal(task_id)
    with refuses("appeals: not contested"):
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    stage.vote(task_id, WRONG)
    with refuses("appeals: not contested"):
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    stage.appeals.contest(task_id, sender=objector(stage))
    verifier = stage.verifiers[0]
    for sender in (stage.stranger, stage.appellant, verifier.owner, verifier.operator):
        with refuses("ownable: caller is not the owner"):
            stage.appeals.resolve(task_id, RIGHT, sender=sender)
    with refuses("appeals: no result"):
        stage.appeals.resolve(task_id, EMPTY, sender=stage.owner)
    with refuses("appeals: verdict pending"):
        stage.appeals.lapse(task_id, sender=stage.stranger)
    stage.expire(task_id)
    with refuses("appeals: too late"):
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)


@pytest.mark.parametrize("moment", ["begin_exit", "resting"])
def test_attack__verifier_leaves_before_the_last_word__is_slashed_all_the_same(
    stage: TaskStage, moment: str
) -> None:
    """Its stake unbonds for longer than all windows together."""
    task_id = stage.play(RIGHT, RIGHT)
    objector(stage)
    contested(stage, task_id)
    liar = stage.verifiers[0]
    if moment == "begin_exit":
        stage.registry.begin_exit(liar.node_id, sender=liar.owner)
    else:
        stage.registry.set_active(liar.node_id, False, sender=liar.owner)
    mine(1, DISPUTE_S - 10)
    with stage.moves() as moved:
        stage.appeals.resolve(task_id, RIGHT, sender=stage.owner)
    assert moved["stake", liar.name] == -LIE


def test_attack__payout_set_to_the_finders_address__denies_no_bounty(system: System) -> None:
    """An offender names its finder's address as its payout just before it is slashed: 100 of 500
    became 0."""
    stage = make_tasks(system)
    offender, finder = stage.nodes[0], str(account("finder").address)
    system.registry.set_payout(offender.node_id, finder, sender=offender.owner)
    system.registry.slash(offender.node_id, INVALID, now(), finder, sender=system.reports.address)
    assert system.registry.bounty(finder) == 100 * ZOO
