# SPDX-License-Identifier: Apache-2.0
"""Attacks 3, 4, 5 and 19: shared, stolen, perturbed and invented work, and its control.

Rule: a cheat ends with less than it had, and less than honest work would have given; whoever did
the work is paid to the unit, even if the thief came first, even if the copy is its partner's. The
verdicts come from re-execution of real pseudo-gradients (`tests/stage/memory/honest_round.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from agents.jobs.publish import ZOO
from agents.protocol.numbers import Violation
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.training.assignment import work_order
from agents.training.state import State, model_hash
from agents.verify.spot_checks import suspects
from tests.attacks.conftest import (
    PublishedWork,
    finding_of,
    inputs_of,
    mixed,
    outcome_of,
    plan_of,
    publish_work,
    shortened,
)
from tests.stage.chain.people import (
    COMMIT,
    COPIED,
    EMPTY,
    INVALID,
    CommittedWork,
    Node,
    People,
    share,
    verifier_cut,
)
from tests.stage.memory.honest_round import JOB, TinyJob, noise, scaled

HALF, FIFTH = 50 * ZOO, 20 * ZOO  # of the least stake


def hand_in(people: People, works: Sequence[PublishedWork]) -> None:
    """Commit and reveal these submissions, in this order, in the open round."""
    for work in works:
        people.commit(work.node, work.committed)
    people.pass_phase(COMMIT)
    for work in works:
        people.reveal(work.node, work.committed)


def offer(
    people: People, works: Sequence[PublishedWork], outcome: Outcome
) -> tuple[tuple[list[int], list[int]], dict[int, int]]:
    """The aggregator on duty proposes the outcome; its arrays, and contributions by node id."""
    pay = dict(zip(outcome.nodes, outcome.contributions, strict=True))
    paid = {p.node: pay[p.node.node_id] for p in works if p.node.node_id in pay}
    return people.offer(paid, label="real"), pay


def judged(people: People, cheat: Node, violation: int, arrays: tuple) -> None:
    """Two of three verifiers report the cheat, attest the result; the report is carried out."""
    report = people.report(cheat, violation, "vic", "vera")
    people.confirm(arrays)
    people.execute(report)


def shares(pay: dict[int, int], works: Sequence[PublishedWork], *cheats: Node) -> dict[Node, int]:
    """What the honest nodes get: what the cheats would have got is spread over nobody."""
    total = sum(pay.values())
    return {
        work.node: share(pay.get(work.node.node_id, 0), total)
        for work in works
        if work.node not in cheats
    }


def start(people: People, tiny: TinyJob) -> tuple[list[Node], Plan]:
    """Open the round; its four trainers, and its plan."""
    return [people.nodes[name] for name in ("ann", "bob", "cat", "eve")], plan_of(tiny, people)


def test_3_colluders_share_a_gradient__copier_loses_half_and_the_pair_loses(
    people: People, tiny: TinyJob
) -> None:
    """Attack 3: bob hands his work to eve; she trains nothing and re-sends it.

    Together they get less than had both been honest, and less than had eve stayed away.
    """
    (ann, bob, cat, eve), plan = start(people, tiny)
    honest = [publish_work(tiny, plan, node) for node in (ann, bob, cat)]
    partner = honest[1]
    copy = publish_work(tiny, plan, eve, gradient=partner.submission.gradient)
    works = [*honest, copy]
    assert copy.committed.content == partner.committed.content
    hand_in(people, works)
    for node, flagged in ((ann, False), (bob, True), (cat, False), (eve, True)):
        asked = (*people.place, node.node_id)
        assert people.chain.call(people.rounds, "is_flagged", *asked) is flagged

    inputs = inputs_of(tiny, plan, works, flagged=(bob, eve))
    assert set(suspects(inputs, tiny.store)) >= {bob.node_id, eve.node_id}
    assert finding_of(tiny, inputs, bob).violation is None
    assert finding_of(tiny, inputs, eve).violation is Violation.COPIED

    arrays, paid = offer(people, works, outcome_of(tiny, plan, works))
    judged(people, eve, COPIED, arrays)
    pay = shares(paid, works, eve)
    people.assert_whole(pay)
    assert people.gain(eve) == -HALF
    had_both_been_honest = [*honest, publish_work(tiny, plan, eve)]
    better = outcome_of(tiny, plan, had_both_been_honest)
    due = shares(dict(zip(better.nodes, better.contributions, strict=True)), had_both_been_honest)
    assert people.gain(bob, eve) < due[bob] + due[eve]
    assert people.gain(bob, eve) < pay[bob]


def test_4_thief_commits_the_victims_work_first__victim_is_paid_and_thief_loses_half(
    people: People, tiny: TinyJob
) -> None:
    """Attack 4: eve gets hold of ann's work before ann commits, and is first on chain with it."""
    (ann, bob, cat, eve), plan = start(people, tiny)
    honest = [publish_work(tiny, plan, node) for node in (ann, bob, cat)]
    theft = publish_work(tiny, plan, eve, gradient=honest[0].submission.gradient)
    works = [theft, *honest]
    hand_in(people, works)
    ordered = sorted(works, key=lambda work: work.node.node_id)

    inputs = inputs_of(tiny, plan, ordered, flagged=(ann, eve))
    assert finding_of(tiny, inputs, ann).violation is None
    assert finding_of(tiny, inputs, eve).violation is Violation.COPIED

    arrays, paid = offer(people, ordered, outcome_of(tiny, plan, ordered))
    judged(people, eve, COPIED, arrays)
    people.assert_whole(shares(paid, ordered, eve))
    assert people.gain(eve) == -HALF


def test_4_accomplice_verifier_accuses_the_victim__alone_it_changes_nothing(
    people: People, ann: Node, bob: Node, eve: Node
) -> None:
    """Attack 4: one of three verifiers frames the victim of the theft; a third is no quorum."""
    works = {"eve": replace(CommittedWork.of("eve"), content=CommittedWork.of("ann").content)}
    people.train(eve, ann, bob, works=works)
    arrays = people.offer({ann: 1, bob: 1, eve: 1})
    framing = people.report(ann, COPIED, "vito")
    true_report = people.report(eve, COPIED, "vic", "vera")
    people.attest("vic", "vera")
    people.chain.refuse(
        "results: not finalizable",
        people.faucet,
        people.results,
        "finalize",
        *people.place,
        *arrays,
    )
    people.wait_until(int(people.state.deadline))
    people.finalize(arrays)
    people.chain.send(people.faucet, people.reports, "lapse", framing)
    people.execute(true_report)
    people.assert_whole({ann: share(1, 3), bob: share(1, 3)})
    assert people.gain(eve) == -HALF
    assert people.gain(people.nodes["vito"], eve) < 0


FAKES: dict[str, tuple[Callable[[State], State], bool]] = {
    "noise": (noise, False),
    "zeros": (lambda gradient: scaled(gradient, 0.0), True),
    "blown_up": (lambda gradient: scaled(gradient, 50.0), True),
    "slightly_perturbed": (lambda gradient: mixed(gradient, 1e-3), False),
}


@pytest.mark.parametrize("fake", FAKES)
def test_5_fake_gradient__re_execution_finds_it_and_a_fifth_is_lost(
    people: People, tiny: TinyJob, fake: str
) -> None:
    """Attacks 5 and 19: eve sends anything but her own honest work."""
    make, screened = FAKES[fake]
    (ann, bob, cat, eve), plan = start(people, tiny)
    works = [publish_work(tiny, plan, node) for node in (ann, bob, cat)]
    own = publish_work(tiny, plan, eve).submission.gradient
    assert own is not None
    works.append(publish_work(tiny, plan, eve, gradient=make(own)))
    judge_fake(people, tiny, plan, works, screened)


@pytest.mark.parametrize("share_of_noise", [0.0, 0.05])
def test_5_perturbed_copy__is_no_duplicate_on_chain_and_invalid_all_the_same(
    people: People, tiny: TinyJob, share_of_noise: float
) -> None:
    """Attack 5: eve re-sends bob's work with noise, so that its digest is another."""
    (ann, bob, cat, eve), plan = start(people, tiny)
    works = [publish_work(tiny, plan, node) for node in (ann, bob, cat)]
    stolen = works[1].submission.gradient
    assert stolen is not None
    copy = mixed(stolen, share_of_noise) if share_of_noise else scaled(stolen, 1.0001)
    works.append(publish_work(tiny, plan, eve, gradient=copy))
    judge_fake(people, tiny, plan, works, screened=True)


@pytest.mark.parametrize("spoof", ["skipped_steps", "own_data", "other_rate"])
def test_19_spoofed_training__re_execution_finds_it_and_a_fifth_is_lost(
    people: People, tiny: TinyJob, spoof: str
) -> None:
    """Attack 19: real training, but of less, of other data, or with other settings."""
    (ann, bob, cat, eve), plan = start(people, tiny)
    works = [publish_work(tiny, plan, node) for node in (ann, bob, cat)]
    model = model_hash(tiny.before)
    task = work_order(plan.manifest, eve.node_id, tiny.job.spec, JOB, plan.step, model)
    tasks = {
        "skipped_steps": shortened(task, 1),
        "own_data": replace(task, batch_ranges=((40, 40 + task.steps),)),
        "other_rate": replace(task, hyperparameters=replace(task.hyperparameters, lr=2e-3)),
    }
    works.append(publish_work(tiny, plan, eve, order=tasks[spoof]))
    judge_fake(people, tiny, plan, works, screened=False)


def judge_fake(
    people: People, tiny: TinyJob, plan: Plan, works: list[PublishedWork], screened: bool
) -> None:
    """From eve's fake (the last work) to its price. `screened`: public figures give it away."""
    eve = works[-1].node
    hand_in(people, works)
    inputs = inputs_of(tiny, plan, works)
    if screened:
        assert eve.node_id in set(suspects(inputs, tiny.store))
    finding = finding_of(tiny, inputs, eve)
    assert finding.violation is Violation.INVALID, finding.reason
    arrays, paid = offer(people, works, outcome_of(tiny, plan, works))
    vic = people.nodes["vic"]
    people.chain.refuse(
        "reports: not a duplicate",
        vic.operator,
        people.reports,
        "report",
        *people.place,
        vic.node_id,
        eve.node_id,
        COPIED,
        EMPTY,
    )
    judged(people, eve, INVALID, arrays)
    people.assert_whole(shares(paid, works, eve))
    assert people.gain(eve) == -FIFTH
    # The first reporter's share and its pay as an attester are all that verifiers get.
    assert people.gain(vic) == FIFTH // 2 + verifier_cut(2)


def test_19_control_honest_work__is_never_a_violation_in_any_class(
    people: People, tiny: TinyJob
) -> None:
    """Attack 19, control: same class, exact; another class, rounding noise is within tolerance
    and real deviation is not; everybody keeps its stake and is paid."""
    nodes, plan = start(people, tiny)
    works = [publish_work(tiny, plan, node) for node in nodes[:3]]
    cat, eve = nodes[2], nodes[3]
    rounded = mixed(works[2].submission.gradient, 1e-4)
    works[2] = publish_work(tiny, plan, cat, gradient=rounded, foreign=True)
    works.append(publish_work(tiny, plan, eve))
    inputs = inputs_of(tiny, plan, works)
    for node in nodes:
        finding = finding_of(tiny, inputs, node)
        assert finding.violation is None, f"{node.name}: {finding.reason}"
    far = publish_work(tiny, plan, cat, gradient=mixed(rounded, 0.3), foreign=True)
    wrong = inputs_of(tiny, plan, [*works[:2], far, works[3]])
    assert finding_of(tiny, wrong, cat).violation is Violation.INVALID

    hand_in(people, works)
    arrays, paid = offer(people, works, outcome_of(tiny, plan, works))
    people.confirm(arrays)
    people.assert_whole(shares(paid, works))
