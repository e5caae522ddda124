# SPDX-License-Identifier: Apache-2.0
"""How many of a gauntlet job's trainers are evaluated in a round, on how many tokens, and what is
said of few."""

from __future__ import annotations

from typing import Any

import pytest

from agents.jobs.evaluated import (
    LEAST_TOKENS,
    few_evaluated,
    few_measured,
    held_back,
    many_sequences,
)
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.cid import cid_of_bytes
from agents.training.spec import JobSpec
from tests.stage.memory.gauntlet_population import earned, played, stops_at

DATA = cid_of_bytes(b"")
ROUNDS = 100
BOUND = 0.5 * 1.1  # half of the work's share, and a tenth of it


def few(trainers: int, **options: Any) -> str | None:
    scored = {"score": "gauntlet", "verify": "gauntlet", "score_options": options}
    return few_evaluated(JobSpec.from_dict({**scored, "data": DATA}), trainers)


@pytest.mark.parametrize(
    ("trainers", "options", "too_few"),
    [
        (16, {}, False),
        (17, {}, True),
        (16, {"evaluated": 2}, True),
        (64, {"evaluated": 31}, True),
        (64, {"evaluated": 32}, False),
        (128, {"evaluated": 128}, False),
    ],
)
def test_fewer_than_half_are_too_few(trainers: int, options: dict[str, int], too_few: bool) -> None:
    assert (few(trainers, **options) is not None) == too_few


def test_it_says_how_many_there_are_and_what_to_change() -> None:
    found = few(65)
    assert found is not None
    assert found.startswith("validators evaluate 8 of 65 trainers in a round.")
    assert "Set score_options.evaluated to 33 or more" in found
    assert few(65, evaluated=33) is None


def test_who_has_no_validators_is_told_nothing() -> None:
    assert few_evaluated(JobSpec.from_dict({"data": DATA}), 128) is None


@pytest.mark.parametrize(
    ("nodes", "evaluated"), [(24, 3), (64, 4), (64, 8), (16, 2), (24, 12), (64, 32)], ids=str
)
def test_half_of_the_work_is_paid_its_share_however_few_are_evaluated(
    nodes: int, evaluated: int
) -> None:
    """By real ratings and shares: a third of the nodes stops after half of the rounds."""
    some = nodes // 3
    runs = played(stops_at(some, ROUNDS // 2), 3, ROUNDS, nodes, Gauntlet(evaluated=evaluated))
    _, pay = earned(runs, some)
    honest = (nodes - some * pay) / (nodes - some)
    assert pay / honest < BOUND


@pytest.mark.parametrize(
    ("batches", "size", "length", "wanted"),
    [(8, 2, 16, None), (7, 2, 16, 8), (4, 2, 16, 8), (1, 8, 32, None), (1, 1, 50, 6)],
)
def test_a_loss_is_measured_on_enough_tokens(
    batches: int, size: int, length: int, wanted: int | None
) -> None:
    scored = {"score": "gauntlet", "verify": "gauntlet", "score_options": {"eval_batches": batches}}
    sizes = {"batch_size": size, "seq_len": length}
    said = few_measured(JobSpec.from_dict({**scored, "data": DATA, "optimizer": sizes}))
    assert (said is None) == (batches * size * length >= LEAST_TOKENS) == (wanted is None)
    if said is not None:
        assert said.startswith(f"validators measure a loss on {batches * size * length} tokens.")
        assert f"Set score_options.eval_batches to {wanted} or more" in said


def test_who_has_no_validators_is_not_told_of_tokens() -> None:
    sizes = {"batch_size": 1, "seq_len": 8}
    assert few_measured(JobSpec.from_dict({"data": DATA, "optimizer": sizes})) is None


def assigned(batches: int, measured: int, size: int = 2, extra: int = 1) -> JobSpec:
    """A job of so many batches a round, of which so many are measured of each trainer."""
    scored = {
        "score": "gauntlet",
        "verify": "gauntlet",
        "score_options": {"eval_batches": measured, "extra": extra},
    }
    sizes = {"batch_size": size, "seq_len": 64}
    return JobSpec.from_dict(
        {**scored, "data": DATA, "batches_per_round": batches, "optimizer": sizes}
    )


@pytest.mark.parametrize(
    ("batches", "trainers", "measured", "held"),
    [
        (96, 3, 6, True),
        (96, 3, 31, True),
        (96, 3, 32, False),
        (98, 3, 32, False),  # what is left over is not handed out in any case
        (99, 3, 32, True),
        (96, 16, 6, False),
        (3, 16, 1, False),  # one at least
    ],
)
def test_a_sponsor_is_told_where_fewer_are_handed_out_than_it_names(
    batches: int, trainers: int, measured: int, held: bool
) -> None:
    said = held_back(assigned(batches, measured), trainers)
    assert (said is not None) == held
    if said is not None:
        each = f"each of {trainers} trainers is handed out {measured} batches in a round and not "
        assert said.startswith(f"{each}{batches // trainers}, since")


def test_it_says_how_many_a_round_has_and_what_to_change() -> None:
    said = held_back(assigned(96, 6), 3)
    assert said is not None
    assert "a round has 18 of the 96" in said and "With 16 trainers it has all of them." in said
    assert said.endswith("For 3 set score_options.eval_batches to 32.")
    assert held_back(assigned(96, 6), 16) is None and held_back(assigned(96, 32), 3) is None
    many = held_back(assigned(300, 6), 3)
    assert many is not None and many.endswith("With 50 trainers it has all of them.")
    extra = held_back(assigned(96, 6, extra=2), 6)
    assert extra is not None and extra.endswith("For 6 set score_options.eval_batches to 32.")
    assert held_back(assigned(96, 32, extra=2), 6) is None


@pytest.mark.parametrize(
    ("batches", "size", "many"), [(12, 2, False), (15, 2, True), (6, 4, False), (3, 9, True)]
)
def test_a_trainer_has_few_sequences(batches: int, size: int, many: bool) -> None:
    said = many_sequences(assigned(batches, 64, size), 3)
    assert (said is not None) == many
    if said is not None:
        assert said.startswith(f"each of 3 trainers has {batches // 3 * size} sequences")


def test_who_has_no_validators_is_not_told_of_batches() -> None:
    redone = JobSpec.from_dict({"data": DATA, "batches_per_round": 960})
    assert held_back(redone, 2) is None and many_sequences(redone, 2) is None
