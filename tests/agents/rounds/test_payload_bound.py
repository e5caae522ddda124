# SPDX-License-Identifier: Apache-2.0
"""A payload that no honest work gives is none for everybody, and honest ones are far below that."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.work.submitted import read_submissions
from agents.jobs.job import JobContext
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.parts.noise import SecretGenerator
from agents.protocol.numbers import Violation
from agents.rounds.payload_bound import Bound, bound_of, no_bound
from agents.rounds.plan import Plan
from agents.rounds.reader import RoundReader
from agents.storage.embedded import EmbeddedStore
from agents.training.most_moved import MARGIN
from agents.training.spec import JobSpec
from agents.training.state import PayloadError, State, model_hash
from agents.verify.spot_checks import malformed
from tests.stage.memory.honest_round import (
    DEVICE,
    NODES,
    SEED,
    ChainFacts,
    HonestRound,
    make_honest_round,
    make_work,
    scaled,
)
from tests.stage.memory.tiny_specs import GAUNTLET

STEPS = {"batch_size": 2, "seq_len": 16}
KEPT = {**STEPS, "inner_state": "kept", "inner_state_rounds": 4}
NOISE = {"privacy": "gaussian", "privacy_options": {"noise_multiplier": 4.0}}
NODE = 5
BUSY = 9  # makes more steps


@pytest.fixture(scope="module", params=["adamw", "muon"])
def each(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    store = EmbeddedStore(tmp_path_factory.mktemp(request.param) / "store")
    return make_honest_round(store, optimizer={**STEPS, "inner": request.param})


def spoilt(honest: State, how: str) -> State:
    """The honest payload with one number, a vector or all of it out of bounds."""
    found = {name: tensor.clone() for name, tensor in honest.items()}
    if how == "number":
        max(found.values(), key=torch.Tensor.numel).view(-1)[7] = 1.0
    elif how == "vector":
        next(t for t in found.values() if t.dim() == 1).fill_(-1.0)
    else:
        found = scaled(found, 1e15)
    return found


# -- what everybody makes of it ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["number", "vector", "all"])
def test_a_spoilt_payload_is_a_finding_by_itself_and_moves_nothing(
    each: HonestRound, how: str
) -> None:
    bad = each.submit(NODE, spoilt(each.works[NODE].gradient, how))
    assert bad.gradient is None and bad.reason.startswith("bad payload: ")
    assert "moved further than a round" in bad.reason
    others = [one for one in each.honest() if one.reveal.node != NODE]
    with_it = sorted([*others, bad], key=lambda one: one.reveal.node)
    assert model_hash(each.compute(with_it).state) == model_hash(each.compute(others).state)
    (finding,) = malformed(each.inputs(with_it))
    assert (finding.node, finding.violation) == (NODE, Violation.INVALID)


def test_a_copy_of_a_node_that_made_more_steps_is_still_a_copy(each: HonestRound) -> None:
    """The copier's own steps can't give it, so it is malformed, and equal contents are flagged."""
    copied = each.submit(NODE, each.works[BUSY].gradient)
    assert copied.gradient is None
    others = [one for one in each.honest() if one.reveal.node != NODE]
    (finding,) = malformed(each.inputs([copied, *others], (NODE, BUSY)))
    assert (finding.node, finding.violation) == (NODE, Violation.COPIED)


def test_readers_of_the_chain_and_auditors_say_the_same(each: HonestRound) -> None:
    """So do aggregators, verifiers and members, who all read through the one `RoundReader`."""
    payload = each.job.codec.encode(spoilt(each.works[NODE].gradient, "number"), None, b"")
    facts = ChainFacts(each.published)
    view = facts.open(1, SEED)
    facts.revealed = {one: each.reveal(one, payload if one == NODE else None) for one in NODES}
    reveals = [facts.revealed[node] for node in NODES]
    read = RoundReader(facts, each.store, DEVICE).submissions(view)
    plan, before = each.plan, model_hash(each.before)
    audited = read_submissions(
        Part(1), each.job, Artefacts(each.store), plan, reveals, frozenset(), before,
        each.before, None,
    )  # fmt: skip
    reasons = [one.reason for one in read]
    assert reasons == [one.reason for one in audited]
    assert [bool(reason) for reason in reasons] == [node == NODE for node in NODES]


# -- honest payloads -----------------------------------------------------------------------------


@pytest.mark.parametrize("node", NODES)
def test_an_honest_payload_is_below_the_bound_itself(each: HonestRound, node: int) -> None:
    """Not only below `MARGIN` times as much: so much longer it still is none."""
    allowed = bound_of(each.job, each.plan, node, lambda: each.before)
    allowed(scaled(each.works[node].gradient, MARGIN))


def test_a_node_is_bounded_by_its_own_batches(each: HonestRound) -> None:
    """One with six of twelve may not pass what it made for one with two."""
    far = each.works[9].gradient
    bound_of(each.job, each.plan, 9, lambda: each.before)(far)
    with pytest.raises(PayloadError):
        bound_of(each.job, each.plan, 3, lambda: each.before)(scaled(far, MARGIN))


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_state_that_is_kept_lets_a_step_be_longer(tmp_path: Path, inner: str) -> None:
    """Each of four rounds begins with what the ones before have gathered."""
    options = {**KEPT, "inner": inner, "betas": (0.9, 0.999)}
    tiny = make_honest_round(EmbeddedStore(tmp_path / "store"), optimizer=options)
    state = None
    for step in range(4):
        plan = replace(tiny.plan, step=step)
        work = make_work(tiny.job, plan, tiny.before, NODE, inner=state)
        bound_of(tiny.job, plan, NODE, lambda: tiny.before)(scaled(work.gradient, MARGIN))
        state = work.inner
    rate = tiny.job.spec.optimizer.lr_at(3, tiny.job.spec.rounds)
    long = {name: torch.zeros(shape) for name, shape in tiny.job.shapes.items()}
    long["norm.weight"][0] = 2.6 * 2 * rate  # two batches, by more than `MARGIN` times the rate
    bound_of(tiny.job, plan, NODE, lambda: tiny.before)(long)
    zero = tiny.job.spec.optimizer.model_copy(update={"inner_state": "zero"})
    starts = JobContext(tiny.job.spec.model_copy(update={"optimizer": zero}), tiny.store)
    with pytest.raises(PayloadError):
        bound_of(starts, plan, NODE, lambda: tiny.before)(long)


# -- noise ---------------------------------------------------------------------------------------


class Words(SecretGenerator):
    """The system's words, but for one of the least, whose draw is as long as a draw can be."""

    def words(self, count: int) -> NDArray[np.uint64]:
        found = super().words(count).copy()
        found[0] = 0
        return found


@given(st.floats(0.1, 30.0), st.floats(1e-3, 10.0), st.sampled_from([0.0, 0.5, 1.0, 1e6]))
@settings(max_examples=25, deadline=None)
def test_what_is_released_under_noise_is_below_the_bound(
    tiny: HonestRound, multiplier: float, clip: float, size: float
) -> None:
    privacy = Gaussian(clip=clip, noise_multiplier=multiplier, max_epsilon=1e6)
    allowed = under_noise(tiny, privacy)
    update = {name: torch.full(shape, clip * size) for name, shape in tiny.job.shapes.items()}
    allowed(privacy.release(update, Words()))


def under_noise(tiny: HonestRound, privacy: Gaussian) -> Bound:
    fields = {**tiny.job.spec.model_dump(mode="json"), **NOISE, "merge": "mean"}
    job = JobContext(JobSpec.from_dict(fields), tiny.store)
    job.privacy = privacy
    return bound_of(job, tiny.plan, NODE, no_model)


def no_model() -> State:
    raise AssertionError("nothing here depends on the model")


def test_a_payload_beyond_noise_is_refused(tiny: HonestRound) -> None:
    privacy = Gaussian(clip=1.0, noise_multiplier=1.0, max_epsilon=1e6)
    allowed, shapes = under_noise(tiny, privacy), tiny.job.shapes
    one = {name: torch.zeros(shape) for name, shape in shapes.items()}
    one["norm.weight"][3] = 1.02 * (1.0 + 10.0 * privacy.sigma)
    with pytest.raises(PayloadError, match="a number above"):
        allowed(one)
    count = sum(math.prod(shape) for shape in shapes.values())
    longest = 1.02 * (1.0 + privacy.sigma * (math.sqrt(count) + 13.0)) / math.sqrt(count)
    with pytest.raises(PayloadError, match="long, and a clipped update"):
        allowed({name: torch.full(shape, longest) for name, shape in shapes.items()})


# -- which jobs ----------------------------------------------------------------------------------


def test_a_job_of_free_nodes_has_no_bound(tmp_path: Path) -> None:
    """Its nodes start where they like; what is merged is plausible beside the others."""
    fields = {**GAUNTLET, "optimizer": {**STEPS, "inner": "gradient"}}
    tiny = make_honest_round(EmbeddedStore(tmp_path / "store"), **fields)
    assert bound_of(tiny.job, tiny.plan, NODE, no_model) is no_bound


def test_who_was_handed_nothing_may_say_nothing(tiny: HonestRound) -> None:
    idle = Plan(replace(tiny.plan.manifest, assignments=tuple(
        replace(one, ranges=()) for one in tiny.plan.manifest.assignments
    )), 0, (), 0)  # fmt: skip
    allowed = bound_of(tiny.job, idle, NODE, lambda: tiny.before)
    allowed(scaled(tiny.works[NODE].gradient, 0.0))
    with pytest.raises(PayloadError):
        allowed(tiny.works[NODE].gradient)
