# SPDX-License-Identifier: Apache-2.0
"""Logs held against receipts and headers: fields that nothing else depends on are safe, too."""

from __future__ import annotations

from typing import Any

import pytest
from eth_utils.crypto import keccak

from agents.audit.sources.receipts import header_hash, receipts_root, trie_root
from tests.agents.audit.test_chain import target
from tests.stage.chain.changes import in_place_of
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.chain.lying_sources import changed, relogged

# Fields that no other check reads.
_FREE = [
    ("NodeRegistered", "encryption_key"),
    ("RoundOpened", "last aggregators"),
    ("BenchmarkSubmitted", "root"),
    ("JobFunded", "funder"),
    ("NodeSlashed", "amount"),
]


@pytest.mark.parametrize(("event", "field"), _FREE)
def test_an_altered_log_is_named_with_its_field(
    finished: FinishedJob, event: str, field: str
) -> None:
    log, kind, args = target(finished, event)
    top = field.removeprefix("last ")
    item = next(i for i in kind.abi["inputs"] if i["name"] == top)
    other = dict(changed(item, args[top]))[field]
    lie = in_place_of(log, relogged(kind, log, {**args, top: other}))
    found = [d for d in finished.audited(lie=lie, receipts=True).differences if d.check == "logs"]
    assert len(found) == 1
    assert found[0].subject.startswith(event)
    assert found[0].sentence.startswith(f"{top} is ")


def test_a_log_left_out_and_a_log_made_up_are_found(finished: FinishedJob) -> None:
    log, _, _ = target(finished, "RoundFinalized")
    gone = finished.audited(lie=in_place_of(log, None), receipts=True)
    assert any("left out by the RPC node" in d.sentence for d in gone.differences)

    def lie(method: str, params: list[Any], result: Any) -> Any:
        return [*result, {**log, "logIndex": "0x63"}] if method == "eth_getLogs" else result

    more = finished.audited(lie=lie, receipts=True)
    assert any("not in the block's receipts" in d.sentence for d in more.differences)


def test_receipts_that_fit_the_lie_do_not_fit_the_header(finished: FinishedJob) -> None:
    """Receipts altered like the log don't have the header's root any more."""
    log, kind, args = target(finished, "NodeRegistered")
    other = relogged(kind, log, {**args, "encryption_key": b"\x07" * 32})

    def lie(method: str, params: list[Any], result: Any) -> Any:
        result = in_place_of(log, other)(method, params, result)
        if method == "eth_getBlockReceipts" and params[0] == log["blockNumber"]:
            swap = in_place_of(log, other)
            return [{**r, "logs": swap("eth_getLogs", [], r["logs"])} for r in result]
        return result

    found = [d for d in finished.audited(lie=lie, receipts=True).differences if d.check == "logs"]
    assert len(found) == 1
    assert "the root of its receipts is" in found[0].sentence


def test_a_header_that_fits_the_lie_does_not_fit_its_hash(finished: FinishedJob) -> None:
    block = target(finished, "JobFunded")[0]["blockNumber"]

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_getBlockByNumber" and params[0] == block:
            return {**result, "timestamp": hex(int(result["timestamp"], 16) + 1)}
        return result

    found = [d for d in finished.audited(lie=lie, receipts=True).differences if d.check == "logs"]
    assert [d.subject for d in found] == [f"block {int(block, 16)}"]


def test_headers_with_other_fields_are_believed_and_it_is_said(finished: FinishedJob) -> None:
    """Headers with a field of their own are not called lies; the audit says what it believed."""

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method == "eth_getBlockByNumber" and result:
            return {**result, "requestsHash": None}
        return result

    audit = finished.audited(lie=lie, receipts=True)
    assert audit.holds
    assert any("believed as given" in remark for remark in audit.job.remarks)


def test_trie_roots_are_those_of_ethereums_tests() -> None:
    """Roots from the Ethereum project's trie tests (`trieanyorder.json`), and the empty one."""
    dogs = {b"doe": b"reindeer", b"dog": b"puppy", b"dogglesworth": b"cat"}
    wanted = "8aad789dff2f538bca5d8ea56e8abe10f4c7ba3a5dea95fea4cd6e7c3a1168d3"
    assert trie_root(dogs).hex() == wanted
    single = {b"A": b"a" * 50}
    wanted = "d23786fb4a010da3ce639d66d5e904a11dbc02746d1ce25029e53290cabf28ab"
    assert trie_root(single).hex() == wanted
    assert trie_root({}) == keccak(b"\x80")


ODD = [{"logs": [], "status": "x", "cumulativeGasUsed": 1, "logsBloom": None}]


@pytest.mark.parametrize(
    ("read", "given"),
    [(header_hash, {}), (receipts_root, [{"logs": []}]), (receipts_root, ODD)],
    ids=["header without fields", "receipt without fields", "receipt of odd fields"],
)
def test_odd_headers_and_receipts_are_refused(read: Any, given: Any) -> None:
    with pytest.raises(ValueError):
        read(given)
