# SPDX-License-Identifier: Apache-2.0
"""A share of something as a bar. Words beside it say the same."""

from __future__ import annotations

from markupsafe import Markup

from scripts._web.pages.draw.svg import picture, tag


def meter(part: float, whole: float, tone: str = "accent") -> Markup:
    """Return a bar that is full where `part` is `whole`."""
    share = min(1.0, max(0.0, part / whole)) if whole else 0.0
    return picture(
        100,
        6,
        "",
        tag("rect", width=100, height=6, rx=3, class_="meter-track"),
        tag("rect", width=round(100 * share, 2), height=6, rx=3, class_=f"meter-full t-{tone}"),
        class_="meter",
        hidden=True,
        stretched=True,
    )
