# SPDX-License-Identifier: Apache-2.0
"""The quality page shows what is recorded, and the study's schedule is the anchors'."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.protocol.numbers import Violation
from agents.storage.embedded import EmbeddedStore
from agents.training.state import Shapes, State, model_hash
from agents.verify.spot_checks import reexecute
from scripts._figures.text import schedule
from tests.measure.bench_inner_large import Parts
from tests.measure.bench_quality import (
    above_row,
    job_rows,
    poison_rows,
    tuned_rows,
)
from tests.measure.quality import job, poison, sizes, variants
from tests.measure.quality.curves import of_one_machine, points, write
from tests.measure.quality.grid import RATE, Grid, Point, Result, is_behind
from tests.measure.quality.job import SPEC, JobRun, spec_of
from tests.measure.quality.methods import METHODS
from tests.measure.quality.record import BEGIN, JSON, PAGE, Key, Records, setting_of
from tests.measure.quality.sections import sections
from tests.measure.quality.sizes import law
from tests.measure.quality.task import CORPUS_SHA256, Task
from tests.measure.quality.trainer import PEERS, Method, Run, ScheduleFree, Trainer
from tests.measure.rows import END
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.tiny_specs import tiny_model


def test_the_tables_of_the_page_are_those_of_the_records() -> None:
    page = PAGE.read_text()
    for records in sections():
        for steps in records.lengths():
            shown = page.partition(records.begin(steps))[2].partition(END)[0]
            assert shown.strip() == records.table(steps), "python -m tests.measure.quality --table"


def test_every_record_is_of_the_anchors_text_and_model() -> None:
    task = json.loads(JSON.read_text())["task"]
    assert task["corpus_sha256"] == CORPUS_SHA256
    assert task["parameters"] == 869_504


def test_the_rate_rises_for_a_tenth_and_falls_to_a_tenth() -> None:
    assert schedule(0, 200) == pytest.approx(1 / 20)
    assert schedule(19, 200) == 1.0
    assert schedule(20, 200) == 1.0  # the cosine begins
    assert schedule(110, 200) == pytest.approx(0.55)
    assert schedule(200, 200) == pytest.approx(0.1)


def test_a_method_may_state_another_end_of_the_rate() -> None:
    assert schedule(20, 200, 0.25) == 1.0
    assert schedule(110, 200, 0.25) == pytest.approx(0.625)
    assert schedule(200, 200, 0.25) == pytest.approx(0.25)
    assert setting_of(Method("central", low=0.25))["low"] == 0.25
    assert "low" not in setting_of(Method("central"))  # as before there was a choice


def test_the_law_of_three_gaps_is_the_line_through_their_logarithms() -> None:
    found = law({10: 0.1, 100: 0.2, 1000: 0.4})
    assert found.slope == pytest.approx(math.log10(2))
    assert found.gap(10) == pytest.approx(0.1)
    assert found.error == pytest.approx(0, abs=1e-9)
    assert found.gap(100_000) == pytest.approx(1.6)
    assert found.factor(100_000) == pytest.approx(1)
    off = law({10: 0.1, 100: 0.3, 1000: 0.4})
    assert off.error == pytest.approx(math.log(1.5) * math.sqrt(2 / 3))


def test_a_prediction_is_the_less_sure_the_further_it_is_from_the_points() -> None:
    """Logarithms to 10 are 1, 2, 3: their squared distances from 2 add up to 2."""
    found = law({10: 0.1, 100: 0.3, 1000: 0.4})
    inside, outside = (math.log(found.factor(size)) for size in (100, 10_000))
    assert inside == pytest.approx(found.error * math.sqrt(1 + 1 / 3))
    assert outside == pytest.approx(found.error * math.sqrt(1 + 1 / 3 + 4 / 2))
    assert found.gap(10_000) == pytest.approx(found.gap(100) * 4)


def test_the_law_is_said_of_a_billion_parameters_with_its_error(tmp_path: Path) -> None:
    records = sizes.Records(tmp_path / "quality.json", sizes.SECTION, sizes.settings())
    steps = sizes.steps_of(0)
    for width, end in zip(sizes.WIDTHS, (2.1, 2.2, 2.4), strict=True):
        task = Task(0, width=width)
        for name, loss in (("muon-tuned", 2.0), ("sparse-muon", end)):
            records.add(Key(f"{name} {width}", sizes.SEED, steps[width]), task, Run({"1.0": loss}))
    (shown,) = (text for text in sizes.said(records, steps) if text.startswith("sparse-muon: "))
    found = law({238_144: 0.05, 869_504: 0.1, 2_211_664: 0.2})
    low, high = (100 * found.gap(10**9) * found.factor(10**9) ** sign for sign in (-1, 1))
    assert shown.endswith(f"by one standard error {low:.1f} to {high:.1f} %")


def test_poisoners_stand_beside_six_and_eight_honest_peers(tmp_path: Path) -> None:
    settings = poison.opened().settings
    records = Records(tmp_path / "quality.json", poison.SECTION, settings)
    ends = {"norm_clip poisoned": 2.05, "norm_clip six": 2.0, "multi_krum six": 2.0}
    for name, end in ends.items():
        records.add(Key(name, 0, poison.STEPS), Task(0), Run({"1.0": end}))
    (shown,) = poison.said(records, 0)
    assert shown.startswith("norm_clip, seed 0: +2.50 % beside 6 honest peers")
    assert poison.said(records, 1) == []


def test_the_page_has_the_grid_as_recorded() -> None:
    grid, page = Grid(), PAGE.read_text()
    for name, table in (("grid", grid.table()), ("held out", grid.held_out())):
        shown = page.partition(BEGIN.format(name))[2].partition(END)[0]
        assert shown.strip() == table, "python -m tests.measure.quality.grid --table"


def test_a_method_is_judged_at_the_best_point_of_seed_0(tmp_path: Path) -> None:
    points = [Point("muon", inner, 0.0, seed) for inner in (5, 8) for seed in (0, 1)]
    ends = (2.2, 1.9, 2.1, 2.4)  # of x5 and x8: the best of seed 1 has no say
    records = Grid(tmp_path / "none.json")
    records.results = [Result(p, {"1.0": end}) for p, end in zip(points, ends, strict=True)]
    assert records.by_seed("muon") == {0: 2.1, 1: 2.4}
    assert "| `muon` | x8 | 0.000 | 2.100 | 2.400 | not run |" in records.held_out()
    assert "2.200 | **2.100** |" in records.table()
    assert records.by_seed("adamw") == {}


def test_a_row_beside_another_is_judged_by_its_worst_seed() -> None:
    theirs = {0: 2.0, 1: 2.0}
    found = above_row("job", {0: 1.9, 1: 2.2}, theirs, 0.08)
    assert found is not None and not found.met
    assert found.measured == "-5.0 %, +10.0 % (seeds 0, 1)"
    other = above_row("job", {0: 1.9, 1: 2.1, 2: 9.0}, theirs, 0.08)
    assert other is not None and other.met
    assert above_row("job", {2: 2.0}, theirs, 0.08) is None


def test_the_bench_has_a_row_for_every_goal_beside_another_run() -> None:
    made = (*tuned_rows(Grid()), *job_rows(job.opened()), *poison_rows(poison.opened()))
    assert len(made) == 3 + 3 + 2
    assert all(row.goal and row.met is not None for row in made)


@pytest.mark.parametrize(
    ("val", "behind"),
    [
        ({"0.25": 2.69}, False),
        ({"0.25": 2.71}, True),
        ({"0.25": 2.5, "0.5": 2.39}, True),
        ({"0.25": 2.69, "0.5": 2.37, "0.75": 2.23}, False),
    ],
)
def test_a_point_far_behind_the_best_of_its_method_is_ended(
    val: dict[str, float], behind: bool
) -> None:
    known = [
        Result(Point("muon", 5, 0.0), {"0.25": 2.5, "0.5": 2.3, "0.75": 2.2}),
        Result(Point("muon", 3, 0.0), {"0.25": 2.8}),
    ]
    assert is_behind(Result(Point("muon", 8, 0.0), val), known) is behind


def test_a_point_changes_the_rates_of_its_method_and_nothing_else() -> None:
    swarm = Point("sparse-muon", 5, 7.0).method
    plain = METHODS["sparse-muon"]
    assert swarm == replace(plain, outer_lr=7.0, inner=("muon", {"lr_ratio": 5}))
    assert Point("adamw", 5, 0.0).method == replace(METHODS["adamw"], lr=5 * RATE)


def test_a_schedule_free_step_starts_between_the_mean_and_the_last() -> None:
    free = ScheduleFree({"a": torch.zeros(1)}, beta=0.75)
    assert free.step({"a": torch.tensor([-1.0])}, 2.0)["a"].item() == 2.0  # z = x = 2
    assert free.step({"a": torch.tensor([-1.0])}, 2.0)["a"].item() == 3.25  # z = 4, x = 3
    assert free.mean["a"].item() == 3.0


def test_variants_change_one_thing_of_the_study_and_share_its_run() -> None:
    plain = METHODS["sparse-muon"]
    runs = []
    for section, methods in variants.SECTIONS.items():
        first, *others = methods.values()
        assert first == plain and plain not in others, section
        assert len({str(setting_of(method)) for method in methods.values()}) == len(methods)
        runs.append(variants.opened(section).of(next(iter(methods)), variants.STEPS))
    for seed in set.union(*map(set, runs)):
        found = [run[seed]["val"] for run in runs if seed in run]
        assert all(val == found[0] for val in found)  # of one run on one machine


@pytest.mark.parametrize("keep", [True, False])
def test_momentum_that_follows_points_where_the_last_merge_went(keep: bool) -> None:
    task = Task(0)
    trainer = Trainer(task, replace(METHODS["sparse-muon"], keep=keep, follows=True), 10)
    net, (muon, *_) = task.net, trainer.optimizers
    gradient = torch.randn(net.grads.shape, generator=torch.Generator().manual_seed(0))
    net.load(task.genesis)
    net.grads.copy_(gradient)
    if keep:
        muon.step()
    own = {name: buffer.clone() for name, buffer in muon.buffers().items()}
    net.grads.copy_(gradient)
    merged = {name: 3e-4 * torch.randn(shape) for name, shape in task.shapes.items()}
    trainer._follow(muon, task.genesis, merged)
    assert torch.equal(net.grads, gradient)
    assert all(torch.equal(net.split(net.values)[name], task.genesis[name]) for name in merged)
    hidden = [merged[name] for name in net.hidden]
    for name, buffer in muon.buffers().items():
        if not name.startswith("momentum."):
            assert torch.equal(buffer, own[name])
            continue
        led = 2 * buffer - own[name] if keep else buffer
        for matrix, mine in zip(led, own[name], strict=True):
            turns = [
                m if m.shape == matrix.shape else m.T for m in hidden if m.numel() == matrix.numel()
            ]
            best = max(
                float(torch.cosine_similarity(matrix.flatten(), m.flatten(), 0)) for m in turns
            )
            assert best == pytest.approx(1, abs=1e-3)
            if keep:
                assert float(matrix.norm()) == pytest.approx(float(mine.norm()), rel=1e-3)
    if not keep:
        clipped = gradient / gradient.norm()
        total = sum(float(net.split(clipped)[name].square().sum()) for name in net.hidden)
        found = sum(float(b.square().sum()) for n, b in muon.buffers().items() if "momentum" in n)
        assert found == pytest.approx(total, rel=1e-3)


class Heard:
    """A codec that says nothing and notes the memory that it is given."""

    def __init__(self) -> None:
        self.given: list[bool] = []

    def encode(self, update: State, memory: State | None, seed: bytes) -> bytes:
        self.given.append(memory is not None)
        return b""

    def decode(self, data: bytes, shapes: Shapes, seed: bytes) -> State:
        return {name: torch.zeros(shape) for name, shape in shapes.items()}

    def remember(self, update: State, memory: State | None, decoded: State) -> State:
        return update


@pytest.mark.parametrize("forgets", [True, False])
def test_a_peer_is_away_every_fourth_round_and_its_memory_waits_or_is_lost(
    forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, trained = Heard(), []
    monkeypatch.setattr(codecs, "get", lambda name: lambda: codec)

    def update(self: Trainer, state: State, peer: int, first: int, last: int) -> State:
        trained.append((peer, first))
        return state

    monkeypatch.setattr(Trainer, "_update", update)
    monkeypatch.setattr(Trainer, "_exchanged", lambda *of: None)
    rounds = 8
    Trainer(Task(0), Method("local", every=1, absent_every=4, forgets=forgets), rounds).go()
    away = {(p, r) for p in range(PEERS) for r in range(rounds)} - set(trained)
    assert away == {(p, r) for p in range(PEERS) for r in range(rounds) if (p + r) % 4 == 0}
    back = {(p, r + 1) for p, r in away}
    for (peer, number), had in zip(trained, codec.given, strict=True):
        empty = (
            number == 0
            or (number == 1 and (peer, 0) in away)
            or (forgets and (peer, number) in back)
        )
        assert had is not empty


def test_muon_is_within_its_goal_from_the_tokens_on_at_which_the_ratio_meets_it() -> None:
    found = Parts(gradient=0.5, update={"adamw": 10.0, "muon": 132.0}, hashed=50.0)
    assert found.least(1.2) == pytest.approx(1100.0)
    assert found.ratio(1100) == pytest.approx(1.2)
    assert Parts(0.5, {"adamw": 10.0, "muon": 10.0}, 50.0).least(1.2) == 0.0


def test_a_curve_has_a_point_at_every_quarter_of_every_run(tmp_path: Path) -> None:
    records = Records()
    found = points(records, 200)
    (last,) = [row for row in found if row[:3] == ("sparse", 1, 819_200)]
    run = records.of("sparse", 200)[1]
    assert last[3:] == (run["uploaded"] / 1e6, run["cpu_s"], run["val"]["1.0"])
    (half,) = [row for row in found if row[:3] == ("sparse", 1, 409_600)]
    assert half[3:] == (run["uploaded"] / 2e6, run["cpu_s"] / 2, run["val"]["0.5"])
    assert len(found) == 4 * sum(len(records.of(name, 200)) for name in records.settings)
    path = write(tmp_path, [records])
    drawn = {one.name for one in tmp_path.glob("*.svg")}
    assert {
        f"figure-quality-runs-{kind}-819200.svg" for kind in ("tokens", "bytes", "time")
    } <= drawn
    assert all(name in path.read_text() for name in drawn)


def test_time_is_drawn_of_one_machine_alone(tmp_path: Path) -> None:
    """Two of five runs were made here, one elsewhere, and of two nobody knows where."""
    records = Records(tmp_path / "quality.json", poison.SECTION, poison.opened().settings)
    task = Task(0)
    for seed in range(5):
        records.add(Key("norm_clip six", seed, 200), task, Run({"1.0": 2.0}, cpu_s=9.0 - seed))
    entries = records.content[poison.SECTION]
    entries[0]["machine"] = "abacus"
    del entries[3]["machine"], entries[4]["machine"]
    made = points(records, 200)
    assert [row[1] for row in made] == [0, 1, 2, 3, 4]
    assert [row[1] for row in of_one_machine(records, 200, made)] == [1, 2]


def test_the_study_and_the_job_have_runs_of_several_machines() -> None:
    for records, steps in ((Records(), 200), (job.opened(), 600)):
        rows = points(records, steps)
        machines = records.machines(steps)
        shown = {machines[row[0], row[1]] for row in of_one_machine(records, steps, rows)}
        assert len(shown) == 1 < len(set(machines.values()))


def small_job(folder: Path, life: int) -> JobRun:
    """The study's job on a tiny model; codec memory and inner state live so many rounds."""
    optimizer = {**SPEC["optimizer"], "seq_len": 16, "batch_size": 1, "inner_state_rounds": life}
    spec = {
        **SPEC,
        "model": tiny_model(16, 24, 16),
        "optimizer": optimizer,
        "codec_options": {"cell": 16, "directions": 64, "memory_rounds": life},
        "rounds": 4,
    }
    return JobRun(EmbeddedStore(folder), spec)


def test_a_jobs_rounds_keep_memory_and_state_until_both_are_reset(tmp_path: Path) -> None:
    run = small_job(tmp_path, life=2)
    before = run.state
    run.round()
    assert all(one.owed is not None and one.inner is not None for one in run.carried.values())
    assert len({model_hash(one.owed or {}) for one in run.carried.values()}) == 8
    run.round()
    assert all(one.owed is None and one.inner is None for one in run.carried.values())
    assert run.uploaded == 2 * run.job.codec.wire_size(run.job.shapes)
    assert (run.step, model_hash(run.state) != model_hash(before)) == (2, True)


def test_a_round_of_the_job_is_done_again_from_what_its_node_carried(tmp_path: Path) -> None:
    """The second round: the first one starts from zero anyway."""
    run = small_job(tmp_path, life=60)
    run.round()
    run.round()
    assert run.played is not None
    right = reexecute(run.played, 3, DEVICE, run.store)
    assert (right.violation, right.unsure) == (None, ""), right.reason
    no_state = replace(run.played, inner=lambda _: None)
    no_memory = replace(run.played, memory=lambda _: None)
    for blank in (no_state, no_memory):
        assert reexecute(blank, 3, DEVICE, run.store).violation == Violation.INVALID


def test_a_job_of_the_study_changes_only_what_is_named() -> None:
    task = Task(0, "llama")
    plain = spec_of(task, 120)
    other = spec_of(
        task, 120, outer_lr=7.0, inner_options={"lr_ratio": 4.0}, codec_options={"decay": 0.7}
    )
    assert plain["codec_options"] == SPEC["codec_options"]
    assert other["codec_options"] == {**SPEC["codec_options"], "decay": 0.7}
    assert other["optimizer"] == {
        **plain["optimizer"],
        "outer_lr": 7.0,
        "inner_options": {**SPEC["optimizer"]["inner_options"], "lr_ratio": 4.0},
    }
    same = {name: plain[name] for name in plain if name not in ("codec_options", "optimizer")}
    assert same == {name: other[name] for name in same}
    cells = spec_of(task, 120, "job-cells")
    assert {name for name in plain if plain[name] != cells[name]} == {"codec", "codec_options"}
    sizes = {
        spec["codec"]: codecs.get(spec["codec"])(**spec["codec_options"]).wire_size(task.shapes)
        for spec in (plain, cells)
    }
    assert sizes["directions"] <= 1.001 * sizes["cells"]
