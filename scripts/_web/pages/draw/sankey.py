# SPDX-License-Identifier: Apache-2.0
"""Money as one picture: amounts flow from left to right, and no unit is lost on the way.

`balanced` refuses flows of which a stage passes on more or less than it took in. So a picture that
is drawn adds up to the last unit, whatever the chain said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scripts._report.amounts import zoo
from scripts._report.page.markup import text
from scripts._web.pages.draw.svg import picture, tag, title

WIDTH, _TOP, _GAP, _BAR = 960, 8, 14, 10
_NAME = 200  # room for the names of the last column
_LEAST = 2.0  # height of the smallest flow: it must be seen
_ROW = 19.0  # height that a name takes


@dataclass(frozen=True)
class Stop:
    """A place that money comes from, passes or ends at.

    Args:
        key: names it in flows.
        name: what is shown.
        column: from the left, from 0.
        tone: the style sheet's class.
        href: its page, if it has one.
        keeps: it may pass on less than it took in; the rest is still there.
    """

    key: str
    name: str
    column: int
    tone: str
    href: str | None = None
    keeps: bool = False


@dataclass(frozen=True)
class Flow:
    """An amount, in 1e-18 ZOO, that goes from one stop to another."""

    source: str
    target: str
    amount: int


def balanced(stops: Sequence[Stop], flows: Sequence[Flow]) -> dict[str, int]:
    """Return what goes through each stop.

    Raises:
        ValueError: a stop between two others does not pass on what it took in, a flow runs
            backwards, or its amount is not positive.
    """
    columns = {stop.key: stop.column for stop in stops}
    taken: dict[str, int] = defaultdict(int)
    given: dict[str, int] = defaultdict(int)
    for flow in flows:
        if flow.amount <= 0 or columns[flow.source] >= columns[flow.target]:
            raise ValueError(f"no flow of {flow.amount} from {flow.source} to {flow.target}")
        given[flow.source] += flow.amount
        taken[flow.target] += flow.amount
    for stop in stops:
        came, went = taken[stop.key], given[stop.key]
        if came and went and (went > came or (went < came and not stop.keeps)):
            raise ValueError(f"{stop.name} takes in {came} and passes on {went}")
    return {stop.key: taken[stop.key] or given[stop.key] for stop in stops}


def sankey(label: str, stops: Sequence[Stop], flows: Sequence[Flow]) -> Markup:
    """Return the picture; nothing of no flows."""
    through = balanced(stops, flows)
    stops = [stop for stop in stops if through[stop.key]]
    if not stops:
        return Markup("")
    columns: dict[int, list[Stop]] = defaultdict(list)
    for stop in stops:
        columns[stop.column].append(stop)
    whole = max(sum(through[s.key] for s in members) for members in columns.values())
    tallest = max(len(members) for members in columns.values())
    flowing = max(180.0, min(420.0, 26.0 * tallest))

    def high(amount: int) -> float:
        return max(_LEAST, flowing * amount / whole)

    heights = {stop.key: max(high(through[stop.key]), _LEAST) for stop in stops}
    used = [
        sum(max(heights[s.key], _ROW) for s in members) + _GAP * (len(members) - 1)
        for members in columns.values()
    ]
    tall = max(used) + 2 * _TOP
    last = max(columns)
    tops: dict[str, float] = {}
    for members, room in zip(columns.values(), used, strict=True):
        y = (tall - room) / 2
        for stop in members:
            box = max(heights[stop.key], _ROW)
            tops[stop.key] = y + (box - heights[stop.key]) / 2
            y += box + _GAP
    xs = {s.key: 2 + s.column * (WIDTH - _NAME - _BAR) / max(last, 1) for s in stops}
    parts = [*_ribbons(stops, flows, through, tops, heights, xs)]
    for stop in stops:
        parts.append(_stop(stop, through[stop.key], xs[stop.key], tops[stop.key], heights))
    return picture(WIDTH, tall, f"{label}: {_spoken(stops, flows)}", *parts, class_="sankey")


def _ribbons(
    stops: Sequence[Stop],
    flows: Sequence[Flow],
    through: dict[str, int],
    tops: dict[str, float],
    heights: dict[str, float],
    xs: dict[str, float],
) -> list[Markup]:
    """Return the flows; at each stop they lie in the order of the stops at their other end."""
    names = {stop.key: stop for stop in stops}
    order = {stop.key: place for place, stop in enumerate(stops)}
    out_at, in_at = dict(tops), dict(tops)
    starts: dict[int, float] = {}
    found = []
    for place, flow in sorted(enumerate(flows), key=lambda item: order[item[1].target]):
        starts[place] = out_at[flow.source]
        out_at[flow.source] += heights[flow.source] * flow.amount / through[flow.source]
    for place, flow in sorted(enumerate(flows), key=lambda item: order[item[1].source]):
        end = in_at[flow.target]
        broad_end = heights[flow.target] * flow.amount / through[flow.target]
        in_at[flow.target] += broad_end
        start = starts[place]
        broad = heights[flow.source] * flow.amount / through[flow.source]
        x0, x1 = xs[flow.source] + _BAR, xs[flow.target]
        mid = (x0 + x1) / 2
        path = (
            f"M{x0:.1f} {start:.2f}C{mid:.1f} {start:.2f} {mid:.1f} {end:.2f} {x1:.1f} {end:.2f}"
            f"V{end + broad_end:.2f}C{mid:.1f} {end + broad_end:.2f} {mid:.1f} {start + broad:.2f}"
            f" {x0:.1f} {start + broad:.2f}Z"
        )
        told = (
            f"{names[flow.source].name} → {names[flow.target].name}: {zoo(flow.amount)} ZOO "
            f"({flow.amount} wei)"
        )
        tone = names[flow.target].tone
        found.append(tag("path", title(told), d=path, class_=f"ribbon t-{tone}"))
    return found


def _stop(stop: Stop, amount: int, x: float, top: float, heights: dict[str, float]) -> Markup:
    height = heights[stop.key]
    middle = top + height / 2
    name = tag(
        "text",
        tag("tspan", stop_name(stop.name), class_="stop-name"),
        tag("tspan", f" {zoo(amount)}", class_="stop-amount"),
        x=x + _BAR + 6,
        y=middle + 4.5,
        class_="stop",
    )
    inside = [
        title(f"{stop.name}: {zoo(amount)} ZOO ({amount} wei)"),
        tag("rect", x=x, y=top, width=_BAR, height=height, rx=2, class_=f"post t-{stop.tone}"),
        name,
    ]
    box = tag("g", *inside)
    return box if stop.href is None else tag("a", box, href=stop.href)


def stop_name(name: str, most: int = 30) -> str:
    """Return a name as short as the picture has room for, escaped."""
    return text(name if len(name) <= most else f"{name[: most - 1]}…")


def _spoken(stops: Sequence[Stop], flows: Sequence[Flow]) -> str:
    names = {stop.key: stop.name for stop in stops}
    return "; ".join(f"{names[f.source]} to {names[f.target]} {zoo(f.amount)} ZOO" for f in flows)
