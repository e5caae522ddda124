# SPDX-License-Identifier: Apache-2.0
"""Audits find each kind of cheat, clear every honest node, and keep their evidence checkable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.jobs.job import JobContext
from agents.protocol.draw import draw
from agents.protocol.draw_chance import Exposure
from agents.protocol.numbers import Violation
from agents.rounds.submissions import Submission, fetch
from agents.storage.canonical import loads
from agents.storage.cid import cid_of_bytes
from agents.storage.embedded import EmbeddedStore
from agents.training.state import PayloadError, State
from agents.training.trace import Trace
from agents.verify.bisection import Evidence, verify_evidence
from agents.verify.spot_checks import Finding, malformed, reexecute, suspects
from tests.stage.memory.honest_round import (
    DEVICE,
    DRAW_SEED,
    NODES,
    SEED,
    HonestRound,
    make_honest_round,
    make_tiny_job,
    make_work,
    scaled,
)

OTHER_CLASS = {"determinism_class": "torch=0;device=abacus"}


def with_cheat(tiny: HonestRound, node: int, cheat: Submission) -> list[Submission]:
    return [cheat if s.reveal.node == node else s for s in tiny.honest()]


def judge(
    tiny: HonestRound, node: int, cheat: Submission, flagged: tuple[int, ...] = ()
) -> Finding:
    return reexecute(tiny.inputs(with_cheat(tiny, node, cheat), flagged), node, DEVICE, tiny.store)


def judge_trace(tiny: HonestRound, forged: Trace) -> Finding:
    """What is found where node 5 sends its own payload with another trace."""
    proof = tiny.works[5].proof.model_copy(
        update={"trace": tiny.store.put_bytes(forged.to_bytes())}
    )
    work = replace(tiny.works[5], trace=forged.to_bytes(), trace_root=forged.root(), proof=proof)
    cheated = replace(tiny, works={**tiny.works, 5: work})
    return judge(cheated, 5, cheated.submit(5))


def perturbed(state: State, size: float) -> State:
    noise = torch.Generator().manual_seed(7)
    return {
        name: tensor
        + size * tensor.norm() / tensor.numel() ** 0.5 * torch.randn(tensor.shape, generator=noise)
        for name, tensor in state.items()
    }


def evidence_of(finding: Finding) -> dict[str, Any]:
    return loads(finding.evidence)


# -- re-execution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("node", NODES)
def test_honest_work_is_right(tiny: HonestRound, node: int) -> None:
    finding = reexecute(tiny.inputs(tiny.honest()), node, DEVICE, tiny.store)
    assert finding.violation is None and finding.label == "ok"
    assert evidence_of(finding)["same_class"] is True


CHEATS = {
    "noise": lambda tiny: {n: torch.randn_like(t) for n, t in tiny.works[5].gradient.items()},
    "zeros": lambda tiny: scaled(tiny.works[5].gradient, 0.0),
    "partner's work": lambda tiny: tiny.works[3].gradient,
    "perturbed copy": lambda tiny: perturbed(tiny.works[3].gradient, 0.01),
    "scaled up": lambda tiny: scaled(tiny.works[5].gradient, 1.5),
    "sign flipped": lambda tiny: scaled(tiny.works[5].gradient, -1.0),
}


@pytest.mark.parametrize("own_class", [True, False])
@pytest.mark.parametrize("kind", CHEATS)
def test_cheats_are_invalid_in_every_class(tiny: HonestRound, kind: str, own_class: bool) -> None:
    torch.manual_seed(1)
    payload = tiny.job.codec.encode(CHEATS[kind](tiny), None, b"")
    claims = {} if own_class else OTHER_CLASS
    cheat = fetch(tiny.reveal(5, payload, **claims), tiny.job, tiny.store)
    finding = judge(tiny, 5, cheat)
    assert finding.violation == Violation.INVALID
    found = evidence_of(finding)
    assert (found["node"], found["violation"]) == (5, "INVALID")
    assert found["content"] == cheat.reveal.content.hex()
    assert found["same_class"] is own_class


def test_one_bit_is_invalid_within_a_class_and_rounding_across(tiny: HonestRound) -> None:
    gradient = {name: tensor.clone() for name, tensor in tiny.works[5].gradient.items()}
    numbers = next(iter(gradient.values())).view(-1)
    numbers[0] = torch.nextafter(numbers[0], torch.tensor(9.0))
    payload = tiny.job.codec.encode(gradient, None, b"")
    same = fetch(tiny.reveal(5, payload), tiny.job, tiny.store)
    assert judge(tiny, 5, same).violation == Violation.INVALID
    across = fetch(tiny.reveal(5, payload, **OTHER_CLASS), tiny.job, tiny.store)
    assert judge(tiny, 5, across).violation is None


def test_a_trace_kept_back_buys_no_tolerance_where_classes_are_listed(tiny: HonestRound) -> None:
    own = tiny.works[5].proof.determinism_class
    spec = tiny.job.spec.model_copy(update={"classes": (own,)})
    listing = replace(tiny, job=JobContext(spec, tiny.store))
    payload = tiny.job.codec.encode(scaled(tiny.works[5].gradient, 1.001), None, b"")
    kept_back = {"trace": cid_of_bytes(b"never published")}
    anywhere = fetch(tiny.reveal(5, payload, **kept_back), tiny.job, tiny.store)
    found = judge(tiny, 5, anywhere)
    assert found.violation is None and found.unsure
    there = fetch(tiny.reveal(5, payload, **kept_back), listing.job, tiny.store)
    assert judge(listing, 5, there).violation == Violation.INVALID
    honest = judge(listing, 5, listing.submit(5))
    assert honest.violation is None and not honest.unsure


def test_a_copy_is_copied_only_where_the_chain_flagged_it(tiny: HonestRound) -> None:
    copy = tiny.submit(5, tiny.works[3].gradient)
    assert judge(tiny, 5, copy, flagged=(3, 5)).violation == Violation.COPIED
    assert judge(tiny, 5, copy).violation == Violation.INVALID


def test_the_victim_of_a_copy_is_cleared(tiny: HonestRound) -> None:
    submissions = with_cheat(tiny, 5, tiny.submit(5, tiny.works[3].gradient))
    finding = reexecute(tiny.inputs(submissions, (3, 5)), 3, DEVICE, tiny.store)
    assert finding.violation is None


def test_a_missing_proof_alone_is_no_violation(tiny: HonestRound) -> None:
    bare = replace(tiny.submit(5), reveal=replace(tiny.reveal(5), proof=b"\7" * 32))
    finding = judge(tiny, 5, bare)
    assert finding.violation is None
    assert evidence_of(finding)["same_class"] is False


def test_the_first_wrong_step_is_proven(tiny: HonestRound) -> None:
    """A node that leaves out its last step and traces that honestly is caught at that step."""
    own = Trace.from_bytes(tiny.works[5].trace, 5, 2)
    forged = Trace(5, (*own.hashes[:2], own.hashes[1], own.hashes[3]))
    finding = judge_trace(tiny, forged)
    assert finding.violation == Violation.INVALID
    evidence = Evidence.from_bytes(bytes.fromhex(evidence_of(finding)["bisection"]))
    assert evidence.index == 2
    assert verify_evidence(evidence, forged.root(), own) is None


def test_a_trace_may_show_fewer_states_and_proves_a_lie_all_the_same(tmp_path: Path) -> None:
    """Tasks have two steps. Where each second state is shown, the evidence is of both."""
    few = make_honest_round(EmbeddedStore(tmp_path), trace_every=2)
    honest = reexecute(few.inputs(few.honest()), 5, DEVICE, few.store)
    assert honest.violation is None and evidence_of(honest)["same_class"] is True
    own = Trace.from_bytes(few.works[5].trace, 5, 1)
    with pytest.raises(PayloadError, match="must hold 4 hashes"):
        Trace.from_bytes(few.works[5].trace, 5, 2)
    cheat = few.submit(5, few.works[3].gradient)
    finding = judge(few, 5, cheat)
    assert finding.violation == Violation.INVALID
    forged = Trace(5, (own.hashes[0], bytes(32), own.hashes[2]))
    evidence = Evidence.from_bytes(
        bytes.fromhex(evidence_of(judge_trace(few, forged))["bisection"])
    )
    assert evidence.index == 1 and verify_evidence(evidence, forged.root(), own) is None


def test_a_payload_that_cannot_be_read_cannot_be_re_executed(tiny: HonestRound) -> None:
    bad = fetch(tiny.reveal(5, b"junk"), tiny.job, tiny.store)
    with pytest.raises(ValueError, match="no readable payload"):
        judge(tiny, 5, bad)


@pytest.mark.parametrize(
    "rules",
    [
        *({"codec": codec, "merge": "norm_clip"} for codec in ("sparse", "cells", "directions")),
        {"codec": "demo", "merge": "demo_sign", "codec_options": {"memory_rounds": 20}},
    ],
)
def test_who_sent_nonsense_before_is_judged_and_stops_no_check(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    """Its accepted payload was so large that its memory is more than the codec can say: the node
    could send nothing either. An error here would end the checks of all nodes, round after round.
    """
    round_ = make_honest_round(EmbeddedStore(tmp_path), **rules)
    job, seed = round_.job, round_.plan.codec_seed(round_.job.codec, 5)
    sent = {name: torch.full(shape, -4e18) for name, shape in job.shapes.items()}
    memory = job.codec.remember(round_.works[5].gradient, None, sent)
    for _ in range(9):
        memory = job.codec.remember(round_.works[5].gradient, memory, sent)
    with pytest.raises(ValueError, match="far too large"):
        job.codec.encode(round_.works[5].gradient, memory, seed)
    seeds = {node: round_.plan.codec_seed(job.codec, node) for node in NODES}
    found = [fetch(round_.reveal(node), job, round_.store, seeds[node]) for node in NODES]
    inputs = replace(round_.inputs(found), memory=lambda node: memory if node == 5 else None)
    finding = reexecute(inputs, 5, DEVICE, round_.store)
    assert finding.violation == Violation.INVALID
    assert finding.reason.startswith("Replay can't be sent: ")
    assert reexecute(inputs, 3, DEVICE, round_.store).violation is None


# -- who is looked at ------------------------------------------------------------------------------


def test_honest_rounds_have_no_suspects(tiny: HonestRound) -> None:
    work = tiny.inputs(tiny.honest())
    assert suspects(work, tiny.store) == {}
    assert malformed(work) == []


@pytest.mark.parametrize("sample", [1, 2, 9])
def test_the_audit_seed_draws_the_sample(tiny: HonestRound, sample: int) -> None:
    due = suspects(tiny.inputs(tiny.honest(), sample=sample), tiny.store)
    assert sorted(due) == draw(DRAW_SEED, NODES, sample)
    assert all(why == ["drawn"] for why in due.values())


def test_nodes_are_drawn_by_what_they_stand_to_win_and_to_lose(tiny: HonestRound) -> None:
    """Each by its own chance: sure, half, none; the node without a payload is nobody's to redo."""
    bad = fetch(tiny.reveal(9, b"junk"), tiny.job, tiny.store)
    work = tiny.inputs(with_cheat(tiny, 9, bad))
    risks = {3: Exposure(1, 0), 5: Exposure(0, 0), 8: Exposure(4, 5), 9: Exposure(1, 0)}
    drawn = []
    for number in range(40):
        seed = number.to_bytes(32, "big")
        due = suspects(replace(work, exposures=risks, draw_seed=seed), tiny.store)
        assert {3} <= due.keys() <= {3, 8}
        drawn.append(8 in due)
    assert 10 <= sum(drawn) <= 30


def test_flagged_duplicates_are_both_looked_at(tiny: HonestRound) -> None:
    submissions = with_cheat(tiny, 5, tiny.submit(5, tiny.works[3].gradient))
    due = suspects(tiny.inputs(submissions, (3, 5)), tiny.store)
    assert {3, 5} <= due.keys()
    assert "identical content" in due[3] and "identical content" in due[5]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        *[("perturbed copy", "NEAR_COPY"), ("zeros", "NORM"), ("noise", "NORM")],
        ("sign flipped", "DIRECTION"),
    ],
)
def test_public_screening_points_at_cheats(tiny: HonestRound, kind: str, reason: str) -> None:
    """They are read without a bound, as in a job whose codec leaves something out."""
    torch.manual_seed(1)
    payload = tiny.job.codec.encode(CHEATS[kind](tiny), None, b"")
    cheat = fetch(tiny.reveal(5, payload), tiny.job, tiny.store)
    due = suspects(tiny.inputs(with_cheat(tiny, 5, cheat)), tiny.store)
    assert any(why.startswith(reason) for why in due[5])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("compute_time_ms", 10**7), ("steps", 1)],
        *((digest, "00" * 32) for digest in ("task", "gradient_hash", "trace_root")),
    ],
)
def test_a_proof_that_contradicts_is_looked_at(tiny: HonestRound, field: str, value: Any) -> None:
    odd = fetch(tiny.reveal(8, **{field: value}), tiny.job, tiny.store)
    assert list(suspects(tiny.inputs(with_cheat(tiny, 8, odd)), tiny.store)) == [8]


def test_a_missing_proof_is_looked_at(tiny: HonestRound) -> None:
    bare = replace(tiny.submit(8), reveal=replace(tiny.reveal(8), proof=b"\7" * 32))
    due = suspects(tiny.inputs(with_cheat(tiny, 8, bare)), tiny.store)
    assert due[8][0].startswith("no usable proof")


def test_a_malformed_payload_is_a_finding_and_a_missing_one_is_not(tiny: HonestRound) -> None:
    bad = fetch(tiny.reveal(5, b"junk"), tiny.job, tiny.store)
    lost = fetch(replace(tiny.reveal(8), content=b"\7" * 32), tiny.job, tiny.store)
    rest = [s for s in tiny.honest() if s.reveal.node in (3, 9)]
    work = tiny.inputs([*rest, bad, lost], sample=9)
    found = malformed(work)
    assert [(f.node, f.violation) for f in found] == [(5, Violation.INVALID)]
    assert evidence_of(found[0])["reason"].startswith("bad payload: ")
    assert sorted(suspects(work, tiny.store)) == [3, 9]


def test_evidence_of_the_same_case_has_the_same_bytes(tiny: HonestRound) -> None:
    cheat = tiny.submit(5, tiny.works[3].gradient)
    assert judge(tiny, 5, cheat).evidence == judge(tiny, 5, cheat).evidence


def test_a_node_without_batches_is_right_to_reveal_zeros(tiny: HonestRound) -> None:
    """More nodes than batches: some get none, and their honest payload is all zeros."""
    from agents.rounds.plan import Plan
    from agents.training.assignment import assign

    spec = tiny.job.spec.model_copy(update={"batches_per_round": 3})
    plan = Plan(assign(b"\1" * 32, NODES, (1, 1, 1, 1), spec), 0, (), 0)
    idle = next(a.node for a in plan.manifest.assignments if a.batches == 0)
    works = {idle: make_work(tiny.job, plan, tiny.before, idle)}
    small = replace(tiny, plan=plan, works=works)
    submission = small.submit(idle)
    assert all(not tensor.any() for tensor in submission.gradient.values())
    finding = reexecute(small.inputs([submission]), idle, DEVICE, small.store)
    assert finding.violation is None


@pytest.mark.parametrize("codec", ["polytope", "sparse", "cells", "directions", "dense"])
def test_a_node_without_batches_that_sends_something_is_found_in_every_class(
    tmp_path: Path, codec: str
) -> None:
    """No rounding makes an update of zeros."""
    everybody, weights = (*NODES, 11), (100, 100, 100, 300, 1)
    rules = {"batches_per_round": 4, "codec": codec, "merge": "mean", "score": "batches"}
    tiny = make_tiny_job(EmbeddedStore(tmp_path), **rules)
    plan = tiny.plan_of(SEED, everybody, weights)
    idle = plan.manifest.of(11)
    assert idle is not None and idle.batches == 0
    anything = {name: torch.full(shape, 0.05) for name, shape in tiny.job.shapes.items()}
    verdicts = {}
    for name, gradient in {"nothing": None, "something": anything}.items():
        work = make_work(tiny.job, plan, tiny.before, 11, gradient=gradient)
        sent = replace(work, proof=work.proof.model_copy(update=OTHER_CLASS))
        sent.publish(tiny.store)
        seed = plan.codec_seed(tiny.job.codec, 11)
        found = fetch(sent.reveal(), tiny.job, tiny.store, seed)
        inputs = replace(tiny.inputs_of(plan, []), submissions=[found])
        verdicts[name] = reexecute(inputs, 11, DEVICE, tiny.store).violation
    assert verdicts == {"nothing": None, "something": Violation.INVALID}
