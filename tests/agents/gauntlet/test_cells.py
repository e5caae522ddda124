# SPDX-License-Identifier: Apache-2.0
"""Cells: which runs of tokens are looked at with which part, and what leads there show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from agents.gauntlet.cells import Cells
from agents.gauntlet.loss_score import LOSS_TOLERANCE
from agents.gauntlet.ratings import MICRO
from agents.mechanisms.score.gauntlet import Gauntlet


def batch(start: int, rows: int = 4, length: int = 9) -> Tensor:
    """Sequences whose first tokens are start, start + 1, ..."""
    return torch.arange(start, start + rows)[:, None].repeat(1, length)


def firsts(cells: Cells, part: int) -> list[int]:
    return [int(row[0]) for rows in cells.rows(part) for row in rows]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_each_sequence_is_for_one_part_and_they_take_turns(first: int) -> None:
    cells = Cells([batch(0), batch(10)], [batch(20, rows=1)], Gauntlet(runs=1), 2, first)
    one, other = firsts(cells, first % 2), firsts(cells, 1 - first % 2)
    assert one == [0, 2, 11, 13, 20]
    assert other == [1, 3, 10, 12]
    assert cells.part.tolist() == [0] * len(firsts(cells, 0)) + [1] * len(firsts(cells, 1))
    assert [start // 10 for part in (0, 1) for start in firsts(cells, part)] == cells.batch.tolist()


@pytest.mark.parametrize("at_once", [1, 3, 5, 100])
def test_how_many_sequences_go_at_once_changes_no_cell(at_once: int) -> None:
    given = ([batch(0), batch(10)], [batch(20, rows=1), batch(30)], Gauntlet(runs=2), 2)
    apart, joined = Cells(*given), Cells(*given, at_once=at_once)
    assert [firsts(joined, part) for part in (0, 1)] == [firsts(apart, part) for part in (0, 1)]
    assert max(len(rows) for part in (0, 1) for rows in joined.rows(part)) <= max(2, at_once)
    losses = [
        [[rows[:, 1:].numpy() + 0.5 * np.arange(8) for rows in cells.rows(part)] for part in (0, 1)]
        for cells in (apart, joined)
    ]
    assert joined.means(losses[1]).tolist() == apart.means(losses[0]).tolist()
    assert (joined.part.tolist(), joined.batch.tolist()) == (
        apart.part.tolist(),
        apart.batch.tolist(),
    )


def test_batches_of_one_sequence_take_turns_too() -> None:
    cells = Cells([batch(0, rows=1), batch(10, rows=1)], [], Gauntlet(), 2)
    assert (firsts(cells, 0), firsts(cells, 1)) == ([0], [10])


def test_with_one_part_all_sequences_are_its() -> None:
    cells = Cells([batch(0)], [batch(10)], Gauntlet(runs=1))
    assert firsts(cells, 0) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert cells.part.tolist() == [0] * 8


def test_a_cell_is_the_mean_over_its_run_of_tokens() -> None:
    """Two rows of eight losses, one for each part, in two runs each."""
    cells = Cells([batch(0, rows=2)], [], Gauntlet(runs=2), 2)
    low, high = np.arange(8.0)[None], 10 + np.arange(8.0)[None]
    assert cells.means([[low], [high]]).tolist() == [1.5, 5.5, 11.5, 15.5]
    assert cells.assigned_mean(np.array([1.0, 2.0, 3.0, 6.0])) == 3.0


def test_what_is_shown_is_the_mean_sign_of_assigned_and_of_extra_cells() -> None:
    """Of four assigned cells three lead, one ties; of the extra ones one leads, three lag."""
    cells = Cells([batch(0)], [batch(10)], Gauntlet(runs=1), 2)
    leads = np.array([0.1, 0.1, 0.1, -0.1, 0.1, 0.0, -0.1, -0.1])
    assert cells.shown(leads) == (3 * MICRO // 4, -MICRO // 2)


def test_without_extra_batches_nothing_is_shown_on_them() -> None:
    cells = Cells([batch(0)], [], Gauntlet(runs=1), 2)
    assert cells.shown(np.array([0.1, 0.1, 0.1, -0.1])) == (MICRO // 2, 0)


def test_no_more_than_half_is_shown_where_one_part_neither_leads_nor_lags() -> None:
    cells = Cells([batch(0), batch(10)], [batch(20)], Gauntlet(runs=3), 2)
    assert cells.shown(np.where(cells.part == 0, 0.1, 0.0)) == (MICRO // 2, MICRO // 2)


def test_leads_as_small_as_the_tolerance_make_it_unsure() -> None:
    cells = Cells([batch(0)], [batch(10)], Gauntlet(runs=1), 2)
    assert cells.unsure(np.full(8, 10 * LOSS_TOLERANCE)) == (2, 2)
    small = np.array([LOSS_TOLERANCE, 1.0, 1.0, LOSS_TOLERANCE, 1.0, 1.0, 1.0, LOSS_TOLERANCE])
    assert cells.unsure(small) == (2 * (MICRO // 4) + 2, 2 * (MICRO // 2) + 2)


def test_without_assigned_batches_there_is_nothing_to_look_at() -> None:
    assert not Cells([], [], Gauntlet(), 2)
    assert not Cells([], [batch(0)], Gauntlet(), 2)
    assert Cells([batch(0)], [], Gauntlet(), 2)
