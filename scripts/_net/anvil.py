# SPDX-License-Identifier: Apache-2.0
"""A local chain: the anvil binary, always with the EIP-7825 transaction gas cap.

Rule: the binary itself is run, never npm's Node wrapper (killing that leaves anvil behind), and
what it keeps on disk is bounded and lies in a folder of ours. Its log holds errors only.
"""

from __future__ import annotations

import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

import requests

from scripts._net.compiled import ROOT
from scripts._net.ports import free_port
from scripts._net.processes import Process, ProcessError, Supervisor

CHAIN_ID = 31_337
# Test accounts of the well-known mnemonic; anvil gives each 10,000 ether.
MNEMONIC = "test test test test test test test test test test test junk"
_PERSISTED_STATES = 64
# Where a block is mined for each transaction, of so many newest blocks it answers what was, and
# nothing is on disk: past 500 blocks, to write old states would cost more than to mine. Where
# blocks come by the clock, anvil would keep 1,500 states in memory for ever.
STATES = 128
_REQUEST_TIMEOUT_S = 5.0
_WALLET_WEI = 10**19
# anvil writes every request and block unless each of its own targets is named here: it sets
# `node=info` itself. With --quiet, only errors are left.
_ERRORS = "error,node=error,node::user=error,backend=error"


def find_anvil() -> str:
    """Return the path of the anvil binary: the set-up's, else the one on PATH.

    Raises ProcessError when there is none.
    """
    installed = ROOT / "tools" / "bin" / "anvil"
    found = str(installed) if installed.exists() else shutil.which("anvil")
    if found is None:
        raise ProcessError("anvil was not found; run `make setup`, or put anvil 1.7 on PATH.")
    return found


@dataclass(frozen=True)
class Anvil:
    """A running local chain. `block_s`: seconds from block to block, 0 for one a transaction."""

    port: int
    process: Process
    chain_id: int = CHAIN_ID
    block_s: float = 0.0

    @property
    def url(self) -> str:
        """HTTP address; the WebSocket is on the same port."""
        return f"http://127.0.0.1:{self.port}"

    def rpc(self, method: str, *params: object) -> object:
        """Send a JSON-RPC request, such as evm_mine or anvil_reorg. Raises RuntimeError."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = requests.post(self.url, json=body, timeout=_REQUEST_TIMEOUT_S).json()
        if "error" in answer:
            raise RuntimeError(f"anvil refused {method}: {answer['error'].get('message')}")
        return answer.get("result")

    def fees(self) -> None:
        """Nothing to offer for gas: transactions are mined as they come."""

    def wei_for(self, gas: int) -> int:
        """Ether for a wallet, in wei: play money, whatever `gas` it is meant for."""
        return _WALLET_WEI

    def next_block(self) -> None:
        """Make a block."""
        self.rpc("evm_mine")

    def pass_time(self, seconds: int) -> None:
        """Move the chain's clock on."""
        self.rpc("evm_increaseTime", seconds)
        self.next_block()

    def save(self, path: Path) -> None:
        """Write all blocks and the newest state to a file that `anvil --load-state` starts from.

        Raises RuntimeError.
        """
        saved = bytes.fromhex(str(self.rpc("anvil_dumpState")).removeprefix("0x"))
        path.write_bytes(gzip.decompress(saved))


def start_anvil(
    supervisor: Supervisor,
    directory: Path,
    *,
    name: str = "anvil",
    port: int | None = None,
    block_time: float | None = None,
    chain_id: int = CHAIN_ID,
    accounts: int = 10,
    state: Path | None = None,
) -> Anvil:
    """Start a chain and wait until it answers.

    `block_time` in seconds; None mines a block per transaction. `state` is a file that is loaded
    when it exists and written every second, so that even a killed chain can be continued.
    `directory` takes the old states that anvil keeps on disk. Raises ProcessError.
    """
    port = free_port() if port is None else port
    cache = directory / f"{name}-states"
    cache.mkdir(parents=True, exist_ok=True)
    command = [
        find_anvil(),
        *("--host", "127.0.0.1", "--port", str(port), "--chain-id", str(chain_id)),
        *("--mnemonic", MNEMONIC, "--accounts", str(accounts)),
        *("--cache-path", str(cache)),
        "--enable-tx-gas-limit",
        "--quiet",
    ]
    if block_time is not None:
        command += ["--block-time", f"{block_time:g}"]
        command += ["--max-persisted-states", str(_PERSISTED_STATES)]
    else:
        command += ["--prune-history", str(STATES)]
    if state is not None:
        command += ["--state", str(state), "--state-interval", "1"]

    def answers() -> bool:
        try:
            return int(str(anvil.rpc("eth_chainId")), 16) == chain_id
        except (requests.RequestException, RuntimeError, ValueError):
            return False

    process = supervisor.start(name, command, env={"NO_COLOR": "1", "RUST_LOG": _ERRORS})
    anvil = Anvil(port, process, chain_id, block_time or 0.0)
    supervisor.wait_ready(name, answers, timeout_s=60.0)
    return anvil
