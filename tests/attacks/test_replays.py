# SPDX-License-Identifier: Apache-2.0
"""Own attacks: signatures and approvals used a second time, or for something else.

Rule: a signature is good for one attempt of one node, one operation of one committee, one chain.
"""

from __future__ import annotations

import pytest
from eth_utils import keccak

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import EVIDENCE, Call, Node, World, share

SPARE_SALT = keccak(text="second")


@pytest.mark.parametrize("replay", ["attempt", "node", "chain", "verdict", "signer"])
def test_verdict_replayed__does_not_verify(world: World, ann: Node, eve: Node, replay: str) -> None:
    """Eve collects good verdicts (her first attempt's, ann's, those of a test network, a failing
    one, one that another verifier signed) and relays them for a benchmark that she faked."""
    vic, vera, vito = (world.nodes[name] for name in ("vic", "vera", "vito"))
    score = world.chain.call(world.registry, "node", eve.node_id).benchmark_score
    old = [world.verdict(judge, eve, True) for judge in (vic, vera)]
    world.chain.send(eve.owner, world.registry, "request_benchmark", eve.node_id)
    world.submit_benchmark(eve, units=1_000_000)
    signatures = {
        "attempt": lambda judge: old[judge is vera],
        "node": lambda judge: world.verdict(judge, ann, True),
        "chain": lambda judge: world.verdict(judge, eve, True, chainId=1),
        "verdict": lambda judge: world.verdict(judge, eve, False),
        "signer": lambda judge: world.verdict(vito, eve, True),
    }[replay]
    args = (eve.node_id, True, [vic.node_id, vera.node_id], [signatures(j) for j in (vic, vera)])
    world.chain.refuse(
        "registry: bad signature", eve.operator, world.registry, "submit_verdicts", *args
    )
    assert world.chain.call(world.registry, "node", eve.node_id).benchmark_score == score
    assert world.gain(eve) == 0


def test_verdict_of_one_verifier_sent_twice__counts_once(world: World, eve: Node) -> None:
    """One careless verifier's signature can't be the quorum, in one call or in two."""
    vic = world.nodes["vic"]
    world.chain.send(eve.owner, world.registry, "request_benchmark", eve.node_id)
    world.submit_benchmark(eve, units=1_000_000)
    signature = world.verdict(vic, eve, True)
    submit = (eve.operator, world.registry, "submit_verdicts", eve.node_id, True)
    twice = ([vic.node_id] * 2, [signature] * 2)
    world.chain.refuse("registry: verdict already given", *submit, *twice)
    world.chain.send(*submit, [vic.node_id], [signature])
    world.chain.refuse("registry: verdict already given", *submit, [vic.node_id], [signature])
    assert not world.chain.call(world.registry, "benchmark", eve.node_id).settled
    assert world.gain(eve) == 0


def seize(world: World, eve: Node) -> Call:
    """An operation that lets eve slash whom she likes, bounty to herself."""
    return world.registry, "set_slasher", (eve.operator.address, True)


def change_members(world: World) -> None:
    """Members 1 and 2, who had sold their approvals, are replaced."""
    fresh = [key_of("fresh member 1").address, key_of("fresh member 2").address]
    members = [world.members[i].address for i in (0, 3, 4)] + fresh
    call = (world.coordinator, "set_members", (members, 3))
    ids = [world.propose(call, member=0)]
    for member in (3, 4):
        world.chain.send(world.members[member], world.coordinator, "approve", ids[0])
    world.chain.warp(world.settings.governance_delay)
    world.chain.send(world.faucet, world.coordinator, "execute", ids[0])


def test_approvals_of_members_who_were_replaced__no_longer_count(
    world: World, ann: Node, eve: Node
) -> None:
    """Eve has bought three approvals; two of the sellers are found out and replaced before the
    delay is over. Their approvals on chain and their signatures off chain are worth nothing."""
    bought = world.propose(seize(world, eve), member=0)
    signed = sorted((world.members[i] for i in (1, 2)), key=lambda member: int(member.address, 16))
    for member in (1, 2):
        world.chain.send(world.members[member], world.coordinator, "approve", bought)
    later = world.propose(seize(world, eve), SPARE_SALT, member=0)
    signatures = [world.approval(world.members.index(member), later) for member in signed]
    world.chain.warp(world.settings.governance_delay // 2)
    change_members(world)
    world.chain.refuse("coordinator: approvals", eve.operator, world.coordinator, "execute", bought)
    world.chain.refuse(
        "coordinator: not a member",
        eve.operator,
        world.coordinator,
        "approve_by_sig",
        *(later, signatures),
    )
    world.chain.refuse("coordinator: not queued", eve.operator, world.coordinator, "execute", later)
    assert not world.chain.call(world.registry, "is_slasher", eve.operator.address)
    assert world.gain(eve) == 0
    world.assert_whole({ann: 0})


def test_signature_for_one_operation__approves_no_other(world: World, ann: Node, eve: Node) -> None:
    """Signatures for a harmless operation are relayed for the one eve wants: they recover to
    strangers."""
    harmless = world.propose((world.registry, "set_paused", (0,)))
    wanted = world.propose(seize(world, eve), SPARE_SALT)
    for member in (1, 2):
        signature = world.approval(member, harmless)
        world.chain.refuse(
            "coordinator: not a member",
            eve.operator,
            world.coordinator,
            "approve_by_sig",
            *(wanted, [signature]),
        )
    assert int(world.chain.call(world.coordinator, "approvals", wanted)) == 1
    assert world.gain(eve) == 0
    world.assert_whole({ann: 0})


def test_operation_executed_twice_or_by_too_few__reverts(
    world: World, ann: Node, eve: Node
) -> None:
    """Two members of five and an executed operation move nothing."""
    call = (world.registry, "set_paused", (1,))
    op_id = world.propose(call)
    execute = (eve.operator, world.coordinator, "execute", op_id)
    world.chain.send(world.members[1], world.coordinator, "approve", op_id)
    world.chain.warp(world.settings.governance_delay)
    world.chain.refuse("coordinator: not queued", *execute)
    world.chain.send(world.members[2], world.coordinator, "approve", op_id)
    world.chain.refuse("coordinator: too early", *execute)
    world.chain.warp(world.settings.routine_delay)
    world.chain.send(*execute)
    world.chain.refuse("coordinator: executed", *execute)
    assert world.gain(eve) == 0
    world.assert_whole({ann: 0})


def test_decision_on_one_result__cannot_be_used_on_the_next(
    world: World, ann: Node, bob: Node
) -> None:
    """A committee's approved "upheld", not executed in time, is kept for the honest successor of
    the result it was about: the hash of a result binds its attempt."""
    crank = world.person("crank", 1_000 * ZOO)
    world.train(ann, bob)
    duty = world.on_duty
    world.offer({ann: 1}, label="nonsense")
    first = bytes(world.state.result_hash)
    challenge = (crank, world.rounds, "challenge", world.job, world.round)
    world.chain.send(*challenge, first, EVIDENCE)
    call = (world.rounds, "resolve_challenge", (world.job, world.round, first, True))
    kept = world.propose(call, SPARE_SALT)
    for member in (1, 2):
        world.chain.send(world.members[member], world.coordinator, "approve", kept)
    world.decide(call)

    other = next(n for n in (world.nodes["abe"], world.nodes["ada"]) if n != duty)
    arrays = world.offer({ann: 1, bob: 1}, by=other, label="nonsense")
    second = bytes(world.state.result_hash)
    assert second != first
    world.chain.send(*challenge, second, EVIDENCE)
    world.chain.refuse("rounds: wrong result", crank, world.coordinator, "execute", kept)
    args = (world.job, world.round, second, False)
    world.decide((world.rounds, "resolve_challenge", args))
    world.attest("vic", "vera")
    world.finalize(arrays)
    assert world.bonded(other) == other.stake
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})
