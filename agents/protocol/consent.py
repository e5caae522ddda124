# SPDX-License-Identifier: Apache-2.0
"""An operator's consent to serve a node: the typed data that its key signs (EIP-712).

Rule: nobody makes an address an operator without its signature. A consent names the owner and is
used up by the registration or the change that it was given for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TYPES = {
    "OperatorConsent": [
        {"name": "operator", "type": "address"},
        {"name": "owner", "type": "address"},
        {"name": "nonce", "type": "uint256"},
    ]
}


class TypedData(NamedTuple):
    """The three parts of EIP-712 typed data, in the order in which a signer takes them."""

    domain: dict[str, Any]
    types: dict[str, Any]
    message: dict[str, Any]


def operator_consent(
    registry: str, chain_id: int, operator: str, owner: str, nonce: int
) -> TypedData:
    """Return what `operator` signs; `nonce` is NodeRegistry's `consents_used` of it."""
    domain = {
        "name": "Menagerie NodeRegistry",
        "version": "1",
        "chainId": chain_id,
        "verifyingContract": registry,
    }
    return TypedData(domain, TYPES, {"operator": operator, "owner": owner, "nonce": nonce})
