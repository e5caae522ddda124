# SPDX-License-Identifier: Apache-2.0
"""Text of strangers in a real Chromium: whatever a chain, a store or an address says stays text.

Every text field of everything that the index, the store and the explanations answer is replaced by
an attack, one field at a time in turn over a corpus; then a browser reads the pages. Fields that
the contracts can only fill with a number or a word of their own keep it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Dialog
from pydantic import BaseModel

from agents.audit.explain import Explainer
from agents.storage.canonical import dumps
from scripts._web.api.artefacts import Artefacts
from scripts._web.pages import committee, routes, tasks
from tests.stage.browser import visitor
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.crawl import Page
from tests.stage.web import Served, served

CORPUS = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "'><svg onload=window.hacked=1>",
    "javascript:window.hacked=1//",
    "</title></textarea></style></script><script>window.hacked=1</script>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    '" autofocus onfocus=window.hacked=1 x="',
    "' style='position:fixed;inset:0' onmouseover='window.hacked=1",
    "{{ ''.__class__.__mro__ }}{% raw %}<b onclick=window.hacked=1>",
    "<!--><math><mtext></p><a href=javascript:window.hacked=1>x",
    "&lt;script&gt;window.hacked=1&lt;/script&gt;",
    "\u202e\u2066txt.exe\x00\x1b[31m\ufeff<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'><link rel=import href=//evil.example>",
    "x" * 3_000 + "<plaintext>",
    "data:text/html,<script>window.hacked=1</script>",
)
# Words of the contracts and of the index's own code.
_OWN = {"phase", "status", "state", "role", "roles", "approved", "did", "hash", "event"}
_PATHS = (
    *("/", f"/jobs/{JOB}", f"/jobs/{JOB}/rounds/2", f"/jobs/{JOB}/rounds/4", "/nodes"),
    *("/nodes/9", f"/jobs/{JOB}/rounds/2/nodes/9", "/committee", "/tasks"),
)


class Poison:
    """Puts an attack into every text of an answer. `put`: how many it has put."""

    def __init__(self) -> None:
        self._corpus = cycle(CORPUS)
        self.put = 0

    def text(self, *_: object) -> str:
        """The next attack."""
        self.put += 1
        return next(self._corpus)

    def whole(self, value: Any, name: str = "") -> Any:
        """The same answer with attacks in place of its texts."""
        if isinstance(value, str):
            return value if name in _OWN else self.text()
        if isinstance(value, BaseModel):
            fields = {key: self.whole(getattr(value, key), key) for key in type(value).model_fields}
            return type(value).model_construct(**fields)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: self.whole(getattr(value, field.name), field.name)
                for field in dataclasses.fields(value)
                if field.init
            }
            return type(value)(**fields)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self.whole(each, name) for each in value)
        return value

    def of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose answers are poisoned."""
        return lambda *args, **options: self.whole(real(*args, **options))


@pytest.fixture
def poisoned(
    finished: FinishedJob, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, Poison]]:
    poison = Poison()
    for name in ("home", "job", "round_", "node", "nodes"):
        real = getattr(routes.queries, name)
        monkeypatch.setattr(routes.queries, name, poison.of(real))
    monkeypatch.setattr(Artefacts, "reason", poison.text)
    monkeypatch.setattr(Artefacts, "spec", poison.text)
    monkeypatch.setattr(Explainer, "node", poison.of(Explainer.node))
    monkeypatch.setattr(routes, "committee_page", poison.of(committee.committee_page))
    monkeypatch.setattr(tasks, "newest", poison.of(tasks.newest))
    given = finished.url, finished.deployment, f"sqlite:///{tmp_path / 'index.db'}"
    with served(*given, store=finished.store, pages=routes.PAGES) as page:
        yield page, poison


class Reader:
    """A browser whose reader clicks and points at everything. `said`: what must not happen."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.context = visitor(browser, url, viewport={"width": 360, "height": 740})
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("dialog", self._opened)
        self.page.on("request", lambda request: self._asked(request.url, url))
        self.page.on("console", lambda line: self._heard(line.text))

    def _opened(self, dialog: Dialog) -> None:
        self.said.append("dialog")
        dialog.dismiss()

    def _asked(self, asked: str, url: str) -> None:
        if not asked.startswith((url, "data:", "http://127.0.0.1")):
            self.said.append(f"asked {asked[:100]}")

    def _heard(self, text: str) -> None:
        if "Content Security Policy" in text:  # it held, but it should not have been needed
            self.said.append(text[:200])

    def read(self, path: str) -> None:
        """Read a page, open what can be opened, and point at what shows more."""
        self.page.goto(path)
        self.page.locator("main h1").wait_for()
        self.page.evaluate(
            """() => { for (const d of document.querySelectorAll('details')) d.open = true;
            for (const e of document.querySelectorAll('main *')) {
              e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
              if (e.focus) e.focus(); } }"""
        )
        found = self.page.evaluate(
            """() => ({hacked: window.hacked ?? null, wide: document.documentElement.scrollWidth,
            bad: [...document.querySelectorAll('*')].filter(e =>
              [...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style')
              || /^(iframe|base|object|embed|math|plaintext|img)$/i.test(e.tagName)
              || (e.tagName === 'SCRIPT' && !e.src.includes('/static/island/'))
              || (e.tagName === 'META' && e.httpEquiv)
              || (e.protocol && !['http:', 'https:', ':'].includes(e.protocol))
            ).map(e => e.outerHTML.slice(0, 200))})"""
        )
        assert found["hacked"] is None and found["bad"] == [], path
        assert found["wide"] <= 360, f"{path} is {found['wide']} wide"


def test_whatever_an_answer_says_stays_text(
    browser: Browser, poisoned: tuple[Served, Poison]
) -> None:
    page, poison = poisoned
    reader = Reader(browser, page.url)
    for path in _PATHS:
        before = poison.put
        reader.read(path)
        shown = Page(path, 200, reader.page.request.get(page.url + path).text())
        assert shown.problems == [] and (poison.put > before or path == "/tasks"), path
        assert not {"\x00", "\x1b", "\u202e", "\u2066", "\ufeff"} & {*shown.html}, path
    assert reader.said == [] and poison.put > 300
    reader.context.close()


@pytest.mark.parametrize("attack", CORPUS[:13])
def test_whatever_an_address_says_stays_text(
    browser: Browser, history: Served, attack: str
) -> None:
    reader = Reader(browser, history.url)
    told = quote(attack, safe="")
    for path in (f"/{told}", f"/jobs/{told}", f"/nodes?after={told}", f"/tasks/{told}"):
        reader.read(path)
    assert reader.said == []
    reader.context.close()


def test_a_strangers_file_is_no_page(
    browser: Browser, history: Served, finished: FinishedJob
) -> None:
    html = b"<!doctype html><script>window.hacked=1</script><h1>pay here</h1>"
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>"
    for raw in (html, svg, dumps({"a": "<script>"})):
        cid = finished.store.put_bytes(raw)
        context = visitor(browser, history.url)
        answer = context.request.get(f"/api/store/{cid}")
        assert answer.status == 200 and answer.body() == raw
        assert answer.headers["content-type"].startswith("application/octet-stream")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "attachment" in answer.headers["content-disposition"]
        page = context.new_page()
        page.goto("/about")
        with page.expect_download() as started:
            page.evaluate("path => { location.href = path; }", f"/api/store/{cid}")
        assert Path(started.value.path()).read_bytes() == raw and page.url.endswith("/about")
        assert page.evaluate("window.hacked ?? null") is None
        context.close()
