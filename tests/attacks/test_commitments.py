# SPDX-License-Identifier: Apache-2.0
"""Attacks 1, 2 and 6: copied commitments, replayed commitments, withheld reveals.

Rule: a commitment is worth something to its author, in its round, and to nobody and nowhere else.
"""

from __future__ import annotations

import pytest

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import COMMIT, NO_REVEAL, REVEAL, CommittedWork, Node, People, share

SILENCE = 5 * ZOO  # 5 % of the least stake
BOUNTY = SILENCE // 10


def slash_silent(people: People, node: Node, name: str = "watcher") -> None:
    """An outsider makes the node pay for its silence."""
    watcher = people.person(name)
    people.chain.send(watcher, people.rounds, "slash_unrevealed", *people.place, node.node_id)
    assert people.gain(watcher) > 0


def test_1_copied_commitment__cannot_be_opened_and_costs_the_copier(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 1: eve copies ann's commitment out of the mempool, and her opening too."""
    people.open()
    stolen = people.commitment(ann, CommittedWork.of("ann"))
    people.commit(eve, digest=stolen)
    people.commit(ann)
    people.commit(bob)
    people.pass_phase(COMMIT)
    opening = (*people.place, eve.node_id, *people.opening(ann)[3:])
    people.chain.refuse("rounds: bad opening", eve.operator, people.rounds, "reveal", *opening)
    for thief in (eve.operator, eve.owner):
        people.chain.refuse(
            "rounds: bad opening", thief, people.rounds, "reveal", *people.opening(ann)
        )
    people.reveal(ann)
    people.reveal(bob)
    people.chain.refuse("rounds: bad opening", eve.operator, people.rounds, "reveal", *opening)
    people.pass_phase(REVEAL)
    slash_silent(people, eve)
    people.finish({ann: 4, bob: 4})

    assert people.gain(eve) == -SILENCE
    people.assert_whole({ann: share(4, 8), bob: share(4, 8)})


def test_1_commitment_in_the_victims_name__reverts(people: People, ann: Node, eve: Node) -> None:
    """Attack 1: eve commits for ann, so that ann has to answer for it."""
    people.open()
    stolen = people.commitment(ann, CommittedWork.of("ann"))
    args = (*people.place, ann.node_id, stolen)
    people.chain.refuse("rounds: not operator", eve.operator, people.rounds, "commit", *args)
    assert people.gain(eve) == 0
    people.assert_whole({ann: 0})


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"round": 1},
        {"job": 2},
        {"chain": 1},
        {"rounds": "0x" + "77" * 20},
        {"node": 1},
        {"operator": "0x" + "88" * 20},
    ],
    ids=lambda change: next(iter(change)),
)
def test_2_work_replayed_from_elsewhere__cannot_be_opened_and_costs_its_stake(
    people: People, ann: Node, eve: Node, elsewhere: dict[str, object]
) -> None:
    """Attack 2: eve did the work once and commits to it again in another round, job, chain,
    contract, node or key."""
    people.train(ann, eve)
    people.finish({ann: 1, eve: 1})
    before = people.wealth(eve)
    paid = people.gain(ann)

    people.open()
    people.commit(ann)
    people.commit(eve, digest=people.commitment(eve, CommittedWork.of("eve"), **elsewhere))
    people.pass_phase(COMMIT)
    people.reveal(ann)
    people.chain.refuse(
        "rounds: bad opening", eve.operator, people.rounds, "reveal", *people.opening(eve)
    )
    people.pass_phase(REVEAL)
    slash_silent(people, eve)
    people.finish({ann: 1})

    assert people.wealth(eve) - before == -SILENCE
    people.assert_whole({ann: paid + share(1, 1)})


def test_2_second_or_late_commitment__reverts(people: People, ann: Node, eve: Node) -> None:
    """Attack 2: eve waits for what others do, or changes her mind."""
    people.open()
    people.commit(ann)
    people.commit(eve)
    digest = people.commitment(eve, CommittedWork.of("something better"))
    args = (*people.place, eve.node_id, digest)
    people.chain.refuse("rounds: already committed", eve.operator, people.rounds, "commit", *args)
    people.pass_phase(COMMIT)
    people.chain.refuse("rounds: not in commit", eve.operator, people.rounds, "commit", *args)
    people.reveal(ann)
    people.pass_phase(REVEAL)
    people.chain.refuse(
        "rounds: not in reveal", eve.operator, people.rounds, "reveal", *people.opening(eve)
    )
    slash_silent(people, eve)
    people.finish({ann: 1})
    assert people.gain(eve) == -SILENCE
    people.assert_whole({ann: share(1, 1)})


def test_2_commitment_after_the_deadline_before_anyone_moved_on__reverts(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 2: the phase is COMMIT in storage, but its time is over."""
    people.open()
    people.commit(ann)
    people.wait_until(int(people.state.deadline))
    args = (*people.place, eve.node_id, people.commitment(eve, CommittedWork.of("eve")))
    people.chain.refuse("rounds: too late", eve.operator, people.rounds, "commit", *args)
    assert people.gain(eve) == 0


def test_6_bad_work_withheld__is_worse_than_not_taking_part(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 6: eve commits to bad work and keeps silent when the audit worries her.

    The audit is drawn only after REVEAL, so silence never answers a draw: it always costs 5 %, more
    each time, where not committing costs nothing and the share of honest work was there to be had.
    Her second address takes the bounty of telling on herself: she still loses.
    """
    accomplice = key_of("accomplice of eve")
    people.person("accomplice of eve")
    losses = []
    for _ in range(2):
        before = people.wealth(eve, accomplice)
        paid = people.wealth(ann)
        people.open()
        for node in (ann, bob, eve):
            if people.chain.call(people.rounds, "is_expected", *people.place, node.node_id):
                people.commit(node)
        people.pass_phase(COMMIT)
        assert bytes(people.state.audit_seed) == bytes(32) and people.state.audit_block == 0
        people.reveal(ann)
        people.reveal(bob)
        people.pass_phase(REVEAL)
        args = (*people.place, eve.node_id)
        people.chain.send(accomplice, people.rounds, "slash_unrevealed", *args)
        people.chain.refuse(
            "rounds: already slashed", accomplice, people.rounds, "slash_unrevealed", *args
        )
        people.finish({ann: 1, bob: 1})
        losses.append(people.wealth(eve, accomplice) - before)
        assert people.wealth(ann) - paid == share(1, 2)
        people.give(eve.owner, 100 * ZOO)
        people.chain.send(eve.owner, people.registry, "add_stake", eve.node_id, 100 * ZOO)

    assert losses[0] == -(SILENCE - BOUNTY)
    assert losses[1] < losses[0] < 0
    assert people.chain.call(people.registry, "offences", eve.node_id, NO_REVEAL) == 2
    assert people.bonded(ann) == ann.stake and people.bonded(bob) == bob.stake
