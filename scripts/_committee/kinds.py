# SPDX-License-Identifier: Apache-2.0
"""How a member writes time spans, shares and digests at a terminal."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from agents.protocol.numbers import BPS

_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,15}) ?(s|min|h|d)")


class Span(click.ParamType):
    """A time span such as 20s, 30min, 12h or 7d; the value is in seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        found = _SPAN.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no time span; give one such as 20s, 30min, 12h or 7d.")
        return int(found[1]) * _UNITS[found[2]]


class Share(click.ParamType):
    """A share such as 12.5% or 12.5; the value is in 1/10,000."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the share in 1/10,000. No share of the contracts is finer."""
        if isinstance(value, int):
            return value
        try:
            share = Decimal(value.removesuffix("%").strip()) * (BPS // 100)
            if not share.is_finite() or share != share.to_integral_value() or not 0 <= share <= BPS:
                raise InvalidOperation
        except ArithmeticError:
            self.fail(f"{value!r} is no share; give one from 0 to 100 % with at most two decimals.")
        return int(share)


class Digest(click.ParamType):
    """32 bytes in hexadecimal digits, or a CID."""

    name = "digest"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        """Return the 32 bytes."""
        from agents.storage.cid import digest_of
        from agents.storage.errors import StoreError

        if isinstance(value, bytes):
            return value
        if re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", value):
            return bytes.fromhex(value.removeprefix("0x"))
        try:
            return digest_of(value)
        except (StoreError, ValueError):
            self.fail(f"{value!r} is neither 32 bytes in hexadecimal digits nor a CID.")


SPAN, SHARE, DIGEST = Span(), Share(), Digest()
