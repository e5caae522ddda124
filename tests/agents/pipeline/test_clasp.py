# SPDX-License-Identifier: Apache-2.0
"""CLASP finds the miner that raises the loss, spares its peers, and doubts who reports it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from agents.pipeline.clasp import (
    PPM,
    Clasp,
    PathLoss,
    accusers,
    companions,
    contributions,
    lies,
    mean_losses,
)
from agents.pipeline.routes import route

SEED = bytes(range(32))
STAGES = [list(range(10 * stage, 10 * stage + 5)) for stage in range(5)]


@cache
def paths(samples: int) -> list[tuple[int, ...]]:
    return [route(SEED, sample, STAGES) for sample in range(samples)]


def made(
    loss: Callable[[tuple[int, ...]], float], samples: int = 1500, spread: float = 0.5
) -> list[PathLoss]:
    """A log over drawn routes; `loss` of a path, with normal noise."""
    noise = random.Random(5)
    return [
        PathLoss(n, path, round(max(0.0, noise.gauss(loss(path), spread)) * PPM))
        for n, path in enumerate(paths(samples))
    ]


def test_estimates_by_hand() -> None:
    log = [
        PathLoss(n, path, loss)
        for n, (path, loss) in enumerate([((1, 3), 6), ((1, 4), 8), ((2, 3), 2), ((2, 4), 4)])
    ]
    assert mean_losses(log) == {1: 7, 2: 3, 3: 4, 4: 6}
    assert contributions(log) == {1: -2, 2: 2, 3: 1, 4: -1}


def test_additive_effects_are_recovered_exactly_over_all_paths() -> None:
    """The estimate's assumption: with every path once, phi is the peers' mean less the own one."""
    effect = {1: 5, 2: 0, 3: 1, 4: 7, 5: 9, 6: 2}
    every = [(a, b, c) for a in (1, 2) for b in (3, 4) for c in (5, 6)]
    log = [PathLoss(n, path, 100 + sum(map(effect.get, path))) for n, path in enumerate(every)]
    half = Fraction(1, 2)
    expected = {1: -5 * half, 2: 5 * half, 3: 6 * half, 4: -6 * half, 5: -7 * half, 6: 7 * half}
    assert contributions(log) == expected


@pytest.mark.parametrize("by_reporter", [True, False])
@pytest.mark.parametrize("bad", [2, 23, 40])
def test_a_tenth_more_loss_is_found_in_any_stage(bad: int, by_reporter: bool) -> None:
    log = made(lambda path: 6.6 if bad in path else 6.0)
    found = Clasp(by_reporter=by_reporter).judge(log)
    assert found[bad].stage_z > 5000 and found[bad].overall_z > 5000
    assert found[bad].factor_ppm < PPM // 4
    assert all(one.factor_ppm == PPM for miner, one in found.items() if miner != bad)
    mates = [found[miner].contribution for miner in STAGES[bad // 10] if miner != bad]
    assert found[bad].contribution < 0 < min(mates)  # figure 8b


def test_honest_miners_keep_their_pay() -> None:
    found = Clasp().judge(made(lambda path: 6.0))
    assert len(found) == 25 and all(one.factor_ppm == PPM for one in found.values())


def test_a_low_loss_earns_no_more_than_a_usual_one() -> None:
    found = Clasp().judge(made(lambda path: 5.0 if 12 in path else 6.0))
    assert found[12].stage_z < -8000
    assert found[12].factor_ppm == PPM


def test_pay_falls_from_the_threshold_to_nothing_at_twice_as_much() -> None:
    factor = Clasp(threshold=4.0)._factor
    assert [factor(z) for z in (-9000, 4000, 5000, 8000, 20_000)] == [PPM, PPM, 750_000, 0, 0]


def test_one_reporter_frames_nobody_and_three_of_five_do() -> None:
    honest = made(lambda path: 6.0)

    def framed(liars: set[int]) -> list[PathLoss]:
        """5 more on samples of miner 2 and 1 less on others: a reporter's own mean stays."""
        return [
            replace(one, loss=one.loss + (5 if 2 in one.path else -1) * PPM)
            if one.path[-1] in liars
            else one
            for one in honest
        ]

    assert Clasp(by_reporter=False).judge(framed({40}))[2].factor_ppm == 0
    for liars, factor in (({40}, PPM), ({40, 41}, PPM), ({40, 41, 42}, 0)):
        assert Clasp().judge(framed(liars))[2].factor_ppm == factor


def test_a_lie_about_a_loss_is_told_by_recomputation() -> None:
    log = [PathLoss(1, (5, 7), 100), PathLoss(2, (5, 8), 100), PathLoss(3, (5, 7), 100)]
    assert lies(log, {1: 103, 2: 98, 9: 0}, tolerance=2) == {7: (1,)}
    assert lies(log, {1: 102, 2: 98}, tolerance=2) == {}
    assert Clasp().judge(log, liars={7})[7].factor_ppm == 0


def test_the_accuser_is_whose_own_reports_speak_most_against_a_miner() -> None:
    """Against miner 2 both speak, 8 with 15 above its mean, 7 with 5. Of equal ones it is 7."""
    losses = [((1, 7), 10), ((2, 7), 20), ((1, 8), 0), ((2, 8), 30)]
    log = [PathLoss(n, path, loss) for n, (path, loss) in enumerate(losses)]
    assert accusers(log, {2, 8}) == {2: 8, 8: 8}
    assert accusers([*log[:2], replace(log[2], loss=10), replace(log[3], loss=20)], {2}) == {2: 7}


def test_companions_are_those_beside_whom_a_miner_loses_the_most() -> None:
    """Miner 7 of the last stage: 30 more than its mean with 2 and 4 each, of another stage each.
    Miner 2 has no other before the last stage but 3 and 4. A few usual samples more, and one that
    loses more beside somebody else, change nothing."""
    ways = [((1, 3, 7), 10), ((1, 4, 7), 10), ((2, 3, 7), 10), ((2, 4, 7), 50), ((2, 4, 8), 10)]
    log = [PathLoss(n, path, loss) for n, (path, loss) in enumerate(ways)]
    assert companions(log, {7, 2}) == {2: (4,), 7: (2, 4)}
    more = [PathLoss(n, path, 10) for n, path in enumerate([(2, 4, 7)] * 9, 5)]
    assert companions([*log, *more], {7}) == {7: (2, 4)}
    assert companions(log[:3], {1, 7}) == {1: (3,), 7: (1, 3)}  # all alike: the lowest


@pytest.mark.parametrize(
    "log",
    [
        [],
        [PathLoss(1, (), 5)],
        [PathLoss(1, (1, 2), 5)] * 2,
        [PathLoss(1, (1, 2), 5), PathLoss(2, (1,), 5)],
        [PathLoss(1, (1, 2), 5), PathLoss(2, (2, 1), 5)],
        [PathLoss(1, (1, 2), -5)],
    ],
)
def test_a_log_that_is_none_is_refused(log: list[PathLoss]) -> None:
    with pytest.raises(ValueError):
        Clasp().judge(log)
