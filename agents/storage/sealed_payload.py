# SPDX-License-Identifier: Apache-2.0
"""A payload that only some nodes can read: aggregators and verifiers of a round.

Rule: one fresh key per payload, in an HPKE envelope for each recipient (`agents.storage.envelope`),
and the payload under that key (`agents.storage.sealed`). The sealed part names the key by a binding
commitment, so that two recipients who can open it read the same bytes: a sender can never tell
different things to different readers. The head names every node that must be able to read it, and
everyone can check the head. A sender can still shut a node out by giving it an envelope that
doesn't open.

    magic 8 | version 1 | count 2 | count * (node 8 | envelope 81), ascending | sealed payload

Numbers are big-endian.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from agents.storage.envelope import ENVELOPE_BYTES, EnvelopeError, Purpose, seal_key
from agents.storage.errors import StoreError
from agents.storage.sealed import SealError, key_id_of, new_key, seal, sealed_size, unseal

MAX_RECIPIENTS: Final = 512
_MAGIC: Final = b"MENAGPAY"
_VERSION: Final = b"\x01"
_HEAD: Final = len(_MAGIC) + len(_VERSION) + 2
_ENTRY: Final = 8 + ENVELOPE_BYTES
_KEY_ID_AT: Final = 9  # in the sealed part: behind its magic and version

# (recipient's node id, key id) -> what its envelope is made for.
PurposeOf = Callable[[int, bytes], Purpose]


class NotForUs(StoreError):
    """A sealed payload that this node was given no usable envelope for."""


def sealed_bound(payload_bytes: int) -> int:
    """Upper bound on the size in bytes of a sealed payload of `payload_bytes`."""
    return _HEAD + MAX_RECIPIENTS * _ENTRY + sealed_size(payload_bytes)


def seal_payload(payload: bytes, recipients: Mapping[int, bytes], purpose_of: PurposeOf) -> bytes:
    """Seal for `recipients` (node id -> 32-byte X25519 public key).

    One whose public key can't be encrypted to is left out. ValueError if nobody is left, or for
    more than MAX_RECIPIENTS.
    """
    key = new_key()
    key_id = key_id_of(key)
    entries = []
    for node, public in sorted(recipients.items()):
        try:
            envelope = seal_key(key, public, purpose_of(node, key_id))
        except EnvelopeError:
            continue  # its own loss: nobody else is to be kept from reading
        entries.append(node.to_bytes(8, "big") + envelope)
    if not 1 <= len(entries) <= MAX_RECIPIENTS:
        raise ValueError(f"a payload is sealed for 1 to {MAX_RECIPIENTS} nodes, not {len(entries)}")
    body = io.BytesIO()
    seal(io.BytesIO(payload), body, key, 0)
    head = _MAGIC + _VERSION + len(entries).to_bytes(2, "big")
    return head + b"".join(entries) + body.getvalue()


def open_payload(
    raw: bytes,
    node: int,
    unwrap: Callable[[bytes, Purpose], bytes],
    purpose_of: PurposeOf,
    readers: Collection[int] = (),
) -> bytes:
    """The payload, opened as `node`.

    Args:
        unwrap: opens an envelope made for this node.
        readers: nodes that must have an envelope.

    Raises:
        NotForUs: there is no envelope for this node, or it doesn't open.
        SealError: these bytes are no sealed payload, were altered, or leave a reader out.
    """
    envelopes, body = _split(raw, readers)
    plain = io.BytesIO()
    unseal(io.BytesIO(body), plain, _own_key(envelopes, body, node, unwrap, purpose_of), 0)
    return plain.getvalue()


def payload_key(
    raw: bytes, node: int, unwrap: Callable[[bytes, Purpose], bytes], purpose_of: PurposeOf
) -> bytes:
    """The 32-byte key of a payload that `node` can open. Raises NotForUs, SealError."""
    envelopes, body = _split(raw, ())
    return _own_key(envelopes, body, node, unwrap, purpose_of)


def open_with(raw: bytes, keys: Iterable[bytes], readers: Collection[int] = ()) -> bytes:
    """The payload, for whoever was told its key. The payload itself says which of `keys` that is.

    Raises:
        NotForUs: none of these keys is that of the payload.
        SealError: as `open_payload`.
    """
    _, body = _split(raw, readers)
    wanted = _key_id_of(body)
    key = next((key for key in keys if key_id_of(key) == wanted), None)
    if key is None:
        raise NotForUs("the key of the sealed payload was not disclosed")
    plain = io.BytesIO()
    unseal(io.BytesIO(body), plain, key, 0)
    return plain.getvalue()


def _key_id_of(body: bytes) -> bytes:
    return body[_KEY_ID_AT : _KEY_ID_AT + 32]


def _own_key(
    envelopes: Mapping[int, bytes],
    body: bytes,
    node: int,
    unwrap: Callable[[bytes, Purpose], bytes],
    purpose_of: PurposeOf,
) -> bytes:
    if node not in envelopes:
        raise NotForUs(f"the payload is not sealed for node {node}")
    try:
        return unwrap(envelopes[node], purpose_of(node, _key_id_of(body)))
    except EnvelopeError as error:
        raise NotForUs(str(error)) from error


def _split(raw: bytes, readers: Collection[int]) -> tuple[dict[int, bytes], bytes]:
    """Envelopes by node, and the sealed part; SealError as `open_payload`."""
    count = int.from_bytes(raw[_HEAD - 2 : _HEAD], "big")
    if raw[: len(_MAGIC)] != _MAGIC or raw[len(_MAGIC) : len(_MAGIC) + 1] != _VERSION:
        raise SealError(
            "The payload is not sealed as this job demands: its first bytes are others."
        )
    if not 1 <= count <= MAX_RECIPIENTS or len(raw) < _HEAD + count * _ENTRY + _KEY_ID_AT + 32:
        raise SealError(f"The sealed payload is cut off or names {count} recipients.")
    entries = [raw[_HEAD + i * _ENTRY : _HEAD + (i + 1) * _ENTRY] for i in range(count)]
    envelopes = {int.from_bytes(entry[:8], "big"): entry[8:] for entry in entries}
    if len(envelopes) != count or list(envelopes) != sorted(envelopes):
        raise SealError("The recipients of the sealed payload are not in ascending order.")
    left_out = sorted(set(readers) - envelopes.keys())
    if left_out:
        raise SealError(f"The payload is not sealed for node {left_out[0]}, which must read it.")
    return envelopes, raw[_HEAD + count * _ENTRY :]
