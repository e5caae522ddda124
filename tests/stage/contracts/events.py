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


def _told(log: Any) -> Event:
    """The emitting address is left out."""
    return type(log).__name__, {f: getattr(log, f) for f in log._fields if f != "address"}


def logged(contract: Any) -> list[Event]:
    """(event name, {field: value}) of every event the last call of `contract` emitted, in order,
    those of the contracts it called included."""
    return [_told(log) for log in contract.get_logs()]


def events_of(contract: Any, emitter: Any = None) -> list[Event]:
    """The events of the last call of a contract, whole, in order: those it emitted itself, or those
    that another contract emitted in the same call."""
    address = (emitter or contract).address
    return [_told(log) for log in contract.get_logs() if log.address == address]
