# SPDX-License-Identifier: Apache-2.0
"""Errors as pages, in the language of the others: what is wrong, and what the reader can do."""

from __future__ import annotations

from dataclasses import dataclass

_HEADINGS = {
    400: "That cannot be asked",
    404: "There is nothing here",
    405: "That cannot be asked",
    422: "That cannot be asked",
    429: "Too many questions",
    503: "Not ready yet",
}


@dataclass(frozen=True)
class Progress:
    """How far the index is. `done` of `whole` blocks."""

    done: int
    whole: int


def heading(status: int) -> str:
    """Return what an error page says first."""
    return _HEADINGS.get(status, "Something went wrong here")
