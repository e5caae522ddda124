# SPDX-License-Identifier: Apache-2.0
"""The page as a whole: one well-formed file that loads nothing, shows strangers' text as text, can
be read in both colour schemes, and can be made again from the data beside it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts._report.page.__main__ import main
from scripts._report.page.markup import _visible, text
from scripts._report.page.report import render, write_report
from scripts._report.page.style import CURVES, DARK, LIGHT
from scripts._report.run import Run
from scripts._report.story import Story
from tests.stage.memory.demo_run import HOSTILE, a_run
from tests.stage.memory.page_reader import Page

EMPTY = Run("Menagerie: nothing happened", Story(1), [])


@pytest.mark.parametrize("run", [a_run(), EMPTY], ids=["a run", "nothing"])
def test_it_is_well_formed(run: Run) -> None:
    page = Page(render(run))
    assert page.faults == []
    names = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(names) == len(set(names))
    links = {link.attributes["href"].removeprefix("#") for link in page.find("a")}
    assert links <= {*names, "run.json", "checkpoint.safetensors"}


def test_it_loads_nothing() -> None:
    page = Page(render(a_run()))
    assert not {"script", "link", "iframe", "object", "img"} & {e.tag for e in page.elements}
    for element in page.elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "style", "xlink:href", "action"):
                assert "//" not in value and "url(" not in value
    assert "@import" not in page.source and "url(" not in page.source


def test_strangers_text_is_shown_as_text() -> None:
    page = Page(render(a_run()))
    assert "<script" not in page.source and "alert(" in page.source
    assert "\u202e" not in page.source and "\x07" not in page.source
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x07", "\u2407")
    for part in ("header", "article", "main"):
        assert shown in page.text(part), part
    for section in ("cheats", "lanes", "model", "checks", "curves", "nodes", "figures", "events"):
        assert shown in page.text("section", id=section), section


def test_it_can_be_used_without_eyes() -> None:
    page = Page(render(a_run()))
    levels = [int(e.tag[1]) for e in page.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for drawing in page.find("svg"):
        named = drawing.attributes.get("role") == "img" and drawing.attributes.get("aria-label")
        assert named or drawing.attributes.get("aria-hidden") == "true"
    assert all(table.text.strip() for table in page.find("caption"))
    assert len(page.find("caption")) == len(page.find("table"))
    assert page.find("html", lang="en") and page.find("meta", name="viewport")


def _light_of(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_it_has_contrast(scheme: dict[str, str]) -> None:
    written = ["ink", "soft", "good", "bad", *(f"c{place}" for place in range(CURVES))]
    for name, back in product(written, ("back", "card")):
        low, high = sorted((_light_of(scheme[name]), _light_of(scheme[back])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, back)


def test_both_colour_schemes_are_in_it() -> None:
    source = render(a_run())
    assert "prefers-color-scheme: dark" in source and "color-scheme: light dark" in source
    assert LIGHT.keys() == DARK.keys()
    assert all(f"--back: {scheme['back']}" in source for scheme in (LIGHT, DARK))
    body = source[source.index("</style>") :]
    assert not re.search(r"#[0-9a-f]{6}\b", body.replace("&#", "")), "a fixed colour"


def test_it_can_be_made_again(tmp_path: Path) -> None:
    run = a_run()
    page = write_report(tmp_path, run, b"weights")
    first = page.read_text(encoding="utf-8")
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == b"weights"
    assert Run.read(tmp_path / "run.json") == run
    page.unlink()
    result = CliRunner().invoke(main, [str(tmp_path / "run.json")])
    assert result.exit_code == 0 and page.read_text(encoding="utf-8") == first


def test_what_there_is_nothing_of_is_left_out() -> None:
    whole, bare = (
        {e.attributes["id"] for e in Page(render(run)).find("section")}
        for run in (a_run(), replace(a_run(), books=None, story=Story(1)))
    )
    assert "money" in whole and "money" not in bare


def test_text__what_is_printable_is_shown_as_it_is() -> None:
    """Such a text takes a shorter way, to the same end."""
    printable = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isprintable()]
    assert "".join(map(_visible, printable)) == "".join(printable)
    assert text("a\0b") == "a␀b"
