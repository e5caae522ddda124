# SPDX-License-Identifier: Apache-2.0
"""Own attacks: sponsors whose terms are a trap.

Rule: terms that leave a node no time to reveal, or the committee none to decide, must not be
possible; a sponsor pays for the work it gets.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount

from agents.jobs.publish import ZOO
from tests.stage.chain.people import (
    AGGREGATE,
    CHALLENGE,
    FINALIZED,
    REVEAL,
    TERMS,
    Node,
    People,
    share,
)
from tests.stage.memory.honest_round import TinyJob

FUNDS = 2 * TERMS.reward_per_round


def trap(people: People, tiny: TinyJob, **terms: int) -> LocalAccount:
    """The owner of a second job with these terms, which becomes the job of the test."""
    mallory = people.person("mallory", FUNDS + 1_000 * ZOO)
    people.job = people.create_job(mallory, replace(TERMS, **terms).encode(tiny.published), FUNDS)
    return mallory


def refused(people: People, tiny: TinyJob, reason: str, **terms: int) -> None:
    """Nobody can create a job with these terms."""
    encoded = replace(TERMS, **terms).encode(tiny.published)
    people.chain.refuse(reason, people.person("mallory"), people.jobs, "create_job", encoded)


def test_escrow_of_another_job__is_out_of_reach(people: People, ann: Node, tiny: TinyJob) -> None:
    """Mallory's own job has no money; the pool holds that of others."""
    mallory = people.person("mallory")
    job = people.create_job(mallory, TERMS.encode(tiny.published), 0)
    people.chain.refuse("pool: escrow too low", mallory, people.rounds, "open_round", job)
    people.chain.send(mallory, people.jobs, "cancel_job", job)
    people.chain.refuse("pool: nothing to refund", mallory, people.pool, "refund", job)
    people.chain.refuse("pool: not sponsor", mallory, people.pool, "refund", people.job)
    assert people.gain(mallory) == 0
    people.train(ann)
    people.finish({ann: 1})
    people.assert_whole({ann: share(1, 1)})


def test_sponsor_trains_with_itself__gets_back_less_than_it_paid(people: People, eve: Node) -> None:
    """Reward farming: eve is the sponsor's only trainer. There is no emission: what she earns is
    what the sponsor paid, less the cuts."""
    for node in ("ann", "bob", "cat"):
        people.chain.send(
            people.nodes[node].operator,
            people.registry,
            "set_active",
            *(people.nodes[node].node_id, False),
        )
    people.train(eve)
    people.finish({eve: 1})
    cuts = TERMS.reward_per_round - share(1, 1)
    assert people.gain(eve, people.sponsor) == -cuts < 0


def test_sponsor_challenges_right_results__loses_its_bonds_and_pays_all_the_same(
    people: People, ann: Node, bob: Node, tiny: TinyJob
) -> None:
    """Mallory has the gradients, and tries to talk the round away before it is paid."""
    mallory = trap(people, tiny)
    people.train(ann, bob)
    arrays = people.offer({ann: 1, bob: 1})
    people.attest("vic", "vera")
    people.resolve(people.challenge(mallory), False)
    people.finalize(arrays)
    assert people.gain(mallory) == -TERMS.challenge_bond - TERMS.reward_per_round
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_sponsor_whose_dispute_window_no_committee_can_meet__is_refused(
    people: People, tiny: TinyJob
) -> None:
    """In a window shorter than the committee's delay every challenge would win by default: the
    round void, the trainers unpaid. Both decisions, on the challenge and after it
    on an appeal, must fit."""
    reason = "jobs: dispute window too short"
    for seconds in (3_600, people.settings.routine_delay, 2 * people.settings.routine_delay - 1):
        refused(people, tiny, reason, dispute_s=seconds)


def test_sponsor_with_the_shortest_dispute_window__still_pays(
    people: People, ann: Node, bob: Node, tiny: TinyJob
) -> None:
    """Mallory's job gives the committee the least time possible; she challenges the result when
    the gradients are public, and wants her escrow back."""
    mallory = trap(people, tiny, dispute_s=2 * people.settings.routine_delay)
    people.train(ann, bob)
    arrays = people.offer({ann: 1, bob: 1})
    result = people.challenge(mallory)
    people.chain.warp(people.settings.routine_delay - 60)  # the members take almost a day to look
    people.resolve(result, False)
    assert people.phase == CHALLENGE
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    assert people.phase == FINALIZED
    assert people.gain(mallory) < -TERMS.challenge_bond
    unclaimed = TERMS.reward_per_round * TERMS.verifier_bps // 10_000  # nobody attested
    half = (share(1, 1) + unclaimed) // 2
    people.assert_whole({ann: half, bob: half})


@pytest.mark.parametrize(
    "window", ["commit_s", "reveal_s", "aggregate_s", "challenge_s", "appeal_s", "dispute_s"]
)
def test_sponsor_whose_window_nobody_can_meet__is_refused(
    people: People, tiny: TinyJob, window: str
) -> None:
    """A reveal window shorter than a block takes would slash every honest node that commits, for
    bounties of the sponsor's second address; one of no time to appeal would let reports stand."""
    shortest = people.settings.unbonding_period // 20_000
    for seconds in (0, 1, shortest):
        refused(people, tiny, "jobs: bad window", **{window: seconds})


def test_sponsor_with_the_shortest_reveal_window__farms_no_bounties(
    people: People, ann: Node, bob: Node, cat: Node, tiny: TinyJob
) -> None:
    """The shortest window still holds several blocks of 12 s: who reveals at once is safe."""
    mallory = trap(people, tiny, reveal_s=people.settings.unbonding_period // 20_000 + 1)
    people.open()
    honest = (ann, bob, cat, people.nodes["eve"])
    for node in honest:
        people.commit(node)
    assert people.phase == REVEAL
    for node in honest:
        people.chain.warp(12)  # a block each
        people.reveal(node)
    assert people.phase == AGGREGATE
    for node in honest:
        args = (*people.place, node.node_id)
        people.chain.refuse("rounds: revealed", mallory, people.rounds, "slash_unrevealed", *args)
    assert people.gain(mallory) == -TERMS.reward_per_round  # set aside for the round
    people.assert_whole(dict.fromkeys(honest, 0))
