# SPDX-License-Identifier: Apache-2.0
"""A reader of the whole site without a script: every page that a link leads to, from the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

FIRST = ("/", "/nodes", "/tasks", "/committee", "/sponsor", "/operator", "/about")
_VOID = {"meta", "link", "input", "br", "hr", "img", "wbr", "source", "area", "col", "base"}


@dataclass
class Page(HTMLParser):
    """One page as a browser would build it. `problems`: what breaks its own rules."""

    path: str
    status: int
    html: str
    links: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        if self._open:
            self.problems.append(f"not closed: {self._open}")
        self.problems += [f"id {i} twice" for i in {*self.ids} if self.ids.count(i) > 1]

    @property
    def text(self) -> str:
        """What is read of it."""
        return " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        given = dict(attrs)
        if tag not in _VOID and not (self.rawdata and self._self_closed()):
            self._open.append(tag)
        for name in given:
            if name == "style" or name.startswith("on"):
                self.problems.append(f"<{tag} {name}>")
        if tag == "style" or (tag == "script" and not given.get("src")):
            self.problems.append(f"inline <{tag}>")
        if (tag, given.get("id")) and given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("href", "src", "action", "formaction"):
            if (value := given.get(name)) is not None and tag != "form":
                self.links.append(value)
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))

    def _self_closed(self) -> bool:
        return (self.get_starttag_text() or "").endswith("/>")

    def handle_endtag(self, tag: str) -> None:
        """Close an element; one that was not open is a problem."""
        if tag in _VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        """Read text."""
        if not self._open or self._open[-1] not in ("script", "style"):
            self.words.append(data)


def crawl(url: str, most: int = 400, client: httpx.Client | None = None) -> dict[str, Page]:
    """Read every page of a site that links lead to. Paths of `/api` and `/static` are not pages."""
    found: dict[str, Page] = {}
    todo = list(FIRST)
    with client or httpx.Client(timeout=120) as reader:
        while todo and len(found) < most:
            path = todo.pop(0)
            if path in found:
                continue
            answer = reader.get(url + path, headers={"accept": "text/html"})
            page = found[path] = Page(path, answer.status_code, answer.text)
            for link in page.links:
                parts = urlsplit(urldefrag(urljoin(url + path, link))[0])
                same = f"{parts.scheme}://{parts.netloc}" == url
                target = parts.path + (f"?{parts.query}" if parts.query else "")
                if same and not target.startswith(("/api", "/static")):
                    todo.append(target)
    return found
