# SPDX-License-Identifier: Apache-2.0
"""Attacks 8, 9 and 11: verifiers who multiply, judge themselves, frame, or report blindly.

Rule: a verifier's word weighs what its stake weighed when the round opened, never counts on its own
owner's work, and a false one is paid for with stake.
"""

from __future__ import annotations

from agents.jobs.publish import ZOO
from tests.stage.chain.chain import key_of
from tests.stage.chain.people import (
    AGGREGATE,
    EMPTY,
    EVIDENCE,
    FALSE_REPORT,
    INVALID,
    STAKES,
    TERMS,
    VERIFIER,
    Node,
    World,
    share,
    trainer_pool,
    verifier_cut,
)

FALSE = STAKES[VERIFIER] // 5  # of a wrong result too
APPEAL_BOND = 100 * ZOO
FIFTH = 20 * ZOO


def appeal(world: World, node: Node, report: bytes) -> None:
    world.chain.send(node.owner, world.reports, "appeal", report, EVIDENCE)


def framed(world: World, victim: Node, *others: Node) -> bytes:
    """A finalized round in which vic and vera had the victim's honest work declared invalid."""
    world.train(victim, *others)
    arrays = world.offer(dict.fromkeys((victim, *others), 1))
    report = world.report(victim, INVALID, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    return report


def test_8_split_stake__weighs_what_the_whole_weighed(world: World) -> None:
    """Attack 8: one verifier's stake under two names has no more votes than under one; under
    the minimum it has none at all."""
    whole = world.enlist("whole", VERIFIER, stake=2_000 * ZOO)
    halves = [world.enlist(f"half {i}", VERIFIER, stake=1_000 * ZOO) for i in (1, 2)]
    nodes = (whole, *halves)
    world.decide(*((world.registry, "approve_role", (n.node_id, VERIFIER, True)) for n in nodes))
    opened = world.open()
    weights = dict(zip(opened["verifiers"], opened["stakes"], strict=True))
    assert weights[whole.node_id] == sum(weights[half.node_id] for half in halves)
    poor = world.person("poor", 500 * ZOO)
    operator = key_of("poor operator")
    args = (operator.address, operator.address, VERIFIER, 500 * ZOO, "", EMPTY)
    world.chain.refuse("registry: stake too low", poor, world.registry, "register_node", *args)
    assert world.gain(*nodes, poor) == 0


def test_8_own_verifier__may_not_judge_its_owners_work_or_benchmark(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 8: eve owns a verifier too, and the committee was careless enough to approve it."""
    own = world.enlist("own", VERIFIER, owner=eve.owner)
    world.decide((world.registry, "approve_role", (own.node_id, VERIFIER, True)), salt=EVIDENCE)
    before = world.wealth(eve, own)

    world.chain.send(eve.owner, world.registry, "request_benchmark", eve.node_id)
    world.submit_benchmark(eve, units=1_000_000)
    signature = world.verdict(own, eve, True)
    args = (eve.node_id, True, [own.node_id], [signature])
    world.chain.refuse(
        "registry: own benchmark", eve.operator, world.registry, "submit_verdicts", *args
    )

    world.train(ann, bob, eve)
    world.offer({ann: 1, bob: 1, eve: 1})
    args = (world.job, world.round, own.node_id, eve.node_id, INVALID, EVIDENCE)
    world.chain.refuse("reports: own node", own.operator, world.reports, "report", *args)
    assert world.wealth(eve, own) - before == 0


def test_8_unapproved_verifier__has_no_vote(world: World, ann: Node, eve: Node) -> None:
    """Attack 8: stake alone buys no verdict, in a round or on a benchmark."""
    crowd = [world.enlist(f"crowd {i}", VERIFIER) for i in range(3)]
    opened = world.open()
    assert not {node.node_id for node in crowd} & set(opened["verifiers"])
    world.chain.send(eve.owner, world.registry, "request_benchmark", eve.node_id)
    world.submit_benchmark(eve)
    signatures = [world.verdict(node, eve, True) for node in crowd]
    args = (eve.node_id, True, [node.node_id for node in crowd], signatures)
    world.chain.refuse(
        "registry: not a verifier", eve.operator, world.registry, "submit_verdicts", *args
    )
    assert world.gain(eve, *crowd) == 0


def test_8_verifier_attests_its_own_result__alone_it_decides_nothing(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 8: the aggregators are away; vic proposes a result that pays eve alone, and confirms
    it himself. He may: his stake is part of the two thirds that are trusted anyway, and without it
    a small network could not end such a round early. But his word is no more than his stake:
    nothing is final before its window, and a challenge costs him."""
    vic = world.nodes["vic"]
    world.train(ann, eve)
    world.pass_phase(AGGREGATE)
    arrays = world.offer({eve: 1}, by=vic, label="greed")
    world.attest("vic")
    state = world.state
    assert 0 < 3 * int(state.attested_stake) < 2 * int(state.verifier_stake)
    finalize = (eve.operator, world.rounds, "finalize", world.job, *arrays)
    world.chain.refuse("rounds: not finalizable", *finalize)
    again = (world.job, world.round, vic.node_id, bytes(state.result_hash))
    world.chain.refuse("rounds: already attested", vic.operator, world.rounds, "attest", *again)

    challenger = world.person("challenger", TERMS.challenge_bond)
    dispute = (world.job, world.round, bytes(state.result_hash), EVIDENCE)
    world.chain.send(challenger, world.rounds, "challenge", *dispute)
    world.chain.refuse("rounds: not finalizable", *finalize)
    world.decide((world.rounds, "resolve_challenge", (*dispute[:3], True)))
    right = world.offer({ann: 1, eve: 1}, by=world.nodes["abe"])
    world.attest("vera", "vito")
    world.finalize(right)
    assert world.gain(vic) == -FALSE
    world.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_9_quorum_frames_an_honest_node__appeal_costs_the_framers_more_than_they_won(
    world: World, ann: Node, bob: Node, cat: Node, eve: Node
) -> None:
    """Attack 9: vic and vera, in league with eve, have bob's honest work declared invalid, so that
    eve's share grows. Bob appeals; the committee re-executes and upholds.

    Bob keeps his stake and gets half of both slashes; the rest of his pay is lost when a share of
    the round is worth more than that, as here.
    """
    report = framed(world, bob, ann, cat, eve)
    vic, vera = world.nodes["vic"], world.nodes["vera"]
    appeal(world, bob, report)
    world.decide((world.reports, "resolve_appeal", (report, True)))

    for judge in (vic, vera):
        assert world.bonded(judge) == judge.stake - FALSE
        assert not world.chain.call(world.registry, "is_eligible", judge.node_id, VERIFIER)
    world.assert_whole(
        {bob: 2 * (FALSE // 2), ann: share(1, 3), cat: share(1, 3), world.nodes["vito"]: 0}
    )
    honest = share(1, 4) + 2 * verifier_cut(2)
    assert world.gain(eve, vic, vera) < 0 < honest
    assert world.gain(eve) - share(1, 4) < 2 * FALSE


def test_9_framers_flee__their_stake_is_slashed_while_it_unbonds(
    world: World, ann: Node, bob: Node, cat: Node
) -> None:
    """Attack 9 with 15: the framers begin their exit the moment the report is confirmed."""
    report = framed(world, bob, ann, cat)
    vic, vera = world.nodes["vic"], world.nodes["vera"]
    for judge in (vic, vera):
        world.chain.send(judge.owner, world.registry, "begin_exit", judge.node_id)
    appeal(world, bob, report)
    world.decide((world.reports, "resolve_appeal", (report, True)))
    world.chain.warp(world.settings.unbonding_period)
    for judge in (vic, vera):
        world.chain.send(judge.owner, world.registry, "withdraw", judge.node_id)
    assert world.gain(vic, vera) == -2 * FALSE + 2 * verifier_cut(2)
    world.assert_whole({bob: 2 * (FALSE // 2), ann: share(1, 2), cat: share(1, 2)})


def test_9_frame_without_quorum__lapses_and_the_node_is_paid(
    world: World, ann: Node, bob: Node
) -> None:
    """Attack 9: one verifier of three accuses bob; nobody joins in."""
    world.train(ann, bob)
    arrays = world.offer({ann: 1, bob: 1})
    report = world.report(bob, INVALID, "vito")
    world.attest("vic", "vera")
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    world.chain.send(world.faucet, world.reports, "lapse", report)
    world.chain.refuse("reports: not confirmed", world.faucet, world.reports, "execute", report)
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})
    assert world.gain(world.nodes["vito"]) == 0


def test_9_guilty_node_appeals__loses_the_bond_on_top(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Appeals as a weapon: eve's work was bad, and she appeals to win time and hurt the
    reporters."""
    report = framed(world, eve, ann, bob)
    world.chain.refuse(
        "reports: not the node", ann.owner, world.reports, "appeal", report, EVIDENCE
    )
    appeal(world, eve, report)
    world.chain.refuse(
        "reports: not confirmed", eve.owner, world.reports, "appeal", report, EVIDENCE
    )
    world.decide((world.reports, "resolve_appeal", (report, False)))
    assert world.gain(eve) == -FIFTH - APPEAL_BOND
    vic, vera = world.nodes["vic"], world.nodes["vera"]
    world.assert_whole(
        {
            ann: share(1, 2),
            bob: share(1, 2),
            vic: FIFTH // 2 + verifier_cut(2),
            vera: verifier_cut(2),
        }
    )
    assert world.chain.call(world.registry, "offences", vic.node_id, FALSE_REPORT) == 0


def test_9_appeal_nobody_decides__slashes_nobody_and_gives_the_bond_back(
    world: World, ann: Node, bob: Node
) -> None:
    """A silent committee: the accused and the accusers keep what they have."""
    report = framed(world, bob, ann)
    appeal(world, bob, report)
    deadline = int(world.chain.call(world.reports, "report_of", report).deadline)
    world.wait_until(deadline)
    world.chain.send(world.faucet, world.reports, "dismiss_unresolved", report)
    cut = verifier_cut(2)
    world.assert_whole(
        {bob: 0, ann: share(1, 1), world.nodes["vic"]: cut, world.nodes["vera"]: cut}
    )
    assert world.chain.call(world.registry, "node", bob.node_id).locks == 0


def test_9_reporter_is_the_cheats_second_node__pays_more_than_the_bounty(
    world: World, ann: Node, eve: Node
) -> None:
    """Bounty farming: eve's bad work is first reported by a verifier that a friend of hers runs,
    which takes the reporter's half."""
    world.train(ann, eve)
    arrays = world.offer({ann: 1, eve: 1})
    report = world.report(eve, INVALID, "vito", "vic")
    world.attest("vic", "vera")
    world.finalize(arrays)
    world.execute(report)
    assert world.gain(eve, world.nodes["vito"]) == -FIFTH + FIFTH // 2
    world.assert_whole({ann: share(1, 1)})


def test_11_verifier_reports_everybody_blindly__does_not_profit(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 11: vito audits nothing and reports all; eve is the one who did cheat. He was the
    first to say so, and earns nothing: what else he said in this round was not confirmed."""
    vito = world.nodes["vito"]
    world.train(ann, bob, eve)
    arrays = world.offer({ann: 1, bob: 1, eve: 1})
    for node in (ann, bob, eve):
        report = world.report(node, INVALID, "vito")
    world.report(eve, INVALID, "vic")
    world.attest("vic", "vera")
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    world.execute(report)
    assert world.gain(eve) == -FIFTH
    assert world.gain(vito) == 0
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})


def test_11_lone_reporter_of_a_real_fault__is_paid_by_nobody_and_loses_nothing(
    world: World, ann: Node, eve: Node
) -> None:
    """Attack 11, honest side: vito alone sees the fault while the others sleep; it costs him
    nothing. Nobody attested, so nobody gets the verifiers' cut: it falls to the trainers."""
    world.train(ann, eve)
    arrays = world.offer({ann: 1, eve: 1})
    world.report(eve, INVALID, "vito")
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    assert [world.gain(world.nodes[name]) for name in ("vic", "vera", "vito")] == [0, 0, 0]
    world.assert_whole({ann: (trainer_pool() + verifier_cut(1)) // 2})
