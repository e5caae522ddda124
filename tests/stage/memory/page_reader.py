# SPDX-License-Identifier: Apache-2.0
"""A page as its reader's browser takes it: elements, what is seen, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}
# A browser closes a paragraph or breaks a heading where one of these begins.
_PHRASING_ONLY = {"p", "h1", "h2", "h3", "summary"}
_BLOCKS = {"details", "div", "p", "ul", "table", "figure", "dl", "pre", "section", "h1", "h2", "h3"}


@dataclass
class Element:
    """One element: its attributes, and all text inside it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Element] = field(default_factory=list)


class Page(HTMLParser):
    """The parsed page. `faults`: tags that don't match, and blocks where only words may be."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[Element] = []
        self.faults: list[str] = []
        self._open: list[Element] = []
        self.feed(source)
        self.close()
        self.faults += [f"<{element.tag}> is never closed" for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        if tag in _BLOCKS:
            outer = [element.tag for element in self._open if element.tag in _PHRASING_ONLY]
            self.faults += [f"<{tag}> inside <{name}>" for name in outer]
        if self._open:
            self._open[-1].children.append(element)
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def find(self, tag: str, **attributes: str) -> list[Element]:
        """Elements with these attributes; `kind` means class, as one of several."""
        wanted = dict(attributes)
        kind = wanted.pop("kind", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (kind is None or kind in element.attributes.get("class", "").split())
            and all(element.attributes.get(k.replace("_", "-")) == v for k, v in wanted.items())
        ]

    def text(self, tag: str, **attributes: str) -> str:
        """All text in such elements, blanks made one."""
        return " ".join(" ".join(e.text for e in self.find(tag, **attributes)).split())
