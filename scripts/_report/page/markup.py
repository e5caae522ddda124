# SPDX-License-Identifier: Apache-2.0
"""What all parts of a page are written with.

Rule: everything that comes from a chain, a store or a model goes through `text`. A string that a
function of this folder returns or takes as `body` or `cells` is markup already.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence

from scripts._report.amounts import zoo

_SHORT = 10  # characters of a hash that are shown before it is opened


def text(raw: object) -> str:
    """Any string as markup that shows it: no tag, no control character, no change of direction."""
    shown = str(raw)
    # Printable is what `_visible` leaves alone, and nearly every text of a page is.
    if not shown.isprintable():
        shown = "".join(map(_visible, shown))
    return html.escape(shown, quote=True)


def _visible(character: str) -> str:
    kind = unicodedata.category(character)
    if character in "\n\t" or kind not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def amount(wei: int) -> str:
    """An amount in ZOO; a click shows it to the last unit."""
    return f"<details class='wei'><summary>{zoo(wei)}</summary>{wei} wei</details>"


def short(value: str) -> str:
    """A hash or CID by its first characters; a click shows all of it."""
    if len(value) <= _SHORT + 2:
        return f"<code>{text(value)}</code>"
    return (
        f"<details class='hash'><summary><code>{text(value[:_SHORT])}…</code></summary>"
        f"<code>{text(value)}</code></details>"
    )


def section(name: str, title: str, body: Iterable[str]) -> str:
    """A part of the page with its heading; `name` is its anchor."""
    parts = "\n".join(body)
    return (
        f"<section id='{name}' aria-labelledby='{name}-title'>"
        f"<h2 id='{name}-title'>{text(title)}</h2>\n{parts}\n</section>"
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], caption: str, numbers: bool = True
) -> str:
    """A table that scrolls by itself where it is too wide; cells are markup.

    `numbers`: all columns but the first are set flush right. The first column heads its row.
    """
    kind = " class='n'" if numbers else ""
    lines = [
        f"<div class='wrap' tabindex='0' role='region' aria-label='{text(caption)}'><table>",
        f"<caption class='unseen'>{text(caption)}</caption>",
    ]
    if any(head):
        cells = "".join(
            f"<th scope='col'{kind if place else ''}>{text(name)}</th>"
            for place, name in enumerate(head)
        )
        lines.append(f"<thead><tr>{cells}</tr></thead>")
    lines.append("<tbody>")
    for first, *rest in rows:
        cells = "".join(f"<td{kind}>{cell}</td>" for cell in rest)
        lines.append(f"<tr><th scope='row'>{first}</th>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def folded(summary: str, body: Iterable[str]) -> str:
    """What most readers skip: only its name is seen until it is clicked."""
    parts = "\n".join(body)
    return f"<details class='fold'><summary>{text(summary)}</summary>\n{parts}\n</details>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Names with what they mean; the latter is markup."""
    parts = (f"<dt>{text(name)}</dt><dd>{body}</dd>" for name, body in pairs)
    return f"<dl>{''.join(parts)}</dl>"


def listing(names: Sequence[object], last: str = "and") -> str:
    """Names as a sentence lists them; `last`: the word before the last one."""
    said = [str(name) for name in names]
    if len(said) < 2:
        return "".join(said)
    return f"{', '.join(said[:-1])} {last} {said[-1]}"


def count(number: int, noun: str, plural: str = "s") -> str:
    """A number with its noun; `plural`: what the noun then ends with."""
    return f"{number:,} {noun}{'' if number == 1 else plural}"
