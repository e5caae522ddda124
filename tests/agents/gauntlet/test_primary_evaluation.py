# SPDX-License-Identifier: Apache-2.0
"""Primary evaluation of real updates: what is measured, on what, and what cheats make of it."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.gauntlet.cells import Cells, Values
from agents.gauntlet.fast_evaluation import Checked
from agents.gauntlet.loss_score import to_nano
from agents.gauntlet.primary_evaluation import (
    Measured,
    Yardstick,
    brought_to,
    median_norm,
    unassigned_rows,
)
from agents.gauntlet.ratings import MICRO, Evaluation, rate
from agents.gauntlet.validator import _line
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Assignment, Manifest, assign, unassigned
from agents.training.evaluate import validation_loss
from agents.training.norms import norm
from agents.training.rng import derive_key
from agents.training.spec import JobSpec
from agents.training.state import State, apply_outer
from tests.stage.memory.gauntlet_run import DEVICE, LOCAL_STEPS, SPEC, FreeRun, copy_of, noise
from tests.stage.memory.honest_round import scaled

HONEST = (1, 2, 3, 4)
KEY = derive_key("test")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedStore:
    return EmbeddedStore(tmp_path_factory.mktemp("free") / "store")


@pytest.fixture(scope="module")
def signs(store: EmbeddedStore) -> FreeRun:
    """A job that merges signs."""
    return FreeRun.start(store, HONEST, {})


@pytest.fixture(scope="module")
def clipped(store: EmbeddedStore) -> FreeRun:
    """A job that merges updates clipped to the median norm."""
    return FreeRun.start(store, HONEST, {}, **LOCAL_STEPS)


Round = tuple[Yardstick, dict[int, State]]


@pytest.fixture(scope="module", params=["signs", "clipped"])
def either(request: pytest.FixtureRequest) -> Round:
    """The first round of either job: the validator's measure and the payloads."""
    run: FreeRun = request.getfixturevalue(request.param)
    plan = run.plan()
    sent = run.sent(plan)
    return run.yardstick(plan, sent), sent


# -- the data --------------------------------------------------------------------------------------


def manifest_of(*ranges: tuple[int, int]) -> Manifest:
    """Nodes 1, 2 ... with a range of batches each."""
    rows = tuple(Assignment(n, 1, (r,), bytes(32)) for n, r in enumerate(ranges, start=1))
    return Manifest(bytes(32), rows, (), max(last for _, last in ranges))


def test_nobody_was_assigned_the_random_sequences(signs: FreeRun) -> None:
    data = signs.job.data
    last = data.batches_per_epoch
    manifest = manifest_of((0, last // 2), (last // 2, last - 3))
    taken = {int(row) for index in range(last - 3) for row in data.rows(index)}
    rows = unassigned_rows(data, manifest, KEY, 8)
    assert len(rows) == len(set(rows.tolist())) == 8
    assert not taken & set(rows.tolist())
    assert all(0 <= row < data.train_sequences for row in rows)


def test_batches_of_two_epochs_are_both_avoided(signs: FreeRun) -> None:
    """Batch numbers of different epochs name the same sequences in another order."""
    data = signs.job.data
    epoch = data.batches_per_epoch
    manifest = manifest_of((0, 5), (epoch, epoch + 5))
    taken = {
        int(row) for index in (*range(5), *range(epoch, epoch + 5)) for row in data.rows(index)
    }
    rows = unassigned_rows(data, manifest, KEY, data.train_sequences)
    assert sorted(rows.tolist()) == sorted(set(range(data.train_sequences)) - taken)


def test_where_no_sequence_is_left_validation_stands_in(signs: FreeRun) -> None:
    data = signs.job.data
    epoch = data.batches_per_epoch
    # Two epochs together leave out no sequence but by chance; take epochs until all are taken.
    rows = unassigned_rows(data, manifest_of((0, 20 * epoch)), KEY, 8)
    assert all(row >= data.train_sequences for row in rows)
    assert data.sequences(rows).shape == (len(rows), 33)


def test_the_draw_is_the_seeds(signs: FreeRun) -> None:
    data, manifest = signs.job.data, manifest_of((0, 5))
    first = unassigned_rows(data, manifest, KEY, 24)
    assert np.array_equal(first, unassigned_rows(data, manifest, KEY, 24))
    assert not np.array_equal(first, unassigned_rows(data, manifest, derive_key("other"), 24))


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("nodes", [3, 1])
def test_all_that_a_node_is_assigned_and_may_add_is_measured(
    signs: FreeRun, nodes: int, extra: int
) -> None:
    """Whoever knew of a batch that nobody looks at could leave it out. Here most nodes have left a
    job whose spec names more batches than are measured, so the others could have many each."""
    job, ids = signs.job, HONEST[:nodes]
    options = {**job.spec.score_options, "extra": extra, "eval_batches": 4}
    fields = {**job.spec.model_dump(), "batches_per_round": 60, "score_options": options}
    spec = JobSpec.from_dict(fields)
    manifest = assign(bytes(32), ids, [1] * nodes, spec)
    plan = replace(signs.plan(), manifest=manifest)
    yardstick = replace(signs.yardstick(plan, {}), options=Gauntlet(**options))
    for node in ids:
        own = manifest.of(node)
        assert own is not None and own.batches * max(1, extra) == 4
        for ranges, found in (
            (own.ranges, yardstick.assigned(node)),
            (unassigned(manifest, node, min(extra, nodes) * own.batches), yardstick.extra(node)),
        ):
            batches = [job.data.batch(i) for first, last in ranges for i in range(first, last)]
            assert len(found) == len(batches)
            assert all(torch.equal(*both) for both in zip(found, batches, strict=True))
    assert yardstick.assigned(999) == []


def test_all_nodes_are_measured_on_the_same_random_batches(either: Round) -> None:
    yardstick, _ = either
    assert len(yardstick.random) == yardstick.options.eval_batches
    again = replace(yardstick)
    for mine, other in zip(yardstick.random, again.random, strict=True):
        assert torch.equal(mine, other)
    elsewhere = replace(yardstick, seed=derive_key("elsewhere"))
    assert not all(
        torch.equal(a, b) for a, b in zip(yardstick.random, elsewhere.random, strict=True)
    )


# -- the score -------------------------------------------------------------------------------------


def test_the_scores_by_the_formula(either: Round) -> None:
    """L(theta) - L(theta - beta u), u the merge of one payload; expected, the others' median.

    On a node's own batches u is a part of the merge: sequences take turns, from the seed's part on.
    """
    yardstick, sent = either
    job, plan = yardstick.job, yardstick.plan
    beta = yardstick.options.step_share * job.spec.outer_lr_at(0)

    def score(node: int, batches: list[torch.Tensor], part: int | None = None) -> float:
        update = job.merge([sent[node]])
        if job.spec.merge == "norm_clip":
            update = brought_to(update, yardstick.length)
        if part is not None:
            kept = yardstick.parts[part]
            update = {n: t if n in kept else torch.zeros_like(t) for n, t in update.items()}
        after = apply_outer(yardstick.before, update, beta)
        net = job.net(DEVICE)
        before = validation_loss(net, yardstick.before, batches)
        return before - validation_loss(net, after, batches)

    found = yardstick.measure(sent)
    assert plan.manifest.of(1) is not None
    assert [len(part) for part in yardstick.parts] == [4, 5]
    for node in HONEST:
        turns = [
            (batch[row : row + 1], (yardstick.seed[0] + index + row) % 2)
            for index, batch in enumerate(yardstick.assigned(node))
            for row in range(len(batch))
        ]
        falls = {q: [score(q, [row], part) for row, part in turns] for q in HONEST}
        leads = [
            statistics.mean(
                fall - score(q, yardstick.random, part)
                for fall, (_, part) in zip(falls[q], turns, strict=True)
            )
            for q in HONEST
            if q != node
        ]
        assert found[node].assigned == pytest.approx(statistics.mean(falls[node]) * 1e9, abs=2)
        assert found[node].random == to_nano(score(node, yardstick.random))
        expected = found[node].expected
        assert expected is not None
        assert expected == pytest.approx(statistics.median(leads) * 1e9, abs=2)
        assert found[node].reason == ""


@pytest.mark.parametrize("left", [0, 1], ids=["the ends only", "all but the ends"])
def test_where_a_part_holds_no_work_half_is_shown_at_most(either: Round, left: int) -> None:
    """The sequences of the empty part neither lead nor lag, whatever others do there."""
    yardstick, sent = either
    kept = yardstick.parts[left]
    for node in HONEST:
        lazy = {n: t if n in kept else torch.zeros_like(t) for n, t in sent[node].items()}
        shown = yardstick.measure({**sent, node: lazy})[node].shown
        assert shown is not None and abs(shown) <= MICRO // 2


def test_a_job_that_pays_by_rank_measures_all_of_an_update_everywhere(either: Round) -> None:
    yardstick = replace(either[0], options=replace(either[0].options, pays="rank"))
    assert [sorted(part) for part in yardstick.parts] == [sorted(yardstick.job.shapes)]


def test_honest_updates_lower_the_loss_and_reversed_ones_raise_it(either: Round) -> None:
    yardstick, sent = either
    for node in HONEST:
        assert (yardstick.measure({node: sent[node]})[node].random or 0) > 0
        backwards = yardstick.measure({node: scaled(sent[node], -1.0)})[node]
        assert (backwards.random or 0) < 0


@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e6])
def test_a_longer_or_shorter_payload_scores_the_same(either: Round, factor: float) -> None:
    yardstick, sent = either
    plain = yardstick.measure({1: sent[1]})[1]
    longer = yardstick.measure({1: scaled(sent[1], factor)})[1]
    for name in ("assigned", "random"):
        one, other = getattr(plain, name), getattr(longer, name)
        assert other == pytest.approx(one, rel=1e-2, abs=3e4)


def test_alone_nothing_is_expected(either: Round) -> None:
    yardstick, sent = either
    assert yardstick.measure({1: sent[1]})[1].expected == 0
    assert yardstick.measure({}) == {}


def test_copies_expect_what_they_are(either: Round) -> None:
    """A copier among two has no lead over its victim on its own batches: the paper's sign is 0."""
    measure, sent = either
    yardstick = replace(measure, options=replace(measure.options, pays="rank"))
    for measured in yardstick.measure({1: sent[1], 2: sent[1]}).values():
        assert None not in (measured.assigned, measured.random, measured.expected)
        assert abs(measured.assigned - measured.expected - measured.random) <= 2


# -- what payloads can't do ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.8e19, -1.8e19, 1e-38, 0.0])
def test_extreme_payloads_are_measured_or_refused_never_raised(either: Round, value: float) -> None:
    """As large and as small as a payload's numbers may be."""
    yardstick, sent = either
    extreme = {name: torch.full_like(t, value) for name, t in sent[2].items()}
    found = yardstick.measure({**sent, 2: extreme})
    clean = yardstick.measure(sent)
    for node in (1, 3, 4):
        assert found[node].random == clean[node].random
        assert found[node].assigned == clean[node].assigned
    measured = found[2]
    assert (measured.random is None) == bool(measured.reason)
    if measured.random is not None:
        best = max(found[node].random or 0 for node in (1, 3, 4))
        assert measured.random < best


@pytest.mark.parametrize("length", [1e22, 1e28])
def test_an_update_that_ruins_the_loss_has_no_score(clipped: FreeRun, length: float) -> None:
    """Its losses are NaN: it ranks last instead of winning."""
    plan = clipped.plan()
    sent = clipped.sent(plan)
    found = replace(clipped.yardstick(plan, sent), length=length).measure(sent)
    for measured in found.values():
        assert (measured.assigned, measured.random, measured.expected) == (None, None, None)
        assert measured.reason


@pytest.mark.parametrize("length", [1e6, 1e8, 1e10])
def test_a_loss_that_no_record_has_a_number_for_stops_nobody(
    clipped: FreeRun, length: float
) -> None:
    """Beyond two million nats a token. Where most payloads are so long, or a large model's are put
    into few of its numbers, no validator could write its record."""
    plan = clipped.plan()
    sent = clipped.sent(plan)
    generator = torch.Generator().manual_seed(1)
    sent[1] = {name: torch.randn(t.shape, generator=generator) for name, t in sent[1].items()}
    found = replace(clipped.yardstick(plan, sent), length=length).measure(sent)
    lines = [_line(node, Checked("", usable=True, sync=0.0), True, m) for node, m in found.items()]
    assert len(lines) == len(HONEST)
    assert all(line.random is not None for line in lines)


def assert_all_tie(yardstick: Yardstick, sent: dict[int, State]) -> None:
    """Every node's LossScore is 0, and no rating falls below what it starts with."""
    found = yardstick.measure({**sent, 999: sent[1]})
    assert found.pop(999).reason == "no batches were assigned"
    assert found == dict.fromkeys(HONEST, Measured(0, 0, 0, shown=0, extra=0))
    rows = [Evaluation(node, 0.0, 0.0, shown=found[node].shown) for node in HONEST]
    for rating in rate({}, rows, (), yardstick.options).values():
        assert rating.mu == rating.value == 0


def test_a_round_s_model_without_a_loss_is_nobody_s_fault(either: Round) -> None:
    """Its weights are finite, and those of its norms so large that its losses are not."""
    yardstick, sent = either
    model = {n: torch.full_like(t, 3e38) if t.ndim == 1 else t for n, t in yardstick.before.items()}
    assert not np.isfinite(validation_loss(yardstick.job.net(DEVICE), model, yardstick.random))
    assert_all_tie(replace(yardstick, before=model), sent)


def test_a_model_without_a_loss_on_a_run_of_one_node_is_nobody_s_fault(
    either: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What updates do there can't be said, so they are compared nowhere."""
    yardstick, sent = either
    measured, node = Yardstick._losses, yardstick._cells(2)

    def spoilt(self: Yardstick, states: list[State], cells: Cells) -> Values:
        found = measured(self, states, cells)
        same = states[0] is yardstick.before and np.array_equal(cells.rows(0)[0], node.rows(0)[0])
        found[0] = np.nan if same else found[0]
        return found

    monkeypatch.setattr(Yardstick, "_losses", spoilt)
    assert_all_tie(yardstick, sent)


def test_a_ruined_update_does_not_touch_what_is_expected_of_others(either: Round) -> None:
    yardstick, sent = either
    unassigned = yardstick.measure({**sent, 999: sent[1]})
    assert unassigned[999].reason == "no batches were assigned"
    assert {n: unassigned[n] for n in HONEST} == yardstick.measure(sent)


def test_norms_and_lengths_by_hand() -> None:
    three, four = torch.tensor([3.0]), torch.tensor([4.0])
    assert median_norm([{"a": three}, {"a": four}, {"a": torch.zeros(1)}]) == 3.0
    assert median_norm([{"a": three}, {"a": four}]) == 3.0
    assert median_norm([]) == 0.0
    moved = brought_to({"a": three, "b": four}, 10.0)
    assert (float(moved["a"]), float(moved["b"])) == (6.0, 8.0)
    assert norm(brought_to({"a": torch.zeros(2)}, 10.0)) == 0.0


# -- cheats over rounds ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copied(store: EmbeddedStore) -> FreeRun:
    """Eight rounds in which every honest node has its copier, paid by power 1."""
    return copied_for(store, 8, score_options={**SPEC["score_options"], "power": 1.0})


def copied_for(store: EmbeddedStore, rounds: int, **changes: Any) -> FreeRun:
    copiers = {10 + victim: copy_of(victim) for victim in HONEST}
    run = FreeRun.start(store, HONEST, copiers, **changes)
    for _ in range(rounds):
        run.round()
    return run


def test_copiers_mu_stays_near_zero_while_the_honest_ones_grows(copied: FreeRun) -> None:
    """After 8 rounds the largest mu without extra work is (1 - 0.95^8) / 2 = 0.17."""
    mu = copied.mu()
    honest = statistics.mean(mu[node] for node in HONEST)
    copiers = statistics.mean(mu[10 + node] for node in HONEST)
    assert honest > 0.05
    assert abs(copiers) < honest / 3


def test_copiers_share_their_victims_skill_and_yet_earn_less(copied: FreeRun) -> None:
    """Payloads alike rank alike; what tells them apart is the data."""
    skill, vector = copied.skill(), copied.vector()
    for node in HONEST:
        assert skill[node] == pytest.approx(skill[10 + node], abs=1e-5)
    earned = sum(vector[node] for node in HONEST)
    assert earned > 3 * sum(vector[10 + node] for node in HONEST)


def test_copiers_earn_less_still_by_the_default_power_when_chance_is_over(
    store: EmbeddedStore,
) -> None:
    """In the first eight rounds mu is mostly chance, and one copier may lead. What a single round
    pays is mostly what is shown in it, so the eight after them count together."""
    run = copied_for(store, 8)
    honest = copiers = 0
    for _ in range(8):
        run.round()
        vector = run.vector()
        honest += sum(vector[node] for node in HONEST)
        copiers += sum(vector[10 + node] for node in HONEST)
    assert honest > 4 * copiers


def test_noise_ranks_last_and_earns_nothing(store: EmbeddedStore) -> None:
    run = FreeRun.start(store, HONEST, {5: noise})
    for _ in range(6):
        run.round()
    skill = run.skill()
    assert max(skill, key=lambda node: -skill[node]) == 5
    assert run.vector()[5] < 655  # of 65,535
    assert all(measured[5].reason == "" for measured in run.measured)
