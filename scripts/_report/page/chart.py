# SPDX-License-Identifier: Apache-2.0
"""Curves as inline SVG that takes its colours from the page, and their legend as text.

The text of a chart is as large on a phone as on a desk: a chart is drawn 360 units wide and is
never shown much wider or narrower than that many pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.ticker import MaxNLocator

from scripts._report.page.markup import text
from scripts._report.page.style import CURVES

WIDTH, HEIGHT = 360, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 46
_MARKS = ("circle", "square", "diamond")  # the next one when all colours are taken
_FAR = 1e300
_SLIVER = 1e-6
_DASH = " stroke-dasharray='6 4'"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """One curve. `place`: its colour and mark; the same node has the same in all charts.

    `step`: it keeps a value until the next one. `marked`: a mark is drawn at every point. `joined`:
    a line goes through them.
    """

    name: str
    points: Points
    place: int = 0
    dashed: bool = False
    step: bool = False
    marked: bool = True
    joined: bool = True


@dataclass(frozen=True)
class Axis:
    """The range of an axis and the values that are named on it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float], whole: bool = False, most: int = 5) -> Axis:
        """An axis that holds all values. `whole`: only whole numbers are named on it."""
        finite = _finite(values) or [0.0, 1.0]
        low, high = min(finite), max(finite)
        if low == high:
            half = max(0.5, _SLIVER * abs(low))  # a half more is nothing to 1e17
            low, high = low - half, high + half
        found = MaxNLocator(most, integer=whole, steps=[1, 2, 5, 10]).tick_values(low, high)
        inside = [float(tick) for tick in found if low - 1e-9 <= tick <= high + 1e-9]
        if whole:
            inside = [tick for tick in inside if tick == round(tick)]
        return cls(low, high, tuple(inside))

    def share(self, value: float) -> float:
        """How far along the axis a value lies; one outside lies at the end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def chart(
    title: str,
    curves: Sequence[Curve],
    x_name: str,
    y_name: str,
    y_values: Iterable[float] = (),
    limit: tuple[str, float] | None = None,
) -> str:
    """A figure of curves over whole numbers.

    Args:
        title: its caption.
        curves: nothing is said of an empty one.
        x_name, y_name: what the axes count.
        y_values: what the vertical axis must hold; by default all points and 5 % more.
        limit: a line across with its name, such as a budget.
    """
    drawn = [curve for curve in curves if curve.points]
    xs = Axis.of((x for curve in drawn for x, _ in curve.points), whole=True, most=8)
    heights = list(y_values) or _padded([y for curve in drawn for _, y in curve.points], limit)
    ys = Axis.of(heights)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + xs.share(x) * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - ys.share(y) * (HEIGHT - _TOP - _BOTTOM),
        )

    told = "; ".join(
        f"{c.name}: from {_figure(c.points[0][1])} to {_figure(c.points[-1][1])}" for c in drawn
    )
    parts = [
        f"<figure class='card'><figcaption>{text(title)}</figcaption>",
        f"<svg role='img' viewBox='0 0 {WIDTH} {HEIGHT}' aria-label='{text(f'{title}. {told}')}'>",
    ]
    for tick in ys.ticks:
        x, y = place(xs.low, tick)
        kind = "zero" if tick == 0 else "grid"
        parts.append(f"<path class='{kind}' d='M{x:.1f} {y:.1f}H{WIDTH - _RIGHT}'/>")
        parts.append(_label(x - 6, y + 5, _figure(tick), "end"))
    for tick in xs.ticks:
        x, y = place(tick, ys.low)
        parts.append(f"<path class='grid' d='M{x:.1f} {y:.1f}v4'/>")
        parts.append(_label(x, y + 19, f"{tick:,.0f}", "middle", " data-axis='x'"))
    parts.append(_label((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, x_name, "middle"))
    if limit is not None:
        x, y = place(xs.low, limit[1])
        parts.append(f"<path class='curve bad'{_DASH} d='M{x:.1f} {y:.1f}H{WIDTH - _RIGHT}'/>")
    for curve in drawn:
        parts += _curve(curve, [place(x, y) for x, y in curve.points])
    parts.append(f"</svg><p class='soft small'>{text(y_name)}</p>")
    parts.append(_legend(drawn, limit))
    return "\n".join([*parts, "</figure>"])


def _padded(values: list[float], limit: tuple[str, float] | None) -> list[float]:
    values = _finite(values)
    if limit is not None:
        values.append(limit[1])
    if not values:
        return []
    margin = 0.05 * (max(values) - min(values))
    low = min(values) - margin
    return [max(low, 0.0) if min(values) >= 0 else low, max(values) + margin]


def _finite(values: Iterable[float]) -> list[float]:
    """Those that are numbers, none so far out that a difference of two overflows."""
    return [min(max(value, -_FAR), _FAR) for value in values if math.isfinite(value)]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _label(x: float, y: float, words: str, anchor: str, more: str = "") -> str:
    place = f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'"
    return f"<text class='axis' {place}{more}>{text(words)}</text>"


def _curve(curve: Curve, points: Sequence[tuple[float, float]]) -> list[str]:
    (x, y), *_ = points
    steps = [f"M{x:.1f} {y:.1f}"]
    for (_, _), (x, y) in pairwise(points):
        steps.append(f"H{x:.1f}V{y:.1f}" if curve.step else f"L{x:.1f} {y:.1f}")
    dash = _DASH if curve.dashed else ""
    colour = f"c{curve.place % CURVES}"
    parts = [f"<path class='curve {colour}'{dash} d='{''.join(steps)}'/>"] if curve.joined else []
    if curve.marked:
        parts += [_mark(curve.place, x, y) for x, y in points]
    return parts


def _mark(place: int, x: float, y: float) -> str:
    shape = _MARKS[place // CURVES % len(_MARKS)]
    kind = f"class='mark c{place % CURVES}'"
    if shape == "circle":
        return f"<circle {kind} cx='{x:.1f}' cy='{y:.1f}' r='3.2'/>"
    turn = f" transform='rotate(45 {x:.1f} {y:.1f})'" if shape == "diamond" else ""
    return f"<rect {kind} x='{x - 3:.1f}' y='{y - 3:.1f}' width='6' height='6'{turn}/>"


def _legend(curves: Sequence[Curve], limit: tuple[str, float] | None) -> str:
    if len(curves) < 2 and limit is None:
        return ""
    items = []
    for curve in curves:
        dash = _DASH if curve.dashed else ""
        line = f"<path class='curve c{curve.place % CURVES}'{dash} d='M2 8H34'/>"
        line = line if curve.joined else ""
        mark = _mark(curve.place, 18, 8) if curve.marked else ""
        items.append(f"<li>{_swatch(line + mark)} {text(curve.name)}</li>")
    if limit is not None:
        line = f"<path class='curve bad'{_DASH} d='M2 8H34'/>"
        items.append(f"<li>{_swatch(line)} {text(limit[0])}</li>")
    return f"<ul class='legend'>{''.join(items)}</ul>"


def _swatch(body: str) -> str:
    return f"<svg viewBox='0 0 36 16' aria-hidden='true'>{body}</svg>"
