# SPDX-License-Identifier: Apache-2.0
"""Own attacks: signatures and approvals used a second time, or for something else.

Rule: a signature is good for one attempt of one node, one operation of one committee, one chain.
"""

from __future__ import annotations

import pytest
from eth_utils import keccak

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import Call, Node, People, share

SPARE_SALT = keccak(text="second")


@pytest.mark.parametrize("replay", ["attempt", "node", "chain", "verdict", "signer"])
def test_verdict_replayed__does_not_verify(
    people: People, ann: Node, eve: Node, replay: str
) -> None:
    """Eve collects good verdicts (her first attempt's, ann's, those of a test network, a failing
    one, one that another verifier signed) and relays them for a benchmark that she faked."""
    vic, vera, vito = (people.nodes[name] for name in ("vic", "vera", "vito"))
    score = people.chain.call(people.registry, "node", eve.node_id).benchmark_score
    old = [people.verdict(judge, eve, True) for judge in (vic, vera)]
    people.chain.send(eve.owner, people.benchmarks, "request_benchmark", eve.node_id)
    people.submit_benchmark(eve, units=1_000_000)
    signatures = {
        "attempt": lambda judge: old[judge is vera],
        "node": lambda judge: people.verdict(judge, ann, True),
        "chain": lambda judge: people.verdict(judge, eve, True, chainId=1),
        "verdict": lambda judge: people.verdict(judge, eve, False),
        "signer": lambda judge: people.verdict(vito, eve, True),
    }[replay]
    args = (eve.node_id, True, [vic.node_id, vera.node_id], [signatures(j) for j in (vic, vera)])
    people.chain.refuse(
        "benchmarks: bad signature", eve.operator, people.benchmarks, "submit_verdicts", *args
    )
    assert people.chain.call(people.registry, "node", eve.node_id).benchmark_score == score
    assert people.gain(eve) == 0


def test_verdict_of_one_verifier_sent_twice__counts_once(people: People, eve: Node) -> None:
    """One careless verifier's signature can't be the quorum, in one call or in two."""
    vic = people.nodes["vic"]
    people.chain.send(eve.owner, people.benchmarks, "request_benchmark", eve.node_id)
    people.submit_benchmark(eve, units=1_000_000)
    signature = people.verdict(vic, eve, True)
    submit = (eve.operator, people.benchmarks, "submit_verdicts", eve.node_id, True)
    twice = ([vic.node_id] * 2, [signature] * 2)
    people.chain.refuse("benchmarks: verdict already given", *submit, *twice)
    people.chain.send(*submit, [vic.node_id], [signature])
    people.chain.refuse("benchmarks: verdict already given", *submit, [vic.node_id], [signature])
    assert not people.chain.call(people.benchmarks, "benchmark", eve.node_id).settled
    assert people.gain(eve) == 0


def seize(people: People, eve: Node) -> Call:
    """An operation that lets eve slash whom she likes, bounty to herself."""
    return people.registry, "set_slasher", (eve.operator.address, True)


def change_members(people: People) -> None:
    """Members 1 and 2, who had sold their approvals, are replaced."""
    fresh = [key_of("fresh member 1").address, key_of("fresh member 2").address]
    members = [people.members[i].address for i in (0, 3, 4)] + fresh
    call = (people.coordinator, "set_members", (members, 3))
    ids = [people.propose(call, member=0)]
    for member in (3, 4):
        people.chain.send(people.members[member], people.coordinator, "approve", ids[0])
    people.chain.warp(people.settings.governance_delay)
    people.chain.send(people.faucet, people.coordinator, "execute", ids[0])


def test_approvals_of_members_who_were_replaced__no_longer_count(
    people: People, ann: Node, eve: Node
) -> None:
    """Eve has bought three approvals; two of the sellers are found out and replaced before the
    delay is over. Their approvals on chain and their signatures off chain are worth nothing."""
    bought = people.propose(seize(people, eve), member=0)
    signed = sorted((people.members[i] for i in (1, 2)), key=lambda member: int(member.address, 16))
    for member in (1, 2):
        people.chain.send(people.members[member], people.coordinator, "approve", bought)
    later = people.propose(seize(people, eve), SPARE_SALT, member=0)
    signatures = [people.approval(people.members.index(member), later) for member in signed]
    people.chain.warp(people.settings.governance_delay // 2)
    change_members(people)
    people.chain.refuse(
        "coordinator: approvals", eve.operator, people.coordinator, "execute", bought
    )
    people.chain.refuse(
        "coordinator: not a member",
        eve.operator,
        people.coordinator,
        "approve_by_sig",
        *(later, signatures),
    )
    people.chain.refuse(
        "coordinator: not queued", eve.operator, people.coordinator, "execute", later
    )
    assert not people.chain.call(people.registry, "is_slasher", eve.operator.address)
    assert people.gain(eve) == 0
    people.assert_whole({ann: 0})


def test_signature_for_one_operation__approves_no_other(
    people: People, ann: Node, eve: Node
) -> None:
    """Signatures for a harmless operation are relayed for the one eve wants: they recover to
    strangers."""
    harmless = people.propose((people.registry, "set_paused", (0,)))
    wanted = people.propose(seize(people, eve), SPARE_SALT)
    for member in (1, 2):
        signature = people.approval(member, harmless)
        people.chain.refuse(
            "coordinator: not a member",
            eve.operator,
            people.coordinator,
            "approve_by_sig",
            *(wanted, [signature]),
        )
    assert int(people.chain.call(people.coordinator, "approvals", wanted)) == 1
    assert people.gain(eve) == 0
    people.assert_whole({ann: 0})


def test_operation_executed_twice_or_by_too_few__reverts(
    people: People, ann: Node, eve: Node
) -> None:
    """Two members of five and an executed operation move nothing."""
    call = (people.registry, "set_paused", (1,))
    op_id = people.propose(call)
    execute = (eve.operator, people.coordinator, "execute", op_id)
    people.chain.send(people.members[1], people.coordinator, "approve", op_id)
    people.chain.warp(people.settings.governance_delay)
    people.chain.refuse("coordinator: not queued", *execute)
    people.chain.send(people.members[2], people.coordinator, "approve", op_id)
    people.chain.refuse("coordinator: too early", *execute)
    people.chain.warp(people.settings.routine_delay)
    people.chain.send(*execute)
    people.chain.refuse("coordinator: executed", *execute)
    assert people.gain(eve) == 0
    people.assert_whole({ann: 0})


def test_decision_on_one_result__cannot_be_used_on_the_next(
    people: People, ann: Node, bob: Node
) -> None:
    """A committee's approved "upheld", not executed in time, is kept for the honest successor of
    the result it was about: the hash of a result binds its attempt."""
    crank = people.person("crank", 1_000 * ZOO)
    people.train(ann, bob)
    duty = people.on_duty
    people.offer({ann: 1}, label="nonsense")
    first = people.challenge(crank)
    call = (people.results, "resolve_challenge", (*people.place, first, True))
    kept = people.propose(call, SPARE_SALT)
    for member in (1, 2):
        people.chain.send(people.members[member], people.coordinator, "approve", kept)
    people.decide(call)

    other = people.other_aggregator(duty)
    arrays = people.offer({ann: 1, bob: 1}, by=other, label="nonsense")
    second = people.challenge(crank)
    assert second != first
    people.chain.refuse("results: wrong result", crank, people.coordinator, "execute", kept)
    people.resolve(second, False)
    people.confirm(arrays)
    assert people.bonded(other) == other.stake
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})
