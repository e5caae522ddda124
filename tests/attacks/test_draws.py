# SPDX-License-Identifier: Apache-2.0
"""Attacks 13 and 14: choosing the draw instead of being drawn.

Rule: who takes part is fixed before the seed exists, and a seed that somebody has captured stays.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.jobs.publish import ZOO, Terms
from agents.protocol.network import Network
from agents.protocol.slashing import DEFAULTS, Row
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Deployment
from agents.runtime.logs import open_log
from scripts._attacks.honest import duty
from scripts._attacks.market import Market, Numbers
from scripts._attacks.spot_checks import drawn
from tests.attacks.conftest import outcome_of, plan_of, publish_work
from tests.stage.chain.people import (
    AGGREGATOR,
    COMMIT,
    EMPTY,
    INVALID,
    REVEAL,
    STAKES,
    TRAINER,
    CommittedWork,
    Node,
    People,
    share,
)
from tests.stage.memory.honest_round import TinyJob, noise

FORGOTTEN = 257  # blocks after which the chain no longer knows a hash


def network_of(people: People) -> Network:
    client = ChainClient(people.chain._url, open_log("draws", "warning", True, None))
    return Network(client, Deployment("draws", 31_337, 0, dict(people.contracts)))


def looked_at(people: People) -> bytes | None:
    """What draws whose work is looked at, as a verifier asks for it now."""
    return network_of(people).draw_seed(*people.place, people.state)


def test_13_node_registered_after_the_draw__is_not_in_the_round(people: People, ann: Node) -> None:
    """Attack 13: a node is made to fit a seed that is known already."""
    people.open()
    people.chain.send(people.faucet, people.rounds, "capture_seed", *people.place)
    late = people.enlist("late")
    people.benchmark(late)
    assert people.chain.call(people.registry, "is_eligible", late.node_id, TRAINER)
    args = (*people.place, late.node_id, b"\1" * 32)
    # The benchmark took a minute; the round waits ten.
    people.chain.refuse("rounds: not expected", late.operator, people.rounds, "commit", *args)
    people.commit(ann)
    people.pass_phase(COMMIT)
    people.reveal(ann)
    propose = (*people.place, late.node_id, *[b"\1" * 32] * 3, [], [])
    people.pass_phase(REVEAL)
    people.chain.refuse(
        "results: not on duty", late.operator, people.results, "propose_result", *propose
    )
    people.finish({ann: 1})
    assert people.gain(late) == 0
    people.assert_whole({ann: share(1, 1)})


def test_13_stake_added_after_the_draw__does_not_vote(people: People, ann: Node, bob: Node) -> None:
    """Attack 13: vito sees that he can decide this round if only he had more stake, and adds it."""
    vito = people.nodes["vito"]
    people.train(ann, bob)
    people.give(vito.owner, 9_000 * ZOO)
    people.chain.send(vito.owner, people.registry, "add_stake", vito.node_id, 9_000 * ZOO)
    arrays = people.offer({ann: 1, bob: 1})
    report = people.report(bob, INVALID, "vito")
    assert people.chain.call(people.reports, "report_of", report).status == 1
    people.attest("vito")
    finalize = (people.faucet, people.results, "finalize", *people.place, *arrays)
    people.chain.refuse("results: not finalizable", *finalize)
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    people.chain.send(people.faucet, people.reports, "lapse", report)
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_13_stake_or_table_changed_after_the_opening__leaves_the_spot_checks(
    people: People, eve: Node
) -> None:
    """Attack 13: eve lies and would be drawn less often with more at stake, or three bought members
    soften the table so that nobody is: what counts is what stood when the round opened."""
    network = network_of(people)
    client = network.chain
    people.open()
    opened = int(people.state.opened_block)
    people.give(eve.owner, 9_000 * ZOO)
    people.chain.send(eve.owner, people.registry, "add_stake", eve.node_id, 9_000 * ZOO)
    free = (0, 0, 0, False, False, 0)
    people.decide((people.registry, "set_penalty", (INVALID, free)), governance=True)
    assert network.penalties_at(opened) == dict(DEFAULTS)
    assert network.stakes_at([eve.node_id], opened) == {eve.node_id: 100 * ZOO}
    now = client.head().number
    assert network.penalties_at(now) == {**DEFAULTS, INVALID: Row(*free)}
    assert network.stakes_at([eve.node_id], now) == {eve.node_id: 9_100 * ZOO}


def test_13_seed_taken_early_or_twice__reverts(people: People, ann: Node, eve: Node) -> None:
    """Attack 13: eve wants the seed before it is due, or another one after she has seen it."""
    receipt = people.chain.send(eve.operator, people.rounds, "open_round", people.job)
    people.round = int(people.chain.event(receipt, people.rounds, "RoundOpened")["round_id"])
    capture = (eve.operator, people.rounds, "capture_seed", *people.place)
    people.chain.refuse("randomness: too early", *capture)
    people.chain.send(*capture)
    seed = bytes(people.state.seed)
    assert seed != EMPTY
    people.chain.refuse("rounds: no seed due", *capture)
    people.chain.refuse("jobs: round open", eve.operator, people.rounds, "open_round", people.job)
    people.chain.mine(FORGOTTEN)
    people.chain.refuse("rounds: no seed due", *capture)
    assert bytes(people.state.seed) == seed
    assert people.gain(eve) == 0
    people.assert_whole({ann: 0})


def test_14_seed_nobody_captured__is_drawn_anew_in_a_future_block_only(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 14: everybody is silent until the chain has forgotten the seed's block. The next
    capture pins a block that does not exist yet; the old draw can't be had, nor a second one."""
    people.open()
    old = int(people.state.seed_block)
    people.chain.mine(FORGOTTEN)
    digest = people.commitment(eve, CommittedWork.of("eve"))
    commit = (eve.operator, people.rounds, "commit", *people.place, eve.node_id, digest)
    people.chain.refuse("rounds: seed expired", *commit)
    people.chain.send(eve.operator, people.rounds, "capture_seed", *people.place)
    latest = int(people.chain.rpc("eth_blockNumber"), 16)
    assert int(people.state.seed_block) == latest + 1 > old
    assert bytes(people.state.seed) == EMPTY
    people.chain.refuse("randomness: too early", *commit)
    people.commit(ann)
    assert bytes(people.state.seed) != EMPTY
    people.pass_phase(COMMIT)
    people.reveal(ann)
    people.pass_phase(REVEAL)
    people.finish({ann: 1})
    assert people.gain(eve) == 0
    people.assert_whole({ann: share(1, 1)})


def test_14_last_revealer_picks_its_moment__the_audit_is_drawn_after_it(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 14: eve holds her reveal back to choose the audit's seed; its block is the one after
    hers, whenever she comes."""
    people.open()
    for node in (ann, eve):
        people.commit(node)
    people.pass_phase(COMMIT)
    people.reveal(ann)
    assert int(people.state.audit_block) == 0
    receipt = people.reveal(eve)
    assert int(people.state.audit_block) == int(receipt["blockNumber"], 16) + 1
    assert bytes(people.state.audit_seed) == EMPTY
    people.chain.refuse(
        "randomness: too early", eve.operator, people.results, "capture_audit_seed", *people.place
    )


# -- who is looked at ------------------------------------------------------------------------------


def test_18_publish_only_where_nobody_looks__the_draw_is_known_too_late(
    people: People, tiny: TinyJob
) -> None:
    """Attack 18: eve reveals noise and keeps it back until she knows whether she is drawn. If she
    knew in time, she would lose the pay of the rounds in which she is, and never her stake.

    The draw follows from a block after the proposal. What nobody can read by then is in no result.
    """
    ann, bob, eve = (people.nodes[name] for name in ("ann", "bob", "eve"))
    plan = plan_of(tiny, people)
    works = [publish_work(tiny, plan, node) for node in (ann, bob)]
    fake = noise(tiny.before, seed=18)
    works.append(publish_work(tiny, plan, eve, gradient=fake, publish=False))
    for work in works:
        people.commit(work.node, work.committed)
    people.pass_phase(COMMIT)
    for work in works:
        people.reveal(work.node, work.committed)
    for _ in range(5):
        people.chain.mine()
        assert looked_at(people) is None
    outcome = outcome_of(tiny, plan, works)
    pay = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    arrays = people.offer({node: pay[node.node_id] for node in (ann, bob)})
    assert looked_at(people) is None  # the block after is not there
    people.chain.mine()
    assert looked_at(people) is not None
    publish_work(tiny, plan, eve, gradient=fake)  # now she knows; the result knows no such payload
    people.confirm(arrays)
    assert people.gain(eve) == 0
    total = sum(arrays[1])
    people.assert_whole({node: share(pay[node.node_id], total) for node in (ann, bob)})


@pytest.mark.parametrize(("nodes", "unseen"), [(9, 0.663), (64, 0.834)])
def test_18_control__what_a_cheat_would_keep_if_it_knew_the_draw_in_time(
    nodes: int, unseen: float
) -> None:
    """Its pay in the rounds in which it is not drawn, for no work; it would never be slashed."""
    market = Market(Numbers(nodes=nodes, terms=Terms(retain_rounds=8)))
    retained = 8 * duty(market.numbers).trainer_pay
    kept = float(1 - drawn(market, market.evil[0], retained=retained))
    print(f"{nodes} nodes: {kept:.1%} of the pay")
    assert kept == pytest.approx(unseen, abs=1e-3)


def test_18_another_result__draws_anew(people: People, ann: Node, bob: Node) -> None:
    """Attack 18: eve's friend proposes a wrong result without her, so that she learns the draw and
    publishes for the result that takes its place. That one has a draw of its own."""
    watcher = people.person("watcher", 1_000 * ZOO)
    people.train(ann, bob)
    duty = people.on_duty
    people.offer({ann: 1, bob: 1}, label="wrong")
    people.chain.mine()
    first = looked_at(people)
    for _ in range(3):
        people.chain.mine()
        assert looked_at(people) == first is not None
    network = network_of(people)
    gone = replace(network.round(*people.place), result_hash=b"\1" * 32)  # as amid a reorg
    assert network.draw_seed(*people.place, gone) is None
    people.announce_challenge(watcher)
    result = people.challenge(watcher)
    assert looked_at(people) == first
    people.resolve(result, True, salt=result)
    assert looked_at(people) is None
    other = people.other_aggregator(duty)
    arrays = people.offer({ann: 1, bob: 1}, by=other)
    people.chain.mine()
    assert looked_at(people) not in (None, first)
    people.confirm(arrays)
    assert people.gain(duty) == -STAKES[AGGREGATOR] // 5
