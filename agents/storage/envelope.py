# SPDX-License-Identifier: Apache-2.0
"""A job key on its way to one node, over a public chain.

Rule: an envelope opens for one X25519 key, and only as what it was made for: the key of this job
for this node, on this chain and contract, under this key id.

It is HPKE, RFC 9180, base mode, with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and
ChaCha20-Poly1305; what it was made for is HPKE's `info`. On the chain it is

    version 1 | encapsulated key 32 | sealed job key 32 + 16                           (81 bytes)

Public keys of small order give the shared secret zero; RFC 9180 section 7.1.4 has them refused, on
both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from agents.storage.sealed import KEY_BYTES, key_id_of

_VERSION: Final = b"\x01"
_LABEL: Final = b"menagerie data key envelope v1"
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
BOX_BYTES: Final = len(_VERSION) + 32 + 16  # what sealing adds
ENVELOPE_BYTES: Final = BOX_BYTES + KEY_BYTES


class EnvelopeError(ValueError):
    """An envelope cannot be made or does not open; the message says which and why."""


@dataclass(frozen=True)
class Purpose:
    """What an envelope is made for. `contract`: 0x-address of DataKeys; `key_id`: 32 bytes."""

    chain_id: int
    contract: str
    job_id: int
    node_id: int
    key_id: bytes

    def to_bytes(self) -> bytes:
        """Label and fixed-width fields, so that no two purposes have the same bytes."""
        address = bytes.fromhex(self.contract.removeprefix("0x"))
        if len(address) != 20 or len(self.key_id) != 32:
            raise ValueError("a purpose needs a 20-byte address and a 32-byte key id")
        numbers = (self.chain_id, self.job_id, self.node_id)
        return _LABEL + address + self.key_id + b"".join(n.to_bytes(32, "big") for n in numbers)


def seal_key(key: bytes, recipient: bytes, purpose: Purpose) -> bytes:
    """Encrypt a 32-byte job key to a node's 32-byte X25519 public key; 81 bytes.

    Raises EnvelopeError when the key does not have the purpose's key id, or when the recipient is
    no usable public key (wrong length, zero, or a point of small order).
    """
    if key_id_of(key) != purpose.key_id:
        raise EnvelopeError(f"This key is not the key {purpose.key_id.hex()} that is to be sent.")
    try:
        return seal_box(key, recipient, purpose.to_bytes())
    except EnvelopeError as error:
        raise EnvelopeError(
            f"{error} Node {purpose.node_id} must set its encryption key."
        ) from None


def seal_box(plain: bytes, recipient: bytes, info: bytes) -> bytes:
    """Encrypt bytes to a 32-byte X25519 public key, for what `info` says; BOX_BYTES are added.

    Raises EnvelopeError when the recipient is no usable public key.
    """
    try:
        public = X25519PublicKey.from_public_bytes(recipient)
        return _VERSION + _SUITE.encrypt(plain, public, info=info)
    except (ValueError, InvalidTag):
        raise EnvelopeError(
            f"{recipient.hex()} is no X25519 public key that can be encrypted to."
        ) from None


def open_box(box: bytes, private: X25519PrivateKey, info: bytes) -> bytes:
    """What was sealed to this key for `info`.

    Raises EnvelopeError: another version, cut off, altered, or made for another key or purpose.
    """
    if len(box) < BOX_BYTES or not box.startswith(_VERSION):
        raise EnvelopeError("It is cut off, or of another version than 01.")
    try:
        return bytes(_SUITE.decrypt(box[1:], private, info=info))
    except (ValueError, InvalidTag):
        raise EnvelopeError(
            "It was made for another encryption key or another purpose, or was altered."
        ) from None


def is_usable(recipient: bytes) -> bool:
    """Whether a 32-byte public key can be encrypted to; the same answer for everyone."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(recipient))
    except ValueError:
        return False
    return True


def open_key(envelope: bytes, private: X25519PrivateKey, purpose: Purpose) -> bytes:
    """The 32-byte job key in an envelope.

    Raises EnvelopeError: another version or length, made for another key or purpose, altered, or
    holding a key that does not have the purpose's key id.
    """
    if len(envelope) != ENVELOPE_BYTES or not envelope.startswith(_VERSION):
        raise EnvelopeError(
            f"The envelope of job {purpose.job_id} has {len(envelope)} bytes and version "
            f"{envelope[:1].hex() or 'none'}; {ENVELOPE_BYTES} bytes of version 01 are known here."
        )
    try:
        key = bytes(_SUITE.decrypt(envelope[1:], private, info=purpose.to_bytes()))
    except (ValueError, InvalidTag):
        raise EnvelopeError(
            f"The envelope of job {purpose.job_id} does not open for node {purpose.node_id}: it "
            "was made for another encryption key, job, node, key or contract, or it was altered."
        ) from None
    if key_id_of(key) != purpose.key_id:
        raise EnvelopeError(
            f"The envelope of job {purpose.job_id} holds key {key_id_of(key).hex()}, but key "
            f"{purpose.key_id.hex()} was announced. The sponsor must release the right one."
        )
    return key
