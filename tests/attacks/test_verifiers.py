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
    FINDERS_DEPOSIT,
    INVALID,
    STAKES,
    TERMS,
    VERIFIER,
    Node,
    People,
    share,
    trainer_pool,
    verifier_cut,
)

FALSE = STAKES[VERIFIER] // 5  # of a wrong result too
APPEAL_BOND = 100 * ZOO
FIFTH = 20 * ZOO


def appeal(people: People, node: Node, report: bytes) -> None:
    people.chain.send(node.owner, people.reports, "appeal", report, EVIDENCE)


def test_8_split_stake__weighs_what_the_whole_weighed(people: People) -> None:
    """Attack 8: one verifier's stake under two names has no more votes than under one; under
    the minimum it has none at all."""
    whole = people.enlist("whole", VERIFIER, stake=2_000 * ZOO)
    halves = [people.enlist(f"half {i}", VERIFIER, stake=1_000 * ZOO) for i in (1, 2)]
    nodes = (whole, *halves)
    people.decide(*((people.registry, "approve_role", (n.node_id, VERIFIER, True)) for n in nodes))
    opened = people.open()
    weights = dict(zip(opened["verifiers"], opened["stakes"], strict=True))
    assert weights[whole.node_id] == sum(weights[half.node_id] for half in halves)
    poor = people.person("poor", 500 * ZOO)
    operator = key_of("poor operator")
    signed = people.consent(operator, poor)
    args = (operator.address, operator.address, VERIFIER, 500 * ZOO, EMPTY, signed)
    people.chain.refuse("registry: stake too low", poor, people.registry, "register_node", *args)
    assert people.gain(*nodes, poor) == 0


def test_8_own_verifier__may_not_judge_its_owners_work_or_benchmark(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 8: eve owns a verifier too, and the committee was careless enough to approve it."""
    own = people.enlist("own", VERIFIER, owner=eve.owner)
    people.decide((people.registry, "approve_role", (own.node_id, VERIFIER, True)), salt=EVIDENCE)
    before = people.wealth(eve, own)

    people.chain.send(eve.owner, people.benchmarks, "request_benchmark", eve.node_id)
    people.submit_benchmark(eve, units=1_000_000)
    signature = people.verdict(own, eve, True)
    args = (eve.node_id, True, [own.node_id], [signature])
    people.chain.refuse(
        "benchmarks: own benchmark", eve.operator, people.benchmarks, "submit_verdicts", *args
    )

    people.train(ann, bob, eve)
    people.offer({ann: 1, bob: 1, eve: 1})
    args = (*people.place, own.node_id, eve.node_id, INVALID, EVIDENCE)
    people.chain.refuse("reports: own node", own.operator, people.reports, "report", *args)
    assert people.wealth(eve, own) - before == 0


def test_8_unapproved_verifier__has_no_vote(people: People, ann: Node, eve: Node) -> None:
    """Attack 8: stake alone buys no verdict, in a round or on a benchmark."""
    crowd = [people.enlist(f"crowd {i}", VERIFIER) for i in range(3)]
    opened = people.open()
    assert not {node.node_id for node in crowd} & set(opened["verifiers"])
    people.chain.send(eve.owner, people.benchmarks, "request_benchmark", eve.node_id)
    people.submit_benchmark(eve)
    signatures = [people.verdict(node, eve, True) for node in crowd]
    args = (eve.node_id, True, [node.node_id for node in crowd], signatures)
    people.chain.refuse(
        "benchmarks: not a verifier", eve.operator, people.benchmarks, "submit_verdicts", *args
    )
    assert people.gain(eve, *crowd) == 0


def test_8_verifier_attests_its_own_result__alone_it_decides_nothing(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 8: the aggregators are away; vic proposes a result that pays eve alone, and confirms
    it himself. He may: his stake is part of the two thirds that are trusted anyway, and without it
    a small network could not end such a round early. But his word is no more than his stake:
    nothing is final before its window, and a challenge costs him."""
    vic = people.nodes["vic"]
    people.train(ann, eve)
    people.pass_phase(AGGREGATE)
    arrays = people.offer({eve: 1}, by=vic, label="greed")
    people.attest("vic")
    state = people.state
    assert 0 < 3 * int(state.attested_stake) < 2 * int(state.verifier_stake)
    finalize = (eve.operator, people.results, "finalize", *people.place, *arrays)
    people.chain.refuse("results: not finalizable", *finalize)
    again = (*people.place, vic.node_id, bytes(state.result_hash))
    people.chain.refuse("results: already attested", vic.operator, people.results, "attest", *again)

    challenger = people.person("challenger", TERMS.challenge_bond)
    result = people.challenge(challenger)
    people.chain.refuse("results: not finalizable", *finalize)
    people.resolve(result, True)
    right = people.offer({ann: 1, eve: 1}, by=people.nodes["abe"])
    people.attest("vera", "vito")
    people.finalize(right)
    assert people.gain(vic) == -FALSE
    people.assert_whole({ann: share(1, 2), eve: share(1, 2)})


def test_9_quorum_frames_an_honest_node__appeal_costs_the_framers_more_than_they_won(
    people: People, ann: Node, bob: Node, cat: Node, eve: Node
) -> None:
    """Attack 9: vic and vera, in league with eve, have bob's honest work declared invalid, so that
    eve's share grows. Bob appeals; the committee re-executes and upholds.

    Bob keeps his stake, gets his share of the round and half of both slashes. Nobody else ever got
    anything of his share.
    """
    report = people.convict(bob, ann, cat, eve)
    vic, vera = people.nodes["vic"], people.nodes["vera"]
    appeal(people, bob, report)
    people.decide((people.reports, "resolve_appeal", (report, True)))

    for judge in (vic, vera):
        assert people.bonded(judge) == judge.stake - FALSE
        assert not people.chain.call(people.registry, "is_eligible", judge.node_id, VERIFIER)
    people.assert_whole(
        {
            bob: 2 * (FALSE // 2) + share(1, 4),
            ann: share(1, 4),
            cat: share(1, 4),
            people.nodes["vito"]: 0,
        }
    )
    honest = share(1, 4) + 2 * verifier_cut(2)
    assert people.gain(eve, vic, vera) < 0 < honest
    assert people.gain(eve) - share(1, 4) < 2 * FALSE


def test_9_framers_flee__their_stake_is_slashed_while_it_unbonds(
    people: People, ann: Node, bob: Node, cat: Node
) -> None:
    """Attack 9 with 15: the framers begin their exit the moment the report is confirmed."""
    report = people.convict(bob, ann, cat)
    vic, vera = people.nodes["vic"], people.nodes["vera"]
    for judge in (vic, vera):
        people.chain.send(judge.owner, people.registry, "begin_exit", judge.node_id)
    appeal(people, bob, report)
    people.decide((people.reports, "resolve_appeal", (report, True)))
    people.chain.warp(people.settings.unbonding_period)
    for judge in (vic, vera):
        people.chain.send(judge.owner, people.registry, "withdraw", judge.node_id)
    assert people.gain(vic, vera) == -2 * FALSE + 2 * verifier_cut(2)
    bobs = 2 * (FALSE // 2) + share(1, 3)
    people.assert_whole({bob: bobs, ann: share(1, 3), cat: share(1, 3)})


def test_9_frame_without_quorum__lapses_and_the_node_is_paid(
    people: People, ann: Node, bob: Node
) -> None:
    """Attack 9: one verifier of three accuses bob; nobody joins in, and it has announced him."""
    people.train(ann, bob)
    arrays = people.offer({ann: 1, bob: 1})
    report = people.report(bob, INVALID, "vito")
    people.attest("vic", "vera")
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    people.chain.send(people.faucet, people.reports, "lapse", report)
    people.chain.refuse("reports: not confirmed", people.faucet, people.reports, "execute", report)
    people.assert_whole({ann: share(1, 2), bob: share(1, 2)})
    assert people.gain(people.nodes["vito"]) == -FINDERS_DEPOSIT


def test_9_guilty_node_appeals__loses_the_bond_on_top(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Appeals as a weapon: eve's work was bad, and she appeals to win time and hurt the
    reporters."""
    report = people.convict(eve, ann, bob)
    people.chain.refuse(
        "reports: not the node", ann.owner, people.reports, "appeal", report, EVIDENCE
    )
    appeal(people, eve, report)
    people.chain.refuse(
        "reports: not confirmed", eve.owner, people.reports, "appeal", report, EVIDENCE
    )
    people.decide((people.reports, "resolve_appeal", (report, False)))
    assert people.gain(eve) == -FIFTH - APPEAL_BOND
    vic, vera = people.nodes["vic"], people.nodes["vera"]
    people.assert_whole(
        {
            ann: share(1, 3),
            bob: share(1, 3),
            vic: FIFTH // 2 + verifier_cut(2),
            vera: verifier_cut(2),
        }
    )
    assert people.chain.call(people.registry, "offences", vic.node_id, FALSE_REPORT) == 0


def test_9_appeal_nobody_decides__slashes_nobody_and_gives_the_bond_back(
    people: People, ann: Node, bob: Node
) -> None:
    """A silent committee: the accused and the accusers keep what they have."""
    report = people.convict(bob, ann)
    appeal(people, bob, report)
    deadline = int(people.chain.call(people.reports, "report_of", report).deadline)
    people.wait_until(deadline)
    people.chain.send(people.faucet, people.reports, "dismiss_unresolved", report)
    cut = verifier_cut(2)
    people.assert_whole(
        {
            bob: share(1, 2),
            ann: share(1, 2),
            people.nodes["vic"]: cut,
            people.nodes["vera"]: cut,
        }
    )
    assert people.chain.call(people.registry, "node", bob.node_id).locks == 0


def test_9_reporter_is_the_cheats_second_node__pays_more_than_the_bounty(
    people: People, ann: Node, eve: Node
) -> None:
    """Bounty farming: eve's bad work is first reported by a verifier that a friend of hers runs,
    which takes the reporter's half."""
    people.train(ann, eve)
    arrays = people.offer({ann: 1, eve: 1})
    report = people.report(eve, INVALID, "vito", "vic")
    people.confirm(arrays)
    people.execute(report)
    assert people.gain(eve, people.nodes["vito"]) == -FIFTH + FIFTH // 2
    people.assert_whole({ann: share(1, 2)})


def test_11_verifier_reports_everybody_blindly__does_not_profit(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 11: vito audits nothing and reports all; eve is the one who did cheat. He was the
    first to say so, and earns nothing: what else he said in this round was not confirmed, and the
    deposits of it are lost."""
    vito = people.nodes["vito"]
    people.train(ann, bob, eve)
    arrays = people.offer({ann: 1, bob: 1, eve: 1})
    for node in (ann, bob, eve):
        report = people.report(node, INVALID, "vito")
    people.report(eve, INVALID, "vic")
    people.attest("vic", "vera")
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    people.execute(report)
    for node in (ann, bob):
        place = (*people.place, node.node_id, INVALID)
        wrong = bytes(people.chain.call(people.reports, "report_id_of", *place))
        people.chain.send(people.faucet, people.reports, "lapse", wrong)
    assert people.gain(eve) == -FIFTH
    assert people.gain(vito) == -2 * FINDERS_DEPOSIT
    people.assert_whole({ann: share(1, 3), bob: share(1, 3)})


def test_11_lone_reporter_of_a_real_fault__is_paid_by_nobody_and_loses_nothing(
    people: People, ann: Node, eve: Node
) -> None:
    """Attack 11, honest side: vito alone sees the fault while the others sleep; it costs him
    nothing. Nobody attested, so nobody gets the verifiers' cut: it falls to the trainers."""
    people.train(ann, eve)
    arrays = people.offer({ann: 1, eve: 1})
    report = people.report(eve, INVALID, "vito")
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    people.chain.send(people.faucet, people.reports, "lapse", report)
    assert [people.gain(people.nodes[name]) for name in ("vic", "vera", "vito")] == [0, 0, 0]
    people.assert_whole({ann: (trainer_pool() + verifier_cut(1)) // 2})
