# SPDX-License-Identifier: Apache-2.0
"""Attack 20: the books. Nobody is paid twice, nobody farms a bounty from its own pocket, nobody's
receiver or name blocks another, and no role's function answers to a stranger.
"""

from __future__ import annotations

from dataclasses import replace

from agents.jobs.publish import ZOO
from tests.stage.chain.people import (
    AGGREGATOR,
    EMPTY,
    EVIDENCE,
    STAKES,
    TERMS,
    TRAINER,
    Node,
    People,
    share,
    trainer_pool,
    verifier_cut,
)

SILENCE = 5 * ZOO
BAD_RESULT = STAKES[AGGREGATOR] // 5
AGGREGATOR_CUT = TERMS.reward_per_round * TERMS.aggregator_bps // 10_000
# Creation code of a contract whose every call reverts.
REVERTING = bytes.fromhex("6460006000fd6000526005601bf3")


def test_20_claims_repeated__pay_once(people: People, ann: Node, eve: Node) -> None:
    """Attack 20: eve claims rewards, bounty and bond again and again."""
    people.train(ann, eve)
    people.finish({ann: 1, eve: 1})
    for _ in range(2):
        if people.chain.call(people.pool, "pending", eve.payout.address):
            people.chain.send(eve.payout, people.pool, "claim")
    people.chain.refuse("pool: nothing to claim", eve.payout, people.pool, "claim")
    people.chain.refuse("pool: nothing to claim", eve.operator, people.pool, "claim")
    people.chain.refuse("registry: nothing to claim", eve.payout, people.registry, "claim_bounty")
    for contract in (people.results, people.reports):
        people.chain.refuse("bonds: nothing to withdraw", eve.payout, contract, "withdraw_bond")
    assert people.chain.call(people.token, "balanceOf", eve.payout.address) == share(1, 2)
    people.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_round_paid_again_or_with_other_numbers__reverts(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 20: eve wants the round settled with her numbers, or twice."""
    people.train(ann, eve)
    arrays = people.offer({ann: 1, eve: 1})
    people.attest("vic", "vera", "vito")
    finalize = (eve.operator, people.results, "finalize", *people.place)
    settle = (eve.operator, people.results, "settle", *people.place)
    for wrong in ([[eve.node_id], [1]], [arrays[0], [1, 2]], [arrays[0], []], [[], []]):
        people.chain.refuse("results: wrong contributions", *finalize, *wrong)
    people.chain.send(*finalize, *arrays)
    people.chain.refuse("results: not finalizable", *finalize, *arrays)
    people.chain.refuse("results: nothing to settle", *settle, *arrays)
    people.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_privileged_calls_by_a_stranger__revert(people: People, ann: Node, eve: Node) -> None:
    """Attack 20: eve calls the functions that move other people's money directly."""
    people.train(ann, eve)
    nodes, amounts = [eve.node_id], [10**30]
    job, number, me = *people.place, eve.operator
    pool, registry = people.pool, people.registry
    jobs, results = people.jobs, people.results
    terms = (number + 1, b"\1" * 32, 1, 1, 1, 1, 1, 1, 10**30, 1)
    calls = [
        ("pool: not results", pool, "reserve", (job, 99, 1)),
        ("pool: not results", pool, "start_distribution", (job, number, nodes, 1, nodes, amounts)),
        ("pool: not results", pool, "distribute", (job, number, nodes, amounts, 0)),
        ("pool: not results", pool, "close", (job, number, True)),
        ("pool: not sponsor", pool, "refund", (job,)),
        ("registry: not a slasher", registry, "slash", (ann.node_id, 2, 0, me.address)),
        ("registry: not a slasher", registry, "lock", (ann.node_id,)),
        ("registry: no lock", registry, "unlock", (ann.node_id,)),
        ("registry: not the owner", registry, "begin_exit", (ann.node_id,)),
        ("registry: not the owner", registry, "set_payout", (ann.node_id, me.address)),
        ("registry: not the owner", registry, "set_operator", (ann.node_id, me.address, b"")),
        ("registry: not the owner or operator", registry, "set_active", (ann.node_id, False)),
        ("results: not reports", results, "invalidate", (job, number, ann.node_id)),
        ("results: not reports", results, "report_opened", (job, number)),
        ("jobs: not sponsor", jobs, "cancel_job", (job,)),
        ("jobs: not rounds", jobs, "begin_round", (job,)),
        ("jobs: not results", jobs, "end_round", (job, b"\1" * 32)),
        ("results: not rounds", results, "open", (job, terms, nodes, amounts, nodes)),
        ("results: not rounds", results, "begin", (job, number, bytes(32))),
        ("results: not rounds", results, "void", (job, number, "no commits")),
    ]
    for reason, contract, function, args in calls:
        people.chain.refuse(reason, me, contract, function, *args)
    people.finish({ann: 1, eve: 1})
    people.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_self_slash_through_own_addresses__farms_no_bounty(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 20: eve tells on herself to get the bounty; through her own node's keys there is
    none, through a stranger's key it is a tenth of what she loses."""
    for paid, teller in ((0, eve.operator), (SILENCE // 10, people.person("stranger"))):
        before = people.wealth(eve, teller)
        people.train(ann, silent=[eve])
        people.chain.send(teller, people.rounds, "slash_unrevealed", *people.place, eve.node_id)
        people.finish({ann: 1})
        loss = before - people.wealth(eve, teller)
        if paid == 0:
            assert loss == SILENCE
        else:
            assert loss > SILENCE * 9 // 10 > 0
        people.give(eve.owner, 100 * ZOO)
        people.chain.send(eve.owner, people.registry, "add_stake", eve.node_id, 100 * ZOO)
    people.assert_whole({ann: 2 * share(1, 1)})


def test_20_aggregator_challenges_its_own_bad_result__loses_more_than_it_farms(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 20: the aggregator on duty proposes nonsense and its second address challenges it,
    for the reporter's half of the slash."""
    friend = people.person("friend", 500 * ZOO)
    people.train(ann, bob)
    duty = people.on_duty
    people.offer({ann: 1}, label="nonsense")
    upheld_challenge(people, friend)
    assert people.gain(duty, friend) == -BAD_RESULT + BAD_RESULT // 2
    fallback(people, duty, {ann: 1, bob: 1})
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_20_aggregator_pays_its_accomplice__is_slashed_barred_and_replaced(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Own attack: the aggregator on duty gives eve, who sent in poor work, the whole pool."""
    watcher = people.person("watcher", 500 * ZOO)
    people.train(ann, bob, eve)
    duty = people.on_duty
    people.offer({eve: 10**30}, label="greed")
    upheld_challenge(people, watcher)
    assert people.gain(watcher) == BAD_RESULT // 2
    assert people.gain(duty, eve) == -BAD_RESULT
    fallback(people, duty, {ann: 2, bob: 2, eve: 0})
    people.assert_whole({ann: share(2, 4), bob: share(2, 4), eve: 0})


def upheld_challenge(people: People, challenger) -> None:
    """An announced challenge that the committee finds right."""
    people.announce_challenge(challenger)
    result = people.challenge(challenger)
    people.resolve(result, True, salt=result)
    people.chain.send(challenger, people.results, "withdraw_bond")


def fallback(people: People, barred: Node, pay: dict[Node, int]) -> None:
    """The barred aggregator may not come back; another completes the round."""
    args = (*people.place, barred.node_id, EVIDENCE, EVIDENCE, EVIDENCE, [], [])
    people.chain.refuse("results: barred", barred.operator, people.results, "propose_result", *args)
    other = people.other_aggregator(barred)
    people.confirm(people.offer(pay, by=other))
    assert people.gain(other) == AGGREGATOR_CUT


def test_20_receiver_that_always_reverts__blocks_nobody(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 20: eve has her rewards and bounties go to a contract that refuses everything."""
    receipt = people.chain.transact(eve.owner, None, REVERTING)
    trap = receipt["contractAddress"]
    assert int(people.chain.transact(eve.owner, trap)["status"], 16) == 0
    people.chain.send(eve.owner, people.registry, "set_payout", eve.node_id, trap)
    people.train(ann, bob, eve)
    people.finish({ann: 1, bob: 1, eve: 1})
    for node in (ann, bob):
        people.chain.send(node.payout, people.pool, "claim")
    people.assert_whole({ann: share(1, 3), bob: share(1, 3)})
    assert people.gain(eve) == 0


def test_20_takeover_of_a_node__fails_and_so_does_squatting_a_key(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 20: eve registers with ann's operator; then with the key and the consent that a
    newcomer announced in the mempool, which is for the newcomer's owner only."""
    taken = (ann.operator.address, eve.payout.address, TRAINER, STAKES[TRAINER], EMPTY, b"")
    register = (eve.owner, people.registry, "register_node")
    people.chain.refuse("registry: operator in use", *register, *taken)
    people.chain.refuse(
        "registry: operator in use",
        eve.owner,
        people.registry,
        "set_operator",
        eve.node_id,
        ann.operator.address,
        b"",
    )
    newcomer = people.person("newcomer", STAKES[TRAINER])
    hot = people.person("newcomer hot")
    signed = people.consent(hot, newcomer)
    args = (hot.address, newcomer.address, TRAINER, STAKES[TRAINER], EMPTY, signed)
    before = people.wealth(eve)
    people.chain.refuse("registry: no consent", *register, *args)
    people.chain.send(newcomer, people.registry, "register_node", *args)
    theirs = int(people.chain.call(people.registry, "node_of", hot.address))
    assert people.chain.call(people.registry, "owner_of", theirs) == newcomer.address
    people.chain.refuse("registry: not the owner", eve.owner, people.registry, "begin_exit", theirs)
    assert people.wealth(eve) - before == 0
    people.assert_whole({ann: 0})


def test_20_sponsor_cancels_while_the_round_runs__the_round_is_paid_first(
    people: People, ann: Node, bob: Node
) -> None:
    """Own attack: the sponsor takes the revealed work and pulls the money out."""
    sponsor = people.sponsor
    people.train(ann, bob)
    people.chain.refuse("pool: job not ended", sponsor, people.pool, "refund", people.job)
    people.chain.send(sponsor, people.jobs, "cancel_job", people.job)
    people.chain.refuse("pool: job not ended", sponsor, people.pool, "refund", people.job)
    people.finish({ann: 1, bob: 1})
    people.chain.send(sponsor, people.pool, "refund", people.job)
    people.chain.refuse("pool: nothing to refund", sponsor, people.pool, "refund", people.job)
    people.chain.refuse(
        "jobs: job not active", people.faucet, people.rounds, "open_round", people.job
    )
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})
    spent = trainer_pool() + 2 * verifier_cut(2) + AGGREGATOR_CUT
    assert people.gain(sponsor) == -spent == -TERMS.reward_per_round


def test_20_donations__change_nobodys_account(people: People, ann: Node, eve: Node) -> None:
    """Attack 20: eve sends tokens to the contracts to bring their books out of step. What is owed
    is kept in numbers of their own; the donation is lost to her."""
    contracts = (people.registry, people.pool, people.results, people.reports)
    for contract in contracts:
        people.chain.send(eve.owner, people.token, "transfer", contract.address, ZOO)
    people.train(ann, eve)
    people.finish({ann: 1, eve: 1})
    people.chain.send(ann.payout, people.pool, "claim")
    assert people.gain(eve) == share(1, 2) - len(contracts) * ZOO
    people.assert_whole({ann: share(1, 2)})
    people.donated = ZOO


def test_20_idle_registrations__do_not_stop_a_job(people: People, ann: Node, tiny) -> None:
    """Attack 20 (crowding): as many bonded nodes as a round has seats, that never do a benchmark
    and lose nothing, would fill the places that the next round looks at, so that it can't ever be
    opened. A trainer has a place only while it could be eligible."""
    seats = 4
    terms = replace(TERMS, max_nodes=seats).encode(tiny.published)
    funds = 4 * TERMS.reward_per_round
    people.job = people.create_job(people.person("second sponsor", funds), terms, funds)
    idle = [people.enlist(f"idle {i}") for i in range(seats)]
    people.train(ann)
    people.finish({ann: 1})
    assert people.gain(*idle) == 0
    people.train(ann)
    people.finish({ann: 1})
    people.assert_whole({ann: 2 * share(1, 1)})
