# SPDX-License-Identifier: Apache-2.0
"""What a contract refuses: an attack that fails at the door, and the check that it does."""

from __future__ import annotations

from typing import Any

from scripts._attacks.embedded import Embedded, Refused


def refused(
    chain: Embedded, reason: str, sender: str, name: str, function: str, *args: Any
) -> None:
    """Send what must revert for this reason. Raises AssertionError if it is done, or if it reverts
    for another reason."""
    try:
        chain.send(sender, name, function, *args)
    except Refused as error:
        if str(error) == reason:
            return
        raise AssertionError(f"{name}.{function}: {str(error)!r} instead of {reason!r}.") from None
    raise AssertionError(f"{name}.{function} was done, and should revert: {reason!r}.")
