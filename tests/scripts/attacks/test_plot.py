# SPDX-License-Identifier: Apache-2.0
"""The plot of where deterrence ends has its curves, and they end where the numbers say."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from click.testing import CliRunner

from scripts.economics import cli

NODES, TIMES = 3, (1, 10, 100)
Points = list[tuple[float, float]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the command draws of three trainers."""
    path = tmp_path_factory.mktemp("plot") / "ends.svg"
    told = CliRunner().invoke(
        cli, ["attacks", "--family", "scoring", "--nodes", str(NODES), "--plot", str(path)]
    )
    assert told.exit_code == 0, told.output
    assert f"Drawn: {path}" in told.output.replace("\n", "")
    return path.read_text()


def points(drawn: str, name: str) -> Points:
    """Of the line with this id, in the file's own units; y grows downwards."""
    (group,) = re.findall(rf'<g id="{name}">(.*?)</g>', drawn, re.DOTALL)
    path = re.search(r'<path d="(.*?)"', group, re.DOTALL)
    assert path is not None
    pairs = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path[1])
    return [(float(x), float(y)) for x, y in pairs]


def crossing(line: Points, zero: float) -> float:
    """Where a line meets zero for the first time, as part of its width."""
    start, width = line[0][0], line[-1][0] - line[0][0]
    for (x, y), (later, below) in pairwise(line):
        if (y - zero) * (below - zero) <= 0 and y != below:
            return (x + (later - x) * (y - zero) / (y - below) - start) / width
    raise AssertionError("It lies on one side of zero.")


def zero(drawn: str, by: str) -> float:
    (_, y), *_ = points(drawn, f"{by}-zero")
    return y


@pytest.mark.parametrize("times", TIMES)
def test_lies_pay_until_so_many_are_found(drawn: str, times: int) -> None:
    """By hand, in ZOO: a lie that is not found is paid a third of half of 1,000, one that is found
    loses a fifth of the stake. A trainer is one of the two of three that are drawn in any case, or
    is drawn by g a / (g a + l): g a is five quarters of a third of 950, and l is 9 of 100, half of
    what the first two of five findings take by the mean."""
    pay, slash, lasting = 500 / NODES, 20 * times, 9 * times
    exposed = 1.25 * 950 / NODES
    chance = 1 - (1 - 2 / NODES) * lasting / (exposed + lasting)
    found = points(drawn, f"found-{times}")
    assert found[0][1] < zero(drawn, "found") < found[-1][1], "it pays at first, and not at last"
    ends = pay / (chance * (pay + slash))
    assert crossing(found, zero(drawn, "found")) == pytest.approx(ends, abs=0.005)


@pytest.mark.parametrize("times", TIMES)
def test_lies_pay_from_the_share_on_that_stops_every_vote(drawn: str, times: int) -> None:
    """Two thirds of the weight convict: of twelve verifiers five are the first that prevent it.
    The curve goes from one twelfth to ten."""
    line, level = points(drawn, f"share-{times}"), zero(drawn, "share")
    assert line[0][1] > level > line[-1][1], "it does not pay at first, and pays at last"
    assert crossing(line, level) == pytest.approx((5 - 1) / (10 - 1), abs=0.005)


def test_the_three_curves_differ_and_are_told_by_the_stake(drawn: str) -> None:
    ends = [points(drawn, f"found-{times}")[-1][1] for times in TIMES]
    assert len(set(ends)) == len(TIMES) and ends == sorted(ends), "the more stake, the more is lost"
    for label in ("100 ZOO at stake", "1,000 ZOO at stake", "10,000 ZOO at stake"):
        assert f"<!-- {label} -->" in drawn
    assert "<!-- Where deterrence ends: above zero, sending noise pays -->" in drawn
