# SPDX-License-Identifier: Apache-2.0
"""Events of the last call as plain values, so that a test compares them whole."""

from __future__ import annotations

from typing import Any

Event = tuple[str, dict[str, Any]]


def event(name: str, /, **fields: Any) -> Event:
    """An expected event: its name and its arguments, as `logged` gives them."""
    return name, fields


def of_round(name: str, /, **fields: Any) -> Event:
    """An expected event of the first round of job 1."""
    return event(name, job_id=1, round_id=1, **fields)


def logged(contract: Any) -> list[Event]:
    """(event name, {field: value}) of every event the last call of `contract` emitted, in order,
    those of the contracts it called included. The emitting address is left out."""
    events = []
    for event in contract.get_logs():
        fields = {name: getattr(event, name) for name in event._fields if name != "address"}
        events.append((type(event).__name__, fields))
    return events
