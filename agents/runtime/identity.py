# SPDX-License-Identifier: Apache-2.0
"""The key that a node is written to: X25519, derived from its operator key.

Rule: there is no second secret to keep. The private key is HKDF-SHA256 of the operator's key with a
label of its own (`Wallet.derive`): whoever can unlock the keystore can read what was sent to the
node, whoever restores the keystore from a backup has both keys again, and knowing one derived key
says nothing about the operator key. A new operator key gives a new encryption key.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agents.runtime import logs
from agents.runtime.wallet import Wallet
from agents.storage.envelope import Purpose, open_key

_LABEL = b"menagerie node encryption key v1"


class Identity:
    """`public`: the 32 bytes that stand as `encryption_key` in the node's registry entry."""

    def __init__(self, wallet: Wallet) -> None:
        secret = wallet.derive(_LABEL)
        logs.redact(secret.hex())
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()})"

    def open(self, envelope: bytes, purpose: Purpose) -> bytes:
        """The job key in an envelope for this node. Raises EnvelopeError."""
        key = open_key(envelope, self._private, purpose)
        logs.redact(key.hex())
        return key
