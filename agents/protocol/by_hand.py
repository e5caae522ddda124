# SPDX-License-Identifier: Apache-2.0
"""The salts of operations that members of the committee propose by hand, which agents know too."""

from __future__ import annotations


def salt_by_hand(number: int) -> bytes:
    """The salt of a call that members propose by hand, `number` times before this one."""
    return number.to_bytes(32, "big")
