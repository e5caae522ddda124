# SPDX-License-Identifier: Apache-2.0
"""A local chain that runs for long does not fill the disk with its log, and still tells errors."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scripts._net.anvil import STATES, start_anvil
from scripts._net.processes import ProcessError, Supervisor


def test_requests_and_blocks_leave_no_line(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        anvil = start_anvil(supervisor, tmp_path, block_time=0.2)
        account = anvil.rpc("eth_accounts")
        assert isinstance(account, list)
        for _ in range(100):
            anvil.rpc("eth_blockNumber")
        anvil.rpc("eth_sendTransaction", {"from": account[0], "data": "0xfe", "gas": "0x30d40"})
        with pytest.raises(RuntimeError, match="anvil refused eth_nope"):
            anvil.rpc("eth_nope")
        until = time.monotonic() + 60
        while int(str(anvil.rpc("eth_blockNumber")), 16) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        assert int(str(anvil.rpc("eth_blockNumber")), 16) >= 3
        assert len((tmp_path / "anvil.log").read_bytes()) < 200


def test_of_the_newest_blocks_it_answers_what_was_and_writes_nothing(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "logs") as supervisor:
        anvil = start_anvil(supervisor, tmp_path)
        account = anvil.rpc("eth_accounts")
        assert isinstance(account, list)
        for _ in range(10):
            anvil.rpc("anvil_mine", hex(60))
        newest = int(str(anvil.rpc("eth_blockNumber")), 16)
        assert int(str(anvil.rpc("eth_getBalance", account[0], hex(newest - STATES + 2))), 16)
        with pytest.raises(RuntimeError, match="BlockOutOfRange"):
            anvil.rpc("eth_getBalance", account[0], hex(newest - STATES - 2))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        tmp_path / "logs" / "anvil.log"
    ]


def test_a_chain_that_cannot_start_says_why(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        first = start_anvil(supervisor, tmp_path)
        with pytest.raises(ProcessError, match="Address already in use"):
            # Another chain id, so that the first chain's answers are not taken for the second's.
            start_anvil(supervisor, tmp_path, name="second", port=first.port, chain_id=5)


def test_a_saved_chain_goes_on_elsewhere_with_all_its_blocks(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        anvil = start_anvil(supervisor, tmp_path)
        account = anvil.rpc("eth_accounts")
        assert isinstance(account, list)
        sent = {"from": account[0], "to": account[1], "value": "0x1"}
        for _ in range(3):
            # The answer comes before the block: two sent at once may be in one.
            own = anvil.rpc("eth_sendTransaction", sent)
            while anvil.rpc("eth_getTransactionReceipt", own) is None:
                time.sleep(0.01)
        told = [anvil.rpc("eth_getBlockByNumber", hex(number), True) for number in range(4)]
        state = tmp_path / "chain.json"
        anvil.save(state)
    with Supervisor(tmp_path / "later") as supervisor:
        again = start_anvil(supervisor, tmp_path / "later", state=state)
        assert [again.rpc("eth_getBlockByNumber", hex(number), True) for number in range(4)] == told
        assert again.rpc("eth_blockNumber") == "0x3"
        transactions = told[3]["transactions"]  # type: ignore[index]
        receipt = again.rpc("eth_getTransactionReceipt", transactions[0]["hash"])
        assert receipt["status"] == "0x1"  # type: ignore[index]
