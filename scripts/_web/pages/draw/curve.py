# SPDX-License-Identifier: Apache-2.0
"""Curves with hover and no script: each point has a strip that shows its figures when pointed at.

Axes and their ticks are those of the report's charts. A table of the same figures stands behind
each chart, for those who cannot point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from scripts._report.page.chart import Axis
from scripts._web.pages.draw.svg import picture, tag, title, words

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 30


@dataclass(frozen=True)
class Point:
    """One point. `told`: what is shown when it is pointed at; `href`: where a click leads."""

    x: float
    y: float
    told: str
    href: str | None = None


def curve(
    label: str,
    points: Sequence[Point],
    x_name: str,
    y_name: str,
    tone: str = "accent",
    bars: bool = False,
    from_zero: bool = False,
) -> Markup:
    """Return one curve, or bars, over whole numbers; nothing of no points.

    Args:
        label: what a screen reader says first.
        points: ascending by x.
        x_name, y_name: what the axes count.
        tone: the style sheet's class for its colour.
        bars: one bar a point from zero, for amounts that add up.
        from_zero: the vertical axis holds zero.
    """
    if not points:
        return Markup("")
    xs = Axis.of([p.x for p in points], whole=True, most=8)
    values = [p.y for p in points]
    margin = 0.08 * (max(values) - min(values) or abs(max(values)) or 1.0)
    low = min(values) - margin
    if min(values) >= 0:
        low = 0.0 if bars or from_zero else max(low, 0.0)
    ys = Axis.of([low, max(values) + margin])
    inner = WIDTH - _LEFT - _RIGHT
    pad = inner / (2 * len(points)) if bars else 6.0

    def at(point: Point) -> tuple[float, float]:
        return (
            _LEFT + pad + xs.share(point.x) * (inner - 2 * pad),
            HEIGHT - _BOTTOM - ys.share(point.y) * (HEIGHT - _TOP - _BOTTOM),
        )

    floor = HEIGHT - _BOTTOM
    parts: list[str] = []
    for tick in ys.ticks:
        _, y = at(Point(points[0].x, tick, ""))
        parts.append(tag("path", d=f"M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}", class_="grid"))
        shown = f"{tick:,.0f}" if abs(tick) >= 1000 else f"{tick:.3g}"
        parts.append(words(shown, x=_LEFT - 8, y=y + 4, class_="tick", text_anchor="end"))
    for tick in xs.ticks:
        x, _ = at(Point(tick, ys.low, ""))
        parts.append(words(f"{tick:,.0f}", x=x, y=HEIGHT - 10, class_="tick", text_anchor="middle"))
    places = [at(point) for point in points]
    if bars:
        broad = min(28.0, max(2.0, inner / len(points) * 0.62))
        for x, y in places:
            height = max(floor - y, 0.0)
            parts.append(
                tag(
                    "rect",
                    x=x - broad / 2,
                    y=y,
                    width=broad,
                    height=height,
                    rx=min(2.0, height),
                    class_=f"bar t-{tone}",
                )
            )
    else:
        line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        area = f"{line}L{places[-1][0]:.1f} {floor}L{places[0][0]:.1f} {floor}Z"
        parts.append(tag("path", d=area, class_=f"area t-{tone}"))
        parts.append(tag("path", d=line, class_=f"curve t-{tone}"))
    parts += [
        _strip(point, place, span, floor, tone, bars)
        for point, place, span in zip(points, places, _strips(places), strict=True)
    ]
    first, last = points[0], points[-1]
    spoken = f"{label}. {y_name} by {x_name}, from {first.told} to {last.told}"
    return picture(WIDTH, HEIGHT, spoken, *parts, class_="chart")


def spark(label: str, values: Sequence[float], tone: str = "accent") -> Markup:
    """Return a curve without axes, for the width of a line of text; nothing of no values."""
    if not values:
        return Markup("")
    ys = Axis.of(values)
    step = 200 / max(len(values) - 1, 1)
    places = [(place * step, 46 - ys.share(value) * 40) for place, value in enumerate(values)]
    if len(places) == 1:
        places.append((200.0, places[0][1]))
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    x, y = places[-1]
    return picture(
        206,
        52,
        f"{label}: from {values[0]:.4g} to {values[-1]:.4g}",
        tag("path", d=f"{line}L{x:.1f} 52L0 52Z", class_=f"area t-{tone}"),
        tag("path", d=line, class_=f"curve t-{tone}"),
        tag("circle", cx=x, cy=y, r=3.5, class_=f"dot t-{tone}"),
        class_="spark",
    )


def _strips(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the strip of the picture that belongs to each point: half way to its neighbours."""
    middles = [(a + b) / 2 for (a, _), (b, _) in pairwise(places)]
    edges = [float(_LEFT), *middles, float(WIDTH - _RIGHT)]
    return list(pairwise(edges))


def _strip(
    point: Point,
    place: tuple[float, float],
    span: tuple[float, float],
    floor: float,
    tone: str,
    bars: bool,
) -> Markup:
    (x, y), (start, end) = place, span
    side = "end" if x > WIDTH * 0.6 else "start"
    shift = -10 if side == "end" else 10
    inside = [
        title(point.told),
        tag("rect", x=start, y=0, width=max(end - start, 1.0), height=HEIGHT, class_="hit"),
        tag("path", d=f"M{x:.1f} {_TOP}V{floor}", class_="hair"),
    ]
    if not bars:
        inside.append(tag("circle", cx=x, cy=y, r=4, class_=f"dot t-{tone}"))
    inside.append(words(point.told, x=x + shift, y=_TOP + 8, class_="told", text_anchor=side))
    strip = tag("g", *inside, class_="strip")
    if point.href is None:
        return strip
    return tag("a", strip, href=point.href, tabindex="-1")
