# SPDX-License-Identifier: Apache-2.0
"""Every log and every time of a record against the headers and receipts of its blocks.

Rule: what `eth_getLogs` says must be what the receipts of the block hold, those must have the root
that the block's header names, and the header the hash that the block is known by. Where a chain's
headers are of another make, or its node gives no receipts, the audit says that it had to believe
the node's logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agents.audit.sources.findings import Part
from agents.audit.sources.receipts import header_hash, receipts_root
from agents.audit.sources.record import Record
from agents.runtime.errors import RpcRefused

_THREADS = 8


def check_logs(record: Record, part: Part) -> None:
    """Prove the record's logs and headers; a difference for each that is not so."""
    blocks = sorted(record.raw)
    headers = {number: record.raw_header(number) for number in {*blocks, *record.seen}}
    sound = {number for number, header in headers.items() if _is_sound(header)}
    if not sound:
        part.remark("This chain's headers are of another make: its logs were believed as given.")
        return
    for number, header in headers.items():
        stated = _text(header, "hash")
        part.hold(
            "logs",
            number in sound,
            f"block {number}",
            f"its header doesn't have the hash {stated} that the RPC node gives for it.",
        )
    for number in headers:
        if number - 1 in headers:
            said, parent = _text(headers[number], "parentHash"), _text(headers[number - 1], "hash")
            part.same("logs", f"block {number}", "its parent", said, parent)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            receipts = list(pool.map(lambda n: _receipts(record, n), blocks))
    except RpcRefused as error:
        part.remark(f"The logs were believed as given: {error}")
        return
    for number, found in zip(blocks, receipts, strict=True):
        _check_block(record, part, number, headers[number], found)


def _receipts(record: Record, block: int) -> list[Any]:
    found = record.chain.request("eth_getBlockReceipts", hex(block))
    return found if isinstance(found, list) else []


def _is_sound(header: Mapping[str, Any]) -> bool:
    try:
        return "0x" + header_hash(header).hex() == _text(header, "hash")
    except ValueError:
        return False


def _check_block(
    record: Record,
    part: Part,
    number: int,
    header: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
) -> None:
    where = f"block {number}"
    try:
        root = "0x" + receipts_root(receipts).hex()
    except ValueError as error:
        part.differ("logs", where, f"its receipts can't be used: {error}.")
        return
    if not part.same(
        "logs", where, "the root of its receipts", root, _text(header, "receiptsRoot")
    ):
        return
    addresses = {address.lower() for address in record.addresses}
    proven = {}
    index = 0
    for receipt in receipts:
        for log in receipt["logs"]:
            if str(log["address"]).lower() in addresses:
                proven[index] = (log, str(receipt.get("transactionHash")))
            index += 1
    given = {int(log["logIndex"], 16): log for log in record.raw[number]}
    for index in sorted(proven.keys() | given.keys()):
        one, (other, tx) = given.get(index), proven.get(index, (None, ""))
        what = record.describe(one or other)
        if one is None or other is None:
            words = "left out by the RPC node" if one is None else "not in the block's receipts"
            part.hold("logs", False, what, f"log {index} of block {number} is {words}.")
            continue
        for name in ("address", "topics", "data"):
            if one[name] != other[name]:
                pairs = record.fields(one), record.fields(other)
                for field in pairs[1]:
                    part.same("logs", what, field, pairs[0].get(field), pairs[1][field])
        part.same("logs", what, "its transaction", str(one["transactionHash"]), tx)
        part.same("logs", what, "its block", str(one["blockHash"]), _text(header, "hash"))


def _text(header: Mapping[str, Any], name: str) -> str:
    return str(header.get(name))
