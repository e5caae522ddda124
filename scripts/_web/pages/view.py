# SPDX-License-Identifier: Apache-2.0
"""Templates with the words and drawings that they may use.

Rule: everything is escaped unless a function of this folder made it. A template that names what is
not there fails: a page is never shown with a hole in it.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from scripts._report.page.markup import text
from scripts._web.pages import words
from scripts._web.pages.draw.clock import Clock, brief, clock
from scripts._web.pages.draw.creature import creature
from scripts._web.pages.draw.curve import Point, curve, spark
from scripts._web.pages.draw.meter import meter
from scripts._web.pages.draw.sankey import sankey

HERE = Path(__file__).resolve().parent
STATIC = HERE / "static"


def environment() -> Environment:
    """Return the templates' environment."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters.update(words.FILTERS)
    made.globals.update(
        brief=brief,
        clock=clock,
        Clock=Clock,
        creature=creature,
        curve=curve,
        Point=Point,
        spark=spark,
        sankey=sankey,
        meter=meter,
        static=static,
        now_at=_now_at,
    )
    return made


def _shown(value: Any) -> Any:
    """Return what a page shows of a value: no control character, no change of direction."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return Markup(text(value))
    return value


def static(name: str) -> str:
    """Return the path of a static file with a part of its hash, so that a browser keeps it."""
    return f"/static/{name}?{sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


@pass_context
def _now_at(context: Context) -> int:
    """Return the time of the block that the page was made at."""
    return int(context["chain"].time)
