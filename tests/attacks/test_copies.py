# SPDX-License-Identifier: Apache-2.0
"""Attacks 3, 4, 5 and 19: shared, stolen, perturbed and invented work, and its control.

Rule: a cheat ends with less than it had, and less than honest work would have given; whoever did
the work is paid to the unit, even if the thief came first, even if the copy is its partner's. The
verdicts come from re-execution of real pseudo-gradients (`tests/attacks/lab.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from agents.jobs.publish import ZOO
from agents.protocol.network import Violation
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.training.state import State
from tests.attacks.lab import Lab, Paper, mixed, noise, scaled, shortened
from tests.stage.chain.people import (
    COMMIT,
    COPIED,
    EMPTY,
    INVALID,
    Node,
    Work,
    World,
    share,
    verifier_cut,
)

HALF, FIFTH = 50 * ZOO, 20 * ZOO  # of the least stake


def hand_in(world: World, papers: Sequence[Paper]) -> None:
    """Commit and reveal these submissions, in this order, in the open round."""
    for paper in papers:
        world.commit(paper.node, paper.work)
    world.pass_phase(COMMIT)
    for paper in papers:
        world.reveal(paper.node, paper.work)


def offer(
    world: World, papers: Sequence[Paper], outcome: Outcome
) -> tuple[tuple[list[int], list[int]], dict[int, int]]:
    """The aggregator on duty proposes the outcome; its arrays, and contributions by node id."""
    pay = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    paid = {p.node: pay[p.node.node_id] for p in papers if p.node.node_id in pay}
    return world.offer(paid, label="real"), pay


def judged(world: World, cheat: Node, violation: int, arrays: tuple) -> None:
    """Two of three verifiers report the cheat, attest the result; the report is carried out."""
    report = world.report(cheat, violation, "vic", "vera")
    world.attest("vic", "vera")
    world.finalize(arrays)
    world.execute(report)


def shares(pay: dict[int, int], papers: Sequence[Paper], *cheats: Node) -> dict[Node, int]:
    """What the honest nodes get: the cheats' contributions leave the total."""
    bad = {node.node_id for node in cheats}
    total = sum(amount for node, amount in pay.items() if node not in bad)
    return {
        paper.node: share(pay.get(paper.node.node_id, 0), total)
        for paper in papers
        if paper.node not in cheats
    }


def start(world: World, lab: Lab) -> tuple[list[Node], Plan]:
    """Open the round; its four trainers, and the manifest from the chain's own seed."""
    opened = world.open()
    world.chain.send(world.faucet, world.rounds, "capture_seed", world.job)
    nodes = [world.nodes[name] for name in ("ann", "bob", "cat", "eve")]
    return nodes, lab.plan(opened, bytes(world.state.seed))


def test_3_colluders_share_a_gradient__copier_loses_half_and_the_pair_loses(
    world: World, lab: Lab
) -> None:
    """Attack 3: bob hands his work to eve; she trains nothing and re-sends it.

    Together they get less than had both been honest, and less than had eve stayed away.
    """
    (ann, bob, cat, eve), plan = start(world, lab)
    honest = [lab.submit(plan, node) for node in (ann, bob, cat)]
    partner = honest[1]
    copy = lab.submit(plan, eve, gradient=partner.submission.gradient)
    papers = [*honest, copy]
    assert copy.work.content == partner.work.content
    hand_in(world, papers)
    for node, flagged in ((ann, False), (bob, True), (cat, False), (eve, True)):
        asked = (world.job, world.round, node.node_id)
        assert world.chain.call(world.rounds, "is_flagged", *asked) is flagged

    audit = lab.audit(plan, papers, flagged=(bob, eve))
    assert lab.suspects(audit) >= {bob.node_id, eve.node_id}
    assert lab.verdict(audit, bob).violation is None
    assert lab.verdict(audit, eve).violation is Violation.COPIED

    arrays, paid = offer(world, papers, lab.outcome(plan, papers))
    judged(world, eve, COPIED, arrays)
    pay = shares(paid, papers, eve)
    world.assert_whole(pay)
    assert world.gain(eve) == -HALF
    had_both_been_honest = [*honest, lab.submit(plan, eve)]
    better = lab.outcome(plan, had_both_been_honest)
    due = shares(dict(zip(better.nodes, better.contributions, strict=True)), had_both_been_honest)
    assert world.gain(bob, eve) < due[bob] + due[eve]
    assert world.gain(bob, eve) < pay[bob]


def test_4_thief_commits_the_victims_work_first__victim_is_paid_and_thief_loses_half(
    world: World, lab: Lab
) -> None:
    """Attack 4: eve gets hold of ann's work before ann commits, and is first on chain with it."""
    (ann, bob, cat, eve), plan = start(world, lab)
    honest = [lab.submit(plan, node) for node in (ann, bob, cat)]
    theft = lab.submit(plan, eve, gradient=honest[0].submission.gradient)
    papers = [theft, *honest]
    hand_in(world, papers)
    ordered = sorted(papers, key=lambda paper: paper.node.node_id)

    audit = lab.audit(plan, ordered, flagged=(ann, eve))
    assert lab.verdict(audit, ann).violation is None
    assert lab.verdict(audit, eve).violation is Violation.COPIED

    arrays, paid = offer(world, ordered, lab.outcome(plan, ordered))
    judged(world, eve, COPIED, arrays)
    world.assert_whole(shares(paid, ordered, eve))
    assert world.gain(eve) == -HALF


def test_4_accomplice_verifier_accuses_the_victim__alone_it_changes_nothing(
    world: World, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 4: one of three verifiers frames the victim of the theft; a third is no quorum."""
    works = {"eve": replace(Work.of("eve"), content=Work.of("ann").content)}
    world.train(eve, ann, bob, works=works)
    arrays = world.offer({ann: 1, bob: 1, eve: 1})
    framing = world.report(ann, COPIED, "vito")
    true_report = world.report(eve, COPIED, "vic", "vera")
    world.attest("vic", "vera")
    world.chain.refuse(
        "rounds: not finalizable", world.faucet, world.rounds, "finalize", world.job, *arrays
    )
    world.wait_until(int(world.state.deadline))
    world.finalize(arrays)
    world.chain.send(world.faucet, world.reports, "lapse", framing)
    world.execute(true_report)
    world.assert_whole({ann: share(1, 2), bob: share(1, 2)})
    assert world.gain(eve) == -HALF
    assert world.gain(world.nodes["vito"], eve) < 0


FAKES: dict[str, tuple[Callable[[State], State], bool]] = {
    "noise": (noise, False),
    "zeros": (lambda gradient: scaled(gradient, 0.0), True),
    "blown_up": (lambda gradient: scaled(gradient, 50.0), True),
    "slightly_perturbed": (lambda gradient: mixed(gradient, 1e-3), False),
}


@pytest.mark.parametrize("fake", FAKES)
def test_5_fake_gradient__re_execution_finds_it_and_a_fifth_is_lost(
    world: World, lab: Lab, fake: str
) -> None:
    """Attacks 5 and 19: eve sends anything but her own honest work."""
    make, screened = FAKES[fake]
    (ann, bob, cat, eve), plan = start(world, lab)
    papers = [lab.submit(plan, node) for node in (ann, bob, cat)]
    own = lab.submit(plan, eve).submission.gradient
    assert own is not None
    papers.append(lab.submit(plan, eve, gradient=make(own)))
    judge_fake(world, lab, plan, papers, screened)


@pytest.mark.parametrize("share_of_noise", [0.0, 0.05])
def test_5_perturbed_copy__is_no_duplicate_on_chain_and_invalid_all_the_same(
    world: World, lab: Lab, share_of_noise: float
) -> None:
    """Attack 5: eve re-sends bob's work with noise, so that its digest is another."""
    (ann, bob, cat, eve), plan = start(world, lab)
    papers = [lab.submit(plan, node) for node in (ann, bob, cat)]
    stolen = papers[1].submission.gradient
    assert stolen is not None
    copy = mixed(stolen, share_of_noise) if share_of_noise else scaled(stolen, 1.0001)
    papers.append(lab.submit(plan, eve, gradient=copy))
    judge_fake(world, lab, plan, papers, screened=True)


@pytest.mark.parametrize("spoof", ["skipped_steps", "own_data", "other_rate"])
def test_19_spoofed_training__re_execution_finds_it_and_a_fifth_is_lost(
    world: World, lab: Lab, spoof: str
) -> None:
    """Attack 19: real training, but of less, of other data, or with other settings."""
    (ann, bob, cat, eve), plan = start(world, lab)
    papers = [lab.submit(plan, node) for node in (ann, bob, cat)]
    task = lab.task(plan, eve)
    tasks = {
        "skipped_steps": shortened(task, 1),
        "own_data": replace(task, batch_ranges=((40, 40 + task.steps),)),
        "other_rate": replace(task, hyperparameters=replace(task.hyperparameters, lr=2e-3)),
    }
    result = lab.run(tasks[spoof])
    papers.append(lab.submit(plan, eve, result=result))
    judge_fake(world, lab, plan, papers, screened=False)


def judge_fake(world: World, lab: Lab, plan: Plan, papers: list[Paper], screened: bool) -> None:
    """From eve's fake (the last paper) to its price. `screened`: public figures give it away."""
    eve = papers[-1].node
    hand_in(world, papers)
    audit = lab.audit(plan, papers)
    if screened:
        assert eve.node_id in lab.suspects(audit)
    finding = lab.verdict(audit, eve)
    assert finding.violation is Violation.INVALID, finding.reason
    arrays, paid = offer(world, papers, lab.outcome(plan, papers))
    vic = world.nodes["vic"]
    world.chain.refuse(
        "reports: not a duplicate",
        vic.operator,
        world.reports,
        "report",
        world.job,
        world.round,
        vic.node_id,
        eve.node_id,
        COPIED,
        EMPTY,
    )
    judged(world, eve, INVALID, arrays)
    world.assert_whole(shares(paid, papers, eve))
    assert world.gain(eve) == -FIFTH
    # The first reporter's share and its pay as an attester are all that verifiers get.
    assert world.gain(vic) == FIFTH // 2 + verifier_cut(2)


def test_19_control_honest_work__is_never_a_violation_in_any_class(world: World, lab: Lab) -> None:
    """Attack 19, control: same class, exact; another class, rounding noise is within tolerance
    and real deviation is not; everybody keeps its stake and is paid."""
    nodes, plan = start(world, lab)
    papers = [lab.submit(plan, node) for node in nodes[:3]]
    cat, eve = nodes[2], nodes[3]
    rounded = mixed(papers[2].submission.gradient, 1e-4)
    papers[2] = lab.submit(plan, cat, gradient=rounded, foreign=True)
    papers.append(lab.submit(plan, eve))
    audit = lab.audit(plan, papers)
    for node in nodes:
        finding = lab.verdict(audit, node)
        assert finding.violation is None, f"{node.name}: {finding.reason}"
    far = lab.submit(plan, cat, gradient=mixed(rounded, 0.3), foreign=True)
    wrong = lab.audit(plan, [*papers[:2], far, papers[3]])
    assert lab.verdict(wrong, cat).violation is Violation.INVALID

    hand_in(world, papers)
    arrays, paid = offer(world, papers, lab.outcome(plan, papers))
    world.attest("vic", "vera")
    world.finalize(arrays)
    world.assert_whole(shares(paid, papers))
