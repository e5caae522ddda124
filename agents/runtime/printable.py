# SPDX-License-Identifier: Apache-2.0
"""Strangers' words as an operator may read them: in a terminal, a log for people, a metric.

Rule: an RPC node, a contract, a store and whoever wrote an artefact choose words that end in errors
and logs. No character of them moves a cursor, colours, hides or turns round what stands beside it,
and every text has a form in UTF-8.
"""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""The text with each character that isn't printed as `\x1b` or `\u202e`; those of `keep` stay.

    Lone surrogates, which JSON can hold and UTF-8 can't, are no printed characters either.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _code(ord(c)) for c in text)


def _code(place: int) -> str:
    if place > 0xFFFF:
        return f"\\U{place:08x}"
    return f"\\u{place:04x}" if place > 0xFF else f"\\x{place:02x}"
