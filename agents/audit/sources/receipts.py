# SPDX-License-Identifier: Apache-2.0
"""Logs held against the blocks they come from, so that an RPC node can't alter one unseen.

Rule: a header's hash commits to its fields, one of them the root of the block's receipts, and
those hold the logs. Both are made again here (Ethereum yellow paper, sections 4.3 and 4.4.2, and
appendix D; receipt types: EIP-2718), so a log is as good as the hash of its block. Chains with
headers or receipts of another make can't be checked in this way; that is said, not hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

_EMPTY = keccak(rlp.encode(b""))
# Header fields in order; those after `nonce` came with forks, and a header has them or not.
_FIXED = (
    "parentHash",
    "sha3Uncles",
    "miner",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "logsBloom",
    "difficulty",
    "number",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "extraData",
    "mixHash",
    "nonce",
)
_FORKS = (
    "baseFeePerGas",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
)
_NUMBERS = {
    "difficulty",
    "number",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "baseFeePerGas",
    "blobGasUsed",
    "excessBlobGas",
}


def header_hash(block: Mapping[str, Any]) -> bytes:
    """The hash of a block from the fields of its JSON-RPC form. ValueError for odd fields."""
    names = [*_FIXED, *(name for name in _FORKS if block.get(name) is not None)]
    try:
        return keccak(
            rlp.encode([_number(block[n]) if n in _NUMBERS else _bytes(block[n]) for n in names])
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the header has no usable {error}") from error


def receipts_root(receipts: Sequence[Mapping[str, Any]]) -> bytes:
    """The root of a block's receipts from their JSON-RPC form. ValueError for odd ones."""
    try:
        items = {rlp.encode(index): _receipt(receipt) for index, receipt in enumerate(receipts)}
    except (KeyError, TypeError) as error:
        raise ValueError(f"a receipt has no usable {error}") from error
    return trie_root(items)


def _receipt(receipt: Mapping[str, Any]) -> bytes:
    logs = [
        [_bytes(log["address"]), [_bytes(topic) for topic in log["topics"]], _bytes(log["data"])]
        for log in receipt["logs"]
    ]
    outcome = _number(receipt["status"]) if "status" in receipt else _bytes(receipt["root"])
    body = [
        outcome,
        _number(receipt["cumulativeGasUsed"]),
        _bytes(receipt["logsBloom"]),
        logs,
    ]
    kind = int(receipt.get("type") or "0x0", 16)
    return (bytes([kind]) if kind else b"") + rlp.encode(body)


def trie_root(items: Mapping[bytes, bytes]) -> bytes:
    """The root of the Merkle Patricia trie of non-empty values by key."""
    if not items:
        return _EMPTY
    pairs = sorted((_nibbles(key), value) for key, value in items.items())
    return keccak(rlp.encode(_node(pairs, 0)))


def _node(pairs: Sequence[tuple[bytes, bytes]], depth: int) -> Any:
    """The node over sorted (nibbles, value) pairs that agree in their first `depth` nibbles."""
    first, last = pairs[0][0], pairs[-1][0]
    if len(pairs) == 1:
        return [_packed(first[depth:], True), pairs[0][1]]
    shared = depth
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return [_packed(first[depth:shared], False), _reference(_node(pairs, shared))]
    branch: list[Any] = [b""] * 17
    rest = list(pairs)
    if len(first) == depth:
        branch[16] = rest.pop(0)[1]
    for nibble in range(16):
        below = [pair for pair in rest if pair[0][depth] == nibble]
        if below:
            branch[nibble] = _reference(_node(below, depth + 1))
    return branch


def _reference(node: Any) -> Any:
    raw = rlp.encode(node)
    return node if len(raw) < 32 else keccak(raw)


def _nibbles(key: bytes) -> bytes:
    return bytes(part for byte in key for part in (byte >> 4, byte & 15))


def _packed(nibbles: bytes, leaf: bool) -> bytes:
    flag = 2 * leaf + len(nibbles) % 2
    whole = bytes([flag]) + nibbles if len(nibbles) % 2 else bytes([flag, 0]) + nibbles
    return bytes(16 * high + low for high, low in zip(whole[::2], whole[1::2], strict=True))


def _number(text: str) -> int:
    return int(text, 16)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
