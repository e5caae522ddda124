# SPDX-License-Identifier: Apache-2.0
"""The frame of every page: one file, with its style in it, that asks for nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scripts._report.page.markup import section, text
from scripts._report.page.style import STYLE


def document(
    title: str, opening: Iterable[str], sections: Sequence[tuple[str, str, Sequence[str]]]
) -> str:
    """A whole page. A section is its anchor, its heading and its body; empty ones are left out."""
    shown = [given for given in sections if given[2]]
    links = "".join(f"<a href='#{name}'>{text(heading)}</a> " for name, heading, _ in shown)
    return "\n".join(
        [
            "<!doctype html>",
            "<html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}</style></head><body>",
            *opening,
            f"<nav aria-label='On this page'>{links}</nav><main>",
            *(section(name, heading, body) for name, heading, body in shown),
            "</main></body></html>",
            "",
        ]
    )
