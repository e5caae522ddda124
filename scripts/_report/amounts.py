# SPDX-License-Identifier: Apache-2.0
"""Amounts of 1e-18 ZOO as a person reads them."""

from __future__ import annotations

from decimal import Decimal

from agents.protocol.numbers import ZOO

_DIGITS = 3  # of an amount below 1 ZOO
_LEAST = Decimal("0.0001")


def zoo(amount: int) -> str:
    """In ZOO, without the unit: two decimals, or three digits of less than 1 ZOO.

    Whole amounts have no decimals, and dust has no digits.
    """
    value = Decimal(amount) / ZOO
    if value == value.to_integral_value():
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:,.2f}"
    return f"{float(value):.{_DIGITS}g}" if abs(value) >= _LEAST else "≈0"
