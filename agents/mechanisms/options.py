# SPDX-License-Identifier: Apache-2.0
"""Checks of plain options: a wrong value is refused with a sentence that says what is allowed."""

from __future__ import annotations

import math

MAX_MEMORY_ROUNDS = 64  # a verifier may have to do that many tasks of a node again
# Where nobody has to: jobs that are scored by what contributions do, not by doing them again.
LONG_MEMORY_ROUNDS = 65_536


def check_int(name: str, value: object, low: int, high: int) -> None:
    """ValueError unless `value` is an int (no bool) from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {value!r}.")


def check_float(name: str, value: object, low: float, high: float) -> None:
    """ValueError unless `value` is a finite int or float (no bool) from `low` to `high`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}.")


def check_bool(name: str, value: object) -> None:
    """ValueError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r}.")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """ValueError unless `value` is one of `choices`, and of its type: 16.0 is not 16."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        shown = ", ".join(map(str, choices))
        raise ValueError(f"{name} must be one of {shown}, not {value!r}.")
