# SPDX-License-Identifier: Apache-2.0
"""Checks of the options of merge rules: type and range, before a round needs them."""

from __future__ import annotations

import math
from fractions import Fraction


class MergeRefused(ValueError):
    """Too few payloads for what the rule promises; the message says how many it needs."""


def number(rule: str, name: str, value: object, low: float, high: float) -> float:
    """`value` as float if it is an int or float in [low, high]; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} of {rule} must be a number, not {value!r}.")
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name} of {rule} must lie from {low:g} to {high:g}, not {value!r}.")
    return float(value)


def whole(rule: str, name: str, value: object, low: int, high: int) -> int:
    """`value` if it is an int in [low, high]; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} of {rule} must be an integer, not {value!r}.")
    if not low <= value <= high:
        raise ValueError(f"{name} of {rule} must lie from {low} to {high}, not {value}.")
    return value


def flag(rule: str, name: str, value: object) -> bool:
    """`value` if it is a bool; ValueError otherwise."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} of {rule} must be true or false, not {value!r}.")
    return value


def liars(fraction: float, count: int) -> int:
    """f = floor(fraction * count), in exact decimal arithmetic: 0.29 of 100 is 29, not 28."""
    return math.floor(Fraction(repr(fraction)) * count)


def at_least(rule: str, count: int, least: int, why: str) -> None:
    """MergeRefused unless `count` >= `least`; `why` completes the sentence."""
    if count < least:
        raise MergeRefused(
            f"{rule} needs at least {least} updates and got {count}: {why}. "
            "Wait for more nodes, or choose the merge rule mean, median or trimmed_mean."
        )
