# SPDX-License-Identifier: Apache-2.0
"""The round as a clock: a ring of its four phases, as long as their windows, and its hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from agents.protocol.numbers import Phase
from scripts._web.pages.draw.svg import arc, picture, tag, title, words

PHASES = (Phase.COMMIT, Phase.REVEAL, Phase.AGGREGATE, Phase.CHALLENGE)
_GAP = 0.012  # turns between two phases
_SIZE, _RADIUS = 120, 50
_LEAST = 0.09  # turns: a short window still shows


@dataclass(frozen=True)
class Clock:
    """A round's place in time.

    Attributes:
        windows: seconds of COMMIT, REVEAL, AGGREGATE and CHALLENGE, as the job's terms fix them.
        phase: where the round is.
        left: seconds until its phase is over at the latest; negative if it is overdue.
    """

    windows: Sequence[int]
    phase: Phase
    left: int


def clock(given: Clock) -> Markup:
    """Return the ring. What is over is solid, what runs is filled as far as its time has passed."""
    if given.phase not in (*PHASES, Phase.DISPUTED, Phase.FINALIZED, Phase.VOID):
        return Markup("")
    spans, turn = _spans(given.windows), 0.0
    done = given.phase in (Phase.FINALIZED, Phase.VOID)
    parts = []
    for phase, window, span in zip(PHASES, given.windows, spans, strict=True):
        start, end = turn + _GAP / 2, turn + span - _GAP / 2
        name = phase.name.lower()
        inside = [title(f"{name}: {window} s at most")]
        inside.append(tag("path", d=arc(60, 60, _RADIUS, start, end), class_="clock-track"))
        here = given.phase == phase or (given.phase == Phase.DISPUTED and phase == Phase.CHALLENGE)
        share = 1.0 if done or (phase < given.phase and not here) else 0.0
        if here:
            share = min(1.0, max(0.02, 1 - given.left / max(window, 1)))
        if share:
            path = arc(60, 60, _RADIUS, start, start + (end - start) * share)
            inside.append(tag("path", d=path, class_=f"clock-run p-{name}"))
        parts.append(tag("g", *inside, class_="clock-here" if here else None))
        turn += span
    parts.append(words(_centre(given), x=60, y=58, class_="clock-figure", text_anchor="middle"))
    parts.append(words(_below(given), x=60, y=76, class_="clock-word", text_anchor="middle"))
    over = {Phase.FINALIZED: " clock-over", Phase.VOID: " clock-void"}.get(given.phase, "")
    label = f"{_below(given)}: {_centre(given)}" if not done else _centre(given)
    return picture(_SIZE, _SIZE, f"Round clock, {label}", *parts, class_=f"clock{over}")


def _spans(windows: Sequence[int]) -> list[float]:
    """Return shares of a turn, proportional to the windows but none below the least."""
    whole = sum(windows) or 1
    raised = [max(window / whole, _LEAST) for window in windows]
    return [share / sum(raised) for share in raised]


def _centre(given: Clock) -> str:
    if given.phase == Phase.FINALIZED:
        return "done"
    if given.phase == Phase.VOID:
        return "void"
    if given.left < 0:
        return "due"
    return brief(given.left)


def _below(given: Clock) -> str:
    return {Phase.FINALIZED: "paid", Phase.VOID: "not paid", Phase.DISPUTED: "disputed"}.get(
        given.phase, given.phase.name.lower()
    )


def brief(seconds: int) -> str:
    """Return a span of time in one unit that fits into a ring."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
