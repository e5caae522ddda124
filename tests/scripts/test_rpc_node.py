# SPDX-License-Identifier: Apache-2.0
"""A chain that somebody else runs: its pace is measured, its clock waited for, a key pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account

from agents.runtime.wallet import create_keystore
from scripts._net import rpc_node
from scripts._net.anvil import MNEMONIC, start_anvil
from scripts._net.deployment import TaskTerms
from scripts._net.localnet import LocalnetSettings
from scripts._net.pace import BLOCKS, spacing
from scripts._net.ports import free_port
from scripts._net.processes import ProcessError, Supervisor
from scripts._net.rpc_node import reach

CHAIN, BLOCK_S, PASSPHRASE = 4_242, 1.0, "a throwaway passphrase"
RECEIVER = Account.create().address


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("chain")
    with Supervisor(folder / "logs") as supervisor:
        yield start_anvil(supervisor, folder, block_time=BLOCK_S, chain_id=CHAIN).url


def keystore(folder: Path, rich: bool) -> str:
    """A key of anvil's own, which has ether, or a new one."""
    Account.enable_unaudited_hdwallet_features()
    key = Account.from_mnemonic(MNEMONIC).key if rich else Account.create().key
    create_keystore(folder / "key.json", PASSPHRASE, bytes(key), iterations=2)
    return str(folder / "key.json")


def test_its_pace_and_clock(url: str) -> None:
    chain = reach(url)
    assert (chain.chain_id, chain.block_s) == (CHAIN, pytest.approx(BLOCK_S, abs=0.3))
    before = chain.w3.eth.get_block("latest")["timestamp"]
    chain.pass_time(2)
    assert chain.w3.eth.get_block("latest")["timestamp"] >= before + 2


@pytest.mark.parametrize("of_the_node", [True, False])
def test_a_key_with_ether_pays(url: str, tmp_path: Path, of_the_node: bool) -> None:
    chain = reach(url) if of_the_node else reach(url, keystore(tmp_path, True), PASSPHRASE)
    before = chain.w3.eth.get_balance(RECEIVER)
    other = Account.create().address
    chain.pay({RECEIVER: 7, other: 8})
    assert chain.w3.eth.get_balance(RECEIVER) == before + 7
    assert chain.w3.eth.get_balance(other) == 8


def test_too_little_ether_is_said_before_anything_is_sent(url: str, tmp_path: Path) -> None:
    chain = reach(url, keystore(tmp_path, False), PASSPHRASE)
    with pytest.raises(ProcessError, match="holds 0 ether on chain 4242, and the network takes 1"):
        chain.pay({RECEIVER: 10**18})


def test_a_wrong_passphrase_is_said(url: str, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="passphrase"):
        reach(url, keystore(tmp_path, True), "no")


def test_nobody_there_is_said() -> None:
    with pytest.raises(ProcessError, match=r"No RPC node answers at http://127\.0\.0\.1"):
        reach(f"http://127.0.0.1:{free_port()}")


def test_a_chain_that_mines_on_demand_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_node, "_SILENCE_S", 0.5)
    with Supervisor(tmp_path / "logs") as supervisor:
        lazy = start_anvil(supervisor, tmp_path)
        with pytest.raises(ProcessError, match=r"no block for 0\.5 s.*--dev\.period 1"):
            reach(lazy.url)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [([], 0.0), ([7], 0.0), ([0, 12, 24], 12.0), ([0, 1, 2, 9_000, 9_001], 1.0)],
)
def test_one_leap_of_the_clock_is_no_pace(times: list[int], seconds: float) -> None:
    assert spacing(times) == seconds


@pytest.mark.parametrize("block_s", [2.0, 12.0, 30.0])
def test_a_networks_windows_have_room_for_blocks(block_s: float) -> None:
    paced = LocalnetSettings().paced(block_s)
    assert paced.benchmark_window >= BLOCKS * block_s
    tasks, usual = paced.tasks, LocalnetSettings().tasks
    assert min(tasks.reveal_s, tasks.appeal_s, tasks.verdict_s) >= BLOCKS * block_s
    # As RedundantTasks demands: time for as many turns of slow executors as before.
    turns = usual.draw_s // (usual.max_run_s + usual.reveal_s)
    assert tasks.draw_s >= turns * (tasks.max_run_s + tasks.reveal_s)
    assert TaskTerms().paced(1.0) == TaskTerms()
