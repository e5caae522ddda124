# SPDX-License-Identifier: Apache-2.0
"""Attacks 13 and 14: choosing the draw instead of being drawn.

Rule: who takes part is fixed before the seed exists, and a seed that somebody has captured stays.
"""

from __future__ import annotations

from agents.jobs.publish import ZOO
from agents.protocol.network import Network
from agents.protocol.slashing import DEFAULTS, Row
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Deployment
from agents.runtime.logs import open_log
from tests.stage.chain.people import (
    COMMIT,
    EMPTY,
    INVALID,
    REVEAL,
    TRAINER,
    CommittedWork,
    Node,
    People,
    share,
)

FORGOTTEN = 257  # blocks after which the chain no longer knows a hash


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
    client = ChainClient(people.chain._url, open_log("draws", "warning", True, None))
    network = Network(client, Deployment("draws", 31_337, 0, dict(people.contracts)))
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
