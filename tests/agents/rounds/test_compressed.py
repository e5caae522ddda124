# SPDX-License-Identifier: Apache-2.0
"""Rounds between full synchronisations: compressed payloads, what is owed, and fixed seats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.jobs.job import SpecError
from agents.rounds.carried import Carried
from agents.rounds.inputs import RoundInputs
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.reader import RoundReader
from agents.rounds.stage_payload import packed
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent
from agents.training.norms import distance, norm
from agents.training.spec import demo_spec
from agents.training.state import State, model_hash
from agents.verify.rounding import decides_what_is_owed
from tests.stage.memory.honest_round import DEVICE, JOB
from tests.stage.memory.mined_round import (
    MINERS,
    OTHER_CLASS,
    PIPELINE,
    MinedRound,
    make_mined_job,
)
from tests.stage.memory.mined_run import ROUNDS, SHARING, Run, run, seats

NODE = MINERS[2]


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("five"))


def same(one: State | None, other: State | None) -> bool:
    if one is None or other is None:
        return one is other
    return model_hash(one) == model_hash(other)


def test_payloads_are_short_between_full_synchronisations(five: Run) -> None:
    sizes = [[len(payload) for payload in payloads.values()] for payloads in five.payloads]
    for step, lengths in enumerate(sizes):
        full = step in (2, 4)
        assert five.rounds[step].job.spec.is_full(step) == full
        assert (min(lengths) > 8_000) if full else (max(lengths) < 2_000)
    assert five.outcomes[-1].report.val_loss < five.outcomes[0].report.val_loss_before - 0.1


def test_what_was_not_said_is_owed_until_a_full_synchronisation_says_it(five: Run) -> None:
    owed = [before.get(NODE) for before in five.owed]
    assert [one is None for one in owed] == [True, False, False, True, False]
    last = five.rounds[2]
    whole = five.outcomes[2].merged
    name = next(iter(last.works[NODE].change))
    assert owed[2] is not None and owed[2][name].any()
    payload = last.submit(NODE, payload=five.payloads[2][NODE]).gradient
    assert payload is not None and name in whole
    assert torch.equal(payload[name], last.works[NODE].change[name] + owed[2][name])


@pytest.mark.parametrize("step", range(ROUNDS))
def test_a_verifier_that_comes_later_finds_what_is_owed_to_the_bit(five: Run, step: int) -> None:
    memories = five.memories()
    for node in MINERS:
        assert same(memories.before(JOB, five.rounds[step].plan, node), five.owed[step].get(node))


def test_what_is_owed_after_honest_work_moves_with_the_last_bits_of_the_weights_by_next_to_nothing(
    five: Run,
) -> None:
    limit = five.rounds[0].job.spec.tolerances.rel_l2_max
    for step in (1, 2, 4):
        memories, plan = five.memories(), five.rounds[step].plan
        owed, own = five.owed[step][NODE], five.rounds[step].works[NODE].change
        other = memories.before(JOB, plan, NODE, moved_by=b"\1" * 32)
        assert owed is not None and other is not None and not same(owed, other)
        assert distance(owed, other) < 1e-3 * norm(owed)
        assert not decides_what_is_owed(owed, other, own, limit, 0.0)
        assert same(memories.before(JOB, plan, NODE), owed), "what was moved is not kept"
        assert same(inputs_of(five, step).moved_memory(NODE, b"\1" * 32), other)
        assert same(inputs_of(five, step).memory(NODE), owed)
    assert five.memories().before(JOB, five.rounds[3].plan, NODE, moved_by=b"\1" * 32) is None


def inputs_of(five: Run, step: int) -> RoundInputs:
    """As everybody has them who judges a round."""
    mined = five.rounds[step]
    reader = RoundReader(five.facts, mined.store, DEVICE)
    facts = mined.job, JOB, step + 1, mined.plan, mined.before
    return reader.inputs_at(*facts, five.submissions[step])


@pytest.mark.parametrize("step", range(ROUNDS))
def test_honest_miners_pass_and_so_does_the_next_step(five: Run, step: int) -> None:
    found = five.check(step, NODE)
    assert found.right and found.details["same_class"]


@pytest.mark.parametrize("step", [1, 2])
def test_a_miner_that_forgets_what_it_owes_is_found(five: Run, step: int) -> None:
    mined = five.rounds[step]
    payload, _ = packed(mined.job, mined.plan, NODE, mined.works[NODE].change, None)
    assert payload != five.payloads[step][NODE]
    assert not five.check(step, NODE, payload=payload).right


def test_a_miner_that_sends_another_change_is_found(five: Run) -> None:
    mined = five.rounds[1]
    twice = {name: 2 * tensor for name, tensor in mined.works[NODE].change.items()}
    payload, _ = packed(mined.job, mined.plan, NODE, twice, five.owed[1][NODE])
    found = five.check(1, NODE, payload=payload)
    assert not found.right and "cosine" in found.details


def test_another_class_is_judged_by_its_cosine(five: Run) -> None:
    found = five.check(1, NODE, determinism=OTHER_CLASS)
    assert found.right and not found.details["same_class"]
    assert found.details["cosine"] == pytest.approx(1.0)


def sent_of(five: Run, step: int, change: State) -> bytes:
    """What the node would send of another change in this round."""
    mined = five.rounds[step]
    return packed(mined.job, mined.plan, NODE, change, five.owed[step].get(NODE))[0]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("share", [4.9e-5, 2.4e-3])
def test_rounding_of_another_class_passes_whatever_the_codec_then_chooses(
    five: Run, step: int, share: float
) -> None:
    """As much as honest machines were seen to differ by in settled rounds, and without a warm-up.
    The codec then names other numbers: decoded payloads are further apart than the tolerance."""
    own = five.rounds[step].works[NODE].change
    found = five.check(
        step, NODE, payload=sent_of(five, step, moved(own, share)), determinism=OTHER_CLASS
    )
    assert found.right, found.reason


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_longer_or_shorter_change_is_found_in_another_class(
    five: Run, step: int, factor: float
) -> None:
    """The wide tolerances of lossy codecs are not for what was not compressed."""
    own = {name: factor * tensor for name, tensor in five.rounds[step].works[NODE].change.items()}
    found = five.check(step, NODE, payload=sent_of(five, step, own), determinism=OTHER_CLASS)
    assert not found.right and "Replay disagrees" in found.reason


def moved(state: State, share: float) -> State:
    """The state, this share of its length away from where it was."""
    source = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(state[name].shape, generator=source) for name in sorted(state)}
    scale = share * norm(state) / norm(drawn)
    return {name: state[name] + scale * drawn[name] for name in state}


def test_the_nodes_own_copy_saves_the_replay(five: Run) -> None:
    kept = {(JOB, 2, five.rounds[1].plan.manifest.seed): Carried(five.owed[2][NODE])}
    memories = five.memories()
    memories._store = None  # type: ignore[assignment]
    plan = five.rounds[2].plan
    found = memories.before(JOB, plan, NODE, lambda *place: kept.get(place))
    assert same(found, five.owed[2][NODE])


def test_a_round_in_which_a_node_was_found_invalid_leaves_nothing(five: Run) -> None:
    plan = five.rounds[1].plan
    for invalid, nothing in ((1, NODE), True), ((2, NODE), False), ((1, NODE + 1), False):
        found = five.memories().before(JOB, replace(plan, invalid=frozenset({invalid})), NODE)
        assert (found is None) == nothing, invalid


def test_artefacts_of_an_earlier_round_that_are_gone_are_said(five: Run, tmp_path: Path) -> None:
    memories = five.memories()

    class Poor(EmbeddedStore):
        def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
            if digest == five.facts.by_round[1][NODE].content:
                raise CorruptContent("it is gone")
            return super().get_digest(digest, max_bytes)

    memories._store = Poor(five.rounds[0].store.root)
    with pytest.raises(CorruptContent, match="can't be read any more"):
        memories.before(JOB, five.rounds[1].plan, NODE)


# -- seats ----------------------------------------------------------------------------------------


def test_seats_change_after_a_full_synchronisation_only(five: Run) -> None:
    plans = [mined.plan for mined in five.rounds]
    assert seats(plans[0]) == seats(plans[1]) == seats(plans[2])
    assert seats(plans[2]) != seats(plans[3]) == seats(plans[4])


def test_everybody_derives_the_same_seats_from_the_chain(tmp_path: Path) -> None:
    """Nodes come, stay away for a round, and come back."""
    present = ((2, 3, 5, 7), (2, 3, 5, 7, 8, 9), (2, 5, 7, 8), (3, 5, 7, 8, 9), (2, 3, 5, 7, 8, 9))
    made = run(tmp_path, present, batches_per_round=4)
    plans = Plans(made.facts, Models(made.facts, made.rounds[0].store))
    for number, mined in enumerate(made.rounds, 1):
        found = plans.past(JOB, number)
        assert found.epoch == mined.plan.epoch and found.manifest == mined.plan.manifest
        assert found.seats == mined.plan.seats
    first, second, third = (seats(mined.plan) for mined in made.rounds[:3])
    assert all(second[node] == stage for node, stage in first.items())
    assert set(third.values()) == {0, 1, 2}
    assert sum(third[node] != second[node] for node in third) <= 1, "one at most fills a gap"


def test_what_a_node_owes_stays_while_it_is_away(tmp_path: Path) -> None:
    present = (MINERS, [node for node in MINERS if node != NODE], MINERS)
    made = run(tmp_path, present)
    before = made.owed[2][NODE]
    assert before is not None and same(before, made.owed[1][NODE])
    assert same(made.memories().before(JOB, made.rounds[2].plan, NODE), before)


def test_declared_memory_decides_from_the_second_round_on(tmp_path: Path) -> None:
    """Two nodes have room for the first stage only, and say so in their proofs."""
    pipeline: dict[str, Any] = {"declared_memory": True, "sharing": {"full_every": 1}}
    job = make_mined_job(EmbeddedStore(tmp_path / "asked"), pipeline={**PIPELINE, **pipeline})[
        0
    ].job
    needs = job.stages_need
    assert needs[0] != needs[2]
    small = needs.index(min(needs))
    declared = {node: max(needs) for node in MINERS} | dict.fromkeys(MINERS[:2], min(needs))
    made = run(tmp_path / "run", (MINERS,) * 4, declared, pipeline=pipeline, batches_per_round=6)
    for outcome in made.outcomes:
        assert outcome.report.declared() == declared
    for mined in made.rounds[1:]:
        assert [seats(mined.plan)[node] for node in MINERS[:2]] == [small, small]
    plans = Plans(made.facts, Models(made.facts, made.rounds[0].store))
    for number, mined in enumerate(made.rounds, 1):
        assert plans.past(JOB, number).epoch == mined.plan.epoch


def test_jobs_that_do_not_seat_by_memory_report_none(tmp_path: Path) -> None:
    made = run(tmp_path, (MINERS,), {NODE: 1 << 30})
    assert made.outcomes[0].report.declared() == {}
    assert b"memory" not in made.outcomes[0].report.to_bytes()
    assert b"declared_memory" not in made.rounds[0].job.spec.to_bytes()


# -- the job --------------------------------------------------------------------------------------


def test_without_sharing_plans_and_bytes_are_as_before(mined: MinedRound) -> None:
    assert b"sharing" not in mined.job.spec.to_bytes()
    assert mined.job.codec_at(0) is mined.job.codec and mined.job.spec.is_full(0)
    assert mined.plan.seats == {}


@pytest.mark.parametrize(
    ("sharing", "why"),
    [
        ({"full_every": 0}, "full_every: must be between 1 and 16"),
        ({"full_every": 17}, "full_every: must be between 1 and 16"),
        ({"codec": "Sparse"}, "pipeline.sharing.codec"),
        ({"every": 2}, "is not a known key"),
    ],
)
def test_options_that_make_no_sense_are_refused(sharing: dict[str, Any], why: str) -> None:
    block = {"layers": [1, 1], "sharing": sharing}
    with pytest.raises(SpecError, match=why):
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sharing": {"codec": "smoke"}}, "no mechanism for codec: 'smoke'"),
        ({"sharing": {"codec": "sparse", "codec_options": {"per_chunk": 0}}}, "sparse refuses"),
        ({"sharing": {"codec": "sparse", "codec_options": {"wings": 2}}}, "sparse refuses"),
    ],
)
def test_a_codec_that_can_not_be_made_is_refused(
    tmp_path: Path, changes: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        make_mined_job(EmbeddedStore(tmp_path), pipeline={**PIPELINE, **changes})


def test_a_median_of_payloads_that_are_mostly_zero_is_refused(tmp_path: Path) -> None:
    pipeline = {**PIPELINE, "sharing": SHARING}
    with pytest.raises(SpecError, match="zero nearly everywhere"):
        make_mined_job(EmbeddedStore(tmp_path), merge="median", pipeline=pipeline)


def test_the_tolerances_are_those_of_the_codec_that_loses_more() -> None:
    lossy = {"layers": [1, 1], "sharing": {"codec": "sparse", "full_every": 2}}
    exact = {"layers": [1, 1], "sharing": {"full_every": 2}}
    made = [
        demo_spec("b" + "a" * 58, mode="pipeline", pipeline=block).tolerances.rel_l2_max
        for block in (lossy, exact)
    ]
    assert made == [0.1, 0.005]
