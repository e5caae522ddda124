# SPDX-License-Identifier: Apache-2.0
"""A stage's state goes to a file and comes back to the bit, and its work goes on from there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.pipeline.checkpoint import (
    States,
    joined,
    joined_shapes,
    parted,
    published,
    state_hash,
    write,
)
from agents.pipeline.inbox import Entry
from agents.pipeline.miner_log import Kind
from agents.pipeline.work import Keep, StageWork, replay
from agents.storage.cid import cid_of_bytes
from agents.training.inner_state import optimizer_shapes
from agents.training.slices import init_stage
from agents.training.spec import Hyperparameters
from agents.training.state import (
    PayloadError,
    State,
    file_bound,
    load_state,
    model_hash,
    save_state,
)
from tests.stage.memory.pipeline_epoch import BATCH, EPOCH, HYPER, SLICES, batch

MINER = EPOCH.stages[-1][0]  # the last stage needs nobody's gradient
STAGE = len(EPOCH.stages) - 1
MUON = replace(HYPER, inner="muon")


def work(hyper: Hyperparameters, segment: int = 0, keep: Keep | None = None) -> StageWork:
    state = init_stage(SLICES, STAGE)
    return StageWork(SLICES, EPOCH, MINER, state, hyper, batch, 4, segment=segment, keep=keep)


def entries(steps: int) -> list[Entry]:
    """A step after each sample."""
    before = EPOCH.stages[STAGE - 1][0]
    shape = SLICES.code_shape(BATCH, batch(0).shape[1] - 1)
    draw = torch.Generator().manual_seed(1)
    found = []
    for number in range(steps):
        sample = EPOCH.samples[number]
        code = SLICES.boundary.codes.pack(torch.randn(shape, generator=draw))
        found.append(Entry(Kind.FORWARD, sample, before, b"s", code))
        found += [Entry(Kind.BACKWARD, sample), Entry(Kind.STEP, number)]
    return found


@pytest.mark.parametrize("hyper", [HYPER, MUON], ids=["adamw", "muon"])
def test_who_goes_on_from_a_file_makes_the_same_log(tmp_path: Path, hyper: Hyperparameters) -> None:
    states = States(tmp_path / "round.state-")
    whole = replay(work(hyper, 2, states.put), entries(6))
    assert [path.name for path in states.paths()] == [f"round.state-000000{n}" for n in (2, 4, 6)]
    shapes = joined_shapes(
        {name: tuple(tensor.shape) for name, tensor in whole.state().items()},
        optimizer_shapes(SLICES, STAGE, hyper),
    )
    raw = states.paths()[1].read_bytes()
    assert len(raw) <= file_bound(shapes)
    again = work(hyper, 2)
    again.go_on(*parted(load_state(raw, shapes)), 4)
    replay(again, entries(6)[12:])
    assert again.events == whole.events[12:]
    assert model_hash(again.optimizer()) == model_hash(whole.optimizer())


def test_a_miner_that_begins_again_writes_the_same_files(tmp_path: Path) -> None:
    """A crash leaves some; the entries decide all of them."""
    states = States(tmp_path / "round.state-")
    replay(work(HYPER, 1, states.put), entries(5))
    first = [path.read_bytes() for path in states.paths()]
    states.clear()
    assert states.paths() == []
    replay(work(HYPER, 1, states.put), entries(5))
    assert [path.read_bytes() for path in states.paths()] == first


def test_what_is_published_is_named_and_the_state_after_the_last_step_is_not(
    tmp_path: Path,
) -> None:
    states = States(tmp_path / "round.state-")
    done = replay(work(HYPER, 2, states.put), entries(4))
    first = states.paths()[0].read_bytes()
    assert states.named(published(4, 2)) == [cid_of_bytes(first)]
    end = states.end(done.state())
    assert [path.name[-3:] for path in states.paths()] == ["002", "end"]
    kept = load_state(states.paths()[1].read_bytes(), _shapes(done.state()))
    assert end == cid_of_bytes(states.paths()[1].read_bytes())
    optimizer = model_hash(done.optimizer())
    assert state_hash(model_hash(kept), optimizer) == done.log().state


@pytest.mark.parametrize(
    ("steps", "segment", "count"),
    [(0, 3, 0), (1, 1, 0), (2, 1, 1), (3, 3, 0), (4, 3, 1), (6, 3, 1), (7, 3, 2)],
)
def test_there_is_a_state_between_two_segments_and_no_other(
    steps: int, segment: int, count: int
) -> None:
    assert published(steps, segment) == count


def test_a_log_without_segments_has_hashes_of_weights_alone() -> None:
    plain, cut = (replay(work(HYPER, segment), entries(2)) for segment in (0, 1))
    assert plain.log().origin.state == model_hash(init_stage(SLICES, STAGE))
    assert plain.log().state == model_hash(plain.state()) == model_hash(cut.state())
    assert cut.log().origin.state == state_hash(plain.log().origin.state)
    assert cut.log().state == state_hash(plain.log().state, model_hash(cut.optimizer()))


def test_a_state_is_of_its_step_or_of_none() -> None:
    made = replay(work(HYPER, 1), entries(2))
    weights, optimizer = _copied(made.state()), _copied(made.optimizer())
    for steps in (1, 3):
        with pytest.raises(PayloadError, match=f"that after 2 steps, not {steps}"):
            work(HYPER, 1).go_on(weights, optimizer, steps)
    with pytest.raises(PayloadError, match="tensor names differ"):
        work(HYPER, 1).go_on(weights, {"steps": optimizer["steps"]}, 2)
    wild = optimizer | {"steps": torch.tensor([0.5, 2.0])}
    with pytest.raises(PayloadError, match="an inner state of"):
        work(HYPER, 1).go_on(weights, wild, 2)


@pytest.mark.parametrize("hyper", [HYPER, MUON], ids=["adamw", "muon"])
def test_the_shapes_of_an_optimizer_are_known_without_building_it(hyper: Hyperparameters) -> None:
    assert optimizer_shapes(SLICES, STAGE, hyper) == _shapes(work(hyper).optimizer())


def test_a_file_is_what_a_state_is_saved_as_under_other_names(tmp_path: Path) -> None:
    """By the reader that all files of strangers go through."""
    state = joined({"w": torch.randn(3, 5)}, {"first": torch.randn(16), "steps": torch.ones(2)})
    write(tmp_path / "state", state)
    raw = (tmp_path / "state").read_bytes()
    for one in (raw, save_state(state)):
        again = load_state(one, _shapes(state))
        assert all(torch.equal(again[name], state[name]) for name in state)
    weights, optimizer = parted(state)
    assert weights.keys() == {"w"} and optimizer.keys() == {"first", "steps"}


def test_numbers_that_nobody_would_take_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError, match="is not finite"):
        write(tmp_path / "state", {"w": torch.tensor([1.0, float("inf")])})
    assert list(tmp_path.iterdir()) == []


def _shapes(state: State) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def _copied(state: State) -> State:
    return {name: tensor.clone() for name, tensor in state.items()}
