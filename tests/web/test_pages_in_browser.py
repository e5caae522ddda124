# SPDX-License-Identifier: Apache-2.0
"""The pages in a real Chromium: for everybody, on a phone, by keyboard, quickly, and by themselves.

Pictures of every page in light, dark and on a phone are kept under report/web/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.stage.axe import ALL, CONTRAST, violations
from tests.stage.browser import visitor
from tests.stage.chain.finished_job import JOB
from tests.stage.underway import Underway
from tests.stage.web import Served

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "report/web"
DESK = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=360, height=740)
PAGES = {
    "home": "/",
    "job": f"/jobs/{JOB}",
    "round": f"/jobs/{JOB}/rounds/2",
    "round-copied": f"/jobs/{JOB}/rounds/3",
    "round-void": f"/jobs/{JOB}/rounds/4",
    "why-trainer": f"/jobs/{JOB}/rounds/2/nodes/6",
    "why-verifier": f"/jobs/{JOB}/rounds/2/nodes/1",
    "nodes": "/nodes",
    "node": "/nodes/6",
    "node-suspended": "/nodes/9",
    "tasks": "/tasks",
    "committee": "/committee",
    "sponsor": "/sponsor",
    "operator": "/operator",
    "about": "/about",
    "nowhere": "/nowhere",
}
Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, history: Served) -> Iterator[Open]:
    """Open a page in a context of its own; what its console says against it fails the test."""
    contexts: list[BrowserContext] = []
    said: list[str] = []

    def begin(path: str, **options: Any) -> Page:
        context = visitor(browser, history.url, viewport=DESK, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(f"{path}: {error}"))
        page.on("console", lambda line: said.append(f"{path}: {line.text}") if _bad(line) else None)
        page.on("request", lambda request: _own(request.url, history, said))
        page.goto(path)
        page.locator("main h1").wait_for()
        return page

    yield begin
    for context in contexts:
        context.close()
    assert said == []


def _bad(line: Any) -> bool:
    """Whether a line of the console speaks against the page; one that is not there is no error."""
    return line.type in ("error", "warning") and "status of 404" not in line.text


def _own(url: str, history: Served, said: list[str]) -> None:
    """The page may ask its own server, and the node that it names."""
    if not url.startswith((history.url, str(history.site.rpc_url), "data:", "blob:")):
        said.append(f"asked {url}")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everybody(open_page: Open, name: str) -> None:
    """One visit, because opening a page costs more than a look at it: its picture, axe, a phone."""
    page = open_page(PAGES[name], color_scheme="light", reduced_motion="reduce")
    _picture(page, f"{name}-light")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    small = page.evaluate(
        """() => [...document.querySelectorAll('main button, main .button, nav a')]
        .filter(e => e.offsetParent && e.getBoundingClientRect().height < 24)
        .map(e => e.textContent)"""
    )
    assert small == []  # a finger must hit them
    _picture(page, f"{name}-phone")
    page.set_viewport_size(DESK)
    assert _violations(page) == []
    # In the dark only colours differ.
    page.emulate_media(color_scheme="dark")
    _picture(page, f"{name}-dark")
    assert _violations(page, CONTRAST) == []


def _picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{name}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 8_000


def test_pages_are_for_everybody_while_things_are_undecided(
    browser: Browser, undecided: Underway
) -> None:
    bob, job = undecided.people.nodes["bob"].node_id, undecided.people.job
    options: dict[str, Any] = {"color_scheme": "light", "reduced_motion": "reduce"}
    context = visitor(browser, undecided.page.url, viewport=DESK, **options)
    page = context.new_page()
    running, convicted = f"/jobs/{job}/rounds/3", f"/jobs/{job}/rounds/2"
    for path in ("/", running, convicted, f"/nodes/{bob}", "/tasks", "/tasks/2", "/committee"):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(DESK)
        page.goto(path)
        page.locator("main h1").wait_for()
        name = re.sub(r"\W+", "-", path).strip("-") or "home"
        _picture(page, f"underway-{name}-light")
        assert _violations(page) == [], path
        page.emulate_media(color_scheme="dark")
        _picture(page, f"underway-{name}-dark")
        assert _violations(page, CONTRAST) == [], path
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    context.close()


def _violations(page: Page, rules: dict[str, Any] = ALL) -> list[tuple[str, str, str]]:
    """What axe finds wrong in a page of which everything is opened."""
    for details in page.locator("main details.fold").all():
        details.evaluate("each => each.open = true")
    return violations(page, rules, 21 if rules is ALL else 1)


_FOCUSABLE = """() => [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
    .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({visibilityProperty: true})
        && e.getClientRects().length)"""
# Looked up anew each time: live parts of a page are replaced while it is read.
_WHERE = f"""() => {{ const e = document.activeElement, s = getComputedStyle(e);
    return [({_FOCUSABLE})().indexOf(e), s.outlineStyle, parseFloat(s.outlineWidth)]; }}"""


@pytest.mark.parametrize("name", ["home", "job", "round", "why-trainer", "node", "operator"])
def test_the_keyboard_reaches_everything_and_shows_where_it_is(open_page: Open, name: str) -> None:
    page = open_page(PAGES[name])
    if (connect := page.locator("#wallet button")).count():
        connect.first.wait_for()
    many = page.evaluate(f"() => ({_FOCUSABLE})().length")
    reached, unseen = set(), []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(2 * many):
        place, style, width = page.evaluate(_WHERE)
        if place >= 0:
            reached.add(place)
            if style == "none" or width < 2:
                unseen.append(place)
        page.keyboard.press("Tab")
    radios = page.locator("input[type=radio]").count()  # arrows move inside a group of them
    missed = [each for each in range(many) if each not in reached]
    assert len(missed) <= radios and unseen == [], missed


def test_the_skip_link_leads_past_the_head(open_page: Open) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_point_of_a_curve_tells_its_figures_when_pointed_at(open_page: Open) -> None:
    page = open_page(PAGES["job"])
    strip = page.locator(".chart .strip").nth(2)
    told = strip.locator(".told")
    expect(told).to_have_css("opacity", "0")
    strip.locator(".hit").hover()
    expect(told).to_have_css("opacity", "1")
    assert re.fullmatch(r"round 2: loss \d\.\d+", str(told.text_content()))
    strip.locator(".hit").click()
    page.wait_for_url(f"**/jobs/{JOB}/rounds/2")


def test_a_hash_is_copied_whole_by_one_click(open_page: Open) -> None:
    page = open_page(PAGES["why-trainer"])
    each = page.locator("code.id").first
    each.click()
    assert page.evaluate("getSelection().toString()") == each.get_attribute("title")


def test_an_amount_opens_into_its_wei(open_page: Open) -> None:
    page = open_page("/")
    amount = page.locator("details.zoo").nth(1)
    expect(amount.locator(".wei")).to_be_hidden()
    amount.locator("summary").click()
    expect(amount.locator(".wei")).to_have_text(re.compile(r"^\d+ wei$"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_without_a_script(
    scriptless: BrowserContext, open_page: Open, name: str
) -> None:
    words = []
    for script in (True, False):
        page = open_page(PAGES[name]) if script else scriptless.new_page()
        if not script:
            page.goto(PAGES[name])
        words.append(page.locator("main h1").inner_text())
        counted = page.locator("main").locator("table tr, .figures > div, .facts > dt, svg")
        words.append(str(counted.count()))
        assert page.locator("main button:visible").count() == 0 or script
        page.close()
    assert words[:2] == words[2:]


@pytest.fixture(scope="module")
def scriptless(browser: Browser, history: Served) -> Iterator[BrowserContext]:
    context = visitor(browser, history.url, java_script_enabled=False)
    yield context
    context.close()


_SPEED = """() => new Promise(done => {
  let largest = 0, blocking = 0;
  new PerformanceObserver(list => list.getEntries().forEach(e => largest = e.startTime))
    .observe({type: 'largest-contentful-paint', buffered: true});
  new PerformanceObserver(list => list.getEntries().forEach(e => blocking += e.duration - 50))
    .observe({type: 'longtask', buffered: true});
  setTimeout(() => done({largest, blocking,
    bytes: performance.getEntriesByType('resource').reduce((sum, e) => sum + e.encodedBodySize,
      performance.getEntriesByType('navigation')[0].encodedBodySize)}), 400);
})"""


def test_pages_are_light(open_page: Open, capsys: pytest.CaptureFixture[str]) -> None:
    """Milliseconds depend on the machine: they are printed, and kept beside the pictures."""
    rows = []
    for name in ("home", "job", "round", "why-trainer", "node"):
        page = open_page(PAGES[name])
        rows.append((name, page.evaluate(_SPEED)))
    with capsys.disabled():
        for name, figure in rows:
            print(
                f"\n{name:12} largest paint {figure['largest']:6.0f} ms, "
                f"blocking {figure['blocking']:4.0f} ms, {figure['bytes'] / 1000:6.1f} kB",
                end="",
            )
        print()
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "speed.json").write_text(json.dumps(dict(rows), indent=1))
    assert all(figure["largest"] > 0 for _, figure in rows)
    assert all(0 < figure["bytes"] < 40_000 for _, figure in rows)
