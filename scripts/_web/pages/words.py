# SPDX-License-Identifier: Apache-2.0
"""Numbers of the chain as a person reads them: amounts, times, hashes, states.

Rule: a filter that returns Markup has escaped whatever it was given; every other one returns a
string, which the templates escape.
"""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

from agents.protocol.numbers import Phase, Role
from scripts._report.amounts import zoo
from scripts._report.page.markup import count, listing, text
from scripts._shared.operation_words import percent

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_TAIL = 4  # characters at the end of a hash that are always seen


def amount(wei: int | str, unit: bool = True) -> Markup:
    """Return an amount in ZOO; opened, it shows every one of its units."""
    value = int(wei)
    word = "<span class='unit'> ZOO</span>" if unit else ""
    return Markup(
        f"<details class='zoo'><summary title='{value} wei'>{zoo(value)}{word}</summary>"
        f"<span class='wei'>{value} wei</span></details>"
    )


def plain_zoo(wei: int | str) -> str:
    """Return an amount in ZOO inside a sentence."""
    return f"{zoo(int(wei))} ZOO"


def identifier(value: str | bytes | None) -> Markup:
    """Return a hash, an address or a CID that shows its ends and holds all of it.

    The whole value is in the page: a click selects it, a copy takes it, a screen reader reads it.
    """
    if not value:
        return Markup("<span class='soft'>none</span>")
    whole = f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    if len(whole) <= 2 * _TAIL + 4:
        return Markup(f"<code class='id'>{text(whole)}</code>")
    head, tail = whole[:-_TAIL], whole[-_TAIL:]
    return Markup(
        f"<code class='id' title='{text(whole)}'><span class='id-head'>{text(head)}</span>"
        f"<span class='id-tail'>{text(tail)}</span></code>"
    )


def span(seconds: int | float) -> str:
    """Return a length of time in its one or two largest units."""
    rest, found = abs(int(seconds)), []
    for name, length in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            found.append(f"{count} {name}{'' if count == 1 else 's'}")
        elif found:
            break
        if len(found) == 2:
            break
    return " ".join(found) or "0 seconds"


def ago(then: int, now: int) -> str:
    """Return a point in time as seen from `now`, both in seconds of the chain."""
    if abs(then - now) < 2:
        return "just now"
    return f"{span(now - then)} ago" if then < now else f"in {span(then - now)}"


def moment(then: int, now: int) -> Markup:
    """Return a point in time, relative and, when pointed at, absolute."""
    if not then:
        return Markup("<span class='soft'>never</span>")
    return Markup(f"<time datetime='{_iso(then)}' title='{_exact(then)}'>{ago(then, now)}</time>")


def exact(then: int) -> Markup:
    """Return a point in time."""
    return Markup(f"<time datetime='{_iso(then)}'>{_exact(then)}</time>")


def dated(then: int, now: int) -> Markup:
    """Return a point in time, absolute and relative."""
    if not then:
        return Markup("<span class='soft'>never</span>")
    return Markup(
        f"<time datetime='{_iso(then)}'>{_exact(then)}</time> "
        f"<span class='soft'>({ago(then, now)})</span>"
    )


def until(then: int, now: int, over: str = "over") -> Markup:
    """Return a deadline; where there is a script, it counts down in the browser."""
    shown = ago(then, now) if then > now else over
    return Markup(
        f"<time datetime='{_iso(then)}' title='{_exact(then)}' data-until='{int(then)}' "
        f"data-now='{int(now)}' data-over='{text(over)}'>{shown}</time>"
    )


def _date(then: int) -> datetime:
    return datetime.fromtimestamp(min(max(int(then), 0), 253_402_300_799), UTC)


def _exact(then: int) -> str:
    return f"{_date(then):%Y-%m-%d %H:%M:%S} UTC"


def _iso(then: int) -> str:
    return f"{_date(then):%Y-%m-%dT%H:%M:%SZ}"


def size(count: int | None) -> str:
    """Return a number of bytes."""
    if count is None:
        return "size unknown"
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"


def roles(bits: int) -> str:
    """Return the roles of a node."""
    found = [role.name.lower() for role in Role if bits & role and role.name]
    return listing(found) or "no role"


def phase_word(number: int) -> str:
    """Return a phase of a round in one word."""
    try:
        return Phase(number).name.lower()
    except ValueError:
        return "unknown"


_PHASES = {
    Phase.NONE: "The job has opened no round yet.",
    Phase.COMMIT: "Trainers compute, and commit to their work before anybody shows any.",
    Phase.REVEAL: "Trainers publish what they committed to.",
    Phase.AGGREGATE: "An aggregator merges the updates and proposes the new model.",
    Phase.CHALLENGE: "Verifiers do the work again, and attest the result or report what is wrong.",
    Phase.DISPUTED: "Somebody challenged the result with a bond; the committee decides.",
    Phase.FINALIZED: "The model is in the ledger, and the round is paid.",
    Phase.VOID: "The round came to nothing; the job goes on with a new one.",
}


def phase_sentence(number: int) -> str:
    """Return what happens in a phase."""
    try:
        return _PHASES[Phase(number)]
    except ValueError:
        return ""


def prose(said: str) -> Markup:
    """Return a sentence of the commands, whose code stands between backticks."""
    parts = said.split("`")
    if len(parts) % 2 == 0:
        return Markup(text(said))
    marked = [f"<code>{text(p)}</code>" if n % 2 else text(p) for n, p in enumerate(parts)]
    return Markup("".join(marked))


FILTERS = {
    "amount": amount,
    "zoo": plain_zoo,
    "id": identifier,
    "span": span,
    "ago": ago,
    "moment": moment,
    "dated": dated,
    "exact": exact,
    "until": until,
    "size": size,
    "counted": count,
    "share": percent,
    "listed": listing,
    "roles": roles,
    "prose": prose,
    "phase_word": phase_word,
    "phase_sentence": phase_sentence,
}
