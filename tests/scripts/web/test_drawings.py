# SPDX-License-Identifier: Apache-2.0
"""The pictures of the pages: they say what the numbers say, and hold no style and no script."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.protocol.numbers import Phase
from scripts._web.pages.draw.clock import PHASES, Clock, clock
from scripts._web.pages.draw.creature import creature
from scripts._web.pages.draw.curve import Point, curve, spark
from scripts._web.pages.draw.meter import meter
from scripts._web.pages.draw.sankey import Flow, Stop, balanced, sankey

HOSTILE = "\"'><script>alert(1)</script>\x00\u202e{{7*7}}"
WINDOWS = (120, 60, 60, 120)


def parsed(markup: str) -> ElementTree.Element:
    """The picture as XML, once nothing in it could break a strict content policy."""
    root = ElementTree.fromstring(markup)
    for element in root.iter():
        assert element.tag != "script"
        assert not [name for name in element.attrib if name == "style" or name.startswith("on")]
    return root


def found(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """Every element that has a class."""
    return [e for e in root.iter() if name in e.get("class", "").split()]


# -- the clock ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "left", "figure", "begun"),
    [
        (Phase.COMMIT, 120, "2 m", 1),
        (Phase.REVEAL, 59, "59 s", 2),
        (Phase.CHALLENGE, 1, "1 s", 4),
        (Phase.DISPUTED, 500, "8 m", 4),
        (Phase.AGGREGATE, -1, "due", 3),
        (Phase.FINALIZED, 0, "done", 4),
        (Phase.VOID, 0, "void", 4),
    ],
)
def test_a_clock_shows_what_is_over_and_what_is_left(
    phase: Phase, left: int, figure: str, begun: int
) -> None:
    root = parsed(clock(Clock(WINDOWS, phase, left)))
    assert [e.text for e in found(root, "clock-figure")] == [figure]
    assert len(found(root, "clock-track")) == len(PHASES)
    assert len(found(root, "clock-run")) == begun
    assert figure in str(root.get("aria-label"))


def test_a_round_that_is_none_has_no_clock() -> None:
    assert clock(Clock(WINDOWS, Phase.NONE, 0)) == ""


@given(st.lists(st.integers(0, 10**7), min_size=4, max_size=4), st.integers(-(10**7), 10**7))
def test_a_clock_of_any_windows_can_be_drawn(windows: list[int], left: int) -> None:
    for phase in (*PHASES, Phase.DISPUTED):
        assert "nan" not in clock(Clock(windows, phase, left))
        parsed(clock(Clock(windows, phase, left)))


# -- creatures ---------------------------------------------------------------------------------


def test_a_node_is_known_by_its_creature() -> None:
    assert creature(1) == creature(1)
    drawn = {creature(node) for node in range(100)}
    assert len(drawn) == 100


@given(st.integers(0, 2**64))
def test_a_creature_is_symmetric(node: int) -> None:
    root = parsed(creature(node))
    (body,) = found(root, "creature-body")
    cells = {(int(x), int(y)) for x, y in re.findall(r"M(\d) (\d)h", str(body.get("d")))}
    assert cells == {(9 - x, y) for x, y in cells} and (3, 3) not in cells
    assert {y for _, y in cells} == set(range(10)) and root.get("aria-hidden") == "true"


# -- curves ------------------------------------------------------------------------------------


def test_a_curve_tells_each_point_and_leads_to_it() -> None:
    points = [Point(n, 5 - n / 10, f"round {n}: loss {5 - n / 10:g}", f"/r/{n}") for n in (1, 2, 3)]
    root = parsed(curve("Loss", points, "round", "loss"))
    assert [e.text for e in root.iter("title")] == [p.told for p in points]
    assert [e.get("href") for e in root.iter("a")] == ["/r/1", "/r/2", "/r/3"]
    assert "round 1" in str(root.get("aria-label")) and "round 3" in str(root.get("aria-label"))
    strips = [(float(e.get("x", 0)), float(e.get("width", 0))) for e in found(root, "hit")]
    for (x, width), (following, _) in pairwise(strips):
        assert x + width == pytest.approx(following, abs=0.02)  # no gap to point through


def test_bars_begin_at_zero() -> None:
    root = parsed(curve("Pay", [Point(1, 50, "a"), Point(2, 100, "b")], "round", "ZOO", bars=True))
    low, high = (float(e.get("height", 0)) for e in found(root, "bar"))
    assert high == pytest.approx(2 * low, rel=0.01)


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40), st.text(max_size=20), st.booleans()
)
def test_any_curve_can_be_drawn(values: list[float], told: str, bars: bool) -> None:
    points = [Point(n, value, told) for n, value in enumerate(values)]
    parsed(curve(HOSTILE, points, HOSTILE, HOSTILE, bars=bars))
    assert parsed(spark(HOSTILE, values)).get("class") == "spark"


def test_nothing_is_drawn_of_nothing() -> None:
    assert curve("Loss", [], "round", "loss") == "" and spark("Loss", []) == ""
    assert sankey("Money", [], []) == ""


# -- money -------------------------------------------------------------------------------------

STOPS = (
    Stop("in", "reward", 0, "plain"),
    Stop("pool", "pool", 1, "pool"),
    Stop("a", HOSTILE, 2, "good", "/nodes/1"),
    Stop("b", "node 2", 2, "good"),
)


@given(st.lists(st.integers(1, 10**30), min_size=1, max_size=40))
def test_every_flow_is_drawn_and_none_overlaps(amounts: list[int]) -> None:
    stops = [STOPS[0], STOPS[1], *(Stop(f"n{n}", f"n{n}", 2, "good") for n in range(len(amounts)))]
    flows = [Flow("in", "pool", sum(amounts))]
    flows += [Flow("pool", f"n{n}", amount) for n, amount in enumerate(amounts)]
    assert balanced(stops, flows)["pool"] == sum(amounts)
    root = parsed(sankey("Money", stops, flows))
    assert len(found(root, "ribbon")) == len(flows)
    told = [str(e[0].text) for e in found(root, "ribbon")]
    wei = sorted(int(re.findall(r"\((\d+) wei\)", text)[0]) for text in told)
    assert wei == sorted(flow.amount for flow in flows)
    posts = [e for e in found(root, "post") if float(e.get("x", 0)) > 400]
    spans = sorted((float(e.get("y", 0)), float(e.get("height", 0))) for e in posts)
    for (y, height), (following, _) in pairwise(spans):
        assert y + height <= following


def test_a_name_in_the_picture_is_only_a_name() -> None:
    flows = [Flow("in", "pool", 3), Flow("pool", "a", 1), Flow("pool", "b", 2)]
    root = parsed(sankey("Money", STOPS, flows))
    names = [e.text for e in found(root, "stop-name")]
    assert len(names) == 4 and str(names[2]).startswith("\"'><script>")
    assert [e.get("href") for e in root.iter("a")] == ["/nodes/1"]


@pytest.mark.parametrize(
    "flows",
    [
        [Flow("in", "pool", 3), Flow("pool", "a", 2)],  # a unit is lost
        [Flow("in", "pool", 3), Flow("pool", "a", 4)],  # a unit is made
        [Flow("in", "pool", 0)],
        [Flow("pool", "in", 1)],
    ],
)
def test_money_that_does_not_add_up_is_not_drawn(flows: list[Flow]) -> None:
    with pytest.raises(ValueError, match=r"no flow|takes in"):
        sankey("Money", STOPS, flows)


def test_a_stop_may_keep_a_part_and_never_make_one() -> None:
    kept = Stop("a", "retained", 2, "wait", keeps=True)
    end = Stop("z", "credited", 3, "good")
    flows = [Flow("pool", "a", 5), Flow("a", "z", 2)]
    assert balanced([STOPS[1], kept, end], flows) == {"pool": 5, "a": 5, "z": 2}
    with pytest.raises(ValueError, match="takes in 5 and passes on 6"):
        balanced([STOPS[1], kept, end], [Flow("pool", "a", 5), Flow("a", "z", 6)])


@pytest.mark.parametrize(("part", "whole", "width"), [(1, 2, "50"), (3, 2, "100"), (1, 0, "0")])
def test_a_meter_is_as_full_as_its_share(part: int, whole: int, width: str) -> None:
    (full,) = found(parsed(meter(part, whole)), "meter-full")
    assert full.get("width") == width
