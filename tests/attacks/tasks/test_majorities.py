# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks: results that were agreed on and are wrong, and appeals as a weapon.

Rule: two equal results are only as good as their owners are strangers. So whoever is outvoted, or
anybody else, may have verifiers run the task again, and then the wrong ones pay. What rests on
that: somebody objects within the window, and verifiers with two thirds of the stake are honest and
awake. A false objection costs its bond.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from eth_utils import keccak

from agents.jobs.publish import ZOO
from agents.runtime.config import VerifierSettings
from agents.tasks.economics import limit
from tests.stage.chain.people import VERIFIER, Node
from tests.stage.chain.tasks import (
    AGREED,
    BOND,
    CLOSED,
    COLLUSION,
    DECIDED,
    FAKE,
    FEE,
    FIFTH,
    HALF,
    HELD,
    RIGHT,
    UNDECIDED,
    Tasks,
)

THIRD = Fraction(1, 3)
OTHER_FAKE = keccak(text="another thing that costs nothing to invent")


def framed(tasks: Tasks) -> tuple[int, Node, Node, Node]:
    """A decided task in which two fakes outvoted the right result: its id, the victim, the two.

    The creator is in league with the two: the fee is theirs either way.
    """
    task, *nodes = tasks.played(RIGHT, FAKE, FAKE)
    assert tasks.status(task) == DECIDED, "two fakes should outvote the right result"
    return task, *nodes


def faked_pair(tasks: Tasks) -> tuple[int, Node, Node]:
    """A task that two of one attacker's nodes agreed on without running it."""
    task, *nodes = tasks.played(FAKE, FAKE)
    assert tasks.status(task) == AGREED, "two equal fakes should agree"
    return task, *nodes


@pytest.mark.parametrize("otherwise", ["leave", "fake"])
def test_fake_among_friends_and_leave_or_fake_else__costs_more_than_it_wins(
    tasks: Tasks, otherwise: str
) -> None:
    """An executor knows who runs with it. A third of the pool is the attacker's: its nodes fake
    where both of the first two are theirs, which wins the fee, and where one is alone beside an
    honest node they leave the task, or fake there too. Both cases are played; a task's worth is
    what they bring times their chances (`agents/tasks/economics.py`)."""
    people, chances = tasks.people, limit(THIRD)
    _, first, second = faked_pair(tasks)
    won = tasks.gain(first, second)
    assert won == FEE

    task, cheat, honest = tasks.started()
    tasks.watch(cheat, honest)
    tasks.commit(task, honest)
    if otherwise == "leave":
        tasks.advance(task)
        winners = tasks.honest(task)
        expected = chances.pair * won + chances.split * people.gain(cheat)
    else:
        tasks.commit(task, cheat, FAKE)
        tasks.reveal(task, honest)
        tasks.reveal(task, cheat, FAKE)
        winners = [honest, *tasks.draw(task)]
        tasks.answer(task, {winners[1]: RIGHT})
        tasks.finalize(task)
        # Two of the first three: a friend breaks the tie, and nobody appeals.
        expected = chances.wins * won + chances.loses * people.gain(cheat)
    assert people.gain(cheat) == -FIFTH
    print(f"\nattacker's profit per task {float(expected) / ZOO:+.4f} ZOO")
    assert expected < 0
    tasks.settle([cheat], [honest])


def test_fake_among_friends_and_work_honestly_else__is_found_by_the_sample(tasks: Tasks) -> None:
    """The cheats fake only where nobody can contradict them, and work honestly else. No comparison
    finds that; verifiers who run some agreed tasks again do. Here one pair in four is found; the
    penalty for one takes ten of the highest fees, and three verifiers who each sample what the
    settings say find one in less than four. The auditor is paid for what it finds, the creator of
    that task has its money back."""
    people = tasks.people
    cheats = tasks.executors[:2]
    faked = []
    for _ in range(4):
        task = tasks.wait_for(tasks.create, lambda new: set(cheats) == set(tasks.expected(new)))
        tasks.draw(task)
        tasks.answer(task, dict.fromkeys(cheats, FAKE))
        faked.append(task)
    assert tasks.gain(*cheats) == 4 * FEE
    auditor = people.nodes["vito"]
    tasks.appeal(faked[2], auditor.operator)
    tasks.judge(faked[2])
    assert tasks.gain(*cheats) == 4 * FEE - 2 * HELD
    assert people.gain(tasks.creator) == -3 * FEE
    assert people.gain(auditor) == HELD - FEE - BOND
    for cheat in cheats:
        assert people.chain.call(people.registry, "offences", cheat.node_id, COLLUSION) == 1
    awake = 1 - (1 - VerifierSettings().task_audit_rate) ** 3
    expected = FEE - awake * 2 * HELD
    print(f"\nattacker's profit per pair, three verifiers' samples {expected / ZOO:+.4f} ZOO")
    assert expected < 0
    tasks.settle(cheats, [auditor, people.nodes["vic"], people.nodes["vera"]])


@pytest.mark.parametrize("creator_too", [False, True])
def test_cheats_appeal_their_own_fake__lose_half_of_it_to_the_treasury(
    tasks: Tasks, creator_too: bool
) -> None:
    """Appeal farming: before an auditor comes, a friend of the cheats appeals, to get the seized
    share itself. Half of every slash is the treasury's, so it is a loss with the fee won, and with
    the creator in league."""
    people = tasks.people
    friend = people.person("friend", BOND)
    tasks.watch(friend)
    task, first, second = faked_pair(tasks)
    tasks.appeal(task, friend)
    tasks.judge(task)
    assert people.gain(friend) == HELD - FEE - BOND
    assert people.gain(tasks.creator) == 0
    gang = [first, second, friend, *([tasks.creator] if creator_too else [])]
    tasks.settle(
        gang, [people.nodes["vic"], people.nodes["vera"]], gain=FEE - 2 * HELD + HELD - FEE - BOND
    )


def test_creator_and_two_frame_a_third__the_victim_appeals_and_is_made_whole(tasks: Tasks) -> None:
    """Two of three executors return the same fake in a task of their own friend's, so that the
    honest one is slashed. It appeals; the verifiers' result is its own. It keeps its stake, gets
    what it had earned and most of what the two lose. Rests on: honest verifiers with two thirds
    of the stake."""
    people = tasks.people
    task, victim, *two = framed(tasks)
    tasks.appeal(task, victim.owner)
    tasks.judge(task)
    for node in two:
        assert people.bonded(node) == node.stake - HELD
    assert people.bonded(victim) == victim.stake
    assert people.gain(victim) == HALF + HELD - HALF - BOND
    assert people.gain(tasks.creator) == 0
    tasks.settle([tasks.creator, *two], [victim, people.nodes["vic"], people.nodes["vera"]])


def test_framed_node_sleeps__anybody_may_appeal_in_its_name_and_earns(tasks: Tasks) -> None:
    """The same, and the victim is away. A bystander runs the task, sees the fraud and bonds the
    appeal: it is paid from the seized stakes, and so is the victim."""
    people = tasks.people
    bystander = people.person("bystander", BOND)
    tasks.watch(bystander)
    task, victim, *two = framed(tasks)
    tasks.appeal(task, bystander)
    tasks.judge(task)
    assert people.gain(victim) == HALF
    assert people.gain(bystander) == HELD - HALF - BOND
    tasks.settle([tasks.creator, *two], [victim, bystander])


def test_framed_node_and_nobody_objects__is_slashed_and_the_framers_win_nothing(
    tasks: Tasks,
) -> None:
    """The assumption, in numbers: where nobody objects within the window the majority stands. The
    victim loses a fifth of its stake, all of it to the treasury: framing is no business, the fee
    is the creator's own and there is no reporter's share. It costs the framers their gas. After
    the window there is no appeal."""
    people = tasks.people
    task, victim, *two = framed(tasks)
    tasks.finalize(task)
    late = (victim.owner, people.appeals, "appeal", task)
    tasks.chain.refuse("tasks: nothing to appeal", *late)
    assert people.gain(victim) == -FIFTH
    assert tasks.gain(tasks.creator, *two) == 0
    treasury = str(tasks.chain.call(people.registry, "parameters").treasury)
    assert tasks.chain.call(people.registry, "bounty", treasury) == FIFTH
    tasks.settle([tasks.creator, *two])


def test_stranger_appeals_a_right_result__pays_the_verifiers(tasks: Tasks) -> None:
    """A frivolous appeal against two honest executors, to have the fee back (the creator's friend)
    or to annoy. The two were paid and stay so; the bond is the verifiers'."""
    people, chain = tasks.people, tasks.chain
    stranger = people.person("stranger", BOND)
    tasks.watch(stranger)
    task, first, second = tasks.played(RIGHT, RIGHT)
    tasks.appeal(task, stranger)
    chain.refuse("tasks: nothing to appeal", first.owner, people.appeals, "appeal", task)
    tasks.judge(task)
    assert people.gain(stranger) == -BOND
    people.assert_whole({first: HALF, second: HALF})
    assert tasks.status(task) == CLOSED
    tasks.settle(
        [stranger, tasks.creator], [first, second, people.nodes["vic"], people.nodes["vera"]]
    )


def test_cheat_that_was_outvoted_appeals__loses_the_bond_on_top(tasks: Tasks) -> None:
    """The guilty one appeals, to win time or hoping for a mistake."""
    people = tasks.people
    task, cheat, two = tasks.outvoted()
    tasks.appeal(task, cheat.owner)
    tasks.judge(task)
    assert people.gain(cheat) == -FIFTH - BOND
    people.assert_whole(dict.fromkeys(two, HALF))
    tasks.settle([cheat], [*two, people.nodes["vic"], people.nodes["vera"]])


def test_cheat_that_was_outvoted_appeals_while_verifiers_sleep__wins_nothing(tasks: Tasks) -> None:
    """The same where no verifier answers: the cheat has its bond back and is not slashed, so this
    rests on verifiers being awake. It still wins nothing, and the honest two are paid."""
    people, chain = tasks.people, tasks.chain
    task, cheat, two = tasks.outvoted()
    tasks.appeal(task, cheat.owner)
    lapse = (people.faucet, people.appeals, "lapse", task)
    chain.refuse("appeals: verdict pending", *lapse)
    people.wait_until(int(chain.call(people.appeals, "appeal_of", task).deadline))
    chain.send(*lapse)
    tasks.settle([cheat], two, gain=0, each=HALF)


def test_garbage_by_the_third_saves_a_friend__until_the_honest_one_appeals(tasks: Tasks) -> None:
    """A cheat has lost to an honest result; the third executor is its friend and can't make the
    fake right without being caught, so it reveals something else again. Three different results:
    nobody is slashed, and the honest one is not paid. It appeals, and both pay. If nobody objects
    the two have won nothing: the fee is the creator's again."""
    task, honest, cheat, friend = tasks.played(RIGHT, FAKE, OTHER_FAKE)
    assert tasks.status(task) == UNDECIDED
    assert tasks.gain(cheat, friend) == 0
    assert tasks.gain(tasks.creator) == 0  # it has the whole fee
    assert tasks.profit(cheat, friend) < 0

    tasks.appeal(task, honest.owner)
    tasks.judge(task)
    assert tasks.gain(cheat, friend) == -2 * FIFTH
    assert tasks.people.gain(honest) == HALF + FIFTH - HALF - BOND
    tasks.settle([cheat, friend], [honest])


def test_third_executor_ends_the_task__earns_nothing_by_garbage_and_loses_by_silence(
    tasks: Tasks,
) -> None:
    """Nobody has anything for closing a task that nobody agreed on. One that stays silent and lets
    a friend advance only has another drawn; with all five lanes used up by silent friends the
    creator has its fee, and the silence cost them a fifth of a stake each."""
    people, chain = tasks.people, tasks.chain
    task, honest, cheat = tasks.played(RIGHT, FAKE)
    silent = []
    closer = people.person("closer")
    tasks.watch(closer)
    for _ in range(3):
        silent += tasks.draw(task)
        people.wait_until(int(tasks.state(task).time))
        chain.send(closer, people.tasks, "advance", task)
    assert tasks.status(task) == UNDECIDED
    assert tasks.gain(*silent, closer) == -3 * FIFTH
    assert people.gain(cheat) == 0

    tasks.appeal(task, honest.owner)
    tasks.judge(task)
    assert people.gain(cheat) == -FIFTH
    tasks.settle([cheat, *silent, closer], [honest])


def test_all_lanes_but_one_are_silent_friends__the_honest_one_loses_nothing(tasks: Tasks) -> None:
    """Four of five executors are the attacker's and leave, one after another, so that the honest
    result finds no partner. It isn't paid, which is what this attack can do; it is not slashed,
    and each who left is."""
    people = tasks.people
    task, honest, cheat = tasks.started()
    gang = [cheat]
    tasks.commit(task, honest)
    tasks.advance(task)
    while tasks.status(task) != UNDECIDED:
        gang += tasks.draw(task)
        tasks.advance(task)
    assert len(gang) == 4
    assert tasks.gain(*gang) == -4 * FIFTH
    people.assert_whole({honest: 0})
    tasks.chain.refuse("tasks: nothing to appeal", gang[0].owner, people.appeals, "appeal", task)
    tasks.settle(gang)


def test_one_verifier_in_league__decides_nothing_alone(tasks: Tasks) -> None:
    """The framers own one verifier of three, which attests the fake at once. A third of the stake
    is no verdict; the other two give theirs. With two thirds in league the victim would be
    slashed: verifiers are approved by the Coordinator, and this is what is trusted to them."""
    people = tasks.people
    task, victim, *two = framed(tasks)
    tasks.appeal(task, victim.owner)
    tasks.judge(task, FAKE, by=["vito"])
    again = tasks.attestation(task, people.nodes["vito"], RIGHT)
    tasks.chain.refuse(
        "verdicts: has attested", people.nodes["vito"].operator, people.appeals, "attest", *again
    )
    tasks.judge(task)
    assert people.gain(victim) == HALF + HELD - HALF - BOND
    tasks.settle([tasks.creator, *two, people.nodes["vito"]], [victim])


def test_verifier_of_an_executors_owner__may_not_judge_its_task(tasks: Tasks) -> None:
    """A framer's owner key also owns a verifier, carelessly approved."""
    people, chain = tasks.people, tasks.chain
    owner = tasks.executors[0]
    own = people.enlist("own", VERIFIER, owner=owner.owner)
    people.decide((people.registry, "approve_role", (own.node_id, VERIFIER, True)))
    tasks.watch(own, *tasks.executors)

    task = tasks.wait_for(tasks.create, lambda new: tasks.expected(new)[1] == owner)
    victim, cheat = tasks.draw(task)
    tasks.answer(task, {victim: RIGHT, cheat: FAKE})
    (friend,) = tasks.draw(task)
    tasks.answer(task, {friend: FAKE})
    tasks.appeal(task, victim.owner)
    attestation = tasks.attestation(task, own, FAKE)
    chain.refuse("appeals: own task", own.operator, people.appeals, "attest", *attestation)
    tasks.judge(task, by=["vic", "vera", "vito"])
    tasks.settle([cheat, friend, own], [victim])
