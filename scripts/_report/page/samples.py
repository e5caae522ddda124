# SPDX-License-Identifier: Apache-2.0
"""Text that the model wrote before the first round and after the last, as it is."""

from __future__ import annotations

from collections.abc import Sequence

from scripts._report.page.markup import count, text
from scripts._report.run import Sample

_NOTE = (
    "The same prompt and the same way of choosing tokens, for the model that the job began with "
    "and for the last one. A small model after a few rounds writes badly; this is all that it says."
)


def samples(given: Sequence[Sample]) -> list[str]:
    """Before and after, side by side; nothing if there are none."""
    if not given:
        return []
    lines = ["<h3>What it writes</h3>", f"<p class='soft small'>{_NOTE}</p>"]
    for sample in given:
        lines.append(f"<p>{text(sample.how)}:</p><div class='cards'>")
        for when, written in (
            ("before the first round", sample.before),
            ("after the last round", sample.after),
        ):
            lines.append(
                f"<figure class='card'><figcaption>{when}</figcaption>"
                f"<pre><b>{text(sample.prompt)}</b>{text(written)}</pre>"
                f"<p class='soft small'>{_size(written)}</p></figure>"
            )
        lines.append("</div>")
    return lines


def _size(written: str) -> str:
    """How much it is, for blanks cannot be seen."""
    kinds = len(set(written))
    blank = ", all blank" if written and not written.strip() else ""
    return f"{count(len(written), 'character')}, {kinds} different{blank}"
