# SPDX-License-Identifier: Apache-2.0
"""Attack 20: the books. Nobody is paid twice, nobody farms a bounty from its own pocket, nobody's
receiver or name blocks another, and no role's function answers to a stranger.
"""

from __future__ import annotations

from dataclasses import replace

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import (
    AGGREGATOR,
    COMMIT,
    EMPTY,
    EVIDENCE,
    REVEAL,
    STAKES,
    TERMS,
    TRAINER,
    Node,
    World,
    share,
    trainer_pool,
    verifier_cut,
)

SILENCE = 5 * ZOO
BAD_RESULT = STAKES[AGGREGATOR] // 5
AGGREGATOR_CUT = TERMS.reward_per_round * TERMS.aggregator_bps // 10_000
# Creation code of a contract whose every call reverts.
REVERTING = bytes.fromhex("6460006000fd6000526005601bf3")


def test_20_claims_repeated__pay_once(world: World, ann: Node, eve: Node) -> None:
    """Attack 20: eve claims rewards, bounty and bond again and again."""
    world.train(ann, eve)
    world.finish({ann: 1, eve: 1})
    for _ in range(2):
        if world.chain.call(world.pool, "pending", eve.payout.address):
            world.chain.send(eve.payout, world.pool, "claim")
    world.chain.refuse("pool: nothing to claim", eve.payout, world.pool, "claim")
    world.chain.refuse("pool: nothing to claim", eve.operator, world.pool, "claim")
    world.chain.refuse("registry: nothing to claim", eve.payout, world.registry, "claim_bounty")
    for contract in (world.rounds, world.reports):
        world.chain.refuse("bonds: nothing to withdraw", eve.payout, contract, "withdraw_bond")
    assert world.chain.call(world.token, "balanceOf", eve.payout.address) == share(1, 2)
    world.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_round_paid_again_or_with_other_numbers__reverts(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 20: eve wants the round settled with her numbers, or twice."""
    world.train(ann, eve)
    arrays = world.offer({ann: 1, eve: 1})
    world.attest("vic", "vera")
    finalize = (eve.operator, world.rounds, "finalize", world.job)
    settle = (eve.operator, world.rounds, "settle", world.job)
    for wrong in ([[eve.node_id], [1]], [arrays[0], [1, 2]], [arrays[0], []], [[], []]):
        world.chain.refuse("rounds: wrong contributions", *finalize, *wrong)
    world.chain.send(*finalize, *arrays)
    world.chain.refuse("rounds: not finalizable", *finalize, *arrays)
    world.chain.refuse("rounds: nothing to settle", *settle, *arrays)
    world.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_privileged_calls_by_a_stranger__revert(world: World, ann: Node, eve: Node) -> None:
    """Attack 20: eve calls the functions that move other people's money directly."""
    world.train(ann, eve)
    nodes, amounts = [eve.node_id], [10**30]
    job, number, me = world.job, world.round, eve.operator
    pool, registry, rounds = world.pool, world.registry, world.rounds
    calls = [
        ("pool: not rounds", pool, "reserve", (job, 99, 1)),
        ("pool: not rounds", pool, "start_distribution", (job, number, 1, nodes, amounts)),
        ("pool: not rounds", pool, "distribute", (job, number, nodes, amounts)),
        ("pool: not rounds", pool, "close", (job, number)),
        ("pool: not sponsor", pool, "refund", (job,)),
        ("registry: not a slasher", registry, "slash", (ann.node_id, 2, 0, me.address)),
        ("registry: not a slasher", registry, "lock", (ann.node_id,)),
        ("registry: no lock", registry, "unlock", (ann.node_id,)),
        ("registry: not the owner", registry, "begin_exit", (ann.node_id,)),
        ("registry: not the owner", registry, "set_payout", (ann.node_id, me.address)),
        ("registry: not the owner", registry, "set_operator", (ann.node_id, me.address)),
        ("registry: not the owner or operator", registry, "set_active", (ann.node_id, False)),
        ("rounds: not reports", rounds, "invalidate", (job, number, ann.node_id)),
        ("rounds: not reports", rounds, "report_opened", (job, number)),
        ("rounds: not sponsor", rounds, "cancel_job", (job,)),
    ]
    for reason, contract, function, args in calls:
        world.chain.refuse(reason, me, contract, function, *args)
    world.finish({ann: 1, eve: 1})
    world.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_20_self_slash_through_own_addresses__farms_no_bounty(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 20: eve tells on herself to get the bounty; through her own node's keys there is
    none, through a stranger's key it is a tenth of what she loses."""
    for paid, teller in ((0, eve.operator), (SILENCE // 10, world.person("stranger"))):
        before = world.wealth(eve, teller)
        world.open()
        for node in (ann, eve):
            world.commit(node)
        world.pass_phase(COMMIT)
        world.reveal(ann)
        world.pass_phase(REVEAL)
        world.chain.send(
            teller, world.rounds, "slash_unrevealed", world.job, world.round, eve.node_id
        )
        world.finish({ann: 1})
        loss = before - world.wealth(eve, teller)
        if paid == 0:
            assert loss == SILENCE
        else:
            assert loss > SILENCE * 9 // 10 > 0
        world.give(eve.owner, 100 * ZOO)
        world.chain.send(eve.owner, world.registry, "add_stake", eve.node_id, 100 * ZOO)
    world.assert_whole({ann: 2 * share(1, 1)})


def test_20_aggregator_challenges_its_own_bad_result__loses_more_than_it_farms(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 20: the aggregator on duty proposes nonsense and its second address challenges it,
    for the reporter's half of the slash."""
    friend = world.person("friend", 500 * ZOO)
    world.train(ann, bob)
    duty = world.on_duty
    world.offer({ann: 1}, label="nonsense")
    upheld_challenge(world, friend)
    assert world.gain(duty, friend) == -BAD_RESULT + BAD_RESULT // 2
    fallback(world, duty, {ann: 1, bob: 1})
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_20_aggregator_pays_its_accomplice__is_slashed_barred_and_replaced(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Own attack: the aggregator on duty gives eve, who sent in poor work, the whole pool."""
    watcher = world.person("watcher", 500 * ZOO)
    world.train(ann, bob, eve)
    duty = world.on_duty
    world.offer({eve: 10**30}, label="greed")
    upheld_challenge(world, watcher)
    assert world.gain(watcher) == BAD_RESULT // 2
    assert world.gain(duty, eve) == -BAD_RESULT
    fallback(world, duty, {ann: 2, bob: 2, eve: 0})
    world.assert_whole({ann: share(2, 4), bob: share(2, 4), eve: 0})


def upheld_challenge(world: World, challenger) -> None:
    """A challenge that the committee finds right."""
    result = bytes(world.state.result_hash)
    world.chain.send(
        challenger, world.rounds, "challenge", world.job, world.round, result, EVIDENCE
    )
    world.decide(
        (world.rounds, "resolve_challenge", (world.job, world.round, result, True)),
        salt=result,
    )
    world.chain.send(challenger, world.rounds, "withdraw_bond")


def fallback(world: World, barred: Node, pay: dict[Node, int]) -> None:
    """The barred aggregator may not come back; another completes the round."""
    args = (world.job, world.round, barred.node_id, EVIDENCE, EVIDENCE, EVIDENCE, [], [])
    world.chain.refuse("rounds: barred", barred.operator, world.rounds, "propose_result", *args)
    other = next(n for n in (world.nodes["abe"], world.nodes["ada"]) if n != barred)
    arrays = world.offer(pay, by=other)
    world.attest("vic", "vera")
    world.finalize(arrays)
    assert world.gain(other) == AGGREGATOR_CUT


def test_20_receiver_that_always_reverts__blocks_nobody(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 20: eve has her rewards and bounties go to a contract that refuses everything."""
    receipt = world.chain.transact(eve.owner, None, REVERTING)
    trap = receipt["contractAddress"]
    assert int(world.chain.transact(eve.owner, trap)["status"], 16) == 0
    world.chain.send(eve.owner, world.registry, "set_payout", eve.node_id, trap)
    world.train(ann, bob, eve)
    world.finish({ann: 1, bob: 1, eve: 1})
    for node in (ann, bob):
        world.chain.send(node.payout, world.pool, "claim")
    world.assert_whole({ann: share(1, 3), bob: share(1, 3)})
    assert world.gain(eve) == 0


def test_20_takeover_of_a_node__fails_and_squatting_a_key_gains_nothing(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 20: eve registers with ann's operator; then with the key that a newcomer announced in
    the mempool, so that the newcomer's registration fails. She has bonded a node for nothing; the
    newcomer takes another key and a node id of its own."""
    taken = (ann.operator.address, eve.payout.address, TRAINER, STAKES[TRAINER], "", EMPTY)
    register = (eve.owner, world.registry, "register_node")
    world.chain.refuse("registry: operator in use", *register, *taken)
    world.chain.refuse(
        "registry: operator in use",
        eve.owner,
        world.registry,
        "set_operator",
        eve.node_id,
        ann.operator.address,
    )
    newcomer = world.person("newcomer", STAKES[TRAINER])
    hot = world.person("newcomer hot")
    args = (hot.address, newcomer.address, TRAINER, STAKES[TRAINER], "", EMPTY)
    before = world.wealth(eve)
    world.chain.send(*register, *args)
    squatted = int(world.chain.call(world.registry, "node_count"))
    world.chain.refuse(
        "registry: operator in use", newcomer, world.registry, "register_node", *args
    )
    spare = key_of("newcomer spare")
    world.chain.send(newcomer, world.registry, "register_node", spare.address, *args[1:])
    theirs = int(world.chain.call(world.registry, "node_of", spare.address))
    assert theirs == squatted + 1
    assert world.chain.call(world.registry, "owner_of", theirs) == newcomer.address
    world.chain.refuse("registry: not the owner", eve.owner, world.registry, "begin_exit", theirs)
    locked = int(world.chain.call(world.registry, "bonded", squatted))
    assert world.wealth(eve) + locked - before == 0
    world.assert_whole({ann: 0})


def test_20_sponsor_cancels_while_the_round_runs__the_round_is_paid_first(
    world: World, ann: Node, bob: Node
) -> None:
    """Own attack: the sponsor takes the revealed work and pulls the money out."""
    sponsor = world.sponsor
    world.train(ann, bob)
    world.chain.refuse("pool: job not ended", sponsor, world.pool, "refund", world.job)
    world.chain.send(sponsor, world.rounds, "cancel_job", world.job)
    world.chain.refuse("pool: job not ended", sponsor, world.pool, "refund", world.job)
    world.finish({ann: 1, bob: 1})
    world.chain.send(sponsor, world.pool, "refund", world.job)
    world.chain.refuse("pool: nothing to refund", sponsor, world.pool, "refund", world.job)
    world.chain.refuse(
        "rounds: job not active", world.faucet, world.rounds, "open_round", world.job
    )
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})
    spent = trainer_pool() + 2 * verifier_cut(2) + AGGREGATOR_CUT
    assert world.gain(sponsor) == -spent == -TERMS.reward_per_round


def test_20_donations__change_nobodys_account(world: World, ann: Node, eve: Node) -> None:
    """Attack 20: eve sends tokens to the contracts to bring their books out of step. What is owed
    is kept in numbers of their own; the donation is lost to her."""
    contracts = (world.registry, world.pool, world.rounds, world.reports)
    for contract in contracts:
        world.chain.send(eve.owner, world.token, "transfer", contract.address, ZOO)
    world.train(ann, eve)
    world.finish({ann: 1, eve: 1})
    world.chain.send(ann.payout, world.pool, "claim")
    assert world.gain(eve) == share(1, 2) - len(contracts) * ZOO
    world.assert_whole({ann: share(1, 2)})
    world.donated = ZOO


def test_20_idle_registrations__do_not_stop_a_job(world: World, ann: Node, tiny) -> None:
    """Attack 20 (crowding): as many bonded nodes as a round has seats, that never do a benchmark
    and lose nothing, would fill the places that the next round looks at, so that it can't ever be
    opened. A trainer has a place only while it could be eligible."""
    seats = 4
    terms = replace(TERMS, max_nodes=seats).encode(tiny.published)
    funds = 4 * TERMS.reward_per_round
    world.job = world.create_job(world.person("second sponsor", funds), terms, funds)
    idle = [world.enlist(f"idle {i}") for i in range(seats)]
    world.train(ann)
    world.finish({ann: 1})
    assert world.gain(*idle) == 0
    world.train(ann)
    world.finish({ann: 1})
    world.assert_whole({ann: 2 * share(1, 1)})
