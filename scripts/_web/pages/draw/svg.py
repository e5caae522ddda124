# SPDX-License-Identifier: Apache-2.0
"""SVG elements as markup.

Rule: a picture holds no style attribute and no script, so that the strictest content policy lets it
through; its colours are classes of the style sheet. Every attribute and every text goes through
`text` of the report's pages, which escapes it.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from scripts._report.page.markup import text


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element. `inside` is markup; `class_` means class, `_` in a name means `-`.

    An attribute that is None is left out. Numbers are written with two decimals at most.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    body = "".join(inside)
    return Markup(f"<{name}{written}>{body}</{name}>")


def words(content: object, **attributes: object) -> Markup:
    """Return a text element that shows `content`."""
    return tag("text", text(content), **attributes)


def title(content: object) -> Markup:
    """Return the title that a browser shows when the pointer rests on the element around it."""
    return tag("title", text(content))


def picture(
    width: float,
    height: float,
    label: str,
    *inside: str,
    class_: str = "",
    hidden: bool = False,
    stretched: bool = False,
) -> Markup:
    """Return an SVG that scales with its container.

    `hidden`: words beside it say the same. `stretched`: it fills its container both ways.
    """
    linked = any("<a " in part for part in inside)  # an image may hold no link
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {_plain(width)} {_plain(height)}",
        class_=class_ or None,
        role=None if hidden else "group" if linked else "img",
        aria_label=None if hidden else label,
        aria_hidden="true" if hidden else None,
        preserveAspectRatio="none" if stretched else None,
        focusable="false",
    )


def arc(x: float, y: float, radius: float, start: float, end: float) -> str:
    """Return the path of an arc, from `start` to `end` in turns, clockwise from twelve o'clock.

    A whole turn is drawn as two halves: one arc whose ends meet would be no arc at all.
    """
    if end - start >= 1 - 1e-9:
        half = start + 0.5
        return arc(x, y, radius, start, half) + arc(x, y, radius, half, start + 0.999999)
    (x0, y0), (x1, y1) = (_on(x, y, radius, turn) for turn in (start, end))
    large = int(end - start > 0.5)
    return f"M{x0:.2f} {y0:.2f}A{radius:g} {radius:g} 0 {large} 1 {x1:.2f} {y1:.2f}"


def _on(x: float, y: float, radius: float, turn: float) -> tuple[float, float]:
    angle = 2 * math.pi * turn
    return x + radius * math.sin(angle), y - radius * math.cos(angle)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value
